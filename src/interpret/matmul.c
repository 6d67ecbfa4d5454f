// Matrix products: MATMUL, GEMM, FULLY_CONNECTED. f32 and f64 through OpenBLAS, integers exactly (modulo their width).
#include <cblas.h>
#include <string.h>

#include "interpret/broadcast.h"
#include "interpret/epilogue.h"
#include "interpret/executor.h"
#include "interpret/gemm.h"

void itg_gemm_f32(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const float *a, size_t a_pitch,
                  const float *b, size_t b_pitch, float *c, size_t c_pitch) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (size_t r = 0; r < m; r++) memset(c + r * c_pitch, 0, n * sizeof *c);
  } else if (m == 1 && !transpose_a) { // A matrix-vector product reads B once, without packing it.
    cblas_sgemv(CblasRowMajor, transpose_b ? CblasNoTrans : CblasTrans, (int)(transpose_b ? n : k),
                (int)(transpose_b ? k : n), 1.0f, b, (int)b_pitch, a, 1, 0.0f, c, 1);
  } else {
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, (int)m,
                (int)n, (int)k, 1.0f, a, (int)a_pitch, b, (int)b_pitch, 0.0f, c, (int)c_pitch);
  }
}

static void gemm_f64(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const double *a, size_t a_pitch,
                     const double *b, size_t b_pitch, double *c) {
  if (m == 0 || n == 0) return;
  if (k == 0)
    memset(c, 0, m * n * sizeof *c);
  else
    cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, (int)m,
                (int)n, (int)k, 1.0, a, (int)a_pitch, b, (int)b_pitch, 0.0, c, (int)n);
}

#define INTEGER_GEMM(type)                                                                                 \
  static void gemm_##type(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const type *a, \
                          size_t a_pitch, const type *b, size_t b_pitch, type *c) {                        \
    for (size_t i = 0; i < m; i++) {                                                                       \
      for (size_t j = 0; j < n; j++) {                                                                     \
        type sum = 0;                                                                                      \
        for (size_t p = 0; p < k; p++)                                                                     \
          sum += (transpose_a ? a[p * a_pitch + i] : a[i * a_pitch + p]) *                                 \
                 (transpose_b ? b[j * b_pitch + p] : b[p * b_pitch + j]);                                  \
        c[i * n + j] = sum;                                                                                \
      }                                                                                                    \
    }                                                                                                      \
  }
INTEGER_GEMM(uint32_t)
INTEGER_GEMM(uint64_t)

// One product of any dtype; c is dense [m, n].
static void multiply(itg_dtype dtype, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const void *a,
                     const void *b, void *c) {
  const size_t a_pitch = transpose_a ? m : k, b_pitch = transpose_b ? k : n;
  switch (dtype) {
  case ITG_DTYPE_F32: itg_gemm_f32(transpose_a, transpose_b, m, n, k, a, a_pitch, b, b_pitch, c, n); break;
  case ITG_DTYPE_F64: gemm_f64(transpose_a, transpose_b, m, n, k, a, a_pitch, b, b_pitch, c); break;
  case ITG_DTYPE_S32:
  case ITG_DTYPE_U32: gemm_uint32_t(transpose_a, transpose_b, m, n, k, a, a_pitch, b, b_pitch, c); break;
  default: gemm_uint64_t(transpose_a, transpose_b, m, n, k, a, a_pitch, b, b_pitch, c); break;
  }
}

static itg_status require_matrices(const itg_call *call, itg_diagnostic *diagnostic) {
  const itg_dtype dtype = call->outputs[0].dtype;
  if (dtype != ITG_DTYPE_F32 && dtype != ITG_DTYPE_F64 && dtype != ITG_DTYPE_S32 && dtype != ITG_DTYPE_U32 &&
      dtype != ITG_DTYPE_S64 && dtype != ITG_DTYPE_U64)
    return itg_refuse_dtype(call, dtype, diagnostic);
  for (int32_t i = 0; i < call->input_count; i++) {
    if (!call->inputs[i].tensor) continue;
    if (call->inputs[i].dtype != dtype) return itg_refuse_dtype(call, call->inputs[i].dtype, diagnostic);
    for (int d = 0; d < itg_operand_rank(&call->inputs[i]); d++) {
      if (itg_operand_dims(&call->inputs[i])[d] > INT32_MAX)
        ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, call->node->name, "a matrix dimension is above 2^31 - 1");
    }
  }
  return ITG_OK;
}

