// Attention over a cache of 8-bit keys and values (template; included by
// attention_<isa>.c after its vector header; docs/ARITHMETIC.md 4).
//
// A unit is up to ATTENTION_ROWS positions of one head. Scores: LANES keys at a
// time, one accumulator a key, summed across their lanes by a transposition;
// sum (q-zq)*(k-zk) = sum qc*k + (32768-zq)*sum k - zk*sum (q-zq) with qc = q -
// 32768. Values: pairs of keys by v_multiply_pairs, whose s16 side takes
// probabilities up to 32767; what the few larger ones exceed that by is added
// apart.
#ifndef ITG_KERNELS_X86_ATTENTION_H
#define ITG_KERNELS_X86_ATTENTION_H

#include "graph/attributes.h"
#include "graph/graph.h"
#include "kernels/x86/exponential.h"
#include "kernels/x86/rescale.h"

enum {
  ATTENTION_ROWS = 4,
  ATTENTION_HEADER = 64, // Ways of the two requantizations; then their parameters.
  ATTENTION_DIM = 256,
  MOST_LARGE = 32, // Probabilities above 32767 in a row of 2^20 keys: at most 18.
#if LANES_16
  VALUE_ROWS = 4, // Rows whose sums are in registers together, for
                  // VALUE_VECTORS*LANES values each.
#else
  VALUE_ROWS = 2,
#endif
  VALUE_VECTORS = 4,
};

static bool attention_supports(const itg_task *task) {
  const itg_attention_task *t = &task->attention;
  return t->q_type == ITG_TASK_U16 && t->k_type == ITG_TASK_U8 && t->v_type == ITG_TASK_U8 && !t->score_wide &&
         !t->wide && t->dim <= ATTENTION_DIM && t->dim % (2 * LANES) == 0;
}

static size_t attention_units(const itg_task *task) {
  const itg_attention_task *t = &task->attention;
  return (size_t)((t->block + ATTENTION_ROWS - 1) / ATTENTION_ROWS * t->heads);
}

static size_t attention_packed_size(const itg_task *task) {
  (void)task;
  return ATTENTION_HEADER + 2 * PARAMETER_BYTES;
}

static void attention_pack(const itg_task *task, void *packed) {
  const itg_attention_task *t = &task->attention;
  const int32_t multiplier[] = {t->score_multiplier, t->multiplier}, shift[] = {t->score_shift, t->shift};
  const int32_t zero[] = {t->score_zero, t->out_zero};
  __builtin_memset(packed, 0, attention_packed_size(task));
  for (int side = 0; side < 2; side++) {
    const int64_t way = fits_folded(multiplier[side], shift[side], zero[side]) ? FOLDED : GENERAL;
    __builtin_memcpy((uint8_t *)packed + side * sizeof way, &way, sizeof way);
    int32_t *p = (int32_t *)(void *)((uint8_t *)packed + ATTENTION_HEADER + side * PARAMETER_BYTES);
    for (size_t lane = 0; lane < LANES; lane++) {
      pack_side(p + PARAMETER_MULTIPLIER * LANES, lane, multiplier[side], shift[side], zero[side], (rescale_way)way);
      pack_side(p + PARAMETER_NEGATIVE * LANES, lane, 0, 33, zero[side], (rescale_way)way);
    }
  }
}

// Scratch of a unit: scores of one row, their exponentials, and the
// probabilities of all rows.
static inline size_t padded_keys(const itg_attention_task *t) {
  return ((size_t)t->context + 2 * LANES - 1) / LANES * LANES;
}
static size_t attention_scratch(const itg_task *task) {
  const size_t keys = padded_keys(&task->attention);
  return keys * (sizeof(uint16_t) + sizeof(uint32_t) + ATTENTION_ROWS * sizeof(int16_t));
}

// Where the keys or values of one group are: `past` rows in the cache, the
// block's behind them.
typedef struct {
  const uint8_t *cache, *block;
  size_t past, dim, step; // step: bytes between rows of the block
} attention_source;

static inline const uint8_t *source_row(const attention_source *s, size_t key) {
  return key < s->past ? s->cache + key * s->dim : s->block + (key - s->past) * s->step;
}

