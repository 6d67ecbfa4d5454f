// Hostile ONNX files: truncated, flipped, contradictory, cyclic, huge. Each must end in a clean error, quickly.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "import/import.h"
#include "support/onnx_bytes.h"

enum { FLOAT = 1, INT64 = 7, BOOL = 9 };
#define DIMS(...) \
  (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static itg_diagnostic why;

static itg_status try_bytes(const uint8_t *data, size_t size) {
  itg_graph *graph = NULL;
  const itg_status status = itg_import_onnx_memory((itg_span){data, size}, NULL, NULL, NULL, &why, &graph);
  itg_graph_destroy(graph);
  return status;
}

static itg_status try_model(onnx_bytes model) {
  const itg_status status = try_bytes(model.data, model.size);
  free(model.data);
  return status;
}

static onnx_bytes frame(void) {
  onnx_bytes graph = {0};
  onnx_message(&graph, 11, onnx_value("x", FLOAT, DIMS(1, 2, 4)));
  onnx_message(&graph, 12, onnx_value("y", FLOAT, -1, NULL));
  return graph;
}

// A file that has a little of everything.
static onnx_bytes rich_model(void) {
  const float weight[8] = {1, 2, 3};
  const int64_t starts = 1, ends = 3;
  onnx_bytes graph = frame(), transpose = onnx_node("Transpose", "t", "x", "a"), branch = {0}, packed = {0};
  onnx_attribute_ints(&transpose, "perm", DIMS(0, 2, 1));
  onnx_message(&graph, 1, transpose);
  onnx_message(&graph, 5, onnx_raw_tensor("w", FLOAT, DIMS(2, 4), weight, sizeof weight));
  onnx_bytes typed = onnx_tensor_head("typed", INT64, DIMS(1));
  onnx_varint(&packed, 2);
  onnx_message(&typed, 7, packed);
  onnx_message(&graph, 5, typed);
  onnx_message(&graph, 5, onnx_raw_tensor("starts", INT64, DIMS(1), &starts, 8));
  onnx_message(&graph, 5, onnx_raw_tensor("ends", INT64, DIMS(1), &ends, 8));
  onnx_message(&graph, 5, onnx_raw_tensor("yes", BOOL, 0, NULL, "\x01", 1));
  onnx_message(&graph, 1, onnx_node("MatMul", "m", "a,w", "b"));
  onnx_message(&graph, 1, onnx_node("Slice", "s", "b,starts,ends,typed", "c"));
  onnx_message(&branch, 1, onnx_node("Softmax", "soft", "c", "d"));
  onnx_message(&branch, 12, onnx_value("d", FLOAT, -1, NULL));
  onnx_bytes choice = onnx_node("If", "if", "yes", "y");
  onnx_attribute_graph(&choice, "then_branch", branch);
  onnx_message(&graph, 1, choice);
  return onnx_model(13, graph);
}

static void every_truncation_is_an_error(void **state) {
  (void)state;
  onnx_bytes model = rich_model();
  if (try_bytes(model.data, model.size) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  for (size_t size = 0; size < model.size; size++) {
    uint8_t *exact = malloc(size + 1); // A block of its own, so that the sanitizer sees any read behind it.
    if (size) memcpy(exact, model.data, size);
    assert_int_not_equal(try_bytes(exact, size), ITG_OK);
    free(exact);
  }
  free(model.data);
}

static void every_flipped_byte_is_survived(void **state) {
  (void)state;
  static const uint8_t masks[] = {0x01, 0x02, 0x08, 0x40, 0x80, 0xff};
  onnx_bytes model = rich_model();
  int refused = 0;
  for (size_t i = 0; i < model.size; i++) {
    for (size_t k = 0; k < sizeof masks; k++) {
      model.data[i] ^= masks[k];
      refused += try_bytes(model.data, model.size) != ITG_OK;
      model.data[i] ^= masks[k];
    }
  }
  assert_true(refused > 0);
  assert_int_equal(try_bytes(model.data, model.size), ITG_OK);
  free(model.data);
}

static void impossible_wire_values_are_errors(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t size;
  } files[] = {
      {"", 0},
      {"\x00", 1},                                          // Field 0.
      {"\x0b\x0c", 2},                                      // A group.
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11}, // More than 64 bits.
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
      {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}, // A graph of 2^64 - 1 bytes.
      {"\x38\x01", 2},                                      // A graph that is a number.
      {"not an ONNX file at all", 23},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    assert_int_equal(try_bytes((const uint8_t *)files[i].bytes, files[i].size), ITG_ERROR_FORMAT);
  assert_int_equal(try_model(onnx_model(99, frame())), ITG_ERROR_VERSION);
  assert_int_equal(try_model(onnx_model(1, frame())), ITG_ERROR_VERSION);
}

static onnx_bytes with_nodes(const char *const *nodes, size_t count) { // op, inputs, outputs each
  onnx_bytes graph = frame();
  for (size_t i = 0; i < count; i++)
    onnx_message(&graph, 1, onnx_node(nodes[3 * i], nodes[3 * i + 2], nodes[3 * i + 1], nodes[3 * i + 2]));
  return onnx_model(13, graph);
}

static void contradictory_graphs_are_errors(void **state) {
  (void)state;
  static const char *const cycle[] = {"Add", "x,b", "a", "Neg", "a", "b", "Neg", "b", "y"};
  assert_int_equal(try_model(with_nodes(cycle, 3)), ITG_ERROR_FORMAT);
  assert_non_null(strstr(why.message, "cycle"));
  static const char *const self[] = {"Add", "x,y", "y"};
  assert_int_equal(try_model(with_nodes(self, 1)), ITG_ERROR_FORMAT);
  static const char *const missing[] = {"Add", "x,nowhere", "y"};
  assert_int_equal(try_model(with_nodes(missing, 1)), ITG_ERROR_FORMAT);
  assert_non_null(strstr(why.message, "nowhere"));
  static const char *const twice[] = {"Neg", "x", "y", "Abs", "x", "y"};
  assert_int_equal(try_model(with_nodes(twice, 2)), ITG_ERROR_FORMAT);
  static const char *const taken[] = {"Neg", "x", "x", "Neg", "x", "y"};
  assert_int_equal(try_model(with_nodes(taken, 2)), ITG_ERROR_FORMAT);
  static const char *const none[] = {"Neg", "x", "z"};
  assert_int_equal(try_model(with_nodes(none, 1)), ITG_ERROR_FORMAT);
  static const char *const few[] = {"Neg", "", "y"};
  assert_int_equal(try_model(with_nodes(few, 1)), ITG_ERROR_FORMAT);
  static const char *const many[] = {"Split", "x", "y,y"};
  assert_int_equal(try_model(with_nodes(many, 1)), ITG_ERROR_FORMAT);

  onnx_bytes graph = frame(); // The same input twice.
  onnx_message(&graph, 11, onnx_value("x", FLOAT, DIMS(1, 2, 4)));
  onnx_message(&graph, 1, onnx_node("Neg", NULL, "x", "y"));
  assert_int_equal(try_model(onnx_model(13, graph)), ITG_ERROR_FORMAT);
  graph = frame(); // The same initializer twice.
  for (int i = 0; i < 2; i++) onnx_message(&graph, 5, onnx_raw_tensor("w", FLOAT, 0, NULL, "\0\0\0\0", 4));
  onnx_message(&graph, 1, onnx_node("Add", NULL, "x,w", "y"));
  assert_int_equal(try_model(onnx_model(13, graph)), ITG_ERROR_FORMAT);
}

static itg_status try_tensor(onnx_bytes tensor) {
  onnx_bytes graph = frame();
  onnx_message(&graph, 5, tensor);
  onnx_message(&graph, 1, onnx_node("Add", NULL, "x,w", "y"));
  return try_model(onnx_model(13, graph));
}

static void tensors_must_hold_what_they_claim(void **state) {
  (void)state;
  const int64_t huge = (int64_t)1 << 62;
  assert_int_equal(try_tensor(onnx_raw_tensor("w", FLOAT, DIMS(2), "1234", 4)), ITG_ERROR_FORMAT);
  assert_int_equal(try_tensor(onnx_raw_tensor("w", FLOAT, DIMS(-1), "1234", 4)), ITG_ERROR_FORMAT);
  assert_int_equal(try_tensor(onnx_raw_tensor("w", FLOAT, DIMS(huge, huge), "1234", 4)), ITG_ERROR_LIMIT);
  assert_int_equal(try_tensor(onnx_raw_tensor("w", FLOAT, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), "1234", 4)),
                   ITG_ERROR_UNSUPPORTED);
  assert_int_equal(try_tensor(onnx_tensor_head("w", FLOAT, DIMS(3))), ITG_ERROR_FORMAT);
  assert_int_equal(try_tensor(onnx_tensor_head("w", FLOAT, DIMS(1000000000))),
                   ITG_ERROR_FORMAT);                                                     // No 4 GB are asked for.
  assert_int_equal(try_tensor(onnx_tensor_head("w", 8, DIMS(1))), ITG_ERROR_UNSUPPORTED); // Strings.
  assert_int_equal(try_tensor(onnx_tensor_head("w", 77, DIMS(1))), ITG_ERROR_UNSUPPORTED);
  assert_int_equal(try_tensor(onnx_tensor_head(NULL, FLOAT, DIMS(0))), ITG_ERROR_FORMAT);
  onnx_bytes many = onnx_tensor_head("w", FLOAT, DIMS(1));
  onnx_blob(&many, 4, "12345678", 8);
  assert_int_equal(try_tensor(many), ITG_ERROR_FORMAT);
}

