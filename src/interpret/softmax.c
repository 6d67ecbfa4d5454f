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

// Rows of e^(x - max)/sum; y may be x. Sums are f64, in a fixed order that vectorises.
ITG_VECTORISED static void softmax_rows(const float *x, float *y, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; r++, x += n, y += n) {
    float best[LANES], maximum = -INFINITY;
    double sums[LANES] = {0}, sum = 0;
    const size_t whole = n / LANES * LANES;
    if (whole) {
      for (int lane = 0; lane < LANES; lane++) best[lane] = -INFINITY;
      for (size_t i = 0; i < whole; i += LANES) {
        for (int lane = 0; lane < LANES; lane++)
          best[lane] = x[i + (size_t)lane] > best[lane] ? x[i + (size_t)lane] : best[lane];
      }
      for (int lane = 0; lane < LANES; lane++) maximum = best[lane] > maximum ? best[lane] : maximum;
    }
    for (size_t i = whole; i < n; i++) maximum = x[i] > maximum ? x[i] : maximum;
    for (size_t i = 0; i < n; i++) y[i] = itg_expf(x[i] - maximum);
    for (size_t i = 0; i < whole; i += LANES) {
      for (int lane = 0; lane < LANES; lane++) sums[lane] += (double)y[i + (size_t)lane];
    }
    for (size_t i = whole; i < n; i++) sum += (double)y[i];
    for (int lane = 0; whole && lane < LANES; lane++) sum += sums[lane];
    const float factor = (float)(1 / sum);
    for (size_t i = 0; i < n; i++) y[i] *= factor;
  }
}

static void log_softmax_row(const float *x, float *y, size_t n) {
  float maximum = -INFINITY;
  double sum = 0;
  for (size_t i = 0; i < n; i++) maximum = x[i] > maximum ? x[i] : maximum;
  for (size_t i = 0; i < n; i++) sum += exp((double)(x[i] - maximum));
  const float logarithm = (float)log(sum);
  for (size_t i = 0; i < n; i++) y[i] = x[i] - maximum - logarithm;
}

static void hardmax_row(const float *x, float *y, size_t n) {
  size_t best = 0;
  for (size_t i = 1; i < n; i++) best = x[i] > x[best] ? i : best;
  memset(y, 0, n * sizeof *y);
  y[best] = 1;
}

static void softmax_f32(itg_op op, const float *x, float *y, size_t rows, size_t n) {
  if (op == ITG_OP_SOFTMAX) {
    softmax_rows(x, y, rows, n);
    return;
  }
  for (size_t r = 0; r < rows; r++) {
    if (op == ITG_OP_LOG_SOFTMAX)
      log_softmax_row(x + r * n, y + r * n, n);
    else
      hardmax_row(x + r * n, y + r * n, n);
  }
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
  if (x->dtype == ITG_DTYPE_F32 && inner == 1) {
    softmax_f32(op, x->data, call->outputs[0].data, x->count / n, n);
    return ITG_OK;
  }
  for (size_t o = 0; o < x->count / n; o++) {
    const size_t base = o / inner * n * inner + o % inner;
    if (x->dtype == ITG_DTYPE_F32) {
      const float *from = (const float *)x->data + base;
      float *to = (float *)call->outputs[0].data + base, *row = call->scratch;
      for (size_t i = 0; i < n; i++) row[i] = from[i * inner];
      softmax_f32(op, row, row, 1, n);
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
