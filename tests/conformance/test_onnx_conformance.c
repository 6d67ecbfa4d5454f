// A peer's conformance suite: the ONNX project's own test models with their inputs and outputs, as Debian packages them
// (libonnx-testdata). Every model is imported, run by the float interpreter and compared; what is not supported must be
// refused with a reason, never answered wrongly. ITG_ONNX_TESTDATA names the folder when it is elsewhere.
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "import/import.h"
#include "import/onnx/model.h"
#include "interpret/interpret.h"

enum { MAX_VALUES = 64, MAX_REASONS = 512, PATH_SIZE = 2048 };

typedef struct value {
  char name[256];
  itg_onnx_value_info declared;
  itg_dtype dtype;
  itg_shape shape;
  void *data;
} value;

typedef enum verdict { PASSED, REFUSED, FAILED } verdict;
typedef struct tally {
  int count[3];
  int common[3]; // Only models whose inputs and outputs are all of common types.
} tally;

typedef struct reason {
  char text[200];
  int count;
} reason;
static reason reasons[MAX_REASONS];
static int reason_count;

// Groups refusals: quoted names and numbers are left out.
static void note_reason(const char *message) {
  char text[200];
  size_t used = 0;
  bool quoted = false;
  for (const char *c = message; *c && used + 1 < sizeof text; c++) {
    if (*c == '\'') quoted = !quoted;
    if (quoted || *c == '\'') continue;
    text[used++] = *c;
  }
  text[used] = 0;
  for (int i = 0; i < reason_count; i++) {
    if (strcmp(reasons[i].text, text) == 0) {
      reasons[i].count++;
      return;
    }
  }
  if (reason_count == MAX_REASONS) return;
  snprintf(reasons[reason_count].text, sizeof reasons[0].text, "%s", text);
  reasons[reason_count++].count = 1;
}

static bool is_common(uint64_t data_type) {
  return data_type == 1 || data_type == 2 || data_type == 3 || data_type == 6 || data_type == 7 || data_type == 9;
}

static bool read_value(const char *path, value *out) {
  itg_mapped_file file;
  itg_onnx_tensor tensor = {0};
  itg_diagnostic why;
  if (itg_mapped_file_open(path, &why, &file) != ITG_OK) return false;
  bool read = itg_onnx_tensor_parse(file.bytes, file.bytes.data, &why, &tensor) == ITG_OK;
  out->data = NULL;
  if (read) {
    out->dtype = tensor.dtype;
    out->shape = tensor.shape;
    out->data = calloc(1, tensor.bytes + 1);
    read = out->data && itg_onnx_tensor_read(&tensor, &why, out->data) == ITG_OK;
    if (!read) free(out->data);
  }
  itg_mapped_file_close(&file);
  return read;
}

// Names of the graph's inputs (those that are no initializers) or outputs, in order; false when one is no tensor.
static bool describe(const itg_onnx_graph *graph, const itg_onnx_spans *list, value *values, int *count, bool *common) {
  *count = 0;
  for (size_t i = 0; i < list->count; i++) {
    itg_onnx_value_info info;
    itg_diagnostic why;
    if (itg_onnx_value_info_parse(list->items[i], NULL, &why, &info) != ITG_OK || !info.is_tensor) return false;
    bool initialized = false;
    for (size_t k = 0; k < graph->initializers.count; k++) {
      itg_onnx_tensor tensor = {0};
      if (itg_onnx_tensor_parse(graph->initializers.items[k], NULL, &why, &tensor) != ITG_OK) continue;
      initialized |=
          tensor.name.size == info.name.size && memcmp(tensor.name.data, info.name.data, info.name.size) == 0;
    }
    if (initialized) continue;
    if (*count == MAX_VALUES) return false;
    snprintf(values[*count].name, sizeof values[0].name, "%.*s", (int)info.name.size, (const char *)info.name.data);
    values[*count].declared = info;
    *common &= is_common(info.data_type);
    ++*count;
  }
  return true;
}

