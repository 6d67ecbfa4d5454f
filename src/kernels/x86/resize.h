// Bilinear and nearest resize over channels in lanes (template; included by resize_<isa>.c). Units are output rows.
#ifndef ITG_KERNELS_X86_RESIZE_H
#define ITG_KERNELS_X86_RESIZE_H

#include "graph/graph.h"
#include "kernels/x86/sums.h"

static size_t resize_units(const itg_task *task) { return (size_t)task->resize.batch * (size_t)task->resize.out_h; }

static bool resize_supports(const itg_task *task) { return codes_only(task->resize.type); }

// The four corners of one output pixel and their weights, which add up to 2^22.
typedef struct {
  const uint8_t *at[4];
  int32_t weight[4];
} corners;

// u8: 255 * 2^22 + 2^21 < 2^31.
VECTOR_INLINE void resize_bytes(const corners *k, uint8_t *out, size_t channels) {
  const vector low = v_zero(), high = v_set32(255), round = v_set32(1 << 21);
  for (size_t c = 0; c < channels; c += LANES) {
    vector sum = round;
    for (int i = 0; i < 4; i++) sum = v_add32(sum, v_mullo32(v_widen_u8(k->at[i] + c), v_set32(k->weight[i])));
    const size_t rest = channels - c;
    store_codes(out, (int64_t)c, ITG_TASK_U8, v_shift_right32_same(sum, 22), low, high,
                rest < LANES ? (int64_t)rest : LANES);
  }
}

VECTOR_INLINE void resize_words(const corners *k, uint8_t *out, size_t channels) {
  const vector low = v_zero(), high = v_set32(65535);
  for (size_t c = 0; c < channels; c += LANES) {
    vector even = v_set64(1 << 21), odd = even;
    for (int i = 0; i < 4; i++) {
      const vector x = v_widen_u16(k->at[i] + 2 * c), w = v_set32(k->weight[i]);
      even = v_add64(even, v_multiply64(x, w));
      odd = v_add64(odd, v_multiply64(v_odd(x), w));
    }
    const vector value = v_merge_odd(v_shift_right64_same(even, 22), v_shift_right64_same(odd, 22));
    const size_t rest = channels - c;
    store_codes(out, (int64_t)c, ITG_TASK_U16, value, low, high, rest < LANES ? (int64_t)rest : LANES);
  }
}

static void resize_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_resize_task *t = &task->resize;
  const bool words = t->type == ITG_TASK_U16;
  const size_t pixel = (size_t)t->channels * (words ? 2 : 1);
  for (size_t unit = begin; unit < end; unit++) {
    const size_t n = unit / (size_t)t->out_h, oy = unit % (size_t)t->out_h;
    const int32_t wy = t->row_weight[oy];
    const uint8_t *lines[2];
    for (int i = 0; i < 2; i++)
      lines[i] = (const uint8_t *)call->inputs[0] +
                 (n * (size_t)t->in_h + (size_t)t->row_index[2 * oy + (size_t)i]) * (size_t)t->in_w * pixel;
    uint8_t *out = (uint8_t *)call->outputs[0] + unit * (size_t)t->out_w * pixel;
    for (int32_t ox = 0; ox < t->out_w; ox++, out += pixel) {
      const int32_t wx = t->column_weight[ox];
      const size_t left = (size_t)t->column_index[2 * ox] * pixel, right = (size_t)t->column_index[2 * ox + 1] * pixel;
      if (wx == 0 && wy == 0) {
        __builtin_memcpy(out, lines[0] + left, pixel);
        continue;
      }
      const corners k = {.at = {lines[0] + left, lines[0] + right, lines[1] + left, lines[1] + right},
                         .weight = {(2048 - wx) * (2048 - wy), wx * (2048 - wy), (2048 - wx) * wy, wx * wy}};
      if (words) {
        resize_words(&k, out, (size_t)t->channels);
      } else {
        resize_bytes(&k, out, (size_t)t->channels);
      }
    }
  }
}

#define RESIZE_KERNEL(isa_name)                                                \
  const itg_kernel itg_resize__##isa_name = {.name = "itg_resize__" #isa_name, \
                                             .op = ITG_OP_Q_RESIZE,            \
                                             .isa = KERNEL_ISA,                \
                                             .supports = resize_supports,      \
                                             .units = resize_units,            \
                                             .run = resize_run}

#endif
