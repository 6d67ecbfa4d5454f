// .safetensors (the format's published description): a u64 length, a JSON header {name: {dtype, shape, data_offsets}}, data.
#include "import/huggingface/safetensors.h"

#include <stdlib.h>

#include <jansson.h>

typedef struct header_entry {
  const char *name;
  const json_t *value;
  uint64_t begin, end;
} header_entry;

static const struct {
  const char *name;
  itg_block_format format;
} types[] = {{"F32", ITG_BLOCK_F32},      {"F16", ITG_BLOCK_F16},         {"BF16", ITG_BLOCK_BF16},
             {"F64", ITG_BLOCK_UNKNOWN},  {"I64", ITG_BLOCK_UNKNOWN},     {"I32", ITG_BLOCK_UNKNOWN},
             {"I16", ITG_BLOCK_UNKNOWN},  {"I8", ITG_BLOCK_UNKNOWN},      {"U64", ITG_BLOCK_UNKNOWN},
             {"U32", ITG_BLOCK_UNKNOWN},  {"U16", ITG_BLOCK_UNKNOWN},     {"U8", ITG_BLOCK_UNKNOWN},
             {"BOOL", ITG_BLOCK_UNKNOWN}, {"F8_E4M3", ITG_BLOCK_UNKNOWN}, {"F8_E5M2", ITG_BLOCK_UNKNOWN}};
enum { TYPES = sizeof types / sizeof types[0] };

static itg_status read_shape(const header_entry *entry, itg_diagnostic *diagnostic, itg_shape *out) {
  const json_t *shape = json_object_get(entry->value, "shape");
  *out = (itg_shape){0};
  if (!json_is_array(shape) || json_array_size(shape) > ITG_MAX_RANK)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, entry->name,
             "the shape of the tensor %.200s is no list of at most %d numbers", entry->name, ITG_MAX_RANK);
  for (size_t i = 0; i < json_array_size(shape); i++) {
    const json_t *size = json_array_get(shape, i);
    if (!json_is_integer(size) || json_integer_value(size) < 0)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, entry->name,
               "the shape of the tensor %.200s holds something else than sizes", entry->name);
    out->dims[out->rank++] = json_integer_value(size);
  }
  return ITG_OK;
}

static itg_status read_offsets(header_entry *entry, uint64_t data_size, itg_diagnostic *diagnostic) {
  const json_t *offsets = json_object_get(entry->value, "data_offsets");
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
      json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin) ||
      (uint64_t)json_integer_value(end) > data_size)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, entry->name,
             "the data of the tensor %.200s does not lie inside the file (%llu bytes of data); is it truncated?",
             entry->name, (unsigned long long)data_size);
  entry->begin = (uint64_t)json_integer_value(begin);
  entry->end = (uint64_t)json_integer_value(end);
  return ITG_OK;
}

static int compare_entries(const void *a, const void *b) {
  const header_entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static itg_status add_entry(itg_checkpoint *checkpoint, const header_entry *entry, itg_span data,
                            itg_diagnostic *diagnostic) {
  const char *type = json_string_value(json_object_get(entry->value, "dtype"));
  int found = -1;
  for (int i = 0; type && i < TYPES; i++) {
    if (strcmp(types[i].name, type) == 0) found = i;
  }
  if (found < 0)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, entry->name, "the tensor %.200s has the unknown type %.40s",
             entry->name, type ? type : "(none)");
  itg_shape shape;
  ITG_TRY(read_shape(entry, diagnostic, &shape));
  const itg_span body = {data.data + entry->begin, (size_t)(entry->end - entry->begin)};
  return itg_checkpoint_add(checkpoint, (itg_span){(const uint8_t *)entry->name, strlen(entry->name)},
                            types[found].format, types[found].name, &shape, body, diagnostic);
}

// The data is what the tensors say it is, all of it: no two share bytes, and none are left.
static itg_status add_entries(itg_checkpoint *checkpoint, header_entry *entries, size_t count, itg_span data,
                              const char *subject, itg_diagnostic *diagnostic) {
  qsort(entries, count, sizeof entries[0], compare_entries);
  uint64_t expected = 0;
  for (size_t i = 0; i < count; i++) {
    if (entries[i].begin != expected)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, entries[i].name,
               "the data of the tensor %.200s begins at byte %llu of the data instead of %llu", entries[i].name,
               (unsigned long long)entries[i].begin, (unsigned long long)expected);
    expected = entries[i].end;
    ITG_TRY(add_entry(checkpoint, &entries[i], data, diagnostic));
  }
  if (expected != data.size)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "%s has %zu bytes of data, its tensors take %llu", subject,
             data.size, (unsigned long long)expected);
  return ITG_OK;
}

static itg_status add_header(itg_checkpoint *checkpoint, const json_t *root, itg_span data, const char *subject,
                             itg_diagnostic *diagnostic) {
  const size_t total = json_object_size(root);
  if (total > ITG_SAFETENSORS_MAX_TENSORS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, subject, "%s names %zu tensors; at most %d are allowed", subject, total,
             ITG_SAFETENSORS_MAX_TENSORS);
  header_entry *entries = calloc(total + 1, sizeof *entries);
  ITG_TRY_MEMORY(entries, diagnostic);
  itg_status status = ITG_OK;
  size_t count = 0;
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)root, name, value) {
    if (strcmp(name, "__metadata__") == 0 || status != ITG_OK) continue;
    entries[count] = (header_entry){.name = name, .value = value};
    status = read_offsets(&entries[count++], data.size, diagnostic);
  }
  if (status == ITG_OK) status = add_entries(checkpoint, entries, count, data, subject, diagnostic);
  free(entries);
  return status;
}

