// LayerNorm, RMSNorm and L2 norm over u16 codes (template; included by norm_<isa>.c; docs/ARITHMETIC.md 4). Units are rows.
#ifndef ITG_KERNELS_X86_NORM_H
#define ITG_KERNELS_X86_NORM_H

#include "graph/attributes.h"
#include "graph/graph.h"
#include "kernels/x86/sums.h"

enum { MOST_CHANNELS = 8192 };

static size_t norm_units(const itg_task *task) { return (size_t)task->norm.rows; }

static bool norm_supports(const itg_task *task) {
  const itg_norm_task *t = &task->norm;
  return t->channels <= MOST_CHANNELS && codes_only(t->out_type) && t->shift >= 5 && t->shift <= 62;
}

// Packed: gamma, then beta in Q4, both for a whole number of vectors.
static inline size_t padded_channels(const itg_norm_task *t) {
  return ((size_t)t->channels + LANES - 1) / LANES * LANES;
}

static size_t norm_packed_size(const itg_task *task) { return 2 * padded_channels(&task->norm) * sizeof(int32_t); }

static void norm_pack(const itg_task *task, void *packed) {
  const itg_norm_task *t = &task->norm;
  const size_t padded = padded_channels(t);
  int32_t *gamma = packed, *beta = gamma + padded;
  for (size_t c = 0; c < padded; c++) {
    const size_t from = c < (size_t)t->channels ? c : 0;
    gamma[c] = t->gamma[t->kind == ITG_NORM_L2 ? 0 : from];
    beta[c] = t->beta_q4 ? t->beta_q4[from] : 0;
  }
}

// Exact floor of the square root, one bit a step.
static uint64_t square_root(uint64_t value) {
  uint64_t root = 0;
  for (uint64_t bit = (uint64_t)1 << 62; bit; bit >>= 2) {
    const uint64_t trial = root + bit;
    root >>= 1;
    if (value >= trial) {
      value -= trial;
      root += bit;
    }
  }
  return root;
}

// sum(v) and sum(v^2) of v = code - centre.
static void row_sums(const uint16_t *x, int64_t channels, int32_t centre, int64_t *s1, int64_t *s2) {
  const vector middle = v_set32(centre);
  vector sum = v_zero(), squares = v_zero(); // 8192 * 65535 < 2^31; squares in 64 bits.
  int64_t c = 0;
  for (; c + LANES <= channels; c += LANES) {
    const vector v = v_sub32(v_widen_u16(x + c), middle), odd = v_odd(v);
    sum = v_add32(sum, v);
    squares = v_add64(squares, v_add64(v_multiply64(v, v), v_multiply64(odd, odd)));
  }
  int32_t sums[LANES];
  int64_t wide[LANES / 2];
  v_store(sums, sum);
  v_store(wide, squares);
  *s1 = *s2 = 0;
  for (int lane = 0; lane < LANES; lane++) *s1 += sums[lane];
  for (int lane = 0; lane < LANES / 2; lane++) *s2 += wide[lane];
  for (; c < channels; c++) {
    const int64_t v = (int64_t)x[c] - centre;
    *s1 += v;
    *s2 += v * v;
  }
}

typedef struct {
  vector inverse, inverse_high, half, count; // n = (v*I + 2^(k-1)) >> k
  vector gamma_half, gamma_count, eight, four;
  vector low, high; // 64-bit, without the zero point
} norm_plan;

// The even lanes: v times the 33-bit inverse, times gamma, plus beta, in output codes.
VECTOR_INLINE vector norm_half(const norm_plan *p, vector v, vector gamma, vector beta) {
  // v*I = v*I_low + ((v*I_high) << 32); I_low as unsigned is I_low as signed plus 2^32 where its top bit is set, which
  // inverse_high includes.
  const vector product = v_add64(v_multiply64(v, p->inverse), v_shift_left64_32(v_multiply64(v, p->inverse_high)));
  const vector n = v_shift_right64_signed(v_add64(product, p->half), p->count);
  const vector scaled = v_shift_right64_signed(v_add64(v_multiply64(n, gamma), p->gamma_half), p->gamma_count);
  const vector code = v_shift_right64_signed(v_add64(v_add64(scaled, beta), p->eight), p->four);
  return v_min64(v_max64(code, p->low), p->high);
}

static void norm_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_norm_task *t = &task->norm;
  const int32_t centre = t->kind == ITG_NORM_LAYER ? 32768 : t->in_zero;
  const int64_t factor = t->kind == ITG_NORM_L2 ? 1 : t->channels;
  const int32_t *gamma = call->packed, *beta = gamma + padded_channels(t);
  const vector zero = v_set32(t->out_zero), low = v_set32(t->low), high = v_set32(t->high);
  norm_plan p = {.gamma_half = v_set64((int64_t)1 << (t->shift - 5)),
                 .gamma_count = v_set64(t->shift - 4),
                 .eight = v_set64(8),
                 .four = v_set64(4),
                 .low = v_set64(t->low - t->out_zero),
                 .high = v_set64(t->high - t->out_zero)};
  for (size_t row = begin; row < end; row++) {
    const uint16_t *x = (const uint16_t *)call->inputs[0] + (int64_t)row * t->channels;
    int64_t s1, s2;
    row_sums(x, t->channels, centre, &s1, &s2);
    if (t->kind != ITG_NORM_LAYER) s1 = 0;
    int64_t variance = factor * s2 - s1 * s1 + t->epsilon;
    if (variance < 1) variance = 1;
    const int h = __builtin_clzll((uint64_t)variance) & ~1;
    const uint64_t inverse = ((uint64_t)1 << 63) / square_root((uint64_t)variance << h);
    const int k = (t->kind == ITG_NORM_L2 ? 37 : 43) - h / 2;
    const int32_t inverse_low = (int32_t)(uint32_t)inverse;
    p.inverse = v_set64(inverse_low);
    p.inverse_high = v_set64((int64_t)(inverse >> 32) + (inverse_low < 0));
    p.half = v_set64((int64_t)1 << (k - 1));
    p.count = v_set64(k);
    // factor*(code - centre) - s1 fits s32: 8192 * 65535 * 2 < 2^31.
    const vector scale = v_set32((int32_t)factor), offset = v_set32((int32_t)(-factor * centre - s1));
    for (int64_t c = 0; c < t->channels; c += LANES) {
      const vector v = v_add32(v_mullo32(v_widen_u16(x + c), scale), offset);
      const vector g = v_load(gamma + c), b = v_load(beta + c);
      const vector even = norm_half(&p, v, g, v_even_signed(b));
      const vector odd = norm_half(&p, v_odd(v), v_odd(g), v_even_signed(v_odd(b)));
      const int64_t rest = t->channels - c;
      store_codes(call->outputs[0], (int64_t)row * t->channels + c, t->out_type, v_add32(v_merge_odd(even, odd), zero),
                  low, high, rest < LANES ? rest : LANES);
    }
  }
}

#define NORM_KERNEL(isa_name)                                               \
  const itg_kernel itg_norm__##isa_name = {.name = "itg_norm__" #isa_name,  \
                                           .op = ITG_OP_Q_NORM,             \
                                           .isa = KERNEL_ISA,               \
                                           .supports = norm_supports,       \
                                           .packed_size = norm_packed_size, \
                                           .pack = norm_pack,               \
                                           .units = norm_units,             \
                                           .run = norm_run}

#endif
