// Single operations on the vendor's real library: our arithmetic profiles must give its codes.
//
// facts: 99 % of all codes of convolution, fully connected and MatMul equal, the rest within 1 code (u8) or 3 codes (u16).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "container/container.h"
#include "graph/integer_ops.h"
#include "lower/qnn/prepare.h"
#include "npu/qnn/stored.h"
#include "quantize/encodings.h"
#include "support/npu_library.h"
#include "tensor/multiplier.h"

static uint64_t seed = 7;
static uint32_t random_bits(void) {
  seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
  return (uint32_t)(seed >> 32);
}
static double uniform(double low, double high) { return low + (high - low) * random_bits() / 4294967296.0; }

static itg_tensor *activation(itg_graph *graph, const char *name, itg_dtype dtype, const itg_shape *shape, double scale,
                              int32_t zero) {
  itg_tensor *tensor = itg_graph_add_tensor(graph, name, dtype, shape);
  const double rounded = (double)(float)scale;
  tensor->encoding = itg_encoding_create(graph, dtype, -1, 1, &rounded, &zero);
  assert_non_null(tensor->encoding);
  return tensor;
}

typedef enum kind { CONV, DEPTHWISE, FULLY_CONNECTED, MATMUL } kind;
static const char *const kind_names[] = {"Conv2d", "DepthWiseConv2d", "FullyConnected", "MatMul"};

// One operation with random weights and scales; outputs use most of their range.
static itg_graph *make_graph(kind what, itg_dtype dtype) {
  enum { ROWS = 8, IN = 32, OUT = 24 };
  itg_graph *graph = NULL;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  graph->name = "one operation";
  graph->stage = ITG_STAGE_LEGAL;
  const bool image = what == CONV || what == DEPTHWISE, wide = dtype == ITG_DTYPE_U16;
  const int outputs = what == DEPTHWISE ? IN : OUT, taps = image ? 9 : 1, inner = what == DEPTHWISE ? 1 : IN;
  const itg_shape x_shape =
      image ? itg_shape_of(4, (int64_t[]){1, ROWS, ROWS, IN}) : itg_shape_of(2, (int64_t[]){ROWS, IN});
  const itg_shape y_shape =
      image ? itg_shape_of(4, (int64_t[]){1, ROWS, ROWS, outputs}) : itg_shape_of(2, (int64_t[]){ROWS, outputs});
  const int top = wide ? 65535 : 255;
  const double s_x = 8.0 / top, amplitude = 6 * sqrt(taps * inner);
  itg_tensor *x = activation(graph, "x", dtype, &x_shape, s_x, (int32_t)(random_bits() % (uint32_t)(top + 1)));
  itg_tensor *y = activation(graph, "y", dtype, &y_shape, uniform(0.7, 1.3) * amplitude / top,
                             top / 2 + (int32_t)(random_bits() % 20));
  assert_true(itg_graph_add_input(graph, x) && itg_graph_add_output(graph, y));
  const double scale_x = x->encoding->scales[0], scale_y = y->encoding->scales[0];
  if (what == MATMUL) {
    const itg_shape b_shape = itg_shape_of(2, (int64_t[]){IN, OUT});
    itg_tensor *b = activation(graph, "b", ITG_DTYPE_U8, &b_shape, 4.0 / 255, 128);
    assert_true(itg_graph_add_input(graph, b));
    itg_node *node = itg_graph_insert_node(graph, NULL, ITG_OP_Q_MATMUL, "matmul", (itg_tensor *[]){x, b}, 2, &y, 1);
    itg_requantize_attributes *a = &node->attributes.requantize;
    *a = (itg_requantize_attributes){.high = top};
    assert_true(itg_multiplier_from_double(scale_x * b->encoding->scales[0] / scale_y, &a->multiplier, &a->shift));
    a->pre_shift = itg_pre_shift_for_bound((uint64_t)IN * (uint64_t)top * 128);
    a->wide = a->pre_shift > 0;
    return graph;
  }
  const itg_shape weight_shape =
      image ? itg_shape_of(4, (int64_t[]){outputs, 3, 3, inner}) : itg_shape_of(2, (int64_t[]){outputs, inner});
  const itg_shape vector = itg_shape_of(1, (int64_t[]){outputs});
  itg_tensor *weight = itg_graph_add_constant(graph, "weight", ITG_DTYPE_S8, &weight_shape, NULL);
  itg_tensor *bias = itg_graph_add_constant(graph, "bias", ITG_DTYPE_S32, &vector, NULL);
  itg_tensor *multiplier = itg_graph_add_constant(graph, "multiplier", ITG_DTYPE_S32, &vector, NULL);
  itg_tensor *shift = itg_graph_add_constant(graph, "shift", ITG_DTYPE_S32, &vector, NULL);
  double scales[64];
  int64_t bound = 0;
  const int zero = x->encoding->zero_points[0], reach = zero > top - zero ? zero : top - zero;
  for (int o = 0; o < outputs; o++) {
    scales[o] = (double)(float)(0.01 * uniform(0.5, 1.5));
    int64_t sum = 0;
    for (int k = 0; k < taps * inner; k++) {
      const int w = (int)(random_bits() % 255) - 127;
      ((int8_t *)itg_tensor_writable(weight))[o * taps * inner + k] = (int8_t)w;
      sum += abs(w);
    }
    const int32_t b = (int32_t)(uniform(-1, 1) / (scale_x * scales[o]));
    ((int32_t *)itg_tensor_writable(bias))[o] = b;
    sum = sum * reach + abs(b);
    bound = sum > bound ? sum : bound;
    assert_true(itg_multiplier_from_double(scale_x * scales[o] / scale_y,
                                           (int32_t *)itg_tensor_writable(multiplier) + o,
                                           (int32_t *)itg_tensor_writable(shift) + o));
  }
  weight->encoding = itg_encoding_create(graph, ITG_DTYPE_S8, 0, outputs, scales, NULL);
  const itg_op op = image ? ITG_OP_Q_CONV : ITG_OP_Q_FULLY_CONNECTED;
  itg_node *node =
      itg_graph_insert_node(graph, NULL, op, "matrix", (itg_tensor *[]){x, weight, bias, multiplier, shift}, 5, &y, 1);
  itg_q_conv_attributes *a = &node->attributes.q_conv;
  *a = (itg_q_conv_attributes){.group = what == DEPTHWISE ? IN : 1, .high = top, .bound = bound};
  a->pre_shift = itg_pre_shift_for_bound((uint64_t)bound);
  a->wide = a->pre_shift > 0;
  if (image)
    a->window = (itg_window){
        .rank = 2, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .pad_begin = {1, 1}, .pad_end = {1, 1}};
  return graph;
}

