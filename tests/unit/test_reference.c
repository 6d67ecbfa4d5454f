// Reference kernels against exact real arithmetic in double: errors stay within the brackets of docs/ARITHMETIC.md.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "kernels/kernels.h"
#include "tensor/exp2_table.h"
#include "tensor/multiplier.h"

static uint64_t seed = 1;
static uint32_t random_bits(void) { // xorshift64*
  seed ^= seed >> 12;
  seed ^= seed << 25;
  seed ^= seed >> 27;
  return (uint32_t)((seed * 0x2545f4914f6cdd1dULL) >> 32);
}
static double uniform(double low, double high) { return low + (high - low) * random_bits() / 4294967296.0; }
static double normal(void) { return sqrt(-2 * log(uniform(1e-12, 1))) * cos(6.283185307179586 * uniform(0, 1)); }

static void run_task(const itg_task *task, const void *a, const void *b, void *out, void *out2) {
  const itg_kernel *kernel = itg_kernel_find(task, 0);
  assert_non_null(kernel);
  assert_int_equal(kernel->isa, ITG_ISA_REFERENCE);
  const void *inputs[] = {a, b};
  void *outputs[] = {out, out2};
  const itg_kernel_call call = {inputs, outputs, NULL, NULL};
  const size_t units = kernel->units(task), half = units / 2;
  kernel->run(task, &call, half, units); // Any split gives the same result.
  kernel->run(task, &call, 0, half);
}

static void exp2_table_is_rounded_from_double(void **state) {
  (void)state;
  for (int i = 0; i <= 256; i++) assert_int_equal(itg_exp2_table[i], (uint32_t)floor(exp2(31 - i / 256.0) + 0.5));
}

// Error of one softmax row in output codes; scores with standard deviation `spread`.
static double softmax_error(int length, double spread, bool to_u8, double *sum) {
  uint16_t x[1024], p16[1024];
  uint8_t p8[1024];
  const double scale = 16 * spread / 65535;
  double reals[1024], largest = -1e300, total = 0, top = 0;
  for (int i = 0; i < length; i++) {
    const double q = floor(32768 + normal() * spread / scale + 0.5);
    x[i] = (uint16_t)(q < 0 ? 0 : q > 65535 ? 65535 : q);
    reals[i] = x[i] * scale;
    largest = fmax(largest, reals[i]);
  }
  for (int i = 0; i < length; i++) total += exp(reals[i] - largest);
  for (int i = 0; i < length; i++) top = fmax(top, exp(reals[i] - largest) / total);
  itg_task task = {.op = ITG_OP_Q_SOFTMAX};
  itg_softmax_task *t = &task.softmax;
  *t = (itg_softmax_task){.rows = 1, .length = length, .out_type = ITG_TASK_U16, .high = 65535};
  assert_true(itg_multiplier_from_double(scale * 65536 / log(2), &t->k, &t->k_shift));
  if (to_u8) {
    t->out_type = ITG_TASK_U8;
    t->high = 255;
    assert_true(itg_multiplier_from_double(0x1p-30 / (top / 255), &t->multiplier, &t->shift));
  }
  run_task(&task, x, NULL, to_u8 ? (void *)p8 : (void *)p16, NULL);
  double worst = 0;
  *sum = 0;
  for (int i = 0; i < length; i++) {
    const double real = exp(reals[i] - largest) / total;
    const double code = to_u8 ? p8[i] : p16[i], exact = to_u8 ? real / (top / 255) : fmin(real * 65536, 65535);
    worst = fmax(worst, fabs(code - exact));
    *sum += code / 65536;
  }
  return worst;
}

static void softmax_is_within_its_bracket(void **state) {
  (void)state;
  double worst = 0, worst8 = 0;
  for (int repeat = 0; repeat < 300; repeat++) {
    const int length = 1 + (int)(random_bits() % 1024);
    double sum;
    worst = fmax(worst, softmax_error(length, uniform(0.3, 6), false, &sum));
    assert_true(fabs(sum - 1) <= length * 0x1p-17 + 0x1p-16);
    worst8 = fmax(worst8, softmax_error(length, uniform(0.3, 6), true, &sum));
  }
  print_message("softmax: u16 %.3f, u8 %.3f codes\n", worst, worst8);
  assert_true(worst <= 0.57 && worst8 <= 0.51);
}

