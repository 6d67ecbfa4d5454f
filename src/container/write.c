// Writing .itg files. See container.h; the layout is format.h.
//
// The tables are built in memory; constants are read from the graph twice (once for the checksum, once for the file), so a
// large model is never held a second time.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "container/checksum.h"
#include "container/container.h"
#include "container/format.h"
#include "container/text.h"
#include "graph/verify.h"

typedef struct buffer {
  uint8_t *data;
  size_t size, capacity;
} buffer;

typedef struct placement { // A constant's data in a piece.
  const void *data;
  size_t size;
  uint32_t piece;
  uint64_t offset;
} placement;

typedef struct file_writer {
  const itg_container_part *parts;
  size_t part_count;
  size_t first_tensor; // Of the part at hand.
  itg_diagnostic *diagnostic;
  buffer tables[ITG_SECTION_TABLES + 1]; // By section type.
  buffer placements;                     // placement[], in order of pieces and offsets.
  buffer piece_sizes;                    // uint64_t[]
  itg_map strings;                       // Text -> offset.
  itg_map tensors;                       // Address -> index + 1.
  itg_map constants;                     // Checksum and size -> number of the placement + 1.
  itg_arena arena;                       // Keys of the maps.
} file_writer;

typedef bool (*sink_function)(void *context, const void *data, size_t size);

static const uint8_t zeros[ITG_FILE_ALIGNMENT];

static bool append(buffer *out, const void *data, size_t size) {
  size_t needed;
  if (!itg_checked_add(out->size, size, &needed)) return false;
  if (needed > out->capacity) {
    const size_t capacity = needed > SIZE_MAX / 2 ? needed : (needed < 512 ? 512 : needed * 2);
    uint8_t *grown = realloc(out->data, capacity);
    if (!grown) return false;
    out->data = grown;
    out->capacity = capacity;
  }
  if (size) memcpy(out->data + out->size, data, size);
  out->size = needed;
  return true;
}

#define TRY_APPEND(out, data, size) ITG_TRY_MEMORY(append((out), (data), (size)), writer->diagnostic)

static size_t count_of(const file_writer *writer, int type, size_t element) {
  return writer->tables[type].size / element;
}

// Escapes what may not stand in a file: bytes that are not UTF-8 and control characters.
static const char *escaped(itg_arena *arena, const char *text) {
  const size_t length = strlen(text);
  size_t bad = 0;
  for (size_t i = 0, step; i < length; i += step ? step : 1) {
    step = itg_text_character((const uint8_t *)text + i, length - i);
    bad += step == 0;
  }
  if (bad == 0) return text;
  char *copy = itg_arena_allocate(arena, length + 3 * bad + 1), *to = copy;
  for (size_t i = 0; copy && i < length;) {
    const size_t step = itg_text_character((const uint8_t *)text + i, length - i);
    if (step) {
      memcpy(to, text + i, step);
      to += step;
      i += step;
    } else {
      static const char digits[] = "0123456789abcdef";
      const uint8_t byte = (uint8_t)text[i++];
      *to++ = '\\';
      *to++ = 'x';
      *to++ = digits[byte >> 4];
      *to++ = digits[byte & 15];
    }
  }
  return copy;
}

static itg_status put_string(file_writer *writer, const char *text, uint32_t *out) {
  *out = 0;
  if (!text || !*text) return ITG_OK;
  text = escaped(&writer->arena, text);
  ITG_TRY_MEMORY(text, writer->diagnostic);
  const size_t length = strlen(text);
  buffer *strings = &writer->tables[ITG_SECTION_STRINGS];
  const uintptr_t known = (uintptr_t)itg_map_get(&writer->strings, text, length);
  if (known) {
    *out = (uint32_t)known;
    return ITG_OK;
  }
  if (length >= ITG_FILE_MAX_STRINGS - strings->size)
    ITG_FAIL(writer->diagnostic, ITG_ERROR_LIMIT, NULL, "the names take more than %d bytes", ITG_FILE_MAX_STRINGS);
  *out = (uint32_t)strings->size;
  ITG_TRY_MEMORY(itg_map_set(&writer->strings, text, length, (void *)(uintptr_t)strings->size), writer->diagnostic);
  TRY_APPEND(strings, text, length + 1);
  return ITG_OK;
}

