// See canvas.h.
#include "pipelines/canvas.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 1 << 16 };

static void close_place(itg_canvases *c, itg_open_canvas *place) {
  if (place->network.run) c->source.close(c->source.context, &place->network);
  *place = (itg_open_canvas){0};
}

static itg_status read_size(const itg_canvases *c, const itg_network *n, itg_diagnostic *diagnostic, itg_canvas *out) {
  const itg_shape *shape = n->input_count == 1 ? &n->input(n->context, 0)->shape : NULL;
  if (!shape || shape->rank != 4 || shape->dims[0] != 1 || shape->dims[1] != 3 || shape->dims[2] < 1 ||
      shape->dims[2] > MAX_SIDE || shape->dims[3] < 1 || shape->dims[3] > MAX_SIDE || n->output_count != 1)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, c->path, "one input [1,3,height,width] and one output were expected");
  *out = (itg_canvas){(int32_t)shape->dims[2], (int32_t)shape->dims[3]};
  return ITG_OK;
}

static itg_status list_files(itg_canvases *c, itg_diagnostic *diagnostic) {
  DIR *directory = opendir(c->path);
  if (!directory) ITG_FAIL(diagnostic, ITG_ERROR_IO, c->path, "cannot open the model's folder");
  for (const struct dirent *entry; (entry = readdir(directory)) && c->count < ITG_MAX_CANVASES;) {
    int height, width, end = 0;
    if (sscanf(entry->d_name, "model-1x3x%5dx%5d.itg%n", &height, &width, &end) != 2 || !end || entry->d_name[end])
      continue;
    if (height > 0 && width > 0) c->sizes[c->count++] = (itg_canvas){height, width};
  }
  closedir(directory);
  return ITG_OK;
}

itg_status itg_canvases_open(itg_canvases *c, const char *folder, const itg_network_source *source,
                             itg_diagnostic *diagnostic) {
  c->source = *source;
  c->path = strdup(folder);
  ITG_TRY_MEMORY(c->path, diagnostic);
  ITG_TRY(list_files(c, diagnostic));
  if (c->count) return ITG_OK;
  itg_open_canvas *place = &c->open[0];
  const itg_status status = source->open(source->context, folder, "model", NULL, 0, diagnostic, &place->network);
  if (status == ITG_ERROR_SHAPE) return ITG_OK; // It leaves its size open.
  ITG_TRY(status);
  ITG_TRY(read_size(c, &place->network, diagnostic, &place->size));
  c->sizes[c->count++] = place->size;
  return ITG_OK;
}

void itg_canvases_close(itg_canvases *c) {
  for (size_t i = 0; i < ITG_OPEN_CANVASES; i++) close_place(c, &c->open[i]);
  free(c->path);
  *c = (itg_canvases){0};
}

itg_status itg_canvases_network(itg_canvases *c, itg_canvas size, itg_diagnostic *diagnostic, const itg_network **out) {
  itg_open_canvas *oldest = &c->open[0];
  for (size_t i = 0; i < ITG_OPEN_CANVASES; i++) {
    itg_open_canvas *place = &c->open[i];
    if (place->network.run && place->size.height == size.height && place->size.width == size.width) {
      place->used = ++c->clock;
      *out = &place->network;
      return ITG_OK;
    }
    if (!place->network.run || (oldest->network.run && place->used < oldest->used)) oldest = place;
  }
  close_place(c, oldest);
  char shape[64];
  const char *const shapes[] = {shape};
  snprintf(shape, sizeof shape, "1x3x%dx%d", size.height, size.width);
  ITG_TRY(c->source.open(c->source.context, c->path, "model", shapes, 1, diagnostic, &oldest->network));
  oldest->used = ++c->clock;
  itg_status status = read_size(c, &oldest->network, diagnostic, &oldest->size);
  if (status == ITG_OK && (oldest->size.height != size.height || oldest->size.width != size.width))
    status = itg_fail(diagnostic, ITG_ERROR_SHAPE, c->path, __FILE__, __LINE__, "the model does not take [%s]", shape);
  if (status != ITG_OK) {
    close_place(c, oldest);
    return status;
  }
  *out = &oldest->network;
  return ITG_OK;
}
