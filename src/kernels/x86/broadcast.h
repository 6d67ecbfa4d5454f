// Binary operations with broadcasting: add, mul, min, max (template; included by broadcast_<isa>.c).
//
// Dimensions that continue each other in both operands are joined; in the innermost one each operand is dense or repeats one
// code. Units are groups of rows.
#ifndef ITG_KERNELS_X86_BROADCAST_H
#define ITG_KERNELS_X86_BROADCAST_H

#include "graph/graph.h"
#include "kernels/x86/sums.h"

enum { BROADCAST_HEADER = 64 };

typedef struct {
  int32_t rank; // At least 1.
  int64_t dims[ITG_TASK_MAX_RANK + 1], a[ITG_TASK_MAX_RANK + 1], b[ITG_TASK_MAX_RANK + 1];
  int64_t rows, inner;
} joined_operands;

static joined_operands join_operands(const itg_binary_task *t) {
  joined_operands j = {0};
  for (int32_t d = 0; d < t->rank; d++) {
    if (t->dims[d] == 1) continue;
    const int32_t last = j.rank - 1;
    if (last >= 0 && j.a[last] == t->dims[d] * t->a_stride[d] && j.b[last] == t->dims[d] * t->b_stride[d]) {
      j.dims[last] *= t->dims[d];
      j.a[last] = t->a_stride[d];
      j.b[last] = t->b_stride[d];
      continue;
    }
    j.dims[j.rank] = t->dims[d];
    j.a[j.rank] = t->a_stride[d];
    j.b[j.rank++] = t->b_stride[d];
  }
  if (j.rank == 0) {
    j.dims[0] = 1;
    j.rank = 1;
  }
  if (j.rank == 1 && j.dims[0] > CHUNK) {
    // One long run is cut where it divides, so that threads can share it.
    int64_t inner = j.dims[0];
    while (inner > CHUNK && inner % 2 == 0) inner /= 2;
    j.dims[1] = inner;
    j.a[1] = j.a[0];
    j.b[1] = j.b[0];
    j.dims[0] /= inner;
    j.a[0] *= inner;
    j.b[0] *= inner;
    j.rank = 2;
  }
  j.inner = j.dims[j.rank - 1];
  j.rows = 1;
  for (int32_t d = 0; d < j.rank - 1; d++) j.rows *= j.dims[d];
  return j;
}

static inline bool dense_or_repeated(int64_t stride) { return stride == 0 || stride == 1; }

static bool broadcast_supports(const itg_task *task) {
  const itg_binary_task *t = &task->binary;
  const joined_operands j = join_operands(t);
  if (!codes_only(t->a_type) || !codes_only(t->b_type) || !codes_only(t->out_type)) return false;
  if (!dense_or_repeated(j.a[j.rank - 1]) || !dense_or_repeated(j.b[j.rank - 1])) return false;
  if (task->op != ITG_OP_Q_ADD) return true;
  const add_way way = add_way_of(t->a_type, t->b_type, t->a_zero, t->b_zero, t->a, t->b, t->shift);
  return way == ADD_NARROW || way == ADD_WIDE || (way == ADD_PAIRS && t->shift >= 17);
}

static size_t broadcast_units(const itg_task *task) {
  const joined_operands j = join_operands(&task->binary);
  const int64_t each = rows_per_unit(j.inner);
  return (size_t)((j.rows + each - 1) / each);
}

// Q_MUL: header, then its factor in all lanes. The others need nothing.
static size_t mul_packed_size(const itg_task *task) {
  (void)task;
  return BROADCAST_HEADER + PARAMETER_BYTES;
}

static void mul_pack(const itg_task *task, void *packed) {
  const itg_binary_task *t = &task->binary;
  const int32_t shift = t->shift - t->pre_shift;
  const int64_t fast = fits_folded(t->multiplier, shift, t->out_zero);
  __builtin_memset(packed, 0, BROADCAST_HEADER + PARAMETER_BYTES);
  __builtin_memcpy(packed, &fast, sizeof fast);
  int32_t *p = (int32_t *)(void *)((uint8_t *)packed + BROADCAST_HEADER);
  for (size_t lane = 0; lane < LANES; lane++) {
    pack_side(p + PARAMETER_MULTIPLIER * LANES, lane, t->multiplier, shift, t->out_zero, fast ? FOLDED : GENERAL);
    pack_side(p + PARAMETER_NEGATIVE * LANES, lane, 0, 33, t->out_zero, fast ? FOLDED : GENERAL);
  }
}

// The products of centred codes, halved pre_shift times with rounding. They stay below 2^33: plus 2^40 they are positive and
// a logical shift floors.
VECTOR_INLINE vector products(vector a, vector b, int32_t pre_shift) {
  vector even = v_multiply64(a, b), odd = v_multiply64(v_odd(a), v_odd(b));
  if (pre_shift) {
    const vector start = v_set64(((int64_t)1 << 40) + ((int64_t)1 << (pre_shift - 1)));
    const vector offset = v_set64((int64_t)1 << (40 - pre_shift));
    even = v_sub64(v_shift_right64_same(v_add64(even, start), pre_shift), offset);
    odd = v_sub64(v_shift_right64_same(v_add64(odd, start), pre_shift), offset);
  }
  return v_merge_odd(even, odd);
}

typedef struct {
  const void *a, *b;
  void *out;
  int64_t a_step, b_step; // 0 or 1
  int64_t count;
} binary_row;

