// Convert, PReLU, add, add with a per-channel affine, affine (template; included by elementwise_<isa>.c).
//
// Codes are widened to s32 lanes in memory order. Sums that fit 32 bits stay there; others go through pairs of 16-bit products
// or through 64-bit lanes, whichever the task's numbers allow (docs/ARITHMETIC.md 3). Units are chunks of codes or of rows.
#ifndef ITG_KERNELS_X86_ELEMENTWISE_H
#define ITG_KERNELS_X86_ELEMENTWISE_H

#include "graph/graph.h"
#include "kernels/x86/sums.h"

// ---- convert and PReLU: requantization of code - zero ----
// Packed: header, then parameters of each vector of channels (of one vector when nothing is per channel).
typedef struct {
  int64_t fast;
} convert_header;

static bool convert_supports(const itg_task *task) {
  return codes_only(task->convert.in_type) && codes_only(task->convert.out_type);
}

static inline size_t convert_vectors(const itg_convert_task *t) {
  return t->per_channel ? ((size_t)t->channels + LANES - 1) / LANES : 1;
}

static size_t convert_packed_size(const itg_task *task) {
  return 64 + convert_vectors(&task->convert) * PARAMETER_BYTES;
}

static void convert_pack(const itg_task *task, void *packed) {
  const itg_convert_task *t = &task->convert;
  const size_t sides = t->negative_multiplier ? t->per_channel ? (size_t)t->channels : 1 : 0;
  bool fast = fits_folded(t->multiplier, t->shift, t->out_zero);
  for (size_t c = 0; c < sides; c++) fast &= fits_folded(t->negative_multiplier[c], t->negative_shift[c], t->out_zero);
  __builtin_memset(packed, 0, convert_packed_size(task));
  ((convert_header *)packed)->fast = fast;
  int32_t *p = (int32_t *)(void *)((uint8_t *)packed + 64);
  for (size_t v = 0; v < convert_vectors(t); v++, p += PARAMETER_COUNT * LANES) {
    for (size_t lane = 0; lane < LANES; lane++) {
      size_t c = t->per_channel ? v * LANES + lane : 0;
      if (c >= sides) c = 0;
      p[lane] = -t->in_zero;
      pack_side(p + PARAMETER_MULTIPLIER * LANES, lane, t->multiplier, t->shift, t->out_zero, fast ? FOLDED : GENERAL);
      pack_side(p + PARAMETER_NEGATIVE * LANES, lane, sides ? t->negative_multiplier[c] : 0,
                sides ? t->negative_shift[c] : 33, t->out_zero, fast ? FOLDED : GENERAL);
    }
  }
}

static size_t convert_units(const itg_task *task) {
  const itg_convert_task *t = &task->convert;
  if (!t->per_channel) return (size_t)chunks_of(t->rows * t->channels);
  const int64_t rows = rows_per_unit(t->channels);
  return (size_t)((t->rows + rows - 1) / rows);
}

// u16 to u8 with one factor: whole blocks of 4*LANES codes; returns how many codes are done.
VECTOR_INLINE int64_t convert_blocks(const itg_convert_task *t, const int32_t *p, const ending *e, const uint16_t *in,
                                     uint8_t *out, int64_t count) {
  const vector bias = parameter(p, PARAMETER_BIAS), zero = v_zero();
  const vector low = v_set8(t->low), high = v_set8(t->high);
  int64_t i = 0;
  for (; i + 4 * LANES <= count; i += 4 * LANES) {
    const vector a = v_load(in + i), b = v_load(in + i + 2 * LANES);
    vector acc[4] = {v_unpack_low16(a, zero), v_unpack_high16(a, zero), v_unpack_low16(b, zero),
                     v_unpack_high16(b, zero)};
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) acc[v] = v_add32(acc[v], bias);
    rescale_vector(acc, 4, 1, p, e);
    const vector code = v_order_bytes(v_pack_u8(v_pack_s16(acc[0], acc[1]), v_pack_s16(acc[2], acc[3])));
    v_store(out + i, v_min_u8(v_max_u8(code, low), high));
  }
  return i;
}

