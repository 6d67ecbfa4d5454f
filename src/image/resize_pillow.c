// Pillow's Image.resize of 8-bit pixels, bit for bit: a horizontal, then a vertical pass of a windowed filter whose
// support grows when shrinking (antialiasing); weights in double, normalised, then 22-bit fixed point; 8 bits between
// the two passes. NEAREST steps through the source in double, adding the scale at each pixel, as Pillow does.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "image/image.h"

enum { WEIGHT_BITS = 22 };

static double box(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }
static double triangle(double x) {
  x = fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}
static double hamming(double x) {
  x = fabs(x);
  if (x == 0.0) return 1.0;
  if (x >= 1.0) return 0.0;
  x *= M_PI;
  return sin(x) / x * ((double)0.54f + (double)0.46f * cos(x)); // Pillow's constants are single precision.
}
static double cubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}
static double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= M_PI;
  return sin(x) / x;
}
static double lanczos(double x) { return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0; }

static const struct {
  double (*function)(double);
  double support;
} filters[ITG_RESIZE_METHOD_COUNT] = {[ITG_RESIZE_PILLOW_BOX] = {box, 0.5},
                                      [ITG_RESIZE_PILLOW_BILINEAR] = {triangle, 1.0},
                                      [ITG_RESIZE_PILLOW_HAMMING] = {hamming, 1.0},
                                      [ITG_RESIZE_PILLOW_BICUBIC] = {cubic, 2.0},
                                      [ITG_RESIZE_PILLOW_LANCZOS] = {lanczos, 3.0}};

// Weights of one axis: target pixel i is the sum over k < count[i] of source[first[i] + k] * weights[i * stride + k].
typedef struct axis {
  int32_t *first, *count, *weights;
  size_t stride;
} axis;

static void free_axis(axis *a) {
  free(a->first);
  free(a->count);
  free(a->weights);
}

