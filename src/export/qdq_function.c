// QDQ export of functions that run by table here, softmax, norms and resizing.
#include <math.h>
#include <string.h>

#include "export/qdq.h"

// ---- functions of one value ----

typedef struct function_rule {
  itg_op op;
  const char *type;         // Of ONNX.
  const char *alpha, *beta; // Names of its attributes, or NULL.
} function_rule;

static const function_rule rules[] = {
    {ITG_OP_ABS, "Abs", NULL, NULL},
    {ITG_OP_NEG, "Neg", NULL, NULL},
    {ITG_OP_CEIL, "Ceil", NULL, NULL},
    {ITG_OP_FLOOR, "Floor", NULL, NULL},
    {ITG_OP_ROUND, "Round", NULL, NULL},
    {ITG_OP_SIGN, "Sign", NULL, NULL},
    {ITG_OP_SQRT, "Sqrt", NULL, NULL},
    {ITG_OP_EXP, "Exp", NULL, NULL},
    {ITG_OP_LOG, "Log", NULL, NULL},
    {ITG_OP_ERF, "Erf", NULL, NULL},
    {ITG_OP_SIN, "Sin", NULL, NULL},
    {ITG_OP_COS, "Cos", NULL, NULL},
    {ITG_OP_TAN, "Tan", NULL, NULL},
    {ITG_OP_ASIN, "Asin", NULL, NULL},
    {ITG_OP_ACOS, "Acos", NULL, NULL},
    {ITG_OP_ATAN, "Atan", NULL, NULL},
    {ITG_OP_SINH, "Sinh", NULL, NULL},
    {ITG_OP_COSH, "Cosh", NULL, NULL},
    {ITG_OP_ASINH, "Asinh", NULL, NULL},
    {ITG_OP_ACOSH, "Acosh", NULL, NULL},
    {ITG_OP_ATANH, "Atanh", NULL, NULL},
    {ITG_OP_RECIPROCAL, "Reciprocal", NULL, NULL},
    {ITG_OP_RELU, "Relu", NULL, NULL},
    {ITG_OP_SIGMOID, "Sigmoid", NULL, NULL},
    {ITG_OP_TANH, "Tanh", NULL, NULL},
    {ITG_OP_SOFTPLUS, "Softplus", NULL, NULL},
    {ITG_OP_SOFTSIGN, "Softsign", NULL, NULL},
    {ITG_OP_HARD_SWISH, "HardSwish", NULL, NULL},
    {ITG_OP_MISH, "Mish", NULL, NULL},
    {ITG_OP_LEAKY_RELU, "LeakyRelu", "alpha", NULL},
    {ITG_OP_ELU, "Elu", "alpha", NULL},
    {ITG_OP_SELU, "Selu", "alpha", "gamma"},
    {ITG_OP_CELU, "Celu", "alpha", NULL},
    {ITG_OP_THRESHOLDED_RELU, "ThresholdedRelu", "alpha", NULL},
    {ITG_OP_HARD_SIGMOID, "HardSigmoid", "alpha", "beta"},
    {ITG_OP_SHRINK, "Shrink", "lambd", "bias"},
};

static const char *sigmoid_unit(itg_qdq *q, const itg_node *node, const char *x, double alpha) {
  const char *inner = x;
  if (alpha != 1)
    inner = itg_qdq_node(q, node, "Mul", (const char *[]){x, itg_qdq_float(q, node->name, alpha)}, 2, NULL);
  inner = itg_qdq_node(q, node, "Sigmoid", &inner, 1, NULL);
  return itg_qdq_node(q, node, "Mul", (const char *[]){x, inner}, 2, NULL);
}

static itg_status table(itg_qdq *q, const itg_node *node) {
  const itg_q_table_attributes *a = &node->attributes.q_table;
  const char *x = itg_qdq_real(q, node->inputs[0]), *real = NULL;
  itg_onnx_writer_attributes attributes = {0};
  switch (a->function) {
  case ITG_OP_GELU:
    if (a->alpha != 0) itg_onnx_writer_set_string(&attributes, "approximate", "tanh", 4);
    real = itg_qdq_node(q, node, "Gelu", &x, 1, &attributes);
    break;
  case ITG_OP_SILU: real = sigmoid_unit(q, node, x, 1); break;
  case ITG_OP_QUICK_GELU: real = sigmoid_unit(q, node, x, a->alpha); break;
  case ITG_OP_POW:
    real = itg_qdq_node(q, node, "Pow", (const char *[]){x, itg_qdq_float(q, node->name, a->alpha)}, 2, NULL);
    break;
  case ITG_OP_DIV:
    real = itg_qdq_node(q, node, "Div", (const char *[]){itg_qdq_float(q, node->name, a->alpha), x}, 2, NULL);
    break;
  case ITG_OP_CLIP:
    real = itg_qdq_node(
        q, node, "Clip",
        (const char *[]){x, itg_qdq_float(q, node->name, a->alpha), itg_qdq_float(q, node->name, a->beta)}, 3, NULL);
    break;
  default:
    for (size_t i = 0; i < sizeof rules / sizeof rules[0] && !real; i++) {
      if ((int32_t)rules[i].op != a->function) continue;
      if (rules[i].alpha) itg_onnx_writer_set_float(&attributes, rules[i].alpha, (float)a->alpha);
      if (rules[i].beta) itg_onnx_writer_set_float(&attributes, rules[i].beta, (float)a->beta);
      real = itg_qdq_node(q, node, rules[i].type, &x, 1, &attributes);
    }
  }
  if (!real) return itg_qdq_refuse(q, node, itg_op_name(a->function));
  itg_qdq_define(q, node, real, node->outputs[0], a->low, a->high);
  return ITG_OK;
}

