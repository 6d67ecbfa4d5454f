// Operations that compare or accumulate along one axis: ARG_MAX, ARG_MIN, TOP_K, CUM_SUM.
#include <string.h>

#include "interpret/executor.h"

// An unsigned key with the order of the values (-0 equals 0; NaN is the largest).
static uint64_t order_key(const itg_operand *operand, size_t index) {
  if (operand->dtype == ITG_DTYPE_F32 || operand->dtype == ITG_DTYPE_F64) {
    const double value = operand->dtype == ITG_DTYPE_F32 ? (double)((const float *)operand->data)[index]
                                                         : ((const double *)operand->data)[index];
    if (value != value) return UINT64_MAX;
    const double positive_zero = value + 0.0;
    uint64_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
  }
  const uint64_t value = (uint64_t)itg_operand_integer(operand, index);
  return operand->dtype == ITG_DTYPE_U64 ? value : value ^ (uint64_t)1 << 63;
}

itg_status itg_prepare_arg(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  if (call->outputs[0].dtype != ITG_DTYPE_S64) return itg_refuse_dtype(call, call->outputs[0].dtype, diagnostic);
  if (itg_operand_dims(&call->inputs[0])[call->node->attributes.axis.axis] == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "the axis is empty");
  return ITG_OK;
}

itg_status itg_run_arg(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0];
  const itg_axis_attributes *attributes = &call->node->attributes.axis;
  const int64_t *dims = itg_operand_dims(x);
  const size_t n = (size_t)dims[attributes->axis];
  const size_t inner = itg_dims_product(dims, attributes->axis + 1, itg_operand_rank(x));
  const size_t outer = itg_dims_product(dims, 0, attributes->axis);
  const bool minimum = call->node->op == ITG_OP_ARG_MIN, last = attributes->flag & 2;
  int64_t *y = call->outputs[0].data;
  for (size_t o = 0; o < outer; o++) {
    for (size_t i = 0; i < inner; i++) {
      const size_t base = o * n * inner + i;
      size_t best = 0;
      uint64_t best_key = order_key(x, base);
      for (size_t k = 1; k < n; k++) {
        const uint64_t key = order_key(x, base + k * inner);
        if ((minimum ? key < best_key : key > best_key) || (last && key == best_key)) {
          best = k;
          best_key = key;
        }
      }
      y[o * inner + i] = (int64_t)best;
    }
  }
  return ITG_OK;
}

// ---- TOP_K: sorts (key, position) pairs; equal values come in the order of their positions ----

typedef struct ranked {
  uint64_t key;
  int64_t position;
} ranked;

itg_status itg_prepare_top_k(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_operand *indices = itg_call_output(call, 1), *values = itg_call_output(call, 0);
  if (indices && indices->dtype != ITG_DTYPE_S64) return itg_refuse_dtype(call, indices->dtype, diagnostic);
  if (values && itg_dtype_size(values->dtype) == 0) return itg_refuse_dtype(call, values->dtype, diagnostic);
  preparation->scratch = (size_t)itg_operand_dims(&call->inputs[0])[call->node->attributes.axis.axis] * sizeof(ranked);
  return ITG_OK;
}

static bool ranks_before(const ranked *a, const ranked *b) {
  return a->key != b->key ? a->key < b->key : a->position < b->position;
}

// Heap sort: in place, without allocation, always n log n.
static void sift_down(ranked *items, size_t root, size_t count) {
  for (;;) {
    size_t child = 2 * root + 1;
    if (child >= count) return;
    if (child + 1 < count && ranks_before(&items[child], &items[child + 1])) child++;
    if (!ranks_before(&items[root], &items[child])) return;
    const ranked swap = items[root];
    items[root] = items[child];
    items[child] = swap;
    root = child;
  }
}
static void sort_ranked(ranked *items, size_t count) {
  for (size_t i = count / 2; i-- > 0;) sift_down(items, i, count);
  for (size_t end = count; end > 1; end--) {
    const ranked swap = items[0];
    items[0] = items[end - 1];
    items[end - 1] = swap;
    sift_down(items, 0, end - 1);
  }
}

