// Answers of any bytes in place of the hub's: an error or a list of files that stay inside their folder.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hub/listing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  itg_hub_listing listing = {0};
  itg_diagnostic diagnostic;
  if (itg_hub_listing_read((itg_span){data, size}, &diagnostic, &listing) != ITG_OK) return 0;
  for (size_t i = 0; i < listing.count; i++) {
    const itg_hub_file *file = &listing.files[i];
    if (file->path[0] == '/' || strstr(file->path, "..") == file->path || strstr(file->path, "/..") || file->size < 0 ||
        !file->sha256 == !file->git)
      __builtin_trap();
  }
  itg_hub_listing_free(&listing);
  return 0;
}
