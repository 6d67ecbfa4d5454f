// Unary functions as tables (docs/ARITHMETIC.md 4).
#include <math.h>
#include <stdlib.h>

#include "lower/emit.h"
#include "quantize/unary_function.h"

enum { MAX_NODE_BITS = 5, CODES16 = 65536 };

typedef struct table_function {
  itg_op op;
  double alpha, beta;
  double scale_x, scale_y;
  int32_t zero_x, zero_y;
} table_function;

// The exact output in codes (not rounded, not clamped) for an input code; NaN gives the zero point.
static double exact_code(const table_function *f, int32_t code) {
  const double y = itg_unary_evaluate(f->op, (code - f->zero_x) * f->scale_x, f->alpha, f->beta);
  if (isnan(y)) return f->zero_y;
  return f->zero_y + y / f->scale_y;
}

static double clamp(double value, double low, double high) { return value < low ? low : value > high ? high : value; }

static itg_status emit_direct(itg_legalizer *l, const itg_node *node, const table_function *f, itg_tensor *x,
                              itg_tensor *y, itg_q_table_attributes *attributes) {
  const int64_t size = 256;
  const itg_shape shape = itg_shape_of(1, &size);
  itg_tensor *table = itg_graph_add_constant(l->graph, "table", y->dtype, &shape, NULL);
  ITG_TRY_MEMORY(table, l->diagnostic);
  for (int32_t q = 0; q < 256; q++) {
    const double exact = clamp(exact_code(f, q), attributes->low, attributes->high), code = floor(exact + 0.5);
    attributes->error = fmax(attributes->error, fabs(code - exact));
    if (y->dtype == ITG_DTYPE_U8)
      ((uint8_t *)itg_tensor_writable(table))[q] = (uint8_t)code;
    else
      ((uint16_t *)itg_tensor_writable(table))[q] = (uint16_t)code;
  }
  itg_tensor *inputs[] = {x, table};
  itg_node *result = itg_emit_node(l, ITG_OP_Q_TABLE, node->name, inputs, 2, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  result->attributes.q_table = *attributes;
  return ITG_OK;
}

// Nodes every 2^n codes in Q4 of the output; `exact` holds the function at every code, and at 65536.
static void fill_nodes(const double *exact, int32_t n, int32_t *nodes) {
  const double limit = ldexp(1, 30 - n);
  for (int32_t i = 0; i <= CODES16 >> n; i++) nodes[i] = (int32_t)clamp(floor(exact[i << n] * 16 + 0.5), -limit, limit);
}

static double measure(const double *exact, const int32_t *nodes, int32_t n, int32_t low, int32_t high) {
  double error = 0;
  for (int32_t q = 0; q < CODES16; q++) {
    const int64_t f = q & ((1 << n) - 1);
    const int64_t sum = (int64_t)nodes[q >> n] * ((1 << n) - f) + (int64_t)nodes[(q >> n) + 1] * f;
    const double code = clamp((double)((sum + ((int64_t)1 << (n + 3))) >> (n + 4)), low, high);
    error = fmax(error, fabs(code - clamp(exact[q], low, high)));
  }
  return error;
}

static itg_status emit_interpolated(itg_legalizer *l, const itg_node *node, const table_function *f, itg_tensor *x,
                                    itg_tensor *y, itg_q_table_attributes *attributes) {
  double *exact = itg_arena_array(&l->scratch, CODES16 + 1, sizeof exact[0]);
  int32_t *nodes = itg_arena_array(&l->scratch, CODES16 + 1, sizeof nodes[0]);
  ITG_TRY_MEMORY(exact && nodes, l->diagnostic);
  for (int32_t q = 0; q <= CODES16; q++) exact[q] = exact_code(f, q);
  int32_t n = MAX_NODE_BITS;
  for (;; n--) {
    fill_nodes(exact, n, nodes);
    attributes->error = measure(exact, nodes, n, attributes->low, attributes->high);
    if (n == 0 || attributes->error <= 1) break;
  }
  attributes->node_bits = n;
  itg_tensor *inputs[] = {x, itg_emit_s32(l, "table", (CODES16 >> n) + 1, nodes)};
  ITG_TRY_MEMORY(inputs[1], l->diagnostic);
  itg_node *result = itg_emit_node(l, ITG_OP_Q_TABLE, node->name, inputs, 2, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  result->attributes.q_table = *attributes;
  return ITG_OK;
}

itg_status itg_emit_table(itg_legalizer *l, const itg_node *node, itg_op function, double alpha, double beta,
                          itg_tensor *x, itg_tensor *y) {
  const table_function f = {.op = function,
                            .alpha = alpha,
                            .beta = beta,
                            .scale_x = itg_scale_of(x),
                            .scale_y = itg_scale_of(y),
                            .zero_x = itg_zero_of(x),
                            .zero_y = itg_zero_of(y)};
  itg_q_table_attributes attributes = {.low = itg_code_min(y->dtype),
                                       .high = itg_code_max(y->dtype),
                                       .function = (int32_t)function,
                                       .alpha = alpha,
                                       .beta = beta};
  if (x->dtype == ITG_DTYPE_U8) return emit_direct(l, node, &f, x, y, &attributes);
  return emit_interpolated(l, node, &f, x, y, &attributes);
}

static bool has_scalar_attributes(itg_op op) {
  switch (op) {
  case ITG_OP_ELU:
  case ITG_OP_SELU:
  case ITG_OP_CELU:
  case ITG_OP_THRESHOLDED_RELU:
  case ITG_OP_GELU:
  case ITG_OP_QUICK_GELU:
  case ITG_OP_SHRINK: return true;
  default: return false;
  }
}

itg_status itg_lower_table(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  const itg_scalar_attributes none = {0};
  const itg_scalar_attributes *scalar = has_scalar_attributes(node->op) ? &node->attributes.scalar : &none;
  return itg_emit_table(l, node, node->op, scalar->alpha, scalar->beta, x, y);
}

itg_status itg_lower_pow(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  const double *exponents;
  int64_t count;
  bool is_channel;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(itg_read_channel_constant(l, node, node->inputs[1], &y->shape, &is_channel, &exponents, &count));
  if (!is_channel || count != 1 || !itg_shape_equal(&x->shape, &y->shape))
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "Pow is only available with one constant exponent");
  if (exponents[0] == 2) return itg_emit_mul(l, node, x, x, y, 1);
  return itg_emit_table(l, node, ITG_OP_POW, exponents[0], 0, x, y);
}
