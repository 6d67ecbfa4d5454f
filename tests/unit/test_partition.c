// Cutting a graph into what the NPU takes and what the CPU computes before and behind it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/extract.h"
#include "lower/qnn/partition.h"
#include "quantize/encodings.h"
#include "run/cpu_share.h"

enum { NODES = 5, WIDTH = 4 };

static itg_tensor *add(itg_graph *graph, itg_op op, const char *name, itg_tensor *const *inputs, int32_t count) {
  itg_tensor *y = itg_graph_add_tensor(graph, name, ITG_DTYPE_U8, &inputs[0]->shape);
  const double scale = 1;
  const int32_t zero = 0;
  y->encoding = itg_encoding_create(graph, ITG_DTYPE_U8, -1, 1, &scale, &zero);
  assert_non_null(itg_graph_insert_node(graph, NULL, op, name, inputs, count, &y, 1));
  return y;
}

// x -> a (maximum with itself) -> b -> m (product of b and b) -> c -> y, and c also reads x.
static itg_graph *make_graph(void) {
  itg_graph *graph = NULL;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  graph->name = "chain";
  graph->stage = ITG_STAGE_LEGAL;
  const itg_shape shape = itg_shape_of(2, (int64_t[]){WIDTH, WIDTH});
  itg_tensor *x = itg_graph_add_tensor(graph, "x", ITG_DTYPE_U8, &shape);
  const double scale = 1;
  const int32_t zero = 0;
  x->encoding = itg_encoding_create(graph, ITG_DTYPE_U8, -1, 1, &scale, &zero);
  assert_true(itg_graph_add_input(graph, x));
  itg_tensor *a = add(graph, ITG_OP_MAX, "a", (itg_tensor *[]){x, x}, 2);
  itg_tensor *b = add(graph, ITG_OP_MIN, "b", (itg_tensor *[]){a, a}, 2);
  itg_tensor *m = add(graph, ITG_OP_Q_MATMUL, "m", (itg_tensor *[]){b, b}, 2);
  m->producer->attributes.requantize =
      (itg_requantize_attributes){.multiplier = 1 << 30, .shift = 32, .high = 255}; // A quarter.
  itg_tensor *c = add(graph, ITG_OP_MAX, "c", (itg_tensor *[]){m, x}, 2);
  itg_tensor *y = add(graph, ITG_OP_MIN, "y", (itg_tensor *[]){c, c}, 2);
  assert_true(itg_graph_add_output(graph, y));
  return graph;
}

static void what_the_npu_refuses_stays_on_the_cpu(void **state) {
  (void)state;
  itg_graph *graph = make_graph();
  const char *refusals[NODES] = {"", "no minimum", "", NULL, "no minimum"};
  itg_qnn_partition part;
  itg_diagnostic why = {0};
  assert_int_equal(itg_qnn_partition_make(graph, refusals, &why, &part), ITG_OK);
  const itg_qnn_place expected[NODES] = {ITG_QNN_BEFORE, ITG_QNN_BEFORE, ITG_QNN_ON_NPU, ITG_QNN_ON_NPU,
                                         ITG_QNN_BEHIND};
  for (int i = 0; i < NODES; i++) {
    assert_int_equal(part.places[i], expected[i]);
    assert_int_equal(part.reasons[i] != NULL, expected[i] != ITG_QNN_ON_NPU);
  }
  assert_int_equal(part.npu_count, 2);
  assert_string_equal(part.reasons[1], "no minimum");
  assert_non_null(strstr(part.reasons[0], "b")); // Because b needs it,
  assert_false(part.refused[0]);                 // not for itself.
  assert_int_equal(part.input_count, 2);
  assert_string_equal(part.inputs[0]->name, "x");
  assert_string_equal(part.inputs[1]->name, "b");
  assert_int_equal(part.output_count, 1);
  assert_string_equal(part.outputs[0]->name, "c");
  itg_qnn_partition_free(&part);
  const char *product[NODES] = {"", "", "no products", "", ""};
  assert_int_equal(itg_qnn_partition_make(graph, product, &why, &part), ITG_ERROR_UNSUPPORTED);
  assert_non_null(strstr(why.message, "no products"));
  const char *nothing[NODES] = {0};
  assert_int_equal(itg_qnn_partition_make(graph, nothing, &why, &part), ITG_OK);
  assert_int_equal(part.npu_count, NODES);
  assert_int_equal(part.input_count + part.output_count, 2);
  itg_qnn_partition_free(&part);
  itg_graph_destroy(graph);
}