static void convert_flat(const itg_convert_task *t, const uint8_t *packed, const ending *e, const void *in, void *out,
                         int64_t first, int64_t last) {
  const int32_t *p = (const int32_t *)(const void *)(packed + 64);
  if (t->in_type == ITG_TASK_U16 && t->out_type == ITG_TASK_U8) {
    const ending fast = {.way = FOLDED, .two_sided = false};
    const ending *how = e->way == FOLDED && !e->two_sided ? &fast : e;
    first += convert_blocks(t, p, how, (const uint16_t *)in + first, (uint8_t *)out + first, last - first);
  }
  const vector bias = parameter(p, PARAMETER_BIAS), low = v_set32(t->low), high = v_set32(t->high);
  for (int64_t i = first; i < last; i += LANES) {
    vector acc = v_add32(load_codes(in, i, t->in_type), bias);
    rescale_vector(&acc, 1, 1, p, e);
    store_codes(out, i, t->out_type, acc, low, high, last - i < LANES ? last - i : LANES);
  }
}

static void convert_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_convert_task *t = &task->convert;
  const ending e = {.zero = t->out_zero,
                    .low = t->low,
                    .high = t->high,
                    .way = ((const convert_header *)call->packed)->fast ? FOLDED : GENERAL,
                    .two_sided = t->negative_multiplier != NULL};
  if (!t->per_channel) {
    const int64_t count = t->rows * t->channels, last = (int64_t)end * CHUNK;
    convert_flat(t, call->packed, &e, call->inputs[0], call->outputs[0], (int64_t)begin * CHUNK,
                 last < count ? last : count);
    return;
  }
  const int64_t rows = rows_per_unit(t->channels), end_row = (int64_t)end * rows;
  const vector bias = v_set32(-t->in_zero), low = v_set32(t->low), high = v_set32(t->high);
  for (int64_t row = (int64_t)begin * rows; row < end_row && row < t->rows; row++) {
    const int32_t *p = (const int32_t *)(const void *)((const uint8_t *)call->packed + 64);
    for (int64_t c = 0; c < t->channels; c += LANES, p += PARAMETER_COUNT * LANES) {
      const int64_t i = row * t->channels + c, rest = t->channels - c;
      vector acc = v_add32(load_codes(call->inputs[0], i, t->in_type), bias);
      rescale_vector(&acc, 1, 1, p, &e);
      store_codes(call->outputs[0], i, t->out_type, acc, low, high, rest < LANES ? rest : LANES);
    }
  }
}

// ---- add of equal shapes ----
static bool add_supports(const itg_task *task) {
  const itg_binary_task *t = &task->binary;
  return t->same_count > 0 && codes_only(t->out_type) &&
         add_way_of(t->a_type, t->b_type, t->a_zero, t->b_zero, t->a, t->b, t->shift) != ADD_NONE;
}

static size_t add_units(const itg_task *task) { return (size_t)chunks_of(task->binary.same_count); }

static void add_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_binary_task *t = &task->binary;
  const add_way way = add_way_of(t->a_type, t->b_type, t->a_zero, t->b_zero, t->a, t->b, t->shift);
  sum_plan p = plan_sum(way, t->a, t->b, t->a_zero, t->b_zero, t->shift);
  const void *a = call->inputs[0], *b = call->inputs[1];
  void *out = call->outputs[0];
  int64_t i = (int64_t)begin * CHUNK, last = (int64_t)end * CHUNK;
  if (last > t->same_count) last = t->same_count;
  const vector zero = v_set32(t->out_zero), low = v_set32(t->low), high = v_set32(t->high);
  if (way == ADD_PAIRS) {
    const vector half = v_set16(-32768), low16 = v_set16(t->low), high16 = v_set16(t->high);
    const uint16_t *from_a = a, *from_b = b;
    for (; i < last; i += 2 * LANES) {
      const size_t rest = last - i < 2 * LANES ? (size_t)(last - i) : 2 * LANES;
      const vector x = v_xor(v_load(from_a + i), half), y = v_xor(v_load(from_b + i), half);
      const vector first = v_add32(sum_pairs(&p, v_unpack_low16(x, y)), zero);
      const vector second = v_add32(sum_pairs(&p, v_unpack_high16(x, y)), zero);
      if (t->out_type == ITG_TASK_U16) {
        const vector code = v_pack_u16(first, second);
        v_store_bytes((uint16_t *)out + i, v_min_u16(v_max_u16(code, low16), high16), 2 * rest);
      } else {
        v_store_words_u8((uint8_t *)out + i,
                         v_pack_s16(v_min32(v_max32(first, low), high), v_min32(v_max32(second, low), high)), rest);
      }
    }
    return;
  }
  for (; i < last; i += LANES) {
    const vector sum = sum_lanes(&p, load_codes(a, i, t->a_type), load_codes(b, i, t->b_type));
    store_codes(out, i, t->out_type, v_add32(sum, zero), low, high, last - i < LANES ? last - i : LANES);
  }
}