// Sums of the lanes of LANES vectors, in their order.
VECTOR_INLINE vector sum_across(const vector *a) {
  vector w[LANES / 4];
#pragma GCC unroll 4
  for (int i = 0; i < LANES / 4; i++) {
    const vector x = v_add32(v_unpack_low32(a[4 * i], a[4 * i + 1]), v_unpack_high32(a[4 * i], a[4 * i + 1]));
    const vector y = v_add32(v_unpack_low32(a[4 * i + 2], a[4 * i + 3]), v_unpack_high32(a[4 * i + 2], a[4 * i + 3]));
    w[i] = v_add32(v_unpack_low64(x, y), v_unpack_high64(x, y));
  }
  return v_sum_parts(w);
}

// Sums of q[i]*k[i] for LANES keys. q: s16.
VECTOR_INLINE vector dot_keys(const int16_t *q, const uint8_t *const *keys, size_t dim) {
  vector acc[LANES];
#pragma GCC unroll 16
  for (int j = 0; j < LANES; j++) acc[j] = v_zero();
  for (size_t i = 0; i < dim; i += 2 * LANES) {
    const vector x = v_load(q + i);
#pragma GCC unroll 16
    for (int j = 0; j < LANES; j++) acc[j] = v_dot_pairs(acc[j], x, v_widen_u8_s16(keys[j] + i));
  }
  return sum_across(acc);
}

// Scores of keys [0, count) of one query; more than that is written, up to
// whole vectors. Returns the largest.
static int32_t attention_scores(const itg_attention_task *t, const void *packed, const uint16_t *q,
                                const attention_source *keys, size_t count, uint16_t *scores) {
  int16_t centred[ATTENTION_DIM], ones[ATTENTION_DIM];
  int64_t way, sum = 0;
  __builtin_memcpy(&way, packed, sizeof way);
  for (size_t i = 0; i < keys->dim; i++) {
    centred[i] = (int16_t)(q[i] - 32768);
    ones[i] = 1;
    sum += q[i] - t->q_zero;
  }
  const int32_t *parameters = (const int32_t *)(const void *)((const uint8_t *)packed + ATTENTION_HEADER);
  const ending ends = {.zero = t->score_zero, .way = (rescale_way)way};
  const vector offset = v_set32((int32_t)(-(int64_t)t->k_zero * sum)), low = v_zero(), high = v_set32(65535);
  const int32_t shift = 32768 - t->q_zero;
  vector most = v_zero();
  for (size_t j = 0; j < count; j += LANES) {
    const uint8_t *rows[LANES];
    for (size_t lane = 0; lane < LANES; lane++) rows[lane] = source_row(keys, j + lane < count ? j + lane : count - 1);
    vector acc = v_add32(dot_keys(centred, rows, keys->dim), offset);
    if (shift) acc = v_add32(acc, v_mullo32(dot_keys(ones, rows, keys->dim), v_set32(shift)));
    rescale_vector(&acc, 1, 1, parameters, &ends);
    acc = v_min32(v_max32(acc, low), high);
    most = v_max32(most, acc); // Lanes past the end repeat the last key.
    v_store_lanes_u16(scores + j, acc, LANES);
  }
  int32_t lanes[LANES], largest = 0;
  v_store(lanes, most);
  for (int lane = 0; lane < LANES; lane++) largest = lanes[lane] > largest ? lanes[lane] : largest;
  return largest;
}

typedef struct {
  size_t count;
  size_t key[MOST_LARGE];
  int32_t excess[MOST_LARGE];
} large_probabilities;

// Probabilities of a row, at most 32767, with zeros up to `keys`; the rest of
// larger ones in `large`. Returns their sum.
static int64_t attention_probabilities(const itg_attention_task *t, const uint16_t *scores, size_t count, size_t keys,
                                       int32_t largest, uint32_t *e, int16_t *out, large_probabilities *large) {
  const uint64_t sum = exponentials_of_row(scores, count, largest, t->k_factor, t->k_shift, e);
  const __m256i reciprocal = _mm256_set1_epi64x((int64_t)(((uint64_t)1 << 47) / sum));
  const __m256i most = _mm256_set1_epi32(32767);
  __m256i total = _mm256_setzero_si256();
  large->count = 0;
  for (size_t j = 0; j < keys; j += 8) {
    const __m256i p = j < count ? probabilities_of(e + j, reciprocal) : _mm256_setzero_si256();
    total = _mm256_add_epi32(total,
                             p); // Probabilities sum to 2^16 and half a code a key: below 2^20.
    const __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(p), _mm256_extracti128_si256(p, 1)); // Saturates.
    _mm_storeu_si128((__m128i *)(void *)(out + j), packed);
    if (_mm256_movemask_epi8(_mm256_cmpgt_epi32(p, most)) == 0) continue;
    int32_t lanes[8];
    _mm256_storeu_si256((__m256i *)(void *)lanes, p);
    for (size_t lane = 0; lane < 8; lane++) {
      if (lanes[lane] <= 32767 || large->count == MOST_LARGE) continue;
      large->key[large->count] = j + lane;
      large->excess[large->count++] = lanes[lane] - 32767;
    }
  }
  int32_t lanes[8];
  int64_t whole = 0;
  _mm256_storeu_si256((__m256i *)(void *)lanes, total);
  for (size_t lane = 0; lane < 8; lane++) whole += lanes[lane];
  return whole;
}