static double half_to_double(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                           : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                          : ldexp(fraction, -24);
  return bits >> 15 ? -magnitude : magnitude;
}

static double element(const void *data, itg_dtype dtype, size_t i) {
  switch (dtype) {
  case ITG_DTYPE_F32: return (double)((const float *)data)[i];
  case ITG_DTYPE_F64: return ((const double *)data)[i];
  case ITG_DTYPE_F16: return half_to_double(((const uint16_t *)data)[i]);
  case ITG_DTYPE_BF16: {
    const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float single;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
  }
  default: return 0;
  }
}

static bool values_match(const void *got, const void *expected, itg_dtype dtype, size_t count, char *message) {
  if (!itg_dtype_is_float(dtype)) {
    if (memcmp(got, expected, count * itg_dtype_size(dtype)) == 0) return true;
    snprintf(message, 200, "integers differ");
    return false;
  }
  const double relative = dtype == ITG_DTYPE_BF16 ? 1e-2 : 1e-3;
  for (size_t i = 0; i < count; i++) {
    const double a = element(got, dtype, i), b = element(expected, dtype, i);
    if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-5 + relative * fabs(b)) continue;
    snprintf(message, 200, "element %zu is %.9g, not %.9g", i, a, b);
    return false;
  }
  return true;
}

static bool outputs_match(const itg_graph *graph, void *const *got, const value *expected, int count, char *message) {
  if (graph->output_count != count) {
    snprintf(message, 200, "%d outputs, not %d", (int)graph->output_count, count);
    return false;
  }
  for (int i = 0; i < count; i++) {
    const itg_tensor *tensor = graph->outputs[i];
    size_t elements;
    if (tensor->dtype != expected[i].dtype || !itg_shape_equal(&tensor->shape, &expected[i].shape) ||
        !itg_shape_count(&tensor->shape, &elements)) {
      char is[96], should[96];
      snprintf(message, 200, "output %d is %s %s, not %s %s", i, itg_dtype_name(tensor->dtype),
               itg_shape_print(&tensor->shape, is, sizeof is), itg_dtype_name(expected[i].dtype),
               itg_shape_print(&expected[i].shape, should, sizeof should));
      return false;
    }
    if (!values_match(got[i], expected[i].data, tensor->dtype, elements, message)) return false;
  }
  return true;
}

static verdict run(const itg_graph *graph, const value *inputs, int input_count, const value *expected,
                   int expected_count, char *message) {
  itg_diagnostic why = {0};
  itg_interpreter *interpreter = NULL;
  itg_interpreter_state *state = NULL;
  const void *data[MAX_VALUES] = {0};
  void *results[MAX_VALUES] = {0};
  for (int i = 0; i < graph->input_count; i++) {
    for (int k = 0; k < input_count; k++) {
      if (strcmp(graph->inputs[i]->name, inputs[k].name) == 0) data[i] = inputs[k].data;
    }
  }
  for (int i = 0; i < graph->output_count; i++) {
    size_t bytes;
    assert_true(itg_shape_bytes(&graph->outputs[i]->shape, graph->outputs[i]->dtype, &bytes));
    results[i] = calloc(1, bytes + 1);
    assert_non_null(results[i]);
  }
  itg_status status = itg_interpreter_create(graph, &why, &interpreter);
  if (status == ITG_OK) status = itg_interpreter_state_create(interpreter, &why, &state);
  if (status == ITG_OK) status = itg_interpreter_run(state, data, results, NULL, NULL, &why);
  verdict result = PASSED;
  if (status != ITG_OK) {
    snprintf(message, 200, "%.190s", why.message);
    result = status == ITG_ERROR_UNSUPPORTED ? REFUSED : FAILED;
  } else if (!outputs_match(graph, results, expected, expected_count, message)) {
    result = FAILED;
  }
  for (int i = 0; i < graph->output_count; i++) free(results[i]);
  itg_interpreter_state_destroy(state);
  itg_interpreter_destroy(interpreter);
  return result;
}

