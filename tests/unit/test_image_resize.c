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

// A part of a resized picture has the bits that the whole one has there.
static void parts_have_the_bits_of_the_whole(void **state) {
  (void)state;
  unsigned seed = 3;
  for (int round = 0; round < 400; round++) {
    int32_t sizes[8];
    for (int i = 0; i < 8; i++) sizes[i] = 1 + (int32_t)((seed = seed * 1103515245u + 12345u) >> 16) % 40;
    const int channels = round % 3 ? 3 : 1;
    itg_image source = picture(sizes[0], sizes[1], channels, (unsigned)round), whole = {0}, part = {0};
    if (round % 7 == 0) sizes[2] = sizes[0]; // An axis that keeps its size, both, or half.
    if (round % 11 == 0) sizes[3] = sizes[1];
    if (round % 13 == 0 && sizes[0] > 1 && sizes[1] > 1) sizes[2] = sizes[0] / 2, sizes[3] = sizes[1] / 2;
    const itg_resize_part where = {sizes[2], sizes[3], sizes[4] % sizes[2], sizes[5] % sizes[3]};
    const int32_t width = 1 + sizes[6] % (where.width - where.x), height = 1 + sizes[7] % (where.height - where.y);
    const itg_resize_method method = (itg_resize_method)(round % ITG_RESIZE_METHOD_COUNT);
    assert_int_equal(itg_image_resize(&source, method, where.width, where.height, NULL, &whole), ITG_OK);
    assert_int_equal(itg_image_view_resize_part(itg_image_view_of(&source), method, &where, width, height, NULL, &part),
                     ITG_OK);
    for (int32_t y = 0; y < height; y++)
      assert_memory_equal(part.pixels + (size_t)(y * width * channels),
                          whole.pixels + (size_t)(((y + where.y) * where.width + where.x) * channels),
                          (size_t)(width * channels));
    itg_image_free(&source);
    itg_image_free(&whole);
    itg_image_free(&part);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(resizing_gives_the_bits_of_opencv_and_pillow),
      cmocka_unit_test(warping_gives_the_bits_of_opencv), cmocka_unit_test(grey_gives_the_bits_of_both),
      cmocka_unit_test(impossible_sizes_are_refused), cmocka_unit_test(parts_have_the_bits_of_the_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
