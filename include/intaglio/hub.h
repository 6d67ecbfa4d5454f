// Intaglio hub: fetches a model of Immich's collection from the Hugging Face hub into the folders that Immich's cache has
// (docs/FORMATS.md, "Model folders"). Links libintaglio-hub; nothing else of Intaglio touches the network.
#ifndef INTAGLIO_HUB_H
#define INTAGLIO_HUB_H

#include <stddef.h>

#include "intaglio/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct itg_hub_options {
  size_t struct_size;       // sizeof(itg_hub_options)
  const char *endpoint;     // NULL: $HF_ENDPOINT, else the public hub.
  const char *token;        // NULL: $HF_TOKEN, else none. Never printed, never sent to another host than the endpoint.
  const char *organization; // Owner of the repositories. NULL: "immich-app".
  const char *revision;     // NULL: "main".
  int offline;              // 1: no network at all; what is there must do. Also with $HF_HUB_OFFLINE set to 1.
  int retries;              // Further attempts after a failure that may pass, each going on where the last one stopped.
  itg_progress_function progress; // Bytes of the file named by the stage. May be NULL.
  void *progress_context;
} itg_hub_options;
ITG_API void itg_hub_options_default(itg_hub_options *options);

// Task of a model by its name as Immich spells it: "facial-recognition" (buffalo_l, ..), "ocr" (PP-OCRv5_mobile, ..), else
// "clip".
ITG_API const char *itg_hub_task(const char *name);
// The model's folder in a cache: "<cache>/<task>/<name>", of the name what is behind its last `/`, `:` and `\` as `_`, without dots.
// Errors: ARGUMENT (an impossible name), LIMIT (too long for `size` bytes).
ITG_API ITG_MUST_USE itg_status itg_hub_folder(const char *cache, const char *name, itg_diagnostic *diagnostic,
                                               char *folder, size_t size);
// Whether a pull of this model into this cache has once been finished and its files are still there in their sizes.
ITG_API int itg_hub_is_complete(const char *cache, const char *name);

// Fetches what is missing. Files of formats that are not read here (ARM NN, RKNN, OpenVINO, Core ML, MIGraphX) are left out.
// Each file appears whole, with its size and checksum (SHA-256, or git's for small ones) as the hub states them, or not at
// all; what was fetched before an interruption is kept and continued. Two processes that pull the same model wait for each
// other. `fetched` and `kept` (may be NULL) count files.
// Errors: ARGUMENT (name), IO (network, disk, offline and not complete; the message says which and what to try), FORMAT (an
// answer that is no answer of the hub, a checksum that differs), LIMIT, CANCELLED, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_hub_pull(const char *cache, const char *name, const itg_hub_options *options,
                                             itg_diagnostic *diagnostic, size_t *fetched, size_t *kept);

#ifdef __cplusplus
}
#endif
#endif
