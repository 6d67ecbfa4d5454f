// See listing.h.
#include "hub/listing.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static bool is_hex(const char *text, size_t length) {
  return text && strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

// Only names that stay inside the model's folder on any file system: letters, digits, "._-+ ", no hidden names.
static bool is_safe_path(const char *path) {
  if (!path || !*path || strlen(path) >= ITG_HUB_MAX_PATH) return false;
  bool start = true;
  for (const char *at = path; *at; at++) {
    const bool plain =
        (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || strchr("_-+", *at);
    if (!plain && *at != '/' && *at != '.' && *at != ' ') return false;
    if (start && !plain) return false;
    start = *at == '/';
  }
  return !start;
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), size = strlen(end);
  return length >= size && strcmp(text + length - size, end) == 0;
}

// Hidden: a name that begins with a dot and is not "." or "..".
static bool has_hidden_name(const char *path) {
  for (const char *name = path; name; name = strchr(name, '/')) {
    name += *name == '/';
    if (name[0] == '.' && !strchr("./", name[1])) return true;
  }
  return false;
}

// Not for other runtimes, nor about the repository itself: those are never written, whatever their names.
static bool is_wanted(const char *path) {
  if (has_hidden_name(path)) return false;
  static const char *const folders[] = {"rknpu/", "openvino/", "coreml/", "migraphx/"};
  static const char *const ends[] = {".armnn", ".rknn", ".md"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    if (ends_with(path, ends[i])) return false;
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
    const char *found = strstr(path, folders[i]);
    if (found && (found == path || found[-1] == '/')) return false;
  }
  return true;
}

static itg_status read_file(itg_hub_listing *listing, const json_t *sibling, itg_diagnostic *diagnostic) {
  const char *path = json_string_value(json_object_get(sibling, "rfilename"));
  if (path && !is_wanted(path)) return ITG_OK;
  if (!is_safe_path(path)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, path, "the hub lists a file whose name is not taken");
  const json_t *lfs = json_object_get(sibling, "lfs"), *size = json_object_get(sibling, "size");
  const char *sha256 = json_string_value(json_object_get(lfs, "sha256"));
  const char *git = json_string_value(json_object_get(sibling, "blobId"));
  if (json_is_object(lfs) && json_object_get(lfs, "size")) size = json_object_get(lfs, "size");
  const bool large = json_is_object(lfs);
  if (!json_is_integer(size) || json_integer_value(size) < 0 || (large ? !is_hex(sha256, 64) : !is_hex(git, 40)))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, path, "the hub states no size or checksum of this file");
  if (json_integer_value(size) > (json_int_t)1 << 37)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, path, "a file of %lld bytes", (long long)json_integer_value(size));
  itg_hub_file *file = &listing->files[listing->count++];
  file->path = itg_arena_string(&listing->arena, path, strlen(path));
  file->size = json_integer_value(size);
  if (large)
    file->sha256 = itg_arena_string(&listing->arena, sha256, 64);
  else
    file->git = itg_arena_string(&listing->arena, git, 40);
  ITG_TRY_MEMORY(file->path && (file->sha256 || file->git), diagnostic);
  return ITG_OK;
}

// Small files first: a model's own file is the last to appear, when all that it needs is there.
static int compare_files(const void *a, const void *b) {
  const itg_hub_file *x = a, *y = b;
  if (x->size != y->size) return x->size < y->size ? -1 : 1;
  return strcmp(x->path, y->path);
}

static itg_status read_listing(itg_hub_listing *listing, const json_t *root, itg_diagnostic *diagnostic) {
  const char *commit = json_string_value(json_object_get(root, "sha"));
  const json_t *siblings = json_object_get(root, "siblings"), *sibling;
  size_t i;
  if (!is_hex(commit, 40) || !json_is_array(siblings))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "not the hub's description of a repository");
  if (json_array_size(siblings) > ITG_HUB_MAX_FILES)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "a repository of %zu files", json_array_size(siblings));
  listing->commit = itg_arena_string(&listing->arena, commit, 40);
  listing->files = itg_arena_array(&listing->arena, json_array_size(siblings) + 1, sizeof *listing->files);
  ITG_TRY_MEMORY(listing->commit && listing->files, diagnostic);
  json_array_foreach(siblings, i, sibling) ITG_TRY(read_file(listing, sibling, diagnostic));
  qsort(listing->files, listing->count, sizeof *listing->files, compare_files);
  return ITG_OK;
}

itg_status itg_hub_listing_read(itg_span json, itg_diagnostic *diagnostic, itg_hub_listing *out) {
  json_error_t error;
  json_t *root = itg_json_parse(json, 0, &error);
  if (!root) ITG_FAIL(diagnostic, itg_json_status(&error), NULL, "the hub's answer is not JSON: %s", error.text);
  itg_hub_listing listing = {0};
  const itg_status status = read_listing(&listing, root, diagnostic);
  json_decref(root);
  if (status != ITG_OK) {
    itg_hub_listing_free(&listing);
    return status;
  }
  *out = listing;
  return ITG_OK;
}

void itg_hub_listing_free(itg_hub_listing *listing) {
  itg_arena_free(&listing->arena);
  *listing = (itg_hub_listing){0};
}
