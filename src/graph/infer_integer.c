// Shape rules of the integer dialect. See infer_integer.h; operands and layouts are those of integer_ops.h.
#include "graph/infer_integer.h"

#include <string.h>

#include "base/checked.h"
#include "graph/infer_rules.h"
#include "graph/integer_ops.h"

enum { GEOMETRY_LIMIT = 1 << 30 }; // Window arithmetic of kernels stays within s32.

#define FAIL_SHAPE(...) ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, node->name, __VA_ARGS__)

static itg_status operand(const itg_node *node, int32_t index, itg_diagnostic *diagnostic, const itg_tensor **out) {
  const itg_tensor *tensor = itg_node_input(node, index);
  if (!tensor)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "%s lacks its input %d", itg_op_name(node->op), index);
  *out = tensor;
  return ITG_OK;
}

static itg_status activation(const itg_node *node, int32_t index, itg_diagnostic *diagnostic, const itg_tensor **out) {
  ITG_TRY(operand(node, index, diagnostic, out));
  if ((*out)->dtype != ITG_DTYPE_U8 && (*out)->dtype != ITG_DTYPE_U16)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "input %d of %s must be u8 or u16, not %s", index,
             itg_op_name(node->op), itg_dtype_name((*out)->dtype));
  return ITG_OK;
}

static itg_status constant(const itg_node *node, int32_t index, itg_dtype dtype, int32_t rank,
                           itg_diagnostic *diagnostic, const itg_tensor **out) {
  ITG_TRY(operand(node, index, diagnostic, out));
  if (!itg_tensor_is_constant(*out))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "input %d of %s must be a constant", index,
             itg_op_name(node->op));
  if ((*out)->dtype != dtype || (*out)->shape.rank != rank)
    FAIL_SHAPE("input %d of %s must be %s of rank %d, not %s of rank %d", index, itg_op_name(node->op),
               itg_dtype_name(dtype), rank, itg_dtype_name((*out)->dtype), (*out)->shape.rank);
  return ITG_OK;
}

// Weights: s8, or s4 with two codes a byte.
static itg_status weights(const itg_node *node, int32_t rank, itg_diagnostic *diagnostic, const itg_tensor **out) {
  const itg_tensor *weight = itg_node_input(node, ITG_Q_CONV_WEIGHT);
  const itg_dtype dtype = weight && weight->dtype == ITG_DTYPE_S4 ? ITG_DTYPE_S4 : ITG_DTYPE_S8;
  return constant(node, ITG_Q_CONV_WEIGHT, dtype, rank, diagnostic, out);
}

// A constant vector of `count` entries, or of one where `allow_one`.
static itg_status vector(const itg_node *node, int32_t index, itg_dtype dtype, int64_t count, bool allow_one,
                         itg_diagnostic *diagnostic) {
  const itg_tensor *tensor;
  ITG_TRY(constant(node, index, dtype, 1, diagnostic, &tensor));
  const int64_t have = tensor->shape.dims[0];
  if (have != count && !(allow_one && have == 1))
    FAIL_SHAPE("input %d of %s has %lld entries where %lld are needed", index, itg_op_name(node->op), (long long)have,
               (long long)count);
  return ITG_OK;
}

static itg_status set_output(const itg_node *node, int32_t index, const itg_shape *shape, itg_diagnostic *diagnostic) {
  itg_tensor *output = index < node->output_count ? node->outputs[index] : NULL;
  if (!output)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "%s lacks its output %d", itg_op_name(node->op), index);
  if (output->dtype != ITG_DTYPE_U8 && output->dtype != ITG_DTYPE_U16)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "output %d of %s must be u8 or u16, not %s", index,
             itg_op_name(node->op), itg_dtype_name(output->dtype));
  output->shape = *shape;
  return ITG_OK;
}

