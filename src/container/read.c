// From checked sections to a verified graph. See container.h; the layout is format.h.
#include <string.h>

#include "base/checked.h"
#include "container/container.h"
#include "container/sections.h"
#include "graph/verify.h"

typedef struct file_reader {
  itg_sections sections;
  itg_diagnostic *diagnostic;
  itg_graph *graph;
  const itg_file_variant *variant;
  itg_tensor **tensors; // Of the variant; in the graph's arena.
} file_reader;

// A table of records of `element` bytes; `limit` of them at most.
static itg_status table_of(const file_reader *reader, int type, size_t element, size_t limit, const void **records,
                           size_t *count) {
  const itg_span body = reader->sections.bodies[type];
  if (body.size % element)
    ITG_FAIL(reader->diagnostic, ITG_ERROR_FORMAT, NULL, "section type %d has %zu bytes, which is no multiple of %zu",
             type, body.size, element);
  if (body.size / element > limit)
    ITG_FAIL(reader->diagnostic, ITG_ERROR_LIMIT, NULL, "section type %d has %zu records; the limit is %zu", type,
             body.size / element, limit);
  *records = body.data;
  *count = body.size / element;
  return ITG_OK;
}

static bool within(uint64_t first, uint64_t count, size_t available) {
  return first <= available && count <= available - first;
}

static itg_status read_encoding(const file_reader *reader, uint32_t number, const char *name,
                                const itg_encoding **out) {
  const void *records = NULL, *scales = NULL, *zero_points = NULL;
  size_t count = 0, scale_count = 0, zero_count = 0;
  ITG_TRY(table_of(reader, ITG_SECTION_ENCODINGS, sizeof(itg_file_encoding), ITG_FILE_MAX_TENSORS, &records, &count));
  ITG_TRY(table_of(reader, ITG_SECTION_SCALES, sizeof(double), SIZE_MAX, &scales, &scale_count));
  ITG_TRY(table_of(reader, ITG_SECTION_ZERO_POINTS, sizeof(int32_t), SIZE_MAX, &zero_points, &zero_count));
  if (number > count) ITG_FAIL(reader->diagnostic, ITG_ERROR_FORMAT, name, "encoding %u of %zu", number, count);
  const itg_file_encoding *record = (const itg_file_encoding *)records + (number - 1);
  const bool zeroes = record->first_zero_point == UINT64_MAX;
  if (!itg_dtype_is_valid((int)record->storage) || record->axis < -1 || record->axis >= ITG_MAX_RANK ||
      record->block < 0 || record->count < 1 || record->count > INT64_MAX ||
      !within(record->first_scale, record->count, scale_count) ||
      (!zeroes && !within(record->first_zero_point, record->count, zero_count)))
    ITG_FAIL(reader->diagnostic, ITG_ERROR_FORMAT, name, "encoding %u contradicts itself or its tables", number);
  itg_encoding *encoding = itg_arena_allocate(&reader->graph->arena, sizeof *encoding);
  ITG_TRY_MEMORY(encoding, reader->diagnostic);
  *encoding = (itg_encoding){.storage = (itg_dtype)record->storage,
                             .axis = record->axis,
                             .count = (int64_t)record->count,
                             .block = record->block,
                             .scales = (const double *)scales + record->first_scale,
                             .zero_points = zeroes ? NULL : (const int32_t *)zero_points + record->first_zero_point};
  *out = encoding;
  return ITG_OK;
}

static itg_status constant_data(const file_reader *reader, const itg_file_tensor *record, const itg_shape *shape,
                                const char *name, const void **out) {
  const itg_sections *sections = &reader->sections;
  size_t bytes;
  itg_span data;
  if (record->piece >= sections->piece_count || record->offset % ITG_FILE_ALIGNMENT ||
      !itg_shape_bytes(shape, (itg_dtype)record->dtype, &bytes) ||
      !itg_span_cut(itg_sections_body(sections, sections->first_piece + record->piece), record->offset, bytes, &data))
    ITG_FAIL(reader->diagnostic, ITG_ERROR_FORMAT, name, "the constant does not lie inside its piece of the file");
  *out = data.data;
  return ITG_OK;
}

