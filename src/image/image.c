// Lifetime of decoded images.
#include <stdlib.h>

#include "intaglio/pipelines.h"

void itg_image_free(itg_image *image) {
  free(image->pixels);
  *image = (itg_image){0};
}
