// Resizing, warping and grey conversion against checksums of what OpenCV and Pillow give (make_image_golden.py).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "image/image.h"

#include "image_golden.inc"

static itg_image picture(int width, int height, int channels, uint32_t seed) {
  itg_image image = {0};
  assert_int_equal(itg_image_create(width, height, channels, NULL, &image), ITG_OK);
  for (int i = 0; i < width * height * channels; i++) {
    seed = seed * 1664525u + 1013904223u;
    image.pixels[i] = (uint8_t)(seed >> 24);
  }
  return image;
}

static uint64_t checksum(const uint8_t *bytes, size_t size) {
  uint64_t value = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) value = (value ^ bytes[i]) * 0x100000001b3u;
  return value;
}

static void resizing_gives_the_bits_of_opencv_and_pillow(void **state) {
  (void)state;
  const size_t count = sizeof resized / sizeof resized[0];
  for (size_t i = 0; i < count; i++) {
    const uint32_t seed = 1 + (uint32_t)(i / 2 % (count / ITG_RESIZE_METHOD_COUNT / 2));
    itg_image source = picture(resized[i].width, resized[i].height, resized[i].channels, seed), target = {0};
    assert_int_equal(itg_image_resize(&source, (itg_resize_method)resized[i].method, resized[i].to_width,
                                      resized[i].to_height, NULL, &target),
                     ITG_OK);
    assert_int_equal(target.width, resized[i].to_width);
    assert_int_equal(target.height, resized[i].to_height);
    const size_t size = (size_t)target.width * (size_t)target.height * (size_t)target.channels;
    if (checksum(target.pixels, size) != resized[i].checksum)
      fail_msg("%s, %d channels, %dx%d -> %dx%d", itg_resize_method_name((itg_resize_method)resized[i].method),
               resized[i].channels, resized[i].width, resized[i].height, resized[i].to_width, resized[i].to_height);
    itg_image_free(&source);
    itg_image_free(&target);
  }
}

static void warping_gives_the_bits_of_opencv(void **state) {
  (void)state;
  static uint8_t out[112 * 112 * 3];
  for (size_t i = 0; i < sizeof warped / sizeof warped[0]; i++) {
    itg_image source = picture(warped[i].width, warped[i].height, warped[i].channels, 100 + (uint32_t)(i / 4));
    itg_warp_affine(itg_image_view_of(&source), warped[i].matrix, warped[i].to_width, warped[i].to_height, out);
    if (checksum(out, (size_t)(warped[i].to_width * warped[i].to_height * warped[i].channels)) != warped[i].checksum)
      fail_msg("warp %zu, %d channels, to %dx%d", i / 4, warped[i].channels, warped[i].to_width, warped[i].to_height);
    itg_image_free(&source);
  }
}

static void grey_gives_the_bits_of_both(void **state) {
  (void)state;
  itg_image source = picture(64, 64, 3, 7);
  static uint8_t grey[64 * 64];
  itg_grey_opencv(source.pixels, sizeof grey, grey);
  assert_true(checksum(grey, sizeof grey) == grey_opencv);
  itg_grey_pillow(source.pixels, sizeof grey, grey);
  assert_true(checksum(grey, sizeof grey) == grey_pillow);
  itg_image_free(&source);
}

static void impossible_sizes_are_refused(void **state) {
  (void)state;
  itg_image source = picture(4, 4, 3, 1), target = {0};
  itg_image_view view;
  itg_diagnostic why;
  assert_int_equal(itg_image_resize(&source, ITG_RESIZE_PILLOW_BOX, 0, 4, &why, &target), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_image_resize(&source, ITG_RESIZE_PILLOW_BOX, 4, 1 << 30, &why, &target), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_image_resize(&source, (itg_resize_method)77, 4, 4, &why, &target), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_image_resize(&(itg_image){0}, ITG_RESIZE_PILLOW_BOX, 4, 4, &why, &target), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_image_resize(&(itg_image){4, 4, 4, source.pixels}, ITG_RESIZE_PILLOW_BOX, 4, 4, &why, &target),
                   ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_image_view_cut(&source, 1, 1, 4, 1, &why, &view), ITG_ERROR_SHAPE);
  assert_int_equal(itg_image_view_cut(&source, 1, 1, 0, 1, &why, &view), ITG_ERROR_SHAPE);
  assert_int_equal(itg_image_view_cut(&source, -1, 1, 1, 1, &why, &view), ITG_ERROR_SHAPE);
  assert_int_equal(itg_image_view_cut(&source, INT64_MAX, 1, INT64_MAX, 1, &why, &view), ITG_ERROR_SHAPE);
  assert_int_equal(itg_image_view_cut(&source, 3, 3, 1, 1, &why, &view), ITG_OK);
  assert_ptr_equal(view.pixels, source.pixels + 45);
  itg_image_free(&source);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(resizing_gives_the_bits_of_opencv_and_pillow),
                                     cmocka_unit_test(warping_gives_the_bits_of_opencv),
                                     cmocka_unit_test(grey_gives_the_bits_of_both),
                                     cmocka_unit_test(impossible_sizes_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
