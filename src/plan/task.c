// Element-wise operations, functions and norms, and the choice by operation. See task.h.
#include "plan/task.h"

#include "graph/integer_ops.h"

static int64_t count_of(const itg_tensor *tensor) { return itg_plan_product(&tensor->shape, 0, tensor->shape.rank); }

// The last dimension, and the product of the others.
static int64_t channels_of(const itg_tensor *tensor) {
  return tensor->shape.rank ? tensor->shape.dims[tensor->shape.rank - 1] : 1;
}

static const void *data_of(const itg_node *node, int32_t index) {
  const itg_tensor *tensor = itg_node_input(node, index);
  return tensor ? tensor->data : NULL;
}

// Merges dimensions that both inputs walk in one stride, so that kernels see long rows.
static void merge_dimensions(itg_binary_task *task) {
  int32_t rank = 0;
  for (int32_t i = 0; i < task->rank; i++) {
    if (task->dims[i] == 1) continue;
    const int32_t last = rank - 1;
    if (rank > 0 && task->a_stride[last] == task->a_stride[i] * task->dims[i] &&
        task->b_stride[last] == task->b_stride[i] * task->dims[i]) {
      task->dims[last] *= task->dims[i];
      task->a_stride[last] = task->a_stride[i];
      task->b_stride[last] = task->b_stride[i];
    } else {
      task->dims[rank] = task->dims[i];
      task->a_stride[rank] = task->a_stride[i];
      task->b_stride[rank++] = task->b_stride[i];
    }
  }
  if (rank == 0) {
    task->dims[0] = 1;
    task->a_stride[0] = task->b_stride[0] = 0;
    rank = 1;
  }
  task->rank = rank;
}

static void plan_binary(const itg_node *node, itg_binary_task *task) {
  const itg_tensor *a = node->inputs[0], *b = node->inputs[1], *out = node->outputs[0];
  *task = (itg_binary_task){.rank = out->shape.rank,
                            .a_type = (int32_t)a->dtype,
                            .b_type = (int32_t)b->dtype,
                            .out_type = (int32_t)out->dtype,
                            .a_zero = itg_plan_zero(a),
                            .b_zero = itg_plan_zero(b),
                            .out_zero = itg_plan_zero(out)};
  for (int i = 0; i < out->shape.rank; i++) task->dims[i] = out->shape.dims[i];
  itg_plan_broadcast_strides(&a->shape, &out->shape, task->a_stride);
  itg_plan_broadcast_strides(&b->shape, &out->shape, task->b_stride);
  merge_dimensions(task);
  if (count_of(a) == count_of(out) && count_of(b) == count_of(out)) task->same_count = count_of(out);
  switch (node->op) {
  case ITG_OP_Q_ADD:
    task->a = node->attributes.q_add.a;
    task->b = node->attributes.q_add.b;
    task->shift = node->attributes.q_add.shift;
    task->low = node->attributes.q_add.low;
    task->high = node->attributes.q_add.high;
    break;
  case ITG_OP_Q_MUL:
    task->multiplier = node->attributes.requantize.multiplier;
    task->shift = node->attributes.requantize.shift;
    task->pre_shift = node->attributes.requantize.pre_shift;
    task->low = node->attributes.requantize.low;
    task->high = node->attributes.requantize.high;
    break;
  case ITG_OP_Q_DIV:
    task->multiplier = node->attributes.q_div.multiplier;
    task->shift = node->attributes.q_div.shift;
    task->divisor_sign = node->attributes.q_div.divisor_sign;
    task->low = node->attributes.q_div.low;
    task->high = node->attributes.q_div.high;
    break;
  default: // MIN and MAX compare codes.
    task->low = itg_code_min(out->dtype);
    task->high = itg_code_max(out->dtype);
    break;
  }
}

static void plan_add_affine(const itg_node *node, itg_add_affine_task *task) {
  const itg_tensor *a = node->inputs[0], *b = node->inputs[1], *out = node->outputs[0], *out2 = node->outputs[1];
  const itg_q_add_attributes *add = &node->attributes.q_add;
  *task = (itg_add_affine_task){.rows = count_of(a) / channels_of(a),
                                .channels = channels_of(a),
                                .a_type = (int32_t)a->dtype,
                                .b_type = (int32_t)b->dtype,
                                .out_type = (int32_t)out->dtype,
                                .out2_type = (int32_t)out2->dtype,
                                .a_zero = itg_plan_zero(a),
                                .b_zero = itg_plan_zero(b),
                                .out_zero = itg_plan_zero(out),
                                .out2_zero = itg_plan_zero(out2),
                                .low = add->low,
                                .high = add->high,
                                .low2 = add->low2,
                                .high2 = add->high2,
                                .a = add->a,
                                .b = add->b,
                                .shift = add->shift,
                                .scale = data_of(node, 2),
                                .offset = data_of(node, 3),
                                .scale_shift = data_of(node, 4)};
}

