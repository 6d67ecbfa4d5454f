// Softmax over u16 codes (AVX2; docs/ARITHMETIC.md 4). Units are rows.
//
// The exponentials of a row are kept in scratch as Q24, so that they are computed once.
#include "kernels/x86/vector_256.h"

#include "graph/graph.h"
#include "kernels/x86/exponential.h"
#include "kernels/x86/rescale.h"

enum { SOFTMAX_HEADER = 64 };

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
  if (!keep) return exponentials_of_row(x, (size_t)t->length, largest, t->k, t->k_shift, e);
  __m256i sum = v_zero();
  for (int64_t i = 0; i < t->length; i += LANES) {
    v_store(e + i, exponentials_of_codes(x + i, largest, t->k, t->k_shift));
    for (int64_t lane = 0; lane < LANES; lane++) {
      if (i + lane >= t->length || !keep[(i + lane) * step]) e[i + lane] = 0;
    }
    sum = add_exponentials(sum, v_load(e + i));
  }
  return total_of(sum);
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
  for (size_t row = begin; row < end; row++) {
    const int64_t start = (int64_t)row * t->length;
    const uint16_t *x = (const uint16_t *)call->inputs[0] + start;
    const uint8_t *keep = mask ? mask + mask_offset(t, (int64_t)row) : NULL;
    const int32_t largest = largest_code(x, t->length, keep, step);
    const uint64_t sum = row_exponentials(t, x, keep, step, largest < 0 ? 0 : largest, e);
    // A row with nothing left has only zeros in e. Otherwise sum >= 2^23, so that the reciprocal fits 25 bits.
    const __m256i reciprocal = v_set64(sum ? (int64_t)(((uint64_t)1 << 47) / sum) : 0);
    for (int64_t i = 0; i < t->length; i += LANES) {
      __m256i p = scaled_exponentials(e + i, reciprocal, drop);
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
