// Takes small float graphs to LEGAL for an NPU target, prepares them with the vendor's library, and compares the codes that its
// context gives with those of our own kernels. For tests that link the whole compiler.
#ifndef ITG_TESTS_NPU_NET_H
#define ITG_TESTS_NPU_NET_H

#include "adapt/adapt.h"
#include "lower/qnn/prepare.h"
#include "npu/qnn/stored.h"
#include "passes/passes.h"
#include "support/integer_net.h"
#include "support/npu_library.h"

static inline const itg_target *npu_target(const char *name) {
  const itg_target *target = NULL;
  assert_int_equal(itg_target_find(name, NULL, &target), ITG_OK);
  return target;
}

// Consumes the canonical graph (its outputs are set). `low`, `high`: of float inputs.
static inline itg_graph *npu_legalize(itg_graph *graph, const char *precision, const itg_target *target, float low,
                                      float high) {
  itg_diagnostic why = {0};
  itg_recipe recipe;
  itg_graph *legal = NULL;
  itg_pool *pool = NULL;
  itg_statistics *statistics = NULL;
  graph->name = "npu";
  assert_int_equal(itg_recipe_builtin(precision, &why, &recipe), ITG_OK);
  assert_int_equal(itg_pool_create(1, &why, &pool), ITG_OK);
  net_samples samples = {graph, low, high, 16, 99};
  const itg_sample_source source = {&samples, 8, net_read};
  const itg_equalization equalization = itg_recipe_equalization(&recipe, target);
  if (itg_adapt_run(graph, target, &why) != ITG_OK ||
      itg_calibrate_and_equalize(graph, &equalization, &source, pool, NULL, NULL, &why, &statistics) != ITG_OK ||
      itg_quantize(graph, statistics, &recipe, target, pool, &why) != ITG_OK ||
      itg_legalize(graph, target, &why, &legal) != ITG_OK)
    fail_msg("%s: %s (%s:%d)", why.subject, why.message, why.origin_file, why.origin_line);
  itg_statistics_destroy(statistics);
  itg_recipe_free(&recipe);
  itg_pool_destroy(pool);
  itg_graph_destroy(graph);
  return legal;
}

// x [rows,inputs] -> FullyConnected -> y [rows,outputs], legal for QCS6490 at a8w8.
static inline itg_graph *npu_linear(int64_t rows, int64_t inputs, int64_t outputs) {
  net_random_state = 3;
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, rows, inputs, 0, 0));
  itg_tensor *y = NET_NODE(graph, ITG_OP_FULLY_CONNECTED, net_no_attributes, NULL, x,
                           net_constant(graph, net_shape(2, outputs, inputs, 0, 0), -.3f, .3f),
                           net_constant(graph, net_shape(1, outputs, 0, 0, 0), -1, 1));
  assert_true(itg_graph_add_output(graph, y));
  return npu_legalize(graph, "a8w8", npu_target("qcs6490"), -3, 3);
}

// A .itg in memory with the graph's context for the target; freed by the caller. `on_cpu` (may be NULL): nodes on the CPU.
static inline itg_status npu_file(const itg_graph *legal, const itg_target *target, uint8_t **file, size_t *size,
                                  size_t *on_cpu, itg_diagnostic *why) {
  itg_qnn_blob blob = {0};
  itg_qnn_partition part = {0};
  const itg_qnn_prepare_options options = {0};
  ITG_TRY(itg_qnn_prepare_isolated(legal, target, &options, why, &blob));
  assert_int_equal(itg_qnn_blob_partition(&blob, legal, why, &part), ITG_OK);
  for (int32_t i = 0; i < part.input_count; i++) blob.inputs[i].name = part.inputs[i]->name;
  for (int32_t i = 0; i < part.output_count; i++) blob.outputs[i].name = part.outputs[i]->name;
  uint8_t *body = NULL;
  size_t body_size = 0;
  assert_int_equal(itg_qnn_stored_encode(target, blob.core, blob.build, 3, blob.op_count, blob.inputs, blob.input_count,
                                         blob.outputs, blob.output_count, (itg_span){blob.data, blob.size}, why, &body,
                                         &body_size),
                   ITG_OK);
  const itg_metadata_section section = {target->name, (const char *)body, body_size, true};
  const itg_status status = itg_container_encode(legal, &section, 1, why, file, size);
  if (on_cpu) *on_cpu = part.node_count - part.npu_count;
  free(body);
  itg_qnn_partition_free(&part);
  itg_qnn_blob_free(&blob);
  return status;
}