// Height and width that a window reads: kernel, stride, dilation and padding within limits; gives the padded size and the
// extent of the dilated kernel.
static itg_status window_extent(const itg_node *node, const itg_window *window, int axis, int64_t size,
                                itg_diagnostic *diagnostic, int64_t *padded, int64_t *extent) {
  const int64_t kernel = window->kernel[axis], stride = window->stride[axis], dilation = window->dilation[axis];
  const int64_t begin = window->pad_begin[axis], end = window->pad_end[axis];
  if (kernel < 1 || stride < 1 || dilation < 1 || begin < 0 || end < 0)
    FAIL_SHAPE("window with kernel %lld, stride %lld, dilation %lld, padding %lld and %lld", (long long)kernel,
               (long long)stride, (long long)dilation, (long long)begin, (long long)end);
  *padded = size + begin + end;
  *extent = (kernel - 1) * dilation + 1;
  if (size < 1 || *padded >= GEOMETRY_LIMIT || *extent >= GEOMETRY_LIMIT || stride >= GEOMETRY_LIMIT)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, node->name, "window or image is too large (limit %d)", GEOMETRY_LIMIT);
  return ITG_OK;
}

static itg_status slide(const itg_node *node, const itg_window *window, const itg_shape *x, itg_diagnostic *diagnostic,
                        itg_shape *out) {
  if (x->rank != 4 || window->rank != 2)
    FAIL_SHAPE("%s works on [N,H,W,C] with a window of rank 2, not on rank %d with %d", itg_op_name(node->op), x->rank,
               window->rank);
  *out = *x;
  for (int axis = 0; axis < 2; axis++) {
    int64_t padded, extent;
    ITG_TRY(window_extent(node, window, axis, x->dims[1 + axis], diagnostic, &padded, &extent));
    if (padded < extent)
      FAIL_SHAPE("the window (%lld) is larger than the padded input (%lld)", (long long)extent, (long long)padded);
    out->dims[1 + axis] = (padded - extent) / window->stride[axis] + 1;
  }
  return ITG_OK;
}

static itg_status conv_vectors(const itg_node *node, int64_t channels, itg_diagnostic *diagnostic) {
  for (int32_t i = ITG_Q_CONV_BIAS; i <= ITG_Q_CONV_SHIFT; i++)
    ITG_TRY(vector(node, i, ITG_DTYPE_S32, channels, false, diagnostic));
  const bool negative = itg_node_input(node, ITG_Q_CONV_NEGATIVE_MULTIPLIER) != NULL;
  if (negative != (itg_node_input(node, ITG_Q_CONV_NEGATIVE_SHIFT) != NULL))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "negative multipliers and shifts come together or not at all");
  if (!negative) return ITG_OK;
  ITG_TRY(vector(node, ITG_Q_CONV_NEGATIVE_MULTIPLIER, ITG_DTYPE_S32, channels, false, diagnostic));
  return vector(node, ITG_Q_CONV_NEGATIVE_SHIFT, ITG_DTYPE_S32, channels, false, diagnostic);
}

static itg_status kernel_matches(const itg_node *node, const itg_window *window, const itg_shape *weight,
                                 itg_diagnostic *diagnostic) {
  if (window->rank != 2 || weight->dims[1] != window->kernel[0] || weight->dims[2] != window->kernel[1])
    FAIL_SHAPE("the weight's kernel %lldx%lld is not the window's %dx%d", (long long)weight->dims[1],
               (long long)weight->dims[2], window->kernel[0], window->kernel[1]);
  return ITG_OK;
}

