// The vision encoder: every tile of every sample goes through it as floats, layer by layer.
#include <stdlib.h>
#include <string.h>

#include "compile/language/run.h"
#include "compile/source.h"
#include "import/language/build.h"

// Tiles that set ranges: enough for that, and a long list of pictures stays affordable.
enum { CALIBRATING_TILES = 16 };

static size_t count_tiles(const itg_language_samples *samples) {
  size_t count = 0;
  for (size_t i = 0; i < samples->count; i++) {
    for (size_t t = 0; t < samples->items[i].tile_sets; t++) count += samples->items[i].tiles[t].count;
  }
  return count;
}

static itg_status add_tiles(itg_language_run *run, const itg_language_samples *samples) {
  const itg_vision_config *vision = &run->config.vision;
  const size_t width = 3 * (size_t)vision->image_size * (size_t)vision->image_size;
  for (size_t i = 0; i < samples->count; i++) {
    for (size_t t = 0; t < samples->items[i].tile_sets; t++) {
      const itg_vision_tiles *tiles = &samples->items[i].tiles[t];
      for (size_t n = 0; n < tiles->count; n++) {
        itg_activations *tile = &run->tiles.samples[run->tiles.count];
        *tile = (itg_activations){malloc(width * sizeof(float)), 1, width};
        ITG_TRY_MEMORY(tile->values, run->diagnostic);
        run->tiles.count++;
        itg_vision_tile_values(vision, tiles, n, tile->values);
      }
    }
  }
  return ITG_OK;
}

static itg_status make_stream(itg_language_run *run) {
  const size_t calibrating = count_tiles(&run->calibration), all = calibrating + count_tiles(&run->judged);
  if (calibrating == 0)
    ITG_FAIL(run->diagnostic, ITG_ERROR_ARGUMENT, run->options->calibration,
             "the model has a vision encoder, but no calibration sample has a picture: give a .json list of "
             "conversations with pictures");
  run->tiles.samples = calloc(all + 1, sizeof run->tiles.samples[0]);
  ITG_TRY_MEMORY(run->tiles.samples, run->diagnostic);
  run->tiles.calibrating = calibrating < CALIBRATING_TILES ? calibrating : CALIBRATING_TILES;
  ITG_TRY(add_tiles(run, &run->calibration));
  return add_tiles(run, &run->judged);
}

itg_status itg_language_compile_vision(itg_language_run *run) {
  const int32_t layers = run->config.vision.layers;
  const double start = itg_now();
  itg_tensor *output = NULL;
  ITG_TRY(make_stream(run));
  ITG_TRY(itg_graph_create(run->diagnostic, &run->vision));
  const itg_segment_options options = {
      .config = &run->config, .recipe = &run->recipe, .pool = run->pool, .keep_outputs = true};
  for (int32_t part = -1; part <= layers; part++) { // Patches, layers, connector.
    const itg_vision_part built = {.first = part < 0 ? 0 : part,
                                   .end = part < 0        ? 0
                                          : part < layers ? part + 1
                                                          : part,
                                   .patches = part < 0,
                                   .connector = part == layers};
    itg_graph *graph = NULL;
    ITG_TRY(itg_language_progress(run, "vision"));
    ITG_TRY(itg_build_vision(run->model, &built, run->diagnostic, &graph));
    ITG_TRY(itg_segment_compile(graph, &options, &run->tiles, run->vision, run->diagnostic, &output));
  }
  ITG_TRY_MEMORY(itg_graph_add_output(run->vision, output), run->diagnostic);
  run->vision->stage = ITG_STAGE_LEGAL;
  run->result.parts[run->result.part_count++] =
      (itg_language_part){.role = "vision", .compile_seconds = itg_now() - start};
  return ITG_OK;
}
