// Running a preprocessing description: fit the picture, then look up each pixel's value.
#include "image/preprocess.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "tensor/dtype.h"

static const int64_t max_resized_pixels = 100000000;

// Where the picture goes: resized to width x height, then its part from (crop_x, crop_y) of part_width x part_height put
// at (left, top) of the input.
typedef struct placement {
  int64_t width, height, crop_x, crop_y, part_width, part_height, left, top;
} placement;

static int64_t clamp(double value, int64_t high) { return itg_max_i64(1, itg_min_i64((int64_t)value, high)); }

// Half of the difference, rounded half to even as torchvision's centre crop does.
static int64_t half(int64_t difference) { return (int64_t)rint((double)difference / 2.0); }

static itg_status place(const itg_preprocess *p, const itg_image *image, int64_t width, int64_t height,
                        itg_diagnostic *diagnostic, placement *out) {
  placement at = {.width = width, .height = height};
  const int64_t w = image->width, h = image->height;
  switch (p->fit) {
  case ITG_FIT_SQUASH: break;
  case ITG_FIT_NONE:
    if (w != width || h != height)
      ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL,
               "picture of %d x %d pixels, the network takes %lld x %lld; choose a preprocessing that resizes",
               image->width, image->height, (long long)width, (long long)height);
    break;
  case ITG_FIT_SHORTEST_CENTER_CROP: {
    const int64_t shortest = p->shortest ? p->shortest : itg_min_i64(width, height);
    const int64_t longer = p->truncate
                               ? (int64_t)((double)itg_max_i64(w, h) / (double)itg_min_i64(w, h) * (double)shortest)
                               : shortest * itg_max_i64(w, h) / itg_min_i64(w, h);
    at.width = w <= h ? shortest : longer;
    at.height = w <= h ? longer : shortest;
    if (at.width < width || at.height < height)
      ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL,
               "picture of %d x %d pixels with its shorter side at %lld does not cover the network's %lld x %lld",
               image->width, image->height, (long long)shortest, (long long)width, (long long)height);
    at.crop_x = p->truncate ? (at.width - width) / 2 : half(at.width - width);
    at.crop_y = p->truncate ? (at.height - height) / 2 : half(at.height - height);
    break;
  }
  case ITG_FIT_LETTERBOX: {
    const double scale = fmin((double)height / (double)h, (double)width / (double)w);
    at.width = clamp(rint((double)w * scale), width);
    at.height = clamp(rint((double)h * scale), height);
    if (!p->top_left) {
      // The odd pixel goes to the right and to the bottom.
      at.left = (width - at.width) / 2;
      at.top = (height - at.height) / 2;
    }
    break;
  }
  case ITG_FIT_HEIGHT: at.width = clamp(ceil((double)height * ((double)w / (double)h)), width); break;
  }
  if (at.width > ITG_MAX_RESIZED_SIDE || at.height > ITG_MAX_RESIZED_SIDE)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "picture of %d x %d pixels is too long and thin to be resized",
             image->width, image->height);
  at.part_width = itg_min_i64(at.width - at.crop_x, width - at.left);
  at.part_height = itg_min_i64(at.height - at.crop_y, height - at.top);
  *out = at;
  return ITG_OK;
}

