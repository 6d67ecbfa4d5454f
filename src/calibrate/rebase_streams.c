// Stream re-basing: t_c = 2^round(e*log2(R / R_c)) for channel c of a stream, where R_c is the channel's largest magnitude over all
// tensors of the stream and R the largest R_c (facts: construction iv; the power-of-two form of cross-layer equalization,
// Nagel et al., arXiv 1906.04721).
//
// A residual stream that a BatchNorm reads may hold channels that differ by many powers of two: nothing in training keeps
// them equal, and the BatchNorm makes up for it. With one scale for all, the quiet channels lose their bits (all of them in
// 8 bits, and in 16 bits from a spread of about 1:1000 on), and the BatchNorm amplifies their rounding noise to full size.
// The same holds, to a lesser degree, for what a convolution writes for the next one.
//
// Writers have a scale for every output channel, and readers that work channel by channel (affines, depth-wise
// convolutions) have a factor for each, so these take the gains at no cost whatever the precision: e = 1. The columns of a
// dense convolution share a scale with their row, so what the activation gains the weights lose. Operands of 8 bits meet half
// way, e = 1/2, which gives channel and column the same spread (face embedder, a8w8: SQNR 20.7 -> 21.9 dB). Operands of 16
// bits have 8 to spare next to weights of 8, and the small scales of raised channels would not leave room for a 32-bit bias:
// convolutions of any kind keep them as they are (a16w8, all as with 8 bits: 31.2 -> 27.9 dB; depth-wise only: 30.2 dB).
//
// A stream is what additions tie together: both operands and the sum, also behind operations that commute with positive
// gains; or a single tensor between writer and reader. It is left alone when any of its tensors is an input or output of
// the graph, or is written or read by an operation that cannot take the gains. Streams whose channels differ by no more than
// 4 are left alone as well: two bits are not worth the change. Gains are powers of two, so that all values keep their
// mantissas and float results do not change.
#include "calibrate/rebase_streams.h"

#include <math.h>
#include <stdlib.h>

#include "passes/rewrite.h"

// In powers of two. Quieter channels count as dead beyond this: they would only bring noise back.
static const double most_gain = 24;
// What convolutions read is sparse: a channel that was quiet in calibration may be loud in other samples, and a raised channel
// clips. So their operands only get two more bits. Chosen among 0, 1, 2, 3, 4 and 24 on calibration photographs alone, half of
// which told how the other half had done (a8w8+s16, SQNR in dB): padded pre-activation face embedder 19.3, 21.9, 22.3, 22.3,
// 22.1, 22.2; face embedder 22.9, 22.5, 22.8, 22.8, 22.9, 22.9; face detector 50.7, 51.7, 49.1, 50.1, 50.1, 50.1. Only the
// network that needs a gain tells 0 from the rest; 2 is the smallest that serves it.
static const double most_product_gain = 2;
// Depth-wise convolutions lose nothing for it, and in networks without normalisation behind their functions (PP-OCR's, where one
// of 32 channels reaches 137 and the next 3) two bits are too few. Chosen on other rendered pages than those that judge
// (PP-OCRv4 detection, a8w8+s16, lines with the same text / boxes found again, %): 2: 89 / 85; 4: 95 / 94; 24: 90 / 91.
static const double most_channel_product_gain = 4;
static const double least_spread = 4;

typedef struct stream_member {
  itg_tensor *tensor;
  size_t parent; // Union-find.
  // Of the stream, at the member that stands for it:
  bool blocked;
  bool is_product; // A reader multiplies it by weights.
  bool is_mixed;   // .. that share one scale among the channels.
  double *gains;   // malloc'ed, one a channel; NULL: not re-based.
} stream_member;

typedef struct rebase_work {
  itg_graph *graph;
  bool products;
  stream_member *members;
  size_t count;
} rebase_work;

static size_t find_root(const rebase_work *work, size_t i) {
  while (work->members[i].parent != i) {
    work->members[i].parent = work->members[work->members[i].parent].parent; // Halves the path.
    i = work->members[i].parent;
  }
  return i;
}

