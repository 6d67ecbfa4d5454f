// Memory of the whole compiler: every allocation of importing, calibrating, quantizing, judging and writing may fail
// without harm, without a leak (AddressSanitizer looks) and without a file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "faults/fail_allocation.h"

#include "intaglio/compiler.h"
#include "support/onnx_writer.h"

enum { SIDE = 6, INPUT = 3 * SIDE * SIDE };

static itg_status read_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)context, (void)diagnostic;
  uint32_t seed = 100 + (uint32_t)index;
  float tint = 0;
  for (size_t i = 0; i < INPUT; i++) {
    if (i % (SIDE * SIDE) == 0) tint = onnx_random(&seed);
    ((float *)inputs[0])[i] = tint + 0.3f * onnx_random(&seed);
  }
  return ITG_OK;
}

static itg_status compile_once(itg_diagnostic *diagnostic) {
  itg_compiler *compiler = NULL;
  itg_status status = itg_compiler_open("m.onnx", NULL, diagnostic, &compiler);
  if (status != ITG_OK) return status;
  itg_compile_options options;
  itg_compile_options_default(&options);
  options.calibration = (itg_samples){NULL, 4, read_sample, NULL, NULL};
  options.thread_count = 1;
  itg_compile_result result;
  status = itg_compiler_compile(compiler, &options, "m.itg", diagnostic, &result);
  itg_compiler_close(compiler);
  return status;
}

static itg_status compare_once(itg_diagnostic *diagnostic) {
  itg_float_network *network = NULL;
  itg_status status = itg_float_network_open("m.onnx", NULL, diagnostic, &network);
  if (status != ITG_OK) return status;
  itg_compare_options options;
  itg_compare_options_default(&options);
  options.samples = (itg_samples){NULL, 3, read_sample, NULL, NULL};
  options.thread_count = 1;
  itg_comparison comparison;
  status = itg_compare("kept.itg", network, &options, diagnostic, &comparison);
  if (status == ITG_OK) itg_comparison_free(&comparison);
  itg_float_network_close(network);
  return status;
}

static void fail_every_allocation(itg_status (*work)(itg_diagnostic *)) {
  bool reached = true;
  long number = 1;
  for (; reached; number++) {
    itg_diagnostic diagnostic = {0};
    unlink("m.itg");
    fail_allocation(number);
    const itg_status status = work(&diagnostic);
    reached = !fail_is_pending();
    fail_allocation(0);
    if (status != (reached ? ITG_ERROR_MEMORY : ITG_OK))
      fail_msg("allocation %ld: %d %s (%s)", number, (int)status, diagnostic.message, diagnostic.subject);
    if (reached) assert_int_equal(access("m.itg", F_OK), -1);
  }
  printf("%ld allocations\n", number);
  assert_true(number > 50); // The wrapped allocator is really there.
}

static void test_compile(void **state) {
  (void)state;
  fail_every_allocation(compile_once);
  assert_int_equal(rename("m.itg", "kept.itg"), 0);
}
static void test_compare(void **state) {
  (void)state;
  fail_every_allocation(compare_once);
}

int main(void) {
  char folder[] = "/tmp/intaglio-memory-XXXXXX", line[128];
  if (!mkdtemp(folder) || chdir(folder) != 0) return 1;
  const onnx_bytes model = onnx_small_embedder(SIDE, NULL);
  onnx_write_file("m.onnx", model.data, model.size);
  free(model.data);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_compile), cmocka_unit_test(test_compare)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  snprintf(line, sizeof line, "rm -rf %s", folder);
  return chdir("/") == 0 && system(line) == 0 ? failed : 1;
}
