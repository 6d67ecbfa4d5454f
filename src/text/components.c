// See components.h. Unknown members of a Sequence are refused, as everywhere in tokenizer.json.
#include "text/components.h"

#include <stdio.h>
#include <string.h>

#include "text/buffers.h"
#include "text/json_fields.h"

enum { MAX_NESTING = 32, MAX_COMPONENTS = 256 };

typedef struct component_list {
  const itg_component_kind *kind;
  itg_diagnostic *diagnostic;
  void **items;
  size_t *count, *capacity;
} component_list;

static itg_status append(const component_list *list, const json_t *json, const char *type) {
  const itg_component_kind *kind = list->kind;
  if (*list->count >= MAX_COMPONENTS)
    ITG_FAIL(list->diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "more than %d %ss", MAX_COMPONENTS, kind->name);
  if (!itg_grow(list->items, list->capacity, *list->count + 1, kind->item_size))
    ITG_FAIL(list->diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  void *item = (char *)*list->items + *list->count * kind->item_size;
  memset(item, 0, kind->item_size);
  ++*list->count;
  return kind->read(json, type, list->diagnostic, item);
}

static itg_status read_nested(const component_list *list, const json_t *json, int depth) {
  const itg_component_kind *kind = list->kind;
  const char *type;
  if (depth > MAX_NESTING)
    ITG_FAIL(list->diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "%ss are nested deeper than %d", kind->name,
             MAX_NESTING);
  ITG_TRY(itg_json_type(json, kind->name, list->diagnostic, &type));
  if (strcmp(type, "Sequence") != 0) return append(list, json, type);
  const json_t *all, *one;
  size_t i;
  char where[64], allowed[64];
  snprintf(where, sizeof where, "%s Sequence", kind->name);
  snprintf(allowed, sizeof allowed, "type %s", kind->member);
  ITG_TRY(itg_json_allow(json, where, allowed, list->diagnostic));
  ITG_TRY(itg_json_need_array(json, where, kind->member, list->diagnostic, &all));
  json_array_foreach(all, i, one) ITG_TRY(read_nested(list, one, depth + 1));
  return ITG_OK;
}

itg_status itg_components_read(const itg_component_kind *kind, const json_t *json, itg_diagnostic *diagnostic,
                               void **items, size_t *count, size_t *capacity) {
  const component_list list = {kind, diagnostic, items, count, capacity};
  return read_nested(&list, json, 0);
}
