// Reductions over any set of axes. Floats accumulate in f64; integers in 64 bits modulo 2^64.
#include <math.h>
#include <string.h>

#include "interpret/executor.h"

enum { CHUNK = 1024, LANES = 8 };

// The input's dimensions, merged: neighbours that are both reduced or both kept are one.
typedef struct reduce_plan {
  int rank;
  int64_t dims[ITG_MAX_RANK];
  int64_t output_strides[ITG_MAX_RANK]; // 0: reduced.
  int64_t reduced_count;                // Elements behind one output.
} reduce_plan;

static bool is_supported(itg_op op, itg_dtype dtype) {
  if (dtype == ITG_DTYPE_F32 || dtype == ITG_DTYPE_F64) return true;
  const bool logarithmic = op == ITG_OP_REDUCE_LOG_SUM || op == ITG_OP_REDUCE_LOG_SUM_EXP;
  if (dtype == ITG_DTYPE_BOOL) return op == ITG_OP_REDUCE_MAX || op == ITG_OP_REDUCE_MIN;
  return dtype >= ITG_DTYPE_S8 && dtype <= ITG_DTYPE_U64 && !logarithmic;
}

itg_status itg_prepare_reduce(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_operand *x = &call->inputs[0], *y = &call->outputs[0];
  if (!is_supported(call->node->op, x->dtype)) return itg_refuse_dtype(call, x->dtype, diagnostic);
  const uint32_t axes = call->node->attributes.reduce.axes;
  reduce_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  const int64_t *dims = itg_operand_dims(x);
  bool reduced[ITG_MAX_RANK] = {false};
  plan->reduced_count = 1;
  for (int i = 0; i < itg_operand_rank(x); i++) {
    const bool is_reduced = axes >> i & 1;
    if (is_reduced) plan->reduced_count *= dims[i];
    if (dims[i] == 1) continue;
    if (plan->rank > 0 && reduced[plan->rank - 1] == is_reduced) {
      plan->dims[plan->rank - 1] *= dims[i];
    } else {
      plan->dims[plan->rank] = dims[i];
      reduced[plan->rank++] = is_reduced;
    }
  }
  if (plan->rank == 0) {
    plan->dims[0] = 1;
    reduced[0] = true;
    plan->rank = 1;
  }
  int64_t running = 1;
  for (int i = plan->rank - 1; i >= 0; i--) {
    plan->output_strides[i] = reduced[i] ? 0 : running;
    if (!reduced[i]) running *= plan->dims[i];
  }
  // Two accumulators an output: the second is the maximum of LOG_SUM_EXP.
  preparation->scratch = y->count * 2 * sizeof(double);
  preparation->prepared = plan;
  return ITG_OK;
}

typedef enum fold_kind {
  FOLD_SUM,
  FOLD_ABSOLUTE,
  FOLD_SQUARE,
  FOLD_PRODUCT,
  FOLD_MAXIMUM,
  FOLD_MINIMUM,
  FOLD_EXP
} fold_kind;

// What each input element adds, and how. LOG_SUM_EXP runs FOLD_MAXIMUM, then FOLD_EXP.
static fold_kind fold_of(itg_op op) {
  switch (op) {
  case ITG_OP_REDUCE_L1: return FOLD_ABSOLUTE;
  case ITG_OP_REDUCE_L2:
  case ITG_OP_REDUCE_SUM_SQUARE: return FOLD_SQUARE;
  case ITG_OP_REDUCE_PROD: return FOLD_PRODUCT;
  case ITG_OP_REDUCE_MAX: return FOLD_MAXIMUM;
  case ITG_OP_REDUCE_MIN: return FOLD_MINIMUM;
  case ITG_OP_REDUCE_LOG_SUM_EXP: return FOLD_EXP;
  default: return FOLD_SUM;
  }
}