itg_status itg_run_top_k(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0], *values = itg_call_output(call, 0), *indices = itg_call_output(call, 1);
  const itg_operand *shaped = values ? values : indices;
  if (!shaped) return ITG_OK;
  const int axis = call->node->attributes.axis.axis;
  const bool largest = call->node->attributes.axis.flag & 1;
  const int64_t *dims = itg_operand_dims(x);
  const size_t n = (size_t)dims[axis], k = (size_t)itg_operand_dims(shaped)[axis];
  const size_t inner = itg_dims_product(dims, axis + 1, itg_operand_rank(x)), outer = itg_dims_product(dims, 0, axis);
  const size_t size = itg_dtype_size(x->dtype);
  ranked *items = call->scratch;
  for (size_t o = 0; o < outer; o++) {
    for (size_t i = 0; i < inner; i++) {
      for (size_t j = 0; j < n; j++) {
        const uint64_t key = order_key(x, (o * n + j) * inner + i);
        items[j] = (ranked){largest ? ~key : key, (int64_t)j};
      }
      sort_ranked(items, n);
      for (size_t j = 0; j < k; j++) {
        const size_t to = (o * k + j) * inner + i, from = (o * n + (size_t)items[j].position) * inner + i;
        if (indices) ((int64_t *)indices->data)[to] = items[j].position;
        if (values) memcpy((char *)values->data + to * size, (const char *)x->data + from * size, size);
      }
    }
  }
  return ITG_OK;
}

// ---- CUM_SUM ----

itg_status itg_prepare_cum_sum(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  const itg_dtype dtype = call->outputs[0].dtype;
  if (dtype != ITG_DTYPE_F32 && dtype != ITG_DTYPE_F64 && dtype != ITG_DTYPE_S32 && dtype != ITG_DTYPE_S64 &&
      dtype != ITG_DTYPE_U32 && dtype != ITG_DTYPE_U64)
    return itg_refuse_dtype(call, dtype, diagnostic);
  return ITG_OK;
}

// Signed integers add as unsigned of their width: they wrap.
#define CUM_SUM(type)                                                                                        \
  static void cum_sum_##type(const type *x, type *y, size_t n, size_t inner, bool exclusive, bool reverse) { \
    type sum = 0;                                                                                            \
    for (size_t k = 0; k < n; k++) {                                                                         \
      const size_t at = (reverse ? n - 1 - k : k) * inner;                                                   \
      const type value = x[at];                                                                              \
      y[at] = exclusive ? sum : (type)(sum + value);                                                         \
      sum = (type)(sum + value);                                                                             \
    }                                                                                                        \
  }
CUM_SUM(float)
CUM_SUM(double)
CUM_SUM(uint32_t)
CUM_SUM(uint64_t)

itg_status itg_run_cum_sum(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0], *y = &call->outputs[0];
  const itg_axis_attributes *attributes = &call->node->attributes.axis;
  const int64_t *dims = itg_operand_dims(x);
  const int rank = itg_operand_rank(x);
  const size_t n = rank ? (size_t)dims[attributes->axis] : 1;
  const size_t inner = rank ? itg_dims_product(dims, attributes->axis + 1, rank) : 1;
  const size_t outer = rank ? itg_dims_product(dims, 0, attributes->axis) : 1;
  const bool exclusive = attributes->flag & 1, reverse = attributes->flag & 2;
  for (size_t o = 0; o < outer * inner; o++) {
    const size_t at = o / inner * n * inner + o % inner;
    switch (y->dtype) {
    case ITG_DTYPE_F32:
      cum_sum_float((const float *)x->data + at, (float *)y->data + at, n, inner, exclusive, reverse);
      break;
    case ITG_DTYPE_F64:
      cum_sum_double((const double *)x->data + at, (double *)y->data + at, n, inner, exclusive, reverse);
      break;
    case ITG_DTYPE_S32:
    case ITG_DTYPE_U32:
      cum_sum_uint32_t((const uint32_t *)x->data + at, (uint32_t *)y->data + at, n, inner, exclusive, reverse);
      break;
    default:
      cum_sum_uint64_t((const uint64_t *)x->data + at, (uint64_t *)y->data + at, n, inner, exclusive, reverse);
      break;
    }
  }
  return ITG_OK;
}
