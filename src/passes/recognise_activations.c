// Activations written out as arithmetic. A product k*x*gate, in any order of its factors, is
//   SiLU       x*sigmoid(x)                      QuickGELU  x*sigmoid(a*x)          Mish  x*tanh(softplus(x))
//   HardSwish  x*clip(x + 3, 0, 6)/6, x*HardSigmoid(x; 1/6, 1/2)
//   GELU       x*(1 + erf(x/sqrt(2)))/2, and its approximation x*(1 + tanh(sqrt(2/pi)*(x + .044715*x^3)))/2
// and g*clip(a*x + b, 0, 1/g) is HardSigmoid(x; g*a, g*b). Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016);
// Howard et al., "Searching for MobileNetV3" (2019); Misra, "Mish" (2019).
//
// Constants may be off by the rounding of float32: the tolerance is 1e-5 relative.
#include <math.h>

#include "passes/list.h"
#include "passes/rewrite.h"

static bool near(double value, double expected) { return fabs(value - expected) <= 1e-5 * fmax(fabs(expected), 1e-3); }

// Only this tensor's one reader sees it, so it may be merged away.
static bool is_private(const itg_tensor *tensor) { return tensor->user_count == 1 && !tensor->is_output; }

// A scalar step y = gain*x + offset of one node.
static const itg_tensor *scalar_step(const itg_node *node, double *gain, double *offset) {
  *gain = 1;
  *offset = 0;
  if (node->op == ITG_OP_NEG) {
    *gain = -1;
    return node->inputs[0];
  }
  if (node->op < ITG_OP_ADD || node->op > ITG_OP_DIV) return NULL;
  double value;
  bool first = false;
  if (!itg_constant_is_uniform(node->inputs[1], &value)) {
    first = true;
    if (node->op == ITG_OP_DIV || !itg_constant_is_uniform(node->inputs[0], &value)) return NULL;
  }
  const itg_tensor *x = node->inputs[first ? 1 : 0];
  if (!isfinite(value) || !itg_shape_equal(&x->shape, &node->outputs[0]->shape)) return NULL;
  switch (node->op) {
  case ITG_OP_ADD: *offset = value; break;
  case ITG_OP_SUB:
    *gain = first ? -1 : 1;
    *offset = first ? value : -value;
    break;
  case ITG_OP_MUL: *gain = value; break;
  default:
    if (value == 0) return NULL;
    *gain = 1 / value;
    break;
  }
  return x;
}

// tensor = gain*result + offset, peeled as far as the steps are private; `tensor` itself need not be. Stops at `stop`.
static const itg_tensor *peel(const itg_tensor *tensor, const itg_tensor *stop, double *gain, double *offset) {
  enum { MOST_STEPS = 8 };
  *gain = 1;
  *offset = 0;
  for (int steps = 0; tensor != stop && tensor->producer && steps < MOST_STEPS; steps++) {
    if (steps > 0 && !is_private(tensor)) break;
    double a, b;
    const itg_tensor *x = scalar_step(tensor->producer, &a, &b);
    if (!x) break;
    *offset += *gain * b;
    *gain *= a;
    tensor = x;
  }
  return tensor;
}

enum { MOST_FACTORS = 4 };
typedef struct product {
  double constant;
  int count;
  const itg_tensor *factors[MOST_FACTORS];
} product;

// Multiplies `tensor` into the product, taking private products apart. False when it has too many factors.
static bool factorise(const itg_tensor *tensor, const itg_tensor *stop, bool outermost, int depth, product *out) {
  const itg_node *node = tensor->producer;
  double gain, offset;
  if (tensor != stop && node && depth > 0 && (outermost || is_private(tensor))) {
    const itg_tensor *x = scalar_step(node, &gain, &offset);
    if (x && offset == 0) {
      out->constant *= gain;
      return factorise(x, stop, false, depth - 1, out);
    }
    if (node->op == ITG_OP_MUL)
      return factorise(node->inputs[0], stop, false, depth - 1, out) &&
             factorise(node->inputs[1], stop, false, depth - 1, out);
    if (node->op == ITG_OP_POW && itg_constant_is_uniform(node->inputs[1], &gain) && (gain == 2 || gain == 3)) {
      for (int i = 0; i < (int)gain; i++) {
        if (!factorise(node->inputs[0], stop, false, 0, out)) return false;
      }
      return true;
    }
  }
  if (out->count == MOST_FACTORS) return false;
  out->factors[out->count++] = tensor;
  return true;
}

static bool is_power(const itg_tensor *tensor, const itg_tensor *x, int exponent, double *constant) {
  product power = {.constant = 1};
  if (!factorise(tensor, x, true, 8, &power) || power.count != exponent) return false;
  for (int i = 0; i < exponent; i++) {
    if (power.factors[i] != x) return false;
  }
  *constant = power.constant;
  return true;
}

// sqrt(2/pi)*(x + .044715*x^3), or the same with x taken out: sqrt(2/pi)*x*(1 + .044715*x^2).
static bool is_tanh_argument(const itg_tensor *tensor, const itg_tensor *x) {
  const double root = 0.79788456080286536, cubic = 0.044715;
  product factors = {.constant = 1};
  if (!factorise(tensor, x, true, 8, &factors)) return false;
  double gain, offset, constant;
  if (factors.count == 1) {
    const itg_node *sum = factors.factors[0]->producer;
    if (!sum || sum->op != ITG_OP_ADD || !near(factors.constant, root)) return false;
    for (int i = 0; i < 2; i++) {
      if (sum->inputs[i] == x && is_power(sum->inputs[1 - i], x, 3, &constant)) return near(constant, cubic);
    }
    return false;
  }
  if (factors.count != 2) return false;
  for (int i = 0; i < 2; i++) {
    if (factors.factors[i] != x) continue;
    const itg_tensor *square = peel(factors.factors[1 - i], x, &gain, &offset);
    if (is_power(square, x, 2, &constant))
      return near(factors.constant * offset, root) && near(factors.constant * gain * constant, root * cubic);
  }
  return false;
}

