// A prepared context as it lies in a .itg file (section CONTEXT): what it was made for and by, its ports, its bytes.
//
// The body of the section is an itg_qnn_stored_header, input and output ports, their names (each ended by a zero), zeros up to
// a multiple of 64, and the vendor's context binary. A context may hold a part of the graph only: its ports are then
// activations inside the graph, and the CPU computes the rest.
#ifndef ITG_NPU_QNN_STORED_H
#define ITG_NPU_QNN_STORED_H

#include <assert.h>
#include <stdlib.h>

#include "base/span.h"
#include "container/container.h"
#include "npu/qnn/context.h"

enum { ITG_QNN_STORED_VERSION = 2, ITG_QNN_MAX_PORTS = 4096 };

typedef struct itg_qnn_stored_header {
  uint32_t version; // ITG_QNN_STORED_VERSION
  uint32_t soc_model, arch, vtcm_megabytes;
  uint32_t core_major, core_minor; // API of the library that made it; older libraries refuse it.
  uint32_t optimization_level;
  uint32_t op_count; // QNN operations, all on the NPU.
  uint32_t input_count, output_count;
  uint64_t blob_size;
  uint64_t blob_hash;  // XXH3 of the binary with the seed ITG_QNN_STORED_VERSION.
  uint32_t names_size; // Bytes of all names with their zeros.
  uint32_t reserved;   // 0
  char target[32];     // NUL-padded, as is `build`.
  char build[128];
} itg_qnn_stored_header;
static_assert(sizeof(itg_qnn_stored_header) == 224, "file format");

typedef struct itg_qnn_stored_port {
  uint32_t id, data_type;
  uint64_t bytes;
} itg_qnn_stored_port;
static_assert(sizeof(itg_qnn_stored_port) == 16, "file format");

// A checked view; `blob` borrows from the section.
typedef struct itg_qnn_stored {
  itg_qnn_stored_header header;
  itg_qnn_port *inputs, *outputs; // malloc'ed, one block: free(inputs); names borrow from the section.
  itg_span blob;
} itg_qnn_stored;

// malloc'ed section body; every port has a name. Errors: MEMORY.
ITG_MUST_USE itg_status itg_qnn_stored_encode(const itg_target *target, itg_qnn_version core, const char *build,
                                              int optimization_level, size_t op_count, const itg_qnn_port *inputs,
                                              uint32_t input_count, const itg_qnn_port *outputs, uint32_t output_count,
                                              itg_span blob, itg_diagnostic *diagnostic, uint8_t **out, size_t *size);
// The section of the context for `target`, or of the only one where it is NULL. Errors: DEVICE, with the names that there are.
ITG_MUST_USE itg_status itg_qnn_stored_find(const itg_container *container, const char *target,
                                            itg_diagnostic *diagnostic, itg_span *out);
// Validates everything, also what the binary itself says about its target. Errors: FORMAT, VERSION, LIMIT, DEVICE, MEMORY.
ITG_MUST_USE itg_status itg_qnn_stored_parse(itg_span body, itg_diagnostic *diagnostic, itg_qnn_stored *out);
// Context binaries are backward, not forward compatible: VERSION when the library is older than the one that made it.
ITG_MUST_USE itg_status itg_qnn_stored_check_library(const itg_qnn_stored *stored, const itg_qnn_library *library,
                                                     itg_diagnostic *diagnostic);
static inline void itg_qnn_stored_free(itg_qnn_stored *stored) { free(stored->inputs); }

#endif
