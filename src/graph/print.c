// Human-readable text of a graph. See print.h.
//
//   %y:f32[1x56x56x64]<u8 0.0123 z128> = Conv(%x, %w:f32[64x3x3x3]) {kernel 3x3, stride 2x2}  "conv1"
//
// Attributes at their usual values (stride 1, no padding, group 1) are left out.
#include "graph/print.h"

#include <inttypes.h>
#include <math.h>

// Writes the separator between attributes: "{" before the first, ", " after.
typedef struct list {
  FILE *stream;
  int count;
} list;

static FILE *item(list *attributes) {
  fputs(attributes->count++ ? ", " : " {", attributes->stream);
  return attributes->stream;
}

static void print_numbers(list *attributes, const char *label, const int32_t *values, int32_t rank) {
  FILE *stream = item(attributes);
  fputs(label, stream);
  for (int32_t i = 0; i < rank; i++) fprintf(stream, "%c%d", i ? 'x' : ' ', (int)values[i]);
}

static bool all_are(const int32_t *values, int32_t rank, int32_t usual) {
  for (int32_t i = 0; i < rank; i++) {
    if (values[i] != usual) return false;
  }
  return true;
}

static void print_window(list *attributes, const itg_window *window, int32_t layout) {
  const int32_t rank = window->rank < 0 ? 0 : window->rank > ITG_MAX_SPATIAL ? ITG_MAX_SPATIAL : window->rank;
  print_numbers(attributes, "kernel", window->kernel, rank);
  if (!all_are(window->stride, rank, 1)) print_numbers(attributes, "stride", window->stride, rank);
  if (!all_are(window->dilation, rank, 1)) print_numbers(attributes, "dilation", window->dilation, rank);
  if (!all_are(window->pad_begin, rank, 0)) print_numbers(attributes, "pad begin", window->pad_begin, rank);
  if (!all_are(window->pad_end, rank, 0)) print_numbers(attributes, "pad end", window->pad_end, rank);
  if (layout == ITG_LAYOUT_CHANNELS_FIRST) fputs("channels first", item(attributes));
}

static void print_activation(list *attributes, const itg_activation *activation) {
  switch (activation->kind) {
  case ITG_ACTIVATION_CLIP:
    if (activation->low == 0 && isinf(activation->high))
      fputs("relu", item(attributes));
    else
      fprintf(item(attributes), "clip %.9g:%.9g", activation->low, activation->high);
    break;
  case ITG_ACTIVATION_LEAKY: fprintf(item(attributes), "leaky %.9g", activation->slope); break;
  case ITG_ACTIVATION_PRELU: fputs("prelu", item(attributes)); break;
  default: break;
  }
}

static void print_conv(list *attributes, const itg_node *node) {
  const itg_conv_attributes *conv = &node->attributes.conv;
  if (node->op == ITG_OP_CONV || node->op == ITG_OP_CONV_TRANSPOSE) {
    print_window(attributes, &conv->window, conv->layout);
    if (conv->group != 1) fprintf(item(attributes), "group %d", (int)conv->group);
    if (!all_are(conv->output_padding, ITG_MAX_SPATIAL, 0))
      print_numbers(attributes, "output padding", conv->output_padding, conv->window.rank);
  }
  print_activation(attributes, &conv->activation);
}

static void print_pool(list *attributes, const itg_pool_attributes *pool, bool average) {
  print_window(attributes, &pool->window, pool->layout);
  if (average && pool->count_include_pad) fputs("counts padding", item(attributes));
  if (pool->p) fprintf(item(attributes), "p %d", (int)pool->p);
}

static void print_axes(list *attributes, uint32_t axes) {
  FILE *stream = item(attributes);
  fputs("axes", stream);
  for (int i = 0, printed = 0; i < ITG_MAX_RANK; i++) {
    if (axes >> i & 1) fprintf(stream, "%c%d", printed++ ? ',' : ' ', i);
  }
}

