// Convert, Add, per-channel affine and PReLU in the NPU's arithmetic (profiles htp-v68 and htp-v73, which agree here), as measured on the vendor's
// library over all 65,536 codes (docs/ARITHMETIC.md 6). A factor comes as multiplier*2^-shift.
#include "graph/op.h"
#include "kernels/htp/rule.h"
#include "kernels/reference/access.h"
#include "tensor/encoding.h"

enum { CHUNK = 4096 };

static double factor_of(int32_t multiplier, int32_t shift) { return __builtin_ldexp(multiplier, -shift); }
static int exponent_of(double value) {
  int exponent;
  __builtin_frexp(value, &exponent);
  return exponent;
}

// ---- Convert ----

// u16 -> u8: a product of 15 fraction bits rounded to `fraction` bits, where the zero point and the last rounding join.
typedef struct narrow_rule {
  int64_t multiplier;
  int32_t fraction;
} narrow_rule;
enum { MIN_FRACTION = 3, MAX_FRACTION = 7 };

static int64_t narrow_part(const narrow_rule *rule, int64_t code) {
  return ((code + 1) * rule->multiplier + (1 << 14)) >> 15;
}

static int32_t narrow(const narrow_rule *rule, const itg_convert_task *t, int32_t code) {
  const int64_t sum = narrow_part(rule, code) - narrow_part(rule, t->in_zero) +
                      ((int64_t)t->out_zero << rule->fraction) + ((int64_t)1 << (rule->fraction - 1));
  return (int32_t)itg_clamp_i64(sum >> rule->fraction, t->low, t->high);
}

// u8 -> u16: a multiplier of 16 bits, one rounding.
static int32_t widen(double factor, int32_t exponent, const itg_convert_task *t, int32_t code) {
  const int64_t multiplier = itg_htp_round(__builtin_ldexp(factor, 16 - exponent));
  const int64_t product = (code - t->in_zero) * multiplier;
  return (int32_t)itg_clamp_i64(t->out_zero + ((product + ((int64_t)1 << (15 - exponent))) >> (16 - exponent)), t->low,
                                t->high);
}

static bool supports_convert(const itg_task *task) {
  const itg_convert_task *t = &task->convert;
  const int exponent = exponent_of(factor_of(t->multiplier, t->shift));
  if (t->multiplier <= 0) return false;
  if (t->in_type == ITG_TASK_U16 && t->out_type == ITG_TASK_U8) return exponent <= -1 - MIN_FRACTION;
  return t->in_type == ITG_TASK_U8 && t->out_type == ITG_TASK_U16 && exponent < 15;
}

static size_t convert_units(const itg_task *task) { return (size_t)task->convert.rows; }

static void convert(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_convert_task *t = &task->convert;
  const double factor = factor_of(t->multiplier, t->shift);
  const int exponent = exponent_of(factor);
  const int fraction = -1 - exponent < MAX_FRACTION ? -1 - exponent : MAX_FRACTION;
  const narrow_rule rule = {itg_htp_round(__builtin_ldexp(factor, 15 + fraction)), fraction};
  for (int64_t i = (int64_t)begin * t->channels; i < (int64_t)end * t->channels; i++) {
    const int32_t code = itg_load(call->inputs[0], i, t->in_type);
    itg_store(call->outputs[0], i, t->out_type,
              t->in_type == ITG_TASK_U16 ? narrow(&rule, t, code) : widen(factor, exponent, t, code));
  }
}

// ---- Add of 16-bit codes: both factors to the same 15 bits of the larger one, one rounding ----

static bool supports_add(const itg_task *task) {
  const itg_binary_task *t = &task->binary;
  return t->a_type == ITG_TASK_U16 && t->b_type == ITG_TASK_U16 && t->out_type == ITG_TASK_U16 && t->a != 0 &&
         t->b != 0;
}

static size_t add_units(const itg_task *task) { return ((size_t)itg_binary_count(&task->binary) + CHUNK - 1) / CHUNK; }

