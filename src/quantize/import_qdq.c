// Models that come quantized: QuantizeLinear and DequantizeLinear around activations become encodings (docs/ARITHMETIC.md 5).
// s8 and s16 codes become u8 and u16 by adding half the range to the zero point, which is exact. Pairs with more than one
// scale, or whose parameters are not constant, stay and are refused when the graph is lowered.
#include <string.h>

#include "quantize/plan.h"

// Value of a constant with one element; false for anything else.
static bool read_scalar(const itg_tensor *tensor, double *value) {
  size_t count;
  if (!itg_tensor_is_constant(tensor) || !itg_shape_count(&tensor->shape, &count) || count != 1) return false;
  float real;
  int16_t s16;
  uint16_t u16;
  switch (tensor->dtype) {
  case ITG_DTYPE_F32:
    memcpy(&real, tensor->data, sizeof real);
    *value = (double)real;
    return true;
  case ITG_DTYPE_U8: *value = *(const uint8_t *)tensor->data; return true;
  case ITG_DTYPE_S8: *value = *(const int8_t *)tensor->data; return true;
  case ITG_DTYPE_U16:
    memcpy(&u16, tensor->data, sizeof u16);
    *value = u16;
    return true;
  case ITG_DTYPE_S16:
    memcpy(&s16, tensor->data, sizeof s16);
    *value = s16;
    return true;
  default: return false;
  }
}

typedef struct qdq_parameters {
  double scale, zero_point;
  itg_dtype storage; // u8 or u16
} qdq_parameters;

// Parameters of a Q or DQ node whose codes have type `codes`.
static bool read_parameters(const itg_node *node, itg_dtype codes, qdq_parameters *out) {
  const itg_tensor *zero = itg_node_input(node, 2);
  out->zero_point = 0;
  if (!read_scalar(node->inputs[1], &out->scale) || !(out->scale > 0 && out->scale < 1e38)) return false;
  if (zero && !read_scalar(zero, &out->zero_point)) return false;
  const bool wide = codes == ITG_DTYPE_U16 || codes == ITG_DTYPE_S16;
  if (!wide && codes != ITG_DTYPE_U8 && codes != ITG_DTYPE_S8) return false;
  if (codes == ITG_DTYPE_S8) out->zero_point += 128;
  if (codes == ITG_DTYPE_S16) out->zero_point += 32768;
  out->storage = wide ? ITG_DTYPE_U16 : ITG_DTYPE_U8;
  return out->zero_point >= 0 && out->zero_point <= itg_code_max(out->storage);
}

// True when every reader of the codes gives them back with the same parameters.
static bool only_dequantized(const itg_tensor *codes, const qdq_parameters *expected) {
  if (codes->is_output || codes->user_count == 0) return false;
  for (int32_t u = 0; u < codes->user_count; u++) {
    const itg_node *user = codes->users[u];
    qdq_parameters own;
    if (user->op != ITG_OP_DEQUANTIZE_LINEAR || user->inputs[0] != codes ||
        !read_parameters(user, codes->dtype, &own) || own.scale != expected->scale ||
        own.zero_point != expected->zero_point || user->outputs[0]->dtype != ITG_DTYPE_F32)
      return false;
  }
  return true;
}

// The tensor that carries the pair's encoding: the quantized one, or a Convert of it when it has another encoding already.
static itg_status encoded_tensor(itg_quantize_plan *plan, itg_node *quantize, const qdq_parameters *parameters,
                                 itg_diagnostic *diagnostic, itg_tensor **out) {
  itg_tensor *tensor = quantize->inputs[0];
  const int32_t zero_point = (int32_t)parameters->zero_point;
  const itg_encoding *encoding =
      itg_encoding_create(plan->graph, parameters->storage, -1, 1, &parameters->scale, &zero_point);
  ITG_TRY_MEMORY(encoding, diagnostic);
  if (tensor->encoding && !itg_encoding_equal(tensor->encoding, encoding)) {
    itg_tensor *converted = itg_graph_add_tensor(plan->graph, tensor->name, ITG_DTYPE_F32, &tensor->shape);
    ITG_TRY_MEMORY(converted, diagnostic);
    ITG_TRY_MEMORY(
        itg_graph_insert_node(plan->graph, quantize, ITG_OP_IDENTITY, quantize->name, &tensor, 1, &converted, 1),
        diagnostic);
    ITG_TRY(itg_plan_add(plan, converted, itg_plan_entry(plan, tensor)->statistics, diagnostic));
    tensor = converted;
  }
  tensor->encoding = encoding;
  itg_activation_entry *entry = itg_plan_entry(plan, tensor);
  entry->bits = parameters->storage == ITG_DTYPE_U8 ? 8 : 16;
  entry->chosen = true;
  *out = tensor;
  return ITG_OK;
}

itg_status itg_plan_import_qdq(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  for (itg_node *node = plan->graph->first, *next; node; node = next) {
    next = node->next;
    qdq_parameters parameters;
    if (node->op != ITG_OP_QUANTIZE_LINEAR || !itg_plan_entry(plan, node->inputs[0])) continue;
    itg_tensor *codes = node->outputs[0], *tensor;
    if (!read_parameters(node, codes->dtype, &parameters) || !only_dequantized(codes, &parameters)) continue;
    ITG_TRY(encoded_tensor(plan, node, &parameters, diagnostic, &tensor));
    while (codes->user_count > 0) {
      itg_node *dequantize = codes->users[0];
      if (dequantize == next) next = next->next;
      ITG_TRY_MEMORY(itg_graph_replace_uses(plan->graph, dequantize->outputs[0], tensor), diagnostic);
      itg_graph_remove_node(plan->graph, dequantize);
    }
    itg_graph_remove_node(plan->graph, node);
  }
  return ITG_OK;
}