static void print_dims(list *attributes, const char *label, const int64_t *values, int32_t rank) {
  FILE *stream = item(attributes);
  fputs(label, stream);
  for (int32_t i = 0; i < rank; i++) fprintf(stream, "%c%" PRId64, i ? ',' : ' ', values[i]);
}

static void print_scalar(list *attributes, const itg_node *node) {
  const itg_scalar_attributes *scalar = &node->attributes.scalar;
  if (node->op == ITG_OP_GELU)
    fputs(scalar->alpha != 0 ? "tanh" : "erf", item(attributes));
  else
    fprintf(item(attributes), "alpha %.9g, beta %.9g", scalar->alpha, scalar->beta);
}

static void print_resize(list *attributes, const itg_resize_attributes *resize, int32_t rank) {
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  static const char *const coordinates[] = {"half_pixel",          "align_corners",      "asymmetric",
                                            "pytorch_half_pixel",  "tf_crop_and_resize", "tf_half_pixel_for_nn",
                                            "half_pixel_symmetric"};
  fputs(resize->mode >= 0 && resize->mode < 3 ? modes[resize->mode] : "?", item(attributes));
  fputs(resize->coordinates >= 0 && resize->coordinates < 7 ? coordinates[resize->coordinates] : "?", item(attributes));
  if (resize->mode == ITG_RESIZE_NEAREST) fprintf(item(attributes), "rounding %d", (int)resize->nearest_rounding);
  FILE *stream = item(attributes);
  fputs("scale", stream);
  for (int32_t i = 0; i < rank; i++) fprintf(stream, "%c%.9g", i ? 'x' : ' ', resize->scale[i]);
}

static void print_norm(list *attributes, const itg_node *node) {
  const itg_norm_attributes *norm = &node->attributes.norm;
  fprintf(item(attributes), "axis %d, epsilon %.9g", (int)norm->axis, norm->epsilon);
  if (norm->groups) fprintf(item(attributes), "%s %d", node->op == ITG_OP_GROUP_NORM ? "groups" : "size", norm->groups);
}

static void print_requantize(list *attributes, const itg_requantize_attributes *requantize) {
  fprintf(item(attributes), "multiplier %d, shift %d, range %d:%d", (int)requantize->multiplier, (int)requantize->shift,
          (int)requantize->low, (int)requantize->high);
  if (requantize->wide) fprintf(item(attributes), "wide %d", (int)requantize->pre_shift);
  if (requantize->transpose_b) fputs("transpose b", item(attributes));
  if (requantize->axes) print_axes(attributes, requantize->axes);
}

static void print_q_conv(list *attributes, const itg_node *node) {
  const itg_q_conv_attributes *conv = &node->attributes.q_conv;
  if (node->op != ITG_OP_Q_FULLY_CONNECTED) {
    print_window(attributes, &conv->window, ITG_LAYOUT_CHANNELS_LAST);
    if (conv->group != 1) fprintf(item(attributes), "group %d", (int)conv->group);
  }
  fprintf(item(attributes), "range %d:%d", (int)conv->low, (int)conv->high);
  if (conv->wide) fprintf(item(attributes), "wide %d", (int)conv->pre_shift);
}

