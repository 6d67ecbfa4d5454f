// Weights by name. See checkpoint.h.
#include "import/language/checkpoint.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/checked.h"

void itg_checkpoint_free(itg_checkpoint *checkpoint) {
  for (size_t i = 0; i < checkpoint->file_count; i++) itg_mapped_file_close(&checkpoint->files[i]);
  free(checkpoint->files);
  free(checkpoint->weights);
  itg_map_free(&checkpoint->by_name);
  itg_arena_free(&checkpoint->arena);
  *checkpoint = (itg_checkpoint){0};
}

itg_status itg_checkpoint_map(itg_checkpoint *checkpoint, const char *path, itg_diagnostic *diagnostic, itg_span *out) {
  itg_mapped_file *grown = realloc(checkpoint->files, (checkpoint->file_count + 1) * sizeof *grown);
  ITG_TRY_MEMORY(grown, diagnostic);
  checkpoint->files = grown;
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &grown[checkpoint->file_count]));
  *out = grown[checkpoint->file_count++].bytes;
  return ITG_OK;
}

void itg_checkpoint_release_pages(const itg_checkpoint *checkpoint) {
  for (size_t i = 0; i < checkpoint->file_count; i++) itg_mapped_file_release_pages(&checkpoint->files[i]);
}

uint64_t itg_checkpoint_hash(const itg_checkpoint *checkpoint) {
  uint64_t hash = 0;
  for (size_t i = 0; i < checkpoint->file_count; i++)
    hash = XXH3_64bits_withSeed(checkpoint->files[i].bytes.data, checkpoint->files[i].bytes.size, hash);
  return hash;
}

// Rows and bytes a row; false on overflow.
static bool measure(const itg_shape *shape, itg_block_format format, int64_t *rows, size_t *row_bytes, size_t *total) {
  size_t count;
  if (!itg_shape_count(shape, &count)) return false;
  const int64_t columns = shape->rank ? shape->dims[shape->rank - 1] : 1;
  *rows = columns ? (int64_t)count / columns : 0;
  return itg_block_row_bytes(format, columns, row_bytes) && itg_checked_multiply((size_t)*rows, *row_bytes, total);
}

itg_status itg_checkpoint_add(itg_checkpoint *checkpoint, itg_span name, itg_block_format format, const char *type,
                              const itg_shape *shape, itg_span data, itg_diagnostic *diagnostic) {
  itg_weight *weight = itg_arena_allocate(&checkpoint->arena, sizeof *weight);
  char *text = itg_arena_string(&checkpoint->arena, (const char *)name.data, name.size);
  ITG_TRY_MEMORY(weight && text, diagnostic);
  *weight = (itg_weight){.name = text, .format = format, .type = type, .shape = *shape, .data = data.data};
  if (strlen(text) != name.size || name.size == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, text, "a tensor has an empty name, or one with a NUL in it");
  if (itg_map_get(&checkpoint->by_name, text, name.size))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, text, "the tensor %.200s is stored twice", text);
  if (format != ITG_BLOCK_UNKNOWN) {
    int64_t rows;
    size_t total = 0;
    if (!measure(shape, format, &rows, &weight->row_bytes, &total) || total != data.size) {
      char shape_text[128];
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, text, "the tensor %.200s has %zu bytes, which is not %s of %s", text,
               data.size, itg_shape_print(shape, shape_text, sizeof shape_text), type);
    }
  }
  void *list = checkpoint->weights;
  if (checkpoint->count == checkpoint->capacity) {
    checkpoint->capacity = checkpoint->capacity ? 2 * checkpoint->capacity : 64;
    list = realloc(list, checkpoint->capacity * sizeof checkpoint->weights[0]);
    ITG_TRY_MEMORY(list, diagnostic);
    checkpoint->weights = list;
  }
  ITG_TRY_MEMORY(itg_map_set(&checkpoint->by_name, text, name.size, weight), diagnostic);
  checkpoint->weights[checkpoint->count++] = weight;
  return ITG_OK;
}

itg_weight *itg_checkpoint_find(const itg_checkpoint *checkpoint, const char *name) {
  itg_weight *weight = itg_map_get(&checkpoint->by_name, name, strlen(name));
  if (weight) weight->used = true;
  return weight;
}

itg_status itg_checkpoint_need(const itg_checkpoint *checkpoint, const char *name, const itg_shape *shape,
                               itg_diagnostic *diagnostic, const itg_weight **out) {
  const itg_weight *weight = itg_checkpoint_find(checkpoint, name);
  if (!weight) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name, "the checkpoint lacks the tensor %s", name);
  if (weight->format == ITG_BLOCK_UNKNOWN)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, name, "the tensor %s is stored as %s, which cannot be read", name,
             weight->type);
  if (!itg_shape_equal(&weight->shape, shape)) {
    char has[128], wants[128];
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, name, "the tensor %s is %s; the model's description asks for %s", name,
             itg_shape_print(&weight->shape, has, sizeof has), itg_shape_print(shape, wants, sizeof wants));
  }
  *out = weight;
  return ITG_OK;
}

int64_t itg_weight_rows(const itg_weight *weight) {
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < weight->shape.rank; i++) rows *= weight->shape.dims[i];
  return rows;
}

void itg_weight_read(const itg_weight *weight, int64_t first, int64_t count, float *out) {
  const int64_t columns = weight->shape.rank ? weight->shape.dims[weight->shape.rank - 1] : 1;
  for (int64_t r = 0; r < count; r++)
    itg_block_decode_row(weight->format, weight->data + (size_t)(first + r) * weight->row_bytes, columns,
                         out + r * columns);
}