// ---- affine: ((q - z)*M_c + B_c + 2^(s_c-1)) >> s_c in 64-bit lanes ----
// Packed, one entry a channel up to a whole number of vectors: M (s32, LANES), then the 64-bit B + 2^(s-1) and s of the even
// lanes, then of the odd ones.
enum { AFFINE_BYTES = LANES * 4 + LANES * 8 * 2 };

static void pack_affine_lane(uint8_t *entry, size_t lane, int32_t scale, int64_t offset, int32_t shift) {
  const int64_t start = offset + ((int64_t)1 << (shift - 1)), count = shift;
  uint8_t *half = entry + LANES * 4 + (lane % 2) * LANES * 8;
  __builtin_memcpy(entry + lane * 4, &scale, 4);
  __builtin_memcpy(half + lane / 2 * 8, &start, 8);
  __builtin_memcpy(half + LANES * 4 + lane / 2 * 8, &count, 8);
}

// The affine of LANES centred codes, limited to [low, high] (64-bit, without the zero point).
VECTOR_INLINE vector affine_lanes(vector centred, const uint8_t *entry, vector low, vector high) {
  const vector scale = v_load(entry);
  const uint8_t *half = entry + LANES * 4;
  vector even = v_add64(v_multiply64(centred, scale), v_load(half));
  even = v_shift_right64_signed(even, v_load(half + LANES * 4));
  half += LANES * 8;
  vector odd = v_add64(v_multiply64(v_odd(centred), v_odd(scale)), v_load(half));
  odd = v_shift_right64_signed(odd, v_load(half + LANES * 4));
  return v_merge_odd(v_min64(v_max64(even, low), high), v_min64(v_max64(odd, low), high));
}

static void pack_affine(uint8_t *out, int64_t channels, bool per_channel, const int32_t *scale, const int64_t *offset,
                        const int32_t *shift) {
  const int64_t entries = per_channel ? (channels + LANES - 1) / LANES * LANES : LANES;
  for (int64_t c = 0; c < entries; c++) {
    const int64_t from = per_channel ? (c < channels ? c : channels - 1) : 0;
    pack_affine_lane(out + c / LANES * AFFINE_BYTES, (size_t)(c % LANES), scale[from], offset[from], shift[from]);
  }
}

static bool affine_supports(const itg_task *task) {
  return codes_only(task->affine.in_type) && codes_only(task->affine.out_type);
}

static size_t affine_packed_size(const itg_task *task) {
  const itg_affine_task *t = &task->affine;
  return (t->per_channel ? ((size_t)t->channels + LANES - 1) / LANES : 1) * AFFINE_BYTES;
}

static void affine_pack(const itg_task *task, void *packed) {
  const itg_affine_task *t = &task->affine;
  pack_affine(packed, t->channels, t->per_channel != 0, t->scale, t->offset, t->scale_shift);
}

static inline size_t row_units(int64_t rows, int64_t channels) {
  const int64_t each = rows_per_unit(channels);
  return (size_t)((rows + each - 1) / each);
}

static size_t affine_units(const itg_task *task) { return row_units(task->affine.rows, task->affine.channels); }

