// Small JSON files beside a model.
#ifndef ITG_PIPELINES_JSON_FILE_H
#define ITG_PIPELINES_JSON_FILE_H

#include <jansson.h>

#include "base/status.h"

// Reads a JSON object from a file of at most 16 MiB. Release with json_decref.
// Errors: IO, FORMAT (not JSON, not an object), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_json_file_read(const char *path, itg_diagnostic *diagnostic, json_t **out);

#endif
