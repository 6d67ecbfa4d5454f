// See stored.h.
#include "npu/qnn/stored.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "container/checksum.h"

enum { ALIGNMENT = 64 };

itg_status itg_qnn_stored_find(const itg_container *container, const char *target, itg_diagnostic *diagnostic,
                               itg_span *out) {
  char names[200] = "";
  size_t count = 0;
  itg_span only = {0};
  for (size_t i = 0; i < container->section_count; i++) {
    const itg_metadata_section *section = &container->sections[i];
    if (!section->is_context) continue;
    only = (itg_span){(const uint8_t *)section->text, section->size};
    if (target && strcmp(target, section->name) == 0) {
      *out = only;
      return ITG_OK;
    }
    const size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, "%s%s", count++ ? ", " : "", section->name);
  }
  if (count == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL, "the file holds no NPU context; compile the model with --target");
  if (target)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, target, "the file holds no NPU context for %s, only for: %s", target, names);
  if (count > 1) ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, target, "choose one of the file's NPU contexts: %s", names);
  *out = only;
  return ITG_OK;
}

static size_t blob_offset(size_t ports, size_t names) {
  return itg_align_up(sizeof(itg_qnn_stored_header) + ports * sizeof(itg_qnn_stored_port) + names, ALIGNMENT);
}

static uint64_t hash_of(itg_span blob) { return XXH3_64bits_withSeed(blob.data, blob.size, ITG_QNN_STORED_VERSION); }

itg_status itg_qnn_stored_encode(const itg_target *target, itg_qnn_version core, const char *build,
                                 int optimization_level, size_t op_count, const itg_qnn_port *inputs,
                                 uint32_t input_count, const itg_qnn_port *outputs, uint32_t output_count,
                                 itg_span blob, itg_diagnostic *diagnostic, uint8_t **out, size_t *size) {
  const size_t ports = (size_t)input_count + output_count;
  size_t names = 0;
  for (size_t i = 0; i < ports; i++)
    names += strlen(i < input_count ? inputs[i].name : outputs[i - input_count].name) + 1;
  const size_t start = blob_offset(ports, names);
  uint8_t *body = calloc(start + blob.size, 1);
  ITG_TRY_MEMORY(body, diagnostic);
  itg_qnn_stored_header header = {.version = ITG_QNN_STORED_VERSION,
                                  .soc_model = target->soc_model,
                                  .arch = target->arch,
                                  .vtcm_megabytes = target->vtcm_megabytes,
                                  .core_major = core.major,
                                  .core_minor = core.minor,
                                  .optimization_level = (uint32_t)optimization_level,
                                  .op_count = (uint32_t)op_count,
                                  .input_count = input_count,
                                  .output_count = output_count,
                                  .blob_size = blob.size,
                                  .blob_hash = hash_of(blob),
                                  .names_size = (uint32_t)names};
  strncpy(header.target, target->name, sizeof header.target - 1);
  strncpy(header.build, build, sizeof header.build - 1);
  memcpy(body, &header, sizeof header);
  char *name = (char *)body + sizeof header + ports * sizeof(itg_qnn_stored_port);
  for (size_t i = 0; i < ports; i++) {
    const itg_qnn_port *from = i < input_count ? &inputs[i] : &outputs[i - input_count];
    const itg_qnn_stored_port port = {from->id, from->data_type, from->bytes};
    memcpy(body + sizeof header + i * sizeof port, &port, sizeof port);
    name = stpcpy(name, from->name) + 1;
  }
  if (blob.size) memcpy(body + start, blob.data, blob.size);
  *out = body;
  *size = start + blob.size;
  return ITG_OK;
}