static void add(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_binary_task *t = &task->binary;
  const double a = factor_of(t->a, t->shift), b = factor_of(t->b, t->shift);
  const int ea = exponent_of(a), eb = exponent_of(b), bits = 15 - (ea > eb ? ea : eb);
  const int64_t ma = itg_htp_round(__builtin_ldexp(a, bits)), mb = itg_htp_round(__builtin_ldexp(b, bits));
  const int64_t count = itg_binary_count(t);
  const int64_t last = (int64_t)end * CHUNK < count ? (int64_t)end * CHUNK : count;
  for (int64_t i = (int64_t)begin * CHUNK; i < last; i++) {
    int64_t ia, ib;
    itg_binary_positions(t, i, &ia, &ib);
    const int64_t sum = ma * (itg_load(call->inputs[0], ia, t->a_type) - t->a_zero) +
                        mb * (itg_load(call->inputs[1], ib, t->b_type) - t->b_zero);
    const int64_t code = bits > 0 ? (sum + ((int64_t)1 << (bits - 1))) >> bits : sum * ((int64_t)1 << -bits);
    itg_store(call->outputs[0], i, t->out_type, (int32_t)itg_clamp_i64(t->out_zero + code, t->low, t->high));
  }
}

// ---- Affine of 16-bit codes: a depth-wise kernel of one tap (lower/qnn), multiplied element by element ----

typedef struct affine_rule {
  int64_t weight, bias; // The bias holds the zero point of the output.
  int64_t multiplier;   // Of 15 bits.
  int64_t shift;
} affine_rule;

static bool supports_affine(const itg_task *task) {
  const itg_affine_task *t = &task->affine;
  return t->in_type == ITG_TASK_U16 && t->out_type == ITG_TASK_U16 && t->channels <= ITG_HTP_ONE_TAP_CHANNELS &&
         t->low == 0 && t->high == itg_code_max(ITG_DTYPE_U16);
}

static size_t affine_packed(const itg_task *task) { return (size_t)task->affine.channels * sizeof(affine_rule); }

// In units of the input's code, as if both scales were 1: only their ratio matters, and the gain holds it.
static void pack_affine(const itg_task *task, void *packed) {
  const itg_affine_task *t = &task->affine;
  affine_rule *rules = packed;
  for (int64_t c = 0; c < t->channels; c++) {
    const int64_t p = t->per_channel ? c : 0;
    const double gain = factor_of(t->scale[p], t->scale_shift[p]);
    const double offset = __builtin_ldexp((double)t->offset[p], -t->scale_shift[p]);
    const itg_htp_gain fitted = itg_htp_fit_gain(1, 1, 1, gain, offset, 1, 1, t->out_zero);
    const int exponent = exponent_of(fitted.scale);
    rules[c] = (affine_rule){.weight = fitted.weight,
                             .bias = fitted.bias + (int64_t)__builtin_rint(t->out_zero / fitted.scale),
                             .multiplier = itg_htp_round(__builtin_ldexp(fitted.scale, 15 - exponent)),
                             .shift = 15 - exponent};
  }
}

static size_t affine_units(const itg_task *task) { return (size_t)task->affine.rows; }

static void affine(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_affine_task *t = &task->affine;
  const affine_rule *rules = call->packed;
  for (size_t row = begin; row < end; row++) {
    for (int64_t c = 0; c < t->channels; c++) {
      const int64_t i = (int64_t)row * t->channels + c;
      const int64_t sum = rules[c].weight * (itg_load(call->inputs[0], i, t->in_type) - t->in_zero) + rules[c].bias;
      const int64_t half = ((int64_t)1 << (rules[c].shift - 1)) + ((int64_t)1 << (rules[c].shift - 9));
      const int64_t code = (int64_t)(((__int128)sum * rules[c].multiplier + half) >> rules[c].shift);
      itg_store(call->outputs[0], i, t->out_type, (int32_t)itg_clamp_i64(code, t->low, t->high));
    }
  }
}

// ---- PReLU: the slopes are codes of the input's width (lower/qnn); 8-bit codes are rounded twice. ----

typedef struct prelu_rule {
  int32_t bits;     // Of the factors.
  int32_t fraction; // Bits that the first rounding of 8-bit codes leaves; 0 for 16-bit ones: there is one rounding.
  int64_t positive, negative[]; // One a channel.
} prelu_rule;

static size_t slope_count(const itg_convert_task *t) { return t->per_channel ? (size_t)t->channels : 1; }

static size_t prelu_packed(const itg_task *task) {
  return sizeof(prelu_rule) + slope_count(&task->convert) * sizeof(int64_t);
}

static double slope_of(const itg_convert_task *t, size_t i) {
  return factor_of(t->negative_multiplier[i], t->negative_shift[i]) / factor_of(t->multiplier, t->shift);
}

// Of the factors: as many as 16 signed bits hold.
static int32_t prelu_bits(const itg_convert_task *t) {
  double largest = factor_of(t->multiplier, t->shift);
  for (size_t i = 0; i < slope_count(t); i++) {
    const double size = __builtin_fabs(factor_of(t->negative_multiplier[i], t->negative_shift[i]));
    largest = size > largest ? size : largest;
  }
  const int exponent = exponent_of(largest);
  return exponent > 0 ? 15 - exponent : 15;
}

