// Tables, softmax, norms (docs/ARITHMETIC.md 4).
#include "graph/attributes.h"
#include "graph/op.h"
#include "kernels/reference/access.h"
#include "kernels/reference/exponential.h"

enum { CHUNK = 4096 };

static size_t table_units(const itg_task *task) { return ((size_t)task->table.count + CHUNK - 1) / CHUNK; }

static void table(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_table_task *t = &task->table;
  const int64_t last = (int64_t)end * CHUNK < t->count ? (int64_t)end * CHUNK : t->count;
  for (int64_t i = (int64_t)begin * CHUNK; i < last; i++) {
    const int32_t q = itg_load(call->inputs[0], i, t->in_type);
    int32_t code;
    if (t->in_type == ITG_TASK_U8) {
      code = itg_load(t->table, q, t->out_type);
    } else {
      const int32_t *nodes = t->table;
      const int32_t n = t->node_bits, f = q & ((1 << n) - 1);
      const int64_t sum = (int64_t)nodes[q >> n] * ((1 << n) - f) + (int64_t)nodes[(q >> n) + 1] * f;
      code = (int32_t)itg_clamp_i64((sum + ((int64_t)1 << (n + 3))) >> (n + 4), t->low, t->high);
    }
    itg_store(call->outputs[0], i, t->out_type, code);
  }
}

static int64_t mask_offset(const itg_softmax_task *t, int64_t row) {
  int64_t offset = 0;
  for (int32_t d = t->rank - 2; d >= 0; d--) {
    offset += row % t->dims[d] * t->mask_stride[d];
    row /= t->dims[d];
  }
  return offset;
}

static size_t softmax_units(const itg_task *task) { return (size_t)task->softmax.rows; }

// `floors`: u16 results are cut, not rounded, as on the NPU.
static void softmax_rows(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end, bool floors) {
  const itg_softmax_task *t = &task->softmax;
  const uint16_t *x = call->inputs[0];
  const uint8_t *mask = t->has_mask ? call->inputs[1] : NULL;
  const int64_t mask_step = t->has_mask ? t->mask_stride[t->rank - 1] : 0;
  const int64_t half = (int64_t)1 << (t->k_shift - 1);
  for (size_t row = begin; row < end; row++) {
    const int64_t start = (int64_t)row * t->length;
    const uint8_t *keep = mask ? mask + mask_offset(t, (int64_t)row) : NULL;
    int32_t largest = -1;
    for (int64_t i = 0; i < t->length; i++) {
      if ((!keep || keep[i * mask_step]) && x[start + i] > largest) largest = x[start + i];
    }
    uint64_t sum = 0;
    for (int64_t i = 0; i < t->length; i++) {
      if (keep && !keep[i * mask_step]) continue;
      sum += itg_exponential((uint64_t)(((int64_t)(largest - x[start + i]) * t->k + half) >> t->k_shift));
    }
    const uint64_t reciprocal = sum ? ((uint64_t)1 << 47) / sum : 0; // A row with nothing left gives zeros.
    for (int64_t i = 0; i < t->length; i++) {
      uint64_t e = 0;
      if (sum && !(keep && !keep[i * mask_step]))
        e = itg_exponential((uint64_t)(((int64_t)(largest - x[start + i]) * t->k + half) >> t->k_shift));
      int32_t code;
      if (t->out_type == ITG_TASK_U16) {
        const uint64_t p = (e * reciprocal + (floors ? 0 : (uint64_t)1 << 30)) >> 31;
        code = p > 65535 ? 65535 : (int32_t)p;
      } else {
        // e*R is Q47 of the probability and at most 2^47; cut to Q30 it feeds the requantization.
        const int64_t q30 = (int64_t)((e * reciprocal + ((uint64_t)1 << 16)) >> 17);
        code = itg_requantize(q30, t->multiplier, t->shift, t->out_zero, t->low, t->high);
      }
      itg_store(call->outputs[0], start + i, t->out_type, code);
    }
  }
}