static stream_member *stream_of(const rebase_work *work, const itg_tensor *tensor) {
  return tensor && tensor->index >= 0 ? &work->members[find_root(work, (size_t)tensor->index)] : NULL;
}

static int64_t channels_of(const itg_tensor *tensor) { return tensor->shape.dims[tensor->shape.rank - 1]; }

static void block(const rebase_work *work, const itg_tensor *tensor) {
  stream_member *stream = stream_of(work, tensor);
  if (stream) stream->blocked = true;
}

static void tie(const rebase_work *work, const itg_tensor *a, const itg_tensor *b) {
  stream_member *x = stream_of(work, a), *y = stream_of(work, b);
  if (!x || !y || channels_of(a) != channels_of(b)) {
    block(work, a);
    block(work, b);
  } else if (x != y) {
    y->parent = x->parent;
    x->blocked = x->blocked || y->blocked;
    x->is_mixed = x->is_mixed || y->is_mixed;
    x->is_product = x->is_product || y->is_product;
  }
}

// A constant that can be multiplied by one number a channel.
static bool is_vector_of(const itg_tensor *constant, int64_t channels) {
  return itg_tensor_is_constant(constant) && constant->dtype == ITG_DTYPE_F32 && constant->shape.rank == 1 &&
         constant->shape.dims[0] == channels;
}

static bool has_weights(const itg_node *node) {
  if (node->op != ITG_OP_CONV && node->op != ITG_OP_CONV_TRANSPOSE && node->op != ITG_OP_FULLY_CONNECTED) return false;
  const itg_tensor *weight = node->inputs[1];
  const itg_conv_attributes *conv = &node->attributes.conv;
  return itg_tensor_is_constant(weight) && weight->dtype == ITG_DTYPE_F32 && weight->shape.rank >= 2 &&
         (node->op == ITG_OP_FULLY_CONNECTED || conv->layout == ITG_LAYOUT_CHANNELS_LAST) &&
         (node->op != ITG_OP_CONV_TRANSPOSE || conv->group == 1);
}

// Output channels can be multiplied by positive numbers.
static bool takes_output_gains(const itg_node *node) {
  const int32_t kind = node->attributes.conv.activation.kind;
  const itg_activation *activation = &node->attributes.conv.activation;
  const bool is_relu = kind == ITG_ACTIVATION_CLIP && activation->low == 0 && isinf(activation->high);
  if (!has_weights(node) || (kind == ITG_ACTIVATION_CLIP && !is_relu)) return false;
  const itg_tensor *bias = itg_node_input(node, 2);
  return !bias || is_vector_of(bias, channels_of(node->outputs[0]));
}

// Operations for which f(t*x) = t*f(x) for every channel of the last dimension and t > 0.
static bool commutes_with_gains(const itg_node *node) {
  switch (node->op) {
  case ITG_OP_IDENTITY:
  case ITG_OP_RELU:
  case ITG_OP_LEAKY_RELU: return true;
  case ITG_OP_PRELU: return itg_tensor_is_constant(node->inputs[1]);
  case ITG_OP_AVERAGE_POOL:
  case ITG_OP_MAX_POOL: return node->attributes.pool.layout == ITG_LAYOUT_CHANNELS_LAST;
  default: return false;
  }
}

static void visit_other(const rebase_work *work, const itg_node *node) {
  const bool is_affine = node->op == ITG_OP_AFFINE && is_vector_of(node->inputs[1], channels_of(node->outputs[0])) &&
                         is_vector_of(node->inputs[2], channels_of(node->outputs[0]));
  const bool reads = is_affine || has_weights(node), writes = is_affine || takes_output_gains(node);
  for (int32_t i = reads ? 1 : 0; i < node->input_count; i++) block(work, node->inputs[i]);
  stream_member *stream = reads ? stream_of(work, node->inputs[0]) : NULL;
  if (stream && !is_affine) {
    stream->is_product = true;
    if (channels_of(node->inputs[1]) > 1) stream->is_mixed = true;
  }
  for (int32_t o = writes ? 1 : 0; o < node->output_count; o++) block(work, node->outputs[o]);
}

