// Opening the vendor's real library, and refusing what is not one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/npu_library.h"

static void every_target_can_be_set(void **state) {
  (void)state;
  size_t count;
  const itg_target *targets = itg_target_list(&count);
  for (size_t i = 0; i < count; i++) {
    itg_qnn_library library = {0};
    itg_diagnostic why = {0};
    const itg_status status = itg_qnn_library_open(NULL, "libQnnHtp.so", &targets[i], &why, &library);
    if (status != ITG_OK) fail_msg("%s: %s", targets[i].name, why.message);
    if (i == 0)
      print_message("%s, build %s, core API %u.%u\n", library.path, library.build, library.core.major,
                    library.core.minor);
    assert_true(library.core.major == 2 && library.core.minor >= ITG_QNN_MIN_CORE_MINOR);
    assert_true(library.backend && library.device && library.build[0]);
    itg_qnn_library_close(&library);
  }
}

static void an_unknown_soc_fails_loudly(void **state) {
  (void)state;
  const itg_target unknown = {.name = "sm0000", .soc_model = 9999, .arch = 68, .vtcm_megabytes = 2};
  itg_qnn_library library = {0};
  itg_diagnostic why = {0};
  assert_int_equal(itg_qnn_library_open(NULL, "libQnnHtp.so", &unknown, &why, &library), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "deviceCreate"));
}

static void what_is_no_library_is_refused(void **state) {
  (void)state;
  itg_qnn_library library = {0};
  itg_diagnostic why = {0};
  assert_int_equal(itg_qnn_library_open("/nonexistent", "libQnnHtp.so", NULL, &why, &library), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "INTAGLIO_QNN_DIR"));
  // A shared object that is something else: the C library's mathematics.
  assert_int_equal(itg_qnn_library_open("", "libm.so.6", NULL, &why, &library), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "not a QNN library"));
}

int main(void) {
  if (npu_skip()) return 77;
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_target_can_be_set),
                                     cmocka_unit_test(an_unknown_soc_fails_loudly),
                                     cmocka_unit_test(what_is_no_library_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
