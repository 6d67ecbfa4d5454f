// JPEG through libjpeg-turbo: accurate integer DCT and smooth chroma upsampling (the library's defaults, hence the bits
// that Pillow and OpenCV give). CMYK is taken as Adobe writes it (inverted) and converted as Pillow does.
#include <setjmp.h>
#include <stdio.h> // jpeglib.h needs FILE.
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h> // After jpeglib.h: the numbers of its codes depend on the version of the interface (62 or 80).

#include "image/image.h"

enum { MAX_SCANS = 500 }; // A progressive file may repeat scans to burn time.

typedef struct decoder {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  jmp_buf escape;
  bool several_scans;
  bool ran_dry; // The file ended where the decoder wanted more.
  bool too_many_scans;
  uint8_t *row; // CMYK pixels of one row.
  itg_image image;
} decoder;

static void leave(j_common_ptr info) { longjmp(((decoder *)info->client_data)->escape, 1); }
static void be_silent(j_common_ptr info) { (void)info; }
static void count_warning(j_common_ptr info, int level) {
  if (level < 0) info->err->num_warnings++;
}

static void ignore_source(j_decompress_ptr jpeg) { (void)jpeg; }
// At the end of the bytes the decoder is given an end-of-image marker, so that it stops.
static boolean end_of_bytes(j_decompress_ptr jpeg) {
  static const JOCTET end[2] = {0xff, JPEG_EOI};
  ((decoder *)jpeg->client_data)->ran_dry = true;
  jpeg->src->next_input_byte = end;
  jpeg->src->bytes_in_buffer = sizeof end;
  return TRUE;
}
static void skip_bytes(j_decompress_ptr jpeg, long count) {
  struct jpeg_source_mgr *source = jpeg->src;
  if (count <= 0) return;
  if ((unsigned long)count > source->bytes_in_buffer) {
    end_of_bytes(jpeg);
    return;
  }
  source->next_input_byte += count;
  source->bytes_in_buffer -= (size_t)count;
}
static void watch_scans(j_common_ptr info) {
  decoder *d = info->client_data;
  if (d->jpeg.input_scan_number <= MAX_SCANS) return;
  d->too_many_scans = true;
  leave(info);
}

// Pillow's product of two fractions of 255.
static int multiply_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

static void rgb_of_inverted_cmyk(const uint8_t *cmyk, int32_t width, uint8_t *rgb) {
  for (int32_t x = 0; x < width; x++) {
    const int white = cmyk[4 * x + 3];
    for (int c = 0; c < 3; c++) {
      const int value = white - multiply_255(255 - cmyk[4 * x + c], white);
      rgb[3 * x + c] = (uint8_t)(value < 0 ? 0 : value);
    }
  }
}

// Runs under the caller's setjmp.
static itg_status decode(decoder *d, itg_span bytes, int64_t max_pixels, itg_diagnostic *diagnostic) {
  struct jpeg_decompress_struct *jpeg = &d->jpeg;
  jpeg_create_decompress(jpeg);
  d->source = (struct jpeg_source_mgr){.next_input_byte = bytes.data,
                                       .bytes_in_buffer = bytes.size,
                                       .init_source = ignore_source,
                                       .fill_input_buffer = end_of_bytes,
                                       .skip_input_data = skip_bytes,
                                       .resync_to_restart = jpeg_resync_to_restart,
                                       .term_source = ignore_source};
  jpeg->src = &d->source;
  d->progress.progress_monitor = watch_scans;
  jpeg->progress = &d->progress;
  jpeg_read_header(jpeg, TRUE);
  ITG_TRY(itg_image_check_size(jpeg->image_width, jpeg->image_height, max_pixels, diagnostic));
  const bool four = jpeg->num_components == 4;
  jpeg->out_color_space = four ? JCS_CMYK : JCS_RGB;
  jpeg->dct_method = JDCT_ISLOW;
  jpeg->do_fancy_upsampling = TRUE;
  d->several_scans = jpeg_has_multiple_scans(jpeg);
  jpeg_start_decompress(jpeg);
  ITG_TRY(itg_image_create(jpeg->output_width, jpeg->output_height, 3, diagnostic, &d->image));
  if (four) {
    d->row = malloc((size_t)jpeg->output_width * 4);
    ITG_TRY_MEMORY(d->row, diagnostic);
  }
  while (jpeg->output_scanline < jpeg->output_height) {
    uint8_t *target = d->image.pixels + (size_t)jpeg->output_scanline * jpeg->output_width * 3;
    JSAMPROW row = four ? d->row : target;
    jpeg_read_scanlines(jpeg, &row, 1);
    if (four) rgb_of_inverted_cmyk(d->row, (int32_t)jpeg->output_width, target);
  }
  // A missing end marker alone is harmless in a file of one scan: missing data made the decoder invent pixels, which it
  // counts as warnings. In a file of several scans nobody can tell whether one is missing.
  if (d->ran_dry && (d->errors.num_warnings > 0 || d->several_scans))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "JPEG is cut off (its %zu bytes end inside the picture)", bytes.size);
  return ITG_OK;
}

static itg_status explain(decoder *d, itg_diagnostic *diagnostic) {
  if (d->too_many_scans)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "progressive JPEG with more than %d scans", MAX_SCANS);
  if (d->errors.msg_code == JERR_OUT_OF_MEMORY) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  char reason[JMSG_LENGTH_MAX];
  d->errors.format_message((j_common_ptr)&d->jpeg, reason);
  ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "not a readable JPEG: %s", reason);
}

itg_status itg_image_decode_jpeg(itg_span bytes, int64_t max_pixels, itg_diagnostic *diagnostic, itg_image *out) {
  decoder *d = calloc(1, sizeof *d); // On the heap: its fields keep their values across longjmp.
  ITG_TRY_MEMORY(d, diagnostic);
  d->jpeg.err = jpeg_std_error(&d->errors);
  d->jpeg.client_data = d;
  d->errors.error_exit = leave;
  d->errors.output_message = be_silent;
  d->errors.emit_message = count_warning;
  const itg_status status = setjmp(d->escape) == 0 ? decode(d, bytes, max_pixels, diagnostic) : explain(d, diagnostic);
  jpeg_destroy_decompress(&d->jpeg);
  free(d->row);
  if (status == ITG_OK) {
    *out = d->image;
  } else {
    itg_image_free(&d->image);
  }
  free(d);
  return status;
}
