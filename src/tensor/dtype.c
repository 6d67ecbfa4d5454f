#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

static const struct {
  const char *name;
  unsigned char size;
  bool is_float;
} types[ITG_DTYPE_COUNT] = {
    [ITG_DTYPE_NONE] = {"none", 0, false}, [ITG_DTYPE_F32] = {"f32", 4, true},    [ITG_DTYPE_F16] = {"f16", 2, true},
    [ITG_DTYPE_BF16] = {"bf16", 2, true},  [ITG_DTYPE_F64] = {"f64", 8, true},    [ITG_DTYPE_S8] = {"s8", 1, false},
    [ITG_DTYPE_S16] = {"s16", 2, false},   [ITG_DTYPE_S32] = {"s32", 4, false},   [ITG_DTYPE_S64] = {"s64", 8, false},
    [ITG_DTYPE_U8] = {"u8", 1, false},     [ITG_DTYPE_U16] = {"u16", 2, false},   [ITG_DTYPE_U32] = {"u32", 4, false},
    [ITG_DTYPE_U64] = {"u64", 8, false},   [ITG_DTYPE_BOOL] = {"bool", 1, false}, [ITG_DTYPE_S4] = {"s4", 0, false},
};

bool itg_dtype_is_valid(int dtype) { return dtype > ITG_DTYPE_NONE && dtype < ITG_DTYPE_COUNT; }
const char *itg_dtype_name(itg_dtype dtype) { return itg_dtype_is_valid((int)dtype) ? types[dtype].name : "none"; }
size_t itg_dtype_size(itg_dtype dtype) { return itg_dtype_is_valid((int)dtype) ? types[dtype].size : 0; }
bool itg_dtype_is_float(itg_dtype dtype) { return itg_dtype_is_valid((int)dtype) && types[dtype].is_float; }

bool itg_shape_count(const itg_shape *shape, size_t *count) {
  size_t product = 1;
  if (shape->rank < 0 || shape->rank > ITG_MAX_RANK) return false;
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dims[i] < 0 || !itg_checked_multiply(product, (size_t)shape->dims[i], &product)) return false;
  }
  *count = product;
  return true;
}

bool itg_shape_bytes(const itg_shape *shape, itg_dtype dtype, size_t *bytes) {
  size_t count;
  if (!itg_shape_count(shape, &count)) return false;
  if (dtype == ITG_DTYPE_S4) {
    *bytes = count / 2 + count % 2;
    return true;
  }
  return itg_checked_multiply(count, itg_dtype_size(dtype), bytes);
}

bool itg_shape_equal(const itg_shape *a, const itg_shape *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

itg_shape itg_shape_of(int rank, const int64_t *dims) {
  itg_shape shape = {.rank = rank};
  for (int i = 0; i < rank; i++) shape.dims[i] = dims[i];
  return shape;
}

const char *itg_shape_print(const itg_shape *shape, char *text, size_t size) {
  if (shape->rank == 0) {
    snprintf(text, size, "scalar");
    return text;
  }
  size_t used = 0;
  if (size) text[0] = 0;
  for (int i = 0; i < shape->rank && used < size; i++) {
    const int n = snprintf(text + used, size - used, "%s%lld", i ? "x" : "", (long long)shape->dims[i]);
    used += n > 0 ? (size_t)n : 0;
  }
  return text;
}

bool itg_shape_broadcast(const itg_shape *a, const itg_shape *b, itg_shape *out) {
  itg_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (int i = 1; i <= result.rank; i++) {
    const int64_t da = i <= a->rank ? a->dims[a->rank - i] : 1, db = i <= b->rank ? b->dims[b->rank - i] : 1;
    if (da != db && da != 1 && db != 1) return false;
    result.dims[result.rank - i] = da == 1 ? db : da;
  }
  *out = result;
  return true;
}
