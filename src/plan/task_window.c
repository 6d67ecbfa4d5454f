// Convolutions, matrix products, pools and resizes. See task.h.
#include "graph/integer_ops.h"
#include "plan/task.h"

enum { MAX_MATRICES = 1 << 22 }; // Of one batched product; each takes two offsets of the plan.

static void set_image(const itg_node *node, itg_conv_task *task) {
  const itg_shape *x = &node->inputs[ITG_Q_CONV_X]->shape, *out = &node->outputs[0]->shape;
  const itg_window *window = &node->attributes.q_conv.window;
  task->batch = (int32_t)x->dims[0];
  task->in_h = (int32_t)x->dims[1];
  task->in_w = (int32_t)x->dims[2];
  task->in_c = (int32_t)x->dims[3];
  task->out_h = (int32_t)out->dims[1];
  task->out_w = (int32_t)out->dims[2];
  task->out_c = (int32_t)out->dims[3];
  task->kernel_h = window->kernel[0];
  task->kernel_w = window->kernel[1];
  task->stride_h = window->stride[0];
  task->stride_w = window->stride[1];
  task->dilation_h = window->dilation[0];
  task->dilation_w = window->dilation[1];
  task->pad_top = window->pad_begin[0];
  task->pad_left = window->pad_begin[1];
  task->group = node->attributes.q_conv.group;
}

// A fully connected layer is a 1x1 convolution over an image of one line.
static void set_rows(const itg_node *node, itg_conv_task *task) {
  const itg_shape *x = &node->inputs[ITG_Q_CONV_X]->shape, *weight = &node->inputs[ITG_Q_CONV_WEIGHT]->shape;
  task->batch = task->in_h = task->out_h = 1;
  task->in_w = task->out_w = (int32_t)itg_plan_product(x, 0, x->rank - 1);
  task->in_c = (int32_t)weight->dims[1];
  task->out_c = (int32_t)weight->dims[0];
  task->kernel_h = task->kernel_w = task->stride_h = task->stride_w = task->dilation_h = task->dilation_w = 1;
  task->group = 1;
}

void itg_plan_conv(const itg_node *node, itg_conv_task *task) {
  const itg_q_conv_attributes *conv = &node->attributes.q_conv;
  const itg_tensor *x = node->inputs[ITG_Q_CONV_X], *out = node->outputs[0];
  const itg_tensor *negative_multiplier = itg_node_input(node, ITG_Q_CONV_NEGATIVE_MULTIPLIER);
  const itg_tensor *negative_shift = itg_node_input(node, ITG_Q_CONV_NEGATIVE_SHIFT);
  *task = (itg_conv_task){.in_type = (int32_t)x->dtype,
                          .out_type = (int32_t)out->dtype,
                          .in_zero = itg_plan_zero(x),
                          .out_zero = itg_plan_zero(out),
                          .low = conv->low,
                          .high = conv->high,
                          .wide = conv->wide,
                          .pre_shift = conv->pre_shift,
                          .pair_sums_fit = conv->pair_sums_fit,
                          .bound = conv->bound,
                          .bias = node->inputs[ITG_Q_CONV_BIAS]->data,
                          .multiplier = node->inputs[ITG_Q_CONV_MULTIPLIER]->data,
                          .shift = node->inputs[ITG_Q_CONV_SHIFT]->data,
                          .negative_multiplier = negative_multiplier ? negative_multiplier->data : NULL,
                          .negative_shift = negative_shift ? negative_shift->data : NULL,
                          .in_scale = x->encoding->scales[0],
                          .out_scale = out->encoding->scales[0]};
  const itg_tensor *weight = node->inputs[ITG_Q_CONV_WEIGHT], *blocks = itg_node_input(node, ITG_Q_CONV_BLOCK_SCALE);
  if (weight->dtype == ITG_DTYPE_S4)
    task->packed_weight = weight->data;
  else
    task->weight = weight->data;
  if (blocks) {
    task->block_scale = blocks->data;
    task->block = (int32_t)(weight->shape.dims[1] / blocks->shape.dims[1]);
  }
  if (weight->encoding) {
    task->weight_scale = weight->encoding->scales;
    task->weight_scale_count = (int32_t)weight->encoding->count;
  }
  if (node->op == ITG_OP_Q_FULLY_CONNECTED)
    set_rows(node, task);
  else
    set_image(node, task);
}