static itg_status put_encoding(file_writer *writer, const itg_encoding *encoding, uint32_t *out) {
  *out = 0;
  if (!encoding) return ITG_OK;
  itg_file_encoding record = {.storage = (uint32_t)encoding->storage,
                              .axis = encoding->axis,
                              .block = encoding->block,
                              .count = (uint64_t)encoding->count,
                              .first_scale = count_of(writer, ITG_SECTION_SCALES, sizeof(double)),
                              .first_zero_point = UINT64_MAX};
  bool zero = true;
  for (int64_t i = 0; encoding->zero_points && i < encoding->count; i++) zero = zero && encoding->zero_points[i] == 0;
  const size_t count = (size_t)encoding->count;
  TRY_APPEND(&writer->tables[ITG_SECTION_SCALES], encoding->scales, count * sizeof(double));
  if (!zero) {
    record.first_zero_point = count_of(writer, ITG_SECTION_ZERO_POINTS, sizeof(int32_t));
    TRY_APPEND(&writer->tables[ITG_SECTION_ZERO_POINTS], encoding->zero_points, count * sizeof(int32_t));
  }
  TRY_APPEND(&writer->tables[ITG_SECTION_ENCODINGS], &record, sizeof record);
  *out = (uint32_t)count_of(writer, ITG_SECTION_ENCODINGS, sizeof record);
  return ITG_OK;
}

// Equal data is stored once; a new constant starts a new piece when the last one would grow beyond the limit.
static itg_status put_constant(file_writer *writer, const void *data, size_t size, itg_file_tensor *record) {
  const struct { uint64_t checksum, size; } content = {XXH3_64bits(data, size), size};
  const placement *placed = (const placement *)writer->placements.data;
  const uintptr_t known = (uintptr_t)itg_map_get(&writer->constants, (const char *)&content, sizeof content);
  if (known && memcmp(placed[known - 1].data, data, size) == 0) {
    record->piece = placed[known - 1].piece;
    record->offset = placed[known - 1].offset;
    return ITG_OK;
  }
  uint64_t *sizes = (uint64_t *)writer->piece_sizes.data;
  size_t pieces = writer->piece_sizes.size / sizeof *sizes;
  uint64_t offset = pieces ? itg_align_up(sizes[pieces - 1], ITG_FILE_ALIGNMENT) : 0;
  if (pieces == 0 || (offset > 0 && (size > ITG_FILE_PIECE_BYTES || offset + size > ITG_FILE_PIECE_BYTES))) {
    TRY_APPEND(&writer->piece_sizes, &(uint64_t){0}, sizeof(uint64_t));
    sizes = (uint64_t *)writer->piece_sizes.data;
    pieces++;
    offset = 0;
  }
  sizes[pieces - 1] = offset + size;
  record->piece = (uint32_t)(pieces - 1);
  record->offset = offset;
  const placement added = {data, size, record->piece, offset};
  TRY_APPEND(&writer->placements, &added, sizeof added);
  const char *key = itg_arena_copy(&writer->arena, &content, sizeof content);
  ITG_TRY_MEMORY(key, writer->diagnostic);
  ITG_TRY_MEMORY(
      itg_map_set(&writer->constants, key, sizeof content, (void *)(uintptr_t)(writer->placements.size / sizeof added)),
      writer->diagnostic);
  return ITG_OK;
}