// Weighted sums of `vectors` vectors of values for `rows` rows into
// acc[rows][VALUE_VECTORS].
VECTOR_INLINE void sum_values(const attention_source *values, size_t first, size_t keys, const int16_t *const *p,
                              const int rows, const int vectors, vector *acc) {
#pragma GCC unroll 16
  for (int i = 0; i < rows * VALUE_VECTORS; i++) acc[i] = v_zero();
  for (size_t j = 0; j < keys; j += 2) {
    const uint8_t *a = source_row(values, j) + first;
    const uint8_t *b = j + 1 < keys ? source_row(values, j + 1) + first : a; // Its probability is 0.
    vector x[VALUE_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) x[r] = v_broadcast32(p[r] + j);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      const vector pair = v_or(v_widen_u8(a + v * LANES), v_shift_left32_same(v_widen_u8(b + v * LANES), 16));
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) acc[r * VALUE_VECTORS + v] = v_dot_pairs(acc[r * VALUE_VECTORS + v], x[r], pair);
    }
  }
}

static void sum_values_of(const attention_source *values, size_t first, size_t keys, const int16_t *const *p, int rows,
                          int vectors, vector *acc) {
  if (vectors == VALUE_VECTORS && rows == VALUE_ROWS) {
    sum_values(values, first, keys, p, VALUE_ROWS, VALUE_VECTORS, acc);
  } else if (vectors == VALUE_VECTORS) {
    for (int r = 0; r < rows; r++) sum_values(values, first, keys, p + r, 1, VALUE_VECTORS, acc + r * VALUE_VECTORS);
  } else {
    for (int r = 0; r < rows; r++) sum_values(values, first, keys, p + r, 1, 2, acc + r * VALUE_VECTORS);
  }
}

typedef struct {
  int16_t *p[ATTENTION_ROWS];
  int64_t total[ATTENTION_ROWS];
  large_probabilities large[ATTENTION_ROWS];
} attention_rows;

static void attention_values(const itg_attention_task *t, const void *packed, const attention_source *values,
                             size_t keys, const attention_rows *rows, size_t count, uint8_t *out, size_t out_step) {
  int64_t way;
  __builtin_memcpy(&way, (const uint8_t *)packed + sizeof way, sizeof way);
  const int32_t *parameters =
      (const int32_t *)(const void *)((const uint8_t *)packed + ATTENTION_HEADER + PARAMETER_BYTES);
  const ending ends = {.zero = t->out_zero, .way = (rescale_way)way};
  const vector low = v_set32(t->low), high = v_set32(t->high);
  const size_t out_size = t->out_type == ITG_TASK_U16 ? 2 : 1;
  for (size_t first = 0, width; first < values->dim; first += width) {
    const int vectors = values->dim - first >= VALUE_VECTORS * LANES ? VALUE_VECTORS : 2;
    width = (size_t)vectors * LANES;
    for (size_t r0 = 0; r0 < count; r0 += VALUE_ROWS) {
      const size_t part = count - r0 < VALUE_ROWS ? count - r0 : VALUE_ROWS;
      vector acc[VALUE_ROWS * VALUE_VECTORS];
      const int16_t *p[VALUE_ROWS];
      for (size_t r = 0; r < part; r++) p[r] = rows->p[r0 + r];
      sum_values_of(values, first, keys, p, (int)part, vectors, acc);
      for (size_t r = 0; r < part; r++) {
        const large_probabilities *large = &rows->large[r0 + r];
        const vector offset = v_set32((int32_t)(-(int64_t)t->v_zero * rows->total[r0 + r]));
        for (int v = 0; v < vectors; v++) {
          vector a = v_add32(acc[r * VALUE_VECTORS + (size_t)v], offset);
          for (size_t i = 0; i < large->count; i++) {
            const uint8_t *row = source_row(values, large->key[i]) + first + (size_t)v * LANES;
            a = v_add32(a, v_mullo32(v_widen_u8(row), v_set32(large->excess[i])));
          }
          rescale_vector(&a, 1, 1, parameters, &ends);
          a = v_min32(v_max32(a, low), high);
          uint8_t *to = out + (r0 + r) * out_step + (first + (size_t)v * LANES) * out_size;
          if (out_size == 2) {
            v_store_lanes_u16((uint16_t *)(void *)to, a, LANES);
          } else {
            v_store_lanes_u8(to, a, LANES);
          }
        }
      }
    }
  }
}

