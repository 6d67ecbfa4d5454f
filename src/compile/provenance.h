// Where a compiled file came from: the provenance section of a .itg. No dates and no paths, so that equal inputs give
// equal bytes.
#ifndef ITG_COMPILE_PROVENANCE_H
#define ITG_COMPILE_PROVENANCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "npu/target.h"
#include "quantize/recipe.h"

typedef struct itg_provenance {
  const char *source_name; // File name without folders.
  uint64_t source_hash;    // XXH3 of its bytes.
  size_t source_bytes;
  const char *recipe_json; // May be NULL.
  const char *precision;
  const char *target; // Whose rules the program follows; NULL: our own kernels.
  size_t calibration_count;
  uint64_t calibration_hash;
} itg_provenance;

// malloc'ed compact JSON, or NULL without memory.
char *itg_provenance_json(const itg_provenance *provenance);
// The recipe and the target (NULL: none) of such a text. Errors: FORMAT (a file of another version), MEMORY.
ITG_MUST_USE itg_status itg_provenance_read(const char *text, size_t size, itg_diagnostic *diagnostic,
                                            itg_recipe *recipe, const itg_target **target);
// Size and hash of a file. Errors: IO.
ITG_MUST_USE itg_status itg_hash_file(const char *path, itg_diagnostic *diagnostic, size_t *size, uint64_t *hash);

#endif
