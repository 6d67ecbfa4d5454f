// GGUF tables. See gguf.h.
#include "tensor/gguf.h"

#include <stdio.h>

#include "base/checked.h"

typedef struct reader {
  itg_span bytes;
  uint64_t at;
  itg_gguf *gguf;
  itg_diagnostic *diagnostic;
} reader;

#define FAIL_AT(r, status, ...)                                              \
  do {                                                                       \
    char where[40];                                                          \
    snprintf(where, sizeof where, "byte %llu", (unsigned long long)(r)->at); \
    ITG_FAIL((r)->diagnostic, (status), where, __VA_ARGS__);                 \
  } while (0)

static itg_status take(reader *r, uint64_t size, itg_span *out) {
  if (!itg_span_cut(r->bytes, r->at, size, out)) FAIL_AT(r, ITG_ERROR_FORMAT, "the GGUF file ends within its tables");
  r->at += size;
  return ITG_OK;
}

static itg_status take_u32(reader *r, uint32_t *out) {
  itg_span bytes;
  ITG_TRY(take(r, sizeof *out, &bytes));
  memcpy(out, bytes.data, sizeof *out);
  return ITG_OK;
}

static itg_status take_u64(reader *r, uint64_t *out) {
  itg_span bytes;
  ITG_TRY(take(r, sizeof *out, &bytes));
  memcpy(out, bytes.data, sizeof *out);
  return ITG_OK;
}

static itg_status take_text(reader *r, itg_span *out) {
  uint64_t size;
  ITG_TRY(take_u64(r, &size));
  return take(r, size, out);
}

// Bytes of an item; 0 for texts, arrays and unknown types.
static uint64_t item_size(uint32_t type) {
  static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < sizeof sizes ? sizes[type] : 0;
}

static itg_status take_texts(reader *r, itg_gguf_value *value) {
  const uint64_t start = r->at;
  // Each text takes 8 bytes or more, so that a short file cannot ask for much memory.
  if (value->count > (r->bytes.size - r->at) / 8) FAIL_AT(r, ITG_ERROR_FORMAT, "the GGUF file ends within a list");
  value->texts = itg_arena_array(&r->gguf->arena, (size_t)value->count, sizeof value->texts[0]);
  ITG_TRY_MEMORY(value->texts, r->diagnostic);
  for (uint64_t i = 0; i < value->count; i++) ITG_TRY(take_text(r, &value->texts[i]));
  value->bytes = (itg_span){r->bytes.data + start, (size_t)(r->at - start)};
  return ITG_OK;
}

static itg_status take_value(reader *r, itg_gguf_value *value) {
  uint32_t type;
  ITG_TRY(take_u32(r, &type));
  value->is_array = type == ITG_GGUF_ARRAY;
  value->count = 1;
  if (value->is_array) {
    ITG_TRY(take_u32(r, &type));
    ITG_TRY(take_u64(r, &value->count));
    if (type == ITG_GGUF_ARRAY)
      FAIL_AT(r, ITG_ERROR_UNSUPPORTED, "arrays of arrays are not supported in GGUF metadata");
    if (value->count > ITG_GGUF_MAX_ITEMS)
      FAIL_AT(r, ITG_ERROR_LIMIT, "a list has %llu items; at most %d are allowed", (unsigned long long)value->count,
              ITG_GGUF_MAX_ITEMS);
  }
  value->type = (itg_gguf_type)type;
  if (type == ITG_GGUF_TEXT) return take_texts(r, value);
  if (item_size(type) == 0) FAIL_AT(r, ITG_ERROR_FORMAT, "metadata of the unknown type %u", type);
  return take(r, value->count * item_size(type), &value->bytes);
}

static itg_status take_entries(reader *r, uint64_t count) {
  r->gguf->keys = itg_arena_array(&r->gguf->arena, (size_t)count, sizeof r->gguf->keys[0]);
  ITG_TRY_MEMORY(r->gguf->keys, r->diagnostic);
  for (uint64_t i = 0; i < count; i++) {
    itg_span key;
    itg_gguf_value *value = itg_arena_allocate(&r->gguf->arena, sizeof *value);
    ITG_TRY_MEMORY(value, r->diagnostic);
    ITG_TRY(take_text(r, &key));
    ITG_TRY(take_value(r, value));
    if (itg_map_get(&r->gguf->values, (const char *)key.data, key.size))
      FAIL_AT(r, ITG_ERROR_FORMAT, "the metadata key \"%.*s\" occurs twice", (int)(key.size < 80 ? key.size : 80),
              (const char *)key.data);
    ITG_TRY_MEMORY(itg_map_set(&r->gguf->values, (const char *)key.data, key.size, value), r->diagnostic);
    r->gguf->keys[r->gguf->key_count++] = key;
  }
  return ITG_OK;
}

static itg_status take_tensor(reader *r, itg_gguf_tensor *tensor) {
  uint32_t rank;
  ITG_TRY(take_text(r, &tensor->name));
  ITG_TRY(take_u32(r, &rank));
  if (rank > 4) FAIL_AT(r, ITG_ERROR_FORMAT, "a tensor has %u dimensions; GGUF knows 4", rank);
  tensor->shape.rank = (int32_t)rank;
  for (uint32_t d = 0; d < rank; d++) {
    uint64_t size;
    ITG_TRY(take_u64(r, &size));
    if (size > INT64_MAX) FAIL_AT(r, ITG_ERROR_FORMAT, "a dimension of a tensor is out of range");
    tensor->shape.dims[rank - 1 - d] = (int64_t)size;
  }
  ITG_TRY(take_u32(r, &tensor->type));
  return take_u64(r, &tensor->offset);
}

