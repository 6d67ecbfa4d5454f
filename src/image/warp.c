// OpenCV 5's warpAffine (bilinear, black border) and the grey conversions.
//
// OpenCV 5 interpolates in single precision with fused multiply-adds; OpenCV 4 used a 1/32 pixel grid, which differs by a
// few codes. Interpolation goes across, then down, and the result is rounded half to even.
#include <math.h>
#include <string.h>

#include "image/image.h"

// OpenCV's vector loop (AVX2) takes blocks of 16 pixels; the pixels that are left over in a row go through its scalar
// loop, whose sum associates differently.
enum { BLOCK = 16 };

// The inverse of an affine map, in OpenCV's order of operations.
static void invert(const double m[6], float out[6]) {
  double determinant = m[0] * m[4] - m[1] * m[3];
  determinant = determinant != 0 ? 1.0 / determinant : 0;
  const double a = m[4] * determinant, b = m[1] * -determinant, c = m[3] * -determinant, d = m[0] * determinant;
  out[0] = (float)a;
  out[1] = (float)b;
  out[2] = (float)(-a * m[2] - b * m[5]);
  out[3] = (float)c;
  out[4] = (float)d;
  out[5] = (float)(-c * m[2] - d * m[5]);
}

static const uint8_t *pixel(itg_image_view source, int64_t x, int64_t y) {
  static const uint8_t black[3] = {0, 0, 0};
  if (x < 0 || y < 0 || x >= source.width || y >= source.height) return black;
  return source.pixels + (size_t)y * source.stride + (size_t)x * (size_t)source.channels;
}

void itg_warp_affine(itg_image_view source, const double matrix[6], int32_t width, int32_t height, uint8_t *out) {
  float m[6];
  invert(matrix, m);
  const size_t channels = (size_t)source.channels;
  const int32_t blocks = width / BLOCK * BLOCK;
  for (int32_t y = 0; y < height; y++) {
    const float row_x = (float)y * m[1] + m[2], row_y = (float)y * m[4] + m[5];
    for (int32_t x = 0; x < width; x++, out += channels) {
      const float column = (float)x;
      const float at_x = x < blocks ? fmaf(m[0], column, row_x) : fmaf(column, m[0], (float)y * m[1]) + m[2];
      const float at_y = x < blocks ? fmaf(m[3], column, row_y) : fmaf(column, m[3], (float)y * m[4]) + m[5];
      const float floor_x = floorf(at_x), floor_y = floorf(at_y);
      // Also false for NaN; beyond these bounds all four neighbours are border.
      if (!(floor_x >= -1 && floor_y >= -1 && floor_x < (float)source.width && floor_y < (float)source.height)) {
        memset(out, 0, channels);
        continue;
      }
      const int64_t left = (int64_t)floor_x, top = (int64_t)floor_y;
      const float across = at_x - floor_x, down = at_y - floor_y;
      const uint8_t *corner[4] = {pixel(source, left, top), pixel(source, left + 1, top), pixel(source, left, top + 1),
                                  pixel(source, left + 1, top + 1)};
      for (size_t c = 0; c < channels; c++) {
        const float upper = fmaf(across, (float)(corner[1][c] - corner[0][c]), corner[0][c]);
        const float lower = fmaf(across, (float)(corner[3][c] - corner[2][c]), corner[2][c]);
        out[c] = (uint8_t)lrintf(fmaf(down, lower - upper, upper));
      }
    }
  }
}

void itg_grey_opencv(const uint8_t *rgb, size_t count, uint8_t *out) {
  for (size_t i = 0; i < count; i++)
    out[i] = (uint8_t)((rgb[3 * i] * 9798 + rgb[3 * i + 1] * 19235 + rgb[3 * i + 2] * 3735 + 16384) >> 15);
}

void itg_grey_pillow(const uint8_t *rgb, size_t count, uint8_t *out) {
  for (size_t i = 0; i < count; i++)
    out[i] = (uint8_t)((rgb[3 * i] * 19595 + rgb[3 * i + 1] * 38470 + rgb[3 * i + 2] * 7471 + 32768) >> 16);
}
