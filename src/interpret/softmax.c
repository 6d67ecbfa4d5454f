// SOFTMAX, LOG_SOFTMAX and HARDMAX along one axis, f32 and f64.
#include <math.h>
#include <string.h>

#include "interpret/executor.h"
#include "interpret/vector_math.h"

enum { LANES = 16 };

itg_status itg_prepare_softmax(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_dtype dtype = call->inputs[0].dtype;
  if (dtype != ITG_DTYPE_F32 && dtype != ITG_DTYPE_F64) return itg_refuse_dtype(call, dtype, diagnostic);
  const itg_operand *x = &call->inputs[0];
  preparation->scratch = (size_t)itg_operand_dims(x)[call->node->attributes.axis.axis] * itg_dtype_size(dtype);
  return ITG_OK;
}

ITG_VECTORISED static float maximum_of(const float *x, size_t n) {
  float lanes[LANES], best = -INFINITY;
  for (int lane = 0; lane < LANES; lane++) lanes[lane] = -INFINITY;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int lane = 0; lane < LANES; lane++)
      lanes[lane] = x[i + (size_t)lane] > lanes[lane] ? x[i + (size_t)lane] : lanes[lane];
  }
  for (; i < n; i++) best = x[i] > best ? x[i] : best;
  for (int lane = 0; lane < LANES; lane++) best = lanes[lane] > best ? lanes[lane] : best;
  return best;
}

// y = e^(x - shift); returns the sum.
ITG_VECTORISED static double exponentials(const float *x, float *y, size_t n, float shift) {
  double lanes[LANES] = {0}, sum = 0;
  for (size_t i = 0; i < n; i++) y[i] = itg_expf(x[i] - shift);
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) lanes[lane] += (double)y[i + (size_t)lane];
  }
  for (; i < n; i++) sum += (double)y[i];
  for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
  return sum;
}

ITG_VECTORISED static void scale_run(float *y, size_t n, float factor) {
  for (size_t i = 0; i < n; i++) y[i] *= factor;
}

static void softmax_f32(itg_op op, const float *x, float *y, size_t n) {
  const float maximum = maximum_of(x, n);
  if (op == ITG_OP_HARDMAX) {
    size_t at = 0;
    while (at + 1 < n && x[at] != maximum) at++;
    memset(y, 0, n * sizeof *y);
    y[at] = 1;
    return;
  }
  // y may be x: the logarithm needs x afterwards, so only the sum is kept then.
  if (op == ITG_OP_LOG_SOFTMAX) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp((double)(x[i] - maximum));
    const float logarithm = (float)log(sum);
    for (size_t i = 0; i < n; i++) y[i] = x[i] - maximum - logarithm;
    return;
  }
  scale_run(y, n, (float)(1 / exponentials(x, y, n, maximum)));
}

static void softmax_f64(itg_op op, const double *x, double *y, size_t n) {
  double maximum = -INFINITY, sum = 0;
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    if (x[i] > maximum) {
      maximum = x[i];
      at = i;
    }
  }
  for (size_t i = 0; i < n; i++) sum += exp(x[i] - maximum);
  for (size_t i = 0; i < n; i++) {
    if (op == ITG_OP_HARDMAX)
      y[i] = i == at;
    else
      y[i] = op == ITG_OP_SOFTMAX ? exp(x[i] - maximum) / sum : x[i] - maximum - log(sum);
  }
}

itg_status itg_run_softmax(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0];
  const int axis = call->node->attributes.axis.axis;
  const int64_t *dims = itg_operand_dims(x);
  const size_t n = (size_t)dims[axis], inner = itg_dims_product(dims, axis + 1, itg_operand_rank(x));
  const itg_op op = call->node->op;
  if (x->count == 0) return ITG_OK;
  for (size_t o = 0; o < x->count / n; o++) {
    const size_t base = o / inner * n * inner + o % inner;
    if (x->dtype == ITG_DTYPE_F32) {
      const float *from = (const float *)x->data + base;
      float *to = (float *)call->outputs[0].data + base, *row = call->scratch;
      if (inner == 1) {
        softmax_f32(op, from, to, n);
        continue;
      }
      for (size_t i = 0; i < n; i++) row[i] = from[i * inner];
      softmax_f32(op, row, row, n);
      for (size_t i = 0; i < n; i++) to[i * inner] = row[i];
    } else {
      const double *from = (const double *)x->data + base;
      double *to = (double *)call->outputs[0].data + base, *row = call->scratch;
      for (size_t i = 0; i < n; i++) row[i] = from[i * inner];
      softmax_f64(op, row, inner == 1 ? to : row, n);
      for (size_t i = 0; inner > 1 && i < n; i++) to[i * inner] = row[i];
    }
  }
  return ITG_OK;
}