static itg_status read_tensor(file_reader *reader, const itg_file_tensor *record, itg_tensor **out) {
  itg_diagnostic *diagnostic = reader->diagnostic;
  const char *name = itg_sections_string(&reader->sections, record->name);
  if (!name || !*name || itg_graph_find(reader->graph, name))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name, "a tensor has no name or one that is taken");
  if (!itg_dtype_is_valid(record->dtype) || record->dtype == ITG_DTYPE_NONE || record->rank > ITG_MAX_RANK ||
      record->reserved != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name, "unknown element type %d or rank %d", record->dtype, record->rank);
  itg_shape shape = {.rank = record->rank};
  for (int i = 0; i < ITG_MAX_RANK; i++) {
    if (i < record->rank ? record->dims[i] < 0 : record->dims[i] != 0)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name, "dimension %d is %lld", i, (long long)record->dims[i]);
    shape.dims[i] = record->dims[i];
  }
  const void *data = NULL;
  if (record->piece != ITG_FILE_NO_PIECE)
    ITG_TRY(constant_data(reader, record, &shape, name, &data));
  else if (record->offset != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name, "a tensor without data has an offset");
  const itg_encoding *encoding = NULL;
  if (record->encoding) ITG_TRY(read_encoding(reader, record->encoding, name, &encoding));
  itg_tensor *tensor = itg_graph_add_borrowed(reader->graph, name, (itg_dtype)record->dtype, &shape, data);
  ITG_TRY_MEMORY(tensor, diagnostic);
  tensor->encoding = encoding;
  *out = tensor;
  return ITG_OK;
}

// Pointers to `count` operands, in the arena. Absent ones are NULL.
static itg_status read_operands(const file_reader *reader, uint32_t first, uint32_t count, const char *name,
                                itg_tensor ***out) {
  const void *operands = NULL;
  size_t available = 0;
  ITG_TRY(table_of(reader, ITG_SECTION_OPERANDS, sizeof(uint32_t), ITG_FILE_MAX_OPERANDS, &operands, &available));
  if (!within(first, count, available))
    ITG_FAIL(reader->diagnostic, ITG_ERROR_FORMAT, name, "operands %u + %u of %zu", first, count, available);
  itg_tensor **list = itg_arena_array(&reader->graph->arena, count, sizeof *list);
  ITG_TRY_MEMORY(list, reader->diagnostic);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t operand = ((const uint32_t *)operands)[first + i];
    if (operand > reader->variant->tensor_count)
      ITG_FAIL(reader->diagnostic, ITG_ERROR_FORMAT, name, "operand %u names tensor %u of %u", i, operand,
               reader->variant->tensor_count);
    list[i] = operand ? reader->tensors[operand - 1] : NULL;
  }
  *out = list;
  return ITG_OK;
}

static itg_status read_attributes(const file_reader *reader, const itg_file_node *record, itg_node *node) {
  const itg_op_info *info = itg_op_get_info(node->op);
  itg_span bytes;
  if (record->attribute_offset % 8 || !itg_span_cut(reader->sections.bodies[ITG_SECTION_ATTRIBUTES],
                                                    record->attribute_offset, record->attribute_size, &bytes))
    ITG_FAIL(reader->diagnostic, ITG_ERROR_FORMAT, node->name, "the attributes lie outside their section");
  if (bytes.size > info->attribute_size)
    ITG_FAIL(reader->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
             "%s has %zu bytes of attributes, this build knows %zu: a newer one may read the file", info->name,
             bytes.size, info->attribute_size);
  if (bytes.size) memcpy(&node->attributes, bytes.data, bytes.size);
  return ITG_OK;
}

