// The .itg container: what is written comes back, bytes are deterministic, and no damage goes unnoticed or crashes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "container/container.h"
#include "container/format.h"
#include "intaglio/intaglio.h"
#include "support/hostile_file.h"
#include "support/integer_graph.h"
#include "support/rich_graph.h"

typedef struct file_bytes {
  uint8_t *data;
  size_t size;
} file_bytes;

static const itg_metadata_section metadata[] = {
    {"provenance", "{\"tool\": 1}", 11, false}, {"accuracy", "[]", 2, false}, {"a chip", "\x01\x00\xff", 3, true}};

static file_bytes encode(const itg_graph *graph) {
  file_bytes bytes = {0};
  itg_diagnostic diagnostic = {0};
  const itg_status status = itg_container_encode(graph, metadata, 3, &diagnostic, &bytes.data, &bytes.size);
  if (status != ITG_OK) print_error("%s: %s\n", diagnostic.subject, diagnostic.message);
  assert_int_equal(status, ITG_OK);
  return bytes;
}

static file_bytes small_file(void) {
  itg_graph *graph = builder_small_graph();
  const file_bytes bytes = encode(graph);
  itg_graph_destroy(graph);
  return bytes;
}

// Reads a copy in a block of exactly its size, so that the sanitizer sees any access outside.
static itg_status read_copy(const uint8_t *data, size_t size, itg_diagnostic *diagnostic) {
  uint8_t *copy = NULL;
  assert_int_equal(posix_memalign((void **)&copy, 64, size ? size : 1), 0);
  memcpy(copy, data, size);
  itg_container container = {0};
  const itg_status status = itg_container_read((itg_span){copy, size}, diagnostic, &container);
  if (status == ITG_OK) itg_container_free(&container);
  free(copy);
  return status;
}

static void a_graph_comes_back(void **state) {
  (void)state;
  itg_graph *graph = builder_small_graph();
  const file_bytes bytes = encode(graph);
  itg_container container = {0};
  itg_diagnostic diagnostic;
  assert_int_equal(itg_container_read((itg_span){bytes.data, bytes.size}, &diagnostic, &container), ITG_OK);
  assert_string_equal(container.graph->name, "small");
  assert_int_equal(container.graph->node_count, graph->node_count);
  const itg_node *read = container.graph->first;
  for (const itg_node *node = graph->first; node; node = node->next, read = read->next) {
    assert_string_equal(read->name, node->name);
    assert_int_equal(read->op, node->op);
    assert_memory_equal(&read->attributes, &node->attributes, itg_op_get_info(node->op)->attribute_size);
    for (int32_t i = 0; i < node->input_count; i++) {
      size_t size;
      assert_string_equal(read->inputs[i]->name, node->inputs[i]->name);
      assert_true(itg_shape_equal(&read->inputs[i]->shape, &node->inputs[i]->shape));
      assert_true(itg_encoding_equal(read->inputs[i]->encoding, node->inputs[i]->encoding));
      assert_true(itg_shape_bytes(&node->inputs[i]->shape, node->inputs[i]->dtype, &size));
      if (node->inputs[i]->data) {
        assert_memory_equal(read->inputs[i]->data, node->inputs[i]->data, size);
        assert_int_equal((uintptr_t)read->inputs[i]->data % 64, 0);
        assert_in_range((uintptr_t)read->inputs[i]->data, (uintptr_t)bytes.data, (uintptr_t)bytes.data + bytes.size);
      }
    }
  }
  assert_int_equal(container.graph->output_count, 2);
  assert_string_equal(container.graph->outputs[1]->name, "sum");
  assert_int_equal(container.section_count, 3);
  assert_string_equal(container.sections[1].name, "accuracy");
  assert_int_equal(container.sections[0].size, 11);
  assert_memory_equal(container.sections[0].text, "{\"tool\": 1}", 11);
  assert_true(container.sections[2].is_context && container.sections[2].size == 3);
  itg_container_free(&container);
  itg_graph_destroy(graph);
  free(bytes.data);
}

static void equal_graphs_give_equal_bytes(void **state) {
  (void)state;
  const file_bytes first = small_file(), second = small_file();
  assert_int_equal(first.size, second.size);
  assert_memory_equal(first.data, second.data, first.size);
  char path[] = "/tmp/itg-container-XXXXXX";
  const int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  close(descriptor);
  itg_graph *graph = builder_small_graph();
  assert_int_equal(itg_container_write(path, graph, metadata, 3, NULL), ITG_OK);
  itg_mapped_file file;
  assert_int_equal(itg_mapped_file_open(path, NULL, &file), ITG_OK);
  assert_int_equal(file.bytes.size, first.size);
  assert_memory_equal(file.bytes.data, first.data, first.size);
  itg_mapped_file_close(&file);
  unlink(path);
  itg_graph_destroy(graph);
  free(first.data);
  free(second.data);
}