// Index + 1 of a tensor, which gets a record when it is met for the first time; 0 for NULL.
static itg_status put_tensor(file_writer *writer, itg_tensor *const *slot, uint32_t *out) {
  *out = 0;
  const itg_tensor *tensor = *slot;
  if (!tensor) return ITG_OK;
  const uintptr_t known = (uintptr_t)itg_map_get(&writer->tensors, (const char *)slot, sizeof *slot);
  if (known) {
    *out = (uint32_t)known;
    return ITG_OK;
  }
  itg_file_tensor record = {
      .dtype = (uint8_t)tensor->dtype, .rank = (uint8_t)tensor->shape.rank, .piece = ITG_FILE_NO_PIECE};
  ITG_TRY(put_string(writer, tensor->name, &record.name));
  ITG_TRY(put_encoding(writer, tensor->encoding, &record.encoding));
  for (int i = 0; i < tensor->shape.rank; i++) record.dims[i] = tensor->shape.dims[i];
  if (tensor->data) {
    size_t size;
    if (!itg_shape_bytes(&tensor->shape, tensor->dtype, &size))
      ITG_FAIL(writer->diagnostic, ITG_ERROR_LIMIT, tensor->name, "the constant is too large");
    ITG_TRY(put_constant(writer, tensor->data, size, &record));
  }
  TRY_APPEND(&writer->tables[ITG_SECTION_TENSORS], &record, sizeof record);
  const size_t total = count_of(writer, ITG_SECTION_TENSORS, sizeof record);
  *out = (uint32_t)(total - writer->first_tensor);
  if (total > ITG_FILE_MAX_TENSORS)
    ITG_FAIL(writer->diagnostic, ITG_ERROR_LIMIT, NULL, "more than %d tensors", ITG_FILE_MAX_TENSORS);
  ITG_TRY_MEMORY(itg_map_set(&writer->tensors, (const char *)slot, sizeof *slot, (void *)(uintptr_t)*out),
                 writer->diagnostic);
  return ITG_OK;
}

static itg_status put_operands(file_writer *writer, itg_tensor *const *tensors, int32_t count, uint32_t *first,
                               uint32_t *stored) {
  buffer *operands = &writer->tables[ITG_SECTION_OPERANDS];
  *first = (uint32_t)count_of(writer, ITG_SECTION_OPERANDS, sizeof(uint32_t));
  *stored = (uint32_t)count;
  if ((size_t)count > ITG_FILE_MAX_OPERANDS - *first)
    ITG_FAIL(writer->diagnostic, ITG_ERROR_LIMIT, NULL, "more than %d operands", ITG_FILE_MAX_OPERANDS);
  for (int32_t i = 0; i < count; i++) {
    uint32_t index;
    ITG_TRY(put_tensor(writer, &tensors[i], &index));
    TRY_APPEND(operands, &index, sizeof index);
  }
  return ITG_OK;
}

static itg_status put_node(file_writer *writer, const itg_node *node) {
  itg_file_node record = {.op = (uint32_t)node->op};
  ITG_TRY(put_string(writer, node->name, &record.name));
  ITG_TRY(put_operands(writer, node->inputs, node->input_count, &record.first_input, &record.input_count));
  ITG_TRY(put_operands(writer, node->outputs, node->output_count, &record.first_output, &record.output_count));
  const size_t size = itg_op_get_info(node->op)->attribute_size;
  if (size) {
    buffer *attributes = &writer->tables[ITG_SECTION_ATTRIBUTES];
    record.attribute_offset = (uint32_t)attributes->size;
    record.attribute_size = (uint32_t)size;
    TRY_APPEND(attributes, &node->attributes, size);
    TRY_APPEND(attributes, zeros, itg_align_up(size, 8) - size);
  }
  TRY_APPEND(&writer->tables[ITG_SECTION_NODES], &record, sizeof record);
  return ITG_OK;
}

static itg_status put_part(file_writer *writer, const itg_container_part *part) {
  const itg_graph *graph = part->graph;
  itg_file_variant variant = {.first_tensor = (uint32_t)count_of(writer, ITG_SECTION_TENSORS, sizeof(itg_file_tensor)),
                              .first_node = (uint32_t)count_of(writer, ITG_SECTION_NODES, sizeof(itg_file_node)),
                              .node_count = (uint32_t)graph->node_count};
  if (graph->node_count > ITG_FILE_MAX_NODES - variant.first_node)
    ITG_FAIL(writer->diagnostic, ITG_ERROR_LIMIT, NULL, "more than %d nodes", ITG_FILE_MAX_NODES);
  writer->first_tensor = variant.first_tensor;
  ITG_TRY(put_string(writer, graph->name, &variant.name));
  ITG_TRY(put_string(writer, part->role, &variant.role));
  ITG_TRY(put_operands(writer, graph->inputs, graph->input_count, &variant.first_input, &variant.input_count));
  ITG_FOR_EACH_NODE(node, graph) { ITG_TRY(put_node(writer, node)); }
  ITG_TRY(put_operands(writer, graph->outputs, graph->output_count, &variant.first_output, &variant.output_count));
  variant.tensor_count =
      (uint32_t)count_of(writer, ITG_SECTION_TENSORS, sizeof(itg_file_tensor)) - variant.first_tensor;
  TRY_APPEND(&writer->tables[ITG_SECTION_VARIANTS], &variant, sizeof variant);
  return ITG_OK;
}

