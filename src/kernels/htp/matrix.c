// Convolution, fully connected and MatMul in the NPU's arithmetic (profiles htp-v68 and htp-v73): they predict on any machine
// what the NPU answers. Written for clarity; never fast.
#include "graph/op.h"
#include "kernels/htp/rule.h"
#include "kernels/reference/access.h"

static bool supports_conv(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
  return !t->negative_multiplier && t->in_type == t->out_type && t->in_scale > 0 && t->out_scale > 0 &&
         t->weight_scale && (t->weight_scale_count == 1 || t->weight_scale_count == t->out_c);
}

static size_t conv_packed(const itg_task *task) { return (size_t)task->conv.out_c * sizeof(itg_htp_rule); }

static void pack_conv(const itg_task *task, void *packed, int is_v73) {
  const itg_conv_task *t = &task->conv;
  const int64_t row = (int64_t)t->kernel_h * t->kernel_w * (t->in_c / t->group);
  for (int32_t o = 0; o < t->out_c; o++) {
    int64_t sum = 0;
    for (int64_t k = 0; k < row; k++) sum += itg_conv_weight(t, o * row + k);
    const double weight_scale = t->weight_scale[t->weight_scale_count == 1 ? 0 : o];
    const int is_wide = t->in_type == ITG_TASK_U16;
    const int32_t bias = itg_htp_bias(is_v73, is_wide, t->in_scale, weight_scale, t->out_scale, t->bias[o]);
    itg_htp_rule_make(is_v73, is_wide, t->in_scale, weight_scale, t->out_scale, bias, sum, t->in_zero, t->out_zero,
                      (itg_htp_rule *)packed + o);
  }
}
static void pack_conv_v68(const itg_task *task, void *packed) { pack_conv(task, packed, 0); }
static void pack_conv_v73(const itg_task *task, void *packed) { pack_conv(task, packed, 1); }

static size_t row_units(const itg_task *task) { return (size_t)task->conv.batch * (size_t)task->conv.out_h; }

static void convolve(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_conv_task *t = &task->conv;
  const itg_htp_rule *rules = call->packed;
  const int32_t in_group = t->in_c / t->group, out_group = t->out_c / t->group;
  for (size_t row = begin; row < end; row++) {
    const int64_t n = (int64_t)row / t->out_h, oy = (int64_t)row % t->out_h;
    for (int32_t ox = 0; ox < t->out_w; ox++) {
      for (int32_t o = 0; o < t->out_c; o++) {
        int64_t raw = 0, centred = 0;
        for (int32_t ky = 0; ky < t->kernel_h; ky++) {
          const int64_t y = oy * t->stride_h - t->pad_top + (int64_t)ky * t->dilation_h;
          for (int32_t kx = 0; kx < t->kernel_w; kx++) {
            const int64_t x = (int64_t)ox * t->stride_w - t->pad_left + (int64_t)kx * t->dilation_w;
            const bool inside = y >= 0 && y < t->in_h && x >= 0 && x < t->in_w;
            const int64_t in = ((n * t->in_h + y) * t->in_w + x) * t->in_c + (int64_t)(o / out_group) * in_group;
            const int64_t first = (((int64_t)o * t->kernel_h + ky) * t->kernel_w + kx) * in_group;
            for (int32_t c = 0; c < in_group; c++) {
              const int32_t code = inside ? itg_load(call->inputs[0], in + c, t->in_type) : t->in_zero;
              const int64_t w = itg_conv_weight(t, first + c);
              raw += w * code;
              centred += w * (code - t->in_zero);
            }
          }
        }
        itg_store(call->outputs[0], ((int64_t)row * t->out_w + ox) * t->out_c + o, t->out_type,
                  itg_htp_apply(&rules[o], raw, centred, t->out_zero, t->low, t->high));
      }
    }
  }
}

static bool supports_matmul(const itg_task *task) {
  const itg_matmul_task *t = &task->matmul;
  return t->a_type == t->out_type && t->a_scale > 0 && t->b_scale > 0 && t->out_scale > 0;
}

static size_t matmul_units(const itg_task *task) { return (size_t)task->matmul.batch * (size_t)task->matmul.m; }

// The second operand is dynamic: its sums, and with them the rule's addend, belong to each output column.
static void multiply(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end, int is_v73) {
  const itg_matmul_task *t = &task->matmul;
  for (size_t row = begin; row < end; row++) {
    const int64_t batch = (int64_t)row / t->m, i = (int64_t)row % t->m;
    for (int32_t j = 0; j < t->n; j++) {
      int64_t raw = 0, centred = 0, sum = 0;
      for (int32_t k = 0; k < t->k; k++) {
        const int64_t b_at = t->b_offset[batch] + (t->transpose_b ? (int64_t)j * t->k + k : (int64_t)k * t->n + j);
        const int32_t a = itg_load(call->inputs[0], t->a_offset[batch] + i * t->k + k, t->a_type);
        const int32_t b = itg_load(call->inputs[1], b_at, t->b_type) - t->b_zero;
        raw += (int64_t)b * a;
        centred += (int64_t)b * (a - t->a_zero);
        sum += b;
      }
      itg_htp_rule rule;
      itg_htp_rule_make(is_v73, t->a_type == ITG_TASK_U16, t->a_scale, t->b_scale, t->out_scale, 0, sum, t->a_zero,
                        t->out_zero, &rule);
      itg_store(call->outputs[0], (int64_t)row * t->n + j, t->out_type,
                itg_htp_apply(&rule, raw, centred, t->out_zero, t->low, t->high));
    }
  }
}
static void multiply_v68(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  multiply(task, call, begin, end, 0);
}
static void multiply_v73(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  multiply(task, call, begin, end, 1);
}

#define CONVOLUTION(symbol, operation, profile, packer)  \
  const itg_kernel symbol = {.name = #symbol,            \
                             .op = operation,            \
                             .isa = profile,             \
                             .supports = supports_conv,  \
                             .packed_size = conv_packed, \
                             .pack = packer,             \
                             .units = row_units,         \
                             .run = convolve}
CONVOLUTION(itg_conv__htp_v68, ITG_OP_Q_CONV, ITG_ISA_HTP_V68, pack_conv_v68);
CONVOLUTION(itg_conv__htp_v73, ITG_OP_Q_CONV, ITG_ISA_HTP_V73, pack_conv_v73);
CONVOLUTION(itg_fully_connected__htp_v68, ITG_OP_Q_FULLY_CONNECTED, ITG_ISA_HTP_V68, pack_conv_v68);
CONVOLUTION(itg_fully_connected__htp_v73, ITG_OP_Q_FULLY_CONNECTED, ITG_ISA_HTP_V73, pack_conv_v73);
const itg_kernel itg_matmul__htp_v68 = {.name = "itg_matmul__htp_v68",
                                        .op = ITG_OP_Q_MATMUL,
                                        .isa = ITG_ISA_HTP_V68,
                                        .supports = supports_matmul,
                                        .units = matmul_units,
                                        .run = multiply_v68};
const itg_kernel itg_matmul__htp_v73 = {.name = "itg_matmul__htp_v73",
                                        .op = ITG_OP_Q_MATMUL,
                                        .isa = ITG_ISA_HTP_V73,
                                        .supports = supports_matmul,
                                        .units = matmul_units,
                                        .run = multiply_v73};
