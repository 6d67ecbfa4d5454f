// Work in a child process: its result comes back, its end by whatever cause is an error.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"

static const itg_child_limits limits = {.seconds = 20};

static bool answer(void *context, int file) {
  printf("this must not reach the test's output\n");
  return itg_write_descriptor(file, context, strlen(context));
}

static bool crash(void *context, int file) {
  (void)context;
  (void)file;
  raise(SIGKILL);
  return true;
}

static bool hang(void *context, int file) {
  (void)context;
  (void)file;
  pause();
  return true;
}

static bool silent(void *context, int file) {
  (void)context;
  (void)file;
  return true;
}

static void the_result_comes_back(void **state) {
  (void)state;
  itg_diagnostic why = {0};
  itg_child_result result = {0};
  assert_int_equal(itg_child_run("the work", NULL, answer, (void *)(uintptr_t) "42", &limits, &why, &result), ITG_OK);
  assert_int_equal(result.bytes.size, 2);
  assert_memory_equal(result.bytes.data, "42", 2);
  itg_child_result_free(&result);
  assert_null(result.bytes.data);
}

static void every_bad_end_is_an_error(void **state) {
  (void)state;
  const struct {
    itg_child_work work;
    itg_status status;
    const char *words;
  } cases[] = {{crash, ITG_ERROR_DEVICE, "the work crashed (signal 9, Killed); try again"},
               {silent, ITG_ERROR_DEVICE, "ended without a result"},
               {hang, ITG_ERROR_TIMEOUT, "did not finish within 1 seconds"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    itg_diagnostic why = {0};
    itg_child_result result = {0};
    const itg_child_limits one_second = {.seconds = 1};
    assert_int_equal(itg_child_run("the work", "try again", cases[i].work, NULL, &one_second, &why, &result),
                     cases[i].status);
    assert_non_null(strstr(why.message, cases[i].words));
    assert_null(result.bytes.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_result_comes_back),
                                     cmocka_unit_test(every_bad_end_is_an_error)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
