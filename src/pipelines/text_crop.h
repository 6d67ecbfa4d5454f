// Lines of text cut out of a picture and set upright.
#ifndef ITG_PIPELINES_TEXT_CROP_H
#define ITG_PIPELINES_TEXT_CROP_H

#include "base/status.h"
#include "intaglio/services.h"

// Width over height of the line that lies in a box, once it is set upright (boxes of 1.5 times their width are turned by
// 90 degrees); 0 for a box without area.
double itg_text_proportion(const itg_text_box *box);
// The box's pixels as an upright picture (Pillow's perspective transform). `image` is RGB or grey. Free with
// itg_image_free. Errors: SHAPE (a box without area, or with numbers that are not finite), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_text_crop(const itg_image *image, const itg_text_box *box, itg_diagnostic *diagnostic,
                                      itg_image *out);

#endif
