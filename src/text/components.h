// Lists of components in tokenizer.json: one component, or a "Sequence" of them at any depth, becomes a flat array.
#ifndef ITG_TEXT_COMPONENTS_H
#define ITG_TEXT_COMPONENTS_H

#include <jansson.h>
#include <stddef.h>

#include "base/status.h"

// What normalizers, pre-tokenizers and decoders differ in.
typedef struct itg_component_kind {
  const char *name;   // "decoder"
  const char *member; // Of a Sequence: "decoders".
  size_t item_size;
  // Fills one zeroed item. What it leaves in the item after a failure is freed with the list.
  itg_status (*read)(const json_t *json, const char *type, itg_diagnostic *diagnostic, void *item);
} itg_component_kind;

// Appends to *items (malloc'ed, grows). *count includes an item whose reading failed. Errors: LIMIT (nesting, number),
// UNSUPPORTED and FORMAT of the components, MEMORY.
ITG_MUST_USE itg_status itg_components_read(const itg_component_kind *kind, const json_t *json,
                                            itg_diagnostic *diagnostic, void **items, size_t *count, size_t *capacity);

#endif
