// What must hold after each stage. See verify.h.
//
// Links are checked through maps keyed by address, so that the graph is only read: several threads may verify or read one
// graph, and a pass that keeps notes in `scratch` and `index` does not lose them.
#include "graph/verify.h"

#include <stdlib.h>
#include <string.h>

#include "graph/infer.h"
#include "graph/verify_integer.h"

typedef struct checker {
  const itg_graph *graph;
  itg_diagnostic *diagnostic;
  itg_map tensors; // Address of a tensor -> its index + 1.
  itg_map nodes;   // Address of a node -> its position + 1.
  uint64_t *uses;  // Per tensor: sum over its readers of a hash of the reader; both directions must agree.
} checker;

static intptr_t number_of(const itg_map *map, const void *object) {
  return (intptr_t)itg_map_get(map, (const char *)&object, sizeof object);
}

static uint64_t mix(const void *pointer) {
  uint64_t x = (uint64_t)(uintptr_t)pointer;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

static itg_status check_encoding(const itg_tensor *tensor, itg_diagnostic *diagnostic) {
  const itg_encoding *encoding = tensor->encoding;
  const itg_dtype storage = encoding->storage;
  if (storage != ITG_DTYPE_U8 && storage != ITG_DTYPE_U16 && storage != ITG_DTYPE_S8 && storage != ITG_DTYPE_S16 &&
      storage != ITG_DTYPE_S4 && storage != ITG_DTYPE_S32)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, tensor->name, "encoding with storage type %d", (int)storage);
  int64_t expected = 1;
  if (encoding->axis != -1) {
    if (encoding->axis < 0 || encoding->axis >= tensor->shape.rank)
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, tensor->name, "encoding along axis %d of %d dimensions",
               (int)encoding->axis, (int)tensor->shape.rank);
    expected = tensor->shape.dims[encoding->axis];
  }
  if (encoding->block < 0 || !encoding->scales || (encoding->block == 0 && encoding->count != expected) ||
      encoding->count < 1 || encoding->count % (expected ? expected : 1) != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, tensor->name, "encoding with %lld scales where %lld are needed",
             (long long)encoding->count, (long long)expected);
  for (int64_t i = 0; i < encoding->count; i++) {
    if (!(encoding->scales[i] > 0 && encoding->scales[i] <= 3.5e38))
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, tensor->name, "scale %lld is %g; it must be positive and finite",
               (long long)i, encoding->scales[i]);
    const int32_t zero = encoding->zero_points ? encoding->zero_points[i] : 0;
    if (zero < itg_code_min(storage) || zero > itg_code_max(storage))
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, tensor->name, "zero point %d is outside the codes of %s", (int)zero,
               itg_dtype_name(storage));
  }
  return ITG_OK;
}

static itg_status check_tensor(const checker *check, const itg_tensor *tensor) {
  itg_diagnostic *diagnostic = check->diagnostic;
  if (!tensor->name || !*tensor->name) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "a tensor has no name");
  if (itg_graph_find(check->graph, tensor->name) != tensor)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, tensor->name, "two tensors have this name");
  if (!itg_dtype_is_valid((int)tensor->dtype))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, tensor->name, "unknown element type %d", (int)tensor->dtype);
  size_t bytes;
  if (tensor->shape.rank < 0 || tensor->shape.rank > ITG_MAX_RANK ||
      !itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, tensor->name, "a dimension is negative or the tensor is too large");
  if (tensor->producer && (tensor->data || tensor->is_input))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, tensor->name, "a constant or graph input is also written by node %s",
             tensor->producer->name);
  if (tensor->data && tensor->is_input)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, tensor->name, "the tensor is both a constant and a graph input");
  if (tensor->encoding) ITG_TRY(check_encoding(tensor, diagnostic));
  return ITG_OK;
}

static itg_status number_tensors(checker *check) {
  const itg_graph *graph = check->graph;
  for (size_t i = 0; i < graph->tensor_count; i++) {
    if (!graph->tensors[i]) continue;
    ITG_TRY(check_tensor(check, graph->tensors[i]));
    ITG_TRY_MEMORY(itg_map_set(&check->tensors, (const char *)&graph->tensors[i], sizeof graph->tensors[i],
                               (void *)(intptr_t)(i + 1)),
                   check->diagnostic);
  }
  return ITG_OK;
}