static void masked_softmax_leaves_keys_out(void **state) {
  (void)state;
  const uint16_t x[8] = {100, 60000, 200, 300, 7, 8, 9, 10};
  const uint8_t mask[8] = {1, 0, 1, 1, 0, 0, 0, 0};
  uint16_t p[8];
  itg_task task = {.op = ITG_OP_Q_SOFTMAX};
  task.softmax = (itg_softmax_task){.rows = 2,
                                    .length = 4,
                                    .out_type = ITG_TASK_U16,
                                    .high = 65535,
                                    .has_mask = 1,
                                    .rank = 2,
                                    .dims = {2, 4},
                                    .mask_stride = {4, 1},
                                    .k = 1 << 30,
                                    .k_shift = 24};
  run_task(&task, x, mask, p, NULL);
  assert_int_equal(p[1], 0);
  assert_true(p[3] > p[2] && p[2] > p[0]);
  assert_true(abs(p[0] + p[2] + p[3] - 65536) <= 2);
  for (int i = 4; i < 8; i++) assert_int_equal(p[i], 0); // Nothing left: zeros.
}

static double norm_error(int kind, int channels, double outlier, int out_type) {
  static uint16_t x[8192], y16[8192];
  static uint8_t y8[8192];
  static int32_t gamma_codes[8192], beta_codes[8192];
  static double gamma[8192], beta[8192], exact[8192];
  const double scale = 0.001, epsilon = 1e-6;
  double mean = 0, squares = 0, largest = 0, smallest = 0;
  for (int c = 0; c < channels; c++) {
    const double v = 32768 + normal() * 300 * (c == 3 ? outlier : 1);
    x[c] = (uint16_t)(v < 0 ? 0 : v > 65535 ? 65535 : v);
    gamma[c] = uniform(0.2, 2);
    beta[c] = kind == ITG_NORM_LAYER ? uniform(-0.5, 0.5) : 0;
    mean += (x[c] - 32768.0) / channels;
  }
  if (kind != ITG_NORM_LAYER) mean = 0;
  for (int c = 0; c < channels; c++) squares += pow((x[c] - 32768.0 - mean) * scale, 2);
  const double deviation = sqrt(kind == ITG_NORM_L2 ? squares + epsilon : squares / channels + epsilon);
  for (int c = 0; c < channels; c++) {
    exact[c] = (x[c] - 32768.0 - mean) * scale / deviation;
    if (kind != ITG_NORM_L2) exact[c] = exact[c] * gamma[c] + beta[c];
    largest = fmax(largest, exact[c]);
    smallest = fmin(smallest, exact[c]);
  }
  const int top = out_type == ITG_TASK_U16 ? 65535 : 255;
  const double out_scale = (largest - smallest) / top;
  const int zero = (int)floor(-smallest / out_scale + 0.5);
  itg_task task = {.op = ITG_OP_Q_NORM};
  itg_norm_task *t = &task.norm;
  const double factor = kind == ITG_NORM_L2 ? 1 : (double)channels * channels;
  *t = (itg_norm_task){.rows = 1,
                       .channels = channels,
                       .kind = kind,
                       .in_zero = 32768,
                       .out_type = out_type,
                       .out_zero = zero,
                       .high = top,
                       .gamma = gamma_codes,
                       .beta_q4 = kind == ITG_NORM_LAYER ? beta_codes : NULL,
                       .epsilon = llround(factor * epsilon / (scale * scale))};
  // One shift for all channels: the largest gain gets 30 bits.
  int exponent;
  frexp((kind == ITG_NORM_L2 ? 1 : 2.0) / out_scale, &exponent);
  const int fraction = kind == ITG_NORM_L2 ? 26 : 20;
  t->shift = 30 - exponent + fraction;
  for (int c = 0; c < channels; c++) {
    const double gain = kind == ITG_NORM_L2 ? 1 : gamma[c];
    gamma_codes[c] = (int32_t)llround(gain / out_scale * exp2(t->shift - fraction));
    beta_codes[c] = (int32_t)llround(beta[c] / out_scale * 16);
  }
  run_task(&task, x, NULL, out_type == ITG_TASK_U16 ? (void *)y16 : (void *)y8, NULL);
  double worst = 0;
  for (int c = 0; c < channels; c++) {
    const double code = out_type == ITG_TASK_U16 ? y16[c] : y8[c];
    const double real = fmin(fmax(exact[c] / out_scale + zero, 0), top);
    worst = fmax(worst, fabs(code - real));
  }
  return worst;
}