static int32_t code_at(const void *codes, size_t i, itg_dtype dtype) {
  return dtype == ITG_DTYPE_U8 ? ((const uint8_t *)codes)[i] : ((const uint16_t *)codes)[i];
}

// Runs the graph by our session in the profile and by the vendor's library; counts codes that differ.
static void compare(itg_graph *graph, const itg_target *target, size_t *total, size_t *unequal, int32_t *largest) {
  itg_diagnostic why = {0};
  char path[] = "/tmp/itg-operation-XXXXXX";
  const int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  close(descriptor);
  if (itg_container_write(path, graph, NULL, 0, &why) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  itg_model *model = NULL;
  itg_session *session = NULL;
  if (itg_model_open(path, &why, &model) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  itg_session_options options;
  itg_session_options_default(&options);
  options.cpu = target->arch < 73 ? "htp-v68" : "htp-v73";
  options.thread_count = 1;
  if (itg_session_create(model, &options, &why, &session) != ITG_OK) fail_msg("%s", why.message);
  itg_qnn_blob blob = {0};
  const itg_qnn_prepare_options prepare = {0};
  if (itg_qnn_prepare_isolated(graph, target, &prepare, &why, &blob) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  itg_qnn_library library;
  itg_qnn_context *context = NULL;
  if (itg_qnn_library_open(NULL, "libQnnHtp.so", target, &why, &library) != ITG_OK) fail_msg("%s", why.message);
  if (itg_qnn_context_open(&library, blob.data, blob.size, ITG_QNN_GRAPH_NAME, blob.inputs, blob.input_count,
                           blob.outputs, blob.output_count, &why, &context) != ITG_OK)
    fail_msg("%s", why.message);
  void *inputs[2] = {0};
  for (int i = 0; i < graph->input_count; i++) {
    size_t bytes;
    assert_true(itg_shape_bytes(&graph->inputs[i]->shape, graph->inputs[i]->dtype, &bytes));
    inputs[i] = malloc(bytes);
    for (size_t k = 0; k < bytes; k++) ((uint8_t *)inputs[i])[k] = (uint8_t)random_bits();
    if (itg_session_set_input_codes(session, (size_t)i, inputs[i], bytes, &why) != ITG_OK) fail_msg("%s", why.message);
  }
  const itg_dtype dtype = graph->outputs[0]->dtype;
  size_t bytes;
  assert_true(itg_shape_bytes(&graph->outputs[0]->shape, dtype, &bytes));
  void *ours = malloc(bytes), *theirs = malloc(bytes);
  if (itg_session_run(session, &why) != ITG_OK) fail_msg("%s", why.message);
  if (itg_session_get_output_codes(session, 0, ours, bytes, &why) != ITG_OK) fail_msg("%s", why.message);
  itg_qnn_run_profile profile;
  if (itg_qnn_context_run(context, (const void *const *)inputs, &theirs, &profile, &why) != ITG_OK)
    fail_msg("%s", why.message);
  assert_true(profile.accelerator_rpc == 0); // No device here, and nothing claims one.
  const size_t count = bytes / itg_dtype_size(dtype);
  for (size_t i = 0; i < count; i++) {
    const int32_t difference = abs(code_at(ours, i, dtype) - code_at(theirs, i, dtype));
    *unequal += difference != 0;
    *largest = difference > *largest ? difference : *largest;
  }
  *total += count;
  for (int i = 0; i < 2; i++) free(inputs[i]);
  free(ours);
  free(theirs);
  itg_qnn_context_close(context);
  itg_qnn_library_close(&library);
  itg_qnn_blob_free(&blob);
  itg_session_destroy(session);
  itg_model_close(model);
  unlink(path);
}

static void profiles_give_the_librarys_codes(void **state) {
  (void)state;
  static const char *const names[] = {"qcs6490", "sm8550"};
  for (int t = 0; t < 2; t++) {
    const itg_target *target = NULL;
    assert_int_equal(itg_target_find(names[t], NULL, &target), ITG_OK);
    for (int what = CONV; what <= MATMUL; what++) {
      for (int wide = 0; wide < 2; wide++) {
        size_t total = 0, unequal = 0;
        int32_t largest = 0;
        for (int repeat = 0; repeat < 4; repeat++) {
          itg_graph *graph = make_graph((kind)what, wide ? ITG_DTYPE_U16 : ITG_DTYPE_U8);
          compare(graph, target, &total, &unequal, &largest);
          itg_graph_destroy(graph);
        }
        print_message("%s %s %s: %zu of %zu codes differ, at most by %d\n", names[t], kind_names[what],
                      wide ? "u16" : "u8", unequal, total, largest);
        assert_true(unequal * 100 <= total && largest <= (wide ? 3 : 1));
      }
    }
  }
}

// A binary made for one chip is refused on another before the library sees it.
static void foreign_contexts_are_refused(void **state) {
  (void)state;
  const itg_target *small = NULL, *large = NULL;
  assert_int_equal(itg_target_find("qcs6490", NULL, &small), ITG_OK);
  assert_int_equal(itg_target_find("sm8550", NULL, &large), ITG_OK);
  itg_graph *graph = make_graph(FULLY_CONNECTED, ITG_DTYPE_U8);
  itg_qnn_blob blob = {0}, again = {0};
  itg_diagnostic why = {0};
  const itg_qnn_prepare_options options = {0};
  assert_int_equal(itg_qnn_prepare_isolated(graph, large, &options, &why, &blob), ITG_OK);
  assert_int_equal(itg_qnn_blob_check(blob.data, blob.size, large, &why), ITG_OK);
  assert_int_equal(itg_qnn_blob_check(blob.data, blob.size, small, &why), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "v73"));
  assert_int_equal(itg_qnn_blob_check("not a context", 13, small, &why), ITG_ERROR_FORMAT);
  assert_int_equal(itg_qnn_prepare_isolated(graph, large, &options, &why, &again), ITG_OK);
  assert_int_equal(blob.size, again.size);
  assert_memory_equal(blob.data, again.data, blob.size); // Deterministic.
  itg_qnn_blob_free(&blob);
  itg_qnn_blob_free(&again);
  itg_graph_destroy(graph);
}

// A context stored in a file runs through an ordinary session and says that nothing but the simulator ran.
static void a_session_runs_the_stored_context(void **state) {
  (void)state;
  const itg_target *target = NULL;
  itg_diagnostic why = {0};
  assert_int_equal(itg_target_find("qcs6490", NULL, &target), ITG_OK);
  itg_graph *graph = make_graph(FULLY_CONNECTED, ITG_DTYPE_U8);
  itg_qnn_blob blob = {0};
  const itg_qnn_prepare_options prepare = {0};
  assert_int_equal(itg_qnn_prepare_isolated(graph, target, &prepare, &why, &blob), ITG_OK);
  blob.inputs[0].name = graph->inputs[0]->name;
  blob.outputs[0].name = graph->outputs[0]->name;
  uint8_t *body = NULL, *file = NULL;
  size_t body_size = 0, file_size = 0;
  assert_int_equal(itg_qnn_stored_encode(target, blob.core, blob.build, 3, blob.op_count, blob.inputs, blob.input_count,
                                         blob.outputs, blob.output_count, (itg_span){blob.data, blob.size}, &why, &body,
                                         &body_size),
                   ITG_OK);
  const itg_metadata_section section = {"qcs6490", (const char *)body, body_size, true};
  assert_int_equal(itg_container_encode(graph, &section, 1, &why, &file, &file_size), ITG_OK);
  itg_model *model = NULL;
  assert_int_equal(itg_model_open_memory(file, file_size, &why, &model), ITG_OK);
  assert_int_equal(itg_model_context_count(model), 1);
  assert_string_equal(itg_model_context_name(model, 0), "qcs6490");
  assert_null(itg_model_context_name(model, 1));
  assert_null(itg_model_metadata(model, "qcs6490", NULL)); // Not a text.
  itg_session_options options;
  itg_session_options_default(&options);
  uint8_t codes[8 * 32], outputs[2][8 * 24];
  for (size_t i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)random_bits();
  for (int i = 0; i < 2; i++) {
    itg_session *session = NULL;
    options.backend = i == 0 ? "qnn" : "cpu";
    options.cpu = "htp-v68";
    if (itg_session_create(model, &options, &why, &session) != ITG_OK) fail_msg("%s", why.message);
    assert_int_equal(itg_session_set_input_codes(session, 0, codes, sizeof codes, &why), ITG_OK);
    itg_proof proof;
    assert_int_equal(itg_session_proof(session, &why, &proof), ITG_OK);
    assert_int_equal(proof.on_device, 0);
    assert_non_null(strstr(proof.sentence, i == 0 ? "simulated" : "CPU"));
    assert_int_equal(itg_session_run(session, &why), ITG_OK);
    assert_int_equal(itg_session_get_output_codes(session, 0, outputs[i], sizeof outputs[i], &why), ITG_OK);
    itg_session_destroy(session);
  }
  assert_memory_equal(outputs[0], outputs[1], sizeof outputs[0]);
  itg_session *session = NULL;
  options.backend = "qnn";
  options.target = "sm8550";
  assert_int_equal(itg_session_create(model, &options, &why, &session), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "qcs6490"));
  options.backend = "gpu";
  assert_int_equal(itg_session_create(model, &options, &why, &session), ITG_ERROR_ARGUMENT);
  // Every truncation and every changed byte of the header and the ports is refused or harmless.
  itg_qnn_stored stored = {0};
  for (size_t size = 0; size < body_size; size += size < 300 ? 1 : 997)
    assert_int_not_equal(itg_qnn_stored_parse((itg_span){body, size}, &why, &stored), ITG_OK);
  for (size_t i = 0; i < 260; i++) {
    body[i] ^= 0x41;
    if (itg_qnn_stored_parse((itg_span){body, body_size}, &why, &stored) == ITG_OK) itg_qnn_stored_free(&stored);
    body[i] ^= 0x41;
  }
  itg_model_close(model);
  free(file);
  free(body);
  itg_qnn_blob_free(&blob);
  itg_graph_destroy(graph);
}

// The vendor's compiler cannot take the process down, however little it is given.
static void limits_become_errors(void **state) {
  (void)state;
  const itg_target *target = NULL;
  assert_int_equal(itg_target_find("qcs6490", NULL, &target), ITG_OK);
  itg_graph *graph = make_graph(CONV, ITG_DTYPE_U8);
  itg_qnn_blob blob = {0};
  itg_diagnostic why = {0};
  const itg_qnn_prepare_options tiny = {.memory_bytes = (size_t)64 << 20};
  assert_int_not_equal(itg_qnn_prepare_isolated(graph, target, &tiny, &why, &blob), ITG_OK);
  print_message("64 MB: %s\n", why.message);
  assert_null(blob.data);
  const itg_qnn_prepare_options nowhere = {.directory = "/nonexistent"};
  assert_int_equal(itg_qnn_prepare_isolated(graph, target, &nowhere, &why, &blob), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "--qnn-dir"));
  itg_graph_destroy(graph);
}

int main(void) {
  if (npu_skip()) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(profiles_give_the_librarys_codes), cmocka_unit_test(foreign_contexts_are_refused),
      cmocka_unit_test(a_session_runs_the_stored_context), cmocka_unit_test(limits_become_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