static itg_status put_parts(file_writer *writer) {
  if (writer->part_count < 1 || writer->part_count > ITG_CONTAINER_MAX_PARTS)
    ITG_FAIL(writer->diagnostic, ITG_ERROR_LIMIT, NULL, "%zu graphs in one file; 1 to %d are possible",
             writer->part_count, ITG_CONTAINER_MAX_PARTS);
  TRY_APPEND(&writer->tables[ITG_SECTION_STRINGS], "", 1);
  for (size_t i = 0; i < writer->part_count; i++) {
    for (size_t j = 0; j < i; j++) {
      if (strcmp(writer->parts[i].role, writer->parts[j].role) == 0)
        ITG_FAIL(writer->diagnostic, ITG_ERROR_ARGUMENT, writer->parts[i].role, "two graphs have this role");
    }
    ITG_TRY(put_part(writer, &writer->parts[i]));
  }
  return ITG_OK;
}

static bool emit_piece(const file_writer *writer, uint32_t piece, sink_function sink, void *context) {
  const placement *placed = (const placement *)writer->placements.data;
  const size_t count = writer->placements.size / sizeof *placed;
  uint64_t position = 0;
  for (size_t i = 0; i < count; i++) {
    if (placed[i].piece != piece) continue;
    if (!sink(context, zeros, (size_t)(placed[i].offset - position)) || !sink(context, placed[i].data, placed[i].size))
      return false;
    position = placed[i].offset + placed[i].size;
  }
  return true;
}

static bool hash_sink(void *context, const void *data, size_t size) {
  return XXH3_64bits_update(context, data, size) == XXH_OK;
}

static uint64_t hash_piece(const file_writer *writer, uint32_t piece) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  emit_piece(writer, piece, hash_sink, &state); // Hashing does not fail.
  return XXH3_64bits_digest(&state);
}

// The section table and, in *size, the size of the file.
static itg_status lay_out(file_writer *writer, const itg_metadata_section *metadata, size_t metadata_count,
                          buffer *table, uint64_t *size) {
  const uint64_t *piece_sizes = (const uint64_t *)writer->piece_sizes.data;
  const size_t pieces = writer->piece_sizes.size / sizeof *piece_sizes;
  const size_t count = ITG_SECTION_TABLES + pieces + metadata_count;
  if (count > ITG_FILE_MAX_SECTIONS)
    ITG_FAIL(writer->diagnostic, ITG_ERROR_LIMIT, NULL, "%zu sections; the limit is %d", count, ITG_FILE_MAX_SECTIONS);
  uint32_t names[ITG_FILE_MAX_SECTIONS] = {0};
  size_t texts = 0;
  for (size_t i = 0; i < metadata_count; i++) {
    if (!metadata[i].name || !*metadata[i].name)
      ITG_FAIL(writer->diagnostic, ITG_ERROR_ARGUMENT, NULL, "a metadata section needs a name");
    if (!metadata[i].is_context && texts != i)
      ITG_FAIL(writer->diagnostic, ITG_ERROR_ARGUMENT, metadata[i].name, "texts come before NPU contexts");
    texts += !metadata[i].is_context;
    ITG_TRY(put_string(writer, metadata[i].name, &names[i])); // Before the table of strings is hashed below.
  }
  uint64_t offset = sizeof(itg_file_header) + count * sizeof(itg_file_section);
  for (size_t i = 0; i < count; i++) {
    itg_file_section entry = {.offset = itg_align_up(offset, ITG_FILE_ALIGNMENT)};
    if (i < ITG_SECTION_TABLES) {
      const buffer *body = &writer->tables[i + 1];
      entry.type = (uint32_t)i + 1;
      entry.size = body->size;
      entry.checksum = XXH3_64bits(body->data, body->size);
    } else if (i < ITG_SECTION_TABLES + pieces) {
      entry.type = ITG_SECTION_CONSTANTS;
      entry.ordinal = (uint32_t)(i - ITG_SECTION_TABLES);
      entry.size = piece_sizes[entry.ordinal];
      entry.checksum = hash_piece(writer, entry.ordinal);
    } else {
      const size_t number = i - ITG_SECTION_TABLES - pieces;
      const bool is_context = metadata[number].is_context;
      entry.type = is_context ? ITG_SECTION_CONTEXT | ITG_SECTION_OPTIONAL : ITG_SECTION_METADATA;
      entry.ordinal = (uint32_t)(is_context ? number - texts : number);
      entry.name = names[number];
      entry.size = metadata[number].size;
      entry.checksum = XXH3_64bits(metadata[number].text, metadata[number].size);
    }
    TRY_APPEND(table, &entry, sizeof entry);
    offset = entry.offset + entry.size;
  }
  *size = itg_align_up(offset, ITG_FILE_ALIGNMENT);
  return ITG_OK;
}

