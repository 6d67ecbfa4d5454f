// See model.h. Field numbers from onnx.proto.
#include "import/onnx/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_OPSET = 6, NEWEST_OPSET = 23 };
enum { MAX_ITEMS = 1 << 22 }; // Nodes, initializers, ..: far beyond any real model, small enough for our own lists.

bool itg_onnx_spans_add(itg_onnx_spans *list, itg_span span) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity ? list->capacity * 2 : 8;
    itg_span *grown = realloc(list->items, capacity * sizeof *grown);
    if (!grown) return false;
    list->items = grown;
    list->capacity = capacity;
  }
  list->items[list->count++] = span;
  return true;
}

void itg_onnx_spans_free(itg_onnx_spans *list) {
  free(list->items);
  *list = (itg_onnx_spans){0};
}

void itg_onnx_graph_free(itg_onnx_graph *graph) {
  itg_onnx_spans_free(&graph->nodes);
  itg_onnx_spans_free(&graph->initializers);
  itg_onnx_spans_free(&graph->inputs);
  itg_onnx_spans_free(&graph->outputs);
  itg_onnx_spans_free(&graph->value_infos);
}

static itg_status read_graph(itg_wire wire, itg_diagnostic *diagnostic, itg_onnx_graph *graph) {
  itg_wire_field field;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) return ITG_OK;
    itg_onnx_spans *list = NULL;
    switch (field.number) {
    case 1: list = &graph->nodes; break;
    case 2:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "graph's name", diagnostic));
      graph->name = field.bytes;
      break;
    case 5: list = &graph->initializers; break;
    case 11: list = &graph->inputs; break;
    case 12: list = &graph->outputs; break;
    case 13: list = &graph->value_infos; break;
    case 15: ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "graph", "sparse initializers are not supported");
    default: break;
    }
    if (!list) continue;
    ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "graph's part", diagnostic));
    if (list->count == MAX_ITEMS)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "graph", "the graph has more than %d parts", MAX_ITEMS);
    ITG_TRY_MEMORY(itg_onnx_spans_add(list, field.bytes), diagnostic);
  }
}

itg_status itg_onnx_graph_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                itg_onnx_graph *out) {
  itg_onnx_graph graph = {0};
  const itg_status status = read_graph(itg_wire_open(message, file), diagnostic, &graph);
  if (status != ITG_OK) {
    itg_onnx_graph_free(&graph);
    return status;
  }
  *out = graph;
  return ITG_OK;
}

static itg_status read_opset(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic, int64_t *opset) {
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  itg_span domain = {0};
  int64_t version = 0;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    if (field.number == 1) {
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "opset's domain", diagnostic));
      domain = field.bytes;
    } else if (field.number == 2) {
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_VARINT, "opset's version", diagnostic));
      version = (int64_t)field.value;
    }
  }
  if (domain.size == 0 || itg_span_equals(domain, "ai.onnx")) *opset = version;
  return ITG_OK;
}

static itg_status read_model(itg_span file, itg_diagnostic *diagnostic, itg_onnx_model *model) {
  itg_wire wire = itg_wire_open(file, file.data);
  itg_wire_field field;
  bool has_graph = false;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    switch (field.number) {
    case 1:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_VARINT, "IR version", diagnostic));
      model->ir_version = (int64_t)field.value;
      break;
    case 7:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "graph", diagnostic));
      if (has_graph) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the file holds two graphs");
      model->graph = field.bytes;
      has_graph = true;
      break;
    case 8:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "opset", diagnostic));
      ITG_TRY(read_opset(field.bytes, file.data, diagnostic, &model->opset));
      break;
    case 14:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "metadata", diagnostic));
      ITG_TRY_MEMORY(itg_onnx_spans_add(&model->metadata, field.bytes), diagnostic);
      break;
    case 25:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "function", diagnostic));
      ITG_TRY_MEMORY(itg_onnx_spans_add(&model->functions, field.bytes), diagnostic);
      break;
    default: break;
    }
  }
  if (!has_graph) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the file holds no graph; is this an ONNX model?");
  if (model->opset == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_VERSION, NULL, "the model does not say which opset of ONNX it uses");
  if (model->opset < OLDEST_OPSET || model->opset > NEWEST_OPSET)
    ITG_FAIL(diagnostic, ITG_ERROR_VERSION, NULL,
             "the model uses opset %lld; %d to %d are supported, so convert it to one of these",
             (long long)model->opset, OLDEST_OPSET, NEWEST_OPSET);
  return ITG_OK;
}