static itg_status find_data(reader *r) {
  int64_t alignment = 32;
  const itg_gguf_value *given = itg_gguf_find(r->gguf, "general.alignment");
  if (given && (!itg_gguf_integer(given, 0, &alignment) || alignment < 8 || alignment > 1 << 20 ||
                (alignment & (alignment - 1))))
    FAIL_AT(r, ITG_ERROR_FORMAT, "general.alignment must be a power of two from 8 on");
  const uint64_t start = itg_align_up(r->at, (size_t)alignment);
  // A file without tensors may end before the padding.
  if (start <= r->bytes.size) r->gguf->data = (itg_span){r->bytes.data + start, (size_t)(r->bytes.size - start)};
  return ITG_OK;
}

static itg_status read_tables(reader *r) {
  itg_span magic;
  uint64_t tensors, entries;
  ITG_TRY(take(r, 4, &magic));
  if (!itg_span_equals(magic, "GGUF")) ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, "byte 0", "this is no GGUF file");
  ITG_TRY(take_u32(r, &r->gguf->version));
  if (r->gguf->version != 0 && (r->gguf->version & 0xffff) == 0)
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, "byte 4", "the GGUF file is big-endian");
  if (r->gguf->version != 2 && r->gguf->version != 3)
    ITG_FAIL(r->diagnostic, ITG_ERROR_VERSION, "byte 4", "GGUF version %u; 2 and 3 are supported", r->gguf->version);
  ITG_TRY(take_u64(r, &tensors));
  ITG_TRY(take_u64(r, &entries));
  if (tensors > ITG_GGUF_MAX_TENSORS || entries > ITG_GGUF_MAX_ENTRIES)
    ITG_FAIL(r->diagnostic, ITG_ERROR_LIMIT, "byte 8", "%llu tensors and %llu entries; at most %d and %d are allowed",
             (unsigned long long)tensors, (unsigned long long)entries, ITG_GGUF_MAX_TENSORS, ITG_GGUF_MAX_ENTRIES);
  ITG_TRY(take_entries(r, entries));
  // A tensor takes 24 bytes or more.
  if (tensors > (r->bytes.size - r->at) / 24)
    FAIL_AT(r, ITG_ERROR_FORMAT, "the GGUF file ends within its tensor table");
  r->gguf->tensors = itg_arena_array(&r->gguf->arena, (size_t)tensors, sizeof r->gguf->tensors[0]);
  ITG_TRY_MEMORY(r->gguf->tensors, r->diagnostic);
  for (; r->gguf->tensor_count < tensors; r->gguf->tensor_count++)
    ITG_TRY(take_tensor(r, &r->gguf->tensors[r->gguf->tensor_count]));
  return find_data(r);
}

itg_status itg_gguf_read(itg_span bytes, itg_diagnostic *diagnostic, itg_gguf *out) {
  *out = (itg_gguf){0};
  reader r = {.bytes = bytes, .gguf = out, .diagnostic = diagnostic};
  const itg_status status = read_tables(&r);
  if (status != ITG_OK) itg_gguf_free(out);
  return status;
}

void itg_gguf_free(itg_gguf *gguf) {
  itg_map_free(&gguf->values);
  itg_arena_free(&gguf->arena);
  *gguf = (itg_gguf){0};
}

const itg_gguf_value *itg_gguf_find(const itg_gguf *gguf, const char *key) {
  return itg_map_get(&gguf->values, key, strlen(key));
}

static const uint8_t *item(const itg_gguf_value *value, uint64_t index) {
  return index < value->count ? value->bytes.data + index * item_size(value->type) : NULL;
}

#define READ_AS(type_number, type, target) \
  case type_number: {                      \
    type number;                           \
    memcpy(&number, at, sizeof number);    \
    *out = (target)number;                 \
    return true;                           \
  }

bool itg_gguf_integer(const itg_gguf_value *value, uint64_t index, int64_t *out) {
  const uint8_t *at = item(value, index);
  if (!at) return false;
  switch (value->type) {
    READ_AS(ITG_GGUF_BOOL, uint8_t, int64_t)
    READ_AS(ITG_GGUF_U8, uint8_t, int64_t)
    READ_AS(ITG_GGUF_S8, int8_t, int64_t)
    READ_AS(ITG_GGUF_U16, uint16_t, int64_t)
    READ_AS(ITG_GGUF_S16, int16_t, int64_t)
    READ_AS(ITG_GGUF_U32, uint32_t, int64_t)
    READ_AS(ITG_GGUF_S32, int32_t, int64_t)
    READ_AS(ITG_GGUF_S64, int64_t, int64_t)
  case ITG_GGUF_U64: {
    uint64_t number;
    memcpy(&number, at, sizeof number);
    if (number > INT64_MAX) return false;
    *out = (int64_t)number;
    return true;
  }
  default: return false;
  }
}

bool itg_gguf_number(const itg_gguf_value *value, uint64_t index, double *out) {
  const uint8_t *at = item(value, index);
  int64_t whole;
  if (!at) return false;
  switch (value->type) {
    READ_AS(ITG_GGUF_F32, float, double)
    READ_AS(ITG_GGUF_F64, double, double)
  default:
    if (!itg_gguf_integer(value, index, &whole)) return false;
    *out = (double)whole;
    return true;
  }
}

bool itg_gguf_text(const itg_gguf_value *value, itg_span *out) {
  if (!value || value->is_array || value->type != ITG_GGUF_TEXT) return false;
  *out = value->texts[0];
  return true;
}
