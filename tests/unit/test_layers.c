// Where accuracy is lost (compile/layers.h): a planted fault is found, healthy layers are not blamed, and dead channels are
// counted.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapt/adapt.h"
#include "compile/layers.h"
#include "container/container.h"
#include "import/import.h"
#include "lower/legalize.h"
#include "passes/passes.h"
#include "quantize/quantize.h"
#include "support/onnx_writer.h"

enum { SIDE = 12, INPUT = 3 * SIDE * SIDE, SAMPLES = 6, MAX_STEPS = 32 };

static itg_status read_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)context;
  (void)diagnostic;
  uint32_t seed = 100 + (uint32_t)index;
  float tint = 0;
  for (size_t i = 0; i < INPUT; i++) {
    if (i % (SIDE * SIDE) == 0) tint = onnx_random(&seed);
    ((float *)inputs[0])[i] = tint + 0.3f * onnx_random(&seed);
  }
  return ITG_OK;
}

static void must(itg_status status, const itg_diagnostic *why) {
  if (status != ITG_OK) fail_msg("%s: %s", why->subject, why->message);
}

// A network from its file to LEGAL; what the LEGAL graph needs is kept beside it.
typedef struct network {
  itg_graph *source, *quantized, *twin, *legal;
  itg_statistics *statistics;
  itg_pool *pool;
} network;

static network build(onnx_bytes model, const char *precision, int threads) {
  char path[] = "/tmp/intaglio-layers-XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  onnx_write_file(path, model.data, model.size);
  free(model.data);
  network n = {0};
  itg_diagnostic why = {0};
  itg_recipe recipe;
  const itg_import_options options = {.batch_is_one = true};
  const itg_sample_source source = {NULL, SAMPLES, read_sample};
  must(itg_import_onnx(path, &options, NULL, &why, &n.source), &why);
  unlink(path);
  must(itg_passes_run(n.source, NULL, NULL, &why), &why);
  must(itg_graph_clone(n.source, &why, &n.quantized), &why);
  must(itg_adapt_run(n.quantized, NULL, &why), &why);
  must(itg_pool_create(threads, &why, &n.pool), &why);
  must(itg_calibrate(n.quantized, &source, n.pool, NULL, NULL, &why, &n.statistics), &why);
  must(itg_recipe_builtin(precision, &why, &recipe), &why);
  must(itg_quantize_with_twin(n.quantized, n.statistics, &recipe, NULL, n.pool, &why, &n.twin), &why);
  must(itg_legalize(n.quantized, NULL, &why, &n.legal), &why);
  itg_recipe_free(&recipe);
  return n;
}

static void destroy(network *n) {
  itg_graph_destroy(n->legal);
  itg_graph_destroy(n->twin);
  itg_statistics_destroy(n->statistics);
  itg_graph_destroy(n->quantized);
  itg_graph_destroy(n->source);
  itg_pool_destroy(n->pool);
}

// Names point into `model`, which the caller closes.
static size_t measure(const network *n, itg_report_layer *layers, itg_layers_result *result, itg_model **model,
                      uint8_t **bytes) {
  itg_diagnostic why = {0};
  size_t size;
  itg_session *session;
  must(itg_container_encode(n->legal, NULL, 0, &why, bytes, &size), &why);
  must(itg_model_open_memory(*bytes, size, &why, model), &why);
  must(itg_session_create(*model, NULL, &why, &session), &why);
  const size_t count = itg_session_step_count(session);
  assert_true(count <= MAX_STEPS);
  for (size_t i = 0; i < count; i++) {
    itg_step_info step;
    must(itg_session_step(session, i, &step), &why);
    layers[i] = (itg_report_layer){.name = step.name, .op = step.op, .loss = {NAN, NAN, NAN, NAN, NAN, 0, 0}};
  }
  itg_session_destroy(session);
  const itg_layers_options options = {.samples = {NULL, SAMPLES, read_sample, NULL, NULL}, .pool = n->pool};
  must(itg_layers_measure(n->twin, *model, &options, &why, layers, count, result), &why);
  return count;
}

