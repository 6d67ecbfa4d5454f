// The picture side of CLIP and SigLIP: preprocess_cfg.json says how a picture becomes the encoder's input. See services.h.
#include <stdio.h>
#include <stdlib.h>

#include "image/preprocess.h"
#include "pipelines/service.h"
#include "tensor/dtype.h"

typedef struct clip_visual {
  itg_network_source source;
  itg_network network;
  itg_preprocess *preprocess;
  float *input;
} clip_visual;

static void close_visual(void *state) {
  clip_visual *visual = state;
  if (visual->network.run) visual->source.close(visual->source.context, &visual->network);
  itg_preprocess_close(visual->preprocess);
  free(visual->input);
  free(visual);
}

static itg_status embed_image(void *state, const itg_image *image, itg_diagnostic *diagnostic, float *out) {
  clip_visual *visual = state;
  const itg_network *n = &visual->network;
  ITG_TRY(itg_preprocess_run(visual->preprocess, image, &n->input(n->context, 0)->shape, diagnostic, visual->input));
  const float *input = visual->input;
  return n->run(n->context, &input, &out, diagnostic);
}

static const itg_service_calls visual_calls = {.close = close_visual, .embed_image = embed_image};

static itg_status open_network(clip_visual *v, const char *folder, itg_diagnostic *diagnostic) {
  char shape[64];
  const char *const shapes[] = {shape};
  itg_status status = v->source.open(v->source.context, folder, "model", NULL, 0, diagnostic, &v->network);
  if (status == ITG_ERROR_SHAPE) {
    snprintf(shape, sizeof shape, "1x3x%dx%d", v->preprocess->height, v->preprocess->width);
    status = v->source.open(v->source.context, folder, "model", shapes, 1, diagnostic, &v->network);
  }
  return status;
}

static itg_status check_network(clip_visual *v, const char *folder, itg_diagnostic *diagnostic) {
  const itg_network *n = &v->network;
  const int32_t height = v->preprocess->height, width = v->preprocess->width;
  const itg_shape planes = {4, {1, 3, height, width}}, pixels = {4, {1, height, width, 3}};
  const itg_shape *shape = n->input_count == 1 ? &n->input(n->context, 0)->shape : NULL;
  const bool takes_pixels = shape && itg_shape_equal(shape, &pixels);
  if (!shape || n->output_count != 1 || n->output(n->context, 0)->count < 1 ||
      !(takes_pixels || itg_shape_equal(shape, &planes)))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, folder,
             "not a CLIP image encoder for preprocess_cfg.json: [1,3,%d,%d] (or [1,%d,%d,3] of pixels) -> embedding "
             "was expected",
             height, width, height, width);
  if (takes_pixels) itg_preprocess_keep_pixels(v->preprocess); // Such a graph normalizes by itself.
  return ITG_OK;
}

static itg_status prepare(clip_visual *v, const char *folder, itg_diagnostic *diagnostic) {
  char path[ITG_SERVICE_PATH];
  ITG_TRY(itg_service_path(folder, "preprocess_cfg.json", diagnostic, path));
  ITG_TRY(itg_preprocess_open(path, diagnostic, &v->preprocess));
  if (v->preprocess->height < 1 || v->preprocess->width < 1)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, path, "\"size\" is missing");
  ITG_TRY(open_network(v, folder, diagnostic));
  ITG_TRY(check_network(v, folder, diagnostic));
  v->input = calloc(v->network.input(v->network.context, 0)->count, sizeof *v->input);
  ITG_TRY_MEMORY(v->input, diagnostic);
  return ITG_OK;
}

itg_status itg_open_clip_visual(const char *folder, const itg_network_source *source, itg_diagnostic *diagnostic,
                                itg_service *service) {
  clip_visual *v = calloc(1, sizeof *v);
  ITG_TRY_MEMORY(v, diagnostic);
  v->source = *source;
  const itg_status status = prepare(v, folder, diagnostic);
  if (status != ITG_OK) {
    close_visual(v);
    return status;
  }
  service->calls = &visual_calls;
  service->state = v;
  service->embedding_size = v->network.output(v->network.context, 0)->count;
  return ITG_OK;
}
