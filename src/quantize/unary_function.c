// ONNX's unary functions in double. See unary_function.h.
#include "quantize/unary_function.h"

#include <math.h>

bool itg_unary_is_known(itg_op op) {
  switch (op) {
  case ITG_OP_NOT:
  case ITG_OP_IS_NAN:
  case ITG_OP_IS_INF:
  case ITG_OP_BITWISE_NOT:
  case ITG_OP_CAST:
  case ITG_OP_IDENTITY: return false;
  case ITG_OP_POW:
  case ITG_OP_DIV: return true;
  default: {
    const itg_op_info *info = itg_op_get_info((int)op);
    return info && (info->flags & ITG_OP_UNARY);
  }
  }
}

bool itg_unary_is_smooth(itg_op op) {
  switch (op) {
  case ITG_OP_SIGMOID:
  case ITG_OP_TANH:
  case ITG_OP_ERF:
  case ITG_OP_EXP:
  case ITG_OP_ELU:
  case ITG_OP_SELU:
  case ITG_OP_CELU:
  case ITG_OP_SOFTPLUS:
  case ITG_OP_SOFTSIGN:
  case ITG_OP_HARD_SIGMOID:
  case ITG_OP_HARD_SWISH:
  case ITG_OP_GELU:
  case ITG_OP_QUICK_GELU:
  case ITG_OP_SILU:
  case ITG_OP_MISH: return true;
  default: return false;
  }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 40 ? x : log1p(exp(x)); }
static double exponential_unit(double x, double alpha, double width) { return x >= 0 ? x : alpha * expm1(x / width); }
static double gelu(double x, bool tanh_form) {
  if (tanh_form) return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return 0.5 * x * (1 + erf(x / sqrt(2)));
}
static double clip(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static double rectified(itg_op op, double x, double alpha, double beta) {
  switch (op) {
  case ITG_OP_RELU: return x > 0 ? x : 0;
  case ITG_OP_LEAKY_RELU: return x >= 0 ? x : alpha * x;
  case ITG_OP_ELU: return exponential_unit(x, alpha, 1);
  case ITG_OP_CELU: return exponential_unit(x, alpha, alpha);
  case ITG_OP_SELU: return beta * exponential_unit(x, alpha, 1);
  case ITG_OP_THRESHOLDED_RELU: return x > alpha ? x : 0;
  case ITG_OP_HARD_SIGMOID: return clip(alpha * x + beta, 0, 1);
  case ITG_OP_HARD_SWISH: return x * clip(x / 6 + 0.5, 0, 1);
  case ITG_OP_GELU: return gelu(x, alpha != 0);
  case ITG_OP_QUICK_GELU: return x * sigmoid(alpha * x);
  case ITG_OP_SILU: return x * sigmoid(x);
  case ITG_OP_MISH: return x * tanh(softplus(x));
  case ITG_OP_CLIP: return clip(x, alpha, beta);
  case ITG_OP_SHRINK: return x < -alpha ? x + beta : x > alpha ? x - beta : 0;
  default: return NAN;
  }
}

double itg_unary_evaluate(itg_op op, double x, double alpha, double beta) {
  switch (op) {
  case ITG_OP_ABS: return fabs(x);
  case ITG_OP_NEG: return -x;
  case ITG_OP_CEIL: return ceil(x);
  case ITG_OP_FLOOR: return floor(x);
  case ITG_OP_ROUND: return nearbyint(x);
  case ITG_OP_SIGN: return (x > 0) - (x < 0);
  case ITG_OP_SQRT: return sqrt(x);
  case ITG_OP_EXP: return exp(x);
  case ITG_OP_LOG: return log(x);
  case ITG_OP_ERF: return erf(x);
  case ITG_OP_SIN: return sin(x);
  case ITG_OP_COS: return cos(x);
  case ITG_OP_TAN: return tan(x);
  case ITG_OP_ASIN: return asin(x);
  case ITG_OP_ACOS: return acos(x);
  case ITG_OP_ATAN: return atan(x);
  case ITG_OP_SINH: return sinh(x);
  case ITG_OP_COSH: return cosh(x);
  case ITG_OP_ASINH: return asinh(x);
  case ITG_OP_ACOSH: return acosh(x);
  case ITG_OP_ATANH: return atanh(x);
  case ITG_OP_RECIPROCAL: return 1 / x;
  case ITG_OP_SIGMOID: return sigmoid(x);
  case ITG_OP_TANH: return tanh(x);
  case ITG_OP_SOFTPLUS: return softplus(x);
  case ITG_OP_SOFTSIGN: return x / (1 + fabs(x));
  case ITG_OP_POW: return pow(x, alpha);
  case ITG_OP_DIV: return alpha / x;
  default: return rectified(op, x, alpha, beta);
  }
}