static void affine_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_affine_task *t = &task->affine;
  const int64_t rows = rows_per_unit(t->channels), end_row = (int64_t)end * rows;
  const vector in_zero = v_set32(t->in_zero), zero = v_set32(t->out_zero);
  const vector low64 = v_set64(t->low - t->out_zero), high64 = v_set64(t->high - t->out_zero);
  const vector low = v_set32(t->low), high = v_set32(t->high);
  for (int64_t row = (int64_t)begin * rows; row < end_row && row < t->rows; row++) {
    const uint8_t *entry = call->packed;
    for (int64_t c = 0; c < t->channels; c += LANES) {
      const int64_t i = row * t->channels + c, rest = t->channels - c;
      const vector x = v_sub32(load_codes(call->inputs[0], i, t->in_type), in_zero);
      const vector code = v_add32(affine_lanes(x, entry, low64, high64), zero);
      store_codes(call->outputs[0], i, t->out_type, code, low, high, rest < LANES ? rest : LANES);
      if (t->per_channel) entry += AFFINE_BYTES;
    }
  }
}

// ---- add, and a per-channel affine of the stored sum ----
static bool add_affine_supports(const itg_task *task) {
  const itg_add_affine_task *t = &task->add_affine;
  const add_way way = add_way_of(t->a_type, t->b_type, t->a_zero, t->b_zero, t->a, t->b, t->shift);
  return codes_only(t->out_type) && codes_only(t->out2_type) && way != ADD_NONE && (way != ADD_PAIRS || t->shift >= 17);
}

static size_t add_affine_packed_size(const itg_task *task) {
  return ((size_t)task->add_affine.channels + LANES - 1) / LANES * AFFINE_BYTES;
}

static void add_affine_pack(const itg_task *task, void *packed) {
  const itg_add_affine_task *t = &task->add_affine;
  pack_affine(packed, t->channels, true, t->scale, t->offset, t->scale_shift);
}

static size_t add_affine_units(const itg_task *task) {
  return row_units(task->add_affine.rows, task->add_affine.channels);
}

static void add_affine_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_add_affine_task *t = &task->add_affine;
  const add_way way = add_way_of(t->a_type, t->b_type, t->a_zero, t->b_zero, t->a, t->b, t->shift);
  sum_plan p = plan_sum(way == ADD_PAIRS ? ADD_WIDE : way, t->a, t->b, t->a_zero, t->b_zero, t->shift);
  const int64_t rows = rows_per_unit(t->channels), end_row = (int64_t)end * rows;
  const vector zero = v_set32(t->out_zero), low = v_set32(t->low), high = v_set32(t->high);
  const vector zero2 = v_set32(t->out2_zero), low2 = v_set32(t->low2), high2 = v_set32(t->high2);
  const vector low64 = v_set64(t->low2 - t->out2_zero), high64 = v_set64(t->high2 - t->out2_zero);
  for (int64_t row = (int64_t)begin * rows; row < end_row && row < t->rows; row++) {
    const uint8_t *entry = call->packed;
    for (int64_t c = 0; c < t->channels; c += LANES, entry += AFFINE_BYTES) {
      const int64_t i = row * t->channels + c, rest = t->channels - c < LANES ? t->channels - c : LANES;
      const vector a = load_codes(call->inputs[0], i, t->a_type), b = load_codes(call->inputs[1], i, t->b_type);
      const vector sum = v_min32(v_max32(v_add32(sum_lanes(&p, a, b), zero), low), high);
      store_codes(call->outputs[0], i, t->out_type, sum, low, high, rest);
      const vector second = v_add32(affine_lanes(v_sub32(sum, zero), entry, low64, high64), zero2);
      store_codes(call->outputs[1], i, t->out2_type, second, low2, high2, rest);
    }
  }
}

// ---- the same for u16 streams, in 16-bit products ----
// With q' = code - 32768 and M = M1*2^16 + M0, both s16: (q'*M + T) >> s = (q'*M1 + T1 + ((q'*M0 + T0) >> 16)) >> (s - 16), where
// T = B + 2^(s-1) + M*(32768 - z) + (z2 << s) = T1*2^16 + T0. All of it fits s32 when |q'*M + T| < 2^47 and s >= 16.
// Packed, for every 2*LANES channels in the order of unpacking: [low half, high half] of {M1 | M0 << 16, T1, T0, s - 16}.
enum { PAIR_CHANNELS = 2 * LANES, PAIR_VALUES = 4, PAIR_BYTES = 2 * PAIR_VALUES * VECTOR_BYTES };

static inline int64_t affine_start(const itg_add_affine_task *t, int64_t c) {
  return t->offset[c] + ((int64_t)1 << (t->scale_shift[c] - 1)) + (int64_t)t->scale[c] * (32768 - t->out_zero) +
         (int64_t)t->out2_zero * ((int64_t)1 << t->scale_shift[c]);
}