// Weights of target pixels [offset, offset + target) of `full`.
static itg_status make_axis(itg_resize_method method, int32_t source, int32_t full, int32_t offset, int32_t target,
                            itg_diagnostic *diagnostic, axis *out) {
  const double scale = (double)source / full, filter_scale = scale < 1.0 ? 1.0 : scale;
  const double support = filters[method].support * filter_scale;
  axis a = {.stride = (size_t)ceil(support) * 2 + 1};
  size_t entries;
  double *exact = calloc(a.stride, sizeof *exact);
  a.first = calloc((size_t)target, sizeof *a.first);
  a.count = calloc((size_t)target, sizeof *a.count);
  if (itg_checked_multiply((size_t)target, a.stride, &entries)) a.weights = calloc(entries, sizeof *a.weights);
  if (!exact || !a.first || !a.count || !a.weights) {
    free(exact);
    free_axis(&a);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  for (int32_t i = 0; i < target; i++) {
    const double centre = (offset + i + 0.5) * scale, inverse = 1.0 / filter_scale;
    int32_t first = (int32_t)(centre - support + 0.5), end = (int32_t)(centre + support + 0.5);
    if (first < 0) first = 0;
    if (end > source) end = source;
    const int32_t count = end - first;
    double sum = 0.0;
    for (int32_t k = 0; k < count; k++) {
      exact[k] = filters[method].function((k + first - centre + 0.5) * inverse);
      sum += exact[k];
    }
    for (int32_t k = 0; k < count; k++) {
      const double weight = (sum != 0.0 ? exact[k] / sum : exact[k]) * (1 << WEIGHT_BITS);
      a.weights[(size_t)i * a.stride + (size_t)k] = (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    a.first[i] = first;
    a.count[i] = count;
  }
  free(exact);
  *out = a;
  return ITG_OK;
}

static uint8_t round_to_byte(int32_t sum) {
  const int32_t value = sum >> WEIGHT_BITS;
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void pass_horizontal(itg_image_view source, const axis *a, itg_image_view target, uint8_t *pixels) {
  const int channels = source.channels;
  for (int32_t y = 0; y < target.height; y++) {
    const uint8_t *row = source.pixels + (size_t)y * source.stride;
    uint8_t *out = pixels + (size_t)y * target.stride;
    for (int32_t x = 0; x < target.width; x++) {
      const int32_t *weights = a->weights + (size_t)x * a->stride;
      const uint8_t *from = row + (size_t)a->first[x] * (size_t)channels;
      for (int c = 0; c < channels; c++) {
        int32_t sum = 1 << (WEIGHT_BITS - 1);
        for (int32_t k = 0; k < a->count[x]; k++) sum += from[(size_t)k * (size_t)channels + (size_t)c] * weights[k];
        *out++ = round_to_byte(sum);
      }
    }
  }
}

// `sums` has room for a row.
static void pass_vertical(itg_image_view source, const axis *a, itg_image_view target, uint8_t *pixels, int32_t *sums) {
  const size_t row_size = (size_t)target.width * (size_t)target.channels;
  for (int32_t y = 0; y < target.height; y++) {
    const int32_t *weights = a->weights + (size_t)y * a->stride;
    for (size_t i = 0; i < row_size; i++) sums[i] = 1 << (WEIGHT_BITS - 1);
    for (int32_t k = 0; k < a->count[y]; k++) {
      const uint8_t *row = source.pixels + (size_t)(a->first[y] + k) * source.stride;
      const int32_t weight = weights[k];
      for (size_t i = 0; i < row_size; i++) sums[i] += row[i] * weight;
    }
    uint8_t *out = pixels + (size_t)y * target.stride;
    for (size_t i = 0; i < row_size; i++) out[i] = round_to_byte(sums[i]);
  }
}

static itg_status resize_nearest(itg_image_view source, const itg_resize_part *part, itg_image *target,
                                 itg_diagnostic *diagnostic) {
  const size_t channels = (size_t)source.channels;
  const double step_x = (double)source.width / part->width, step_y = (double)source.height / part->height;
  int32_t *columns = malloc((size_t)target->width * sizeof *columns);
  ITG_TRY_MEMORY(columns, diagnostic);
  double position = step_x * 0.5;
  for (int32_t x = 0; x < part->x; x++) position += step_x;
  for (int32_t x = 0; x < target->width; x++, position += step_x)
    columns[x] = (int32_t)itg_min_i64((int64_t)position, source.width - 1);
  position = step_y * 0.5;
  for (int32_t y = 0; y < part->y; y++) position += step_y;
  uint8_t *out = target->pixels;
  for (int32_t y = 0; y < target->height; y++, position += step_y) {
    const uint8_t *row = source.pixels + (size_t)itg_min_i64((int64_t)position, source.height - 1) * source.stride;
    for (int32_t x = 0; x < target->width; x++, out += channels)
      memcpy(out, row + (size_t)columns[x] * channels, channels);
  }
  free(columns);
  return ITG_OK;
}

// What one resize holds; freed by the caller whatever happens.
typedef struct workspace {
  axis horizontal, vertical;
  itg_image between; // After the first of two passes.
  int32_t *sums;     // One row.
} workspace;

static itg_status run_pass(itg_image_view source, bool vertical, workspace *work, itg_image *target,
                           itg_diagnostic *diagnostic) {
  const itg_image_view view = itg_image_view_of(target);
  if (!vertical) {
    pass_horizontal(source, &work->horizontal, view, target->pixels);
    return ITG_OK;
  }
  work->sums = malloc((size_t)target->width * (size_t)target->channels * sizeof *work->sums);
  ITG_TRY_MEMORY(work->sums, diagnostic);
  pass_vertical(source, &work->vertical, view, target->pixels, work->sums);
  return ITG_OK;
}

static itg_status resize_filtered(itg_image_view source, itg_resize_method method, const itg_resize_part *part,
                                  itg_image *target, workspace *work, itg_diagnostic *diagnostic) {
  const bool across = part->width != source.width, down = part->height != source.height;
  // An axis that keeps its size is cut instead of filtered.
  if (!across) source.pixels += (size_t)part->x * (size_t)source.channels;
  if (!across) source.width = target->width;
  if (!down) source.pixels += (size_t)part->y * source.stride;
  if (!down) source.height = target->height;
  if (across)
    ITG_TRY(make_axis(method, source.width, part->width, part->x, target->width, diagnostic, &work->horizontal));
  if (down)
    ITG_TRY(make_axis(method, source.height, part->height, part->y, target->height, diagnostic, &work->vertical));
  if (!across || !down) return run_pass(source, down, work, target, diagnostic);
  // Pillow 13 starts with the vertical pass when it takes away more than twice as many rows as the horizontal pass takes
  // columns (found by comparison); Pillow 12 always starts horizontally. With 8 bits between, the order shows.
  const int64_t rows_gone = (int64_t)source.height - part->height, columns_gone = (int64_t)source.width - part->width;
  const bool down_first = rows_gone > 0 && rows_gone > 2 * columns_gone;
  ITG_TRY(itg_image_create(down_first ? source.width : target->width, down_first ? target->height : source.height,
                           source.channels, diagnostic, &work->between));
  ITG_TRY(run_pass(source, down_first, work, &work->between, diagnostic));
  return run_pass(itg_image_view_of(&work->between), !down_first, work, target, diagnostic);
}

itg_status itg_resize_pillow(itg_image_view source, itg_resize_method method, const itg_resize_part *part,
                             itg_image *target, itg_diagnostic *diagnostic) {
  if (part->width == source.width && part->height == source.height) {
    const size_t channels = (size_t)source.channels, row_size = (size_t)target->width * channels;
    const uint8_t *from = source.pixels + (size_t)part->y * source.stride + (size_t)part->x * channels;
    for (int32_t y = 0; y < target->height; y++)
      memcpy(target->pixels + (size_t)y * row_size, from + (size_t)y * source.stride, row_size);
    return ITG_OK;
  }
  if (method == ITG_RESIZE_PILLOW_NEAREST) return resize_nearest(source, part, target, diagnostic);
  workspace work = {0};
  const itg_status status = resize_filtered(source, method, part, target, &work, diagnostic);
  free_axis(&work.horizontal);
  free_axis(&work.vertical);
  itg_image_free(&work.between);
  free(work.sums);
  return status;
}