VECTOR_INLINE vector load_operand(const void *data, int64_t i, int64_t step, int32_t type) {
  if (step) return load_codes(data, i, type);
  return v_set32(type == ITG_TASK_U16 ? *(const uint16_t *)data : *(const uint8_t *)data);
}

VECTOR_INLINE void binary_loop(const itg_task *task, const sum_plan *plan, const int32_t *parameters, const ending *e,
                               const binary_row *row, const int32_t op) {
  const itg_binary_task *t = &task->binary;
  const vector a_zero = v_set32(t->a_zero), b_zero = v_set32(t->b_zero), zero = v_set32(t->out_zero);
  const bool compares = op == ITG_OP_MIN || op == ITG_OP_MAX;
  const vector low = v_set32(compares ? 0 : t->low);
  const vector high = v_set32(compares ? (int32_t)type_limit(t->out_type) : t->high);
  for (int64_t i = 0; i < row->count; i += LANES) {
    const vector a = load_operand(row->a, i, row->a_step, t->a_type),
                 b = load_operand(row->b, i, row->b_step, t->b_type);
    vector code;
    if (op == ITG_OP_Q_ADD) {
      code = v_add32(sum_lanes(plan, a, b), zero);
    } else if (op == ITG_OP_Q_MUL) {
      code = products(v_sub32(a, a_zero), v_sub32(b, b_zero), t->pre_shift);
      rescale_vector(&code, 1, 1, parameters, e);
    } else {
      code = op == ITG_OP_MIN ? v_min32(a, b) : v_max32(a, b);
    }
    const int64_t rest = row->count - i;
    store_codes(row->out, i, t->out_type, code, low, high, rest < LANES ? rest : LANES);
  }
}

static void broadcast_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_binary_task *t = &task->binary;
  const joined_operands j = join_operands(t);
  const int64_t each = rows_per_unit(j.inner), end_row = (int64_t)end * each;
  const size_t a_size = t->a_type == ITG_TASK_U16 ? 2 : 1, b_size = t->b_type == ITG_TASK_U16 ? 2 : 1;
  const size_t out_size = t->out_type == ITG_TASK_U16 ? 2 : 1;
  const bool add = task->op == ITG_OP_Q_ADD, mul = task->op == ITG_OP_Q_MUL;
  const add_way way = add ? add_way_of(t->a_type, t->b_type, t->a_zero, t->b_zero, t->a, t->b, t->shift) : ADD_NARROW;
  sum_plan plan = {.way = ADD_NARROW};
  if (add) plan = plan_sum(way == ADD_PAIRS ? ADD_WIDE : way, t->a, t->b, t->a_zero, t->b_zero, t->shift);
  int64_t fast = 1;
  if (mul) __builtin_memcpy(&fast, call->packed, sizeof fast);
  const int32_t *parameters =
      mul ? (const int32_t *)(const void *)((const uint8_t *)call->packed + BROADCAST_HEADER) : NULL;
  const ending e = {.zero = t->out_zero, .way = fast ? FOLDED : GENERAL};
  for (int64_t r = (int64_t)begin * each; r < end_row && r < j.rows; r++) {
    int64_t rest = r, a = 0, b = 0;
    for (int32_t d = j.rank - 2; d >= 0; d--) {
      const int64_t position = rest % j.dims[d];
      rest /= j.dims[d];
      a += position * j.a[d];
      b += position * j.b[d];
    }
    const binary_row row = {.a = (const uint8_t *)call->inputs[0] + a * (int64_t)a_size,
                            .b = (const uint8_t *)call->inputs[1] + b * (int64_t)b_size,
                            .out = (uint8_t *)call->outputs[0] + r * j.inner * (int64_t)out_size,
                            .a_step = j.a[j.rank - 1],
                            .b_step = j.b[j.rank - 1],
                            .count = j.inner};
    switch (task->op) {
    case ITG_OP_Q_ADD: binary_loop(task, &plan, parameters, &e, &row, ITG_OP_Q_ADD); break;
    case ITG_OP_Q_MUL: binary_loop(task, &plan, parameters, &e, &row, ITG_OP_Q_MUL); break;
    case ITG_OP_MIN: binary_loop(task, &plan, parameters, &e, &row, ITG_OP_MIN); break;
    default: binary_loop(task, &plan, parameters, &e, &row, ITG_OP_MAX); break;
    }
  }
}

#define BROADCAST_KERNEL(symbol, operation)                  \
  const itg_kernel symbol = {.name = #symbol,                \
                             .op = operation,                \
                             .isa = KERNEL_ISA,              \
                             .supports = broadcast_supports, \
                             .units = broadcast_units,       \
                             .run = broadcast_run}
#define BROADCAST_KERNELS(isa_name)                                       \
  BROADCAST_KERNEL(itg_add_broadcast__##isa_name, ITG_OP_Q_ADD);          \
  BROADCAST_KERNEL(itg_min__##isa_name, ITG_OP_MIN);                      \
  BROADCAST_KERNEL(itg_max__##isa_name, ITG_OP_MAX);                      \
  const itg_kernel itg_mul__##isa_name = {.name = "itg_mul__" #isa_name,  \
                                          .op = ITG_OP_Q_MUL,             \
                                          .isa = KERNEL_ISA,              \
                                          .supports = broadcast_supports, \
                                          .packed_size = mul_packed_size, \
                                          .pack = mul_pack,               \
                                          .units = broadcast_units,       \
                                          .run = broadcast_run}

#endif
