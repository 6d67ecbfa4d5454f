// The table of systems on chip.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "npu/qnn/library.h"

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

// Files in the library's place that are not one: refused, whatever they are, without loading them.
static void impostors_are_no_library(void **state) {
  (void)state;
  char folder[] = "/tmp/itg-qnn-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/libQnnHtp.so", folder);
  itg_qnn_library library = {0};
  itg_diagnostic why = {0};
  unsigned char elf[128] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
  elf[0x28] = 0xff; // The section table lies behind the end.
  elf[0x3a] = 64;
  elf[0x3c] = 200;
  const struct {
    const void *data;
    size_t size;
  } files[] = {{"", 0}, {"not a library", 13}, {elf, sizeof elf}, {NULL, 0}};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    if (files[i].data) {
      assert_int_equal(itg_write_file(path, files[i].data, files[i].size, NULL), ITG_OK);
    } else {
      assert_int_equal(mkfifo(path, 0600), 0); // Opening it for reading would wait for ever.
    }
    assert_int_equal(itg_qnn_library_open(folder, "libQnnHtp.so", NULL, &why, &library), ITG_ERROR_DEVICE);
    assert_non_null(strstr(why.message, "no whole shared library"));
    assert_int_equal(unlink(path), 0);
  }
  assert_int_equal(rmdir(folder), 0);
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
                                     cmocka_unit_test(names_are_unique), cmocka_unit_test(impostors_are_no_library)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