// Sums of a run go through several lanes so that they vectorise; the order is fixed.
#define SUM_RUN(type, term)                                       \
  {                                                               \
    double lanes[LANES] = {0}, rest = 0;                          \
    int64_t i = 0;                                                \
    for (; i + LANES <= n; i += LANES) {                          \
      for (int lane = 0; lane < LANES; lane++) {                  \
        const double v = (double)x[i + lane];                     \
        lanes[lane] += (term);                                    \
      }                                                           \
    }                                                             \
    for (; i < n; i++) {                                          \
      const double v = (double)x[i];                              \
      rest += (term);                                             \
    }                                                             \
    for (int lane = 0; lane < LANES; lane++) rest += lanes[lane]; \
    acc[0] += rest;                                               \
  }
#define EACH(type, expression)          \
  for (int64_t i = 0; i < n; i++) {     \
    const double v = (double)x[i];      \
    double *const a = &acc[i * stride]; \
    *a = (expression);                  \
  }
#define FOLD_FLOAT(type)                                                                                     \
  ITG_VECTORISED static void fold_##type(fold_kind kind, double *acc, const double *maximum, int64_t stride, \
                                         const type *x, int64_t n) {                                         \
    switch (kind) {                                                                                          \
    case FOLD_SUM:                                                                                           \
      if (stride == 0)                                                                                       \
        SUM_RUN(type, v)                                                                                     \
      else                                                                                                   \
        EACH(type, *a + v)                                                                                   \
      return;                                                                                                \
    case FOLD_ABSOLUTE:                                                                                      \
      if (stride == 0)                                                                                       \
        SUM_RUN(type, fabs(v))                                                                               \
      else                                                                                                   \
        EACH(type, *a + fabs(v))                                                                             \
      return;                                                                                                \
    case FOLD_SQUARE:                                                                                        \
      if (stride == 0)                                                                                       \
        SUM_RUN(type, v *v)                                                                                  \
      else                                                                                                   \
        EACH(type, *a + v * v)                                                                               \
      return;                                                                                                \
    case FOLD_PRODUCT: EACH(type, *a *v) return;                                                             \
    case FOLD_MAXIMUM: EACH(type, v > *a || v != v ? v : *a) return;                                         \
    case FOLD_MINIMUM: EACH(type, v < *a || v != v ? v : *a) return;                                         \
    case FOLD_EXP:                                                                                           \
      for (int64_t i = 0; i < n; i++) {                                                                      \
        const double m = maximum[i * stride];                                                                \
        acc[i * stride] += exp((double)x[i] - (isfinite(m) ? m : 0));                                        \
      }                                                                                                      \
      return;                                                                                                \
    }                                                                                                        \
  }
FOLD_FLOAT(float)
FOLD_FLOAT(double)

// `is_unsigned`: 64-bit values compare as unsigned.
static void fold_integers(fold_kind kind, uint64_t *acc, int64_t stride, const int64_t *x, int64_t n,
                          bool is_unsigned) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t *const a = &acc[i * stride];
    const uint64_t v = (uint64_t)x[i];
    const bool less = is_unsigned ? v < *a : x[i] < (int64_t)*a;
    switch (kind) {
    case FOLD_ABSOLUTE: *a += !is_unsigned && x[i] < 0 ? 0 - v : v; break;
    case FOLD_SQUARE: *a += v * v; break;
    case FOLD_PRODUCT: *a *= v; break;
    case FOLD_MAXIMUM: *a = less ? *a : v; break;
    case FOLD_MINIMUM: *a = less ? v : *a; break;
    default: *a += v; break;
    }
  }
}

static void fold_run(const itg_call *call, fold_kind kind, int64_t input, int64_t output, int64_t stride, int64_t n,
                     size_t outputs) {
  const itg_operand *x = &call->inputs[0];
  double *acc = (double *)call->scratch + output;
  if (x->dtype == ITG_DTYPE_F32) {
    fold_float(kind, acc, acc + outputs, stride, (const float *)x->data + input, n);
  } else if (x->dtype == ITG_DTYPE_F64) {
    fold_double(kind, acc, acc + outputs, stride, (const double *)x->data + input, n);
  } else {
    const size_t size = itg_dtype_size(x->dtype);
    for (int64_t done = 0; done < n; done += CHUNK) {
      int64_t wide[CHUNK];
      const int64_t part = n - done < CHUNK ? n - done : CHUNK;
      itg_convert(x->dtype, (const char *)x->data + (size_t)(input + done) * size, ITG_DTYPE_S64, wide, (size_t)part);
      fold_integers(kind, (uint64_t *)call->scratch + output + done * stride, stride, wide, part,
                    x->dtype == ITG_DTYPE_U64);
    }
  }
}