static itg_status infer_conv(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_conv_attributes *conv = &node->attributes.q_conv;
  const itg_tensor *x, *weight;
  ITG_TRY(activation(node, ITG_Q_CONV_X, diagnostic, &x));
  ITG_TRY(weights(node, 4, diagnostic, &weight));
  itg_shape out;
  ITG_TRY(slide(node, &conv->window, &x->shape, diagnostic, &out));
  ITG_TRY(kernel_matches(node, &conv->window, &weight->shape, diagnostic));
  const int64_t channels = x->shape.dims[3], outputs = weight->shape.dims[0], group = conv->group;
  if (group < 1 || outputs < 1 || channels % group || outputs % group || weight->shape.dims[3] != channels / group)
    FAIL_SHAPE("%lld input and %lld output channels do not fit %lld groups of %lld weights", (long long)channels,
               (long long)outputs, (long long)group, (long long)weight->shape.dims[3]);
  ITG_TRY(conv_vectors(node, outputs, diagnostic));
  out.dims[3] = outputs;
  return set_output(node, 0, &out, diagnostic);
}

static itg_status infer_conv_transpose(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_conv_attributes *conv = &node->attributes.q_conv;
  const itg_tensor *x, *weight;
  ITG_TRY(activation(node, ITG_Q_CONV_X, diagnostic, &x));
  ITG_TRY(weights(node, 4, diagnostic, &weight));
  if (x->shape.rank != 4) FAIL_SHAPE("%s works on [N,H,W,C], not on rank %d", itg_op_name(node->op), x->shape.rank);
  ITG_TRY(kernel_matches(node, &conv->window, &weight->shape, diagnostic));
  const int64_t channels = x->shape.dims[3], group = conv->group;
  int64_t outputs;
  if (group < 1 || channels % group || weight->shape.dims[3] != channels || weight->shape.dims[0] < 1 ||
      !itg_checked_multiply_i64(weight->shape.dims[0], group, &outputs) || outputs > INT32_MAX)
    FAIL_SHAPE("%lld input channels do not fit %lld groups of %lldx%lld weights", (long long)channels, (long long)group,
               (long long)weight->shape.dims[0], (long long)weight->shape.dims[3]);
  itg_shape out = x->shape;
  for (int axis = 0; axis < 2; axis++) {
    int64_t padded, extent;
    const int64_t size = x->shape.dims[1 + axis], stride = conv->window.stride[axis];
    ITG_TRY(window_extent(node, &conv->window, axis, size, diagnostic, &padded, &extent));
    const int64_t extra = conv->output_padding[axis];
    if (extra < 0 || extra >= itg_max_i64(stride, conv->window.dilation[axis]))
      FAIL_SHAPE("output padding %lld must be below the stride", (long long)extra);
    const int64_t full = (size - 1) * stride + extent + extra; // Both factors are below 2^30.
    const int64_t cut = (int64_t)conv->window.pad_begin[axis] + conv->window.pad_end[axis];
    if (full >= GEOMETRY_LIMIT)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, node->name, "output is too large (limit %d)", GEOMETRY_LIMIT);
    if (full - cut < 1) FAIL_SHAPE("padding %lld leaves nothing of %lld", (long long)cut, (long long)full);
    out.dims[1 + axis] = full - cut;
  }
  ITG_TRY(conv_vectors(node, outputs, diagnostic));
  out.dims[3] = outputs;
  return set_output(node, 0, &out, diagnostic);
}

static itg_status infer_fully_connected(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x, *weight;
  ITG_TRY(activation(node, ITG_Q_CONV_X, diagnostic, &x));
  ITG_TRY(weights(node, 2, diagnostic, &weight));
  if (x->shape.rank < 1 || x->shape.dims[x->shape.rank - 1] != weight->shape.dims[1])
    FAIL_SHAPE("the last dimension of the input is not the weight's %lld", (long long)weight->shape.dims[1]);
  ITG_TRY(conv_vectors(node, weight->shape.dims[0], diagnostic));
  if (itg_node_input(node, ITG_Q_CONV_BLOCK_SCALE)) {
    const itg_tensor *blocks;
    ITG_TRY(constant(node, ITG_Q_CONV_BLOCK_SCALE, ITG_DTYPE_U8, 2, diagnostic, &blocks));
    if (weight->dtype != ITG_DTYPE_S4 || blocks->shape.dims[0] != weight->shape.dims[0] || blocks->shape.dims[1] < 1 ||
        weight->shape.dims[1] % blocks->shape.dims[1] != 0)
      FAIL_SHAPE("%lldx%lld block scales do not belong to %s weights of %lldx%lld", (long long)blocks->shape.dims[0],
                 (long long)blocks->shape.dims[1], itg_dtype_name(weight->dtype), (long long)weight->shape.dims[0],
                 (long long)weight->shape.dims[1]);
  }
  itg_shape out = x->shape;
  out.dims[out.rank - 1] = weight->shape.dims[0];
  return set_output(node, 0, &out, diagnostic);
}