// Shapes whose products overflow, or ask for more than any machine has.
static void absurd_shapes_are_errors(void **state) {
  (void)state;
  static const int64_t targets[][2] = {
      {(int64_t)1 << 40, (int64_t)1 << 40}, {INT64_MAX, INT64_MAX}, {-5, 3}, {INT64_MAX, 1}};
  static const char *const ops[] = {"Expand", "ConstantOfShape", "Reshape", "Tile"};
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
      onnx_bytes graph = {0};
      onnx_message(&graph, 11, onnx_value("x", FLOAT, DIMS(2, 3)));
      onnx_message(&graph, 12, onnx_value("y", FLOAT, -1, NULL));
      onnx_message(&graph, 5, onnx_raw_tensor("t", INT64, DIMS(2), targets[i], 16));
      onnx_message(&graph, 1, onnx_node(ops[k], NULL, k == 1 ? "t" : "x,t", "y"));
      assert_int_not_equal(try_model(onnx_model(13, graph)), ITG_OK);
    }
  }
  onnx_bytes graph = {0};
  onnx_message(&graph, 11, onnx_value("x", FLOAT, DIMS((int64_t)1 << 40, 4)));
  onnx_message(&graph, 12, onnx_value("y", FLOAT, -1, NULL));
  onnx_message(&graph, 1, onnx_node("Neg", NULL, "x", "y"));
  assert_int_equal(try_model(onnx_model(13, graph)), ITG_ERROR_LIMIT);
}

