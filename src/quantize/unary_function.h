// The real functions behind tables, in double. Shared by the range rules and by the tables of the integer dialect.
#ifndef ITG_QUANTIZE_UNARY_FUNCTION_H
#define ITG_QUANTIZE_UNARY_FUNCTION_H

#include "graph/graph.h"

// True when itg_unary_evaluate knows the operation.
bool itg_unary_is_known(itg_op op);
// True for functions that level out towards an end of their domain (sigmoid, tanh, GELU, ..).
bool itg_unary_is_smooth(itg_op op);
// ONNX semantics. alpha and beta as in itg_scalar_attributes; POW: x^alpha (constant exponent); DIV: alpha/x.
// May give infinities and NaN outside the function's domain.
double itg_unary_evaluate(itg_op op, double x, double alpha, double beta);

#endif
