// Importing small ONNX files made byte by byte: what is right comes out right, what is not supported is named.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/verify.h"
#include "import/import.h"
#include "support/onnx_bytes.h"

enum { FLOAT = 1, INT8 = 3, INT32 = 6, INT64 = 7, STRING = 8, BOOL = 9, HALF = 10, UINT4 = 21 };
#define DIMS(...) \
  (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static itg_diagnostic why;

static itg_graph *import(onnx_bytes model, const itg_import_options *options) {
  itg_graph *graph = NULL;
  if (itg_import_onnx_memory(onnx_span(model), NULL, options, NULL, &why, &graph) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  if (itg_graph_verify(graph, ITG_STAGE_IMPORTED, &why) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  return graph;
}

static itg_status refuse(onnx_bytes model, const itg_import_options *options) {
  itg_graph *graph = NULL;
  const itg_status status = itg_import_onnx_memory(onnx_span(model), NULL, options, NULL, &why, &graph);
  free(model.data);
  assert_null(graph);
  return status;
}

// A graph with one float input x of 1x2x6x6 and one output y; the caller adds the rest.
static onnx_bytes frame(void) {
  onnx_bytes graph = {0};
  onnx_text(&graph, 2, "test");
  onnx_message(&graph, 11, onnx_value("x", FLOAT, 4, (const int64_t[]){1, 2, 6, 6}));
  onnx_message(&graph, 12, onnx_value("y", FLOAT, -1, NULL));
  return graph;
}

// Conv 3x3 to 4 channels with padding 1, then Relu.
static onnx_bytes small_network(void) {
  static float weight[4 * 2 * 3 * 3];
  for (int i = 0; i < 72; i++) weight[i] = (float)i / 10;
  onnx_bytes graph = frame(), conv = onnx_node("Conv", "conv1", "x,w", "c"), relu = onnx_node("Relu", "act", "c", "y");
  onnx_message(&graph, 5, onnx_raw_tensor("w", FLOAT, DIMS(4, 2, 3, 3), weight, sizeof weight));
  onnx_attribute_ints(&conv, "pads", DIMS(1, 1, 1, 1));
  onnx_message(&graph, 1, conv);
  onnx_message(&graph, 1, relu);
  return onnx_model(13, graph);
}

static void a_network_keeps_names_and_shapes(void **state) {
  (void)state;
  onnx_bytes model = small_network();
  itg_graph *graph = import(model, NULL);
  char text[64];
  assert_int_equal(graph->node_count, 2);
  assert_string_equal(graph->name, "test");
  assert_int_equal(graph->first->op, ITG_OP_CONV);
  assert_string_equal(graph->first->name, "conv1");
  assert_int_equal(graph->first->attributes.conv.group, 1);
  assert_int_equal(graph->first->attributes.conv.window.kernel[1], 3);
  assert_int_equal(graph->first->attributes.conv.window.pad_end[1], 1);
  assert_string_equal(itg_shape_print(&graph->outputs[0]->shape, text, sizeof text), "1x4x6x6");
  assert_string_equal(graph->outputs[0]->name, "y");
  assert_string_equal(graph->first->outputs[0]->name, "c");
  const itg_tensor *weight = itg_graph_find(graph, "w");
  float last;
  memcpy(&last, (const char *)weight->data + 71 * 4, 4);
  assert_true(last == 7.1f);
  itg_graph_destroy(graph);
  free(model.data);
}

static void large_weights_stay_in_the_file(void **state) {
  (void)state;
  static float weight[20000];
  onnx_bytes graph = {0};
  onnx_message(&graph, 11, onnx_value("x", FLOAT, DIMS(20000)));
  onnx_message(&graph, 12, onnx_value("y", FLOAT, -1, NULL));
  onnx_message(&graph, 5, onnx_raw_tensor("w", FLOAT, DIMS(20000), weight, sizeof weight));
  onnx_message(&graph, 1, onnx_node("Add", NULL, "x,w", "y"));
  onnx_bytes model = onnx_model(13, graph);
  itg_graph *made = import(model, NULL);
  const uint8_t *data = itg_graph_find(made, "w")->data;
  assert_true(data > model.data && data < model.data + model.size);
  itg_graph_destroy(made);
  free(model.data);
}

// One initializer `w` with typed data added to x.
static const itg_tensor *import_constant(onnx_bytes tensor, onnx_bytes *model, itg_graph **made) {
  onnx_bytes graph = {0};
  onnx_message(&graph, 12, onnx_value("y", FLOAT, -1, NULL));
  onnx_message(&graph, 5, tensor);
  onnx_message(&graph, 1, onnx_node("Identity", NULL, "w", "y"));
  *model = onnx_model(13, graph);
  *made = import(*model, NULL);
  return (*made)->first->inputs[0];
}

static void typed_fields_are_read(void **state) {
  (void)state;
  onnx_bytes model, packed = {0}, tensor;
  itg_graph *graph;
  const float floats[] = {1.5f, -2.25f};
  tensor = onnx_tensor_head("w", FLOAT, DIMS(2)); // Packed.
  onnx_blob(&tensor, 4, floats, sizeof floats);
  const itg_tensor *constant = import_constant(tensor, &model, &graph);
  assert_memory_equal(constant->data, floats, sizeof floats);
  itg_graph_destroy(graph);
  free(model.data);

  tensor = onnx_tensor_head("w", FLOAT, DIMS(2)); // One by one.
  onnx_fixed32(&tensor, 4, &floats[0]);
  onnx_fixed32(&tensor, 4, &floats[1]);
  constant = import_constant(tensor, &model, &graph);
  assert_memory_equal(constant->data, floats, sizeof floats);
  itg_graph_destroy(graph);
  free(model.data);

  tensor = onnx_tensor_head("w", INT64, DIMS(3)); // Negative numbers take ten bytes.
  onnx_varint(&packed, (uint64_t)-5);
  onnx_varint(&packed, 7);
  onnx_message(&tensor, 7, packed);
  onnx_int(&tensor, 7, INT64_MIN);
  constant = import_constant(tensor, &model, &graph);
  assert_memory_equal(constant->data, ((const int64_t[]){-5, 7, INT64_MIN}), 24);
  itg_graph_destroy(graph);
  free(model.data);

  tensor = onnx_tensor_head("w", INT8, DIMS(2));
  onnx_int(&tensor, 5, -3);
  onnx_int(&tensor, 5, 4);
  constant = import_constant(tensor, &model, &graph);
  assert_memory_equal(constant->data, ((const int8_t[]){-3, 4}), 2);
  itg_graph_destroy(graph);
  free(model.data);

  tensor = onnx_tensor_head("w", HALF, DIMS(1)); // Bit patterns.
  onnx_int(&tensor, 5, 0x3c00);
  constant = import_constant(tensor, &model, &graph);
  assert_int_equal(constant->dtype, ITG_DTYPE_F16);
  assert_memory_equal(constant->data, "\x00\x3c", 2);
  itg_graph_destroy(graph);
  free(model.data);

  constant = import_constant(onnx_raw_tensor("w", BOOL, DIMS(3), "\x00\x02\x01", 3), &model, &graph);
  assert_memory_equal(constant->data, "\x00\x01\x01", 3); // Any other byte than 0 is true.
  itg_graph_destroy(graph);
  free(model.data);

  constant = import_constant(onnx_raw_tensor("w", UINT4, DIMS(3), "\x21\x0f", 2), &model, &graph);
  assert_int_equal(constant->dtype, ITG_DTYPE_U8);
  assert_memory_equal(constant->data, "\x01\x02\x0f", 3);
  itg_graph_destroy(graph);
  free(model.data);
}

// y = reshape(x, concat(shape(x)[0:1], [-1])): only the reshape is left.
static void shape_arithmetic_is_folded(void **state) {
  (void)state;
  const int64_t zero = 0, minus_one = -1;
  onnx_bytes graph = frame(), gather = onnx_node("Gather", NULL, "s,zero", "n"),
             unsqueeze = onnx_node("Unsqueeze", NULL, "n", "n1"),
             concat = onnx_node("Concat", NULL, "n1,rest", "target");
  onnx_message(&graph, 5, onnx_raw_tensor("zero", INT64, 0, NULL, &zero, 8));
  onnx_message(&graph, 5, onnx_raw_tensor("rest", INT64, DIMS(1), &minus_one, 8));
  onnx_message(&graph, 1, onnx_node("Shape", NULL, "x", "s"));
  onnx_message(&graph, 1, gather);
  onnx_attribute_ints(&unsqueeze, "axes", DIMS(0));
  onnx_message(&graph, 1, unsqueeze);
  onnx_attribute_int(&concat, "axis", 0);
  onnx_message(&graph, 1, concat);
  onnx_message(&graph, 1, onnx_node("Reshape", "flat", "x,target", "y"));
  onnx_bytes model = onnx_model(11, graph);
  itg_graph *made = import(model, NULL);
  assert_int_equal(made->node_count, 1);
  assert_int_equal(made->first->op, ITG_OP_RESHAPE);
  assert_int_equal(made->outputs[0]->shape.rank, 2);
  assert_int_equal(made->outputs[0]->shape.dims[1], 72);
  assert_int_equal(made->tensor_count, 2); // What was folded is swept away.
  itg_graph_destroy(made);
  free(model.data);
}

static onnx_bytes two_dynamic_inputs(void) {
  onnx_bytes graph = {0};
  onnx_message(&graph, 11, onnx_value("a", FLOAT, DIMS(-1, 3, -2)));
  onnx_message(&graph, 11, onnx_value("b", FLOAT, DIMS(-1, 3, -2)));
  onnx_message(&graph, 12, onnx_value("y", FLOAT, -1, NULL));
  onnx_message(&graph, 1, onnx_node("Add", NULL, "a,b", "y"));
  return onnx_model(13, graph);
}

static void unknown_dimensions_are_fixed_by_the_caller(void **state) {
  (void)state;
  itg_import_options options = {.batch_is_one = true};
  assert_int_equal(refuse(two_dynamic_inputs(), NULL), ITG_ERROR_SHAPE);
  assert_string_equal(why.subject, "a");
  assert_int_equal(refuse(two_dynamic_inputs(), &options), ITG_ERROR_SHAPE);
  assert_non_null(strstr(why.message, "dimension 2"));
  assert_non_null(strstr(why.message, "--shape a=1x3x"));

  // The second dimension of b has the name of a's first.
  onnx_bytes pair = {0};
  onnx_message(&pair, 11, onnx_value("a", FLOAT, DIMS(-1, 3)));
  onnx_message(&pair, 11, onnx_value("b", FLOAT, DIMS(3, -1)));
  onnx_message(&pair, 12, onnx_value("y", FLOAT, -1, NULL));
  onnx_message(&pair, 1, onnx_node("MatMul", NULL, "b,a", "y"));
  onnx_bytes batch = onnx_model(13, pair);
  itg_graph *product = import(batch, &options);
  assert_int_equal(product->inputs[1]->shape.dims[1], 1);
  itg_graph_destroy(product);
  free(batch.data);

  itg_import_shape shape = {"b", {3, {2, 3, 5}}};
  options.shapes = &shape;
  options.shape_count = 1;
  onnx_bytes model = two_dynamic_inputs();
  itg_graph *graph = import(model, &options); // The names d1 and d2 carry over to input a.
  assert_int_equal(graph->inputs[0]->shape.dims[0], 2);
  assert_int_equal(graph->inputs[0]->shape.dims[2], 5);
  itg_graph_destroy(graph);
  free(model.data);

  shape.shape.dims[1] = 4;
  assert_int_equal(refuse(two_dynamic_inputs(), &options), ITG_ERROR_SHAPE);
  shape.input = "nobody";
  assert_int_equal(refuse(two_dynamic_inputs(), &options), ITG_ERROR_ARGUMENT);
}

static void an_input_can_be_bound_to_a_constant(void **state) {
  (void)state;
  const int64_t target[] = {2, 36};
  itg_import_constant constant = {"target", ITG_DTYPE_S64, {1, {2}}, target};
  const itg_import_options options = {.constants = &constant, .constant_count = 1};
  for (int bound = 0; bound < 3; bound++) {
    onnx_bytes graph = frame();
    onnx_message(&graph, 11, onnx_value("target", INT64, DIMS(2)));
    onnx_message(&graph, 1, onnx_node("Reshape", "r", "x,target", "y"));
    onnx_bytes model = onnx_model(13, graph);
    if (bound == 0) {
      assert_int_equal(refuse(model, NULL), ITG_ERROR_UNSUPPORTED);
      assert_string_equal(why.subject, "r");
      continue;
    }
    constant.dtype = bound == 1 ? ITG_DTYPE_S32 : ITG_DTYPE_S64;
    if (bound == 1) {
      assert_int_equal(refuse(model, &options), ITG_ERROR_ARGUMENT);
      continue;
    }
    itg_graph *made = import(model, &options);
    assert_int_equal(made->input_count, 1);
    assert_int_equal(made->outputs[0]->shape.dims[1], 36);
    itg_graph_destroy(made);
    free(model.data);
  }
}

// The branch that a constant condition takes is imported in place of the If.
static void a_known_branch_is_inlined(void **state) {
  (void)state;
  for (int taken = 0; taken < 2; taken++) {
    onnx_bytes graph = frame(), branches[2] = {{0}}, choice = onnx_node("If", "if", "condition", "y");
    for (int i = 0; i < 2; i++) {
      onnx_message(&branches[i], 1, onnx_node(i ? "Exp" : "Neg", i ? "then" : "else", "x", i ? "t" : "e"));
      onnx_message(&branches[i], 12, onnx_value(i ? "t" : "e", FLOAT, -1, NULL));
    }
    onnx_message(&graph, 5, onnx_raw_tensor("condition", BOOL, 0, NULL, taken ? "\x01" : "\x00", 1));
    onnx_attribute_graph(&choice, "then_branch", branches[1]);
    onnx_attribute_graph(&choice, "else_branch", branches[0]);
    onnx_message(&graph, 1, choice);
    onnx_bytes model = onnx_model(13, graph);
    itg_graph *made = import(model, NULL);
    assert_int_equal(made->first->op, taken ? ITG_OP_EXP : ITG_OP_NEG);
    assert_string_equal(made->outputs[0]->name, "y");
    itg_graph_destroy(made);
    free(model.data);
  }
}

// Two calls of a function with a default attribute and an optional input; the body's own names stay apart.
static void functions_of_the_model_are_inlined(void **state) {
  (void)state;
  const float half = 0.5f, eighth = 0.125f;
  onnx_bytes function = {0}, leaky = onnx_node("LeakyRelu", "inner", "a", "t"), reference = {0}, missing = {0};
  onnx_bytes clip = onnx_node("Clip", NULL, "t,low", "r"), import_set = {0};
  onnx_text(&function, 1, "Soft");
  onnx_names(&function, 4, "a,low");
  onnx_text(&function, 5, "r");
  onnx_text(&reference, 1, "alpha");
  onnx_text(&reference, 21, "slope");
  onnx_int(&reference, 20, 1);
  onnx_message(&leaky, 5, reference);
  onnx_message(&function, 7, clip); // Out of order on purpose.
  onnx_message(&function, 7, leaky);
  onnx_int(&import_set, 2, 13);
  onnx_message(&function, 9, import_set);
  onnx_text(&function, 10, "custom");
  onnx_text(&missing, 1, "slope");
  onnx_fixed32(&missing, 2, &eighth);
  onnx_int(&missing, 20, 1);
  onnx_message(&function, 11, missing);

  onnx_bytes graph = frame(), first = onnx_node("Soft", "one", "x", "t"),
             second = onnx_node("Soft", "two", "t,zero", "y");
  onnx_bytes slope = {0};
  onnx_text(&slope, 1, "slope");
  onnx_fixed32(&slope, 2, &half);
  onnx_int(&slope, 20, 1);
  onnx_message(&first, 5, slope);
  onnx_text(&first, 7, "custom");
  onnx_text(&second, 7, "custom");
  onnx_message(&graph, 5, onnx_raw_tensor("zero", FLOAT, 0, NULL, "\0\0\0\0", 4));
  onnx_message(&graph, 1, first);
  onnx_message(&graph, 1, second);
  onnx_bytes model = {0}, opset = {0};
  onnx_int(&opset, 2, 17);
  onnx_message(&model, 8, opset);
  onnx_message(&model, 7, graph);
  onnx_message(&model, 25, function);
  itg_graph *made = import(model, NULL);
  assert_int_equal(made->node_count, 5); // The last passes the function's "r" through as "y".
  const itg_node *node = made->first;
  assert_int_equal(node->op, ITG_OP_LEAKY_RELU);
  assert_true(node->attributes.scalar.alpha == 0.5);
  assert_true(isinf(node->next->attributes.scalar.alpha)); // The absent bound.
  node = node->next->next;
  assert_true(node->attributes.scalar.alpha == 0.125);
  assert_true(node->next->attributes.scalar.alpha == 0);
  itg_graph_destroy(made);
  free(model.data);
}

static void ceil_mode_and_auto_pad_become_padding(void **state) {
  (void)state;
  onnx_bytes graph = frame(), pool = onnx_node("MaxPool", NULL, "x", "p"), conv = onnx_node("Conv", NULL, "p,w", "y");
  const float weight[2 * 2 * 2] = {0};
  onnx_message(&graph, 5, onnx_raw_tensor("w", FLOAT, DIMS(1, 2, 2, 2), weight, sizeof weight));
  onnx_attribute_ints(&pool, "kernel_shape", DIMS(3, 3));
  onnx_attribute_ints(&pool, "strides", DIMS(2, 2));
  onnx_attribute_int(&pool, "ceil_mode", 1);
  onnx_message(&graph, 1, pool);
  onnx_attribute_text(&conv, "auto_pad", "SAME_LOWER");
  onnx_message(&graph, 1, conv);
  onnx_bytes model = onnx_model(13, graph);
  itg_graph *made = import(model, NULL);
  const itg_pool_attributes *window = &made->first->attributes.pool;
  assert_int_equal(window->window.pad_end[0], 1); // 6 elements, windows at 0, 2 and 4.
  assert_int_equal(window->declared_pad_end[0], 0);
  assert_int_equal(made->first->outputs[0]->shape.dims[2], 3);
  const itg_conv_attributes *same = &made->last->attributes.conv;
  assert_int_equal(same->window.pad_begin[0], 1);
  assert_int_equal(same->window.pad_end[0], 0);
  itg_graph_destroy(made);
  free(model.data);
}

static void nodes_may_come_in_any_order(void **state) {
  (void)state;
  onnx_bytes graph = frame();
  onnx_message(&graph, 1, onnx_node("Exp", "third", "b", "y"));
  onnx_message(&graph, 1, onnx_node("Abs", "second", "a", "b"));
  onnx_message(&graph, 1, onnx_node("Neg", "first", "x", "a"));
  onnx_bytes model = onnx_model(13, graph);
  itg_graph *made = import(model, NULL);
  assert_int_equal(made->first->op, ITG_OP_NEG);
  assert_int_equal(made->last->op, ITG_OP_EXP);
  itg_graph_destroy(made);
  free(model.data);
}

static onnx_bytes unsupported_model(void) {
  onnx_bytes graph = frame();
  onnx_message(&graph, 13, onnx_value("b", FLOAT, 4, (const int64_t[]){1, 2, 6, 6}));
  onnx_message(&graph, 1, onnx_node("Relu", "good", "x", "a"));
  onnx_message(&graph, 1, onnx_node("Frobnicate", "bad1", "a", "b"));
  onnx_bytes pad = onnx_node("Pad", "bad2", "b", "c");
  onnx_attribute_text(&pad, "mode", "upside_down");
  onnx_message(&graph, 1, pad);
  onnx_message(&graph, 1, onnx_node("Abs", "behind", "c", "d"));
  onnx_message(&graph, 1, onnx_node("LSTM", "bad3", "d", "y"));
  return onnx_model(10, graph);
}

static void unsupported_nodes_are_named(void **state) {
  (void)state;
  assert_int_equal(refuse(unsupported_model(), NULL), ITG_ERROR_UNSUPPORTED);
  assert_string_equal(why.subject, "bad1");
  assert_non_null(strstr(why.message, "Frobnicate"));

  onnx_bytes model = unsupported_model();
  itg_import_problems problems = {0};
  itg_graph *graph = NULL;
  assert_int_equal(itg_import_onnx_memory(onnx_span(model), NULL, NULL, &problems, &why, &graph),
                   ITG_ERROR_UNSUPPORTED);
  assert_null(graph);
  assert_int_equal(problems.count, 3); // Not "behind", which only follows a refused node.
  for (int i = 0; i < 3; i++) {
    static const char *const names[] = {"bad1", "bad2", "bad3"}, *const ops[] = {"Frobnicate", "Pad", "LSTM"};
    assert_string_equal(problems.items[i].node, names[i]);
    assert_string_equal(problems.items[i].op, ops[i]);
  }
  assert_non_null(strstr(problems.items[1].reason, "upside_down"));
  assert_non_null(strstr(problems.items[2].reason, "recurrent"));
  itg_arena_free(&problems.arena);
  free(model.data);
}

static void an_unused_optional_output_does_no_harm(void **state) {
  (void)state;
  for (int used = 0; used < 2; used++) {
    onnx_bytes graph = frame(), pool = onnx_node("MaxPool", "pool", "x", "p,indices");
    onnx_attribute_ints(&pool, "kernel_shape", DIMS(2, 2));
    onnx_message(&graph, 1, pool);
    onnx_message(&graph, 1, used ? onnx_node("Cast", "user", "indices", "y") : onnx_node("Relu", "user", "p", "y"));
    onnx_bytes model = onnx_model(13, graph);
    if (used) {
      assert_int_equal(refuse(model, NULL), ITG_ERROR_UNSUPPORTED);
      assert_string_equal(why.subject, "user");
    } else {
      itg_graph_destroy(import(model, NULL));
      free(model.data);
    }
  }
}

// Outputs that are inputs, constants, aliases of one another: each is a tensor of its own with its own name.
static void outputs_keep_their_names(void **state) {
  (void)state;
  const float one = 1;
  onnx_bytes graph = {0};
  onnx_message(&graph, 11, onnx_value("x", FLOAT, DIMS(2)));
  onnx_message(&graph, 5, onnx_raw_tensor("constant", FLOAT, 0, NULL, &one, 4));
  onnx_message(&graph, 1, onnx_node("Neg", NULL, "x", "first"));
  onnx_message(&graph, 1, onnx_node("Identity", NULL, "first", "alias"));
  onnx_message(&graph, 12, onnx_value("x", FLOAT, -1, NULL));
  onnx_message(&graph, 12, onnx_value("constant", FLOAT, -1, NULL));
  onnx_message(&graph, 12, onnx_value("first", FLOAT, -1, NULL));
  onnx_message(&graph, 12, onnx_value("alias", FLOAT, -1, NULL));
  onnx_bytes model = onnx_model(13, graph);
  itg_graph *made = import(model, NULL);
  assert_int_equal(made->output_count, 4);
  assert_string_equal(made->outputs[2]->name, "first");
  assert_string_equal(made->outputs[3]->name, "alias");
  for (int i = 0; i < 4; i++) {
    assert_non_null(made->outputs[i]->producer);
    for (int k = 0; k < i; k++) assert_ptr_not_equal(made->outputs[i], made->outputs[k]);
  }
  itg_graph_destroy(made);
  free(model.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_network_keeps_names_and_shapes),
      cmocka_unit_test(large_weights_stay_in_the_file),
      cmocka_unit_test(typed_fields_are_read),
      cmocka_unit_test(shape_arithmetic_is_folded),
      cmocka_unit_test(unknown_dimensions_are_fixed_by_the_caller),
      cmocka_unit_test(an_input_can_be_bound_to_a_constant),
      cmocka_unit_test(a_known_branch_is_inlined),
      cmocka_unit_test(functions_of_the_model_are_inlined),
      cmocka_unit_test(ceil_mode_and_auto_pad_become_padding),
      cmocka_unit_test(nodes_may_come_in_any_order),
      cmocka_unit_test(unsupported_nodes_are_named),
      cmocka_unit_test(an_unused_optional_output_does_no_harm),
      cmocka_unit_test(outputs_keep_their_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
