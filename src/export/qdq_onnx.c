// LEGAL graph -> ONNX with QuantizeLinear and DequantizeLinear around every operation, which ONNX Runtime runs on the CPU and
// hands to its NPU provider. Weights, biases, scales and zero points are ours, bit for bit; what stands between them is float.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/qdq.h"
#include "intaglio/compiler.h"
#include "run/model.h"

// 21 has 16-bit QuantizeLinear in ONNX's own domain.
enum { OPSET = 21 };

const char *itg_qdq_fresh(itg_qdq *q, const char *base, const char *suffix) {
  char *name = itg_arena_allocate(&q->arena, strlen(base) + strlen(suffix) + 24);
  if (!name) {
    q->failed = true;
    return "";
  }
  sprintf(name, "%s/%s%llu", base, suffix, (unsigned long long)q->next++);
  return name;
}

// A name that belongs to one tensor.
static const char *own_name(itg_qdq *q, const itg_tensor *tensor, const char *suffix) {
  char *name = itg_arena_allocate(&q->arena, strlen(tensor->name) + strlen(suffix) + 1);
  if (!name) {
    q->failed = true;
    return "";
  }
  sprintf(name, "%s%s", tensor->name, suffix);
  return name;
}

static void remember(itg_qdq *q, const itg_tensor *tensor, const char *real) {
  if (!itg_map_set(&q->known, tensor->name, strlen(tensor->name), (void *)(uintptr_t)real)) q->failed = true;
}

double itg_qdq_scale(const itg_tensor *tensor) { return tensor->encoding->scales[0]; }
int32_t itg_qdq_zero(const itg_tensor *tensor) {
  return tensor->encoding->zero_points ? tensor->encoding->zero_points[0] : 0;
}

const char *itg_qdq_floats(itg_qdq *q, const char *base, int32_t rank, const int64_t *dims, const float *values) {
  const char *name = itg_qdq_fresh(q, base, "constant");
  const itg_shape shape = itg_shape_of(rank, dims);
  size_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= (size_t)dims[i];
  itg_onnx_writer_constant(&q->onnx, name, ITG_DTYPE_F32, &shape, values, count * sizeof values[0]);
  return name;
}

const char *itg_qdq_float(itg_qdq *q, const char *base, double value) {
  const float single = (float)value;
  return itg_qdq_floats(q, base, 0, NULL, &single);
}

const char *itg_qdq_integers(itg_qdq *q, const char *base, int64_t count, const int64_t *values) {
  const char *name = itg_qdq_fresh(q, base, "constant");
  const itg_shape shape = itg_shape_of(1, &count);
  itg_onnx_writer_constant(&q->onnx, name, ITG_DTYPE_S64, &shape, values, (size_t)count * sizeof values[0]);
  return name;
}

// Scale and zero point of per-tensor codes, as names.
static void encoding_names(itg_qdq *q, const itg_tensor *tensor, const char **scale, const char **zero) {
  *scale = itg_qdq_fresh(q, tensor->name, "scale");
  *zero = itg_qdq_fresh(q, tensor->name, "zero");
  itg_onnx_writer_encoding(&q->onnx, *scale, *zero, tensor->dtype, itg_qdq_scale(tensor), itg_qdq_zero(tensor));
}

static void dequantize(itg_qdq *q, const itg_tensor *tensor, const char *codes, const char *scale, const char *zero,
                       const char *real) {
  itg_onnx_writer_node(&q->onnx, "DequantizeLinear", NULL, itg_qdq_fresh(q, tensor->name, "DequantizeLinear"),
                       (const char *[]){codes, scale, zero}, 3, &real, 1, NULL);
}

const char *itg_qdq_weights(itg_qdq *q, const char *base, itg_dtype dtype, const itg_shape *shape, const void *codes,
                            int64_t count, const double *scales, int32_t axis) {
  size_t elements = 1;
  for (int32_t i = 0; i < shape->rank; i++) elements *= (size_t)shape->dims[i];
  const char *integers = itg_qdq_fresh(q, base, "weights"), *real = itg_qdq_fresh(q, base, "weights");
  itg_onnx_writer_constant(&q->onnx, integers, dtype, shape, codes, elements * itg_dtype_size(dtype));
  float *singles = itg_arena_array(&q->arena, (size_t)count, sizeof singles[0]);
  if (!singles) {
    q->failed = true;
    return "";
  }
  for (int64_t i = 0; i < count; i++) singles[i] = (float)scales[i];
  const char *scale = itg_qdq_floats(q, base, count == 1 ? 0 : 1, &count, singles);
  itg_onnx_writer_attributes attributes = {0};
  itg_onnx_writer_set_integer(&attributes, "axis", axis);
  itg_onnx_writer_node(&q->onnx, "DequantizeLinear", NULL, itg_qdq_fresh(q, base, "DequantizeLinear"),
                       (const char *[]){integers, scale}, 2, &real, 1, &attributes);
  return real;
}

const char *itg_qdq_real(itg_qdq *q, const itg_tensor *tensor) {
  const char *known = itg_map_get(&q->known, tensor->name, strlen(tensor->name));
  if (known) return known;
  // Only constants are read before they were defined.
  size_t count = 0;
  if (!itg_shape_count(&tensor->shape, &count)) count = 0;
  const char *codes = tensor->encoding ? own_name(q, tensor, "/codes") : tensor->name, *real = codes;
  itg_onnx_writer_constant(&q->onnx, codes, tensor->dtype, &tensor->shape, tensor->data,
                           count * itg_dtype_size(tensor->dtype));
  if (tensor->encoding) {
    const char *scale, *zero;
    encoding_names(q, tensor, &scale, &zero);
    real = own_name(q, tensor, "/real");
    dequantize(q, tensor, codes, scale, zero, real);
  }
  remember(q, tensor, real);
  return real;
}