static bool emit(const file_writer *writer, const itg_metadata_section *metadata, const buffer *table, uint64_t size,
                 sink_function sink, void *context) {
  const itg_file_section *entries = (const itg_file_section *)table->data;
  const uint32_t count = (uint32_t)(table->size / sizeof *entries);
  const uint32_t first_metadata = ITG_SECTION_TABLES + (uint32_t)(writer->piece_sizes.size / sizeof(uint64_t));
  itg_file_header header = {.magic = ITG_FILE_MAGIC,
                            .major = ITG_FILE_MAJOR,
                            .minor = ITG_FILE_MINOR,
                            .header_size = sizeof header,
                            .file_size = size,
                            .table_offset = sizeof header,
                            .section_count = count,
                            .entry_size = sizeof *entries,
                            .table_checksum = XXH3_64bits(table->data, table->size)};
  header.header_checksum = XXH3_64bits(&header, offsetof(itg_file_header, header_checksum));
  if (!sink(context, &header, sizeof header) || !sink(context, table->data, table->size)) return false;
  uint64_t position = sizeof header + table->size;
  for (uint32_t i = 0; i < count; i++) {
    if (!sink(context, zeros, (size_t)(entries[i].offset - position))) return false;
    bool written;
    if (entries[i].type == ITG_SECTION_CONSTANTS)
      written = emit_piece(writer, entries[i].ordinal, sink, context);
    else if (i >= first_metadata)
      written = sink(context, metadata[i - first_metadata].text, (size_t)entries[i].size);
    else
      written = sink(context, writer->tables[entries[i].type].data, (size_t)entries[i].size);
    if (!written) return false;
    position = entries[i].offset + entries[i].size;
  }
  return sink(context, zeros, (size_t)(size - position));
}

typedef struct output_sink {
  itg_output_file *file;
  itg_diagnostic *diagnostic;
  itg_status status;
} output_sink;

static bool write_to_file(void *context, const void *data, size_t size) {
  output_sink *sink = context;
  sink->status = itg_output_file_write(sink->file, data, size, sink->diagnostic);
  return sink->status == ITG_OK;
}

static bool write_to_memory(void *context, const void *data, size_t size) {
  uint8_t **position = context;
  if (size) memcpy(*position, data, size);
  *position += size;
  return true;
}

static void release(file_writer *writer, buffer *table) {
  for (int i = 0; i <= ITG_SECTION_TABLES; i++) free(writer->tables[i].data);
  free(writer->placements.data);
  free(writer->piece_sizes.data);
  itg_map_free(&writer->strings);
  itg_map_free(&writer->tensors);
  itg_map_free(&writer->constants);
  itg_arena_free(&writer->arena);
  free(table->data);
}