static void print_integer(list *attributes, const itg_node *node) {
  const itg_attributes *a = &node->attributes;
  switch (node->op) {
  case ITG_OP_Q_CONV:
  case ITG_OP_Q_CONV_TRANSPOSE:
  case ITG_OP_Q_FULLY_CONNECTED: print_q_conv(attributes, node); break;
  case ITG_OP_Q_ADD:
  case ITG_OP_Q_ADD_AFFINE:
    fprintf(item(attributes), "a %d, b %d, shift %d, range %d:%d", (int)a->q_add.a, (int)a->q_add.b,
            (int)a->q_add.shift, (int)a->q_add.low, (int)a->q_add.high);
    break;
  case ITG_OP_Q_DIV:
    fprintf(item(attributes), "multiplier %d, shift %d, range %d:%d", (int)a->q_div.multiplier, (int)a->q_div.shift,
            (int)a->q_div.low, (int)a->q_div.high);
    break;
  case ITG_OP_Q_AVERAGE_POOL: print_pool(attributes, &a->q_pool.pool, true); break;
  case ITG_OP_Q_TABLE:
    fprintf(item(attributes), "%s, node bits %d, range %d:%d", itg_op_name(a->q_table.function),
            (int)a->q_table.node_bits, (int)a->q_table.low, (int)a->q_table.high);
    break;
  case ITG_OP_Q_SOFTMAX:
    fprintf(item(attributes), "k %d, k shift %d", (int)a->q_softmax.k, (int)a->q_softmax.k_shift);
    break;
  case ITG_OP_Q_NORM:
    fprintf(item(attributes), "kind %d, shift %d, epsilon %" PRId64, (int)a->q_norm.kind, (int)a->q_norm.shift,
            a->q_norm.epsilon);
    break;
  case ITG_OP_Q_ATTENTION:
    fprintf(item(attributes), "score %.9g z%d, k %d, k shift %d, range %d:%d", a->q_attention.score_scale,
            (int)a->q_attention.score_zero, (int)a->q_attention.k, (int)a->q_attention.k_shift, (int)a->q_attention.low,
            (int)a->q_attention.high);
    break;
  case ITG_OP_Q_RESIZE: break;
  default: print_requantize(attributes, &a->requantize); break;
  }
}

static void print_movement(list *attributes, const itg_node *node, int32_t rank) {
  const itg_attributes *a = &node->attributes;
  switch (node->op) {
  case ITG_OP_TRANSPOSE: print_numbers(attributes, "permutation", a->permutation.permutation, rank); break;
  case ITG_OP_SLICE:
    print_dims(attributes, "start", a->slice.start, rank);
    print_dims(attributes, "step", a->slice.step, rank);
    break;
  case ITG_OP_PAD:
    print_dims(attributes, "begin", a->pad.begin, rank);
    print_dims(attributes, "end", a->pad.end, rank);
    fprintf(item(attributes), "mode %d, value %.9g, code %d", (int)a->pad.mode, a->pad.value, (int)a->pad.code);
    break;
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH:
    fprintf(item(attributes), "block %d", (int)a->block.block);
    if (a->block.column_row_depth) fputs("column-row-depth", item(attributes));
    if (a->block.layout == ITG_LAYOUT_CHANNELS_FIRST) fputs("channels first", item(attributes));
    break;
  default:
    fprintf(item(attributes), "axis %d", (int)a->axis.axis);
    if (a->axis.flag) fprintf(item(attributes), "flag %d", (int)a->axis.flag);
    break;
  }
}

