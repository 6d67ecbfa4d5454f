// The checksum of the file format: XXH3-64 with seed 0 (xxhash.com), inlined so that the runtime needs no further library.
#ifndef ITG_CONTAINER_CHECKSUM_H
#define ITG_CONTAINER_CHECKSUM_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#endif
