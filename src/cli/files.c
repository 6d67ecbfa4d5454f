// See files.h. Outputs are renamed into place, so an output under the name of an input would take the input's place for good.
#include "cli/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

itg_status cli_beside(const char *model, const char *name, itg_diagnostic *diagnostic, char *path, size_t size) {
  const char *slash = strrchr(model, '/');
  const int length = slash ? (int)(slash - model) : 1;
  if ((size_t)snprintf(path, size, "%.*s/%s", length, slash ? model : ".", name) >= size)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, model, "the path is too long");
  return ITG_OK;
}

typedef struct identity {
  dev_t device;
  ino_t inode;      // Of the file, or of its folder while there is no file.
  const char *name; // In that folder; NULL for the file itself.
} identity;

static bool identify(const char *path, identity *out) {
  struct stat info;
  *out = (identity){0};
  if (!*path) return false;
  if (stat(path, &info) != 0) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    const bool found = folder && stat(folder, &info) == 0;
    free(folder);
    if (!found) return false;
    out->name = slash ? slash + 1 : path;
  }
  out->device = info.st_dev;
  out->inode = info.st_ino;
  return true;
}

bool cli_same_file(const char *a, const char *b) {
  identity x, y;
  if (!identify(a, &x) || !identify(b, &y) || x.device != y.device || x.inode != y.inode) return false;
  return x.name && y.name ? strcmp(x.name, y.name) == 0 : !x.name && !y.name;
}

static bool is_any(const char *name, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(name, names[i]) == 0) return true;
  }
  return false;
}

static bool is_output(const cli_value *value) {
  static const char *const names[] = {"output", "report", "qdq", "epcontext", "qnn-context"};
  return value->text && is_any(value->option->name, names, sizeof names / sizeof names[0]);
}

static bool is_input(const cli_value *value) {
  static const char *const names[] = {"calibration", "judge", "data", "input", "float", "recipe", "preprocess"};
  return value->text && is_any(value->option->name, names, sizeof names / sizeof names[0]);
}

// A value may be FILE or NAME=FILE, and both parts may hold "=": every reading of it counts.
static bool may_be(const char *value, const char *path) {
  for (const char *reading = value; reading; reading = strchr(reading, '=')) {
    if (*reading == '=') reading++;
    if (cli_same_file(reading, path)) return true;
  }
  return false;
}

const char *cli_input_file(const cli_arguments *arguments, const char *path) {
  for (size_t i = 0; i < arguments->positional_count; i++) {
    if (cli_same_file(arguments->positional[i], path)) return arguments->positional[i];
  }
  for (size_t i = 0; i < arguments->value_count; i++) {
    const cli_value *value = &arguments->values[i];
    if (is_input(value) && may_be(value->text, path)) return value->text;
  }
  return NULL;
}

int cli_check_outputs(const cli_arguments *arguments) {
  for (size_t i = 0; i < arguments->value_count; i++) {
    const cli_value *output = &arguments->values[i];
    if (!is_output(output)) continue;
    for (const char *path = output->text; path; path = strchr(path, '=')) {
      if (*path == '=') path++;
      const char *input = cli_input_file(arguments, path);
      if (input)
        return cli_usage_error("--%s %s would overwrite what is read (%s); choose another name", output->option->name,
                               output->text, input);
      for (size_t k = 0; k < i; k++) {
        const cli_value *other = &arguments->values[k];
        const bool again =
            strcmp(other->option->name, output->option->name) == 0 && strcmp(other->text, output->text) == 0;
        if (is_output(other) && !again && may_be(other->text, path))
          return cli_usage_error("--%s %s and --%s %s are the same file; choose another name", other->option->name,
                                 other->text, output->option->name, output->text);
      }
    }
  }
  return CLI_OK;
}