static void plan_affine(const itg_node *node, itg_affine_task *task) {
  const itg_tensor *x = node->inputs[0], *out = node->outputs[0];
  *task = (itg_affine_task){.rows = count_of(x) / channels_of(x),
                            .channels = channels_of(x),
                            .in_type = (int32_t)x->dtype,
                            .out_type = (int32_t)out->dtype,
                            .in_zero = itg_plan_zero(x),
                            .out_zero = itg_plan_zero(out),
                            .low = node->attributes.requantize.low,
                            .high = node->attributes.requantize.high,
                            .per_channel = node->inputs[1]->shape.dims[0] > 1,
                            .scale = data_of(node, 1),
                            .offset = data_of(node, 2),
                            .scale_shift = data_of(node, 3)};
}

static void plan_convert(const itg_node *node, itg_convert_task *task) {
  const itg_tensor *x = node->inputs[0], *out = node->outputs[0];
  const itg_requantize_attributes *rq = &node->attributes.requantize;
  const bool per_channel = node->op == ITG_OP_Q_PRELU && node->inputs[1]->shape.dims[0] > 1;
  const int64_t channels = per_channel ? channels_of(x) : 1;
  *task = (itg_convert_task){.rows = count_of(x) / channels,
                             .channels = channels,
                             .in_type = (int32_t)x->dtype,
                             .out_type = (int32_t)out->dtype,
                             .in_zero = itg_plan_zero(x),
                             .out_zero = itg_plan_zero(out),
                             .low = rq->low,
                             .high = rq->high,
                             .multiplier = rq->multiplier,
                             .shift = rq->shift,
                             .per_channel = per_channel,
                             .negative_multiplier = data_of(node, 1),
                             .negative_shift = data_of(node, 2)};
}

static void plan_reduce(const itg_node *node, itg_reduce_task *task) {
  const itg_tensor *x = node->inputs[0], *out = node->outputs[0];
  const itg_requantize_attributes *rq = &node->attributes.requantize;
  *task = (itg_reduce_task){.in_type = (int32_t)x->dtype,
                            .out_type = (int32_t)out->dtype,
                            .in_zero = itg_plan_zero(x),
                            .out_zero = itg_plan_zero(out),
                            .low = rq->low,
                            .high = rq->high,
                            .multiplier = rq->multiplier,
                            .shift = rq->shift,
                            .pre_shift = rq->pre_shift,
                            .wide = rq->wide};
  int64_t strides[ITG_MAX_RANK];
  itg_plan_strides(&x->shape, strides);
  for (int i = 0; i < x->shape.rank; i++) {
    if (rq->axes >> i & 1) {
      task->reduced_dims[task->reduced_rank] = x->shape.dims[i];
      task->reduced_stride[task->reduced_rank++] = strides[i];
    } else {
      task->kept_dims[task->kept_rank] = x->shape.dims[i];
      task->kept_stride[task->kept_rank++] = strides[i];
    }
  }
}

static void plan_table(const itg_node *node, itg_table_task *task) {
  const itg_q_table_attributes *table = &node->attributes.q_table;
  *task = (itg_table_task){.count = count_of(node->inputs[0]),
                           .in_type = (int32_t)node->inputs[0]->dtype,
                           .out_type = (int32_t)node->outputs[0]->dtype,
                           .node_bits = table->node_bits,
                           .low = table->low,
                           .high = table->high,
                           .table = data_of(node, 1)};
}

static void plan_softmax(const itg_node *node, itg_softmax_task *task) {
  const itg_q_softmax_attributes *softmax = &node->attributes.q_softmax;
  const itg_tensor *x = node->inputs[0], *out = node->outputs[0], *mask = itg_node_input(node, 1);
  *task = (itg_softmax_task){.rows = count_of(x) / channels_of(x),
                             .length = channels_of(x),
                             .out_type = (int32_t)out->dtype,
                             .k = softmax->k,
                             .k_shift = softmax->k_shift,
                             .multiplier = softmax->multiplier,
                             .shift = softmax->shift,
                             .out_zero = itg_plan_zero(out),
                             .low = softmax->low,
                             .high = softmax->high,
                             .has_mask = mask != NULL,
                             .rank = x->shape.rank};
  for (int i = 0; i < x->shape.rank; i++) task->dims[i] = x->shape.dims[i];
  if (mask) itg_plan_broadcast_strides(&mask->shape, &x->shape, task->mask_stride);
}