// Inputs that the importer must know are bound to their values: first none, then all but the floats, then all but the
// first (scales of Resize).
static itg_status import_model(const char *path, const value *inputs, int count, itg_diagnostic *why, itg_graph **out) {
  itg_import_shape shapes[MAX_VALUES];
  itg_import_constant constants[MAX_VALUES];
  itg_status status = ITG_OK;
  for (int attempt = 0; attempt < 3; attempt++) {
    itg_import_options options = {.shapes = shapes, .constants = constants};
    for (int i = 0; i < count; i++) {
      const bool bound = attempt == 1 ? !itg_dtype_is_float(inputs[i].dtype) : attempt == 2 && i > 0;
      if (bound)
        constants[options.constant_count++] =
            (itg_import_constant){inputs[i].name, inputs[i].dtype, inputs[i].shape, inputs[i].data};
      else
        shapes[options.shape_count++] = (itg_import_shape){inputs[i].name, inputs[i].shape};
    }
    status = itg_import_onnx(path, &options, NULL, why, out);
    if (status == ITG_OK || status != ITG_ERROR_UNSUPPORTED) return status;
  }
  return status;
}

// The suite stores bfloat16 as uint16, and in a few tests data of another shape than the model declares.
static bool fits_declaration(value *v) {
  const itg_onnx_value_info *declared = &v->declared;
  if (itg_onnx_dtype(declared->data_type) == ITG_DTYPE_BF16 && v->dtype == ITG_DTYPE_U16) v->dtype = ITG_DTYPE_BF16;
  if (!declared->has_shape) return true;
  bool fits = declared->rank == v->shape.rank;
  for (int i = 0; fits && i < declared->rank; i++)
    fits = declared->dims[i] < 0 || declared->dims[i] == v->shape.dims[i];
  return fits;
}

static int read_set(const char *folder, int set, const char *kind, value *values, int count) {
  int read = 0;
  for (; read < count; read++) {
    char path[2 * PATH_SIZE];
    snprintf(path, sizeof path, "%s/test_data_set_%d/%s_%d.pb", folder, set, kind, read);
    if (!read_value(path, &values[read])) break;
  }
  return read;
}

static void free_values(value *values, int count) {
  for (int i = 0; i < count; i++) free(values[i].data);
}

static verdict test_set(const char *folder, const char *model, int set, value *inputs, int input_count, value *outputs,
                        int output_count, char *message) {
  const int inputs_read = read_set(folder, set, "input", inputs, input_count);
  const int outputs_read = read_set(folder, set, "output", outputs, output_count);
  verdict result = REFUSED;
  itg_graph *graph = NULL;
  itg_diagnostic why = {0};
  bool fits = true;
  for (int i = 0; i < inputs_read; i++) fits &= fits_declaration(&inputs[i]);
  for (int i = 0; i < outputs_read; i++) fits_declaration(&outputs[i]);
  if (inputs_read < input_count || outputs_read < output_count) {
    snprintf(message, 200, "data of the test has a type that is not supported");
  } else if (!fits) {
    snprintf(message, 200, "data of the test contradicts its model's declarations");
  } else {
    const itg_status status = import_model(model, inputs, input_count, &why, &graph);
    if (status == ITG_OK) {
      result = run(graph, inputs, input_count, outputs, output_count, message);
    } else {
      snprintf(message, 200, "%.190s", why.message);
      result = status == ITG_ERROR_UNSUPPORTED || status == ITG_ERROR_VERSION ? REFUSED : FAILED;
    }
  }
  itg_graph_destroy(graph);
  free_values(inputs, inputs_read);
  free_values(outputs, outputs_read);
  return result;
}