itg_status itg_plan_matmul(const itg_node *node, itg_arena *arena, itg_diagnostic *diagnostic, itg_matmul_task *task) {
  const itg_tensor *a = node->inputs[0], *b = node->inputs[1], *out = node->outputs[0];
  const itg_requantize_attributes *rq = &node->attributes.requantize;
  const int rank = out->shape.rank, leading = rank - 2;
  const int64_t batch = itg_plan_product(&out->shape, 0, leading);
  if (batch > MAX_MATRICES)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, node->name, "%lld matrices; the limit is %d", (long long)batch, MAX_MATRICES);
  int64_t *a_offset = itg_arena_array(arena, (size_t)batch, sizeof *a_offset);
  int64_t *b_offset = itg_arena_array(arena, (size_t)batch, sizeof *b_offset);
  ITG_TRY_MEMORY(a_offset && b_offset, diagnostic);
  *task = (itg_matmul_task){.batch = (int32_t)batch,
                            .m = (int32_t)out->shape.dims[rank - 2],
                            .n = (int32_t)out->shape.dims[rank - 1],
                            .k = (int32_t)a->shape.dims[a->shape.rank - 1],
                            .transpose_b = rq->transpose_b,
                            .a_type = (int32_t)a->dtype,
                            .b_type = (int32_t)b->dtype,
                            .out_type = (int32_t)out->dtype,
                            .a_zero = itg_plan_zero(a),
                            .b_zero = itg_plan_zero(b),
                            .out_zero = itg_plan_zero(out),
                            .low = rq->low,
                            .high = rq->high,
                            .wide = rq->wide,
                            .pre_shift = rq->pre_shift,
                            .multiplier = rq->multiplier,
                            .shift = rq->shift,
                            .a_offset = a_offset,
                            .b_offset = b_offset,
                            .a_scale = a->encoding->scales[0],
                            .b_scale = b->encoding ? b->encoding->scales[0] : 1, // s8 constants may have no encoding.
                            .out_scale = out->encoding->scales[0]};
  // Broadcasting over whole matrices: strides of the leading dimensions, counted in matrices.
  const itg_shape lead = itg_shape_of(leading, out->shape.dims);
  const itg_shape lead_a = itg_shape_of(a->shape.rank - 2, a->shape.dims);
  const itg_shape lead_b = itg_shape_of(b->shape.rank - 2, b->shape.dims);
  int64_t a_stride[ITG_MAX_RANK] = {0}, b_stride[ITG_MAX_RANK] = {0};
  itg_plan_broadcast_strides(&lead_a, &lead, a_stride);
  itg_plan_broadcast_strides(&lead_b, &lead, b_stride);
  for (int64_t i = 0; i < batch; i++) {
    int64_t rest = i;
    for (int d = leading - 1; d >= 0; d--) {
      a_offset[i] += rest % lead.dims[d] * a_stride[d];
      b_offset[i] += rest % lead.dims[d] * b_stride[d];
      rest /= lead.dims[d];
    }
    a_offset[i] *= (int64_t)task->m * task->k;
    b_offset[i] *= (int64_t)task->n * task->k;
  }
  return ITG_OK;
}

void itg_plan_pool(const itg_node *node, itg_pool_task *task) {
  const bool average = node->op == ITG_OP_Q_AVERAGE_POOL;
  const itg_pool_attributes *pool = average ? &node->attributes.q_pool.pool : &node->attributes.pool;
  const itg_tensor *x = node->inputs[0], *out = node->outputs[0];
  *task = (itg_pool_task){.batch = (int32_t)x->shape.dims[0],
                          .in_h = (int32_t)x->shape.dims[1],
                          .in_w = (int32_t)x->shape.dims[2],
                          .channels = (int32_t)x->shape.dims[3],
                          .out_h = (int32_t)out->shape.dims[1],
                          .out_w = (int32_t)out->shape.dims[2],
                          .kernel_h = pool->window.kernel[0],
                          .kernel_w = pool->window.kernel[1],
                          .stride_h = pool->window.stride[0],
                          .stride_w = pool->window.stride[1],
                          .dilation_h = pool->window.dilation[0],
                          .dilation_w = pool->window.dilation[1],
                          .pad_top = pool->window.pad_begin[0],
                          .pad_left = pool->window.pad_begin[1],
                          .count_pad_bottom = pool->declared_pad_end[0],
                          .count_pad_right = pool->declared_pad_end[1],
                          .count_include_pad = average ? pool->count_include_pad : 0,
                          .type = (int32_t)x->dtype,
                          .out_type = (int32_t)out->dtype,
                          .in_zero = itg_plan_zero(x),
                          .out_zero = itg_plan_zero(out),
                          .low = itg_code_min(out->dtype),
                          .high = itg_code_max(out->dtype)};
  if (!average) return;
  task->low = node->attributes.q_pool.low;
  task->high = node->attributes.q_pool.high;
  task->divisor_count = (int32_t)node->inputs[1]->shape.dims[0];
  task->multiplier = node->inputs[1]->data;
  task->shift = node->inputs[2]->data;
}

void itg_plan_resize(const itg_node *node, itg_resize_task *task) {
  const itg_tensor *x = node->inputs[0], *out = node->outputs[0];
  *task = (itg_resize_task){.batch = (int32_t)x->shape.dims[0],
                            .in_h = (int32_t)x->shape.dims[1],
                            .in_w = (int32_t)x->shape.dims[2],
                            .channels = (int32_t)x->shape.dims[3],
                            .out_h = (int32_t)out->shape.dims[1],
                            .out_w = (int32_t)out->shape.dims[2],
                            .type = (int32_t)x->dtype,
                            .row_index = node->inputs[1]->data,
                            .row_weight = node->inputs[2]->data,
                            .column_index = node->inputs[3]->data,
                            .column_weight = node->inputs[4]->data};
}