// Exact floor of the square root.
static uint64_t square_root(uint64_t value) {
  uint64_t root = 0, bit = (uint64_t)1 << 62;
  while (bit > value) bit >>= 2;
  for (; bit; bit >>= 2) {
    if (value >= root + bit) {
      value -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return root;
}

static size_t norm_units(const itg_task *task) { return (size_t)task->norm.rows; }

static void norm_rows(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end, bool floors) {
  const itg_norm_task *t = &task->norm;
  const uint16_t *codes = call->inputs[0];
  const int32_t centre = t->kind == ITG_NORM_LAYER ? 32768 : t->in_zero;
  const int64_t factor = t->kind == ITG_NORM_L2 ? 1 : t->channels;
  for (size_t row = begin; row < end; row++) {
    const uint16_t *x = codes + (int64_t)row * t->channels;
    int64_t s1 = 0, s2 = 0;
    for (int64_t c = 0; c < t->channels; c++) {
      const int64_t v = (int64_t)x[c] - centre;
      s1 += v;
      s2 += v * v;
    }
    if (t->kind != ITG_NORM_LAYER) s1 = 0;
    int64_t variance = factor * s2 - s1 * s1 + t->epsilon;
    if (variance < 1) variance = 1;
    const int h = __builtin_clzll((uint64_t)variance) & ~1;
    const uint64_t root = square_root((uint64_t)variance << h);
    const int64_t inverse = (int64_t)(((uint64_t)1 << 63) / root);
    const int k = (t->kind == ITG_NORM_L2 ? 37 : 43) - h / 2;
    for (int64_t c = 0; c < t->channels; c++) {
      const int64_t v = (int64_t)x[c] - centre;
      // |C*x - S1| <= sqrt(C)*sqrt(V) and I ~ 2^63/sqrt(V << h): the product stays below 2^63 for C <= 8192.
      const int64_t n = ((factor * v - s1) * inverse + ((int64_t)1 << (k - 1))) >> k;
      const int64_t gamma = t->gamma[t->kind == ITG_NORM_L2 ? 0 : c];
      const int64_t scaled = (n * gamma + ((int64_t)1 << (t->shift - 5))) >> (t->shift - 4);
      const int64_t beta = t->beta_q4 ? t->beta_q4[c] : 0;
      const int64_t code = itg_clamp_i64(t->out_zero + ((scaled + beta + (floors ? 0 : 8)) >> 4), t->low, t->high);
      itg_store(call->outputs[0], (int64_t)row * t->channels + c, t->out_type, (int32_t)code);
    }
  }
}

static void softmax(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  softmax_rows(task, call, begin, end, false);
}
static void norm(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  norm_rows(task, call, begin, end, false);
}

// ---- the NPU's: RMSNorm and the softmax of 16-bit results are floored (docs/ARITHMETIC.md 6) ----

static void floored_softmax(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  softmax_rows(task, call, begin, end, true);
}
static void floored_norm(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  norm_rows(task, call, begin, end, true);
}
static bool is_wide_softmax(const itg_task *task) { return task->softmax.out_type == ITG_TASK_U16; }
static bool is_rms(const itg_task *task) { return task->norm.kind == ITG_NORM_RMS; }

const itg_kernel itg_table__reference = {
    .name = "itg_table__reference", .op = ITG_OP_Q_TABLE, .units = table_units, .run = table};
const itg_kernel itg_softmax__reference = {
    .name = "itg_softmax__reference", .op = ITG_OP_Q_SOFTMAX, .units = softmax_units, .run = softmax};
const itg_kernel itg_norm__reference = {
    .name = "itg_norm__reference", .op = ITG_OP_Q_NORM, .units = norm_units, .run = norm};

#define FLOORED(suffix, profile)                                                     \
  const itg_kernel itg_softmax__htp_##suffix = {.name = "itg_softmax__htp_" #suffix, \
                                                .op = ITG_OP_Q_SOFTMAX,              \
                                                .isa = profile,                      \
                                                .supports = is_wide_softmax,         \
                                                .units = softmax_units,              \
                                                .run = floored_softmax};             \
  const itg_kernel itg_norm__htp_##suffix = {.name = "itg_norm__htp_" #suffix,       \
                                             .op = ITG_OP_Q_NORM,                    \
                                             .isa = profile,                         \
                                             .supports = is_rms,                     \
                                             .units = norm_units,                    \
                                             .run = floored_norm}
FLOORED(v68, ITG_ISA_HTP_V68);
FLOORED(v73, ITG_ISA_HTP_V73);