itg_status itg_onnx_model_parse(itg_span file, itg_diagnostic *diagnostic, itg_onnx_model *out) {
  itg_onnx_model model = {0};
  const itg_status status = read_model(file, diagnostic, &model);
  if (status != ITG_OK) {
    itg_onnx_spans_free(&model.functions);
    itg_onnx_spans_free(&model.metadata);
    return status;
  }
  *out = model;
  return ITG_OK;
}

static float float_of_bits(uint64_t bits) {
  const uint32_t low = (uint32_t)bits;
  float value;
  memcpy(&value, &low, sizeof value);
  return value;
}

static itg_status read_attribute(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                 itg_onnx_attribute *out) {
  itg_onnx_attribute attribute = {.message = message};
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    switch (field.number) {
    case 1:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "attribute's name", diagnostic));
      attribute.name = field.bytes;
      break;
    case 2:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_FIXED32, "attribute's float", diagnostic));
      attribute.f = float_of_bits(field.value);
      break;
    case 3:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_VARINT, "attribute's integer", diagnostic));
      attribute.i = (int64_t)field.value;
      break;
    case 4:
    case 5:
    case 6:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "attribute's value", diagnostic));
      attribute.bytes = field.bytes;
      break;
    case 20:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_VARINT, "attribute's type", diagnostic));
      attribute.type = field.value;
      break;
    case 21:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "attribute's reference", diagnostic));
      attribute.reference = field.bytes;
      break;
    default: break;
    }
  }
  *out = attribute;
  return ITG_OK;
}

static itg_status add_attribute(itg_onnx_node *node, itg_span message, const uint8_t *file,
                                itg_diagnostic *diagnostic) {
  if (node->attribute_count == node->attribute_capacity) {
    const size_t capacity = node->attribute_capacity ? node->attribute_capacity * 2 : 8;
    itg_onnx_attribute *grown = realloc(node->attributes, capacity * sizeof *grown);
    ITG_TRY_MEMORY(grown, diagnostic);
    node->attributes = grown;
    node->attribute_capacity = capacity;
  }
  ITG_TRY(read_attribute(message, file, diagnostic, &node->attributes[node->attribute_count]));
  node->attribute_count++;
  return ITG_OK;
}

itg_status itg_onnx_node_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic, itg_onnx_node *node) {
  node->name = node->op_type = node->domain = (itg_span){0};
  node->inputs.count = node->outputs.count = node->attribute_count = 0;
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) return ITG_OK;
    if ((field.number >= 1 && field.number <= 5) || field.number == 7)
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "node's part", diagnostic));
    switch (field.number) {
    case 1: ITG_TRY_MEMORY(itg_onnx_spans_add(&node->inputs, field.bytes), diagnostic); break;
    case 2: ITG_TRY_MEMORY(itg_onnx_spans_add(&node->outputs, field.bytes), diagnostic); break;
    case 3: node->name = field.bytes; break;
    case 4: node->op_type = field.bytes; break;
    case 5: ITG_TRY(add_attribute(node, field.bytes, file, diagnostic)); break;
    case 7: node->domain = field.bytes; break;
    default: break;
    }
  }
}

void itg_onnx_node_free(itg_onnx_node *node) {
  itg_onnx_spans_free(&node->inputs);
  itg_onnx_spans_free(&node->outputs);
  free(node->attributes);
  *node = (itg_onnx_node){0};
}

static itg_status read_function(itg_wire wire, itg_diagnostic *diagnostic, itg_onnx_function *function) {
  itg_wire_field field;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) return ITG_OK;
    itg_onnx_spans *list = field.number == 4   ? &function->inputs
                           : field.number == 5 ? &function->outputs
                           : field.number == 7 ? &function->body.nodes
                                               : NULL;
    if (!list && field.number != 9 && field.number != 11) continue;
    ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "function's part", diagnostic));
    if (list)
      ITG_TRY_MEMORY(itg_onnx_spans_add(list, field.bytes), diagnostic);
    else if (field.number == 9)
      ITG_TRY(read_opset(field.bytes, wire.file, diagnostic, &function->opset));
    else
      ITG_TRY(add_attribute(&function->defaults, field.bytes, wire.file, diagnostic));
  }
}

itg_status itg_onnx_function_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                   itg_onnx_function *out) {
  itg_onnx_function function = {0};
  const itg_status status = read_function(itg_wire_open(message, file), diagnostic, &function);
  if (status != ITG_OK) {
    itg_onnx_function_free(&function);
    return status;
  }
  *out = function;
  return ITG_OK;
}

void itg_onnx_function_free(itg_onnx_function *function) {
  itg_onnx_spans_free(&function->inputs);
  itg_onnx_spans_free(&function->outputs);
  itg_onnx_graph_free(&function->body);
  itg_onnx_node_free(&function->defaults);
}