static void norms_are_within_their_brackets(void **state) {
  (void)state;
  static const int kinds[] = {ITG_NORM_LAYER, ITG_NORM_RMS, ITG_NORM_L2};
  double worst[3] = {0};
  for (int repeat = 0; repeat < 120; repeat++) {
    for (int k = 0; k < 3; k++) {
      const int channels = 8 + (int)(random_bits() % 2000);
      const double outlier = repeat % 3 == 0 ? 100 : 1;
      worst[k] = fmax(worst[k], norm_error(kinds[k], channels, outlier, repeat & 1 ? ITG_TASK_U16 : ITG_TASK_U8));
    }
  }
  print_message("layer norm %.4f, rms norm %.4f, L2 norm %.4f codes\n", worst[0], worst[1], worst[2]);
  for (int k = 0; k < 3; k++) assert_true(worst[k] <= 0.6);
}

// A convolution with random geometry against the sum in double.
static void convolution_rounds_once(void **state) {
  (void)state;
  double worst = 0;
  for (int repeat = 0; repeat < 200; repeat++) {
    const int group = repeat % 3 == 0 ? 4 : 1, wide_input = repeat % 2;
    itg_task task = {.op = ITG_OP_Q_CONV};
    itg_conv_task *t = &task.conv;
    *t = (itg_conv_task){.batch = 1,
                         .in_h = 7,
                         .in_w = 6,
                         .in_c = 8,
                         .out_c = 12,
                         .group = group,
                         .kernel_h = 1 + (int)(random_bits() % 3),
                         .kernel_w = 1 + (int)(random_bits() % 3),
                         .stride_h = 1 + (int)(random_bits() % 3),
                         .stride_w = 1 + (int)(random_bits() % 2),
                         .dilation_h = 1 + (int)(random_bits() % 2),
                         .dilation_w = 1,
                         .pad_top = (int)(random_bits() % 2),
                         .pad_left = (int)(random_bits() % 3),
                         .in_type = wide_input ? ITG_TASK_U16 : ITG_TASK_U8,
                         .out_type = repeat % 4 < 2 ? ITG_TASK_U16 : ITG_TASK_U8};
    const int top_in = wide_input ? 65535 : 255, top_out = t->out_type == ITG_TASK_U16 ? 65535 : 255;
    t->out_h = (t->in_h + t->pad_top + 1 - t->dilation_h * (t->kernel_h - 1) - 1) / t->stride_h + 1;
    t->out_w = (t->in_w + t->pad_left + 1 - (t->kernel_w - 1) - 1) / t->stride_w + 1;
    t->in_zero = (int32_t)(random_bits() % (uint32_t)(top_in + 1));
    t->out_zero = (int32_t)(random_bits() % (uint32_t)(top_out + 1));
    t->high = top_out;
    const int taps = t->kernel_h * t->kernel_w, per_group = t->in_c / group;
    uint16_t x16[7 * 6 * 8], y16[4096];
    uint8_t x8[7 * 6 * 8], y8[4096];
    int8_t weight[12 * 9 * 8];
    int32_t bias[12], multiplier[12], shift[12], negative_multiplier[12], negative_shift[12];
    double factor[12], negative_factor[12];
    for (int i = 0; i < 7 * 6 * 8; i++) {
      x16[i] = (uint16_t)(random_bits() % (uint32_t)(top_in + 1));
      x8[i] = (uint8_t)x16[i];
    }
    for (int i = 0; i < t->out_c * taps * per_group; i++) weight[i] = (int8_t)((int)(random_bits() % 255) - 127);
    for (int o = 0; o < 12; o++) {
      bias[o] = (int32_t)(random_bits() % 200000) - 100000;
      factor[o] = uniform(0.5, 1) * top_out / (60.0 * top_in * sqrt(taps * per_group));
      negative_factor[o] = factor[o] * uniform(-0.5, 0.5);
      assert_true(itg_multiplier_from_double(factor[o], &multiplier[o], &shift[o]));
      assert_true(itg_multiplier_from_double(negative_factor[o], &negative_multiplier[o], &negative_shift[o]));
    }
    t->weight = weight;
    t->bias = bias;
    t->multiplier = multiplier;
    t->shift = shift;
    t->negative_multiplier = negative_multiplier;
    t->negative_shift = negative_shift;
    run_task(&task, wide_input ? (void *)x16 : (void *)x8, NULL, t->out_type == ITG_TASK_U16 ? (void *)y16 : (void *)y8,
             NULL);
    for (int oy = 0; oy < t->out_h; oy++) {
      for (int ox = 0; ox < t->out_w; ox++) {
        for (int o = 0; o < 12; o++) {
          double sum = bias[o];
          for (int ky = 0; ky < t->kernel_h; ky++) {
            for (int kx = 0; kx < t->kernel_w; kx++) {
              const int y = oy * t->stride_h - t->pad_top + ky * t->dilation_h, x = ox * t->stride_w - t->pad_left + kx;
              for (int c = 0; c < per_group && y >= 0 && y < 7 && x >= 0 && x < 6; c++)
                sum += (x16[(y * 6 + x) * 8 + o / (12 / group) * per_group + c] - t->in_zero) *
                       (double)weight[((o * t->kernel_h + ky) * t->kernel_w + kx) * per_group + c];
            }
          }
          const double real = fmin(fmax(sum * (sum < 0 ? negative_factor[o] : factor[o]) + t->out_zero, 0), top_out);
          const int at = (oy * t->out_w + ox) * 12 + o;
          worst = fmax(worst, fabs((t->out_type == ITG_TASK_U16 ? y16[at] : y8[at]) - real));
        }
      }
    }
  }
  print_message("convolution %.4f codes\n", worst);
  assert_true(worst <= 0.501);
}