static itg_status infer_matmul(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *a, *b;
  ITG_TRY(activation(node, 0, diagnostic, &a));
  ITG_TRY(operand(node, 1, diagnostic, &b));
  if (b->dtype != ITG_DTYPE_U8 && b->dtype != ITG_DTYPE_S8)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the second operand of QMatMul must be u8 or s8, not %s",
             itg_dtype_name(b->dtype));
  if (b->dtype == ITG_DTYPE_S8 && !itg_tensor_is_constant(b))
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "an s8 operand of QMatMul must be a constant");
  const int rank_a = a->shape.rank, rank_b = b->shape.rank;
  if (rank_a < 2 || rank_b < 2) FAIL_SHAPE("QMatMul needs operands of rank 2 or more, not %d and %d", rank_a, rank_b);
  const bool transposed = node->attributes.requantize.transpose_b != 0;
  const int64_t k = b->shape.dims[transposed ? rank_b - 1 : rank_b - 2];
  const int64_t n = b->shape.dims[transposed ? rank_b - 2 : rank_b - 1];
  if (a->shape.dims[rank_a - 1] != k)
    FAIL_SHAPE("inner dimensions %lld and %lld differ", (long long)a->shape.dims[rank_a - 1], (long long)k);
  const itg_shape lead_a = itg_shape_of(rank_a - 2, a->shape.dims), lead_b = itg_shape_of(rank_b - 2, b->shape.dims);
  itg_shape out;
  if (!itg_shape_broadcast(&lead_a, &lead_b, &out)) FAIL_SHAPE("the leading dimensions do not broadcast");
  if (out.rank > ITG_MAX_RANK - 2) FAIL_SHAPE("too many dimensions");
  out.dims[out.rank++] = a->shape.dims[rank_a - 2];
  out.dims[out.rank++] = n;
  return set_output(node, 0, &out, diagnostic);
}

static itg_status infer_binary(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *a, *b;
  ITG_TRY(activation(node, 0, diagnostic, &a));
  ITG_TRY(activation(node, 1, diagnostic, &b));
  itg_shape out;
  if (!itg_shape_broadcast(&a->shape, &b->shape, &out)) {
    char first[96], second[96];
    FAIL_SHAPE("%s and %s do not broadcast", itg_shape_print(&a->shape, first, sizeof first),
               itg_shape_print(&b->shape, second, sizeof second));
  }
  return set_output(node, 0, &out, diagnostic);
}

// M_c, B_c and s_c as inputs first .. first+2: [C], or [1] for Q_AFFINE.
static itg_status affine_vectors(const itg_node *node, int32_t first, const itg_shape *x, bool allow_one,
                                 itg_diagnostic *diagnostic) {
  if (x->rank < 1) FAIL_SHAPE("%s needs a channel dimension", itg_op_name(node->op));
  const int64_t channels = x->dims[x->rank - 1];
  ITG_TRY(vector(node, first, ITG_DTYPE_S32, channels, allow_one, diagnostic));
  const int64_t entries = node->inputs[first]->shape.dims[0];
  ITG_TRY(vector(node, first + 1, ITG_DTYPE_S64, entries, false, diagnostic));
  return vector(node, first + 2, ITG_DTYPE_S32, entries, false, diagnostic);
}

