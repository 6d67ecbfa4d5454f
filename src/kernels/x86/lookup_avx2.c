// Table look-ups (AVX2): 256 entries for u8 codes, linear between nodes for u16 codes (docs/ARITHMETIC.md 4).
#include "kernels/x86/vector_256.h"

#include "graph/graph.h"
#include "kernels/x86/rescale.h"

enum { CHUNK = 4096 };

static size_t table_units(const itg_task *task) { return ((size_t)task->table.count + CHUNK - 1) / CHUNK; }

static bool table_supports(const itg_task *task) {
  const itg_table_task *t = &task->table;
  return (t->in_type == ITG_TASK_U8 || t->in_type == ITG_TASK_U16) &&
         (t->out_type == ITG_TASK_U8 || t->out_type == ITG_TASK_U16);
}

// Between two nodes: (t0*(2^n - f) + t1*f + 2^(n+3)) >> (n+4). The nodes stay within +-2^(30-n), so that the sum fits s32.
static void between_nodes(const itg_table_task *t, const uint16_t *in, void *out, int64_t first, int64_t last) {
  const int *table = t->table;
  const __m256i mask = v_set32((1 << t->node_bits) - 1), whole = v_set32(1 << t->node_bits);
  const __m256i round = v_set32(1 << (t->node_bits + 3)), low = v_set32(t->low), high = v_set32(t->high);
  for (int64_t i = first; i < last; i += LANES) {
    const size_t count = last - i < LANES ? (size_t)(last - i) : LANES;
    const __m256i code = v_widen_u16(in + i), f = _mm256_and_si256(code, mask);
    const __m256i node = _mm256_srl_epi32(code, _mm_cvtsi32_si128(t->node_bits));
    const __m256i a = _mm256_i32gather_epi32(table, node, 4), b = _mm256_i32gather_epi32(table + 1, node, 4);
    const __m256i sum = v_add32(v_add32(v_mullo32(a, v_sub32(whole, f)), v_mullo32(b, f)), round);
    const __m256i value = v_min32(v_max32(v_shift_right32_same(sum, t->node_bits + 4), low), high);
    if (t->out_type == ITG_TASK_U16) {
      v_store_lanes_u16((uint16_t *)out + i, value, count);
    } else {
      v_store_lanes_u8((uint8_t *)out + i, value, count);
    }
  }
}

static void table_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_table_task *t = &task->table;
  const int64_t first = (int64_t)begin * CHUNK,
                last = (int64_t)end * CHUNK < t->count ? (int64_t)end * CHUNK : t->count;
  if (t->in_type == ITG_TASK_U16) {
    between_nodes(t, call->inputs[0], call->outputs[0], first, last);
    return;
  }
  const uint8_t *in = call->inputs[0];
  if (t->out_type == ITG_TASK_U8) {
    const uint8_t *table = t->table;
    uint8_t *out = call->outputs[0];
    for (int64_t i = first; i < last; i++) out[i] = table[in[i]];
  } else {
    const uint16_t *table = t->table;
    uint16_t *out = call->outputs[0];
    for (int64_t i = first; i < last; i++) out[i] = table[in[i]];
  }
}

const itg_kernel itg_table__avx2 = {.name = "itg_table__avx2",
                                    .op = ITG_OP_Q_TABLE,
                                    .isa = ITG_ISA_AVX2,
                                    .supports = table_supports,
                                    .units = table_units,
                                    .run = table_run};