static void plan_norm(const itg_node *node, itg_norm_task *task) {
  const itg_q_norm_attributes *norm = &node->attributes.q_norm;
  const itg_tensor *x = node->inputs[0], *out = node->outputs[0];
  *task = (itg_norm_task){.rows = count_of(x) / channels_of(x),
                          .channels = channels_of(x),
                          .epsilon = norm->epsilon,
                          .kind = norm->kind,
                          .in_zero = itg_plan_zero(x),
                          .out_type = (int32_t)out->dtype,
                          .out_zero = itg_plan_zero(out),
                          .low = norm->low,
                          .high = norm->high,
                          .shift = norm->shift,
                          .gamma = data_of(node, 1),
                          .beta_q4 = data_of(node, 2)};
}

static void plan_rope(const itg_node *node, itg_rope_task *task) {
  const itg_requantize_attributes *rq = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0], *out = node->outputs[0];
  const int rank = x->shape.rank;
  const int64_t dim = 2 * node->inputs[1]->shape.dims[1];
  *task = (itg_rope_task){.rows = itg_plan_product(&x->shape, 0, rank - 2),
                          .length = x->shape.dims[rank - 2],
                          .heads = x->shape.dims[rank - 1] / dim,
                          .dim = dim,
                          .in_type = (int32_t)x->dtype,
                          .out_type = (int32_t)out->dtype,
                          .in_zero = itg_plan_zero(x),
                          .out_zero = itg_plan_zero(out),
                          .low = rq->low,
                          .high = rq->high,
                          .multiplier = rq->multiplier,
                          .shift = rq->shift,
                          .pre_shift = rq->pre_shift};
}

static void plan_attention(const itg_node *node, itg_attention_task *task) {
  const itg_q_attention_attributes *a = &node->attributes.q_attention;
  const itg_tensor *q = node->inputs[ITG_ATTENTION_Q], *k = node->inputs[ITG_ATTENTION_K];
  const itg_tensor *v = node->inputs[ITG_ATTENTION_V], *out = node->outputs[0];
  const itg_shape *cache = &node->inputs[ITG_ATTENTION_K_CACHE]->shape;
  *task = (itg_attention_task){.block = q->shape.dims[1],
                               .heads = q->shape.dims[2] / cache->dims[2],
                               .groups = cache->dims[0],
                               .dim = cache->dims[2],
                               .context = cache->dims[1],
                               .q_type = (int32_t)q->dtype,
                               .k_type = (int32_t)k->dtype,
                               .v_type = (int32_t)v->dtype,
                               .out_type = (int32_t)out->dtype,
                               .q_zero = itg_plan_zero(q),
                               .k_zero = itg_plan_zero(k),
                               .v_zero = itg_plan_zero(v),
                               .out_zero = itg_plan_zero(out),
                               .low = a->low,
                               .high = a->high,
                               .score_multiplier = a->score_multiplier,
                               .score_shift = a->score_shift,
                               .score_pre_shift = a->score_wide ? a->score_pre_shift : 0,
                               .score_zero = a->score_zero,
                               .score_wide = a->score_wide,
                               .k_factor = a->k,
                               .k_shift = a->k_shift,
                               .multiplier = a->multiplier,
                               .shift = a->shift,
                               .pre_shift = a->wide ? a->pre_shift : 0,
                               .wide = a->wide};
}

static void plan_embedding(const itg_node *node, itg_embedding_task *task) {
  const itg_requantize_attributes *rq = &node->attributes.requantize;
  const itg_tensor *ids = node->inputs[0], *rows = node->inputs[1], *out = node->outputs[0];
  *task = (itg_embedding_task){.count = count_of(ids),
                               .dim = rows->shape.dims[1],
                               .vocabulary = rows->shape.dims[0],
                               .id_type = (int32_t)ids->dtype,
                               .out_type = (int32_t)out->dtype,
                               .out_zero = itg_plan_zero(out),
                               .low = rq->low,
                               .high = rq->high,
                               .rows = rows->data,
                               .multiplier = data_of(node, 2),
                               .shift = data_of(node, 3)};
}

