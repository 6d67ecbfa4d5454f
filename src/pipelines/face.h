// Parts of the face pipeline that can be tested without networks.
#ifndef ITG_PIPELINES_FACE_H
#define ITG_PIPELINES_FACE_H

#include <stdbool.h>

#include "base/status.h"
#include "intaglio/pipelines.h"

// Least-squares rotation, uniform scale and translation from `count` source to target points, as a 2x3 matrix
// (Umeyama 1991; in the plane it has a closed form and never mirrors). Errors: SHAPE (source points coincide, numbers that
// are not finite).
ITG_MUST_USE itg_status itg_similarity_transform(const double (*source)[2], const double (*target)[2], int count,
                                                 itg_diagnostic *diagnostic, double matrix[6]);

// A box in whole pixels inside the photograph, as the reference cuts it: truncated towards zero, then clamped to
// [0, width - 1] and [0, height - 1]. False when nothing is left.
typedef struct itg_pixel_box {
  int64_t x1, y1, x2, y2; // x2 and y2 are not part of it.
} itg_pixel_box;
bool itg_face_pixel_box(const double box[4], const itg_image *photograph, itg_pixel_box *out);

// Intersection over union; 0 for boxes without area.
double itg_face_overlap(const double a[4], const double b[4]);

#endif