static void pack_prelu(const itg_task *task, void *packed) {
  const itg_convert_task *t = &task->convert;
  prelu_rule *rule = packed;
  const double positive = factor_of(t->multiplier, t->shift);
  double low = 0, high = 0, scale;
  for (size_t i = 0; i < slope_count(t); i++) {
    const double slope = slope_of(t, i);
    low = slope < low ? slope : low;
    high = slope > high ? slope : high;
  }
  int32_t zero;
  itg_encoding_from_range(low, high, (itg_dtype)t->in_type, &scale, &zero);
  const bool is_wide = t->in_type == ITG_TASK_U16;
  rule->bits = prelu_bits(t);
  rule->fraction = is_wide ? 0 : rule->bits - 8;
  const double one = __builtin_ldexp(1, rule->bits);
  // 16 bits: towards zero; 8 bits: to the nearest, and the product of both factors down.
  rule->positive = is_wide ? (int64_t)(positive * one) : itg_htp_round(positive * one);
  for (size_t i = 0; i < slope_count(t); i++) {
    const int32_t code = itg_encode((float)slope_of(t, i), scale, zero, 0, itg_code_max((itg_dtype)t->in_type));
    const double slope = scale * (code - zero);
    rule->negative[i] = is_wide ? (int64_t)(positive * slope * one)
                                : (itg_htp_round(__builtin_ldexp(slope, 15)) * rule->positive) >> 15;
  }
}

static bool supports_prelu(const itg_task *task) {
  const itg_convert_task *t = &task->convert;
  return t->in_type == t->out_type && t->multiplier > 0 && t->negative_multiplier && prelu_bits(t) > 8;
}

static int64_t shift_half_up(int64_t value, int32_t bits) { return (value + ((int64_t)1 << (bits - 1))) >> bits; }

static int64_t apply_slope(const prelu_rule *rule, int64_t x, int64_t channel) {
  const int64_t product = x * (x < 0 ? rule->negative[channel] : rule->positive);
  if (rule->fraction == 0) return shift_half_up(product, rule->bits);
  return shift_half_up(shift_half_up(product, rule->bits - rule->fraction), rule->fraction);
}

static void prelu(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_convert_task *t = &task->convert;
  for (size_t row = begin; row < end; row++) {
    for (int64_t c = 0; c < t->channels; c++) {
      const int64_t i = (int64_t)row * t->channels + c;
      const int64_t x = itg_load(call->inputs[0], i, t->in_type) - t->in_zero;
      const int64_t code = t->out_zero + apply_slope(call->packed, x, t->per_channel ? c : 0);
      itg_store(call->outputs[0], i, t->out_type, (int32_t)itg_clamp_i64(code, t->low, t->high));
    }
  }
}

#define PROFILE(suffix, profile)                                                     \
  const itg_kernel itg_convert__htp_##suffix = {.name = "itg_convert__htp_" #suffix, \
                                                .op = ITG_OP_Q_CONVERT,              \
                                                .isa = profile,                      \
                                                .supports = supports_convert,        \
                                                .units = convert_units,              \
                                                .run = convert};                     \
  const itg_kernel itg_add__htp_##suffix = {.name = "itg_add__htp_" #suffix,         \
                                            .op = ITG_OP_Q_ADD,                      \
                                            .isa = profile,                          \
                                            .supports = supports_add,                \
                                            .units = add_units,                      \
                                            .run = add};                             \
  const itg_kernel itg_affine__htp_##suffix = {.name = "itg_affine__htp_" #suffix,   \
                                               .op = ITG_OP_Q_AFFINE,                \
                                               .isa = profile,                       \
                                               .supports = supports_affine,          \
                                               .packed_size = affine_packed,         \
                                               .pack = pack_affine,                  \
                                               .units = affine_units,                \
                                               .run = affine};                       \
  const itg_kernel itg_prelu__htp_##suffix = {.name = "itg_prelu__htp_" #suffix,     \
                                              .op = ITG_OP_Q_PRELU,                  \
                                              .isa = profile,                        \
                                              .supports = supports_prelu,            \
                                              .packed_size = prelu_packed,           \
                                              .pack = pack_prelu,                    \
                                              .units = convert_units,                \
                                              .run = prelu}
PROFILE(v68, ITG_ISA_HTP_V68);
PROFILE(v73, ITG_ISA_HTP_V73);
