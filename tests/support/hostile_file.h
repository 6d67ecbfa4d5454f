// Damaged .itg files: checksums that fit again, and what to do with a file that is accepted.
#ifndef ITG_TESTS_SUPPORT_HOSTILE_FILE_H
#define ITG_TESTS_SUPPORT_HOSTILE_FILE_H

#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "container/checksum.h"
#include "container/format.h"
#include "intaglio/intaglio.h"
#include "tensor/dtype.h"

// Makes all checksums right, where the section table lies inside the file.
static inline void fix_checksums(uint8_t *data, size_t size) {
  itg_file_header header;
  if (size < sizeof header) return;
  memcpy(&header, data, sizeof header);
  const uint64_t table_size = (uint64_t)header.section_count * sizeof(itg_file_section);
  itg_span table, body;
  if (itg_span_cut((itg_span){data, size}, header.table_offset, table_size, &table)) {
    for (uint32_t i = 0; i < header.section_count; i++) {
      itg_file_section entry;
      uint8_t *at = data + header.table_offset + i * sizeof entry;
      memcpy(&entry, at, sizeof entry);
      if (!itg_span_cut((itg_span){data, size}, entry.offset, entry.size, &body)) continue;
      entry.checksum = XXH3_64bits(body.data, body.size);
      memcpy(at, &entry, sizeof entry);
    }
    header.table_checksum = XXH3_64bits(table.data, table.size);
  }
  header.header_checksum = XXH3_64bits(&header, offsetof(itg_file_header, header_checksum));
  memcpy(data, &header, sizeof header);
}

// Opens a copy of exactly its size and, when that is accepted and not too large, runs it with codes from `seed`.
static inline itg_status open_and_run(const uint8_t *data, size_t size, uint32_t seed) {
  uint8_t *copy = NULL;
  if (posix_memalign((void **)&copy, 64, size ? size : 1) != 0) abort();
  if (size) memcpy(copy, data, size);
  itg_model *model = NULL;
  itg_session *session = NULL;
  itg_diagnostic diagnostic;
  itg_session_options options;
  itg_session_options_default(&options);
  options.thread_count = 1;
  size_t workspace = 0;
  itg_status status = itg_model_open_memory(copy, size, &diagnostic, &model);
  if (status == ITG_OK) status = itg_session_workspace_size(model, &options, &diagnostic, &workspace);
  if (status == ITG_OK && workspace < 1 << 22) status = itg_session_create(model, &options, &diagnostic, &session);
  if (status == ITG_OK && session) {
    int64_t work = 0;
    itg_step_info step;
    for (size_t i = 0; itg_session_step(session, i, &step) == ITG_OK; i++) work += step.multiply_accumulates;
    for (size_t i = 0; i < itg_model_input_count(model); i++) {
      const itg_tensor_info *info = itg_model_input(model, i);
      const size_t bytes = info->count * itg_dtype_size(info->dtype);
      uint8_t *codes = malloc(bytes);
      for (size_t j = 0; codes && j < bytes; j++) codes[j] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
      if (!codes) abort();
      if (itg_session_set_input_codes(session, i, codes, bytes, &diagnostic) != ITG_OK) {
        if (diagnostic.status != ITG_ERROR_ARGUMENT) abort();
        memset(codes, 0, bytes); // Ids beyond their table are refused; 0 is always one.
        if (itg_session_set_input_codes(session, i, codes, bytes, &diagnostic) != ITG_OK) abort();
      }
      free(codes);
    }
    if (work < 20000000 && itg_session_run(session, &diagnostic) != ITG_OK) abort();
  }
  itg_session_destroy(session);
  itg_model_close(model);
  free(copy);
  return status;
}

#endif
