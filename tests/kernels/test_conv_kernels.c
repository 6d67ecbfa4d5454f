// Convolution, depth-wise convolution, transposed convolution and fully connected kernels against the reference.
#include "kernels/kernel_harness.h"

typedef enum { GENERAL, POINTWISE, DEPTHWISE, GROUPED, TRANSPOSED, FULLY_CONNECTED } kind;

// Small sizes, with weight on those around the vector lengths.
static int32_t random_channels(harness_random *r, int32_t most) {
  static const int32_t around[] = {1,  3,  7,  8,  9,  15, 16, 17,  24,  31,  32,
                                   33, 47, 48, 63, 64, 65, 96, 127, 128, 129, 160};
  const int32_t c = random_chance(r, 2) ? around[random_between(r, 0, (int64_t)(sizeof around / sizeof around[0]) - 1)]
                                        : (int32_t)random_between(r, 1, 70);
  return c < most ? c : most;
}

static void random_geometry(harness_random *r, itg_conv_task *c, kind what) {
  c->batch = random_chance(r, 6) ? 2 : 1;
  c->kernel_h = c->kernel_w = 3;
  if (random_chance(r, 3)) {
    c->kernel_h = (int32_t)random_between(r, 1, 7);
    c->kernel_w = (int32_t)random_between(r, 1, 7);
  }
  c->stride_h = (int32_t)random_between(r, 1, 2);
  c->stride_w = random_chance(r, 4) ? (int32_t)random_between(r, 1, 3) : c->stride_h;
  c->dilation_h = c->dilation_w = 1;
  if (random_chance(r, 5)) {
    c->dilation_h = (int32_t)random_between(r, 1, 3);
    c->dilation_w = (int32_t)random_between(r, 1, 3);
  }
  c->pad_top = (int32_t)random_between(r, 0, (c->kernel_h - 1) * c->dilation_h);
  c->pad_left = (int32_t)random_between(r, 0, (c->kernel_w - 1) * c->dilation_w);
  if (what == POINTWISE || what == FULLY_CONNECTED) {
    c->kernel_h = c->kernel_w = c->dilation_h = c->dilation_w = 1;
    c->pad_top = c->pad_left = 0;
    if (what == FULLY_CONNECTED || random_chance(r, 2)) c->stride_h = c->stride_w = 1;
  }
  c->out_h = (int32_t)random_between(r, 1, 8);
  c->out_w = (int32_t)random_between(r, 1, 19);
  if (what == FULLY_CONNECTED) c->batch = c->out_h = 1;
  const int32_t reach_h = (c->kernel_h - 1) * c->dilation_h + 1, reach_w = (c->kernel_w - 1) * c->dilation_w + 1;
  if (what == TRANSPOSED) {
    c->in_h = (int32_t)random_between(r, 1, 6);
    c->in_w = (int32_t)random_between(r, 1, 6);
    if (random_chance(r, 2)) { // Up-sampling by the kernel's size, the usual case.
      c->dilation_h = c->dilation_w = 1;
      c->kernel_h = c->kernel_w = c->stride_h = c->stride_w = 2;
      c->pad_top = c->pad_left = 0;
    }
    const int32_t full_h = (c->in_h - 1) * c->stride_h + (c->kernel_h - 1) * c->dilation_h + 1;
    const int32_t full_w = (c->in_w - 1) * c->stride_w + (c->kernel_w - 1) * c->dilation_w + 1;
    if (c->pad_top >= full_h) c->pad_top = 0;
    if (c->pad_left >= full_w) c->pad_left = 0;
    c->out_h = full_h - c->pad_top;
    c->out_w = full_w - c->pad_left;
    return;
  }
  // Padding below and right of 0 .. reach - 1, and now and then input that no window reaches.
  c->in_h = (c->out_h - 1) * c->stride_h + reach_h - c->pad_top - (int32_t)random_between(r, 0, reach_h - 1);
  c->in_w = (c->out_w - 1) * c->stride_w + reach_w - c->pad_left - (int32_t)random_between(r, 0, reach_w - 1);
  c->in_h += (int32_t)random_between(r, 0, c->stride_h - 1);
  c->in_w += (int32_t)random_between(r, 0, c->stride_w - 1);
  if (c->in_h < 1) c->in_h = 1;
  if (c->in_w < 1) c->in_w = 1;
}

