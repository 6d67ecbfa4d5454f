// Open addressing with linear probing over XXH3; grows at 3/4.
#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct itg_map_entry {
  const char *key;
  size_t length;
  uint64_t hash;
  void *value;
};

static struct itg_map_entry *find(struct itg_map_entry *entries, size_t capacity, const char *key, size_t length,
                                  uint64_t hash) {
  for (size_t i = hash & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
    struct itg_map_entry *entry = &entries[i];
    if (!entry->key) return entry;
    if (entry->hash == hash && entry->length == length && memcmp(entry->key, key, length) == 0) return entry;
  }
}

void itg_map_free(itg_map *map) {
  free(map->entries);
  *map = (itg_map){0};
}

void *itg_map_get(const itg_map *map, const char *key, size_t length) {
  if (!map->capacity) return NULL;
  const struct itg_map_entry *entry = find(map->entries, map->capacity, key, length, XXH3_64bits(key, length));
  return entry->key ? entry->value : NULL;
}

static bool grow(itg_map *map) {
  const size_t capacity = map->capacity ? map->capacity * 2 : 64;
  if (capacity > SIZE_MAX / 2 / sizeof(struct itg_map_entry)) return false;
  struct itg_map_entry *entries = calloc(capacity, sizeof *entries);
  if (!entries) return false;
  for (size_t i = 0; i < map->capacity; i++) {
    const struct itg_map_entry *old = &map->entries[i];
    if (old->key) *find(entries, capacity, old->key, old->length, old->hash) = *old;
  }
  free(map->entries);
  map->entries = entries;
  map->capacity = capacity;
  return true;
}

bool itg_map_set(itg_map *map, const char *key, size_t length, void *value) {
  const uint64_t hash = XXH3_64bits(key, length);
  struct itg_map_entry *entry = map->capacity ? find(map->entries, map->capacity, key, length, hash) : NULL;
  if (entry && entry->key) { // Replacing needs no memory.
    entry->value = value;
    return true;
  }
  if (map->count >= map->capacity / 4 * 3) {
    if (!grow(map)) return false;
    entry = find(map->entries, map->capacity, key, length, hash);
  }
  map->count++;
  *entry = (struct itg_map_entry){key, length, hash, value};
  return true;
}