static void elementwise_rounds_once(void **state) {
  (void)state;
  double worst_add = 0, worst_mul = 0, worst_div = 0;
  for (int repeat = 0; repeat < 20000; repeat++) {
    const uint16_t a = (uint16_t)random_bits(), b = (uint16_t)random_bits();
    uint16_t y;
    itg_task task = {.op = ITG_OP_Q_ADD};
    itg_binary_task *t = &task.binary;
    *t = (itg_binary_task){.rank = 1,
                           .dims = {1},
                           .a_type = ITG_TASK_U16,
                           .b_type = ITG_TASK_U16,
                           .out_type = ITG_TASK_U16,
                           .a_zero = random_bits() & 65535,
                           .b_zero = random_bits() & 65535,
                           .out_zero = random_bits() & 65535,
                           .high = 65535};
    const double fa = uniform(0.01, 0.6), fb = uniform(-0.6, 0.6), na = (double)a - t->a_zero,
                 nb = (double)b - t->b_zero;
    t->shift = 30;
    t->a = (int32_t)llround(fa * 0x1p30);
    t->b = (int32_t)llround(fb * 0x1p30);
    run_task(&task, &a, &b, &y, NULL);
    worst_add = fmax(worst_add, fabs(y - fmin(fmax(na * fa + nb * fb + t->out_zero, 0), 65535)));

    task.op = ITG_OP_Q_MUL;
    const double fm = uniform(0.5, 2) / 65536;
    assert_true(itg_multiplier_from_double(fm, &t->multiplier, &t->shift));
    t->pre_shift = 1;
    run_task(&task, &a, &b, &y, NULL);
    worst_mul = fmax(worst_mul, fabs(y - fmin(fmax(na * nb * fm + t->out_zero, 0), 65535)));

    task.op = ITG_OP_Q_DIV;
    t->divisor_sign = repeat & 1 ? 1 : -1;
    const double fd = uniform(1, 30000);
    t->shift = 30 - ilogb(fd);
    t->multiplier = (int32_t)llround(fd * exp2(t->shift));
    run_task(&task, &a, &b, &y, NULL);
    const double real = t->divisor_sign * na * fd / fmax(1, fabs(nb)) + t->out_zero;
    worst_div = fmax(worst_div, fabs(y - fmin(fmax(real, 0), 65535)));
  }
  print_message("add %.4f, mul %.4f, div %.4f codes\n", worst_add, worst_mul, worst_div);
  assert_true(worst_add <= 0.501 && worst_mul <= 0.51 && worst_div <= 0.51);
}