static itg_status read_node(file_reader *reader, const itg_file_node *record) {
  itg_diagnostic *diagnostic = reader->diagnostic;
  const char *name = itg_sections_string(&reader->sections, record->name);
  if (!name) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the name of a node lies outside the strings");
  const itg_op_info *info = record->op <= INT32_MAX ? itg_op_get_info((int)record->op) : NULL;
  if (!info) ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, name, "operation %u is not known to this build", record->op);
  itg_tensor **inputs = NULL, **outputs = NULL;
  ITG_TRY(read_operands(reader, record->first_input, record->input_count, name, &inputs));
  ITG_TRY(read_operands(reader, record->first_output, record->output_count, name, &outputs));
  for (uint32_t i = 0; i < record->input_count; i++) {
    if (inputs[i] && !inputs[i]->data && !inputs[i]->is_input && !inputs[i]->producer)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name, "input %u (%s) is used before anything wrote it", i,
               inputs[i]->name);
  }
  for (uint32_t i = 0; i < record->output_count; i++) {
    bool taken = outputs[i] && (outputs[i]->data || outputs[i]->is_input || outputs[i]->producer);
    for (uint32_t j = 0; outputs[i] && j < i; j++) taken = taken || outputs[j] == outputs[i];
    if (record->output_count > (uint32_t)info->outputs || taken)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name, "output %u is one too many or has another source", i);
  }
  itg_node *node = itg_graph_insert_node(reader->graph, NULL, info->op, name, inputs, (int32_t)record->input_count,
                                         outputs, (int32_t)record->output_count);
  ITG_TRY_MEMORY(node, diagnostic);
  return read_attributes(reader, record, node);
}

static itg_status read_ends(file_reader *reader, bool outputs) {
  const itg_file_variant *variant = reader->variant;
  const uint32_t count = outputs ? variant->output_count : variant->input_count;
  itg_tensor **list = NULL;
  ITG_TRY(read_operands(reader, outputs ? variant->first_output : variant->first_input, count, NULL, &list));
  for (uint32_t i = 0; i < count; i++) {
    const bool bad = !list[i] || (outputs ? list[i]->is_output : list[i]->is_input || list[i]->data != NULL);
    if (bad)
      ITG_FAIL(reader->diagnostic, ITG_ERROR_FORMAT, list[i] ? list[i]->name : NULL,
               "graph %s %u is absent, a constant or listed twice", outputs ? "output" : "input", i);
    ITG_TRY_MEMORY(outputs ? itg_graph_add_output(reader->graph, list[i]) : itg_graph_add_input(reader->graph, list[i]),
                   reader->diagnostic);
  }
  return ITG_OK;
}

// One variant as a verified graph in reader->graph.
static itg_status read_graph(file_reader *reader, const itg_file_variant *variant) {
  itg_diagnostic *diagnostic = reader->diagnostic;
  const void *tensors = NULL, *nodes = NULL;
  size_t tensor_count = 0, node_count = 0;
  ITG_TRY(
      table_of(reader, ITG_SECTION_TENSORS, sizeof(itg_file_tensor), ITG_FILE_MAX_TENSORS, &tensors, &tensor_count));
  ITG_TRY(table_of(reader, ITG_SECTION_NODES, sizeof(itg_file_node), ITG_FILE_MAX_NODES, &nodes, &node_count));
  reader->variant = variant;
  const char *name = itg_sections_string(&reader->sections, variant->name);
  if (!name || !itg_sections_string(&reader->sections, variant->target) ||
      !itg_sections_string(&reader->sections, variant->role) ||
      !itg_sections_string(&reader->sections, variant->shape) || variant->reserved != 0 ||
      !within(variant->first_tensor, variant->tensor_count, tensor_count) ||
      !within(variant->first_node, variant->node_count, node_count))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the record of the graph lies about its tables");
  reader->graph->name = itg_arena_string(&reader->graph->arena, name, strlen(name));
  reader->tensors = itg_arena_array(&reader->graph->arena, variant->tensor_count, sizeof *reader->tensors);
  ITG_TRY_MEMORY(reader->graph->name && reader->tensors, diagnostic);
  for (uint32_t i = 0; i < variant->tensor_count; i++)
    ITG_TRY(read_tensor(reader, (const itg_file_tensor *)tensors + variant->first_tensor + i, &reader->tensors[i]));
  ITG_TRY(read_ends(reader, false));
  for (uint32_t i = 0; i < variant->node_count; i++)
    ITG_TRY(read_node(reader, (const itg_file_node *)nodes + variant->first_node + i));
  ITG_TRY(read_ends(reader, true));
  reader->graph->stage = ITG_STAGE_LEGAL;
  itg_diagnostic why = {0};
  itg_status status = itg_graph_verify(reader->graph, ITG_STAGE_LEGAL, &why);
  if (status == ITG_ERROR_QUANTIZATION)
    status = why.status = ITG_ERROR_FORMAT; // Nothing was quantized: the file is wrong.
  if (status != ITG_OK && diagnostic) *diagnostic = why;
  return status;
}