// Each If is a few bytes; a thousand of them nested must not exhaust the stack.
static void deep_nesting_is_limited(void **state) {
  (void)state;
  onnx_bytes inner = {0};
  onnx_message(&inner, 1, onnx_node("Neg", NULL, "x", "n0"));
  onnx_message(&inner, 12, onnx_value("n0", FLOAT, -1, NULL));
  for (int i = 1; i < 1000; i++) {
    onnx_bytes outer = {0};
    char name[16];
    snprintf(name, sizeof name, "n%d", i);
    onnx_bytes choice = onnx_node("If", NULL, "yes", name);
    onnx_attribute_graph(&choice, "then_branch", inner);
    onnx_message(&outer, 1, choice);
    onnx_message(&outer, 12, onnx_value(name, FLOAT, -1, NULL));
    inner = outer;
  }
  onnx_message(&inner, 5, onnx_raw_tensor("yes", BOOL, 0, NULL, "\x01", 1));
  onnx_message(&inner, 11, onnx_value("x", FLOAT, DIMS(1)));
  assert_int_equal(try_model(onnx_model(13, inner)), ITG_ERROR_LIMIT);
}

// Ten functions of a hundred calls each stand for 100^10 nodes; a function may also call itself.
static void exploding_functions_are_limited(void **state) {
  (void)state;
  for (int recursive = 0; recursive < 2; recursive++) {
    onnx_bytes graph = frame(), model = {0}, opset = {0}, call = onnx_node("F0", NULL, "x", "y");
    onnx_int(&opset, 2, 17);
    onnx_message(&model, 8, opset);
    onnx_text(&call, 7, "custom");
    onnx_message(&graph, 1, call);
    for (int i = 0; i < 10; i++) {
      onnx_bytes function = {0};
      char name[8], called[8];
      snprintf(name, sizeof name, "F%d", i);
      snprintf(called, sizeof called, "F%d", recursive ? i : i + 1);
      onnx_text(&function, 1, name);
      onnx_text(&function, 4, "x");
      onnx_text(&function, 5, "r0");
      onnx_text(&function, 10, "custom");
      for (int k = 0; k < 100; k++) {
        char result[8];
        snprintf(result, sizeof result, "r%d", k);
        onnx_bytes node = onnx_node(i == 9 && !recursive ? "Neg" : called, NULL, "x", result);
        if (i < 9 || recursive) onnx_text(&node, 7, "custom");
        onnx_message(&function, 7, node);
      }
      onnx_message(&model, 25, function);
    }
    onnx_message(&model, 7, graph);
    assert_int_equal(try_model(model), ITG_ERROR_LIMIT);
  }
}