static void print_attributes(list *attributes, const itg_node *node, const itg_op_info *info) {
  const itg_attributes *a = &node->attributes;
  const itg_tensor *input = itg_node_input(node, 0);
  const int32_t rank = input ? input->shape.rank : 0;
  if (info->attribute_size == 0) return;
  if (info->flags & ITG_OP_INTEGER) {
    print_integer(attributes, node);
    return;
  }
  if (info->flags & ITG_OP_REDUCES) {
    print_axes(attributes, a->reduce.axes);
    if (!a->reduce.keep_dims) fputs("drops dims", item(attributes));
    return;
  }
  switch (node->op) {
  case ITG_OP_CONV:
  case ITG_OP_CONV_TRANSPOSE:
  case ITG_OP_FULLY_CONNECTED:
  case ITG_OP_CONV_INTEGER: print_conv(attributes, node); break;
  case ITG_OP_MAX_POOL:
  case ITG_OP_AVERAGE_POOL:
  case ITG_OP_LP_POOL: print_pool(attributes, &a->pool, node->op == ITG_OP_AVERAGE_POOL); break;
  case ITG_OP_MATMUL:
  case ITG_OP_GEMM:
    if (node->op == ITG_OP_GEMM) fprintf(item(attributes), "alpha %.9g, beta %.9g", a->gemm.alpha, a->gemm.beta);
    if (a->gemm.transpose_a) fputs("transpose a", item(attributes));
    if (a->gemm.transpose_b) fputs("transpose b", item(attributes));
    break;
  case ITG_OP_BATCH_NORM:
  case ITG_OP_LAYER_NORM:
  case ITG_OP_RMS_NORM:
  case ITG_OP_INSTANCE_NORM:
  case ITG_OP_GROUP_NORM:
  case ITG_OP_LP_NORM:
  case ITG_OP_LRN: print_norm(attributes, node); break;
  case ITG_OP_ATTENTION: fprintf(item(attributes), "scale %.9g", a->attention.scale); break;
  case ITG_OP_RESIZE: print_resize(attributes, &a->resize, rank); break;
  case ITG_OP_CAST: fprintf(item(attributes), "to %s", itg_dtype_name((itg_dtype)a->cast.to)); break;
  default:
    if ((info->flags & ITG_OP_UNARY) && node->op != ITG_OP_IS_INF)
      print_scalar(attributes, node);
    else
      print_movement(attributes, node, rank);
    break;
  }
}

static void print_tensor(const itg_tensor *tensor, FILE *stream) {
  if (!tensor) {
    fputs("_", stream);
    return;
  }
  char shape[128];
  fprintf(stream, "%%%s:%s[%s]", tensor->name, itg_dtype_name(tensor->dtype),
          tensor->shape.rank ? itg_shape_print(&tensor->shape, shape, sizeof shape) : "");
  const itg_encoding *encoding = tensor->encoding;
  if (!encoding) return;
  fprintf(stream, "<%s ", itg_dtype_name(encoding->storage));
  if (encoding->count == 1)
    fprintf(stream, "%.9g z%d>", encoding->scales[0], encoding->zero_points ? (int)encoding->zero_points[0] : 0);
  else
    fprintf(stream, "%" PRId64 " scales axis %d>", encoding->count, (int)encoding->axis);
}

void itg_node_print(const itg_node *node, FILE *stream) {
  for (int32_t i = 0; i < node->output_count; i++) {
    if (i) fputs(", ", stream);
    print_tensor(node->outputs[i], stream);
  }
  fprintf(stream, " = %s(", itg_op_name((int)node->op));
  for (int32_t i = 0; i < node->input_count; i++) {
    const itg_tensor *tensor = node->inputs[i];
    if (i) fputs(", ", stream);
    if (tensor && tensor->data)
      print_tensor(tensor, stream);
    else if (tensor)
      fprintf(stream, "%%%s", tensor->name);
    else
      fputs("_", stream);
  }
  fputc(')', stream);
  const itg_op_info *info = itg_op_get_info((int)node->op);
  list attributes = {stream, 0};
  if (info) print_attributes(&attributes, node, info);
  if (attributes.count) fputc('}', stream);
  fprintf(stream, "  \"%s\"\n", node->name);
}

void itg_graph_print(const itg_graph *graph, FILE *stream) {
  static const char *const stages[] = {"imported", "canonical", "adapted", "calibrated", "quantized", "legal"};
  const unsigned stage = (unsigned)graph->stage;
  fprintf(stream, "graph \"%s\" %s, %" PRId64 " nodes\n", graph->name, stage < 6 ? stages[stage] : "?",
          graph->node_count);
  for (int32_t i = 0; i < graph->input_count; i++) {
    fputs("input ", stream);
    print_tensor(graph->inputs[i], stream);
    fputc('\n', stream);
  }
  ITG_FOR_EACH_NODE(node, graph) { itg_node_print(node, stream); }
  for (int32_t i = 0; i < graph->output_count; i++) {
    fputs("output ", stream);
    print_tensor(graph->outputs[i], stream);
    fputc('\n', stream);
  }
}