// Whether k*x*gate is a known activation.
static bool match_gate(double k, const itg_tensor *x, const itg_tensor *gate, itg_op *op, double *alpha) {
  double gain, offset, a, b;
  if (!is_private(gate)) return false;
  const itg_tensor *inner = peel(gate, x, &gain, &offset);
  const itg_node *function = inner->producer;
  if (!function || (inner != gate && !is_private(inner))) return false;
  const itg_scalar_attributes *scalar = &function->attributes.scalar;
  const double factor = k * gain, shift = k * offset;
  *alpha = 0;
  switch (function->op) {
  case ITG_OP_SIGMOID:
    if (peel(function->inputs[0], x, &a, &b) != x || b != 0 || !near(factor, 1) || shift != 0) return false;
    *op = near(a, 1) ? ITG_OP_SILU : ITG_OP_QUICK_GELU;
    *alpha = a;
    return true;
  case ITG_OP_HARD_SIGMOID:
    *op = ITG_OP_HARD_SWISH;
    return function->inputs[0] == x && near(factor, 1) && shift == 0 && near(scalar->alpha, 1.0 / 6) &&
           near(scalar->beta, 0.5);
  case ITG_OP_CLIP:
    *op = ITG_OP_HARD_SWISH;
    return peel(function->inputs[0], x, &a, &b) == x && shift == 0 && scalar->alpha == 0 &&
           near(factor * scalar->beta, 1) && near(a / scalar->beta, 1.0 / 6) && near(b / scalar->beta, 0.5);
  case ITG_OP_ERF:
    *op = ITG_OP_GELU;
    return near(factor, 0.5) && near(shift, 0.5) && peel(function->inputs[0], x, &a, &b) == x && b == 0 &&
           near(a, 0.70710678118654752);
  case ITG_OP_TANH:
    if (near(factor, 1) && shift == 0) {
      const itg_node *softplus = function->inputs[0]->producer;
      *op = ITG_OP_MISH;
      return softplus && softplus->op == ITG_OP_SOFTPLUS && softplus->inputs[0] == x;
    }
    *op = ITG_OP_GELU;
    *alpha = 1;
    return near(factor, 0.5) && near(shift, 0.5) && is_tanh_argument(function->inputs[0], x);
  default: return false;
  }
}

static itg_status replace(itg_graph *graph, itg_node *node, itg_op op, const itg_tensor *x, double alpha, double beta,
                          itg_diagnostic *diagnostic) {
  itg_tensor *const old[2] = {node->inputs[0], itg_node_input(node, 1)};
  // The tensor was reached through the graph, which is ours to change.
  itg_tensor *input = (itg_tensor *)x;
  itg_node *made = itg_replace_node(graph, node, op, &input, 1);
  ITG_TRY_MEMORY(made, diagnostic);
  if (itg_op_get_info((int)op)->attribute_size) made->attributes.scalar = (itg_scalar_attributes){alpha, beta};
  for (int i = 0; i < 2; i++) itg_remove_dead(graph, old[i]);
  return ITG_OK;
}

static itg_status match_product(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  product factors = {.constant = 1};
  if (!factorise(node->outputs[0], NULL, true, 8, &factors) || factors.count != 2) return ITG_OK;
  for (int i = 0; i < 2; i++) {
    const itg_tensor *x = factors.factors[i];
    itg_op op;
    double alpha;
    if (!itg_shape_equal(&x->shape, &node->outputs[0]->shape) ||
        !match_gate(factors.constant, x, factors.factors[1 - i], &op, &alpha))
      continue;
    *changed = true;
    return replace(graph, node, op, x, alpha, 0, diagnostic);
  }
  return ITG_OK;
}

static itg_status match_hard_sigmoid(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  double outer, shift, a, b;
  const itg_tensor *clipped = peel(node->outputs[0], NULL, &outer, &shift);
  const itg_node *clip = clipped->producer;
  if (!clip || clip->op != ITG_OP_CLIP || (clip != node && !is_private(clipped)) || shift != 0 ||
      clip->attributes.scalar.alpha != 0 || !near(outer * clip->attributes.scalar.beta, 1))
    return ITG_OK;
  const itg_tensor *x = peel(clip->inputs[0], NULL, &a, &b);
  // Without any arithmetic it is a Clip to [0, 1], which fuses into convolutions.
  if (x == clip->inputs[0] || !is_private(clip->inputs[0])) return ITG_OK;
  *changed = true;
  return replace(graph, node, ITG_OP_HARD_SIGMOID, x, a * outer, b * outer, diagnostic);
}

itg_status itg_pass_recognise_activations(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (!itg_dtype_is_float(node->outputs[0] ? node->outputs[0]->dtype : ITG_DTYPE_NONE)) continue;
    bool done = false;
    if (node->op == ITG_OP_CLIP || node->op == ITG_OP_MUL || node->op == ITG_OP_DIV)
      ITG_TRY(match_hard_sigmoid(graph, node, &done, diagnostic));
    if (!done && (node->op == ITG_OP_MUL || node->op == ITG_OP_DIV))
      ITG_TRY(match_product(graph, node, &done, diagnostic));
    *changed = *changed || done;
  }
  return ITG_OK;
}
