// See json_file.h.
#include "pipelines/json_file.h"

#include "base/file.h"
#include "base/json.h"

static const size_t MAX_BYTES = (size_t)16 << 20;

itg_status itg_json_file_read(const char *path, itg_diagnostic *diagnostic, json_t **out) {
  itg_mapped_file file;
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  if (file.bytes.size > MAX_BYTES) {
    itg_mapped_file_close(&file);
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, path, "a JSON file of more than %zu bytes", MAX_BYTES);
  }
  json_error_t error;
  json_t *root = itg_json_parse(file.bytes, 0, &error);
  itg_mapped_file_close(&file);
  if (!root) ITG_FAIL(diagnostic, itg_json_status(&error), path, "not JSON: %s (line %d)", error.text, error.line);
  if (!json_is_object(root)) {
    json_decref(root);
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, path, "holds no JSON object");
  }
  *out = root;
  return ITG_OK;
}