static double seconds_of(onnx_bytes model, itg_status expected) {
  const clock_t start = clock();
  const itg_status status = try_model(model);
  if (status != expected) fail_msg("%s: %s", why.subject, why.message);
  return (double)(clock() - start) / CLOCKS_PER_SEC;
}

// A chain, in order or reversed; or `fan`: every node reads x, and only the last is needed.
static onnx_bytes long_graph(int count, bool reversed, bool fan) {
  onnx_bytes graph = frame();
  for (int k = 0; k < count; k++) {
    const int i = reversed ? count - 1 - k : k;
    char in[24], out[24];
    snprintf(in, sizeof in, i == 0 || fan ? "x" : "n%d", i - 1);
    snprintf(out, sizeof out, i == count - 1 ? "y" : "n%d", i);
    onnx_message(&graph, 1, onnx_node("Neg", NULL, in, out));
  }
  return onnx_model(13, graph);
}

static void a_hundred_thousand_nodes_are_fast(void **state) {
  (void)state;
  enum { FEW = 10000, MANY = 100000 };
  for (int kind = 0; kind < 3; kind++) {
    const double few = seconds_of(long_graph(FEW, kind == 1, kind == 2), ITG_OK);
    const double many = seconds_of(long_graph(MANY, kind == 1, kind == 2), ITG_OK);
    assert_true(many < 40 * few + 0.5); // Linear; a quadratic step anywhere would be 100 times.
  }
}

// ---- external data ----

static char folder[256];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "%s/itg-import-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  static const char *const names[] = {"inside/link.bin",  "inside/up", "inside/data.bin",
                                      "inside/huge.onnx", "inside",    "outside.bin"};
  char path[512];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    remove(path);
  }
  return rmdir(folder);
}

static void write_file(const char *name, size_t size) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  for (size_t i = 0; i < size; i++) fputc((int)(i & 1), file);
  assert_int_equal(fclose(file), 0);
}

static void put_entry(onnx_bytes *tensor, const char *key, const char *value) {
  onnx_bytes entry = {0};
  onnx_text(&entry, 1, key);
  onnx_text(&entry, 2, value);
  onnx_message(tensor, 13, entry);
}

static itg_status try_external(const char *location, const char *offset, const char *length, bool with_folder) {
  onnx_bytes graph = frame(), tensor = onnx_tensor_head("w", FLOAT, DIMS(4));
  onnx_int(&tensor, 14, 1);
  put_entry(&tensor, "location", location);
  if (offset) put_entry(&tensor, "offset", offset);
  if (length) put_entry(&tensor, "length", length);
  onnx_message(&graph, 5, tensor);
  onnx_message(&graph, 1, onnx_node("Add", NULL, "x,w", "y"));
  onnx_bytes model = onnx_model(13, graph);
  char inside[300];
  snprintf(inside, sizeof inside, "%s/inside", folder);
  itg_graph *made = NULL;
  const itg_status status =
      itg_import_onnx_memory(onnx_span(model), with_folder ? inside : NULL, NULL, NULL, &why, &made);
  if (status == ITG_OK) assert_memory_equal(itg_graph_find(made, "w")->data, "\0\1\0\1\0\1\0\1\0\1\0\1\0\1\0\1", 16);
  itg_graph_destroy(made);
  free(model.data);
  return status;
}