static void equal_constants_are_stored_once(void **state) {
  (void)state;
  itg_graph *graph = builder_small_graph();
  const file_bytes before = encode(graph);
  // Two tables of the same content: as large a file as with one, but for the records.
  builder b = {.graph = graph, .seed = 1};
  itg_tensor *again = builder_activation(&b, "again", ITG_DTYPE_U8, 0.04, 11, SHAPE(1, 6, 6, 4));
  builder_table(&b, "again", itg_graph_find(graph, "sum"), again);
  assert_true(itg_graph_add_output(graph, again));
  const file_bytes after = encode(graph);
  assert_true(after.size - before.size < 512); // Two tensors, a node and attributes; the table alone has 256 bytes.
  free(before.data);
  free(after.data);
  itg_graph_destroy(graph);
}

static void names_are_escaped(void **state) {
  (void)state;
  itg_graph *graph = builder_small_graph();
  graph->first->name = "tab\tand\xff, caf\xc3\xa9";
  const file_bytes bytes = encode(graph);
  itg_container container = {0};
  assert_int_equal(itg_container_read((itg_span){bytes.data, bytes.size}, NULL, &container), ITG_OK);
  assert_string_equal(container.graph->first->name, "tab\\x09and\\xff, caf\xc3\xa9");
  itg_container_free(&container);
  itg_graph_destroy(graph);
  free(bytes.data);
}

static void every_truncation_is_refused(void **state) {
  (void)state;
  const file_bytes bytes = small_file();
  for (size_t size = 0; size < bytes.size; size++) {
    itg_diagnostic diagnostic = {0};
    assert_int_equal(read_copy(bytes.data, size, &diagnostic), ITG_ERROR_FORMAT);
    assert_true(diagnostic.message[0] != 0);
  }
  uint8_t *longer = calloc(1, bytes.size + 64);
  memcpy(longer, bytes.data, bytes.size);
  assert_int_equal(read_copy(longer, bytes.size + 64, NULL), ITG_ERROR_FORMAT);
  free(longer);
  free(bytes.data);
}

static void every_flipped_byte_is_noticed(void **state) {
  (void)state;
  const file_bytes bytes = small_file();
  for (size_t i = 0; i < bytes.size; i++) {
    for (int bit = 0; bit < 8; bit += 7) {
      bytes.data[i] ^= (uint8_t)(1 << bit);
      const itg_status status = read_copy(bytes.data, bytes.size, NULL);
      assert_int_equal(status, i >= 8 && i < 10 ? ITG_ERROR_VERSION : ITG_ERROR_FORMAT);
      bytes.data[i] ^= (uint8_t)(1 << bit);
    }
  }
  assert_int_equal(read_copy(bytes.data, bytes.size, NULL), ITG_OK);
  free(bytes.data);
}

// Checksums fit, so that the checks behind them are met; what is accepted must also run.
static void hostile_bytes_never_crash(void **state) {
  (void)state;
  static const uint8_t changes[] = {0x01, 0x80, 0xff};
  for (int which = 0; which < 2; which++) {
    itg_graph *graph = which ? builder_rich_graph() : builder_small_graph();
    const file_bytes bytes = encode(graph);
    itg_graph_destroy(graph);
    uint8_t *damaged = malloc(bytes.size);
    size_t refused = 0, accepted = 0;
    // Every byte of the small file; of the rich one a third, in the same time.
    for (size_t i = 0; i < bytes.size; i += which ? 3 : 1) {
      for (size_t change = 0; change < sizeof changes; change++) {
        memcpy(damaged, bytes.data, bytes.size);
        damaged[i] ^= changes[change];
        fix_checksums(damaged, bytes.size);
        const itg_status status = open_and_run(damaged, bytes.size, (uint32_t)i);
        assert_int_not_equal(status, ITG_ERROR_INTERNAL);
        assert_int_not_equal(status, ITG_ERROR_ARGUMENT);
        if (status == ITG_OK)
          accepted++;
        else
          refused++;
      }
    }
    assert_true(refused > bytes.size / 4);
    assert_true(accepted > 0); // Weights, names and texts may have any value.
    free(damaged);
    free(bytes.data);
  }
}

static void other_versions_are_refused(void **state) {
  (void)state;
  const file_bytes bytes = small_file();
  itg_diagnostic diagnostic = {0};
  for (int major = 0; major <= 2; major += 2) {
    bytes.data[8] = (uint8_t)major;
    fix_checksums(bytes.data, bytes.size);
    assert_int_equal(read_copy(bytes.data, bytes.size, &diagnostic), ITG_ERROR_VERSION);
    assert_non_null(strstr(diagnostic.message, "version"));
  }
  bytes.data[8] = 1;
  bytes.data[10] = 9; // A newer minor version with nothing that this build must know.
  fix_checksums(bytes.data, bytes.size);
  assert_int_equal(read_copy(bytes.data, bytes.size, &diagnostic), ITG_OK);
  free(bytes.data);
}

static itg_file_section *section_of(const file_bytes *bytes, uint32_t type) {
  itg_file_section *table = (itg_file_section *)(bytes->data + sizeof(itg_file_header));
  while (table->type != type) table++;
  return table;
}

