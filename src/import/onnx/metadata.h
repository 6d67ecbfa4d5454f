// The free texts of an ONNX model.
#ifndef ITG_IMPORT_ONNX_METADATA_H
#define ITG_IMPORT_ONNX_METADATA_H

#include "base/arena.h"
#include "import/onnx/model.h"

// A JSON object of the entries (StringStringEntryProto), in `arena`; NULL when there are none. Left out: entries without a
// name, not of UTF-8, or longer than 1 MiB. Errors: FORMAT, MEMORY.
ITG_MUST_USE itg_status itg_onnx_metadata_json(const itg_onnx_spans *entries, const uint8_t *file, itg_arena *arena,
                                               itg_diagnostic *diagnostic, const char **out);

#endif
