// What the hub says about a repository: GET <endpoint>/api/models/<repository>/revision/<revision>?blobs=true.
#ifndef ITG_HUB_LISTING_H
#define ITG_HUB_LISTING_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/span.h"
#include "base/status.h"

enum { ITG_HUB_MAX_FILES = 4096, ITG_HUB_MAX_PATH = 512 };

typedef struct itg_hub_file {
  const char *path;   // Relative, '/' between names; none is "..", hidden or empty.
  int64_t size;       // Bytes.
  const char *sha256; // Of large files, else NULL.
  const char *git;    // Git's checksum of small files, else NULL.
} itg_hub_file;

typedef struct itg_hub_listing {
  itg_arena arena;
  const char *commit; // Hexadecimal digits.
  itg_hub_file *files;
  size_t count;
} itg_hub_listing;

// Reads the hub's answer; files that are of no use here are left out. Free with itg_hub_listing_free.
// Errors: FORMAT (not such an answer; a path that would leave the folder), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_hub_listing_read(itg_span json, itg_diagnostic *diagnostic, itg_hub_listing *out);
void itg_hub_listing_free(itg_hub_listing *listing);

#endif