static itg_status infer_add_affine(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *a, *b;
  ITG_TRY(activation(node, 0, diagnostic, &a));
  ITG_TRY(activation(node, 1, diagnostic, &b));
  if (!itg_shape_equal(&a->shape, &b->shape)) FAIL_SHAPE("QAddAffine needs two inputs of one shape");
  ITG_TRY(affine_vectors(node, 2, &a->shape, false, diagnostic));
  ITG_TRY(set_output(node, 0, &a->shape, diagnostic));
  return set_output(node, 1, &a->shape, diagnostic);
}

static itg_status infer_affine(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x;
  ITG_TRY(activation(node, 0, diagnostic, &x));
  ITG_TRY(affine_vectors(node, 1, &x->shape, true, diagnostic));
  return set_output(node, 0, &x->shape, diagnostic);
}

static itg_status infer_prelu(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x;
  ITG_TRY(activation(node, 0, diagnostic, &x));
  const int64_t channels = x->shape.rank > 0 ? x->shape.dims[x->shape.rank - 1] : 1;
  ITG_TRY(vector(node, 1, ITG_DTYPE_S32, channels, true, diagnostic));
  ITG_TRY(vector(node, 2, ITG_DTYPE_S32, node->inputs[1]->shape.dims[0], false, diagnostic));
  return set_output(node, 0, &x->shape, diagnostic);
}

static itg_status infer_average_pool(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_pool_attributes *pool = &node->attributes.q_pool.pool;
  const itg_tensor *x;
  ITG_TRY(activation(node, 0, diagnostic, &x));
  if (pool->layout != ITG_LAYOUT_CHANNELS_LAST) FAIL_SHAPE("QAveragePool works on channels-last images only");
  itg_shape out;
  ITG_TRY(slide(node, &pool->window, &x->shape, diagnostic, &out));
  for (int axis = 0; axis < 2; axis++) {
    if (pool->declared_pad_end[axis] < 0 || pool->declared_pad_end[axis] > pool->window.pad_end[axis])
      FAIL_SHAPE("declared padding %d is not in 0..%d", pool->declared_pad_end[axis], pool->window.pad_end[axis]);
  }
  ITG_TRY(vector(node, 1, ITG_DTYPE_S32, (int64_t)pool->window.kernel[0] * pool->window.kernel[1], true, diagnostic));
  ITG_TRY(vector(node, 2, ITG_DTYPE_S32, node->inputs[1]->shape.dims[0], false, diagnostic));
  return set_output(node, 0, &out, diagnostic);
}

static itg_status infer_reduce_sum(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x;
  ITG_TRY(activation(node, 0, diagnostic, &x));
  const uint32_t axes = node->attributes.requantize.axes;
  if (axes >> x->shape.rank) FAIL_SHAPE("axes 0x%x are outside rank %d", axes, x->shape.rank);
  itg_shape out = x->shape;
  for (int i = 0; i < out.rank; i++) {
    if (axes >> i & 1) out.dims[i] = 1;
  }
  return set_output(node, 0, &out, diagnostic);
}

static itg_status infer_table(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x;
  ITG_TRY(activation(node, 0, diagnostic, &x));
  ITG_TRY(set_output(node, 0, &x->shape, diagnostic));
  if (x->dtype == ITG_DTYPE_U8) return vector(node, 1, node->outputs[0]->dtype, 256, false, diagnostic);
  const int32_t bits = node->attributes.q_table.node_bits;
  if (bits < 0 || bits > 5)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "a table with nodes every 2^%d codes; 0..5 are known",
             bits);
  return vector(node, 1, ITG_DTYPE_S32, (65536 >> bits) + 1, false, diagnostic);
}