static void visit(const rebase_work *work, const itg_node *node) {
  const itg_tensor *y = node->outputs[0];
  if (node->op == ITG_OP_ADD || node->op == ITG_OP_SUB || node->op == ITG_OP_ADD_AFFINE) {
    tie(work, node->inputs[0], y);
    tie(work, node->inputs[1], y);
    stream_member *stream = stream_of(work, y);
    if (node->op == ITG_OP_ADD_AFFINE &&
        !(stream && is_vector_of(node->inputs[2], channels_of(y)) && is_vector_of(node->inputs[3], channels_of(y)))) {
      block(work, y);
      block(work, node->outputs[1]);
    }
  } else if (commutes_with_gains(node)) {
    tie(work, node->inputs[0], y);
  } else {
    visit_other(work, node);
  }
}

static itg_status find_members(rebase_work *work, itg_channel_magnitudes magnitudes, void *context,
                               itg_diagnostic *diagnostic) {
  itg_graph *graph = work->graph;
  work->members = calloc(graph->tensor_count + 1, sizeof *work->members);
  ITG_TRY_MEMORY(work->members, diagnostic);
  for (size_t i = 0; i < graph->tensor_count; i++) {
    itg_tensor *tensor = graph->tensors[i];
    if (!tensor) continue;
    tensor->index = -1;
    if (tensor->shape.rank == 0 || !magnitudes(context, tensor)) continue;
    tensor->index = (int64_t)work->count;
    work->members[work->count] = (stream_member){
        .tensor = tensor, .parent = work->count, .blocked = tensor->is_input || tensor->is_output || tensor->encoding};
    work->count++;
  }
  return ITG_OK;
}

// From the magnitudes of a stream's channels to gains, in place. False: the stream stays as it is.
static bool choose_gains(const stream_member *stream, bool products) {
  const int64_t channels = channels_of(stream->tensor);
  double *values = stream->gains, largest = 0, smallest = INFINITY;
  for (int64_t c = 0; c < channels; c++) {
    largest = fmax(largest, values[c]);
    if (values[c] > 0) smallest = fmin(smallest, values[c]);
  }
  if (!(largest > least_spread * smallest) || (stream->is_product && !products)) return false;
  const double most = stream->is_mixed ? most_product_gain : stream->is_product ? most_channel_product_gain : most_gain;
  for (int64_t c = 0; c < channels; c++) {
    double exponent = values[c] > 0 ? log2(largest / values[c]) : 0;
    exponent = fmin(floor((stream->is_mixed ? exponent / 2 : exponent) + 0.5), most);
    values[c] = ldexp(1, (int)exponent);
  }
  return true;
}

static itg_status find_gains(rebase_work *work, itg_channel_magnitudes magnitudes, void *context, bool *any,
                             itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < work->count; i++) {
    const itg_tensor *tensor = work->members[i].tensor;
    stream_member *stream = stream_of(work, tensor);
    if (stream->blocked) continue;
    const int64_t channels = channels_of(tensor);
    if (!stream->gains) stream->gains = calloc((size_t)channels + 1, sizeof *stream->gains);
    ITG_TRY_MEMORY(stream->gains, diagnostic);
    const float *values = magnitudes(context, tensor);
    for (int64_t c = 0; c < channels; c++) stream->gains[c] = fmax(stream->gains[c], (double)values[c]);
  }
  for (size_t i = 0; i < work->count; i++) {
    stream_member *stream = &work->members[i];
    if (!stream->gains) continue;
    if (choose_gains(stream, work->products)) {
      *any = true;
    } else {
      free(stream->gains);
      stream->gains = NULL;
    }
  }
  return ITG_OK;
}