static itg_status read_shape(const itg_preprocess *p, const itg_shape *shape, itg_diagnostic *diagnostic,
                             int64_t *width, int64_t *height) {
  const int channels = p->grey ? 1 : 3, h = p->channels_last ? 1 : 2, c = p->channels_last ? 3 : 1;
  char text[64];
  size_t count;
  if (shape->rank != 4 || shape->dims[0] != 1 || shape->dims[c] != channels || shape->dims[h] < 1 ||
      shape->dims[h + 1] < 1 || shape->dims[h] > ITG_MAX_IMAGE_SIDE || shape->dims[h + 1] > ITG_MAX_IMAGE_SIDE ||
      !itg_shape_count(shape, &count) || count > (size_t)max_resized_pixels * 3)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL,
             "input %s does not fit the preprocessing, which gives %s with %d channel%s",
             itg_shape_print(shape, text, sizeof text),
             p->channels_last ? "[1, height, width, C]" : "[1, C, height, width]", channels, channels > 1 ? "s" : "");
  *height = shape->dims[h];
  *width = shape->dims[h + 1];
  if ((p->height && p->height != *height) || (p->width && p->width != *width))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL,
             "the preprocessing gives %d x %d pixels (height x width), the input is %s", p->height, p->width,
             itg_shape_print(shape, text, sizeof text));
  return ITG_OK;
}

// Makes pixels of the wanted number of channels.
static itg_status convert_channels(const itg_preprocess *p, itg_image *image, itg_diagnostic *diagnostic) {
  const int wanted = p->grey ? 1 : 3;
  if (image->channels == wanted) return ITG_OK;
  itg_image converted;
  ITG_TRY(itg_image_create(image->width, image->height, wanted, diagnostic, &converted));
  const size_t count = (size_t)image->width * (size_t)image->height;
  if (wanted == 3) {
    for (size_t i = 0; i < count; i++)
      converted.pixels[3 * i] = converted.pixels[3 * i + 1] = converted.pixels[3 * i + 2] = image->pixels[i];
  } else if (p->method == ITG_RESIZE_OPENCV_LINEAR) {
    itg_grey_opencv(image->pixels, count, converted.pixels);
  } else {
    itg_grey_pillow(image->pixels, count, converted.pixels);
  }
  itg_image_free(image);
  *image = converted;
  return ITG_OK;
}

static void write_values(const itg_preprocess *p, const itg_image *image, const placement *at, int64_t width,
                         int64_t height, float *out) {
  const int channels = image->channels;
  for (int c = 0; c < channels; c++) {
    const int source = p->blue_first ? channels - 1 - c : c;
    for (int64_t y = 0; y < height; y++) {
      const int64_t from_y = y - at->top;
      const bool row_inside = y >= at->top && from_y < image->height;
      for (int64_t x = 0; x < width; x++) {
        const int64_t from_x = x - at->left;
        float value = p->fill[c];
        if (row_inside && x >= at->left && from_x < image->width)
          value = p->values[c][image->pixels[(from_y * image->width + from_x) * channels + source]];
        out[p->channels_last ? (y * width + x) * channels + c : (c * height + y) * width + x] = value;
      }
    }
  }
}

void itg_preprocess_keep_pixels(itg_preprocess *preprocess) {
  preprocess->channels_last = true;
  for (int c = 0; c < 3; c++) {
    preprocess->fill[c] = 0;
    for (int code = 0; code < 256; code++) preprocess->values[c][code] = (float)code;
  }
}

itg_status itg_preprocess_run(const itg_preprocess *preprocess, const itg_image *image, const itg_shape *shape,
                              itg_diagnostic *diagnostic, float *out) {
  int64_t width = 0, height = 0;
  placement at = {0};
  ITG_TRY(itg_image_check(image, diagnostic));
  ITG_TRY(read_shape(preprocess, shape, diagnostic, &width, &height));
  ITG_TRY(place(preprocess, image, width, height, diagnostic, &at));
  itg_image fitted = {0};
  const itg_resize_part part = {(int32_t)at.width, (int32_t)at.height, (int32_t)at.crop_x, (int32_t)at.crop_y};
  ITG_TRY(itg_image_view_resize_part(itg_image_view_of(image), preprocess->method, &part, (int32_t)at.part_width,
                                     (int32_t)at.part_height, diagnostic, &fitted));
  const itg_status status = convert_channels(preprocess, &fitted, diagnostic);
  if (status == ITG_OK) write_values(preprocess, &fitted, &at, width, height, out);
  itg_image_free(&fitted);
  return status;
}