static itg_status sixteen_bit_rows(const itg_node *node, itg_diagnostic *diagnostic, const itg_tensor **x) {
  ITG_TRY(activation(node, 0, diagnostic, x));
  if ((*x)->dtype != ITG_DTYPE_U16 || (*x)->shape.rank < 1)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s works on rows of u16", itg_op_name(node->op));
  return ITG_OK;
}

static itg_status infer_softmax(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x, *mask = itg_node_input(node, 1);
  ITG_TRY(sixteen_bit_rows(node, diagnostic, &x));
  if (mask) {
    itg_shape both;
    if (mask->dtype != ITG_DTYPE_BOOL)
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the mask must be bool, not %s",
               itg_dtype_name(mask->dtype));
    if (!itg_shape_broadcast(&x->shape, &mask->shape, &both) || !itg_shape_equal(&both, &x->shape))
      FAIL_SHAPE("the mask does not broadcast to the input");
  }
  return set_output(node, 0, &x->shape, diagnostic);
}

static itg_status infer_norm(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x;
  ITG_TRY(sixteen_bit_rows(node, diagnostic, &x));
  const int64_t channels = x->shape.dims[x->shape.rank - 1];
  const bool l2 = node->attributes.q_norm.kind == ITG_NORM_L2;
  ITG_TRY(vector(node, 1, ITG_DTYPE_S32, l2 ? 1 : channels, false, diagnostic));
  if (itg_node_input(node, 2)) ITG_TRY(vector(node, 2, ITG_DTYPE_S32, channels, false, diagnostic));
  return set_output(node, 0, &x->shape, diagnostic);
}

static itg_status infer_resize(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x;
  ITG_TRY(activation(node, 0, diagnostic, &x));
  if (x->shape.rank != 4) FAIL_SHAPE("QResize works on [N,H,W,C], not on rank %d", x->shape.rank);
  itg_shape out = x->shape;
  for (int axis = 0; axis < 2; axis++) {
    const itg_tensor *index;
    ITG_TRY(constant(node, 1 + 2 * axis, ITG_DTYPE_S32, 2, diagnostic, &index));
    if (index->shape.dims[0] < 1 || index->shape.dims[1] != 2) FAIL_SHAPE("index tables must be [size,2]");
    ITG_TRY(vector(node, 2 + 2 * axis, ITG_DTYPE_S32, index->shape.dims[0], false, diagnostic));
    out.dims[1 + axis] = index->shape.dims[0];
  }
  return set_output(node, 0, &out, diagnostic);
}

static itg_status infer_rope(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x, *table;
  ITG_TRY(activation(node, 0, diagnostic, &x));
  for (int32_t i = 1; i <= 2; i++) {
    ITG_TRY(operand(node, i, diagnostic, &table));
    if (table->dtype != ITG_DTYPE_S32)
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "cosine and sine must be s32, not %s",
               itg_dtype_name(table->dtype));
  }
  ITG_TRY(itg_infer_rope_shape(node, diagnostic));
  return set_output(node, 0, &x->shape, diagnostic);
}

// Both prefixes or none; fewer rows than the caches.
static itg_status check_prefix(const itg_node *node, const itg_attention_shape *shape, itg_diagnostic *diagnostic) {
  const itg_tensor *k = itg_node_input(node, ITG_ATTENTION_K_PREFIX), *v = itg_node_input(node, ITG_ATTENTION_V_PREFIX);
  if (!k && !v) return ITG_OK;
  if (!k || !v || !itg_shape_equal(&k->shape, &v->shape) || k->shape.rank != 3 || k->shape.dims[0] != shape->groups ||
      k->shape.dims[2] != shape->dim || k->shape.dims[1] < 1 || k->shape.dims[1] >= shape->context)
    FAIL_SHAPE("the prefixes must be two constants of one shape [G,P,D] with P below the context");
  if (!k->data || !v->data || k->dtype != node->inputs[ITG_ATTENTION_K]->dtype ||
      v->dtype != node->inputs[ITG_ATTENTION_V]->dtype)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the prefixes must be constants of the caches' types");
  return ITG_OK;
}

