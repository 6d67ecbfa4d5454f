// SHA-1 and SHA-256 (FIPS 180-4) of bytes in memory: the checksums that the hub states. SHA-1 only detects accidents.
#ifndef ITG_HUB_DIGEST_H
#define ITG_HUB_DIGEST_H

#include "base/span.h"

enum { ITG_HEX_SHA1 = 41, ITG_HEX_SHA256 = 65 }; // With the final NUL.

void itg_sha256_hex(itg_span bytes, char out[ITG_HEX_SHA256]);
// What git calls a blob: SHA-1 of "blob <size>", a NUL and the bytes.
void itg_git_blob_hex(itg_span bytes, char out[ITG_HEX_SHA1]);

#endif