static void fused_add_equals_two_steps(void **state) {
  (void)state;
  enum { CHANNELS = 5, ROWS = 9, COUNT = CHANNELS * ROWS };
  for (int repeat = 0; repeat < 300; repeat++) {
    uint16_t a[COUNT], b[COUNT], sum[COUNT], sum2[COUNT];
    uint8_t y[COUNT], y2[COUNT];
    int32_t scale[CHANNELS], shift[CHANNELS];
    int64_t offset[CHANNELS];
    for (int i = 0; i < COUNT; i++) {
      a[i] = (uint16_t)random_bits();
      b[i] = (uint16_t)random_bits();
    }
    for (int c = 0; c < CHANNELS; c++) {
      scale[c] = (int32_t)random_bits();
      shift[c] = 38 + (int)(random_bits() % 8);
      offset[c] = (int64_t)(int32_t)random_bits() * 4096;
    }
    itg_task fused = {.op = ITG_OP_Q_ADD_AFFINE};
    fused.add_affine = (itg_add_affine_task){.rows = ROWS,
                                             .channels = CHANNELS,
                                             .a_type = ITG_TASK_U16,
                                             .b_type = ITG_TASK_U16,
                                             .out_type = ITG_TASK_U16,
                                             .out2_type = ITG_TASK_U8,
                                             .a_zero = 30000,
                                             .b_zero = 20000,
                                             .out_zero = 33333,
                                             .out2_zero = 100,
                                             .high = 65535,
                                             .high2 = 255,
                                             .a = 500000000,
                                             .b = 600000000,
                                             .shift = 30,
                                             .scale = scale,
                                             .offset = offset,
                                             .scale_shift = shift};
    run_task(&fused, a, b, sum, y);
    itg_task add = {.op = ITG_OP_Q_ADD};
    add.binary = (itg_binary_task){.rank = 1,
                                   .dims = {COUNT},
                                   .a_stride = {1},
                                   .b_stride = {1},
                                   .a_type = ITG_TASK_U16,
                                   .b_type = ITG_TASK_U16,
                                   .out_type = ITG_TASK_U16,
                                   .a_zero = 30000,
                                   .b_zero = 20000,
                                   .out_zero = 33333,
                                   .high = 65535,
                                   .a = 500000000,
                                   .b = 600000000,
                                   .shift = 30};
    run_task(&add, a, b, sum2, NULL);
    itg_task affine = {.op = ITG_OP_Q_AFFINE};
    affine.affine = (itg_affine_task){.rows = ROWS,
                                      .channels = CHANNELS,
                                      .in_type = ITG_TASK_U16,
                                      .out_type = ITG_TASK_U8,
                                      .in_zero = 33333,
                                      .out_zero = 100,
                                      .high = 255,
                                      .per_channel = 1,
                                      .scale = scale,
                                      .offset = offset,
                                      .scale_shift = shift};
    run_task(&affine, sum2, NULL, y2, NULL);
    assert_memory_equal(sum, sum2, sizeof sum);
    assert_memory_equal(y, y2, sizeof y);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exp2_table_is_rounded_from_double), cmocka_unit_test(softmax_is_within_its_bracket),
      cmocka_unit_test(masked_softmax_leaves_keys_out),    cmocka_unit_test(norms_are_within_their_brackets),
      cmocka_unit_test(convolution_rounds_once),           cmocka_unit_test(elementwise_rounds_once),
      cmocka_unit_test(fused_add_equals_two_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