static void attention_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_attention_task *t = &task->attention;
  const size_t dim = (size_t)t->dim, context = (size_t)t->context, heads = (size_t)t->heads;
  const size_t groups = (size_t)t->groups, in_group = heads / groups;
  const int64_t last = t->context - t->block, given = *(const int32_t *)call->inputs[ITG_ATTENTION_POSITION];
  const size_t past = (size_t)(given < 0 ? 0 : given > last ? last : given);
  const size_t padded = padded_keys(t), out_size = t->out_type == ITG_TASK_U16 ? 2 : 1;
  uint32_t *e = call->scratch;
  uint16_t *scores = (uint16_t *)(void *)(e + padded);
  attention_rows rows;
  for (size_t r = 0; r < ATTENTION_ROWS; r++) rows.p[r] = (int16_t *)(void *)(scores + padded) + r * padded;
  for (size_t unit = begin; unit < end; unit++) {
    const size_t head = unit % heads, group = head / in_group, first = unit / heads * ATTENTION_ROWS;
    const size_t count = (size_t)t->block - first < ATTENTION_ROWS ? (size_t)t->block - first : ATTENTION_ROWS;
    const size_t offset = group * context * dim, keys_seen = past + first + count;
    const attention_source keys = {(const uint8_t *)call->inputs[ITG_ATTENTION_K_CACHE] + offset,
                                   (const uint8_t *)call->inputs[ITG_ATTENTION_K] + group * dim, past, dim,
                                   groups * dim};
    const attention_source values = {(const uint8_t *)call->inputs[ITG_ATTENTION_V_CACHE] + offset,
                                     (const uint8_t *)call->inputs[ITG_ATTENTION_V] + group * dim, past, dim,
                                     groups * dim};
    for (size_t r = 0; r < count; r++) {
      const uint16_t *q = (const uint16_t *)call->inputs[ITG_ATTENTION_Q] + ((first + r) * heads + head) * dim;
      const size_t seen = past + first + r + 1;
      const int32_t largest = attention_scores(t, call->packed, q, &keys, seen, scores);
      rows.total[r] = attention_probabilities(t, scores, seen, keys_seen + 1, largest, e, rows.p[r], &rows.large[r]);
    }
    uint8_t *out = (uint8_t *)call->outputs[0] + (first * heads + head) * dim * out_size;
    attention_values(t, call->packed, &values, keys_seen, &rows, count, out, heads * dim * out_size);
    for (size_t r = 0; r < count && head % in_group == 0; r++) { // The first head of a group keeps its rows.
      const size_t at = (past + first + r) * dim, from = (first + r) * keys.step;
      __builtin_memcpy((uint8_t *)keys.cache + at, keys.block + from, dim);
      __builtin_memcpy((uint8_t *)values.cache + at, values.block + from, dim);
    }
  }
}

#define ATTENTION_KERNEL(isa_name)                                                    \
  const itg_kernel itg_attention__##isa_name = {.name = "itg_attention__" #isa_name,  \
                                                .op = ITG_OP_Q_ATTENTION,             \
                                                .isa = KERNEL_ISA,                    \
                                                .supports = attention_supports,       \
                                                .packed_size = attention_packed_size, \
                                                .pack = attention_pack,               \
                                                .scratch_size = attention_scratch,    \
                                                .units = attention_units,             \
                                                .run = attention_run}

#endif
