// A hash map from strings to pointers. Keys are borrowed; entries are never removed (set a value to NULL instead).
// One thread at a time.
#ifndef ITG_BASE_MAP_H
#define ITG_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct itg_map {
  struct itg_map_entry *entries;
  size_t count, capacity; // Capacity is 0 or a power of two.
} itg_map;

// A map starts as zeroes.
void itg_map_free(itg_map *map);
// The value of a key, or NULL. The key need not be NUL-terminated.
void *itg_map_get(const itg_map *map, const char *key, size_t length);
// Inserts or replaces; false without memory (replacing cannot fail). `key` must outlive the map.
bool itg_map_set(itg_map *map, const char *key, size_t length, void *value);

#endif
