// Links libintaglio-pipelines (and the runtime behind it) without the compiler.
#include <stdio.h>

#include "intaglio/pipelines.h"

int main(void) {
  itg_image image = {0};
  itg_diagnostic why = {0};
  if (itg_image_decode("no image", 8, NULL, &why, &image) != ITG_ERROR_FORMAT) return 1;
  itg_preprocess *preprocess = NULL;
  if (itg_preprocess_open("imagenet", &why, &preprocess) != ITG_OK) return 2;
  puts(itg_preprocess_json(preprocess));
  itg_preprocess_close(preprocess);
  itg_image_free(&image);
  return 0;
}