static itg_status check_header(const itg_qnn_stored_header *header, size_t size, itg_diagnostic *diagnostic) {
  if (header->version != ITG_QNN_STORED_VERSION)
    ITG_FAIL(diagnostic, ITG_ERROR_VERSION, NULL,
             "the NPU context has layout %u; this build reads %d: compile the model again", header->version,
             ITG_QNN_STORED_VERSION);
  if (header->input_count > ITG_QNN_MAX_PORTS || header->output_count > ITG_QNN_MAX_PORTS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "the NPU context has more than %d inputs or outputs",
             ITG_QNN_MAX_PORTS);
  const size_t start = blob_offset((size_t)header->input_count + header->output_count, header->names_size);
  if (start > size || size - start != header->blob_size || header->blob_size == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the NPU context lies about its size");
  if (!memchr(header->target, 0, sizeof header->target) || !memchr(header->build, 0, sizeof header->build))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the NPU context has a name without an end");
  return ITG_OK;
}

static itg_status read_ports(itg_span body, const itg_qnn_stored_header *header, itg_diagnostic *diagnostic,
                             itg_qnn_port *ports) {
  const size_t count = (size_t)header->input_count + header->output_count;
  const char *name = (const char *)body.data + sizeof *header + count * sizeof(itg_qnn_stored_port);
  const char *end = name + header->names_size;
  for (size_t i = 0; i < count; i++) {
    itg_qnn_stored_port port;
    memcpy(&port, body.data + sizeof *header + i * sizeof port, sizeof port);
    if (port.bytes == 0 || port.bytes > UINT32_MAX)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the NPU context has an input or output of %llu bytes",
               (unsigned long long)port.bytes);
    const char *stop = name < end ? memchr(name, 0, (size_t)(end - name)) : NULL;
    if (!stop || stop == name)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the NPU context has an input or output without a name");
    ports[i] = (itg_qnn_port){port.id, port.data_type, (size_t)port.bytes, name};
    name = stop + 1;
  }
  return ITG_OK;
}

itg_status itg_qnn_stored_parse(itg_span body, itg_diagnostic *diagnostic, itg_qnn_stored *out) {
  itg_qnn_stored stored = {0};
  if (body.size < sizeof stored.header) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the NPU context is truncated");
  memcpy(&stored.header, body.data, sizeof stored.header);
  const itg_qnn_stored_header *header = &stored.header;
  ITG_TRY(check_header(header, body.size, diagnostic));
  const itg_target *target = NULL;
  ITG_TRY(itg_target_find(header->target, diagnostic, &target));
  if (target->soc_model != header->soc_model || target->arch != header->arch ||
      target->vtcm_megabytes != header->vtcm_megabytes)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, header->target, "the NPU context contradicts the table of chips");
  const size_t ports = (size_t)header->input_count + header->output_count;
  const size_t start = blob_offset(ports, header->names_size);
  stored.blob = (itg_span){body.data + start, body.size - start};
  if (hash_of(stored.blob) != header->blob_hash)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, header->target, "the NPU context is damaged (its checksum differs)");
  ITG_TRY(itg_qnn_blob_check(stored.blob.data, stored.blob.size, target, diagnostic));
  stored.inputs = calloc(ports + 1, sizeof stored.inputs[0]);
  ITG_TRY_MEMORY(stored.inputs, diagnostic);
  stored.outputs = stored.inputs + header->input_count;
  const itg_status status = read_ports(body, header, diagnostic, stored.inputs);
  if (status != ITG_OK) {
    free(stored.inputs);
    return status;
  }
  *out = stored;
  return ITG_OK;
}

itg_status itg_qnn_stored_check_library(const itg_qnn_stored *stored, const itg_qnn_library *library,
                                        itg_diagnostic *diagnostic) {
  if (library->core.minor < stored->header.core_minor)
    ITG_FAIL(diagnostic, ITG_ERROR_VERSION, library->path,
             "the context was made with core API 2.%u (%s) and this library has 2.%u: compile with this library "
             "(--qnn-dir) or install a newer one",
             stored->header.core_minor, stored->header.build, library->core.minor);
  return ITG_OK;
}