// ---- MATMUL ----

typedef struct matmul_plan {
  itg_broadcast batches; // Over the leading dimensions; strides count matrices.
  size_t m, n, k;
  bool transpose_a, transpose_b;
} matmul_plan;

itg_status itg_prepare_matmul(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(require_matrices(call, diagnostic));
  const itg_operand *a = &call->inputs[0], *b = &call->inputs[1];
  const itg_gemm_attributes *attributes = &call->node->attributes.gemm;
  matmul_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  const int ra = itg_operand_rank(a), rb = itg_operand_rank(b);
  const int64_t *da = itg_operand_dims(a), *db = itg_operand_dims(b);
  plan->transpose_a = attributes->transpose_a && ra > 1;
  plan->transpose_b = attributes->transpose_b && rb > 1;
  plan->k = (size_t)(plan->transpose_a ? da[ra - 2] : da[ra - 1]);
  plan->m = ra == 1 ? 1 : (size_t)(plan->transpose_a ? da[ra - 1] : da[ra - 2]);
  plan->n = rb == 1 ? 1 : (size_t)(plan->transpose_b ? db[rb - 2] : db[rb - 1]);
  const itg_shape batch_a = itg_shape_of(ra > 2 ? ra - 2 : 0, da), batch_b = itg_shape_of(rb > 2 ? rb - 2 : 0, db);
  itg_shape batch;
  if (!itg_shape_broadcast(&batch_a, &batch_b, &batch))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "batch dimensions do not broadcast");
  size_t count_b;
  if (itg_shape_count(&batch_b, &count_b) && count_b == 1 && !plan->transpose_a && batch.rank > 0) {
    plan->m *= itg_dims_product(batch_a.dims, 0, batch_a.rank); // One B: all rows of A make one product.
    batch.rank = 0;
  }
  itg_broadcast_plan(&batch, (const itg_shape *[]){batch.rank ? &batch_a : &batch, batch.rank ? &batch_b : &batch}, 2,
                     &plan->batches);
  preparation->prepared = plan;
  return ITG_OK;
}

typedef struct matmul_context {
  const itg_call *call;
  size_t size;
} matmul_context;

static void multiply_batches(void *context, const int64_t *offsets, int64_t output_offset) {
  const matmul_context *c = context;
  const matmul_plan *plan = c->call->prepared;
  const int inner = plan->batches.rank - 1;
  for (int64_t i = 0; i < plan->batches.dims[inner]; i++) {
    const size_t ia = (size_t)(offsets[0] + i * plan->batches.strides[0][inner]) * plan->m * plan->k;
    const size_t ib = (size_t)(offsets[1] + i * plan->batches.strides[1][inner]) * plan->k * plan->n;
    const size_t ic = (size_t)(output_offset + i) * plan->m * plan->n;
    multiply(c->call->outputs[0].dtype, plan->transpose_a, plan->transpose_b, plan->m, plan->n, plan->k,
             (const char *)c->call->inputs[0].data + ia * c->size, (const char *)c->call->inputs[1].data + ib * c->size,
             (char *)c->call->outputs[0].data + ic * c->size);
  }
}

itg_status itg_run_matmul(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const matmul_plan *plan = call->prepared;
  matmul_context context = {call, itg_dtype_size(call->outputs[0].dtype)};
  itg_broadcast_walk(&plan->batches, multiply_batches, &context);
  return ITG_OK;
}

// ---- GEMM: alpha*op(A)*op(B) + beta*C ----

