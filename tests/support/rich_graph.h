// A LEGAL graph with every operation of integer graphs at least once; for fuzzing and hostile-bytes tests.
#ifndef ITG_TESTS_SUPPORT_RICH_GRAPH_H
#define ITG_TESTS_SUPPORT_RICH_GRAPH_H

#include "support/integer_graph.h"

static inline itg_tensor *rich_s32(builder *b, itg_shape shape, int32_t value) {
  itg_tensor *tensor = itg_graph_add_constant(b->graph, "c", ITG_DTYPE_S32, &shape, NULL);
  size_t count = 0;
  if (!itg_shape_count(&shape, &count)) abort();
  for (size_t i = 0; i < count; i++) ((int32_t *)itg_tensor_writable(tensor))[i] = value;
  return tensor;
}

// Appends a node that reads `count` operands and gives a graph output, so that nothing is dead.
static inline itg_node *rich_node(builder *b, itg_op op, int count, itg_tensor *const *operands, itg_dtype dtype,
                                  itg_shape shape) {
  itg_tensor *out = builder_activation(b, "y", dtype, 0.1, dtype == ITG_DTYPE_U16 ? 32768 : 100, shape);
  itg_node *node = builder_node(b, op, itg_op_name(op), count, operands, out);
  if (!itg_graph_add_output(b->graph, out)) abort();
  return node;
}

static inline itg_requantize_attributes rich_requantize(itg_dtype out) {
  return (itg_requantize_attributes){.multiplier = 1 << 30, .shift = 36, .pre_shift = 3, .high = itg_code_max(out)};
}

static inline void rich_arithmetic(builder *b, itg_tensor *x, itg_tensor *wide) {
  const itg_shape image = x->shape;
  itg_tensor *ones = rich_s32(b, SHAPE(4), 1 << 30), *shifts = rich_s32(b, SHAPE(4), 33);
  itg_tensor *offsets = itg_graph_add_constant(b->graph, "o", ITG_DTYPE_S64, &(itg_shape){1, {4}}, NULL);
  itg_node *node = rich_node(b, ITG_OP_Q_ADD, 2, (itg_tensor *[]){x, wide}, ITG_DTYPE_U16, image);
  node->attributes.q_add = (itg_q_add_attributes){1 << 20, -(1 << 20), 20, 0, 65535, 0, 0};
  itg_tensor *second = builder_activation(b, "second", ITG_DTYPE_U8, 0.1, 100, image);
  itg_tensor *first = builder_activation(b, "first", ITG_DTYPE_U8, 0.1, 100, image);
  node = itg_graph_insert_node(b->graph, NULL, ITG_OP_Q_ADD_AFFINE, "add_affine",
                               (itg_tensor *[]){x, x, ones, offsets, shifts}, 5, (itg_tensor *[]){first, second}, 2);
  node->attributes.q_add = (itg_q_add_attributes){1 << 18, 1 << 19, 20, 0, 255, 3, 250};
  if (!itg_graph_add_output(b->graph, first) || !itg_graph_add_output(b->graph, second)) abort();
  node = rich_node(b, ITG_OP_Q_AFFINE, 4, (itg_tensor *[]){x, ones, offsets, shifts}, ITG_DTYPE_U16, image);
  node->attributes.requantize = rich_requantize(ITG_DTYPE_U16);
  node = rich_node(b, ITG_OP_Q_CONVERT, 1, &wide, ITG_DTYPE_U8, image);
  node->attributes.requantize = rich_requantize(ITG_DTYPE_U8);
  node = rich_node(b, ITG_OP_Q_MUL, 2, (itg_tensor *[]){x, wide}, ITG_DTYPE_U8, image);
  node->attributes.requantize = rich_requantize(ITG_DTYPE_U8);
  node = rich_node(b, ITG_OP_Q_DIV, 2, (itg_tensor *[]){wide, x}, ITG_DTYPE_U8, image);
  node->attributes.q_div = (itg_q_div_attributes){1 << 30, 30, 1, 0, 255};
  node = rich_node(b, ITG_OP_Q_PRELU, 3, (itg_tensor *[]){x, ones, shifts}, ITG_DTYPE_U8, image);
  node->attributes.requantize = rich_requantize(ITG_DTYPE_U8);
  node = rich_node(b, ITG_OP_Q_REDUCE_SUM, 1, &wide, ITG_DTYPE_U8, SHAPE(1, 1, 1, 4));
  node->attributes.requantize = rich_requantize(ITG_DTYPE_U8);
  node->attributes.requantize.axes = 6;
  rich_node(b, ITG_OP_MIN, 2, (itg_tensor *[]){x, x}, ITG_DTYPE_U8, image);
  rich_node(b, ITG_OP_MAX, 2, (itg_tensor *[]){wide, wide}, ITG_DTYPE_U16, image);
}