static verdict test_model(const char *folder, bool *common, char *message) {
  static value inputs[MAX_VALUES], outputs[MAX_VALUES];
  char path[2 * PATH_SIZE];
  itg_mapped_file file;
  itg_onnx_model model = {0};
  itg_onnx_graph graph = {0};
  itg_diagnostic why = {0};
  int input_count, output_count;
  verdict result = REFUSED;
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  assert_int_equal(itg_mapped_file_open(path, &why, &file), ITG_OK);
  *common = true;
  if (itg_onnx_model_parse(file.bytes, &why, &model) != ITG_OK ||
      itg_onnx_graph_parse(model.graph, file.bytes.data, &why, &graph) != ITG_OK) {
    snprintf(message, 200, "%.190s", why.message);
    result = why.status == ITG_ERROR_VERSION || why.status == ITG_ERROR_UNSUPPORTED ? REFUSED : FAILED;
    *common = false;
  } else if (!describe(&graph, &graph.inputs, inputs, &input_count, common) ||
             !describe(&graph, &graph.outputs, outputs, &output_count, common)) {
    snprintf(message, 200, "inputs or outputs that are sequences, maps or optionals are not supported");
    *common = false;
  } else {
    for (int set = 0;; set++) {
      struct stat info;
      snprintf(path, sizeof path, "%s/test_data_set_%d", folder, set);
      if (stat(path, &info) != 0) break;
      snprintf(path, sizeof path, "%s/model.onnx", folder);
      result = test_set(folder, path, set, inputs, input_count, outputs, output_count, message);
      if (result != PASSED) break;
    }
  }
  itg_onnx_spans_free(&model.functions);
  itg_onnx_graph_free(&graph);
  itg_mapped_file_close(&file);
  return result;
}

static tally test_suite(const char *root, const char *suite) {
  char folder[PATH_SIZE / 2];
  struct dirent **entries;
  tally result = {0};
  snprintf(folder, sizeof folder, "%s/%s", root, suite);
  const int count = scandir(folder, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    char path[PATH_SIZE], message[200] = "no test data";
    bool common;
    struct stat info;
    snprintf(path, sizeof path, "%s/%s/model.onnx", folder, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.' && stat(path, &info) == 0) {
      snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
      verdict outcome = test_model(path, &common, message);
      result.count[outcome]++;
      if (common) result.common[outcome]++;
      if (outcome == REFUSED) note_reason(message);
      if (outcome == FAILED || getenv("ITG_VERBOSE"))
        printf("%s %s/%s: %s\n",
               outcome == FAILED    ? "FAILED"
               : outcome == REFUSED ? "refused"
                                    : "passed",
               suite, entries[i]->d_name, outcome == PASSED ? "" : message);
    }
    free(entries[i]);
  }
  if (count >= 0) free(entries);
  return result;
}

static const char *root_folder(void) {
  const char *given = getenv("ITG_ONNX_TESTDATA");
  return given ? given : "/usr/share/libonnx-testdata/data";
}

static void every_model_passes_or_is_refused(void **state) {
  (void)state;
  static const char *const suites[] = {"node", "simple", "pytorch-converted", "pytorch-operator"};
  int failed = 0;
  tally node = {0};
  for (int i = 0; i < 4; i++) {
    const tally result = test_suite(root_folder(), suites[i]);
    printf("%-18s passed %d, refused %d, failed %d\n", suites[i], result.count[PASSED], result.count[REFUSED],
           result.count[FAILED]);
    failed += result.count[FAILED];
    if (i == 0) node = result;
  }
  for (int i = 0; i < reason_count; i++) printf("  refused %3d: %s\n", reasons[i].count, reasons[i].text);
  const int common = node.common[PASSED] + node.common[REFUSED] + node.common[FAILED];
  printf("node tests of the common types: %d of %d pass\n", node.common[PASSED], common);
  assert_int_equal(failed, 0);
  assert_true(common > 500);
  assert_true(node.common[PASSED] * 100 >= common * 85);
}

int main(void) {
  struct stat info;
  if (stat(root_folder(), &info) != 0) {
    printf("skipped: no ONNX test data in %s; install libonnx-testdata or set ITG_ONNX_TESTDATA\n", root_folder());
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_model_passes_or_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
