// Softmax over u16 codes (AVX2; docs/ARITHMETIC.md 4). Units are rows.
//
// The exponentials of a row are kept in scratch as Q24, so that they are computed once.
#include "kernels/x86/vector_256.h"

#include "graph/graph.h"
#include "kernels/x86/rescale.h"
#include "tensor/exp2_table.h"

enum { SOFTMAX_HEADER = 64, GONE = 25 }; // From 2^-25 on the exponential is 0.

static size_t softmax_units(const itg_task *task) { return (size_t)task->softmax.rows; }

static size_t softmax_scratch_size(const itg_task *task) {
  return ((size_t)task->softmax.length + LANES) * sizeof(uint32_t);
}

static bool softmax_supports(const itg_task *task) {
  const itg_softmax_task *t = &task->softmax;
  return t->k_shift >= 1 && t->k_shift <= 62 && (t->out_type == ITG_TASK_U16 || t->out_type == ITG_TASK_U8);
}

static size_t softmax_packed_size(const itg_task *task) {
  (void)task;
  return SOFTMAX_HEADER + PARAMETER_BYTES;
}

// The requantization of a u8 output; nothing of it is used for u16.
static void softmax_pack(const itg_task *task, void *packed) {
  const itg_softmax_task *t = &task->softmax;
  const int64_t fast = fits_folded(t->multiplier, t->shift, t->out_zero);
  __builtin_memset(packed, 0, SOFTMAX_HEADER + PARAMETER_BYTES);
  __builtin_memcpy(packed, &fast, sizeof fast);
  int32_t *p = (int32_t *)(void *)((uint8_t *)packed + SOFTMAX_HEADER);
  for (size_t lane = 0; lane < LANES; lane++) {
    pack_side(p + PARAMETER_MULTIPLIER * LANES, lane, t->multiplier, t->shift, t->out_zero, fast ? FOLDED : GENERAL);
    pack_side(p + PARAMETER_NEGATIVE * LANES, lane, 0, 33, t->out_zero, fast ? FOLDED : GENERAL);
  }
}

// 64-bit distances, limited to GONE << 16 so that they fit 32 bits.
VECTOR_INLINE __m256i limited(__m256i distance) { return v_min64(distance, v_set64((int64_t)GONE << 16)); }

// Q24 exponentials of eight distances d = largest - code (>= 0).
VECTOR_INLINE __m256i exponentials(__m256i d, const itg_softmax_task *t) {
  const __m256i k = v_set32(t->k), half = v_set64((int64_t)1 << (t->k_shift - 1));
  const __m256i even = limited(v_shift_right64_same(v_add64(_mm256_mul_epi32(d, k), half), t->k_shift));
  const __m256i odd = limited(v_shift_right64_same(v_add64(_mm256_mul_epi32(v_odd(d), k), half), t->k_shift));
  const __m256i w = v_merge_odd(even, odd);
  const __m256i n = _mm256_srli_epi32(w, 16), f = _mm256_and_si256(w, v_set32(65535));
  const __m256i i = _mm256_srli_epi32(f, 8), o = _mm256_and_si256(f, v_set32(255));
  const int *table = (const int *)itg_exp2_table;
  const __m256i first = _mm256_i32gather_epi32(table, i, 4), second = _mm256_i32gather_epi32(table + 1, i, 4);
  const __m256i part = v_mullo32(v_sub32(first, second), o); // Below 2^31: neighbours differ by less than 2^23.
  const __m256i value = v_sub32(first, _mm256_srli_epi32(v_add32(part, v_set32(128)), 8));
  // value <= 2^31 and 2^(n+6) <= 2^30: the sum fits u32.
  const __m256i round = _mm256_sllv_epi32(v_set32(64), n);
  const __m256i e = _mm256_srlv_epi32(v_add32(value, round), v_add32(n, v_set32(7)));
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(n, v_set32(GONE - 1)), e);
}

static int64_t mask_offset(const itg_softmax_task *t, int64_t row) {
  int64_t offset = 0;
  for (int32_t d = t->rank - 2; d >= 0; d--) {
    offset += row % t->dims[d] * t->mask_stride[d];
    row /= t->dims[d];
  }
  return offset;
}

// The largest code that is not masked; -1 when none is left.
static int32_t largest_code(const uint16_t *x, int64_t length, const uint8_t *keep, int64_t step) {
  int32_t largest = -1;
  int64_t i = 0;
  if (!keep && length >= 2 * LANES) {
    __m256i most = v_load(x);
    for (i = 2 * LANES; i + 2 * LANES <= length; i += 2 * LANES) most = v_max_u16(most, v_load(x + i));
    uint16_t lanes[2 * LANES];
    v_store(lanes, most);
    for (int lane = 0; lane < 2 * LANES; lane++) largest = lanes[lane] > largest ? lanes[lane] : largest;
  }
  for (; i < length; i++) {
    if ((!keep || keep[i * step]) && x[i] > largest) largest = x[i];
  }
  return largest;
}

