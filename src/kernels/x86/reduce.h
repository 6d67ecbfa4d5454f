// Sums over dimensions (template; included by reduce_<isa>.c): global pools, means. docs/ARITHMETIC.md 3.
//
// Either the innermost kept dimension is dense, and its codes lie in the lanes; or the innermost reduced one is, and the lanes
// are added in the end. Units are vectors of kept codes, or single ones.
#ifndef ITG_KERNELS_X86_REDUCE_H
#define ITG_KERNELS_X86_REDUCE_H

#include "graph/graph.h"
#include "kernels/x86/sums.h"

enum { REDUCE_HEADER = 64, MOST_REDUCED = 32768 }; // 32768 * 65535 < 2^31.

// Dimensions without those of 1, joined where they continue each other.
typedef struct {
  int32_t rank; // At least 1.
  int64_t dims[ITG_TASK_MAX_RANK], stride[ITG_TASK_MAX_RANK], count;
} joined_dims;

static joined_dims join(const int64_t *dims, const int64_t *stride, int32_t rank) {
  joined_dims j = {.count = 1};
  for (int32_t d = 0; d < rank; d++) {
    j.count *= dims[d];
    if (dims[d] == 1) continue;
    if (j.rank > 0 && j.stride[j.rank - 1] == dims[d] * stride[d]) {
      j.dims[j.rank - 1] *= dims[d];
      j.stride[j.rank - 1] = stride[d];
    } else {
      j.dims[j.rank] = dims[d];
      j.stride[j.rank++] = stride[d];
    }
  }
  if (j.rank == 0) {
    j.dims[0] = 1;
    j.stride[0] = 1;
    j.rank = 1;
  }
  return j;
}

typedef struct {
  joined_dims kept, reduced;
  bool lanes_kept;
  int64_t inner, groups; // lanes_kept: kept codes of the innermost dimension, and vectors they make.
} reduce_shape;

static reduce_shape reduce_shape_of(const itg_reduce_task *t) {
  reduce_shape s = {.kept = join(t->kept_dims, t->kept_stride, t->kept_rank),
                    .reduced = join(t->reduced_dims, t->reduced_stride, t->reduced_rank)};
  s.inner = s.kept.dims[s.kept.rank - 1];
  s.lanes_kept = s.kept.stride[s.kept.rank - 1] == 1 && s.inner > 1;
  s.groups = (s.inner + LANES - 1) / LANES;
  return s;
}

static bool reduce_supports(const itg_task *task) {
  const itg_reduce_task *t = &task->reduce;
  const reduce_shape s = reduce_shape_of(t);
  if (!codes_only(t->in_type) || !codes_only(t->out_type) || t->wide || s.reduced.count > MOST_REDUCED) return false;
  return s.lanes_kept || s.reduced.stride[s.reduced.rank - 1] == 1;
}

static size_t reduce_packed_size(const itg_task *task) {
  (void)task;
  return REDUCE_HEADER + PARAMETER_BYTES;
}

static void reduce_pack(const itg_task *task, void *packed) {
  const itg_reduce_task *t = &task->reduce;
  const int64_t fast = fits_folded(t->multiplier, t->shift, t->out_zero);
  __builtin_memset(packed, 0, REDUCE_HEADER + PARAMETER_BYTES);
  __builtin_memcpy(packed, &fast, sizeof fast);
  int32_t *p = (int32_t *)(void *)((uint8_t *)packed + REDUCE_HEADER);
  for (size_t lane = 0; lane < LANES; lane++) {
    pack_side(p + PARAMETER_MULTIPLIER * LANES, lane, t->multiplier, t->shift, t->out_zero, fast ? FOLDED : GENERAL);
    pack_side(p + PARAMETER_NEGATIVE * LANES, lane, 0, 33, t->out_zero, fast ? FOLDED : GENERAL);
  }
}

static size_t reduce_units(const itg_task *task) {
  const reduce_shape s = reduce_shape_of(&task->reduce);
  return (size_t)(s.lanes_kept ? s.kept.count / s.inner * s.groups : s.kept.count);
}

static inline int64_t position(const joined_dims *j, int32_t rank, int64_t index) {
  int64_t offset = 0;
  for (int32_t d = rank - 1; d >= 0; d--) {
    offset += index % j->dims[d] * j->stride[d];
    index /= j->dims[d];
  }
  return offset;
}