const char *itg_qdq_node(itg_qdq *q, const itg_node *node, const char *type, const char *const *inputs,
                         size_t input_count, itg_onnx_writer_attributes *attributes) {
  const char *output = itg_qdq_fresh(q, node->name, "value");
  itg_onnx_writer_node(&q->onnx, type, NULL, itg_qdq_fresh(q, node->name, type), inputs, input_count, &output, 1,
                       attributes);
  return output;
}

const char *itg_qdq_round(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *like) {
  if (!like->encoding) return real;
  const char *scale, *zero;
  encoding_names(q, like, &scale, &zero);
  const char *codes = itg_qdq_node(q, node, "QuantizeLinear", (const char *[]){real, scale, zero}, 3, NULL);
  return itg_qdq_node(q, node, "DequantizeLinear", (const char *[]){codes, scale, zero}, 3, NULL);
}

// real -> codes of `tensor` -> the real values under its own name (graph outputs keep the source's name) or "/real".
static void define_codes(itg_qdq *q, const itg_tensor *tensor, const char *real) {
  const char *scale, *zero, *codes = own_name(q, tensor, "/codes");
  encoding_names(q, tensor, &scale, &zero);
  itg_onnx_writer_node(&q->onnx, "QuantizeLinear", NULL, itg_qdq_fresh(q, tensor->name, "QuantizeLinear"),
                       (const char *[]){real, scale, zero}, 3, &codes, 1, NULL);
  const char *name = tensor->is_output ? tensor->name : own_name(q, tensor, "/real");
  dequantize(q, tensor, codes, scale, zero, name);
  remember(q, tensor, name);
}

void itg_qdq_define(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *tensor, int32_t low,
                    int32_t high) {
  if (!tensor->encoding) {
    itg_onnx_writer_node(&q->onnx, "Identity", NULL, itg_qdq_fresh(q, node->name, "Identity"), &real, 1, &tensor->name,
                         1, NULL);
    remember(q, tensor, tensor->name);
    return;
  }
  if (low > itg_code_min(tensor->dtype) || high < itg_code_max(tensor->dtype)) {
    const double scale = itg_qdq_scale(tensor);
    const int32_t zero = itg_qdq_zero(tensor);
    real = itg_qdq_round(q, node, real, tensor);
    real = itg_qdq_node(q, node, "Clip",
                        (const char *[]){real, itg_qdq_float(q, node->name, itg_decode(low, scale, zero)),
                                         itg_qdq_float(q, node->name, itg_decode(high, scale, zero))},
                        3, NULL);
  }
  define_codes(q, tensor, real);
}

void itg_qdq_define_all(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *tensor) {
  itg_qdq_define(q, node, real, tensor, INT32_MIN, INT32_MAX);
}

const char *itg_qdq_transpose(itg_qdq *q, const itg_node *node, const char *real, int32_t rank,
                              const int32_t *permutation, const itg_tensor *like) {
  int64_t wide[ITG_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) wide[i] = permutation[i];
  itg_onnx_writer_attributes attributes = {0};
  itg_onnx_writer_set_integers(&attributes, "perm", rank, wide);
  return itg_qdq_round(q, node, itg_qdq_node(q, node, "Transpose", &real, 1, &attributes), like);
}

const char *itg_qdq_channels_first(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *like) {
  return itg_qdq_transpose(q, node, real, 4, (const int32_t[]){0, 3, 1, 2}, like);
}
const char *itg_qdq_channels_last(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *like) {
  return itg_qdq_transpose(q, node, real, 4, (const int32_t[]){0, 2, 3, 1}, like);
}

itg_status itg_qdq_refuse(itg_qdq *q, const itg_node *node, const char *reason) {
  ITG_FAIL(q->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s cannot be exported to ONNX: %s",
           itg_op_name((int)node->op), reason);
}

static itg_status build(itg_qdq *q, const itg_graph *graph) {
  for (int32_t i = 0; i < graph->input_count; i++) {
    const itg_tensor *tensor = graph->inputs[i];
    itg_onnx_writer_input(&q->onnx, tensor->name, tensor->encoding ? ITG_DTYPE_F32 : tensor->dtype, &tensor->shape);
    if (tensor->encoding)
      define_codes(q, tensor, tensor->name);
    else
      remember(q, tensor, tensor->name);
  }
  ITG_FOR_EACH_NODE(node, graph) {
    bool handled = true;
    ITG_TRY(itg_qdq_compute(q, node, &handled));
    if (!handled) ITG_TRY(itg_qdq_function(q, node, &handled));
    if (!handled) ITG_TRY(itg_qdq_move(q, node, &handled));
    if (!handled) return itg_qdq_refuse(q, node, "there is no rule for it");
  }
  for (int32_t i = 0; i < graph->output_count; i++) {
    const itg_tensor *tensor = graph->outputs[i];
    itg_onnx_writer_output(&q->onnx, tensor->name, tensor->encoding ? ITG_DTYPE_F32 : tensor->dtype, &tensor->shape);
  }
  ITG_TRY_MEMORY(!q->failed, q->diagnostic);
  return ITG_OK;
}

itg_status itg_export_qdq(const itg_model *model, const char *path, itg_diagnostic *diagnostic) {
  itg_qdq q = {.diagnostic = diagnostic};
  itg_status status = build(&q, model->container.graph);
  if (status == ITG_OK) status = itg_onnx_writer_finish(&q.onnx, OPSET, path, diagnostic);
  itg_onnx_writer_discard(&q.onnx);
  itg_map_free(&q.known);
  itg_arena_free(&q.arena);
  return status;
}
