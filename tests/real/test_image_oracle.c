// Resizing, warping and decoding against OpenCV and Pillow on random pictures: no pixel may differ.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "image/image.h"
#include "support/oracle.h"
#include "support/take.h"

static char folder[] = "/tmp/intaglio-image-XXXXXX";

static int make_pictures(void **state) {
  (void)state;
  char command[8192];
  if (!mkdtemp(folder)) return -1;
  const char *count = getenv("ITG_ORACLE_COUNT"), *seed = getenv("ITG_ORACLE_SEED");
  snprintf(command, sizeof command, "'%s' '%s/tests/real/image_oracle.py' '%s' %d %d", oracle_python(), ITG_SOURCE_DIR,
           folder, count ? atoi(count) : 2700, seed ? atoi(seed) : 1);
  return system(command) == 0 ? 0 : -1;
}

static int remove_pictures(void **state) {
  (void)state;
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static void pixels_equal_opencv_and_pillow(void **state) {
  (void)state;
  char path[256];
  itg_mapped_file file;
  snprintf(path, sizeof path, "%s/pixels.bin", folder);
  assert_int_equal(itg_mapped_file_open(path, NULL, &file), ITG_OK);
  size_t cases[9] = {0}, pixels = 0;
  for (itg_span rest = file.bytes; rest.size;) {
    int32_t head[6];
    double matrix[8];
    memcpy(head, take(&rest, sizeof head), sizeof head);
    const size_t numbers = head[0] == 7 ? 6 : head[0] == 8 ? 8 : 0;
    memcpy(matrix, take(&rest, numbers * sizeof *matrix), numbers * sizeof *matrix);
    const size_t size = (size_t)head[2] * (size_t)head[3] * (size_t)head[1];
    const size_t to_size = (size_t)head[4] * (size_t)head[5] * (size_t)head[1];
    const itg_image source = {head[2], head[3], head[1], (uint8_t *)take(&rest, size)};
    const uint8_t *expected = take(&rest, to_size);
    itg_image target = {0};
    if (numbers) {
      assert_int_equal(itg_image_create(head[4], head[5], head[1], NULL, &target), ITG_OK);
      (numbers == 6 ? itg_warp_affine : itg_warp_perspective_pillow)(itg_image_view_of(&source), matrix, head[4],
                                                                     head[5], target.pixels);
    } else {
      assert_int_equal(itg_image_resize(&source, (itg_resize_method)head[0], head[4], head[5], NULL, &target), ITG_OK);
    }
    size_t different = 0;
    for (size_t i = 0; i < to_size; i++) different += target.pixels[i] != expected[i];
    if (different)
      fail_msg("%s, %d channels, %dx%d -> %dx%d: %zu of %zu values differ",
               numbers ? "warp" : itg_resize_method_name((itg_resize_method)head[0]), head[1], head[2], head[3],
               head[4], head[5], different, to_size);
    cases[head[0]]++;
    pixels += to_size;
    itg_image_free(&target);
  }
  for (int i = 0; i < 9; i++) assert_true(cases[i] > 0);
  printf("%zu values of %zu pictures an operation, none differs\n", pixels, cases[0]);
  itg_mapped_file_close(&file);
}

static void files_decode_as_pillow_does(void **state) {
  (void)state;
  itg_image_list list = {0};
  assert_int_equal(itg_image_list_folder(folder, NULL, &list), ITG_OK);
  assert_true(list.count >= 16);
  for (size_t i = 0; i < list.count; i++) {
    char path[256];
    itg_image image = {0};
    itg_mapped_file file;
    itg_diagnostic why = {0};
    if (itg_image_read(list.paths[i], NULL, &why, &image) != ITG_OK) fail_msg("%s: %s", list.paths[i], why.message);
    snprintf(path, sizeof path, "%.*s.bin", (int)(strrchr(list.paths[i], '.') - list.paths[i]), list.paths[i]);
    assert_int_equal(itg_mapped_file_open(path, NULL, &file), ITG_OK);
    assert_int_equal(file.bytes.size, (size_t)image.width * (size_t)image.height * 3);
    if (memcmp(file.bytes.data, image.pixels, file.bytes.size) != 0) fail_msg("%s: other pixels", list.paths[i]);
    itg_mapped_file_close(&file);
    itg_image_free(&image);
  }
  itg_image_list_free(&list);
}

int main(void) {
  if (!oracle_has("cv2, PIL")) {
    printf("skipped: needs Python with OpenCV and Pillow\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(pixels_equal_opencv_and_pillow),
                                     cmocka_unit_test(files_decode_as_pillow_does)};
  return cmocka_run_group_tests(tests, make_pictures, remove_pictures);
}
