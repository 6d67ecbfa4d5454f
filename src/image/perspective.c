// Pillow's Image.transform(PERSPECTIVE, BICUBIC) of 8-bit pixels, bit for bit: another kernel than its resize (a = -1, four
// taps, no antialiasing), coordinates at pixel centres, rows and columns repeated at the border, black outside, and the
// result cut to whole numbers instead of rounded.
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "image/image.h"

static double cubic(double a, double b, double c, double d, double at) {
  const double p2 = -a + c, p3 = 2 * (a - b) + c - d, p4 = -a + b - c + d;
  return b + at * (p2 + at * (p3 + at * p4));
}

// The picture at (x, y), which lies inside it.
static void sample(itg_image_view source, double x, double y, uint8_t *out) {
  x -= 0.5;
  y -= 0.5;
  const int64_t left = (int64_t)floor(x) - 1, top = (int64_t)floor(y) - 1;
  const double across = x - (double)(left + 1), down = y - (double)(top + 1);
  size_t columns[4];
  for (int k = 0; k < 4; k++)
    columns[k] = (size_t)itg_min_i64(itg_max_i64(left + k, 0), source.width - 1) * (size_t)source.channels;
  for (int c = 0; c < source.channels; c++) {
    double rows[4];
    for (int k = 0; k < 4; k++) {
      // A missing row is the one above it; the first one is the nearest.
      if (k > 0 && (top + k < 0 || top + k >= source.height)) {
        rows[k] = rows[k - 1];
        continue;
      }
      const int64_t row = itg_min_i64(itg_max_i64(top + k, 0), source.height - 1);
      const uint8_t *in = source.pixels + (size_t)row * source.stride + c;
      rows[k] = cubic(in[columns[0]], in[columns[1]], in[columns[2]], in[columns[3]], across);
    }
    const double value = cubic(rows[0], rows[1], rows[2], rows[3], down);
    out[c] = value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)value;
  }
}

void itg_warp_perspective_pillow(itg_image_view source, const double map[8], int32_t width, int32_t height,
                                 uint8_t *out) {
  const size_t channels = (size_t)source.channels;
  for (int32_t row = 0; row < height; row++) {
    for (int32_t column = 0; column < width; column++, out += channels) {
      const double x = column + 0.5, y = row + 0.5, scale = map[6] * x + map[7] * y + 1;
      const double from_x = (map[0] * x + map[1] * y + map[2]) / scale;
      const double from_y = (map[3] * x + map[4] * y + map[5]) / scale;
      // Also false for what is not finite.
      if (from_x >= 0 && from_x < source.width && from_y >= 0 && from_y < source.height)
        sample(source, from_x, from_y, out);
      else
        memset(out, 0, channels);
    }
  }
}