// The two sides around an accelerator that computes m and c by another session of the CPU.
static void the_sides_and_the_middle_give_the_whole(void **state) {
  (void)state;
  itg_diagnostic why = {0};
  itg_graph *graph = make_graph(), *middle = NULL;
  itg_tensor *b = itg_graph_find(graph, "b"), *c = itg_graph_find(graph, "c"), *x = itg_graph_find(graph, "x");
  assert_int_equal(itg_graph_extract(graph, (itg_tensor *[]){x, b}, 2, &c, 1, &why, &middle), ITG_OK);
  assert_int_equal(middle->node_count, 2);
  itg_model *whole_model = NULL, *middle_model = NULL;
  assert_int_equal(itg_model_of_graph(graph, &why, &whole_model), ITG_OK);
  assert_int_equal(itg_model_of_graph(middle, &why, &middle_model), ITG_OK);
  itg_session *whole = NULL, *accelerator = NULL;
  assert_int_equal(itg_session_create(whole_model, NULL, &why, &whole), ITG_OK);
  assert_int_equal(itg_session_create(middle_model, NULL, &why, &accelerator), ITG_OK);
  uint8_t codes[WIDTH * WIDTH], x_codes[WIDTH * WIDTH], b_codes[WIDTH * WIDTH], c_codes[WIDTH * WIDTH],
      y[WIDTH * WIDTH];
  const size_t size = sizeof codes;
  for (size_t i = 0; i < size; i++) codes[i] = (uint8_t)(i * 37 % 11);
  const itg_share_port inputs[] = {{"x", size, x_codes}, {"b", size, b_codes}}, output = {"c", size, c_codes};
  itg_session_options options;
  itg_session_options_default(&options);
  assert_false(itg_cpu_share_is_empty(whole_model, inputs, 2, &output, 1));
  itg_cpu_share *share = NULL;
  assert_int_equal(itg_cpu_share_create(whole_model, &options, inputs, 2, &output, 1, &why, &share), ITG_OK);
  memcpy(itg_cpu_share_input(share, 0), codes, size);
  assert_int_equal(itg_cpu_share_before(share, &why), ITG_OK);
  assert_memory_equal(x_codes, codes, size);
  assert_int_equal(itg_session_set_input_codes(accelerator, 0, x_codes, size, &why), ITG_OK);
  assert_int_equal(itg_session_set_input_codes(accelerator, 1, b_codes, size, &why), ITG_OK);
  assert_int_equal(itg_session_run(accelerator, &why), ITG_OK);
  assert_int_equal(itg_session_get_output_codes(accelerator, 0, c_codes, size, &why), ITG_OK);
  assert_int_equal(itg_cpu_share_behind(share, &why), ITG_OK);
  assert_int_equal(itg_session_set_input_codes(whole, 0, codes, size, &why), ITG_OK);
  assert_int_equal(itg_session_run(whole, &why), ITG_OK);
  assert_int_equal(itg_session_get_output_codes(whole, 0, y, size, &why), ITG_OK);
  assert_memory_equal(itg_cpu_share_output(share, 0), y, size);
  size_t before;
  assert_int_equal(itg_cpu_share_step_count(share, &before), 3);
  assert_int_equal(before, 2);
  itg_cpu_share_destroy(share);
  // Ports that are none of the graph's, or of another size, are refused.
  const itg_share_port unknown = {"z", size, c_codes}, small = {"c", size - 1, c_codes};
  assert_int_equal(itg_cpu_share_create(whole_model, &options, inputs, 2, &unknown, 1, &why, &share), ITG_ERROR_FORMAT);
  assert_int_equal(itg_cpu_share_create(whole_model, &options, inputs, 2, &small, 1, &why, &share), ITG_ERROR_FORMAT);
  itg_session_destroy(whole);
  itg_session_destroy(accelerator);
  itg_model_close(middle_model);
  itg_model_close(whole_model);
}

static void a_part_that_lacks_an_input_is_refused(void **state) {
  (void)state;
  itg_diagnostic why = {0};
  itg_graph *graph = make_graph(), *part = NULL;
  itg_tensor *c = itg_graph_find(graph, "c"), *m = itg_graph_find(graph, "m"), *x = itg_graph_find(graph, "x");
  assert_int_equal(itg_graph_extract(graph, &m, 1, &c, 1, &why, &part), ITG_ERROR_ARGUMENT);
  assert_string_equal(why.subject, "x");
  assert_int_equal(itg_graph_extract(graph, &x, 1, &x, 1, &why, &part), ITG_ERROR_ARGUMENT);
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_the_npu_refuses_stays_on_the_cpu),
                                     cmocka_unit_test(the_sides_and_the_middle_give_the_whole),
                                     cmocka_unit_test(a_part_that_lacks_an_input_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
