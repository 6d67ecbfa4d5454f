// OpenCV's resize of 8-bit pixels with INTER_LINEAR, bit for bit: 11-bit weights, a horizontal pass to 19 bits, a
// vertical pass that drops 4, then 16, then 2 bits. Halving both sides exactly is the mean of four, as in OpenCV.
// No antialiasing: every target pixel is made of four source pixels.
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "image/image.h"

enum { WEIGHT_BITS = 11, WEIGHT_ONE = 1 << WEIGHT_BITS };

typedef struct tap {
  int32_t first;     // Index of the first of two neighbours.
  int32_t weight[2]; // They add up to about WEIGHT_ONE.
} tap;

// Where target pixel `i` lies in the source. With `clamp`, pixels outside get the border alone (the horizontal rule);
// without, the index stays outside and the caller clamps the rows (the vertical rule).
static tap locate(int32_t i, int32_t source, int32_t target, bool clamp) {
  const double scale = 1.0 / ((double)target / source);
  float position = (float)((i + 0.5) * scale - 0.5);
  int32_t first = (int32_t)floorf(position);
  float fraction = position - (float)first;
  if (clamp && first < 0) {
    first = 0;
    fraction = 0;
  }
  if (clamp && first >= source - 1) {
    first = source - 1;
    fraction = 0;
  }
  return (tap){first, {(int32_t)lrintf((1.0f - fraction) * WEIGHT_ONE), (int32_t)lrintf(fraction * WEIGHT_ONE)}};
}

static void halve(itg_image_view source, const itg_resize_part *part, itg_image *target) {
  const int channels = source.channels;
  const size_t width = (size_t)target->width;
  for (int32_t y = 0; y < target->height; y++) {
    const uint8_t *upper = source.pixels + ((size_t)part->y + (size_t)y) * 2 * source.stride,
                  *lower = upper + source.stride;
    uint8_t *out = target->pixels + (size_t)y * width * (size_t)channels;
    for (size_t x = 0; x < width; x++) {
      for (int c = 0; c < channels; c++, out++) {
        const size_t left = ((size_t)part->x + x) * 2 * (size_t)channels + (size_t)c, right = left + (size_t)channels;
        *out = (uint8_t)((upper[left] + upper[right] + lower[left] + lower[right] + 2) >> 2);
      }
    }
  }
}

static void filter_row(const uint8_t *row, const tap *taps, const itg_image *target, int32_t last, int32_t *out) {
  const int channels = target->channels;
  for (int32_t x = 0; x < target->width; x++) {
    const uint8_t *left = row + (size_t)taps[x].first * (size_t)channels;
    const uint8_t *right = taps[x].first < last ? left + channels : left;
    for (int c = 0; c < channels; c++) *out++ = left[c] * taps[x].weight[0] + right[c] * taps[x].weight[1];
  }
}

itg_status itg_resize_opencv_linear(itg_image_view source, const itg_resize_part *part, itg_image *target,
                                    itg_diagnostic *diagnostic) {
  if (source.width == (int64_t)part->width * 2 && source.height == (int64_t)part->height * 2) {
    halve(source, part, target);
    return ITG_OK;
  }
  const size_t row_size = (size_t)target->width * (size_t)target->channels;
  tap *taps = malloc((size_t)target->width * sizeof *taps);
  int32_t *rows = malloc(2 * row_size * sizeof *rows);
  if (!taps || !rows) {
    free(taps);
    free(rows);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  for (int32_t x = 0; x < target->width; x++) taps[x] = locate(part->x + x, source.width, part->width, true);
  int64_t held[2] = {-1, -1}; // Source row in each half of `rows`; row r lives in half r & 1.
  for (int32_t y = 0; y < target->height; y++) {
    const tap vertical = locate(part->y + y, source.height, part->height, false);
    const int32_t *filtered[2];
    for (int k = 0; k < 2; k++) {
      const int64_t r = itg_min_i64(itg_max_i64((int64_t)vertical.first + k, 0), source.height - 1);
      if (held[r & 1] != r) {
        filter_row(source.pixels + (size_t)r * source.stride, taps, target, source.width - 1,
                   rows + (size_t)(r & 1) * row_size);
        held[r & 1] = r;
      }
      filtered[k] = rows + (size_t)(r & 1) * row_size;
    }
    uint8_t *out = target->pixels + (size_t)y * row_size;
    for (size_t i = 0; i < row_size; i++) {
      const int32_t value = (((filtered[0][i] >> 4) * vertical.weight[0]) >> 16) +
                            (((filtered[1][i] >> 4) * vertical.weight[1]) >> 16) + 2;
      out[i] = (uint8_t)(value >> 2);
    }
  }
  free(taps);
  free(rows);
  return ITG_OK;
}
