// Weights from .safetensors files: one, or shards named by an index.
#ifndef ITG_IMPORT_HUGGINGFACE_SAFETENSORS_H
#define ITG_IMPORT_HUGGINGFACE_SAFETENSORS_H

#include "import/language/checkpoint.h"

// Limits; beyond them reading fails with ITG_ERROR_LIMIT.
#define ITG_SAFETENSORS_MAX_HEADER ((size_t)32 << 20)
enum { ITG_SAFETENSORS_MAX_TENSORS = 1 << 17, ITG_SAFETENSORS_MAX_SHARDS = 1024 };

// Adds the tensors of one file's bytes, which must outlive the checkpoint. `subject` names the file in messages. F32, F16 and
// BF16 can be used; tensors of other types are kept by name only. Errors: FORMAT (truncated, ranges that overlap, leave gaps or
// do not fit the shape), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_safetensors_add(itg_checkpoint *checkpoint, itg_span bytes, const char *subject,
                                            itg_diagnostic *diagnostic);
// Adds all weights of a folder: those that model.safetensors.index.json names, else model.safetensors. Errors: those above,
// IO (a shard that is missing is named).
ITG_MUST_USE itg_status itg_safetensors_add_folder(itg_checkpoint *checkpoint, const char *folder,
                                                   itg_diagnostic *diagnostic);

#endif