static itg_status infer_q_attention(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *q, *new_row, *cache;
  ITG_TRY(activation(node, ITG_ATTENTION_Q, diagnostic, &q));
  for (int32_t i = 0; i < 2; i++) {
    ITG_TRY(activation(node, ITG_ATTENTION_K + i, diagnostic, &new_row));
    ITG_TRY(activation(node, ITG_ATTENTION_K_CACHE + i, diagnostic, &cache));
    if (cache->dtype != new_row->dtype)
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the cache %s must be %s like %s", cache->name,
               itg_dtype_name(new_row->dtype), new_row->name);
  }
  itg_attention_shape shape;
  ITG_TRY(itg_infer_attention_shape(node, diagnostic, &shape));
  ITG_TRY(check_prefix(node, &shape, diagnostic));
  return set_output(node, 0, &q->shape, diagnostic);
}

static itg_status infer_embedding(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *ids, *rows;
  ITG_TRY(operand(node, 0, diagnostic, &ids));
  if (ids->dtype != ITG_DTYPE_S32 && ids->dtype != ITG_DTYPE_S64)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "ids must be s32 or s64, not %s",
             itg_dtype_name(ids->dtype));
  ITG_TRY(constant(node, 1, ITG_DTYPE_S8, 2, diagnostic, &rows));
  ITG_TRY(vector(node, 2, ITG_DTYPE_S32, rows->shape.dims[0], false, diagnostic));
  ITG_TRY(vector(node, 3, ITG_DTYPE_S32, rows->shape.dims[0], false, diagnostic));
  itg_shape out = ids->shape;
  if (out.rank >= ITG_MAX_RANK) FAIL_SHAPE("too many dimensions");
  out.dims[out.rank++] = rows->shape.dims[1];
  return set_output(node, 0, &out, diagnostic);
}

itg_status itg_infer_integer_node(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x;
  switch (node->op) {
  case ITG_OP_Q_CONV: return infer_conv(node, diagnostic);
  case ITG_OP_Q_CONV_TRANSPOSE: return infer_conv_transpose(node, diagnostic);
  case ITG_OP_Q_FULLY_CONNECTED: return infer_fully_connected(node, diagnostic);
  case ITG_OP_Q_MATMUL: return infer_matmul(node, diagnostic);
  case ITG_OP_Q_ADD:
  case ITG_OP_Q_MUL:
  case ITG_OP_Q_DIV: return infer_binary(node, diagnostic);
  case ITG_OP_Q_ADD_AFFINE: return infer_add_affine(node, diagnostic);
  case ITG_OP_Q_AFFINE: return infer_affine(node, diagnostic);
  case ITG_OP_Q_CONVERT:
    ITG_TRY(activation(node, 0, diagnostic, &x));
    return set_output(node, 0, &x->shape, diagnostic);
  case ITG_OP_Q_PRELU: return infer_prelu(node, diagnostic);
  case ITG_OP_Q_AVERAGE_POOL: return infer_average_pool(node, diagnostic);
  case ITG_OP_Q_REDUCE_SUM: return infer_reduce_sum(node, diagnostic);
  case ITG_OP_Q_TABLE: return infer_table(node, diagnostic);
  case ITG_OP_Q_SOFTMAX: return infer_softmax(node, diagnostic);
  case ITG_OP_Q_NORM: return infer_norm(node, diagnostic);
  case ITG_OP_Q_RESIZE: return infer_resize(node, diagnostic);
  case ITG_OP_Q_ROPE: return infer_rope(node, diagnostic);
  case ITG_OP_Q_EMBEDDING: return infer_embedding(node, diagnostic);
  case ITG_OP_Q_ATTENTION: return infer_q_attention(node, diagnostic);
  default:
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s is not an operation of the integer dialect",
             itg_op_name(node->op));
  }
}