static void fold_all(const itg_call *call, fold_kind kind) {
  const reduce_plan *plan = call->prepared;
  const int inner = plan->rank - 1;
  int64_t index[ITG_MAX_RANK] = {0}, input = 0, output = 0;
  for (int i = 0; i < plan->rank; i++) {
    if (plan->dims[i] == 0) return;
  }
  for (;;) {
    fold_run(call, kind, input, output, plan->output_strides[inner] ? 1 : 0, plan->dims[inner], call->outputs[0].count);
    input += plan->dims[inner];
    int d = inner - 1;
    for (; d >= 0; d--) {
      output += plan->output_strides[d];
      if (++index[d] < plan->dims[d]) break;
      output -= plan->output_strides[d] * plan->dims[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

static double finish(itg_op op, double acc, double maximum, double count) {
  switch (op) {
  case ITG_OP_REDUCE_MEAN: return acc / count;
  case ITG_OP_REDUCE_L2: return sqrt(acc);
  case ITG_OP_REDUCE_LOG_SUM: return log(acc);
  case ITG_OP_REDUCE_LOG_SUM_EXP: return log(acc) + (isfinite(maximum) ? maximum : 0);
  default: return acc;
  }
}

static void reduce_floats(const itg_call *call) {
  const reduce_plan *plan = call->prepared;
  const itg_operand *y = &call->outputs[0];
  const itg_op op = call->node->op;
  double *acc = call->scratch, *maximum = acc + y->count;
  const fold_kind kind = fold_of(op);
  if (kind == FOLD_EXP) {
    for (size_t i = 0; i < y->count; i++) acc[i] = -INFINITY;
    fold_all(call, FOLD_MAXIMUM);
    memcpy(maximum, acc, y->count * sizeof *acc);
  }
  const double start =
      kind == FOLD_PRODUCT ? 1 : (kind == FOLD_MAXIMUM ? -INFINITY : (kind == FOLD_MINIMUM ? INFINITY : 0));
  for (size_t i = 0; i < y->count; i++) acc[i] = start;
  fold_all(call, kind);
  for (size_t i = 0; i < y->count; i++) acc[i] = finish(op, acc[i], maximum[i], (double)plan->reduced_count);
  itg_convert(ITG_DTYPE_F64, acc, y->dtype, y->data, y->count);
}

static void reduce_integers(const itg_call *call) {
  const reduce_plan *plan = call->prepared;
  const itg_operand *y = &call->outputs[0];
  const itg_op op = call->node->op;
  const fold_kind kind = fold_of(op);
  const bool is_unsigned = call->inputs[0].dtype == ITG_DTYPE_U64;
  uint64_t *acc = call->scratch, start = 0;
  if (kind == FOLD_PRODUCT) start = 1;
  if (kind == FOLD_MAXIMUM && !is_unsigned) start = (uint64_t)INT64_MIN;
  if (kind == FOLD_MINIMUM) start = is_unsigned ? UINT64_MAX : (uint64_t)INT64_MAX;
  for (size_t i = 0; i < y->count; i++) acc[i] = start;
  fold_all(call, kind);
  for (size_t i = 0; i < y->count; i++) {
    if (op == ITG_OP_REDUCE_MEAN && plan->reduced_count > 0)
      acc[i] = is_unsigned ? acc[i] / (uint64_t)plan->reduced_count : (uint64_t)((int64_t)acc[i] / plan->reduced_count);
    if (op == ITG_OP_REDUCE_L2) acc[i] = (uint64_t)sqrt((double)acc[i]);
  }
  itg_convert(ITG_DTYPE_S64, acc, y->dtype, y->data, y->count);
}

itg_status itg_run_reduce(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  if (itg_dtype_is_float(call->inputs[0].dtype))
    reduce_floats(call);
  else
    reduce_integers(call);
  return ITG_OK;
}
