// Float graphs of language and vision-language models against references that transformers computed: every layer within
// 1e-4 of its scale, logits within 1e-3. The tiny models whole; SmolLM2-135M from its GGUF file; with ITG_FULL_WEIGHTS (a folder
// that tools/make_full_weights filled) the full-size ones too.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/language_reference.h"

static itg_diagnostic why;
static double worst_layer, worst_logits;

static void check(itg_status status) {
  if (status != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
}

static void compare(const char *what, const float *ours, const float *theirs, size_t count, double tolerance,
                    double *worst) {
  assert_non_null(theirs);
  const double error = reference_error(ours, theirs, count);
  if (!(error <= tolerance)) fail_msg("%s is off by %g of its scale", what, error);
  *worst = fmax(*worst, error);
}

// The encoder and the connector, part by part. Returns the image features of all tiles, [tiles * tokens, hidden].
static float *check_vision(const itg_language_model *model, const char *folder) {
  const itg_vision_config *vision = &model->config.vision;
  int64_t pixel_dims[4], dims[4];
  float *pixels = reference_array(folder, "pixel_values", pixel_dims);
  assert_non_null(pixels);
  const int64_t side = vision->image_size / vision->patch_size;
  const size_t tiles = (size_t)pixel_dims[0], tile_pixels = (size_t)(pixel_dims[1] * pixel_dims[2] * pixel_dims[3]);
  const size_t rows = (size_t)(side * side + (vision->family == ITG_VISION_INTERNVL));
  const size_t hidden = rows * (size_t)vision->hidden;
  const size_t tokens = (size_t)vision->tile_tokens * (size_t)model->config.hidden;
  float *x = malloc(tiles * hidden * sizeof *x), *y = malloc(tiles * hidden * sizeof *y);
  float *features = malloc(tiles * tokens * sizeof *features);
  for (int32_t part = -1; part <= vision->layers; part++) { // Patches, layers, connector.
    const itg_vision_part built = {.first = part < 0 ? 0 : part,
                                   .end = part < 0                ? 0
                                          : part < vision->layers ? part + 1
                                                                  : part,
                                   .patches = part < 0,
                                   .connector = part == vision->layers};
    itg_graph *graph = NULL;
    check(itg_build_vision(model, &built, &why, &graph));
    const bool last = built.connector, normed = last && vision->family == ITG_VISION_IDEFICS3;
    for (size_t t = 0; t < tiles; t++) {
      reference_watch watch = {normed ? "vision.final_norm" : NULL, y + t * hidden, hidden};
      check(reference_run(graph, &model->config, part < 0 ? pixels + t * tile_pixels : x + t * hidden, &watch,
                          last ? features + t * tokens : y + t * hidden, &why));
    }
    itg_graph_destroy(graph);
    char name[64];
    snprintf(name, sizeof name, "vision_hidden_%02d", (int)part + 1);
    float *expected = last ? NULL : reference_array(folder, name, dims);
    if (expected) compare(name, y, expected, tiles * hidden, 1e-4, &worst_layer);
    free(expected);
    if (!last) memcpy(x, y, tiles * hidden * sizeof *x);
    if (last && normed) {
      expected = reference_array(folder, "vision_last_hidden", dims);
      compare("vision_last_hidden", y, expected, tiles * hidden, 1e-4, &worst_layer);
      free(expected);
    }
  }
  float *expected = reference_array(folder, "image_features", dims);
  compare("image_features", features, expected, tiles * tokens, 1e-4, &worst_layer);
  free(expected);
  free(pixels);
  free(x);
  free(y);
  return features;
}

// Token ids to logits, layer by layer.
static void check_text(const itg_language_model *model, const char *folder, const float *features) {
  const itg_language_config *config = &model->config;
  int64_t dims[4], id_dims[4];
  float *given = reference_array(folder, "input_ids", id_dims);
  assert_non_null(given);
  const int64_t rows = id_dims[0];
  const size_t width = (size_t)config->hidden, count = (size_t)rows * width;
  int32_t *ids = malloc((size_t)rows * sizeof *ids);
  float *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y);
  float *logits = malloc((size_t)rows * (size_t)config->vocabulary * sizeof *logits);
  for (int64_t i = 0; i < rows; i++) ids[i] = (int32_t)given[i];
  check(itg_language_embed(model, ids, (size_t)rows, &why, x));
  for (int64_t i = 0; i < rows; i++) {
    if (features && ids[i] == config->image_token) {
      memcpy(x + (size_t)i * width, features, width * sizeof *x);
      features += width;
    }
  }
  float *expected = reference_array(folder, "inputs_embeds", dims);
  compare("inputs_embeds", x, expected, count, 1e-4, &worst_layer);
  free(expected);
  float *stacked = reference_array(folder, "decoder_hidden", dims); // [layers + 1, rows, hidden] of the larger models
  for (int32_t layer = 0; layer <= config->layers; layer++) {
    const bool head = layer == config->layers;
    const itg_decoder_part part = {layer, head ? layer : layer + 1, head, rows, rows};
    itg_graph *graph = NULL;
    check(itg_build_decoder(model, &part, &why, &graph));
    reference_watch watch = {head ? "final_norm" : NULL, y, count};
    check(reference_run(graph, config, x, &watch, head ? logits : y, &why));
    itg_graph_destroy(graph);
    char name[64];
    if (head)
      snprintf(name, sizeof name, "decoder_final_norm");
    else
      snprintf(name, sizeof name, "decoder_hidden_%02d", (int)layer + 1);
    expected = reference_array(folder, name, dims);
    if (expected) compare(name, y, expected, count, 1e-4, &worst_layer);
    free(expected);
    // A trained model's stream has single values a thousand times the rest, whose float rounding shows against the mean.
    if (stacked && !head)
      compare("decoder_hidden", y, stacked + (size_t)(layer + 1) * count, count, 1e-3, &worst_layer);
    memcpy(x, y, count * sizeof *x);
  }
  free(stacked);
  expected = reference_array(folder, "logits_all", dims);
  const size_t vocabulary = (size_t)config->vocabulary;
  if (expected) compare("logits_all", logits, expected, (size_t)rows * vocabulary, 1e-3, &worst_logits);
  free(expected);
  expected = reference_array(folder, "logits_last8", dims);
  compare("logits_last8", logits + ((size_t)rows - 8) * vocabulary, expected, 8 * vocabulary, 1e-3, &worst_logits);
  free(expected);
  free(given);
  free(ids);
  free(x);
  free(y);
  free(logits);
}