itg_status itg_prepare_gemm(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(require_matrices(call, diagnostic));
  const itg_operand *c = itg_call_input(call, 2);
  if (!c) return ITG_OK;
  itg_broadcast *broadcast = itg_arena_allocate(preparation->arena, sizeof *broadcast);
  ITG_TRY_MEMORY(broadcast, diagnostic);
  itg_broadcast_plan(&call->outputs[0].tensor->shape, (const itg_shape *[]){&c->tensor->shape}, 1, broadcast);
  preparation->prepared = broadcast;
  return ITG_OK;
}

#define ADD_SCALED(enumerator, type, factor)                              \
  case ITG_DTYPE_##enumerator: {                                          \
    const type *x = (const type *)call->inputs[2].data + offsets[0];      \
    type *y = (type *)call->outputs[0].data + output_offset;              \
    for (int64_t i = 0; i < n; i++) y[i] += (type)(factor)*x[i * stride]; \
    break;                                                                \
  }
static void add_scaled(void *context, const int64_t *offsets, int64_t output_offset) {
  const itg_call *call = context;
  const itg_broadcast *broadcast = call->prepared;
  const double beta = call->node->attributes.gemm.beta;
  const int64_t n = broadcast->dims[broadcast->rank - 1], stride = broadcast->strides[0][broadcast->rank - 1];
  switch (call->outputs[0].dtype) {
    ADD_SCALED(F32, float, beta)
    ADD_SCALED(F64, double, beta)
    ADD_SCALED(S32, uint32_t, (int64_t)beta)
    ADD_SCALED(U32, uint32_t, (int64_t)beta)
  default: ADD_SCALED(S64, uint64_t, (int64_t)beta) ADD_SCALED(U64, uint64_t, (int64_t)beta)
  }
}

static void scale(itg_dtype dtype, void *y, size_t count, double alpha) {
  float *f32 = y;
  double *f64 = y;
  uint32_t *u32 = y;
  uint64_t *u64 = y;
  for (size_t i = 0; i < count; i++) {
    if (dtype == ITG_DTYPE_F32)
      f32[i] *= (float)alpha;
    else if (dtype == ITG_DTYPE_F64)
      f64[i] *= alpha;
    else if (itg_dtype_size(dtype) == 4)
      u32[i] *= (uint32_t)(int64_t)alpha;
    else
      u64[i] *= (uint64_t)(int64_t)alpha;
  }
}

itg_status itg_run_gemm(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_gemm_attributes *attributes = &call->node->attributes.gemm;
  const itg_operand *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
  const size_t m = (size_t)itg_operand_dims(y)[0], n = (size_t)itg_operand_dims(y)[1];
  const size_t k = (size_t)itg_operand_dims(a)[attributes->transpose_a ? 0 : 1];
  multiply(y->dtype, attributes->transpose_a, attributes->transpose_b, m, n, k, a->data, b->data, y->data);
  if (attributes->alpha != 1) scale(y->dtype, y->data, y->count, attributes->alpha);
  if (call->prepared && attributes->beta != 0) itg_broadcast_walk(call->prepared, add_scaled, (void *)call);
  return ITG_OK;
}

// ---- FULLY_CONNECTED ----

itg_status itg_prepare_fully_connected(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  ITG_TRY(itg_require_f32(call, diagnostic));
  return require_matrices(call, diagnostic);
}

itg_status itg_run_fully_connected(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0], *weight = &call->inputs[1], *y = &call->outputs[0];
  const size_t n = (size_t)itg_operand_dims(weight)[0], k = (size_t)itg_operand_dims(weight)[1];
  if (y->count == 0) return ITG_OK;
  const size_t m = y->count / n;
  itg_gemm_f32(false, true, m, n, k, x->data, k, weight->data, k, y->data, n);
  const itg_epilogue epilogue = itg_epilogue_of(call);
  itg_epilogue_rows(&epilogue, y->data, m, n, n, 0);
  return ITG_OK;
}
