// Images and views, decoding by content, reading from files.
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"

static const itg_image_limits default_limits = {120000000, (size_t)256 << 20};

void itg_image_free(itg_image *image) {
  free(image->pixels);
  *image = (itg_image){0};
}

itg_status itg_image_check(const itg_image *image, itg_diagnostic *diagnostic) {
  if (!image->pixels || image->width < 1 || image->height < 1 || image->width > ITG_MAX_IMAGE_SIDE ||
      image->height > ITG_MAX_IMAGE_SIDE || (image->channels != 1 && image->channels != 3))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL,
             "image of %d x %d pixels with %d channels; 1 or 3 channels and sides "
             "of 1 to %d pixels are taken",
             image->width, image->height, image->channels, ITG_MAX_IMAGE_SIDE);
  return ITG_OK;
}

itg_image_view itg_image_view_of(const itg_image *image) {
  return (itg_image_view){image->pixels, image->width, image->height, image->channels,
                          (size_t)image->width * (size_t)image->channels};
}

itg_status itg_image_view_cut(const itg_image *image, int64_t x, int64_t y, int64_t width, int64_t height,
                              itg_diagnostic *diagnostic, itg_image_view *out) {
  if (width < 1 || height < 1 || x < 0 || y < 0 || x > image->width - width || y > image->height - height)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL,
             "rectangle of %lld x %lld pixels at (%lld, %lld) does not lie inside a "
             "picture of %d x %d",
             (long long)width, (long long)height, (long long)x, (long long)y, image->width, image->height);
  itg_image_view view = itg_image_view_of(image);
  view.pixels += (size_t)y * view.stride + (size_t)x * (size_t)view.channels;
  view.width = (int32_t)width;
  view.height = (int32_t)height;
  *out = view;
  return ITG_OK;
}

itg_status itg_image_create(int64_t width, int64_t height, int channels, itg_diagnostic *diagnostic, itg_image *out) {
  size_t size;
  if (width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX ||
      !itg_checked_multiply((size_t)width * (size_t)channels, (size_t)height, &size))
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "image of %lld x %lld pixels", (long long)width, (long long)height);
  uint8_t *pixels = malloc(size);
  ITG_TRY_MEMORY(pixels, diagnostic);
  *out = (itg_image){(int32_t)width, (int32_t)height, channels, pixels};
  return ITG_OK;
}

itg_status itg_image_check_size(int64_t width, int64_t height, int64_t max_pixels, itg_diagnostic *diagnostic) {
  if (width > ITG_MAX_IMAGE_SIDE || height > ITG_MAX_IMAGE_SIDE || width * height > max_pixels)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "picture of %lld x %lld pixels; the limit is %lld pixels",
             (long long)width, (long long)height, (long long)max_pixels);
  return ITG_OK;
}

itg_status itg_image_decode(const void *data, size_t size, const itg_image_limits *limits, itg_diagnostic *diagnostic,
                            itg_image *out) {
  if (!limits) limits = &default_limits;
  if (size > limits->max_bytes)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "image file of %zu bytes; the limit is %zu", size, limits->max_bytes);
  const itg_span bytes = {data, size};
  if (size >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0)
    return itg_image_decode_jpeg(bytes, limits->max_pixels, diagnostic, out);
  if (size >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
    return itg_image_decode_png(bytes, limits->max_pixels, diagnostic, out);
  if (size >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp((const char *)data + 8, "WEBP", 4) == 0)
    return itg_image_decode_webp(bytes, limits->max_pixels, diagnostic, out);
  ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "%s; JPEG, PNG and WebP are read",
           size ? "not a picture of a known format" : "an empty file is no image");
}

itg_status itg_image_read(const char *path, const itg_image_limits *limits, itg_diagnostic *diagnostic,
                          itg_image *out) {
  itg_mapped_file file;
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  const itg_status status = itg_image_decode(file.bytes.data, file.bytes.size, limits, diagnostic, out);
  itg_mapped_file_close(&file);
  if (status != ITG_OK && diagnostic) {
    const size_t length = strnlen(path, sizeof diagnostic->subject - 1);
    memcpy(diagnostic->subject, path, length);
    diagnostic->subject[length] = 0;
  }
  return status;
}

itg_status itg_image_view_resize_part(itg_image_view source, itg_resize_method method, const itg_resize_part *part,
                                      int32_t width, int32_t height, itg_diagnostic *diagnostic, itg_image *out) {
  if (width < 1 || height < 1 || width > ITG_MAX_IMAGE_SIDE || height > ITG_MAX_IMAGE_SIDE || part->x < 0 ||
      part->y < 0 || part->width > ITG_MAX_RESIZED_SIDE || part->height > ITG_MAX_RESIZED_SIDE ||
      part->x > part->width - width || part->y > part->height - height)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "cannot resize to %d x %d pixels", width, height);
  itg_image target;
  ITG_TRY(itg_image_create(width, height, source.channels, diagnostic, &target));
  const itg_status status = method == ITG_RESIZE_OPENCV_LINEAR
                                ? itg_resize_opencv_linear(source, part, &target, diagnostic)
                                : itg_resize_pillow(source, method, part, &target, diagnostic);
  if (status != ITG_OK) {
    itg_image_free(&target);
    return status;
  }
  *out = target;
  return ITG_OK;
}

itg_status itg_image_view_resize(itg_image_view source, itg_resize_method method, int32_t width, int32_t height,
                                 itg_diagnostic *diagnostic, itg_image *out) {
  const itg_resize_part whole = {.width = width, .height = height};
  return itg_image_view_resize_part(source, method, &whole, width, height, diagnostic, out);
}

itg_status itg_image_resize(const itg_image *image, itg_resize_method method, int32_t width, int32_t height,
                            itg_diagnostic *diagnostic, itg_image *out) {
  ITG_TRY(itg_image_check(image, diagnostic));
  if (!itg_resize_method_name(method)) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "no such resize method");
  return itg_image_view_resize(itg_image_view_of(image), method, width, height, diagnostic, out);
}

const char *itg_resize_method_name(itg_resize_method method) {
  static const char *const names[ITG_RESIZE_METHOD_COUNT] = {
      [ITG_RESIZE_OPENCV_LINEAR] = "opencv-linear",   [ITG_RESIZE_PILLOW_NEAREST] = "pillow-nearest",
      [ITG_RESIZE_PILLOW_BOX] = "pillow-box",         [ITG_RESIZE_PILLOW_BILINEAR] = "pillow-bilinear",
      [ITG_RESIZE_PILLOW_HAMMING] = "pillow-hamming", [ITG_RESIZE_PILLOW_BICUBIC] = "pillow-bicubic",
      [ITG_RESIZE_PILLOW_LANCZOS] = "pillow-lanczos"};
  return (int)method >= 0 && method < ITG_RESIZE_METHOD_COUNT ? names[method] : NULL;
}