itg_status itg_onnx_function_key(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic, char *key,
                                 size_t size, size_t *length) {
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  itg_span name = {0}, domain = {0};
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    if (field.type != ITG_WIRE_BYTES) continue;
    if (field.number == 1) name = field.bytes;
    if (field.number == 10) domain = field.bytes;
  }
  *length = itg_onnx_operation_key(domain, name, key, size);
  return ITG_OK;
}

size_t itg_onnx_operation_key(itg_span domain, itg_span name, char *key, size_t size) {
  const int shown = (int)(size / 3);
  const int written =
      snprintf(key, size, "%.*s:%.*s", domain.size < (size_t)shown ? (int)domain.size : shown,
               domain.size ? (const char *)domain.data : "", name.size < (size_t)shown ? (int)name.size : shown,
               name.size ? (const char *)name.data : "");
  return written > 0 ? (size_t)written : 0;
}

itg_status itg_onnx_attribute_ints(const itg_onnx_attribute *attribute, itg_diagnostic *diagnostic, int64_t *values,
                                   size_t capacity, size_t *count) {
  itg_wire wire = itg_wire_open(attribute->message, NULL);
  itg_wire_field field;
  *count = 0;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) return ITG_OK;
    if (field.number != 8) continue;
    itg_span packed = field.bytes;
    uint64_t value = field.value;
    const bool single = field.type == ITG_WIRE_VARINT;
    while (single || packed.size) {
      if (!single && !itg_wire_take_varint(&packed, &value))
        ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "attribute", "a list of integers is cut short");
      if (*count < capacity) values[*count] = (int64_t)value;
      ++*count;
      if (single) break;
    }
  }
}

itg_status itg_onnx_attribute_floats(const itg_onnx_attribute *attribute, itg_diagnostic *diagnostic, float *values,
                                     size_t capacity, size_t *count) {
  itg_wire wire = itg_wire_open(attribute->message, NULL);
  itg_wire_field field;
  *count = 0;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) return ITG_OK;
    if (field.number != 7) continue;
    if (field.type == ITG_WIRE_FIXED32) {
      if (*count < capacity) values[*count] = float_of_bits(field.value);
      ++*count;
      continue;
    }
    if (field.type != ITG_WIRE_BYTES || field.bytes.size % 4 != 0)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "attribute", "a list of floats is cut short");
    for (size_t i = 0; i < field.bytes.size; i += 4, ++*count) {
      if (*count < capacity) memcpy(&values[*count], field.bytes.data + i, 4);
    }
  }
}

static itg_status read_dimension(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                 itg_onnx_value_info *info) {
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  int64_t value = -1;
  itg_span param = {0};
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    if (field.number == 1) {
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_VARINT, "dimension", diagnostic));
      value = (int64_t)field.value < 0 ? -1 : (int64_t)field.value; // Exporters write -1 for "unknown".
    } else if (field.number == 2) {
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "dimension's name", diagnostic));
      param = field.bytes;
    }
  }
  if (info->rank == ITG_MAX_RANK)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "graph", "a value has more than %d dimensions", ITG_MAX_RANK);
  info->dims[info->rank] = value;
  info->params[info->rank++] = param;
  return ITG_OK;
}

static itg_status read_shape(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                             itg_onnx_value_info *info) {
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  info->has_shape = true;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) return ITG_OK;
    if (field.number != 1) continue;
    ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "dimension", diagnostic));
    ITG_TRY(read_dimension(field.bytes, file, diagnostic, info));
  }
}

static itg_status read_tensor_type(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                   itg_onnx_value_info *info) {
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  info->is_tensor = true;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) return ITG_OK;
    if (field.number == 1) {
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_VARINT, "element type", diagnostic));
      info->data_type = field.value;
    } else if (field.number == 2) {
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "shape", diagnostic));
      ITG_TRY(read_shape(field.bytes, file, diagnostic, info));
    }
  }
}

static itg_status read_type(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                            itg_onnx_value_info *info) {
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) return ITG_OK;
    if (field.number != 1) continue;
    ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "tensor type", diagnostic));
    ITG_TRY(read_tensor_type(field.bytes, file, diagnostic, info));
  }
}

itg_status itg_onnx_value_info_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                     itg_onnx_value_info *out) {
  itg_onnx_value_info info = {0};
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    if (field.number > 2) continue;
    ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "value description", diagnostic));
    if (field.number == 1) info.name = field.bytes;
    if (field.number == 2) ITG_TRY(read_type(field.bytes, file, diagnostic, &info));
  }
  *out = info;
  return ITG_OK;
}