// Fills e[length] and returns its sum.
static uint64_t row_exponentials(const itg_softmax_task *t, const uint16_t *x, const uint8_t *keep, int64_t step,
                                 int32_t largest, uint32_t *e) {
  const __m256i top = v_set32(largest);
  __m256i sum = v_zero();
  for (int64_t i = 0; i < t->length; i += LANES) {
    // Codes behind the row or masked may lie above the largest; their distance is limited and their result dropped.
    const __m256i d = v_max32(v_sub32(top, v_widen_u16(x + i)), v_zero());
    v_store(e + i, exponentials(d, t));
    const int64_t rest = t->length - i < LANES ? t->length - i : LANES;
    for (int64_t lane = rest; lane < LANES; lane++) e[i + lane] = 0;
    if (keep) {
      for (int64_t lane = 0; lane < rest; lane++) {
        if (!keep[(i + lane) * step]) e[i + lane] = 0;
      }
    }
    const __m256i values = v_load(e + i);
    sum = v_add64(sum, v_add64(_mm256_and_si256(values, v_set64(UINT32_MAX)), _mm256_srli_epi64(values, 32)));
  }
  uint64_t lanes[4];
  v_store(lanes, sum);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

static void softmax_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_softmax_task *t = &task->softmax;
  const uint8_t *mask = t->has_mask ? call->inputs[1] : NULL;
  const int64_t step = t->has_mask ? t->mask_stride[t->rank - 1] : 0;
  uint32_t *e = call->scratch;
  int64_t fast;
  __builtin_memcpy(&fast, call->packed, sizeof fast);
  const int32_t *parameters = (const int32_t *)(const void *)((const uint8_t *)call->packed + SOFTMAX_HEADER);
  const ending ends = {.zero = t->out_zero, .way = fast ? FOLDED : GENERAL};
  const __m256i low = v_set32(t->low), high = v_set32(t->high);
  const bool words = t->out_type == ITG_TASK_U16;
  const int32_t drop = words ? 31 : 17; // Q47 to Q16, or to the 31 bits that the requantization takes.
  const __m256i half = v_set64((int64_t)1 << (drop - 1));
  for (size_t row = begin; row < end; row++) {
    const int64_t start = (int64_t)row * t->length;
    const uint16_t *x = (const uint16_t *)call->inputs[0] + start;
    const uint8_t *keep = mask ? mask + mask_offset(t, (int64_t)row) : NULL;
    const int32_t largest = largest_code(x, t->length, keep, step);
    const uint64_t sum = row_exponentials(t, x, keep, step, largest < 0 ? 0 : largest, e);
    // A row with nothing left has only zeros in e. Otherwise sum >= 2^23, so that the reciprocal fits 25 bits.
    const __m256i reciprocal = v_set64(sum ? (int64_t)(((uint64_t)1 << 47) / sum) : 0);
    for (int64_t i = 0; i < t->length; i += LANES) {
      const __m256i values = v_load(e + i);
      const __m256i even = v_shift_right64_same(v_add64(_mm256_mul_epu32(values, reciprocal), half), drop);
      const __m256i odd = v_shift_right64_same(v_add64(_mm256_mul_epu32(v_odd(values), reciprocal), half), drop);
      __m256i p = v_merge_odd(even, odd);
      const size_t count = t->length - i < LANES ? (size_t)(t->length - i) : LANES;
      if (words) {
        v_store_lanes_u16((uint16_t *)call->outputs[0] + start + i, v_min32(p, v_set32(65535)), count);
      } else {
        rescale_vector(&p, 1, 1, parameters, &ends);
        p = v_min32(v_max32(p, low), high);
        v_store_lanes_u8((uint8_t *)call->outputs[0] + start + i, p, count);
      }
    }
  }
}

const itg_kernel itg_softmax__avx2 = {.name = "itg_softmax__avx2",
                                      .op = ITG_OP_Q_SOFTMAX,
                                      .isa = ITG_ISA_AVX2,
                                      .supports = softmax_supports,
                                      .packed_size = softmax_packed_size,
                                      .pack = softmax_pack,
                                      .scratch_size = softmax_scratch_size,
                                      .units = softmax_units,
                                      .run = softmax_run};