static void unknown_sections_are_skipped_only_when_optional(void **state) {
  (void)state;
  const file_bytes bytes = small_file();
  itg_file_section *last = section_of(&bytes, ITG_SECTION_METADATA) + 1;
  last->type = 77 | ITG_SECTION_OPTIONAL;
  last->ordinal = 0;
  fix_checksums(bytes.data, bytes.size);
  assert_int_equal(read_copy(bytes.data, bytes.size, NULL), ITG_OK);
  last->type = 77;
  fix_checksums(bytes.data, bytes.size);
  assert_int_equal(read_copy(bytes.data, bytes.size, NULL), ITG_ERROR_UNSUPPORTED);
  free(bytes.data);
}

static void an_unknown_operation_is_unsupported(void **state) {
  (void)state;
  const file_bytes bytes = small_file();
  itg_file_node *nodes = (itg_file_node *)(bytes.data + section_of(&bytes, ITG_SECTION_NODES)->offset);
  itg_diagnostic diagnostic = {0};
  nodes[2].op = 9999;
  fix_checksums(bytes.data, bytes.size);
  assert_int_equal(read_copy(bytes.data, bytes.size, &diagnostic), ITG_ERROR_UNSUPPORTED);
  assert_string_equal(diagnostic.subject, "add");
  nodes[2].op = ITG_OP_ADD; // Known, but float.
  nodes[2].attribute_size = 0;
  fix_checksums(bytes.data, bytes.size);
  assert_int_equal(read_copy(bytes.data, bytes.size, &diagnostic), ITG_ERROR_UNSUPPORTED);
  free(bytes.data);
}

static void parts_share_their_constants(void **state) {
  (void)state;
  itg_graph *first = builder_small_graph(), *second = builder_small_graph();
  const itg_container_part parts[] = {{"decoder", first}, {"vision", second}}, twins[] = {{"a", first}, {"a", second}};
  file_bytes both = {0};
  itg_diagnostic diagnostic = {0};
  assert_int_equal(itg_container_encode_parts(parts, 2, metadata, 3, &diagnostic, &both.data, &both.size), ITG_OK);
  itg_container container = {0};
  assert_int_equal(itg_container_read((itg_span){both.data, both.size}, &diagnostic, &container), ITG_OK);
  assert_int_equal(container.part_count, 2);
  assert_string_equal(container.parts[0].role, "decoder");
  assert_string_equal(container.parts[1].role, "vision");
  assert_ptr_equal(container.parts[0].graph, container.graph);
  assert_int_equal(container.section_count, 3);
  const itg_node *a = container.parts[0].graph->first, *b = container.parts[1].graph->first;
  for (; a && b; a = a->next, b = b->next) {
    assert_string_equal(a->name, b->name);
    for (int32_t i = 0; i < a->input_count; i++)
      assert_ptr_equal(a->inputs[i] ? a->inputs[i]->data : NULL, b->inputs[i] ? b->inputs[i]->data : NULL);
  }
  assert_true(!a && !b);
  itg_container_free(&container);
  for (size_t size = 0; size < both.size; size += 97) // As with one graph, no prefix is a file.
    assert_int_not_equal(read_copy(both.data, size, &diagnostic), ITG_OK);
  itg_model *model = NULL;
  assert_int_equal(itg_model_open_memory(both.data, both.size, &diagnostic, &model), ITG_OK);
  assert_ptr_equal(itg_model_part(model, "decoder"), model);
  const itg_model *vision = itg_model_part(model, "vision");
  assert_non_null(vision);
  assert_null(itg_model_part(model, "embedding"));
  itg_session *session = NULL;
  assert_int_equal(itg_session_create(vision, NULL, &diagnostic, &session), ITG_OK);
  assert_ptr_equal(itg_model_metadata(vision, "provenance", NULL), itg_model_metadata(model, "provenance", NULL));
  itg_session_destroy(session);
  itg_model_close(model);
  uint8_t *bytes = NULL;
  size_t size;
  assert_int_equal(itg_container_encode_parts(twins, 2, NULL, 0, &diagnostic, &bytes, &size), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_container_encode_parts(parts, 0, NULL, 0, &diagnostic, &bytes, &size), ITG_ERROR_LIMIT);
  free(both.data);
  itg_graph_destroy(first);
  itg_graph_destroy(second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_graph_comes_back),
      cmocka_unit_test(equal_graphs_give_equal_bytes),
      cmocka_unit_test(equal_constants_are_stored_once),
      cmocka_unit_test(parts_share_their_constants),
      cmocka_unit_test(names_are_escaped),
      cmocka_unit_test(every_truncation_is_refused),
      cmocka_unit_test(every_flipped_byte_is_noticed),
      cmocka_unit_test(hostile_bytes_never_crash),
      cmocka_unit_test(other_versions_are_refused),
      cmocka_unit_test(unknown_sections_are_skipped_only_when_optional),
      cmocka_unit_test(an_unknown_operation_is_unsupported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
