// From five points of a face to an aligned crop, and from the crop to the embedder's input.
#include <math.h>
#include <string.h>

#include "image/image.h"
#include "pipelines/face.h"

enum { SIDE = ITG_FACE_CROP_SIDE };

// ArcFace's reference points of a 112x112 crop: eyes, nose, mouth corners.
static const double reference_points[5][2] = {
    {38.2946, 51.6963}, {73.5318, 51.5014}, {56.0252, 71.7366}, {41.5493, 92.3655}, {70.7299, 92.2041}};

itg_status itg_similarity_transform(const double (*source)[2], const double (*target)[2], int count,
                                    itg_diagnostic *diagnostic, double matrix[6]) {
  double source_mean[2] = {0, 0}, target_mean[2] = {0, 0};
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < 2; k++) {
      source_mean[k] += source[i][k] / count;
      target_mean[k] += target[i][k] / count;
    }
  }
  // With points as complex numbers around their means, the best factor is sum(conj(s) * t) / sum(|s|^2).
  double real = 0, imaginary = 0, spread = 0;
  for (int i = 0; i < count; i++) {
    const double sx = source[i][0] - source_mean[0], sy = source[i][1] - source_mean[1];
    const double tx = target[i][0] - target_mean[0], ty = target[i][1] - target_mean[1];
    real += sx * tx + sy * ty;
    imaginary += sx * ty - sy * tx;
    spread += sx * sx + sy * sy;
  }
  const double a = real / spread, b = imaginary / spread;
  const double result[6] = {a, -b, target_mean[0] - (a * source_mean[0] - b * source_mean[1]),
                            b, a,  target_mean[1] - (b * source_mean[0] + a * source_mean[1])};
  for (int i = 0; i < 6; i++)
    if (!isfinite(result[i]))
      ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL,
               "the points of the face coincide or are not finite; it cannot be aligned");
  if (a == 0 && b == 0) ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL, "the points of the face give no transform");
  memcpy(matrix, result, sizeof result);
  return ITG_OK;
}

itg_status itg_face_crop(const itg_image *photograph, const itg_face *face, itg_diagnostic *diagnostic, uint8_t *out) {
  double matrix[6];
  ITG_TRY(itg_image_check(photograph, diagnostic));
  ITG_TRY(itg_similarity_transform(face->points, reference_points, 5, diagnostic, matrix));
  itg_warp_affine(itg_image_view_of(photograph), matrix, SIDE, SIDE, out);
  if (photograph->channels == 1)
    for (size_t i = SIDE * SIDE; i-- > 0;) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = out[i];
  return ITG_OK;
}

void itg_face_embedder_input(const uint8_t *crop, float *out) {
  for (size_t i = 0; i < SIDE * SIDE; i++)
    for (size_t c = 0; c < 3; c++) out[c * SIDE * SIDE + i] = ((float)crop[3 * i + 2 - c] - 127.0f) / 128.0f;
}