// Every part, each with a role of its own. What was read so far is in `out`, also after an error.
static itg_status read_parts(file_reader *reader, itg_container *out) {
  itg_diagnostic *diagnostic = reader->diagnostic;
  const void *records = NULL;
  size_t count = 0;
  ITG_TRY(table_of(reader, ITG_SECTION_VARIANTS, sizeof(itg_file_variant), ITG_FILE_MAX_SECTIONS, &records, &count));
  if (count < 1 || count > ITG_CONTAINER_MAX_PARTS)
    ITG_FAIL(diagnostic, count ? ITG_ERROR_UNSUPPORTED : ITG_ERROR_FORMAT, NULL,
             "the file holds %zu graphs; this build reads 1 to %d", count, ITG_CONTAINER_MAX_PARTS);
  for (size_t i = 0; i < count; i++) {
    const itg_file_variant *variant = (const itg_file_variant *)records + i;
    ITG_TRY(itg_graph_create(diagnostic, &reader->graph));
    if (i == 0) {
      out->graph = reader->graph;
      out->parts = itg_arena_array(&out->graph->arena, count, sizeof out->parts[0]);
      ITG_TRY_MEMORY(out->parts, diagnostic);
    }
    out->parts[out->part_count++] =
        (itg_container_part){itg_sections_string(&reader->sections, variant->role), reader->graph};
    ITG_TRY(read_graph(reader, variant));
    for (size_t j = 0; j < i; j++) {
      if (strcmp(out->parts[i].role, out->parts[j].role) == 0)
        ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, out->parts[i].role, "two graphs of the file have one role");
    }
  }
  return ITG_OK;
}

static itg_status read_metadata(const file_reader *reader, itg_container *container) {
  const itg_sections *sections = &reader->sections;
  container->sections = itg_arena_array(&container->graph->arena, sections->table_count, sizeof container->sections[0]);
  ITG_TRY_MEMORY(container->sections, reader->diagnostic);
  for (uint32_t i = 0; i < sections->table_count; i++) {
    const bool is_context = sections->table[i].type == (ITG_SECTION_CONTEXT | ITG_SECTION_OPTIONAL);
    if (!is_context && sections->table[i].type != ITG_SECTION_METADATA) continue;
    const itg_span body = itg_sections_body(sections, i);
    container->sections[container->section_count++] = (itg_metadata_section){
        itg_sections_string(sections, sections->table[i].name), (const char *)body.data, body.size, is_context};
  }
  return ITG_OK;
}

itg_status itg_container_read(itg_span bytes, itg_diagnostic *diagnostic, itg_container *out) {
  if ((uintptr_t)bytes.data % ITG_FILE_ALIGNMENT)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "the bytes of a .itg file must be aligned to %d",
             ITG_FILE_ALIGNMENT);
  file_reader reader = {.diagnostic = diagnostic};
  ITG_TRY(itg_sections_check(bytes, diagnostic, &reader.sections));
  itg_container container = {0};
  itg_status status = read_parts(&reader, &container);
  if (status == ITG_OK) status = read_metadata(&reader, &container);
  if (status != ITG_OK) {
    itg_container_free(&container);
    return status;
  }
  *out = container;
  return ITG_OK;
}

void itg_container_free(itg_container *container) {
  // The first graph holds the list.
  for (size_t i = 1; i < container->part_count; i++) itg_graph_destroy((itg_graph *)container->parts[i].graph);
  itg_graph_destroy(container->graph);
  *container = (itg_container){0};
}
