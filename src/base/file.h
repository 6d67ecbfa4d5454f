// Mapped input files, and output files that appear whole or not at all.
#ifndef ITG_BASE_FILE_H
#define ITG_BASE_FILE_H

#include <stddef.h>

#include "base/span.h"
#include "base/status.h"

// A read-only mapping of a regular file. Immutable after open; share freely. The descriptor is closed at once.
typedef struct itg_mapped_file {
  itg_span bytes; // data is NULL for an empty file.
} itg_mapped_file;

ITG_MUST_USE itg_status itg_mapped_file_open(const char *path, itg_diagnostic *diagnostic, itg_mapped_file *out);
void itg_mapped_file_close(itg_mapped_file *file);
// Gives back the memory of pages that were read; they are read again when they are needed.
void itg_mapped_file_release_pages(const itg_mapped_file *file);

// An output file under construction: written beside its final name as "<path>.tmp-<pid>-<n>", renamed by commit.
// Whatever happens before commit leaves the final name untouched. A symbolic link stays: the file that it leads to is
// written. One thread at a time.
typedef struct itg_output_file itg_output_file;

ITG_MUST_USE itg_status itg_output_file_create(const char *path, itg_diagnostic *diagnostic, itg_output_file **out);
ITG_MUST_USE itg_status itg_output_file_write(itg_output_file *file, const void *data, size_t size,
                                              itg_diagnostic *diagnostic);
// Makes what was written so far readable at the temporary path, which is returned (valid until commit or discard): for judging a
// result before it gets its name. NULL after filling the diagnostic (IO).
const char *itg_output_file_flush(itg_output_file *file, itg_diagnostic *diagnostic);
// Flushes, syncs, renames and frees. On failure the temporary file is removed and the object freed as well.
ITG_MUST_USE itg_status itg_output_file_commit(itg_output_file *file, itg_diagnostic *diagnostic);
// Removes the temporary file and frees. NULL is allowed.
void itg_output_file_discard(itg_output_file *file);
// Removes the temporary files of all open outputs. Async-signal-safe: for a SIGINT handler, before _exit.
void itg_output_file_discard_all_from_signal(void);

// Writes a whole file through the three calls above.
ITG_MUST_USE itg_status itg_write_file(const char *path, const void *data, size_t size, itg_diagnostic *diagnostic);

#endif