// Half of the weights of a convolution are lost.
static void spoil(itg_graph *legal, const char *name) {
  ITG_FOR_EACH_NODE(node, legal) {
    if (strcmp(node->name, name) != 0 || node->op != ITG_OP_Q_CONV) continue;
    size_t count;
    assert_true(itg_shape_count(&node->inputs[1]->shape, &count));
    int8_t *codes = itg_tensor_writable(node->inputs[1]);
    for (size_t i = 0; i < count; i += 2) codes[i] = 0;
    return;
  }
  fail_msg("no convolution %s", name);
}

static void a_planted_fault_is_named(void **state) {
  (void)state;
  double share_of_one_thread = 0;
  for (int threads = 1; threads <= 2; threads++) {
    network n = build(onnx_small_embedder(SIDE, NULL), "a8w8+s16", threads);
    spoil(n.legal, "conv2");
    itg_report_layer layers[MAX_STEPS];
    itg_layers_result result = {0};
    itg_model *model = NULL;
    uint8_t *bytes = NULL;
    const size_t count = measure(&n, layers, &result, &model, &bytes);
    const itg_report report = {.layers = layers, .layer_count = count};
    const itg_report_layer *worst = itg_report_first_offender(&report);
    assert_non_null(worst);
    assert_string_equal(worst->name, "conv2");
    assert_true(worst->loss.share > 0.95);
    assert_true(worst->loss.local_db < 10);
    assert_true(result.samples == 4 && result.explained > 0.7 && result.explained < 1.3);
    char sentence[256];
    itg_report_loss_sentence(&report, sentence, sizeof sentence);
    assert_non_null(strstr(sentence, "conv2"));
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
      const itg_layer_loss *loss = &layers[i].loss;
      if (loss->share > 0) sum += loss->share;
      if (strcmp(layers[i].name, "conv1") == 0) {
        assert_true(loss->local_db > 35);                             // Alone it is as good as ever,
        assert_true(fabs(loss->local_db - loss->accumulated_db) < 3); // and nothing before it went wrong.
      }
      if (strcmp(layers[i].name, "gemm") == 0) {
        assert_true(loss->local_db > 35);
        assert_true(loss->accumulated_db < 15);
      }
    }
    assert_true(fabs(sum - 1) < 1e-9);
    if (threads == 1) share_of_one_thread = worst->loss.share;
    assert_true(worst->loss.share == share_of_one_thread);
    itg_model_close(model);
    free(bytes);
    destroy(&n);
  }
}

static void dead_channels_are_counted(void **state) {
  (void)state;
  network n = build(onnx_fragile_network(SIDE), "a8w8", 2);
  itg_report_layer layers[MAX_STEPS];
  itg_layers_result result = {0};
  itg_model *model = NULL;
  uint8_t *bytes = NULL;
  const size_t count = measure(&n, layers, &result, &model, &bytes);
  size_t dead = 0;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(layers[i].name, "conv1") == 0 || strcmp(layers[i].name, "abs") == 0) {
      assert_int_equal(layers[i].loss.channels, 8);
      assert_true(itg_layer_is_alarming(&layers[i].loss));
      dead += layers[i].loss.dead_channels;
    }
    if (strcmp(layers[i].name, "conv2") == 0) assert_int_equal(layers[i].loss.dead_channels, 0);
  }
  assert_int_equal(dead, 14); // All but the loud one, in both tensors.
  const itg_report report = {.layers = layers, .layer_count = count};
  const itg_report_layer *worst = itg_report_first_offender(&report);
  assert_non_null(worst);
  assert_true(strcmp(worst->name, "conv1") == 0 || strcmp(worst->name, "abs") == 0);
  itg_model_close(model);
  free(bytes);
  destroy(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_planted_fault_is_named),
      cmocka_unit_test(dead_channels_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