itg_status itg_safetensors_add(itg_checkpoint *checkpoint, itg_span bytes, const char *subject,
                               itg_diagnostic *diagnostic) {
  uint64_t size;
  itg_span header, data;
  if (bytes.size < sizeof size)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "%s is too short for a .safetensors file", subject);
  memcpy(&size, bytes.data, sizeof size);
  if (size > ITG_SAFETENSORS_MAX_HEADER)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, subject, "the header of %s has %llu bytes; at most %zu are allowed", subject,
             (unsigned long long)size, ITG_SAFETENSORS_MAX_HEADER);
  if (!itg_span_cut(bytes, sizeof size, size, &header))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "%s ends within its header", subject);
  data = (itg_span){header.data + header.size, bytes.size - sizeof size - header.size};
  json_error_t error;
  json_t *root = json_loadb((const char *)header.data, header.size, JSON_REJECT_DUPLICATES, &error);
  if (!json_is_object(root)) {
    json_decref(root);
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "the header of %s is no JSON object%s%s", subject, root ? "" : ": ",
             root ? "" : error.text);
  }
  const itg_status status = add_header(checkpoint, root, data, subject, diagnostic);
  json_decref(root);
  return status;
}

// ---- folders ----

static char *join(const char *folder, const char *name) {
  const size_t size = strlen(folder) + strlen(name) + 2;
  char *path = malloc(size);
  if (path) snprintf(path, size, "%s/%s", folder, name);
  return path;
}

static itg_status add_file(itg_checkpoint *checkpoint, const char *folder, const char *name,
                           itg_diagnostic *diagnostic) {
  char *path = join(folder, name);
  ITG_TRY_MEMORY(path, diagnostic);
  itg_span bytes;
  itg_status status = itg_checkpoint_map(checkpoint, path, diagnostic, &bytes);
  if (status == ITG_OK) status = itg_safetensors_add(checkpoint, bytes, name, diagnostic);
  free(path);
  return status;
}

// Shards are files of the same folder and nothing else.
static bool is_plain_name(const char *name) {
  return name[0] && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

static itg_status add_shards(itg_checkpoint *checkpoint, const char *folder, const json_t *map,
                             itg_diagnostic *diagnostic) {
  json_t *done = json_object(); // Shards that were read.
  ITG_TRY_MEMORY(done, diagnostic);
  itg_status status = ITG_OK;
  const char *tensor;
  json_t *value;
  json_object_foreach((json_t *)map, tensor, value) {
    const char *name = json_string_value(value);
    if (status == ITG_OK && (!name || !is_plain_name(name)))
      status = itg_fail(diagnostic, ITG_ERROR_FORMAT, tensor, __FILE__, __LINE__,
                        "the index puts the tensor %.200s into a file that is none of the folder", tensor);
    if (status != ITG_OK || json_object_get(done, name)) continue;
    if (json_object_size(done) == ITG_SAFETENSORS_MAX_SHARDS)
      status = itg_fail(diagnostic, ITG_ERROR_LIMIT, name, __FILE__, __LINE__, "more than %d shards",
                        ITG_SAFETENSORS_MAX_SHARDS);
    else if (json_object_set_new(done, name, json_true()) != 0)
      status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
    else
      status = add_file(checkpoint, folder, name, diagnostic);
  }
  json_decref(done);
  ITG_TRY(status);
  json_object_foreach((json_t *)map, tensor, value) {
    if (!itg_map_get(&checkpoint->by_name, tensor, strlen(tensor)))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, tensor,
               "the index puts the tensor %.200s into %.200s, which does not hold it", tensor,
               json_string_value(value));
  }
  return ITG_OK;
}

itg_status itg_safetensors_add_folder(itg_checkpoint *checkpoint, const char *folder, itg_diagnostic *diagnostic) {
  char *path = join(folder, "model.safetensors.index.json");
  ITG_TRY_MEMORY(path, diagnostic);
  itg_mapped_file index;
  const itg_status found = itg_mapped_file_open(path, NULL, &index);
  free(path);
  if (found != ITG_OK) return add_file(checkpoint, folder, "model.safetensors", diagnostic);
  json_error_t error;
  json_t *root = index.bytes.size > ITG_SAFETENSORS_MAX_HEADER
                     ? NULL
                     : json_loadb((const char *)index.bytes.data, index.bytes.size, JSON_REJECT_DUPLICATES, &error);
  itg_mapped_file_close(&index);
  const json_t *map = json_object_get(root, "weight_map");
  itg_status status;
  if (json_is_object(map) && json_object_size(map) <= ITG_SAFETENSORS_MAX_TENSORS)
    status = add_shards(checkpoint, folder, map, diagnostic);
  else
    status = itg_fail(diagnostic, ITG_ERROR_FORMAT, "model.safetensors.index.json", __FILE__, __LINE__,
                      "model.safetensors.index.json has no \"weight_map\" of at most %d tensors",
                      ITG_SAFETENSORS_MAX_TENSORS);
  json_decref(root);
  return status;
}