static bool pair_fits(const itg_add_affine_task *t, int64_t c) {
  const int64_t scale = t->scale[c], high = (scale + 32768) >> 16, limit = (int64_t)1 << 46;
  if (high < -32768 || high > 32767 || t->scale_shift[c] < 16 || t->scale_shift[c] > 46) return false;
  if (magnitude(t->offset[c]) >= limit) return false;
  const int64_t start = affine_start(t, c); // Each of its terms is below 2^63 / 4.
  return magnitude(start) < limit && magnitude(start) + 32768 * magnitude(scale) < 2 * limit;
}

static bool add_affine_pairs_supports(const itg_task *task) {
  const itg_add_affine_task *t = &task->add_affine;
  if (!codes_only(t->out2_type) || t->out_type != ITG_TASK_U16) return false;
  if (add_way_of(t->a_type, t->b_type, t->a_zero, t->b_zero, t->a, t->b, t->shift) != ADD_PAIRS) return false;
  for (int64_t c = 0; c < t->channels; c++) {
    if (!pair_fits(t, c)) return false;
  }
  return true;
}

static size_t add_affine_pairs_packed_size(const itg_task *task) {
  return ((size_t)task->add_affine.channels + PAIR_CHANNELS - 1) / PAIR_CHANNELS * PAIR_BYTES;
}

static void add_affine_pairs_pack(const itg_task *task, void *packed) {
  const itg_add_affine_task *t = &task->add_affine;
  __builtin_memset(packed, 0, add_affine_pairs_packed_size(task));
  for (int64_t c = 0; c < t->channels; c++) {
    const size_t place = (size_t)c % PAIR_CHANNELS;
    // unpack takes four of every eight codes.
    const size_t half = place / 4 % 2, lane = place / 8 * 4 + place % 4;
    int32_t *values = (int32_t *)(void *)((uint8_t *)packed + (size_t)c / PAIR_CHANNELS * PAIR_BYTES +
                                          half * PAIR_VALUES * VECTOR_BYTES);
    const int64_t start = affine_start(t, c);
    const int32_t high = (int32_t)(((int64_t)t->scale[c] + 32768) >> 16),
                  low = (int32_t)(t->scale[c] - (int64_t)high * 65536);
    values[0 * LANES + lane] = (int32_t)(((uint32_t)low << 16) | ((uint32_t)high & 0xFFFF));
    values[1 * LANES + lane] = (int32_t)(start >> 16);
    values[2 * LANES + lane] = (int32_t)(start & 65535);
    values[3 * LANES + lane] = t->scale_shift[c] - 16;
  }
}

// `high`: codes in the lower, `low`: in the upper 16 bits of the lanes.
VECTOR_INLINE vector affine_pairs(vector high, vector low, const uint8_t *values) {
  const vector scale = v_load(values);
  const vector rest = v_add32(v_multiply_pairs(low, scale), v_load(values + 2 * VECTOR_BYTES));
  const vector sum = v_add32(v_multiply_pairs(high, scale), v_load(values + VECTOR_BYTES));
  return v_shift_right32(v_add32(sum, v_shift_right32_same(rest, 16)), v_load(values + 3 * VECTOR_BYTES));
}

