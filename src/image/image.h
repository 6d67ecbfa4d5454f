// Inside the image room: views, decoders, resamplers and warps. The public surface is intaglio/pipelines.h.
//
// All functions are pure and thread-safe. Pixels are 8-bit, interleaved, with 1 or 3 channels.
#ifndef ITG_IMAGE_IMAGE_H
#define ITG_IMAGE_IMAGE_H

#include "base/span.h"
#include "base/status.h"
#include "intaglio/pipelines.h"

// A rectangle of somebody else's pixels.
typedef struct itg_image_view {
  const uint8_t *pixels;
  int32_t width, height, channels;
  size_t stride; // Bytes from row to row.
} itg_image_view;

enum { ITG_MAX_IMAGE_SIDE = 1 << 20 }; // Of anything that is resized, in pixels.

itg_image_view itg_image_view_of(const itg_image *image);
// ARGUMENT unless the image has 1 or 3 channels, sides of 1 .. ITG_MAX_IMAGE_SIDE and pixels.
ITG_MUST_USE itg_status itg_image_check(const itg_image *image, itg_diagnostic *diagnostic);
// Pixels [x, x + width) x [y, y + height); SHAPE when empty or not inside the image.
ITG_MUST_USE itg_status itg_image_view_cut(const itg_image *image, int64_t x, int64_t y, int64_t width, int64_t height,
                                           itg_diagnostic *diagnostic, itg_image_view *out);
// Allocates pixels (not initialised). Errors: MEMORY, LIMIT.
ITG_MUST_USE itg_status itg_image_create(int64_t width, int64_t height, int channels, itg_diagnostic *diagnostic,
                                         itg_image *out);

// LIMIT when a picture that is about to be decoded has more than `max_pixels` or a side above ITG_MAX_IMAGE_SIDE.
ITG_MUST_USE itg_status itg_image_check_size(int64_t width, int64_t height, int64_t max_pixels,
                                             itg_diagnostic *diagnostic);
// Decoders; `max_pixels` is checked before pixels are allocated. Errors: FORMAT, LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_image_decode_jpeg(itg_span bytes, int64_t max_pixels, itg_diagnostic *diagnostic,
                                              itg_image *out);
ITG_MUST_USE itg_status itg_image_decode_png(itg_span bytes, int64_t max_pixels, itg_diagnostic *diagnostic,
                                             itg_image *out);
ITG_MUST_USE itg_status itg_image_decode_webp(itg_span bytes, int64_t max_pixels, itg_diagnostic *diagnostic,
                                              itg_image *out);

// A picture of width x height pixels of which the part from (x, y) on is wanted; its size is that of the target.
typedef struct itg_resize_part {
  int32_t width, height, x, y;
} itg_resize_part;

// Resizing by any method of itg_resize_method. Errors: ARGUMENT (size), MEMORY.
ITG_MUST_USE itg_status itg_image_view_resize(itg_image_view source, itg_resize_method method, int32_t width,
                                              int32_t height, itg_diagnostic *diagnostic, itg_image *out);
// The pixels [part.x, part.x + width) x [part.y, part.y + height) of the picture resized to part.width x part.height,
// without computing the rest: however long and thin a picture is, a crop of it stays cheap. part.width and part.height are
// at most ITG_MAX_RESIZED_SIDE. Errors: ARGUMENT (sizes), MEMORY.
enum { ITG_MAX_RESIZED_SIDE = 1 << 30 };
ITG_MUST_USE itg_status itg_image_view_resize_part(itg_image_view source, itg_resize_method method,
                                                   const itg_resize_part *part, int32_t width, int32_t height,
                                                   itg_diagnostic *diagnostic, itg_image *out);
// The two families behind it.
ITG_MUST_USE itg_status itg_resize_opencv_linear(itg_image_view source, const itg_resize_part *part, itg_image *target,
                                                 itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_resize_pillow(itg_image_view source, itg_resize_method method, const itg_resize_part *part,
                                          itg_image *target, itg_diagnostic *diagnostic);

// OpenCV's warpAffine with bilinear interpolation and a black constant border. `matrix` (2x3, row-major) maps source to
// target; a singular one gives the picture of the source's corner, as in OpenCV. Writes width*height*channels bytes.
void itg_warp_affine(itg_image_view source, const double matrix[6], int32_t width, int32_t height, uint8_t *out);

// Pillow's transform(PERSPECTIVE, BICUBIC): `map` brings a point of the target to the source,
// ((m0 x + m1 y + m2) / w, (m3 x + m4 y + m5) / w) with w = m6 x + m7 y + 1. Writes width*height*channels bytes.
void itg_warp_perspective_pillow(itg_image_view source, const double map[8], int32_t width, int32_t height,
                                 uint8_t *out);

// Grey of `count` RGB pixels. OpenCV: 15-bit weights .299 .587 .114; Pillow: 16-bit weights.
void itg_grey_opencv(const uint8_t *rgb, size_t count, uint8_t *out);
void itg_grey_pillow(const uint8_t *rgb, size_t count, uint8_t *out);

#endif