static void random_channel_counts(harness_random *r, itg_conv_task *c, kind what) {
  c->group = 1;
  const int32_t most = c->kernel_h * c->kernel_w > 9 ? 40 : 160;
  c->in_c = random_channels(r, most);
  c->out_c = random_channels(r, most);
  if (what == GENERAL && random_chance(r, 4)) c->in_c = 3;
  if (what == DEPTHWISE) {
    c->group = c->out_c = c->in_c;
  } else if (what == GROUPED || (what == TRANSPOSED && random_chance(r, 3))) {
    c->group = (int32_t)random_between(r, 2, 5);
    c->in_c = c->group * (int32_t)random_between(r, 1, 20);
    c->out_c = c->group * (int32_t)random_between(r, 1, 20);
  } else if (what == FULLY_CONNECTED && random_chance(r, 4)) {
    c->in_c = (int32_t)random_between(r, 500, 1400);
  } else if (what == FULLY_CONNECTED && random_chance(r, 2)) {
    c->in_c = 16 * (int32_t)random_between(r, 1, 40);
  }
}

// The same convolution with s4 weights: random codes, and for fully connected layers sometimes LPBQ blocks.
static void random_packed_weights(harness *h, harness_random *r, itg_conv_task *c, size_t count) {
  uint8_t *packed = harness_constant(h, (count + 1) / 2, 1);
  const int64_t style = random_between(r, 0, 5);
  for (size_t i = 0; i < (count + 1) / 2; i++)
    packed[i] = style == 0 ? 0x88 : style == 1 ? 0x77 : (uint8_t)random_bits(r);
  c->packed_weight = packed;
  if (c->in_c % 16 != 0 || c->kernel_h * c->kernel_w * c->group != 1 || random_chance(r, 3)) return;
  c->block = c->in_c % 32 == 0 && random_chance(r, 2) ? 32 : c->in_c % 64 == 0 ? 64 : 16;
  const size_t blocks = count / (size_t)c->block;
  uint8_t *scale = harness_constant(h, blocks, 1);
  for (size_t i = 0; i < blocks; i++) scale[i] = style == 0 ? 16 : (uint8_t)random_between(r, 1, 16);
  c->block_scale = scale;
}

// Weights, biases within the proof, then multipliers.
static void random_constants(harness *h, harness_random *r, itg_conv_task *c) {
  const size_t k = (size_t)c->kernel_h * (size_t)c->kernel_w * (size_t)(c->in_c / c->group);
  const size_t count = (size_t)c->out_c * k;
  int8_t *weight = harness_constant(h, count, 1);
  const int64_t style = random_between(r, 0, 9);
  for (size_t i = 0; i < count; i++) {
    int64_t w = random_between(r, -127, 127);
    if (style == 0) w = -128;
    if (style == 1) w = 127;
    if (style == 2) w = w & 1 ? 127 : -127;
    if (style == 3) w = 0;
    if (style == 4) w /= 16;
    weight[i] = (int8_t)w;
  }
  const size_t vector_bytes = (size_t)c->out_c * 4;
  int32_t *bias = harness_constant(h, vector_bytes, 4);
  int32_t *multiplier = harness_constant(h, vector_bytes, 4), *shift = harness_constant(h, vector_bytes, 4);
  const int64_t limit = code_limit(c->in_type);
  const int64_t reach = c->in_zero > limit - c->in_zero ? c->in_zero : limit - c->in_zero;
  const int64_t products = (int64_t)k * 128 * reach;
  const int64_t room = INT32_MAX - products;
  c->wide = room <= 0 || random_chance(r, 12);
  int64_t largest_bias = INT64_C(1) << 30;
  if (!c->wide && room < largest_bias) largest_bias = room;
  if (random_chance(r, 2) && largest_bias > products / 2 + 1) largest_bias = products / 2 + 1;
  for (int32_t o = 0; o < c->out_c; o++) bias[o] = (int32_t)random_between(r, -largest_bias, largest_bias);
  c->bound = products + largest_bias;
  c->pre_shift = c->wide ? itg_pre_shift_for_bound((uint64_t)c->bound) : 0;
  int bits = 0;
  while (products >> bits > 4) bits++;
  const int32_t usual = 31 + (bits > 10 ? bits - (c->out_type == ITG_TASK_U16 ? 14 : 7) : 2);
  const bool exotic = random_chance(r, 4); // Shifts of every size; otherwise all as real layers have them.
  int32_t *negative_multiplier = NULL, *negative_shift = NULL;
  if (random_chance(r, 2)) {
    negative_multiplier = harness_constant(h, vector_bytes, 4);
    negative_shift = harness_constant(h, vector_bytes, 4);
  }
  for (int32_t o = 0; o < c->out_c; o++) {
    do {
      random_factor(r, usual, 1 + c->pre_shift, exotic, &multiplier[o], &shift[o]);
    } while (!exotic && (shift[o] < 34 || shift[o] > 46) && multiplier[o]);
    if (!negative_multiplier) continue;
    do {
      random_factor(r, usual + 2, 1 + c->pre_shift, true, &negative_multiplier[o], &negative_shift[o]);
    } while (!exotic && (negative_shift[o] < 34 || negative_shift[o] > 46) && negative_multiplier[o]);
  }
  if (random_chance(r, 3))
    random_packed_weights(h, r, c, count);
  else
    c->weight = weight;
  c->bias = bias;
  c->multiplier = multiplier;
  c->shift = shift;
  c->negative_multiplier = negative_multiplier;
  c->negative_shift = negative_shift;
}