static void add_affine_pairs_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_add_affine_task *t = &task->add_affine;
  const sum_plan p = plan_sum(ADD_PAIRS, t->a, t->b, t->a_zero, t->b_zero, t->shift);
  const int64_t rows = rows_per_unit(t->channels), end_row = (int64_t)end * rows;
  const bool words = t->out2_type == ITG_TASK_U16;
  const vector half = v_set16(-32768), zero = v_set32(t->out_zero), none = v_zero();
  const vector low = v_set16(t->low), high = v_set16(t->high), low2 = v_set16(t->low2), high2 = v_set16(t->high2);
  for (int64_t row = (int64_t)begin * rows; row < end_row && row < t->rows; row++) {
    const uint8_t *values = call->packed;
    for (int64_t c = 0; c < t->channels; c += PAIR_CHANNELS, values += PAIR_BYTES) {
      const int64_t i = row * t->channels + c;
      const size_t count = t->channels - c < PAIR_CHANNELS ? (size_t)(t->channels - c) : PAIR_CHANNELS;
      const vector x = v_xor(v_load((const uint16_t *)call->inputs[0] + i), half);
      const vector y = v_xor(v_load((const uint16_t *)call->inputs[1] + i), half);
      const vector first = v_add32(sum_pairs(&p, v_unpack_low16(x, y)), zero);
      const vector second = v_add32(sum_pairs(&p, v_unpack_high16(x, y)), zero);
      const vector code = v_min_u16(v_max_u16(v_pack_u16(first, second), low), high);
      v_store_bytes((uint16_t *)call->outputs[0] + i, code, 2 * count);
      const vector q = v_xor(code, half);
      const vector a = affine_pairs(v_unpack_low16(q, none), v_unpack_low16(none, q), values);
      const vector b =
          affine_pairs(v_unpack_high16(q, none), v_unpack_high16(none, q), values + PAIR_VALUES * VECTOR_BYTES);
      if (words) {
        v_store_bytes((uint16_t *)call->outputs[1] + i, v_min_u16(v_max_u16(v_pack_u16(a, b), low2), high2), 2 * count);
      } else {
        v_store_words_u8((uint8_t *)call->outputs[1] + i, v_min_s16(v_max_s16(v_pack_s16(a, b), low2), high2), count);
      }
    }
  }
}

#define ELEMENTWISE_KERNELS(isa_name)                                                               \
  const itg_kernel itg_convert__##isa_name = {.name = "itg_convert__" #isa_name,                    \
                                              .op = ITG_OP_Q_CONVERT,                               \
                                              .isa = KERNEL_ISA,                                    \
                                              .supports = convert_supports,                         \
                                              .packed_size = convert_packed_size,                   \
                                              .pack = convert_pack,                                 \
                                              .units = convert_units,                               \
                                              .run = convert_run};                                  \
  const itg_kernel itg_prelu__##isa_name = {.name = "itg_prelu__" #isa_name,                        \
                                            .op = ITG_OP_Q_PRELU,                                   \
                                            .isa = KERNEL_ISA,                                      \
                                            .supports = convert_supports,                           \
                                            .packed_size = convert_packed_size,                     \
                                            .pack = convert_pack,                                   \
                                            .units = convert_units,                                 \
                                            .run = convert_run};                                    \
  const itg_kernel itg_add__##isa_name = {.name = "itg_add__" #isa_name,                            \
                                          .op = ITG_OP_Q_ADD,                                       \
                                          .isa = KERNEL_ISA,                                        \
                                          .supports = add_supports,                                 \
                                          .units = add_units,                                       \
                                          .run = add_run};                                          \
  const itg_kernel itg_affine__##isa_name = {.name = "itg_affine__" #isa_name,                      \
                                             .op = ITG_OP_Q_AFFINE,                                 \
                                             .isa = KERNEL_ISA,                                     \
                                             .supports = affine_supports,                           \
                                             .packed_size = affine_packed_size,                     \
                                             .pack = affine_pack,                                   \
                                             .units = affine_units,                                 \
                                             .run = affine_run};                                    \
  const itg_kernel itg_add_affine__##isa_name = {.name = "itg_add_affine__" #isa_name,              \
                                                 .op = ITG_OP_Q_ADD_AFFINE,                         \
                                                 .isa = KERNEL_ISA,                                 \
                                                 .supports = add_affine_supports,                   \
                                                 .packed_size = add_affine_packed_size,             \
                                                 .pack = add_affine_pack,                           \
                                                 .units = add_affine_units,                         \
                                                 .run = add_affine_run};                            \
  const itg_kernel itg_add_affine_pairs__##isa_name = {.name = "itg_add_affine_pairs__" #isa_name,  \
                                                       .op = ITG_OP_Q_ADD_AFFINE,                   \
                                                       .isa = KERNEL_ISA,                           \
                                                       .supports = add_affine_pairs_supports,       \
                                                       .packed_size = add_affine_pairs_packed_size, \
                                                       .pack = add_affine_pairs_pack,               \
                                                       .units = add_affine_units,                   \
                                                       .run = add_affine_pairs_run}

#endif