// ---- softmax and norms over the last axis ----

static void softmax(itg_qdq *q, const itg_node *node) {
  const char *real = itg_qdq_real(q, node->inputs[0]);
  if (node->input_count > 1 && node->inputs[1]) // Keys that are left out get a value from which nothing remains.
    real = itg_qdq_node(q, node, "Where",
                        (const char *[]){itg_qdq_real(q, node->inputs[1]), real, itg_qdq_float(q, node->name, -1e30)},
                        3, NULL);
  itg_onnx_writer_attributes attributes = {0};
  itg_onnx_writer_set_integer(&attributes, "axis", -1);
  itg_qdq_define(q, node, itg_qdq_node(q, node, "Softmax", &real, 1, &attributes), node->outputs[0],
                 node->attributes.q_softmax.low, node->attributes.q_softmax.high);
}

static const char *root_mean_square(itg_qdq *q, const itg_node *node, const char *x, double epsilon, bool is_sum) {
  const char *square = itg_qdq_node(q, node, "Mul", (const char *[]){x, x}, 2, NULL);
  const char *axes = itg_qdq_integers(q, node->name, 1, (const int64_t[]){-1});
  const char *mean =
      itg_qdq_node(q, node, is_sum ? "ReduceSum" : "ReduceMean", (const char *[]){square, axes}, 2, NULL);
  mean = itg_qdq_node(q, node, "Add", (const char *[]){mean, itg_qdq_float(q, node->name, epsilon)}, 2, NULL);
  mean = itg_qdq_node(q, node, "Sqrt", &mean, 1, NULL);
  return itg_qdq_node(q, node, "Div", (const char *[]){x, mean}, 2, NULL);
}

static itg_status norm(itg_qdq *q, const itg_node *node) {
  const itg_q_norm_attributes *a = &node->attributes.q_norm;
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0], *beta = itg_node_input(node, 2);
  const int64_t count = node->inputs[1]->shape.dims[0], channels = x->shape.dims[x->shape.rank - 1];
  float *gammas = itg_arena_array(&q->arena, (size_t)count, sizeof gammas[0]);
  float *betas = itg_arena_array(&q->arena, (size_t)count, sizeof betas[0]);
  ITG_TRY_MEMORY(gammas && betas, q->diagnostic);
  const int32_t fraction = a->kind == ITG_NORM_L2 ? 26 : 20; // Q of the normalised value (docs/ARITHMETIC.md 4).
  for (int64_t c = 0; c < count; c++) {
    gammas[c] = (float)(ldexp(((const int32_t *)node->inputs[1]->data)[c], fraction - a->shift) * itg_qdq_scale(y));
    betas[c] = beta ? (float)(((const int32_t *)beta->data)[c] / 16.0 * itg_qdq_scale(y)) : 0;
  }
  const double elements = a->kind == ITG_NORM_L2 ? 1 : (double)channels;
  const double epsilon = (double)a->epsilon * itg_qdq_scale(x) * itg_qdq_scale(x) / (elements * elements);
  const char *gamma = itg_qdq_floats(q, node->name, 1, &count, gammas);
  const char *real = itg_qdq_real(q, x), *shift = beta ? itg_qdq_floats(q, node->name, 1, &count, betas) : NULL;
  if (a->kind == ITG_NORM_LAYER) {
    itg_onnx_writer_attributes attributes = {0};
    itg_onnx_writer_set_integer(&attributes, "axis", -1);
    itg_onnx_writer_set_float(&attributes, "epsilon", (float)epsilon);
    real =
        itg_qdq_node(q, node, "LayerNormalization", (const char *[]){real, gamma, shift}, shift ? 3 : 2, &attributes);
  } else {
    real = root_mean_square(q, node, real, epsilon, a->kind == ITG_NORM_L2);
    real = itg_qdq_node(q, node, "Mul", (const char *[]){real, gamma}, 2, NULL);
    if (shift) real = itg_qdq_node(q, node, "Add", (const char *[]){real, shift}, 2, NULL);
  }
  itg_qdq_define(q, node, real, y, a->low, a->high);
  return ITG_OK;
}

