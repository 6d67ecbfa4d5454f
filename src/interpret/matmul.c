// Matrix products: MATMUL, GEMM, FULLY_CONNECTED. f32 goes through packed_gemm.h; constant right sides are packed once, where that pays.
#include <string.h>

#include "interpret/broadcast.h"
#include "interpret/epilogue.h"
#include "interpret/executor.h"
#include "interpret/packed_gemm.h"

static size_t align_floats(size_t count) { return (count + 15) / 16 * 16; }

// One product c[m, n] = op(a)*op(b).
typedef struct product {
  size_t m, n, k;
  bool transpose_a, transpose_b;
  const float *packed; // f32 with a constant b: its panels.
} product;

static void pack_b(const product *p, const float *b, float *panels) {
  itg_gemm_pack(b, p->transpose_b ? 1 : p->n, p->transpose_b ? p->k : 1, p->k, p->n, panels);
}

// Bytes of scratch for one f32 product: panels of b and the rows of a transposed a.
static size_t product_scratch(const product *p) {
  const size_t panels = p->packed ? 0 : align_floats(itg_gemm_packed_count(p->k, p->n));
  return (panels + (p->transpose_a ? p->m * p->k : 0)) * sizeof(float);
}

// Large weights under many rows are packed in every run: that takes a few percent of it, and kept panels would double the memory
// of a large network.
enum { MANY_ROWS = 128, LARGE_WEIGHTS = 1 << 20 };

static itg_status pack_constant(product *p, const itg_operand *b, itg_arena *arena, itg_diagnostic *diagnostic) {
  if (!b->data || b->dtype != ITG_DTYPE_F32) return ITG_OK;
  if (p->m >= MANY_ROWS && p->k * p->n >= LARGE_WEIGHTS) return ITG_OK;
  float *panels = itg_arena_array(arena, itg_gemm_packed_count(p->k, p->n) + 16, sizeof *panels);
  ITG_TRY_MEMORY(panels, diagnostic);
  pack_b(p, b->data, panels);
  p->packed = panels;
  return ITG_OK;
}

static void multiply_f32(const product *p, const float *a, const float *b, float *c, float *scratch) {
  const float *packed = p->packed;
  if (!packed) {
    pack_b(p, b, scratch);
    packed = scratch;
    scratch += align_floats(itg_gemm_packed_count(p->k, p->n));
  }
  if (p->transpose_a) {
    for (size_t i = 0; i < p->k; i++) {
      for (size_t r = 0; r < p->m; r++) scratch[r * p->k + i] = a[i * p->m + r];
    }
    a = scratch;
  }
  itg_gemm(a, p->k, p->m, p->k, packed, p->n, c, p->n);
}

// Other types: exact for integers (modulo their width), in the order of k for f64.
#define PLAIN_PRODUCT(type)                                                                                     \
  static void multiply_##type(const product *p, const type *a, const type *b, type *c) {                        \
    for (size_t i = 0; i < p->m; i++, c += p->n) {                                                              \
      for (size_t j = 0; j < p->n; j++) c[j] = 0;                                                               \
      for (size_t l = 0; l < p->k; l++) {                                                                       \
        const type value = p->transpose_a ? a[l * p->m + i] : a[i * p->k + l];                                  \
        for (size_t j = 0; j < p->n; j++) c[j] += value * (p->transpose_b ? b[j * p->k + l] : b[l * p->n + j]); \
      }                                                                                                         \
    }                                                                                                           \
  }
PLAIN_PRODUCT(double)
PLAIN_PRODUCT(uint32_t)
PLAIN_PRODUCT(uint64_t)

static void multiply(itg_dtype dtype, const product *p, const void *a, const void *b, void *c, void *scratch) {
  switch (dtype) {
  case ITG_DTYPE_F32: multiply_f32(p, a, b, c, scratch); break;
  case ITG_DTYPE_F64: multiply_double(p, a, b, c); break;
  case ITG_DTYPE_S32:
  case ITG_DTYPE_U32: multiply_uint32_t(p, a, b, c); break;
  default: multiply_uint64_t(p, a, b, c); break;
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
  }
  return ITG_OK;
}

// ---- MATMUL ----

typedef struct matmul_plan {
  itg_broadcast batches; // Over the leading dimensions; strides count matrices.
  product product;
} matmul_plan;