typedef struct npu_difference { // Theirs minus ours, in codes of the output.
  size_t count, unequal;
  int32_t largest;
  double mean;
} npu_difference;

static inline itg_session *npu_session(const itg_model *model, const char *backend, const char *cpu) {
  itg_session_options options;
  itg_session_options_default(&options);
  options.backend = backend;
  options.cpu = cpu;
  options.thread_count = 1;
  itg_session *session = NULL;
  itg_diagnostic why = {0};
  if (itg_session_create(model, &options, &why, &session) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  return session;
}

// Random codes through the stored context and through our kernels ("reference", "htp-v68", ..); all outputs.
static inline npu_difference npu_compare(const uint8_t *file, size_t size, const char *cpu, int runs) {
  itg_diagnostic why = {0};
  itg_model *model = NULL;
  if (itg_model_open_memory(file, size, &why, &model) != ITG_OK) fail_msg("%s", why.message);
  itg_session *theirs = npu_session(model, "qnn", NULL), *ours = npu_session(model, "cpu", cpu);
  npu_difference result = {0};
  for (int run = 0; run < runs; run++) {
    net_random_state = 31337 + (uint64_t)run;
    for (size_t i = 0; i < itg_model_input_count(model); i++) {
      const itg_tensor_info *info = itg_model_input(model, i);
      const size_t bytes = info->count * itg_dtype_size(info->dtype);
      uint8_t *codes = malloc(bytes);
      for (size_t k = 0; k < bytes; k++) codes[k] = (uint8_t)net_random();
      if (info->dtype == ITG_DTYPE_S64) {
        for (size_t k = 0; k < info->count; k++) ((int64_t *)codes)[k] = net_random() % 16;
      }
      assert_int_equal(itg_session_set_input_codes(theirs, i, codes, bytes, &why), ITG_OK);
      assert_int_equal(itg_session_set_input_codes(ours, i, codes, bytes, &why), ITG_OK);
      free(codes);
    }
    if (itg_session_run(theirs, &why) != ITG_OK || itg_session_run(ours, &why) != ITG_OK) fail_msg("%s", why.message);
    for (size_t o = 0; o < itg_model_output_count(model); o++) {
      const itg_tensor_info *info = itg_model_output(model, o);
      const size_t bytes = info->count * itg_dtype_size(info->dtype);
      void *a = malloc(bytes), *b = malloc(bytes);
      assert_int_equal(itg_session_get_output_codes(theirs, o, a, bytes, &why), ITG_OK);
      assert_int_equal(itg_session_get_output_codes(ours, o, b, bytes, &why), ITG_OK);
      for (size_t k = 0; k < info->count; k++) {
        const bool narrow = info->dtype == ITG_DTYPE_U8;
        const int32_t difference =
            narrow ? ((uint8_t *)a)[k] - ((uint8_t *)b)[k] : (int32_t)((uint16_t *)a)[k] - (int32_t)((uint16_t *)b)[k];
        result.unequal += difference != 0;
        result.largest = abs(difference) > result.largest ? abs(difference) : result.largest;
        result.mean += difference;
      }
      result.count += info->count;
      free(a);
      free(b);
    }
  }
  result.mean /= (double)result.count;
  itg_session_destroy(theirs);
  itg_session_destroy(ours);
  itg_model_close(model);
  return result;
}

#endif