static void external_data_stays_in_the_models_folder(void **state) {
  (void)state;
  char path[512], target[512];
  snprintf(path, sizeof path, "%s/inside", folder);
  assert_int_equal(mkdir(path, 0700), 0);
  write_file("inside/data.bin", 64);
  write_file("outside.bin", 64);
  snprintf(path, sizeof path, "%s/inside/link.bin", folder);
  assert_int_equal(symlink("../outside.bin", path), 0);
  snprintf(path, sizeof path, "%s/inside/up", folder);
  assert_int_equal(symlink("..", path), 0);
  snprintf(target, sizeof target, "%s/outside.bin", folder);

  assert_int_equal(try_external("data.bin", NULL, NULL, true), ITG_OK);
  assert_int_equal(try_external("data.bin", "48", "16", true), ITG_OK);
  assert_int_equal(try_external("./data.bin", "2", NULL, true), ITG_OK);
  assert_int_equal(try_external("data.bin", NULL, NULL, false), ITG_ERROR_UNSUPPORTED);
  assert_int_equal(try_external("data.bin", "49", "16", true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external("data.bin", "18446744073709551615", NULL, true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external("data.bin", "-1", NULL, true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external("data.bin", "99999999999999999999", NULL, true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external("data.bin", NULL, "15", true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external("absent.bin", NULL, NULL, true), ITG_ERROR_IO);
  assert_int_equal(try_external("../outside.bin", NULL, NULL, true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external("up/outside.bin", NULL, NULL, true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external("link.bin", NULL, NULL, true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external(target, NULL, NULL, true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external("", NULL, NULL, true), ITG_ERROR_FORMAT);
  assert_int_equal(try_external(".", NULL, NULL, true), ITG_ERROR_FORMAT);
}

// ---- size ----

static size_t resident_kib(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  unsigned long pages = 0, resident = 0;
  if (file && fscanf(file, "%lu %lu", &pages, &resident) != 2) resident = 0;
  if (file) fclose(file);
  return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

// A sparse file of more than 2 GiB: one weight of 2^29 + 1024 floats between a head and a tail of real bytes.
static void two_gigabytes_are_walked_without_being_read(void **state) {
  (void)state;
  const int64_t count = ((int64_t)1 << 29) + 1024;
  const size_t data_size = (size_t)count * 4;
  onnx_bytes tensor = onnx_tensor_head("w", FLOAT, DIMS(count)), rest = {0}, head = {0}, model = {0}, import = {0};
  onnx_varint(&tensor, 9 << 3 | 2); // The key and length of raw_data; the data itself is a hole.
  onnx_varint(&tensor, data_size);
  onnx_message(&rest, 11, onnx_value("x", FLOAT, DIMS(1)));
  onnx_message(&rest, 12, onnx_value("y", FLOAT, -1, NULL));
  onnx_message(&rest, 1, onnx_node("Mul", NULL, "x,w", "y"));
  onnx_varint(&head, 5 << 3 | 2);
  onnx_varint(&head, tensor.size + data_size);
  onnx_put(&head, tensor.data, tensor.size);
  onnx_int(&import, 2, 13);
  onnx_message(&model, 8, import);
  onnx_varint(&model, 7 << 3 | 2);
  onnx_varint(&model, head.size + data_size + rest.size);
  onnx_put(&model, head.data, head.size);

  char path[512];
  snprintf(path, sizeof path, "%s/inside/huge.onnx", folder);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  bool written = fwrite(model.data, 1, model.size, file) == model.size &&
                 fseek(file, (long)(model.size + data_size), SEEK_SET) == 0 &&
                 fwrite(rest.data, 1, rest.size, file) == rest.size;
  written &= fclose(file) == 0;
  free(tensor.data);
  free(rest.data);
  free(head.data);
  free(model.data);
  if (!written) skip(); // A file system without room for sparse files.
  const size_t before = resident_kib();
  itg_graph *graph = NULL;
  const itg_status status = itg_import_onnx(path, NULL, NULL, &why, &graph);
  const size_t after = resident_kib();
  if (status != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  assert_int_equal(graph->outputs[0]->shape.dims[0], count);
  assert_true(after < before + 100 * 1024);
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_truncation_is_an_error),
      cmocka_unit_test(every_flipped_byte_is_survived),
      cmocka_unit_test(impossible_wire_values_are_errors),
      cmocka_unit_test(contradictory_graphs_are_errors),
      cmocka_unit_test(tensors_must_hold_what_they_claim),
      cmocka_unit_test(absurd_shapes_are_errors),
      cmocka_unit_test(deep_nesting_is_limited),
      cmocka_unit_test(exploding_functions_are_limited),
      cmocka_unit_test(a_hundred_thousand_nodes_are_fast),
      cmocka_unit_test(external_data_stays_in_the_models_folder),
      cmocka_unit_test(two_gigabytes_are_walked_without_being_read),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