// ---- resizing: tables here, rules in ONNX ----

enum { WEIGHT_ONE = 2048 };

typedef struct resize_rule {
  const char *mode, *coordinates, *rounding;
} resize_rule;
static const resize_rule resize_rules[] = {
    {"nearest", "asymmetric", "floor"},
    {"nearest", "half_pixel", "round_prefer_floor"},
    {"nearest", "half_pixel", "round_prefer_ceil"},
    {"nearest", "asymmetric", "round_prefer_floor"},
    {"nearest", "align_corners", "round_prefer_floor"},
    {"linear", "half_pixel", "round_prefer_floor"},
    {"linear", "align_corners", "round_prefer_floor"},
    {"linear", "asymmetric", "round_prefer_floor"},
    {"linear", "pytorch_half_pixel", "round_prefer_floor"},
};

static double coordinate(const resize_rule *rule, double i, double in, double out) {
  if (strcmp(rule->coordinates, "align_corners") == 0) return out > 1 ? i * (in - 1) / (out - 1) : 0;
  if (strcmp(rule->coordinates, "asymmetric") == 0) return i * in / out;
  if (strcmp(rule->coordinates, "pytorch_half_pixel") == 0 && out <= 1) return 0;
  return (i + 0.5) * in / out - 0.5;
}

// Whether a rule gives the table of one dimension; weights may differ by the last bit.
static bool rule_fits(const resize_rule *rule, int64_t in, int64_t out, const int32_t *index, const int32_t *weight) {
  const bool is_nearest = strcmp(rule->mode, "nearest") == 0;
  for (int64_t i = 0; i < out; i++) {
    const double x = coordinate(rule, (double)i, (double)in, (double)out), last = (double)(in - 1);
    if (is_nearest) {
      const double at = strcmp(rule->rounding, "floor") == 0               ? floor(x)
                        : strcmp(rule->rounding, "round_prefer_ceil") == 0 ? floor(x + 0.5)
                                                                           : ceil(x - 0.5);
      if (weight[i] != 0 || index[2 * i] != (int32_t)fmin(fmax(at, 0), last)) return false;
      continue;
    }
    const double table = index[2 * i] + (double)weight[i] * (index[2 * i + 1] - index[2 * i]) / WEIGHT_ONE;
    if (fabs(fmin(fmax(x, 0), last) - table) > 1.0 / WEIGHT_ONE) return false;
  }
  return true;
}

static itg_status resize(itg_qdq *q, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  const resize_rule *found = NULL;
  for (size_t i = 0; i < sizeof resize_rules / sizeof resize_rules[0] && !found; i++) {
    bool fits = true;
    for (int32_t d = 1; d <= 2 && fits; d++)
      fits = rule_fits(&resize_rules[i], x->shape.dims[d], y->shape.dims[d], node->inputs[2 * d - 1]->data,
                       node->inputs[2 * d]->data);
    if (fits) found = &resize_rules[i];
  }
  if (!found) return itg_qdq_refuse(q, node, "its tables follow no rule of ONNX");
  itg_onnx_writer_attributes attributes = {0};
  itg_onnx_writer_set_string(&attributes, "mode", found->mode, strlen(found->mode));
  itg_onnx_writer_set_string(&attributes, "coordinate_transformation_mode", found->coordinates,
                             strlen(found->coordinates));
  itg_onnx_writer_set_string(&attributes, "nearest_mode", found->rounding, strlen(found->rounding));
  const int64_t sizes[4] = {y->shape.dims[0], y->shape.dims[3], y->shape.dims[1], y->shape.dims[2]};
  const char *inputs[4] = {itg_qdq_channels_first(q, node, itg_qdq_real(q, x), x), "", "",
                           itg_qdq_integers(q, node->name, 4, sizes)};
  const char *real = itg_qdq_node(q, node, "Resize", inputs, 4, &attributes);
  itg_qdq_define_all(q, node, itg_qdq_channels_last(q, node, itg_qdq_round(q, node, real, y), y), y);
  return ITG_OK;
}

itg_status itg_qdq_function(itg_qdq *q, const itg_node *node, bool *handled) {
  *handled = true;
  switch (node->op) {
  case ITG_OP_Q_TABLE: return table(q, node);
  case ITG_OP_Q_SOFTMAX: softmax(q, node); return ITG_OK;
  case ITG_OP_Q_NORM: return norm(q, node);
  case ITG_OP_Q_RESIZE: return resize(q, node);
  default: *handled = false; return ITG_OK;
  }
}