itg_status itg_prepare_matmul(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(require_matrices(call, diagnostic));
  const itg_operand *a = &call->inputs[0], *b = &call->inputs[1];
  const itg_gemm_attributes *attributes = &call->node->attributes.gemm;
  matmul_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  const int ra = itg_operand_rank(a), rb = itg_operand_rank(b);
  const int64_t *da = itg_operand_dims(a), *db = itg_operand_dims(b);
  plan->product.transpose_a = attributes->transpose_a && ra > 1;
  plan->product.transpose_b = attributes->transpose_b && rb > 1;
  plan->product.k = (size_t)(plan->product.transpose_a ? da[ra - 2] : da[ra - 1]);
  plan->product.m = ra == 1 ? 1 : (size_t)(plan->product.transpose_a ? da[ra - 1] : da[ra - 2]);
  plan->product.n = rb == 1 ? 1 : (size_t)(plan->product.transpose_b ? db[rb - 2] : db[rb - 1]);
  const itg_shape batch_a = itg_shape_of(ra > 2 ? ra - 2 : 0, da), batch_b = itg_shape_of(rb > 2 ? rb - 2 : 0, db);
  itg_shape batch;
  if (!itg_shape_broadcast(&batch_a, &batch_b, &batch))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "batch dimensions do not broadcast");
  size_t count_b;
  if (itg_shape_count(&batch_b, &count_b) && count_b == 1 && !plan->product.transpose_a && batch.rank > 0) {
    plan->product.m *= itg_dims_product(batch_a.dims, 0, batch_a.rank); // One B: all rows of A make one product.
    batch.rank = 0;
  }
  itg_broadcast_plan(&batch, (const itg_shape *[]){batch.rank ? &batch_a : &batch, batch.rank ? &batch_b : &batch}, 2,
                     &plan->batches);
  if (count_b == 1) ITG_TRY(pack_constant(&plan->product, b, preparation->arena, diagnostic));
  if (b->dtype == ITG_DTYPE_F32) preparation->scratch = product_scratch(&plan->product);
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
    const size_t ia = (size_t)(offsets[0] + i * plan->batches.strides[0][inner]) * plan->product.m * plan->product.k;
    const size_t ib = (size_t)(offsets[1] + i * plan->batches.strides[1][inner]) * plan->product.k * plan->product.n;
    const size_t ic = (size_t)(output_offset + i) * plan->product.m * plan->product.n;
    multiply(c->call->outputs[0].dtype, &plan->product, (const char *)c->call->inputs[0].data + ia * c->size,
             (const char *)c->call->inputs[1].data + ib * c->size, (char *)c->call->outputs[0].data + ic * c->size,
             c->call->scratch);
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

typedef struct gemm_plan {
  product product;
  itg_broadcast broadcast; // Of C.
} gemm_plan;

itg_status itg_prepare_gemm(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(require_matrices(call, diagnostic));
  const itg_gemm_attributes *attributes = &call->node->attributes.gemm;
  const itg_operand *c = itg_call_input(call, 2);
  gemm_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  plan->product = (product){.m = (size_t)itg_operand_dims(&call->outputs[0])[0],
                            .n = (size_t)itg_operand_dims(&call->outputs[0])[1],
                            .k = (size_t)itg_operand_dims(&call->inputs[0])[attributes->transpose_a ? 0 : 1],
                            .transpose_a = attributes->transpose_a,
                            .transpose_b = attributes->transpose_b};
  ITG_TRY(pack_constant(&plan->product, &call->inputs[1], preparation->arena, diagnostic));
  if (call->outputs[0].dtype == ITG_DTYPE_F32) preparation->scratch = product_scratch(&plan->product);
  if (c)
    itg_broadcast_plan(&call->outputs[0].tensor->shape, (const itg_shape *[]){&c->tensor->shape}, 1, &plan->broadcast);
  preparation->prepared = plan;
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
  const itg_broadcast *broadcast = &((const gemm_plan *)call->prepared)->broadcast;
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
  const gemm_plan *plan = call->prepared;
  const itg_gemm_attributes *attributes = &call->node->attributes.gemm;
  const itg_operand *y = &call->outputs[0];
  if (y->count == 0) return ITG_OK;
  multiply(y->dtype, &plan->product, call->inputs[0].data, call->inputs[1].data, y->data, call->scratch);
  if (attributes->alpha != 1) scale(y->dtype, y->data, y->count, attributes->alpha);
  if (itg_call_input(call, 2) && attributes->beta != 0) itg_broadcast_walk(&plan->broadcast, add_scaled, (void *)call);
  return ITG_OK;
}

// ---- FULLY_CONNECTED ----

itg_status itg_prepare_fully_connected(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_require_f32(call, diagnostic));
  const itg_operand *weight = &call->inputs[1];
  product *p = itg_arena_allocate(preparation->arena, sizeof *p);
  ITG_TRY_MEMORY(p, diagnostic);
  *p = (product){
      .n = (size_t)itg_operand_dims(weight)[0], .k = (size_t)itg_operand_dims(weight)[1], .transpose_b = true};
  p->m = p->n ? call->outputs[0].count / p->n : 0;
  ITG_TRY(pack_constant(p, weight, preparation->arena, diagnostic));
  preparation->scratch = product_scratch(p);
  preparation->prepared = p;
  return ITG_OK;
}

itg_status itg_run_fully_connected(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const product *p = call->prepared;
  if (call->outputs[0].count == 0) return ITG_OK;
  multiply_f32(p, call->inputs[0].data, call->inputs[1].data, call->outputs[0].data, call->scratch);
  const itg_epilogue epilogue = itg_epilogue_of(call);
  itg_epilogue_rows(&epilogue, call->outputs[0].data, p->m, p->n, p->n);
  return ITG_OK;
}