// The slot that points to a node (graph->first, or the previous node's `next`) serves as the map's key.
static itg_status number_nodes(checker *check) {
  itg_node *const *slot = &check->graph->first;
  const itg_node *previous = NULL;
  int64_t position = 0;
  for (; *slot; slot = &(*slot)->next) {
    const itg_node *node = *slot;
    if (node->previous != previous || position >= check->graph->node_count)
      ITG_FAIL(check->diagnostic, ITG_ERROR_FORMAT, node->name, "the list of nodes is broken at this node");
    ITG_TRY_MEMORY(itg_map_set(&check->nodes, (const char *)slot, sizeof *slot, (void *)(intptr_t)++position),
                   check->diagnostic);
    previous = node;
  }
  if (position != check->graph->node_count || check->graph->last != previous)
    ITG_FAIL(check->diagnostic, ITG_ERROR_FORMAT, NULL, "the list of nodes has %lld entries instead of %lld",
             (long long)position, (long long)check->graph->node_count);
  return ITG_OK;
}

static itg_status check_arity(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_op_info *info = itg_op_get_info((int)node->op);
  if (!info) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "unknown operation number %d", (int)node->op);
  if (node->input_count < info->min_inputs || (info->max_inputs >= 0 && node->input_count > info->max_inputs))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "%s has %d inputs", info->name, (int)node->input_count);
  for (int32_t i = 0; i < node->input_count; i++) {
    if (!node->inputs[i] && (i < info->min_inputs || info->max_inputs < 0))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "input %d of %s is missing", (int)i, info->name);
  }
  if (node->output_count < 1 || node->output_count > info->outputs)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "%s has %d outputs", info->name, (int)node->output_count);
  int present = 0;
  for (int32_t i = 0; i < node->output_count; i++) present += node->outputs[i] != NULL;
  if (present == 0) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "%s has no output", info->name);
  return ITG_OK;
}

static itg_status check_node_links(checker *check, const itg_node *node, intptr_t position) {
  itg_diagnostic *diagnostic = check->diagnostic;
  ITG_TRY(check_arity(node, diagnostic));
  for (int32_t i = 0; i < node->input_count; i++) {
    const itg_tensor *tensor = node->inputs[i];
    if (!tensor) continue;
    const intptr_t number = number_of(&check->tensors, tensor);
    if (!number) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "input %d is not a tensor of the graph", (int)i);
    if (!tensor->data && !tensor->is_input && !tensor->producer)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "nothing produces the input %s", tensor->name);
    if (tensor->producer) {
      const intptr_t producer = number_of(&check->nodes, tensor->producer);
      if (!producer || producer >= position)
        ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "the node runs before %s is produced", tensor->name);
    }
    check->uses[number - 1] += mix(node);
  }
  for (int32_t i = 0; i < node->output_count; i++) {
    const itg_tensor *tensor = node->outputs[i];
    if (!tensor) continue;
    if (!number_of(&check->tensors, tensor) || tensor->producer != node)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "output %s does not name this node as its producer",
               tensor->name);
  }
  return ITG_OK;
}

// Caches are states: graph inputs of their own, which no other node reads and which leave the graph nowhere else.
static itg_status check_states(const itg_node *node, itg_diagnostic *diagnostic) {
  if (node->op != ITG_OP_ATTENTION && node->op != ITG_OP_Q_ATTENTION) return ITG_OK;
  for (int32_t i = ITG_ATTENTION_K_CACHE; i <= ITG_ATTENTION_V_CACHE; i++) {
    const itg_tensor *cache = itg_node_input(node, i);
    if (cache && (!cache->is_input || cache->is_output || cache->user_count != 1))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "the cache %s must be a graph input that nothing else reads",
               cache->name);
  }
  return ITG_OK;
}