// The sum of a vector of codes over all reduced positions; `step` between them in the innermost dimension.
VECTOR_INLINE vector sum_positions(const reduce_shape *s, const void *in, int64_t base, int32_t type) {
  const int64_t run = s->reduced.dims[s->reduced.rank - 1], step = s->reduced.stride[s->reduced.rank - 1];
  vector sum = v_zero();
  for (int64_t outer = 0; outer < s->reduced.count / run; outer++) {
    int64_t at = base + position(&s->reduced, s->reduced.rank - 1, outer);
    for (int64_t i = 0; i < run; i++, at += step) sum = v_add32(sum, load_codes(in, at, type));
  }
  return sum;
}

// The sum over reduced positions whose innermost run is dense.
VECTOR_INLINE int64_t sum_runs(const reduce_shape *s, const void *in, int64_t base, int32_t type) {
  const int64_t run = s->reduced.dims[s->reduced.rank - 1];
  vector sum = v_zero();
  int64_t rest = 0;
  for (int64_t outer = 0; outer < s->reduced.count / run; outer++) {
    const int64_t at = base + position(&s->reduced, s->reduced.rank - 1, outer);
    int64_t i = 0;
    for (; i + LANES <= run; i += LANES) sum = v_add32(sum, load_codes(in, at + i, type));
    for (; i < run; i++) rest += type == ITG_TASK_U16 ? ((const uint16_t *)in)[at + i] : ((const uint8_t *)in)[at + i];
  }
  int32_t lanes[LANES];
  v_store(lanes, sum);
  for (int lane = 0; lane < LANES; lane++) rest += lanes[lane];
  return rest;
}

static void reduce_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_reduce_task *t = &task->reduce;
  const reduce_shape s = reduce_shape_of(t);
  int64_t fast;
  __builtin_memcpy(&fast, call->packed, sizeof fast);
  const int32_t *parameters = (const int32_t *)(const void *)((const uint8_t *)call->packed + REDUCE_HEADER);
  const ending e = {.zero = t->out_zero, .way = fast ? FOLDED : GENERAL};
  const int64_t zeros = (int64_t)t->in_zero * s.reduced.count;
  // Modulo 2^32; the sum of code - zero fits.
  const vector offset = v_set32((int32_t)(uint32_t)(uint64_t)-zeros), low = v_set32(t->low), high = v_set32(t->high);
  for (size_t unit = begin; unit < end; unit++) {
    if (!s.lanes_kept) {
      const int64_t sum = sum_runs(&s, call->inputs[0], position(&s.kept, s.kept.rank, (int64_t)unit), t->in_type);
      const int32_t code = itg_requantize(sum - zeros, t->multiplier, t->shift, t->out_zero, t->low, t->high);
      if (t->out_type == ITG_TASK_U16) {
        ((uint16_t *)call->outputs[0])[unit] = (uint16_t)code;
      } else {
        ((uint8_t *)call->outputs[0])[unit] = (uint8_t)code;
      }
      continue;
    }
    const int64_t outer = (int64_t)unit / s.groups, c = (int64_t)unit % s.groups * LANES, rest = s.inner - c;
    const int64_t base = position(&s.kept, s.kept.rank - 1, outer) + c;
    vector sum = v_add32(sum_positions(&s, call->inputs[0], base, t->in_type), offset);
    rescale_vector(&sum, 1, 1, parameters, &e);
    store_codes(call->outputs[0], outer * s.inner + c, t->out_type, sum, low, high, rest < LANES ? rest : LANES);
  }
}

#define REDUCE_KERNEL(isa_name)                                                        \
  const itg_kernel itg_reduce_sum__##isa_name = {.name = "itg_reduce_sum__" #isa_name, \
                                                 .op = ITG_OP_Q_REDUCE_SUM,            \
                                                 .isa = KERNEL_ISA,                    \
                                                 .supports = reduce_supports,          \
                                                 .packed_size = reduce_packed_size,    \
                                                 .pack = reduce_pack,                  \
                                                 .units = reduce_units,                \
                                                 .run = reduce_run}

#endif
