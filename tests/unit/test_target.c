// The table of systems on chip.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "npu/target.h"

static void names_are_found_in_any_case(void **state) {
  (void)state;
  const itg_target *target = NULL;
  assert_int_equal(itg_target_find("QCS6490", NULL, &target), ITG_OK);
  assert_int_equal(target->arch, 68);
  assert_int_equal(target->vtcm_megabytes, 2);
  assert_false(target->has_fp16 || target->has_16x16);
}

static void unknown_names_get_the_nearest(void **state) {
  (void)state;
  const itg_target *target = NULL;
  itg_diagnostic why = {0};
  assert_int_equal(itg_target_find("sm8560", &why, &target), ITG_ERROR_ARGUMENT);
  assert_non_null(strstr(why.message, "sm8550"));
  char name[400];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = 0;
  assert_int_equal(itg_target_find(name, &why, &target), ITG_ERROR_ARGUMENT);
  assert_null(target);
}

static void names_are_unique(void **state) {
  (void)state;
  size_t count;
  const itg_target *targets = itg_target_list(&count);
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < i; j++) assert_string_not_equal(targets[i].name, targets[j].name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_found_in_any_case),
                                     cmocka_unit_test(unknown_names_get_the_nearest),
                                     cmocka_unit_test(names_are_unique)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