static itg_status check_links(checker *check) {
  intptr_t position = 0;
  ITG_FOR_EACH_NODE(node, check->graph) {
    ITG_TRY(check_node_links(check, node, ++position));
    ITG_TRY(check_states(node, check->diagnostic));
  }
  for (size_t i = 0; i < check->graph->tensor_count; i++) {
    const itg_tensor *tensor = check->graph->tensors[i];
    if (!tensor) continue;
    uint64_t listed = 0;
    for (int32_t u = 0; u < tensor->user_count; u++) listed += mix(tensor->users[u]);
    if (listed != check->uses[i])
      ITG_FAIL(check->diagnostic, ITG_ERROR_FORMAT, tensor->name, "the list of readers of this tensor is wrong");
    if (tensor->producer && !number_of(&check->nodes, tensor->producer))
      ITG_FAIL(check->diagnostic, ITG_ERROR_FORMAT, tensor->name, "the producer is not a node of the graph");
  }
  return ITG_OK;
}

static itg_status check_ends(checker *check) {
  const itg_graph *graph = check->graph;
  for (int32_t i = 0; i < graph->input_count; i++) {
    if (!graph->inputs[i] || !number_of(&check->tensors, graph->inputs[i]) || !graph->inputs[i]->is_input)
      ITG_FAIL(check->diagnostic, ITG_ERROR_FORMAT, NULL, "graph input %d is not a tensor of the graph", (int)i);
  }
  for (int32_t i = 0; i < graph->output_count; i++) {
    const itg_tensor *tensor = graph->outputs[i];
    if (!tensor || !number_of(&check->tensors, tensor) || !tensor->is_output)
      ITG_FAIL(check->diagnostic, ITG_ERROR_FORMAT, NULL, "graph output %d is not a tensor of the graph", (int)i);
    if (!tensor->data && !tensor->is_input && !tensor->producer)
      ITG_FAIL(check->diagnostic, ITG_ERROR_FORMAT, tensor->name, "nothing produces this graph output");
  }
  return ITG_OK;
}

// Runs the inference on copies of the output tensors and compares.
static itg_status check_inference(const itg_node *node, itg_diagnostic *diagnostic) {
  enum { MOST_OUTPUTS = 4 };
  itg_tensor copies[MOST_OUTPUTS];
  itg_tensor *outputs[MOST_OUTPUTS] = {0};
  if (node->output_count > MOST_OUTPUTS)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "the node has %d outputs", (int)node->output_count);
  for (int32_t i = 0; i < node->output_count; i++) {
    if (!node->outputs[i]) continue;
    copies[i] = *node->outputs[i];
    outputs[i] = &copies[i];
  }
  itg_node copy = *node;
  copy.outputs = outputs;
  ITG_TRY(itg_infer_node(&copy, diagnostic));
  for (int32_t i = 0; i < node->output_count; i++) {
    const itg_tensor *stored = node->outputs[i];
    if (!stored || (copies[i].dtype == stored->dtype && itg_shape_equal(&copies[i].shape, &stored->shape))) continue;
    char is[96], should[96];
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, node->name, "output %s is %s %s, but %s of these inputs gives %s %s",
             stored->name, itg_dtype_name(stored->dtype), itg_shape_print(&stored->shape, is, sizeof is),
             itg_op_name((int)node->op), itg_dtype_name(copies[i].dtype),
             itg_shape_print(&copies[i].shape, should, sizeof should));
  }
  return ITG_OK;
}

static itg_status check_window(const itg_node *node, int32_t rank, int32_t layout, itg_diagnostic *diagnostic) {
  const bool flat = rank == 2 && layout == ITG_LAYOUT_CHANNELS_LAST;
  const bool volume = rank == 3 && layout == ITG_LAYOUT_CHANNELS_FIRST;
  if (!flat && !volume)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name,
             "%s of a canonical graph must be channels-last with 2 dimensions", itg_op_name((int)node->op));
  return ITG_OK;
}

static itg_status check_canonical(const itg_node *node, itg_diagnostic *diagnostic) {
  switch (node->op) {
  case ITG_OP_CONV:
  case ITG_OP_CONV_TRANSPOSE:
    return check_window(node, node->attributes.conv.window.rank, node->attributes.conv.layout, diagnostic);
  case ITG_OP_MAX_POOL:
  case ITG_OP_AVERAGE_POOL:
  case ITG_OP_LP_POOL:
    return check_window(node, node->attributes.pool.window.rank, node->attributes.pool.layout, diagnostic);
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH: return check_window(node, 2, node->attributes.block.layout, diagnostic);
  case ITG_OP_BATCH_NORM:
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
             "scale, bias, mean and variance of a BatchNormalization must be constants");
  default: return ITG_OK;
  }
}

