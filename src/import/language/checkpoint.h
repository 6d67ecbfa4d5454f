// The weights of a language model by name, whatever files they lie in: mapped, and widened to float32 while they are read.
#ifndef ITG_IMPORT_LANGUAGE_CHECKPOINT_H
#define ITG_IMPORT_LANGUAGE_CHECKPOINT_H

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "tensor/blocks.h"

typedef struct itg_weight {
  const char *name;
  itg_block_format format; // UNKNOWN: stored in a type that cannot be read; `type` names it.
  const char *type;
  itg_shape shape;     // Row-major.
  const uint8_t *data; // Rows of the last dimension, one after the other; may be unaligned.
  size_t row_bytes;
  bool used; // Somebody asked for it.
} itg_weight;

// Immutable once filled, but for `used`. One thread at a time.
typedef struct itg_checkpoint {
  itg_arena arena;
  itg_map by_name;
  itg_weight **weights; // In the order they were added.
  size_t count, capacity;
  itg_mapped_file *files; // malloc'ed; closed with the checkpoint.
  size_t file_count;
} itg_checkpoint;

// A checkpoint starts as zeroes.
void itg_checkpoint_free(itg_checkpoint *checkpoint);
// Maps a file that the checkpoint then owns. Errors: IO, MEMORY.
ITG_MUST_USE itg_status itg_checkpoint_map(itg_checkpoint *checkpoint, const char *path, itg_diagnostic *diagnostic,
                                           itg_span *out);
// Gives back the memory of what was read so far.
void itg_checkpoint_release_pages(const itg_checkpoint *checkpoint);
// XXH3 of all files, chained in their order.
uint64_t itg_checkpoint_hash(const itg_checkpoint *checkpoint);
// Adds a tensor whose bytes are `data` (exactly). `type` is static text. Errors: FORMAT (a second tensor of the name, bytes
// that do not fit the shape), MEMORY.
ITG_MUST_USE itg_status itg_checkpoint_add(itg_checkpoint *checkpoint, itg_span name, itg_block_format format,
                                           const char *type, const itg_shape *shape, itg_span data,
                                           itg_diagnostic *diagnostic);
// NULL when there is none. The weight counts as used.
itg_weight *itg_checkpoint_find(const itg_checkpoint *checkpoint, const char *name);
// The weight of a name and shape. Errors: FORMAT (missing), SHAPE (both shapes are named), UNSUPPORTED (its type).
ITG_MUST_USE itg_status itg_checkpoint_need(const itg_checkpoint *checkpoint, const char *name, const itg_shape *shape,
                                            itg_diagnostic *diagnostic, const itg_weight **out);

// Number of rows: the product of all dimensions but the last. 1 for a vector.
int64_t itg_weight_rows(const itg_weight *weight);
// Widens rows [first, first + count) into `out`, dense.
void itg_weight_read(const itg_weight *weight, int64_t first, int64_t count, float *out);

#endif