itg_status itg_plan_task(const itg_node *node, itg_arena *arena, itg_diagnostic *diagnostic, itg_task *out) {
  *out = (itg_task){.op = (int32_t)node->op};
  switch (node->op) {
  case ITG_OP_Q_CONV:
  case ITG_OP_Q_CONV_TRANSPOSE:
  case ITG_OP_Q_FULLY_CONNECTED: itg_plan_conv(node, &out->conv); return ITG_OK;
  case ITG_OP_Q_MATMUL: return itg_plan_matmul(node, arena, diagnostic, &out->matmul);
  case ITG_OP_Q_ADD:
  case ITG_OP_Q_MUL:
  case ITG_OP_Q_DIV:
  case ITG_OP_MIN:
  case ITG_OP_MAX: plan_binary(node, &out->binary); return ITG_OK;
  case ITG_OP_Q_ADD_AFFINE: plan_add_affine(node, &out->add_affine); return ITG_OK;
  case ITG_OP_Q_AFFINE: plan_affine(node, &out->affine); return ITG_OK;
  case ITG_OP_Q_CONVERT:
  case ITG_OP_Q_PRELU: plan_convert(node, &out->convert); return ITG_OK;
  case ITG_OP_MAX_POOL:
  case ITG_OP_Q_AVERAGE_POOL: itg_plan_pool(node, &out->pool); return ITG_OK;
  case ITG_OP_Q_REDUCE_SUM: plan_reduce(node, &out->reduce); return ITG_OK;
  case ITG_OP_Q_TABLE: plan_table(node, &out->table); return ITG_OK;
  case ITG_OP_Q_SOFTMAX: plan_softmax(node, &out->softmax); return ITG_OK;
  case ITG_OP_Q_NORM: plan_norm(node, &out->norm); return ITG_OK;
  case ITG_OP_Q_RESIZE: itg_plan_resize(node, &out->resize); return ITG_OK;
  case ITG_OP_Q_ROPE: plan_rope(node, &out->rope); return ITG_OK;
  case ITG_OP_Q_ATTENTION: plan_attention(node, &out->attention); return ITG_OK;
  case ITG_OP_Q_EMBEDDING: plan_embedding(node, &out->embedding); return ITG_OK;
  case ITG_OP_RESHAPE:
  case ITG_OP_IDENTITY:
  case ITG_OP_TRANSPOSE:
  case ITG_OP_SLICE:
  case ITG_OP_EXPAND:
  case ITG_OP_TILE:
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH: itg_plan_copy(node, &out->copy); return ITG_OK;
  case ITG_OP_CONCAT: return itg_plan_concat(node, arena, diagnostic, &out->concat);
  case ITG_OP_PAD: itg_plan_pad(node, &out->pad); return ITG_OK;
  case ITG_OP_GATHER: itg_plan_gather(node, &out->gather); return ITG_OK;
  default:
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "there are no kernels for %s", itg_op_name(node->op));
  }
}

int32_t itg_plan_operand_count(const itg_node *node) {
  switch (node->op) {
  case ITG_OP_CONCAT: return node->input_count;
  case ITG_OP_Q_MATMUL:
  case ITG_OP_Q_ADD:
  case ITG_OP_Q_ADD_AFFINE:
  case ITG_OP_Q_MUL:
  case ITG_OP_Q_DIV:
  case ITG_OP_MIN:
  case ITG_OP_MAX:
  case ITG_OP_GATHER: return 2;
  case ITG_OP_Q_SOFTMAX: return itg_node_input(node, 1) ? 2 : 1;
  case ITG_OP_Q_ROPE: return 3;
  case ITG_OP_Q_ATTENTION: return ITG_ATTENTION_POSITION + 1;
  default: return 1;
  }
}

bool itg_plan_task_is_alias(const itg_node *node, const itg_task *task) {
  switch (node->op) {
  case ITG_OP_CONCAT: return node->input_count == 1;
  case ITG_OP_RESHAPE:
  case ITG_OP_IDENTITY:
  case ITG_OP_TRANSPOSE:
  case ITG_OP_SLICE:
  case ITG_OP_EXPAND:
  case ITG_OP_TILE:
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH:
    return task->copy.offset == 0 && task->copy.rank == 1 && (task->copy.stride[0] == 1 || task->copy.dims[0] == 1) &&
           task->copy.dims[0] == count_of(node->inputs[0]);
  default: return false;
  }
}

int64_t itg_plan_multiply_accumulates(const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *out = node->outputs[0];
  const itg_shape *weight = node->input_count > 1 && node->inputs[1] ? &node->inputs[1]->shape : NULL;
  switch (node->op) {
  case ITG_OP_CONV:
  case ITG_OP_Q_CONV: return count_of(out) * itg_plan_product(weight, 1, weight->rank);
  case ITG_OP_CONV_TRANSPOSE:
  case ITG_OP_Q_CONV_TRANSPOSE: return count_of(x) * itg_plan_product(weight, 0, weight->rank - 1);
  case ITG_OP_FULLY_CONNECTED:
  case ITG_OP_Q_FULLY_CONNECTED: return count_of(out) * weight->dims[1];
  case ITG_OP_MATMUL:
  case ITG_OP_Q_MATMUL: return count_of(out) * x->shape.dims[x->shape.rank - 1];
  // Half of the context, on average, for the scores and as much for the values.
  case ITG_OP_Q_ATTENTION: return count_of(out) * node->inputs[ITG_ATTENTION_K_CACHE]->shape.dims[1];
  default: return 0;
  }
}
