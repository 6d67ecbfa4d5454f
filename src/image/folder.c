// Lists the image files below a folder, in an order that does not depend on the file system.
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/status.h"
#include "intaglio/pipelines.h"

enum { MAX_FILES = 1000000, MAX_DEPTH = 32 };

static bool has_image_extension(const char *name) {
  static const char *const extensions[] = {".jpg", ".jpeg", ".png", ".webp"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof extensions / sizeof extensions[0]; i++)
    if (strcasecmp(dot, extensions[i]) == 0) return true;
  return false;
}

static itg_status append(itg_image_list *list, size_t *capacity, char *path, itg_diagnostic *diagnostic) {
  if (list->count == MAX_FILES)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, path, "more than %d images in the folder", MAX_FILES);
  if (list->count == *capacity) {
    const size_t larger = *capacity ? *capacity * 2 : 64;
    char **paths = realloc(list->paths, larger * sizeof *paths);
    ITG_TRY_MEMORY(paths, diagnostic);
    list->paths = paths;
    *capacity = larger;
  }
  list->paths[list->count++] = path;
  return ITG_OK;
}

static itg_status walk(const char *folder, int depth, itg_image_list *list, size_t *capacity,
                       itg_diagnostic *diagnostic);

// Takes one entry; `path` is freed here unless it went into the list.
static itg_status visit(char *path, const char *name, int depth, itg_image_list *list, size_t *capacity,
                        itg_diagnostic *diagnostic) {
  struct stat info;
  itg_status status = ITG_OK;
  if (lstat(path, &info) == 0) {
    // Links to files are followed, links to folders are not: they may form a circle.
    if (S_ISDIR(info.st_mode)) {
      status = walk(path, depth + 1, list, capacity, diagnostic);
    } else if (has_image_extension(name) && stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
      status = append(list, capacity, path, diagnostic);
      if (status == ITG_OK) return ITG_OK;
    }
  }
  free(path);
  return status;
}

static itg_status walk(const char *folder, int depth, itg_image_list *list, size_t *capacity,
                       itg_diagnostic *diagnostic) {
  if (depth > MAX_DEPTH) ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, folder, "folders nested deeper than %d", MAX_DEPTH);
  DIR *directory = opendir(folder);
  if (!directory) ITG_FAIL(diagnostic, ITG_ERROR_IO, folder, "cannot open the folder: %s", strerror(errno));
  itg_status status = ITG_OK;
  const char *separator = folder[0] && folder[strlen(folder) - 1] == '/' ? "" : "/";
  for (const struct dirent *entry; status == ITG_OK && (entry = readdir(directory));) {
    if (entry->d_name[0] == '.') continue; // "." and "..", and hidden files such as "._photo.jpg".
    const size_t size = strlen(folder) + strlen(entry->d_name) + 2;
    char *path = malloc(size);
    if (!path) {
      status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
      break;
    }
    snprintf(path, size, "%s%s%s", folder, separator, entry->d_name);
    status = visit(path, entry->d_name, depth, list, capacity, diagnostic);
  }
  closedir(directory);
  return status;
}

static int compare_paths(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

itg_status itg_image_list_folder(const char *folder, itg_diagnostic *diagnostic, itg_image_list *out) {
  itg_image_list list = {0};
  size_t capacity = 0;
  const itg_status status = walk(folder, 0, &list, &capacity, diagnostic);
  if (status != ITG_OK) {
    itg_image_list_free(&list);
    return status;
  }
  if (list.count) qsort(list.paths, list.count, sizeof *list.paths, compare_paths);
  *out = list;
  return ITG_OK;
}

void itg_image_list_free(itg_image_list *list) {
  for (size_t i = 0; i < list->count; i++) free(list->paths[i]);
  free(list->paths);
  *list = (itg_image_list){0};
}
