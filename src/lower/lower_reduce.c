// Average pools, sums, means and maxima over dimensions (docs/ARITHMETIC.md 3).
#include <math.h>

#include "lower/emit.h"

itg_status itg_lower_average_pool(itg_legalizer *l, const itg_node *node) {
  const itg_pool_attributes *pool = &node->attributes.pool;
  if (pool->layout != ITG_LAYOUT_CHANNELS_LAST || pool->window.rank != 2)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
             "only pools over images (2 spatial dimensions) are available");
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  const int64_t taps = (int64_t)pool->window.kernel[0] * pool->window.kernel[1];
  if (taps > 32767)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "a pool over %lld values is too large", (long long)taps);
  bool one_divisor = true;
  for (int d = 0; d < 2; d++) {
    const bool padded = pool->window.pad_begin[d] > 0 || pool->window.pad_end[d] > 0;
    const bool counted = pool->count_include_pad && pool->declared_pad_end[d] == pool->window.pad_end[d];
    one_divisor = one_divisor && (!padded || counted);
  }
  const int64_t count = one_divisor ? 1 : taps;
  int32_t *multiplier = itg_arena_array(&l->scratch, (size_t)count, sizeof multiplier[0]);
  int32_t *shift = itg_arena_array(&l->scratch, (size_t)count, sizeof shift[0]);
  ITG_TRY_MEMORY(multiplier && shift, l->diagnostic);
  for (int64_t d = 0; d < count; d++) {
    const double divisor = (double)(one_divisor ? taps : d + 1);
    ITG_TRY(itg_emit_factor(l, node, itg_scale_of(x) / (itg_scale_of(y) * divisor), &multiplier[d], &shift[d]));
  }
  itg_tensor *inputs[] = {x, itg_emit_s32(l, "multiplier", count, multiplier), itg_emit_s32(l, "shift", count, shift)};
  ITG_TRY_MEMORY(inputs[1] && inputs[2], l->diagnostic);
  itg_node *result = itg_emit_node(l, ITG_OP_Q_AVERAGE_POOL, node->name, inputs, 3, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  result->attributes.q_pool =
      (itg_q_pool_attributes){.pool = *pool, .low = itg_code_min(y->dtype), .high = itg_code_max(y->dtype)};
  return ITG_OK;
}

// The shape with reduced dimensions kept as 1, and how many elements each result is made of.
static itg_shape kept_shape(const itg_shape *shape, uint32_t axes, int64_t *count) {
  itg_shape kept = *shape;
  *count = 1;
  for (int32_t d = 0; d < shape->rank; d++) {
    if (!(axes >> d & 1)) continue;
    *count *= shape->dims[d];
    kept.dims[d] = 1;
  }
  return kept;
}

itg_status itg_lower_reduce(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  const uint32_t axes = node->attributes.reduce.axes;
  int64_t count;
  const itg_shape kept = kept_shape(&x->shape, axes, &count);
  if (count < 1) ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the reduction is over nothing");
  itg_tensor *sum = y;
  if (!itg_shape_equal(&kept, &y->shape)) {
    sum = itg_emit_temporary(l, node->name, &kept, y->encoding);
    ITG_TRY_MEMORY(sum, l->diagnostic);
  }
  itg_node *result = itg_emit_node(l, ITG_OP_Q_REDUCE_SUM, node->name, &x, 1, sum);
  ITG_TRY_MEMORY(result, l->diagnostic);
  const double divisor = node->op == ITG_OP_REDUCE_MEAN ? (double)count : 1;
  ITG_TRY(itg_emit_requantize(l, node, itg_scale_of(x) / (itg_scale_of(y) * divisor),
                              (uint64_t)count * (uint64_t)itg_largest_code(x), y, &result->attributes.requantize));
  result->attributes.requantize.axes = axes;
  return sum == y ? ITG_OK : itg_emit_reshape(l, node->name, sum, y);
}

// A maximum over neighbouring dimensions is a max pool over [outer, reduced, 1, inner].
itg_status itg_lower_reduce_max(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  const uint32_t axes = node->attributes.reduce.axes;
  int64_t sizes[3] = {1, 1, 1}; // outer, reduced, inner
  int part = 0;
  for (int32_t d = 0; d < x->shape.rank; d++) {
    const bool reduced = axes >> d & 1;
    if (x->shape.dims[d] != 1) {
      if (reduced && part == 0) part = 1;
      if (!reduced && part == 1) part = 2;
      if (reduced && part == 2)
        ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
                 "ReduceMax is only available over neighbouring dimensions");
    }
    sizes[part] *= x->shape.dims[d];
  }
  if (sizes[1] > INT32_MAX || sizes[1] < 1)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "ReduceMax over %lld values", (long long)sizes[1]);
  ITG_TRY(itg_emit_convert(l, x, y->encoding, &x));
  const itg_shape in = itg_shape_of(4, (const int64_t[]){sizes[0], sizes[1], 1, sizes[2]});
  const itg_shape out = itg_shape_of(4, (const int64_t[]){sizes[0], 1, 1, sizes[2]});
  itg_tensor *rows = itg_emit_temporary(l, node->name, &in, y->encoding);
  itg_tensor *largest = itg_emit_temporary(l, node->name, &out, y->encoding);
  ITG_TRY_MEMORY(rows && largest, l->diagnostic);
  ITG_TRY(itg_emit_reshape(l, node->name, x, rows));
  itg_node *pool = itg_emit_node(l, ITG_OP_MAX_POOL, node->name, &rows, 1, largest);
  ITG_TRY_MEMORY(pool, l->diagnostic);
  pool->attributes.pool = (itg_pool_attributes){
      .window = {.rank = 2, .kernel = {(int32_t)sizes[1], 1}, .stride = {1, 1}, .dilation = {1, 1}},
      .layout = ITG_LAYOUT_CHANNELS_LAST};
  return itg_emit_reshape(l, node->name, largest, y);
}
