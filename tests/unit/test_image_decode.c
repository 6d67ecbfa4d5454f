// Decoding small files of every kind (make_image_files.py), and whatever is left of them when they are damaged.
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
#include "intaglio/pipelines.h"

#include "image_files.inc"

enum { FILES = sizeof files / sizeof files[0] };

static uint64_t checksum(const uint8_t *bytes, size_t size) {
  uint64_t value = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) value = (value ^ bytes[i]) * 0x100000001b3u;
  return value;
}

static uint8_t bytes[8192];

static size_t unpack(size_t index) {
  const size_t size = strlen(files[index].hex) / 2;
  assert_true(size <= sizeof bytes);
  for (size_t i = 0; i < size; i++) {
    const char digits[3] = {files[index].hex[2 * i], files[index].hex[2 * i + 1], 0};
    bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
  }
  return size;
}

// Decodes from a heap block of exactly `size` bytes, so that a sanitizer sees any read beyond it.
static itg_status decode(const uint8_t *data, size_t size, const itg_image_limits *limits, itg_diagnostic *why,
                         itg_image *out) {
  uint8_t *copy = malloc(size ? size : 1);
  assert_non_null(copy);
  memcpy(copy, data, size);
  const itg_status status = itg_image_decode(copy, size, limits, why, out);
  free(copy);
  return status;
}

static void every_kind_gives_the_pixels_of_pillow(void **state) {
  (void)state;
  for (size_t i = 0; i < FILES; i++) {
    itg_image image = {0};
    itg_diagnostic why = {0};
    if (decode(bytes, unpack(i), NULL, &why, &image) != ITG_OK) fail_msg("%s: %s", files[i].name, why.message);
    assert_int_equal(image.width, files[i].width);
    assert_int_equal(image.height, files[i].height);
    assert_int_equal(image.channels, 3);
    if (checksum(image.pixels, (size_t)image.width * (size_t)image.height * 3) != files[i].checksum)
      fail_msg("%s: other pixels", files[i].name);
    itg_image_free(&image);
    itg_image_free(&image);
  }
}

static void cut_files_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < FILES; i++) {
    const size_t size = unpack(i);
    size_t decoded = 0;
    for (size_t length = 0; length < size; length++) {
      itg_image image = {0};
      itg_diagnostic why = {0};
      const itg_status status = decode(bytes, length, NULL, &why, &image);
      if (status == ITG_OK) {
        // Only the end marker may be missing.
        decoded++;
        if (length + 24 < size) fail_msg("%s: %zu of %zu bytes", files[i].name, length, size);
        assert_true(checksum(image.pixels, (size_t)image.width * (size_t)image.height * 3) == files[i].checksum);
      } else {
        assert_int_equal(status, ITG_ERROR_FORMAT);
        assert_true(why.message[0] != 0);
      }
      itg_image_free(&image);
    }
    assert_true(decoded < 24);
  }
}

static void damaged_files_do_no_harm(void **state) {
  (void)state;
  const itg_image_limits limits = {1 << 20, 1 << 20};
  for (size_t i = 0; i < FILES; i++) {
    const size_t size = unpack(i);
    for (size_t position = 0; position < size; position++) {
      for (int k = 0; k < 3; k++) {
        const uint8_t before = bytes[position];
        bytes[position] = (uint8_t)(k == 0 ? before ^ 0x01 : k == 1 ? before ^ 0x80 : 0xff);
        itg_image image = {0};
        const itg_status status = decode(bytes, size, &limits, NULL, &image);
        assert_true(status == ITG_OK || status == ITG_ERROR_FORMAT || status == ITG_ERROR_LIMIT);
        assert_true((status == ITG_OK) == (image.pixels != NULL));
        itg_image_free(&image);
        bytes[position] = before;
      }
    }
  }
}

static void limits_are_checked_first(void **state) {
  (void)state;
  for (size_t i = 0; i < FILES; i++) {
    const size_t size = unpack(i);
    const int64_t pixels = (int64_t)files[i].width * files[i].height;
    itg_image image = {0};
    itg_diagnostic why = {0};
    assert_int_equal(decode(bytes, size, &(itg_image_limits){pixels - 1, size}, &why, &image), ITG_ERROR_LIMIT);
    assert_non_null(strstr(why.message, "limit"));
    assert_int_equal(decode(bytes, size, &(itg_image_limits){pixels, size - 1}, &why, &image), ITG_ERROR_LIMIT);
    assert_int_equal(decode(bytes, size, &(itg_image_limits){pixels, size}, &why, &image), ITG_OK);
    itg_image_free(&image);
  }
}

static void other_files_are_named(void **state) {
  (void)state;
  itg_image image = {0};
  itg_diagnostic why = {0};
  assert_int_equal(decode((const uint8_t *)"GIF89a..............", 20, NULL, &why, &image), ITG_ERROR_FORMAT);
  assert_non_null(strstr(why.message, "JPEG, PNG and WebP"));
  assert_int_equal(decode((const uint8_t *)"", 0, NULL, &why, &image), ITG_ERROR_FORMAT);
  assert_int_equal(itg_image_read("no-such-picture.jpg", NULL, &why, &image), ITG_ERROR_IO);
  assert_int_equal(itg_image_read(".", NULL, &why, &image), ITG_ERROR_IO);
  assert_int_equal(itg_write_file("test_image_decode.bin", "hello", 5, NULL), ITG_OK);
  assert_int_equal(itg_image_read("test_image_decode.bin", NULL, &why, &image), ITG_ERROR_FORMAT);
  assert_string_equal(why.subject, "test_image_decode.bin");
  unlink("test_image_decode.bin");
}

static void folders_are_listed_in_order(void **state) {
  (void)state;
  static const char *const made[] = {"b.JPG",       "a.jpeg",    "c.png",   "note.txt",
                                     ".hidden.jpg", "sub/z.jpg", "sub/jpg", "png"};
  static const char *const expected[] = {"a.jpeg", "b.JPG", "c.png", "sub/z.jpg"};
  char folder[] = "list-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/sub", folder);
  assert_int_equal(mkdir(path, 0777), 0);
  for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, made[i]);
    assert_int_equal(itg_write_file(path, "x", 1, NULL), ITG_OK);
  }
  snprintf(path, sizeof path, "%s/sub/loop.jpg", folder);
  assert_int_equal(symlink("..", path), 0);
  itg_image_list list = {0};
  assert_int_equal(itg_image_list_folder(folder, NULL, &list), ITG_OK);
  assert_int_equal(list.count, 4);
  for (size_t i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, expected[i]);
    assert_string_equal(list.paths[i], path);
  }
  itg_image_list_free(&list);
  snprintf(path, sizeof path, "%s/sub/loop.jpg", folder);
  unlink(path);
  for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, made[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/sub", folder);
  rmdir(path);
  assert_int_equal(itg_image_list_folder(folder, NULL, &list), ITG_OK);
  assert_int_equal(list.count, 0);
  itg_image_list_free(&list);
  rmdir(folder);
  assert_int_equal(itg_image_list_folder(folder, NULL, &list), ITG_ERROR_IO);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_gives_the_pixels_of_pillow),
                                     cmocka_unit_test(cut_files_are_refused),
                                     cmocka_unit_test(damaged_files_do_no_harm),
                                     cmocka_unit_test(limits_are_checked_first),
                                     cmocka_unit_test(other_files_are_named),
                                     cmocka_unit_test(folders_are_listed_in_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
