// WebP through libwebp, to 8-bit RGB as Pillow's convert("RGB") gives it: alpha dropped (not blended), colour profiles
// ignored. Of an animation the first frame is taken, on a black canvas where it does not cover all of it.
#include <stdlib.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "image/image.h"

// libwebp does not say whether bytes or memory were wrong.
static itg_status explain(VP8StatusCode code, itg_diagnostic *diagnostic) {
  if (code == VP8_STATUS_OUT_OF_MEMORY) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "not a readable WebP: %s",
           code == VP8_STATUS_NOT_ENOUGH_DATA       ? "it is cut off"
           : code == VP8_STATUS_UNSUPPORTED_FEATURE ? "it uses a feature that libwebp does not know"
                                                    : "its picture data are corrupted");
}

static itg_status decode_frame(const WebPIterator *frame, int64_t width, int64_t height, itg_image *image,
                               itg_diagnostic *diagnostic) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, NULL, "libwebp is of another version than its headers");
  // What the frame's own header says must be what the container says: the buffer is cut by the latter.
  const VP8StatusCode header = WebPGetFeatures(frame->fragment.bytes, frame->fragment.size, &config.input);
  if (header != VP8_STATUS_OK) return explain(header, diagnostic);
  if (config.input.width != frame->width || config.input.height != frame->height || frame->x_offset < 0 ||
      frame->y_offset < 0 || frame->width > width - frame->x_offset || frame->height > height - frame->y_offset)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "not a readable WebP: a frame does not fit its canvas");
  const size_t stride = (size_t)width * 3;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = image->pixels + (size_t)frame->y_offset * stride + (size_t)frame->x_offset * 3;
  config.output.u.RGBA.stride = (int)stride;
  config.output.u.RGBA.size = (size_t)(frame->height - 1) * stride + (size_t)frame->width * 3;
  const VP8StatusCode code = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
  WebPFreeDecBuffer(&config.output);
  return code == VP8_STATUS_OK ? ITG_OK : explain(code, diagnostic);
}

static itg_status decode(const WebPDemuxer *demuxer, int64_t max_pixels, itg_diagnostic *diagnostic, itg_image *image) {
  const int64_t width = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH);
  const int64_t height = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
  ITG_TRY(itg_image_check_size(width, height, max_pixels, diagnostic));
  WebPIterator frame;
  if (!WebPDemuxGetFrame(demuxer, 1, &frame))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "not a readable WebP: it holds no picture");
  itg_status status = itg_image_create(width, height, 3, diagnostic, image);
  if (status == ITG_OK) {
    if (frame.width != width || frame.height != height)
      memset(image->pixels, 0, (size_t)width * (size_t)height * 3); // The frame leaves a part of the canvas.
    status = decode_frame(&frame, width, height, image, diagnostic);
  }
  WebPDemuxReleaseIterator(&frame);
  return status;
}

itg_status itg_image_decode_webp(itg_span bytes, int64_t max_pixels, itg_diagnostic *diagnostic, itg_image *out) {
  const WebPData data = {bytes.data, bytes.size};
  WebPDemuxState state;
  WebPDemuxer *demuxer = WebPDemuxPartial(&data, &state);
  if (!demuxer || state != WEBP_DEMUX_DONE) {
    WebPDemuxDelete(demuxer);
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "not a readable WebP: %s",
             state == WEBP_DEMUX_PARSE_ERROR ? "its structure is corrupted" : "it is cut off");
  }
  itg_image image = {0};
  const itg_status status = decode(demuxer, max_pixels, diagnostic, &image);
  WebPDemuxDelete(demuxer);
  if (status == ITG_OK) {
    *out = image;
  } else {
    itg_image_free(&image);
  }
  return status;
}