static itg_status check_activation_encoding(const itg_node *node, const itg_tensor *tensor,
                                            itg_diagnostic *diagnostic) {
  const itg_encoding *encoding = tensor->encoding;
  if (!encoding)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the activation %s has no encoding", tensor->name);
  if (encoding->count != 1 || (encoding->storage != ITG_DTYPE_U8 && encoding->storage != ITG_DTYPE_U16))
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the activation %s must be u8 or u16, one scale a tensor",
             tensor->name);
  return ITG_OK;
}

static itg_status check_quantized_weights(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *weight = node->inputs[1], *bias = itg_node_input(node, 2);
  if (itg_tensor_is_constant(weight)) {
    const itg_encoding *encoding = weight->encoding;
    if ((weight->dtype != ITG_DTYPE_S8 && weight->dtype != ITG_DTYPE_S4) || !encoding ||
        encoding->storage != weight->dtype || encoding->axis != 0 || encoding->zero_points)
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name,
               "the weight %s must be s8 or s4 with one scale for each output channel", weight->name);
  }
  if (itg_tensor_is_constant(bias) && bias->dtype != ITG_DTYPE_S32)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the bias %s must be s32", bias->name);
  return ITG_OK;
}

static itg_status check_quantized(const itg_node *node, itg_diagnostic *diagnostic) {
  const bool weighted =
      node->op == ITG_OP_CONV || node->op == ITG_OP_CONV_TRANSPOSE || node->op == ITG_OP_FULLY_CONNECTED;
  if (weighted) ITG_TRY(check_quantized_weights(node, diagnostic));
  for (int32_t i = 0; i < node->input_count; i++) {
    const itg_tensor *tensor = node->inputs[i];
    if (tensor && !tensor->data && tensor->dtype == ITG_DTYPE_F32)
      ITG_TRY(check_activation_encoding(node, tensor, diagnostic));
  }
  for (int32_t i = 0; i < node->output_count; i++) {
    const itg_tensor *tensor = node->outputs[i];
    if (tensor && tensor->dtype == ITG_DTYPE_F32) ITG_TRY(check_activation_encoding(node, tensor, diagnostic));
  }
  return ITG_OK;
}

static itg_status check_all(checker *check, itg_stage stage) {
  itg_diagnostic *diagnostic = check->diagnostic;
  check->uses = calloc(check->graph->tensor_count + 1, sizeof check->uses[0]);
  ITG_TRY_MEMORY(check->uses, diagnostic);
  ITG_TRY(number_tensors(check));
  ITG_TRY(number_nodes(check));
  ITG_TRY(check_links(check));
  ITG_TRY(check_ends(check));
  ITG_FOR_EACH_NODE(node, check->graph) {
    if (stage < ITG_STAGE_LEGAL && (itg_op_get_info((int)node->op)->flags & ITG_OP_INTEGER))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "%s belongs to the integer dialect",
               itg_op_name((int)node->op));
    if (stage < ITG_STAGE_LEGAL) ITG_TRY(check_inference(node, diagnostic)); // itg_verify_integer does it for codes.
    if (stage >= ITG_STAGE_CANONICAL && stage < ITG_STAGE_LEGAL) ITG_TRY(check_canonical(node, diagnostic));
    if (stage == ITG_STAGE_QUANTIZED) ITG_TRY(check_quantized(node, diagnostic));
  }
  if (stage == ITG_STAGE_LEGAL) ITG_TRY(itg_verify_integer(check->graph, diagnostic));
  return ITG_OK;
}

itg_status itg_graph_verify(const itg_graph *graph, itg_stage stage, itg_diagnostic *diagnostic) {
  checker check = {.graph = graph, .diagnostic = diagnostic};
  const itg_status status = check_all(&check, stage);
  itg_map_free(&check.tensors);
  itg_map_free(&check.nodes);
  free(check.uses);
  return status;
}
