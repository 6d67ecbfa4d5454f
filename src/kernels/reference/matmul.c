// Matrix product of two activations (docs/ARITHMETIC.md 1, 2).
#include "graph/attributes.h"
#include "graph/op.h"
#include "kernels/reference/access.h"

static size_t units(const itg_task *task) { return (size_t)task->matmul.batch * (size_t)task->matmul.m; }

static void run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_matmul_task *t = &task->matmul;
  for (size_t row = begin; row < end; row++) {
    const int64_t batch = (int64_t)row / t->m, i = (int64_t)row % t->m;
    for (int32_t j = 0; j < t->n; j++) {
      int64_t acc = 0;
      for (int32_t k = 0; k < t->k; k++) {
        const int64_t a = t->a_offset[batch] + i * t->k + k;
        const int64_t b = t->b_offset[batch] + (t->transpose_b ? (int64_t)j * t->k + k : (int64_t)k * t->n + j);
        acc += (int64_t)(itg_load(call->inputs[0], a, t->a_type) - t->a_zero) *
               (itg_load(call->inputs[1], b, t->b_type) - t->b_zero);
      }
      const int32_t code =
          t->wide ? itg_requantize64(acc, t->multiplier, t->shift, t->pre_shift, t->out_zero, t->low, t->high)
                  : itg_requantize(acc, t->multiplier, t->shift, t->out_zero, t->low, t->high);
      itg_store(call->outputs[0], (int64_t)row * t->n + j, t->out_type, code);
    }
  }
}

const itg_kernel itg_matmul__reference = {
    .name = "itg_matmul__reference", .op = ITG_OP_Q_MATMUL, .units = units, .run = run};
