// PNG through libpng, to 8-bit RGB as Pillow's convert("RGB") gives it: palettes looked up, grey repeated, 16-bit samples
// cut to their upper byte, alpha dropped (not blended), gamma and colour profiles ignored.
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

enum { MAX_CHUNK = 8 << 20 };

typedef struct decoder {
  png_structp png;
  png_infop info;
  itg_span bytes;
  size_t position;
  png_bytep *rows;
  itg_image image;
  char reason[160];
} decoder;

static void leave(png_structp png, png_const_charp message) {
  decoder *d = png_get_error_ptr(png);
  const size_t length = strnlen(message, sizeof d->reason - 1);
  memcpy(d->reason, message, length);
  d->reason[length] = 0;
  longjmp(png_jmpbuf(png), 1);
}
static void be_silent(png_structp png, png_const_charp message) {
  (void)png;
  (void)message;
}
static void read_bytes(png_structp png, png_bytep target, size_t size) {
  decoder *d = png_get_io_ptr(png);
  if (size > d->bytes.size - d->position) png_error(png, "the file is cut off");
  memcpy(target, d->bytes.data + d->position, size);
  d->position += size;
}

// Runs under the caller's setjmp.
static itg_status decode(decoder *d, int64_t max_pixels, itg_diagnostic *diagnostic) {
  png_set_read_fn(d->png, d, read_bytes);
  png_set_user_limits(d->png, ITG_MAX_IMAGE_SIDE, ITG_MAX_IMAGE_SIDE);
  png_set_chunk_malloc_max(d->png, MAX_CHUNK);
  png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
  png_set_benign_errors(d->png, 1);
  png_read_info(d->png, d->info);
  const int64_t width = png_get_image_width(d->png, d->info), height = png_get_image_height(d->png, d->info);
  ITG_TRY(itg_image_check_size(width, height, max_pixels, diagnostic));
  const int type = png_get_color_type(d->png, d->info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(d->png);
  if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(d->png);
  png_set_strip_16(d->png);
  png_set_strip_alpha(d->png);
  if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(d->png);
  png_set_interlace_handling(d->png);
  png_read_update_info(d->png, d->info);
  if (png_get_rowbytes(d->png, d->info) != (size_t)width * 3)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "PNG of an unknown pixel layout");
  ITG_TRY(itg_image_create(width, height, 3, diagnostic, &d->image));
  d->rows = malloc((size_t)height * sizeof *d->rows);
  ITG_TRY_MEMORY(d->rows, diagnostic);
  for (int64_t y = 0; y < height; y++) d->rows[y] = d->image.pixels + (size_t)(y * width) * 3;
  png_read_image(d->png, d->rows);
  return ITG_OK;
}

// Separate, so that no local of the caller lives across longjmp.
static itg_status decode_guarded(decoder *d, int64_t max_pixels, itg_diagnostic *diagnostic) {
  if (setjmp(png_jmpbuf(d->png))) {
    if (strstr(d->reason, "emory")) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
    if (strstr(d->reason, "limit"))
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "PNG with a side of more than %d pixels", ITG_MAX_IMAGE_SIDE);
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "not a readable PNG: %s", d->reason);
  }
  return decode(d, max_pixels, diagnostic);
}

itg_status itg_image_decode_png(itg_span bytes, int64_t max_pixels, itg_diagnostic *diagnostic, itg_image *out) {
  decoder *d = calloc(1, sizeof *d); // On the heap: its fields keep their values across longjmp.
  ITG_TRY_MEMORY(d, diagnostic);
  d->bytes = bytes;
  itg_status status = ITG_ERROR_MEMORY;
  d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, leave, be_silent);
  if (d->png) d->info = png_create_info_struct(d->png);
  if (d->info) {
    status = decode_guarded(d, max_pixels, diagnostic);
  } else {
    status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  }
  png_destroy_read_struct(&d->png, &d->info, NULL);
  free(d->rows);
  if (status == ITG_OK) {
    *out = d->image;
  } else {
    itg_image_free(&d->image);
  }
  free(d);
  return status;
}