static void check_model(const char *path, const char *reference, bool tiled) {
  static const char *const kinds[] = {"single", "tiled"};
  itg_language_model *model = NULL;
  char folder[16384];
  worst_layer = worst_logits = 0;
  check(itg_language_model_open(path, &why, &model));
  if (model->config.vision.family == ITG_VISION_NONE) {
    check_text(model, reference, NULL);
  } else {
    for (int k = 0; k < 1 + tiled; k++) {
      snprintf(folder, sizeof folder, "%s/%s", reference, kinds[k]);
      float *features = check_vision(model, folder);
      check_text(model, folder, features);
      free(features);
    }
  }
  itg_language_model_close(model);
  printf("%s: largest error of a layer %.1e, of logits %.1e of their scale\n", path, worst_layer, worst_logits);
}

static void tiny_models_equal_the_reference(void **state) {
  (void)state;
  static const char *const names[] = {"smolvlm-tiny", "smolvlm-tiny-idefics3-bf16-sharded", "internvl3-tiny",
                                      "internvl3-tiny-tied-bf16"};
  char path[4096], reference[8192];
  snprintf(path, sizeof path, "%s/data/vlm/%s", oracle_shared(), names[0]);
  if (!oracle_exists(path)) {
    printf("skipped: %s is not there\n", path);
    skip();
  }
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/data/vlm/%s", oracle_shared(), names[i]);
    snprintf(reference, sizeof reference, "%s/reference", path);
    check_model(path, reference, true);
  }
}

static void smollm2_equals_the_reference(void **state) {
  (void)state;
  char path[4096], reference[8192];
  snprintf(path, sizeof path, "%s/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", oracle_models());
  snprintf(reference, sizeof reference, "%s/data/vlm-full/smollm2-135m/reference", oracle_shared());
  if (!oracle_exists(path) || !oracle_exists(reference)) {
    printf("skipped: %s or %s is not there\n", path, reference);
    skip();
  }
  check_model(path, reference, false);
}

static void full_models_equal_the_reference(void **state) {
  (void)state;
  static const char *const names[] = {"smolvlm-500m", "internvl3-1b"};
  const char *weights = getenv("ITG_FULL_WEIGHTS");
  if (!weights) {
    printf("skipped: ITG_FULL_WEIGHTS names no folder with the full-size weights\n");
    skip();
  }
  char path[4096], reference[8192];
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", weights, names[i]);
    snprintf(reference, sizeof reference, "%s/data/vlm-full/%s/reference", oracle_shared(), names[i]);
    check_model(path, reference, false);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tiny_models_equal_the_reference),
                                     cmocka_unit_test(smollm2_equals_the_reference),
                                     cmocka_unit_test(full_models_equal_the_reference)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