static itg_status prepare(file_writer *writer, const itg_metadata_section *metadata, size_t metadata_count,
                          buffer *table, uint64_t *size) {
  for (size_t i = 0; i < writer->part_count; i++)
    ITG_TRY(itg_graph_verify(writer->parts[i].graph, ITG_STAGE_LEGAL, writer->diagnostic));
  ITG_TRY(put_parts(writer));
  return lay_out(writer, metadata, metadata_count, table, size);
}

itg_status itg_container_write_parts_to(itg_output_file *file, const itg_container_part *parts, size_t part_count,
                                        const itg_metadata_section *sections, size_t section_count,
                                        itg_diagnostic *diagnostic) {
  output_sink sink = {.file = file, .diagnostic = diagnostic};
  file_writer writer = {.parts = parts, .part_count = part_count, .diagnostic = diagnostic};
  buffer table = {0};
  uint64_t size = 0;
  itg_status status = prepare(&writer, sections, section_count, &table, &size);
  if (status == ITG_OK && !emit(&writer, sections, &table, size, write_to_file, &sink)) status = sink.status;
  release(&writer, &table);
  return status;
}

itg_status itg_container_write_parts(const char *path, const itg_container_part *parts, size_t part_count,
                                     const itg_metadata_section *sections, size_t section_count,
                                     itg_diagnostic *diagnostic) {
  itg_output_file *file;
  ITG_TRY(itg_output_file_create(path, diagnostic, &file));
  const itg_status status = itg_container_write_parts_to(file, parts, part_count, sections, section_count, diagnostic);
  if (status == ITG_OK) return itg_output_file_commit(file, diagnostic);
  itg_output_file_discard(file);
  return status;
}

itg_status itg_container_write(const char *path, const itg_graph *graph, const itg_metadata_section *sections,
                               size_t section_count, itg_diagnostic *diagnostic) {
  const itg_container_part part = {"", graph};
  return itg_container_write_parts(path, &part, 1, sections, section_count, diagnostic);
}

static itg_status write_memory(const file_writer *writer, const itg_metadata_section *metadata, const buffer *table,
                               uint64_t size, uint8_t **out) {
  uint8_t *memory = size <= SIZE_MAX / 2 ? aligned_alloc(ITG_FILE_ALIGNMENT, (size_t)size) : NULL;
  ITG_TRY_MEMORY(memory, writer->diagnostic);
  uint8_t *position = memory;
  emit(writer, metadata, table, size, write_to_memory, &position); // Memory of the right size takes it all.
  *out = memory;
  return ITG_OK;
}

itg_status itg_container_encode_parts(const itg_container_part *parts, size_t part_count,
                                      const itg_metadata_section *sections, size_t section_count,
                                      itg_diagnostic *diagnostic, uint8_t **bytes, size_t *size) {
  file_writer writer = {.parts = parts, .part_count = part_count, .diagnostic = diagnostic};
  buffer table = {0};
  uint64_t total = 0;
  itg_status status = prepare(&writer, sections, section_count, &table, &total);
  if (status == ITG_OK) status = write_memory(&writer, sections, &table, total, bytes);
  if (status == ITG_OK) *size = (size_t)total;
  release(&writer, &table);
  return status;
}

itg_status itg_container_encode(const itg_graph *graph, const itg_metadata_section *sections, size_t section_count,
                                itg_diagnostic *diagnostic, uint8_t **bytes, size_t *size) {
  const itg_container_part part = {"", graph};
  return itg_container_encode_parts(&part, 1, sections, section_count, diagnostic, bytes, size);
}

itg_status itg_container_measure(const itg_graph *graph, const itg_metadata_section *sections, size_t section_count,
                                 itg_diagnostic *diagnostic, size_t *size) {
  const itg_container_part part = {"", graph};
  file_writer writer = {.parts = &part, .part_count = 1, .diagnostic = diagnostic};
  buffer table = {0};
  uint64_t total = 0;
  const itg_status status = prepare(&writer, sections, section_count, &table, &total);
  if (status == ITG_OK) *size = (size_t)total;
  release(&writer, &table);
  return status;
}