static int64_t try_case(harness *h, kind what, int64_t index) {
  harness_random r;
  random_start(&r, index);
  harness_start(h);
  h->task.op = what == TRANSPOSED        ? ITG_OP_Q_CONV_TRANSPOSE
               : what == FULLY_CONNECTED ? ITG_OP_Q_FULLY_CONNECTED
                                         : ITG_OP_Q_CONV;
  itg_conv_task *c = &h->task.conv;
  random_geometry(&r, c, what);
  random_channel_counts(&r, c, what);
  c->in_type = random_chance(&r, 3) ? ITG_TASK_U16 : ITG_TASK_U8;
  c->out_type = random_chance(&r, 3) ? ITG_TASK_U16 : ITG_TASK_U8;
  c->in_zero = random_zero(&r, c->in_type);
  c->out_zero = random_zero(&r, c->out_type);
  random_range(&r, c->out_type, &c->low, &c->high);
  random_constants(h, &r, c);
  const size_t in_count = (size_t)c->batch * (size_t)c->in_h * (size_t)c->in_w * (size_t)c->in_c;
  const size_t vectors = (size_t)c->batch * (size_t)c->out_h * (size_t)c->out_w;
  harness_input(h, &r, in_count, c->in_type, c->in_zero);
  harness_output(h, vectors * (size_t)c->out_c, c->out_type);
  harness_check(h, &r);
  return (int64_t)vectors;
}

static void try_kind(kind what, const char *name, int64_t usual) {
  harness *h = calloc(1, sizeof *h);
  assert_non_null(h);
  int64_t vectors = 0, cases = 0;
  const int64_t wanted = harness_vectors(usual);
  while (vectors < wanted) vectors += try_case(h, what, cases++);
  harness_report(h, name, cases, vectors);
  harness_free(h);
}

static void test_general(void **state) {
  (void)state;
  try_kind(GENERAL, "convolution", 100000);
}
static void test_pointwise(void **state) {
  (void)state;
  try_kind(POINTWISE, "1x1 convolution", 100000);
}
static void test_depthwise(void **state) {
  (void)state;
  try_kind(DEPTHWISE, "depth-wise convolution", 100000);
}
static void test_grouped(void **state) {
  (void)state;
  try_kind(GROUPED, "grouped convolution", 100000);
}
static void test_transposed(void **state) {
  (void)state;
  try_kind(TRANSPOSED, "transposed convolution", 100000);
}
static void test_fully_connected(void **state) {
  (void)state;
  try_kind(FULLY_CONNECTED, "fully connected", 60000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_general), cmocka_unit_test(test_pointwise),  cmocka_unit_test(test_depthwise),
      cmocka_unit_test(test_grouped), cmocka_unit_test(test_transposed), cmocka_unit_test(test_fully_connected),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
