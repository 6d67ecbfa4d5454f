// See text_crop.h. Sizes are computed in single precision and cut to whole pixels, as the reference does.
#include "pipelines/text_crop.h"

#include <math.h>

#include "image/image.h"

static const double MAX_PIXELS = 100000000;

static float distance(const float a[2], const float b[2]) {
  const float x = a[0] - b[0], y = a[1] - b[1];
  return sqrtf(x * x + y * y);
}

static bool measure(const itg_text_box *box, int32_t *width, int32_t *height) {
  const float(*c)[2] = box->corners;
  const float w = fmaxf(distance(c[1], c[0]), distance(c[2], c[3]));
  const float h = fmaxf(distance(c[0], c[3]), distance(c[1], c[2]));
  if (!(w >= 1 && w < 1e9f && h >= 1 && h < 1e9f)) return false;
  *width = (int32_t)w;
  *height = (int32_t)h;
  return true;
}

static bool stands(int32_t width, int32_t height) { return (int64_t)height * 2 >= (int64_t)width * 3; }

double itg_text_proportion(const itg_text_box *box) {
  int32_t width, height;
  if (!measure(box, &width, &height)) return 0;
  return stands(width, height) ? (double)height / width : (double)width / height;
}

// Solves the 8 equations of a perspective map by elimination with the largest pivot; false when they have no solution.
static bool solve(double a[8][9], double out[8]) {
  for (int column = 0; column < 8; column++) {
    int pivot = column;
    for (int row = column + 1; row < 8; row++)
      if (fabs(a[row][column]) > fabs(a[pivot][column])) pivot = row;
    if (!(fabs(a[pivot][column]) > 0)) return false;
    for (int k = 0; k < 9; k++) {
      const double swapped = a[pivot][k];
      a[pivot][k] = a[column][k];
      a[column][k] = swapped;
    }
    for (int row = column + 1; row < 8; row++) {
      const double factor = a[row][column] / a[column][column];
      for (int k = column; k < 9; k++) a[row][k] -= factor * a[column][k];
    }
  }
  for (int row = 7; row >= 0; row--) {
    double value = a[row][8];
    for (int k = row + 1; k < 8; k++) value -= a[row][k] * out[k];
    out[row] = value / a[row][row];
    if (!isfinite(out[row])) return false;
  }
  return true;
}

// The map from an upright picture of width x height to the box.
static bool find_map(const itg_text_box *box, int32_t width, int32_t height, double map[8]) {
  const double corners[4][2] = {{0, 0}, {width, 0}, {width, height}, {0, height}};
  double equations[8][9] = {{0}};
  for (int i = 0; i < 4; i++) {
    const double x = corners[i][0], y = corners[i][1];
    for (int k = 0; k < 2; k++) {
      const double target = box->corners[i][k];
      double *row = equations[2 * i + k];
      row[3 * k] = x;
      row[3 * k + 1] = y;
      row[3 * k + 2] = 1;
      row[6] = -target * x;
      row[7] = -target * y;
      row[8] = target;
    }
  }
  return solve(equations, map);
}

// Turned by 90 degrees against the clock.
static itg_status turn(itg_image *image, itg_diagnostic *diagnostic) {
  itg_image turned;
  ITG_TRY(itg_image_create(image->height, image->width, image->channels, diagnostic, &turned));
  const size_t channels = (size_t)image->channels;
  for (int32_t y = 0; y < turned.height; y++) {
    for (int32_t x = 0; x < turned.width; x++) {
      const size_t from = (size_t)x * (size_t)image->width + (size_t)(image->width - 1 - y);
      const size_t to = (size_t)y * (size_t)turned.width + (size_t)x;
      for (size_t c = 0; c < channels; c++) turned.pixels[to * channels + c] = image->pixels[from * channels + c];
    }
  }
  itg_image_free(image);
  *image = turned;
  return ITG_OK;
}

itg_status itg_text_crop(const itg_image *image, const itg_text_box *box, itg_diagnostic *diagnostic, itg_image *out) {
  int32_t width, height;
  double map[8];
  if (!measure(box, &width, &height) || !find_map(box, width, height, map))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL, "a box of text without area");
  if ((double)width * height > MAX_PIXELS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "a box of text of %d x %d pixels", width, height);
  itg_image crop;
  ITG_TRY(itg_image_create(width, height, image->channels, diagnostic, &crop));
  itg_warp_perspective_pillow(itg_image_view_of(image), map, width, height, crop.pixels);
  const itg_status status = stands(width, height) ? turn(&crop, diagnostic) : ITG_OK;
  if (status != ITG_OK) {
    itg_image_free(&crop);
    return status;
  }
  *out = crop;
  return ITG_OK;
}