static inline void rich_windows(builder *b, itg_tensor *x) {
  itg_tensor *depthwise = builder_activation(b, "dw", ITG_DTYPE_U8, 0.1, 100, SHAPE(1, 3, 3, 4));
  builder_conv(b, "depthwise", x, depthwise, 3, 2, 4, 0.01);
  itg_tensor *operands[5] = {depthwise, builder_weights(b, SHAPE(2, 2, 2, 4), 40)};
  builder_requantization(b, 2, 0.01, operands);
  itg_node *node = rich_node(b, ITG_OP_Q_CONV_TRANSPOSE, 5, operands, ITG_DTYPE_U8, SHAPE(1, 6, 6, 2));
  node->attributes.q_conv = (itg_q_conv_attributes){
      .window = {2, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, .group = 1, .high = 255, .bound = 1 << 20};
  const itg_window window = {2, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
  node = rich_node(b, ITG_OP_MAX_POOL, 1, &x, ITG_DTYPE_U8, SHAPE(1, 3, 3, 4));
  node->attributes.pool = (itg_pool_attributes){.window = window, .layout = ITG_LAYOUT_CHANNELS_LAST};
  itg_tensor *pool[3] = {x, rich_s32(b, SHAPE(4), 1 << 30), rich_s32(b, SHAPE(4), 31)};
  node = rich_node(b, ITG_OP_Q_AVERAGE_POOL, 3, pool, ITG_DTYPE_U8, SHAPE(1, 3, 3, 4));
  node->attributes.q_pool.pool = (itg_pool_attributes){.window = window, .layout = ITG_LAYOUT_CHANNELS_LAST};
  node->attributes.q_pool.high = 255;
  itg_tensor *resize[5] = {x, rich_s32(b, SHAPE(5, 2), 2), rich_s32(b, SHAPE(5), 1000), rich_s32(b, SHAPE(7, 2), 5),
                           rich_s32(b, SHAPE(7), 2048)};
  rich_node(b, ITG_OP_Q_RESIZE, 5, resize, ITG_DTYPE_U8, SHAPE(1, 5, 7, 4));
}

static inline void rich_functions(builder *b, itg_tensor *wide, itg_tensor *ids) {
  const itg_shape image = wide->shape;
  itg_node *node =
      rich_node(b, ITG_OP_Q_TABLE, 2, (itg_tensor *[]){wide, rich_s32(b, SHAPE(2049), 1000)}, ITG_DTYPE_U16, image);
  node->attributes.q_table = (itg_q_table_attributes){.node_bits = 5, .high = 65535};
  static const uint8_t keep[4] = {1, 0, 1, 1};
  itg_tensor *mask = itg_graph_add_constant(b->graph, "mask", ITG_DTYPE_BOOL, &(itg_shape){1, {4}}, keep);
  node = rich_node(b, ITG_OP_Q_SOFTMAX, 2, (itg_tensor *[]){wide, mask}, ITG_DTYPE_U8, image);
  node->attributes.q_softmax = (itg_q_softmax_attributes){1 << 30, 40, 1 << 30, 38, 0, 255};
  for (int kind = ITG_NORM_LAYER; kind <= ITG_NORM_L2; kind++) {
    itg_tensor *norm[3] = {wide, rich_s32(b, SHAPE(kind == ITG_NORM_L2 ? 1 : 4), 1 << 20), rich_s32(b, SHAPE(4), -5)};
    node = rich_node(b, ITG_OP_Q_NORM, 3, norm, ITG_DTYPE_U16, image);
    node->attributes.q_norm = (itg_q_norm_attributes){kind, 24, 77, 0, 65535};
  }
  itg_tensor *rope[3] = {wide, rich_s32(b, SHAPE(6, 2), 1 << 29), rich_s32(b, SHAPE(6, 2), -(1 << 29))};
  node = rich_node(b, ITG_OP_Q_ROPE, 3, rope, ITG_DTYPE_U16, image);
  node->attributes.requantize =
      (itg_requantize_attributes){.multiplier = 1 << 30, .shift = 60, .pre_shift = 20, .high = 65535};
  itg_tensor *embedding[4] = {ids, builder_weights(b, SHAPE(9, 4), 127), rich_s32(b, SHAPE(9), 1 << 30),
                              rich_s32(b, SHAPE(9), 30)};
  node = rich_node(b, ITG_OP_Q_EMBEDDING, 4, embedding, ITG_DTYPE_U8, SHAPE(3, 4));
  node->attributes.requantize = rich_requantize(ITG_DTYPE_U8);
  itg_tensor *product[2] = {wide, builder_weights(b, SHAPE(4, 5), 127)};
  node = rich_node(b, ITG_OP_Q_MATMUL, 2, product, ITG_DTYPE_U8, SHAPE(1, 6, 6, 5));
  node->attributes.requantize = rich_requantize(ITG_DTYPE_U8);
}

// s4 weights, with and without block scales.
static inline void rich_packed_weights(builder *b, itg_tensor *x) {
  static const uint8_t codes[4 * 4 / 2] = {0x17, 0x29, 0xf0, 0x81, 0x33, 0x7f, 0x98, 0x01},
                                     scales[4 * 2] = {1, 16, 2, 3, 4, 5, 6, 7};
  itg_tensor *weight = itg_graph_add_constant(b->graph, "packed", ITG_DTYPE_S4, &(itg_shape){2, {4, 4}}, codes);
  itg_tensor *blocks = itg_graph_add_constant(b->graph, "blocks", ITG_DTYPE_U8, &(itg_shape){2, {4, 2}}, scales);
  for (int count = 5; count <= 8; count += 3) {
    itg_tensor *operands[8] = {x, weight, [7] = blocks};
    builder_requantization(b, 4, 0.01, operands);
    itg_node *node = rich_node(b, ITG_OP_Q_FULLY_CONNECTED, count, operands, ITG_DTYPE_U8, x->shape);
    node->attributes.q_conv = (itg_q_conv_attributes){.high = 255, .bound = 1 << 20};
  }
}

static inline void rich_movement(builder *b, itg_tensor *x, itg_tensor *ids) {
  itg_node *node = rich_node(b, ITG_OP_TRANSPOSE, 1, &x, ITG_DTYPE_U8, SHAPE(1, 4, 6, 6));
  node->attributes.permutation = (itg_permutation_attributes){{0, 3, 1, 2}};
  node = rich_node(b, ITG_OP_SLICE, 1, &x, ITG_DTYPE_U8, SHAPE(1, 3, 2, 4));
  node->attributes.slice = (itg_slice_attributes){{0, 5, 1, 0}, {1, -2, 3, 1}};
  rich_node(b, ITG_OP_CONCAT, 2, (itg_tensor *[]){x, x}, ITG_DTYPE_U8, SHAPE(1, 6, 6, 8))->attributes.axis.axis = 3;
  rich_node(b, ITG_OP_GATHER, 2, (itg_tensor *[]){x, ids}, ITG_DTYPE_U8, SHAPE(1, 3, 6, 4))->attributes.axis.axis = 1;
  for (int mode = ITG_PAD_CONSTANT; mode <= ITG_PAD_WRAP; mode++) {
    node = rich_node(b, ITG_OP_PAD, 1, &x, ITG_DTYPE_U8, SHAPE(1, 8, 5, 4));
    node->attributes.pad = (itg_pad_attributes){.begin = {0, 1, -1}, .end = {0, 1, 0}, .mode = mode, .code = 7};
  }
  rich_node(b, ITG_OP_EXPAND, 1, &x, ITG_DTYPE_U8, SHAPE(2, 6, 6, 4));
  rich_node(b, ITG_OP_TILE, 1, &x, ITG_DTYPE_U8, SHAPE(1, 6, 12, 4));
  node = rich_node(b, ITG_OP_DEPTH_TO_SPACE, 1, &x, ITG_DTYPE_U8, SHAPE(1, 12, 12, 1));
  node->attributes.block = (itg_block_attributes){2, ITG_LAYOUT_CHANNELS_LAST, 1, 0};
  node = rich_node(b, ITG_OP_SPACE_TO_DEPTH, 1, &x, ITG_DTYPE_U8, SHAPE(1, 3, 3, 16));
  node->attributes.block = (itg_block_attributes){2, ITG_LAYOUT_CHANNELS_LAST, 0, 0};
  rich_node(b, ITG_OP_RESHAPE, 1, &x, ITG_DTYPE_U8, SHAPE(12, 12));
  rich_node(b, ITG_OP_IDENTITY, 1, &x, ITG_DTYPE_U8, x->shape);
}

// Inputs: image u8 [1,6,6,4], wide u16 [1,6,6,4], ids s32 [3].
static inline itg_graph *builder_rich_graph(void) {
  builder b = {.seed = 21};
  if (itg_graph_create(NULL, &b.graph) != ITG_OK) return NULL;
  b.graph->name = "rich";
  b.graph->stage = ITG_STAGE_LEGAL;
  itg_tensor *x = builder_activation(&b, "image", ITG_DTYPE_U8, 0.1, 100, SHAPE(1, 6, 6, 4));
  itg_tensor *wide = builder_activation(&b, "wide", ITG_DTYPE_U16, 0.1, 32768, SHAPE(1, 6, 6, 4));
  itg_tensor *ids = itg_graph_add_tensor(b.graph, "ids", ITG_DTYPE_S32, &(itg_shape){1, {3}});
  if (!itg_graph_add_input(b.graph, x) || !itg_graph_add_input(b.graph, wide) || !itg_graph_add_input(b.graph, ids))
    abort();
  rich_windows(&b, x);
  rich_arithmetic(&b, x, wide);
  rich_functions(&b, wide, ids);
  rich_packed_weights(&b, x);
  rich_movement(&b, x, ids);
  return b.graph;
}

#endif