// Replaces input `index` of a node by a scaled copy: gains of rows (the first dimension) multiply, gains of columns (the last)
// divide. The rows are in `groups` equal parts, of which part g reads the columns from g*width on. Either may be NULL.
static itg_status scale_constant(itg_graph *graph, itg_node *node, int32_t index, const double *row_gains,
                                 const double *column_gains, int64_t groups, itg_diagnostic *diagnostic) {
  itg_tensor *constant = itg_node_input(node, index);
  double *values;
  size_t count = 0;
  if (!constant) return ITG_OK;
  ITG_TRY(itg_constant_read(constant, diagnostic, &values));
  if (!values || !itg_shape_count(&constant->shape, &count)) return ITG_OK;
  const size_t rows = (size_t)constant->shape.dims[0], length = rows ? count / rows : 0;
  const size_t width = (size_t)channels_of(constant), rows_a_group = rows / (size_t)groups;
  for (size_t i = 0; i < count; i++) {
    const size_t row = i / length;
    if (row_gains) values[i] *= row_gains[row];
    if (column_gains) values[i] /= column_gains[row / rows_a_group * width + i % width];
  }
  itg_tensor *scaled = itg_constant_write(graph, constant->name, constant->dtype, &constant->shape, values);
  free(values);
  ITG_TRY_MEMORY(scaled && itg_node_set_input(node, index, scaled), diagnostic);
  scaled->index = -1;
  return ITG_OK;
}

// y = gain*x + offset with `in` the gains of x and `out` those of y; either may be NULL.
static itg_status scale_affine(itg_graph *graph, itg_node *node, int32_t gain, int32_t offset, const double *in,
                               const double *out, itg_diagnostic *diagnostic) {
  const int64_t channels = channels_of(node->outputs[0]);
  double *ratio = calloc((size_t)channels + 1, sizeof *ratio);
  ITG_TRY_MEMORY(ratio, diagnostic);
  for (int64_t c = 0; c < channels; c++) ratio[c] = (out ? out[c] : 1) / (in ? in[c] : 1);
  itg_status status = scale_constant(graph, node, gain, ratio, NULL, 1, diagnostic);
  if (status == ITG_OK && out) status = scale_constant(graph, node, offset, out, NULL, 1, diagnostic);
  free(ratio);
  return status;
}

static itg_status apply(const rebase_work *work, itg_node *node, itg_diagnostic *diagnostic) {
  const stream_member *from = stream_of(work, node->inputs[0]), *to = stream_of(work, node->outputs[0]);
  const double *in = from ? from->gains : NULL, *out = to ? to->gains : NULL;
  if (node->op == ITG_OP_ADD_AFFINE) {
    const stream_member *second = stream_of(work, node->outputs[1]);
    const double *gains = second ? second->gains : NULL;
    return out || gains ? scale_affine(work->graph, node, 2, 3, out, gains, diagnostic) : ITG_OK;
  }
  if (!in && !out) return ITG_OK;
  if (node->op == ITG_OP_AFFINE) return scale_affine(work->graph, node, 1, 2, in, out, diagnostic);
  if (!has_weights(node)) return ITG_OK;
  const int64_t groups = node->op == ITG_OP_CONV ? node->attributes.conv.group : 1;
  ITG_TRY(scale_constant(work->graph, node, 1, out, in, groups, diagnostic));
  return out ? scale_constant(work->graph, node, 2, out, NULL, 1, diagnostic) : ITG_OK;
}

static itg_status rebase(rebase_work *work, itg_channel_magnitudes magnitudes, itg_channel_gains rescaled,
                         void *context, bool *changed, itg_diagnostic *diagnostic) {
  ITG_TRY(find_members(work, magnitudes, context, diagnostic));
  ITG_FOR_EACH_NODE(node, work->graph) { visit(work, node); }
  ITG_TRY(find_gains(work, magnitudes, context, changed, diagnostic));
  if (!*changed) return ITG_OK;
  ITG_FOR_EACH_NODE(node, work->graph) { ITG_TRY(apply(work, node, diagnostic)); }
  for (size_t i = 0; i < work->count; i++) {
    const stream_member *stream = stream_of(work, work->members[i].tensor);
    if (stream->gains) rescaled(context, work->members[i].tensor, stream->gains);
  }
  return ITG_OK;
}

itg_status itg_rebase_streams(itg_graph *graph, bool products, itg_channel_magnitudes magnitudes,
                              itg_channel_gains rescaled, void *context, bool *changed, itg_diagnostic *diagnostic) {
  rebase_work work = {.graph = graph, .products = products};
  *changed = false;
  const itg_status status = rebase(&work, magnitudes, rescaled, context, changed, diagnostic);
  for (size_t i = 0; i < work.count; i++) free(work.members[i].gains);
  free(work.members);
  return status;
}
