// Reading GGUF files (versions 2 and 3, little-endian): typed metadata and a table of tensors over mapped bytes.
//
// Layout (the format's public description): "GGUF", version, number of tensors, number of metadata entries; entries
// (key, type, value); tensors (name, dimensions fastest first, type, offset); padding; data. Nothing is copied: keys, texts
// and tensor data are views of the file, which must outlive the table.
#ifndef ITG_TENSOR_GGUF_H
#define ITG_TENSOR_GGUF_H

#include "base/arena.h"
#include "base/map.h"
#include "base/span.h"
#include "base/status.h"
#include "tensor/dtype.h"

// Limits; a file beyond them is refused with ITG_ERROR_LIMIT.
enum {
  ITG_GGUF_MAX_ENTRIES = 1 << 16,
  ITG_GGUF_MAX_TENSORS = 1 << 17,
  ITG_GGUF_MAX_ITEMS = 4000000, // Of one array.
};

typedef enum itg_gguf_type { // Of metadata values; the format's own numbers.
  ITG_GGUF_U8 = 0,
  ITG_GGUF_S8 = 1,
  ITG_GGUF_U16 = 2,
  ITG_GGUF_S16 = 3,
  ITG_GGUF_U32 = 4,
  ITG_GGUF_S32 = 5,
  ITG_GGUF_F32 = 6,
  ITG_GGUF_BOOL = 7,
  ITG_GGUF_TEXT = 8,
  ITG_GGUF_ARRAY = 9,
  ITG_GGUF_U64 = 10,
  ITG_GGUF_S64 = 11,
  ITG_GGUF_F64 = 12,
} itg_gguf_type;

typedef struct itg_gguf_value {
  itg_gguf_type type; // Of the value, or of the items of an array.
  bool is_array;
  uint64_t count;  // Items of an array; else 1.
  itg_span bytes;  // Of all items. Texts: each with its u64 length in front.
  itg_span *texts; // Arrays of texts: the items, in the arena. A single text: one item.
} itg_gguf_value;

typedef struct itg_gguf_tensor {
  itg_span name;
  uint32_t type;   // itg_block_format numbers of tensor/blocks.h, or one that this build does not know.
  itg_shape shape; // Row-major: the file's dimensions reversed.
  uint64_t offset; // From the start of the data.
} itg_gguf_tensor;

typedef struct itg_gguf { // Immutable once read; share freely.
  itg_arena arena;
  uint32_t version;
  itg_map values; // Key -> itg_gguf_value
  itg_span *keys; // In the file's order.
  size_t key_count;
  itg_gguf_tensor *tensors;
  size_t tensor_count;
  itg_span data; // What tensor offsets count from.
} itg_gguf;

// Reads and checks the tables (not the tensors' sizes: see tensor/blocks.h). Errors: FORMAT ("byte N"), VERSION, LIMIT,
// UNSUPPORTED (big-endian, arrays of arrays), MEMORY. `out` is zero after an error.
ITG_MUST_USE itg_status itg_gguf_read(itg_span bytes, itg_diagnostic *diagnostic, itg_gguf *out);
void itg_gguf_free(itg_gguf *gguf);

// NULL when there is no such key.
const itg_gguf_value *itg_gguf_find(const itg_gguf *gguf, const char *key);
// Item `index` of a value as a whole number (integers, booleans) or as a double (any number). False when it is neither.
bool itg_gguf_integer(const itg_gguf_value *value, uint64_t index, int64_t *out);
bool itg_gguf_number(const itg_gguf_value *value, uint64_t index, double *out);
// A single text; false for anything else and for NULL.
bool itg_gguf_text(const itg_gguf_value *value, itg_span *out);

#endif
