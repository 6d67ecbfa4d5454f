// Memory of sessions on an NPU, with the provider library of tests/qnn/fake: every allocation of opening, running and proving may
// fail, and nothing is left: neither memory nor handles of the library.
#include <dlfcn.h>

#include "support/npu_net.h"

#include "faults/fail_allocation.h"
#include "qnn/fake/fake_qnn.h"

static const char folder[] = ITG_BINARY_DIR "/tests/fake/whole";
static fake_qnn_state *fake;
static itg_model *model;

static itg_status live_once(itg_diagnostic *diagnostic) {
  itg_session_options options;
  itg_session_options_default(&options);
  options.backend = "qnn";
  options.qnn_directory = folder;
  itg_session *session = NULL;
  static const uint8_t codes[4 * 32];
  itg_proof proof;
  itg_status status = itg_session_create(model, &options, diagnostic, &session);
  if (status == ITG_OK) status = itg_session_set_input_codes(session, 0, codes, sizeof codes, diagnostic);
  if (status == ITG_OK) status = itg_session_run(session, diagnostic);
  if (status == ITG_OK) status = itg_session_proof(session, diagnostic, &proof);
  itg_session_destroy(session);
  return status;
}

static void every_failure_of_a_session_is_clean(void **state) {
  (void)state;
  itg_diagnostic why = {0};
  if (live_once(&why) != ITG_OK) fail_msg("%s", why.message); // The trial in a child, which is remembered.
  const long before = live_blocks();
  long number = 1;
  for (;; number++) {
    why = (itg_diagnostic){0};
    fail_allocation(number);
    const itg_status status = live_once(&why);
    const bool reached = !fail_is_pending();
    fail_allocation(0);
    assert_int_equal(live_blocks(), before);
    assert_int_equal(fake->live, 0);
    if (fake->problem[0]) fail_msg("%s", fake->problem);
    if (!reached) {
      assert_int_equal(status, ITG_OK);
      break;
    }
    if (status != ITG_ERROR_MEMORY) fail_msg("allocation %ld: status %d, %s", number, status, why.message);
  }
  print_message("%ld allocations\n", number - 1);
  assert_true(number > 5);
}

int main(void) {
  char path[700];
  snprintf(path, sizeof path, "%s/libQnnHtp.so", folder);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = library ? dlsym(library, "fake_qnn") : NULL;
  if (!symbol) return 1;
  fake_qnn_function get;
  memcpy(&get, &symbol, sizeof get);
  fake = get();
  setenv("INTAGLIO_QNN_DIR", folder, 1);
  itg_graph *legal = npu_linear(4, 32, 24);
  uint8_t *file = NULL;
  size_t size = 0;
  itg_diagnostic why = {0};
  if (npu_file(legal, npu_target("qcs6490"), &file, &size, NULL, &why) != ITG_OK ||
      itg_model_open_memory(file, size, &why, &model) != ITG_OK)
    return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_failure_of_a_session_is_clean)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  itg_model_close(model);
  itg_graph_destroy(legal);
  free(file);
  return failed;
}
