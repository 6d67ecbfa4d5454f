// Boxes of text out of probability maps, reading order, crops and greedy decoding, on cases that can be computed by hand.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "image/image.h"
#include "pipelines/ctc.h"
#include "pipelines/rectangle.h"
#include "pipelines/text_crop.h"
#include "pipelines/text_regions.h"

enum { WIDTH = 100, HEIGHT = 80 };
static float values[WIDTH * HEIGHT];
static const itg_probability_map map = {values, WIDTH, HEIGHT, WIDTH};
static const itg_region_options defaults = {0.3, 0.5, false, 1.6, 1000};

static void fill(int x0, int y0, int x1, int y1, float value) {
  for (int y = y0; y < y1; y++)
    for (int x = x0; x < x1; x++) values[y * WIDTH + x] = value;
}

static size_t find(const itg_region_options *options, itg_text_box **boxes) {
  size_t count = 99;
  assert_int_equal(itg_text_regions(&map, options, 2 * WIDTH, HEIGHT, NULL, boxes, &count), ITG_OK);
  return count;
}

static void a_bar_becomes_its_grown_box(void **state) {
  (void)state;
  itg_text_box *boxes = NULL;
  memset(values, 0, sizeof values);
  assert_int_equal(find(&defaults, &boxes), 0);
  assert_null(boxes);
  fill(20, 30, 60, 40, 0.9f);
  assert_int_equal(find(&defaults, &boxes), 1);
  // Spread by one pixel to the right and down: corners (20, 30) and (60, 40), 40 x 10, grown by 400 * 1.6 / 50 = 12.8.
  const double expected[4] = {rint((20 - 6.4) * 2), rint(30 - 6.4), rint((60 + 6.4) * 2), rint(40 + 6.4)};
  assert_true(boxes[0].corners[0][0] == (float)expected[0] && boxes[0].corners[0][1] == (float)expected[1]);
  assert_true(boxes[0].corners[1][0] == (float)expected[2] && boxes[0].corners[1][1] == (float)expected[1]);
  assert_true(boxes[0].corners[2][0] == (float)expected[2] && boxes[0].corners[2][1] == (float)expected[3]);
  assert_true(boxes[0].corners[3][0] == (float)expected[0] && boxes[0].corners[3][1] == (float)expected[3]);
  // The rectangle has 41 x 11 pixels, 40 x 10 of them at .9.
  assert_true(fabs(boxes[0].score - 0.9 * 400 / 451) < 1e-6);
  free(boxes);
  fill(20, 30, 60, 40, 0.5f); // Too uncertain a mean.
  assert_int_equal(find(&defaults, &boxes), 0);
  fill(20, 30, 60, 40, 0);
  fill(20, 30, 60, 31, 0.9f); // Two pixels high at most.
  assert_int_equal(find(&defaults, &boxes), 0);
}

static void holes_have_outlines_and_slow_scores_fill_them(void **state) {
  (void)state;
  itg_text_box *boxes = NULL;
  itg_region_options options = defaults;
  memset(values, 0, sizeof values);
  fill(10, 10, 60, 50, 0.9f);
  fill(20, 20, 50, 40, 0.1f);
  options.min_score = 0;
  assert_int_equal(find(&options, &boxes), 2); // The frame and its hole.
  free(boxes);
  options.slow_score = true;
  assert_int_equal(find(&options, &boxes), 2);
  // The hole is found last, so listed first: 29 x 19 pixels of .1 are left of it, in a border of .9 but where the mask was
  // spread over the hole's left and upper pixels.
  const double frame = (0.9 * (2000 - 600) + 0.1 * 600) / (51 * 41);
  const double hole = (0.1 * 29 * 19 + 0.1 * (29 + 19) + 0.9 * (29 + 19)) / (29 * 19 + 2 * (29 + 19));
  assert_true(fabs(boxes[1].score - frame) < 1e-6);
  assert_true(fabs(boxes[0].score - hole) < 1e-6);
  free(boxes);
  options.max_regions = 1;
  assert_int_equal(find(&options, &boxes), 1);
  free(boxes);
}

static void turned_rectangles_are_found(void **state) {
  (void)state;
  itg_raster_point points[3 * 200];
  size_t count = 0;
  // The raster of a square that stands on its corner.
  for (int y = 0; y <= 40; y++) {
    const int half = y <= 20 ? y : 40 - y;
    points[count++] = (itg_raster_point){50 - half, y};
    if (half) points[count++] = (itg_raster_point){50 + half, y};
  }
  const itg_rectangle r = itg_smallest_rectangle(points, count);
  assert_true(fabs(r.width - 20 * sqrt(2)) < 1e-9 && fabs(r.height - 20 * sqrt(2)) < 1e-9);
  assert_true(fabs(r.centre[0] - 50) < 1e-9 && fabs(r.centre[1] - 20) < 1e-9);
  const itg_raster_point single[3] = {{7, 9}};
  itg_raster_point room[3];
  memcpy(room, single, sizeof room);
  const itg_rectangle dot = itg_smallest_rectangle(room, 1);
  assert_true(dot.width == 0 && dot.height == 0 && dot.centre[0] == 7 && dot.centre[1] == 9);
}

static void boxes_are_read_line_by_line(void **state) {
  (void)state;
  static const float tops[5][2] = {{300, 12}, {10, 8}, {150, 17}, {5, 60}, {200, 55}};
  itg_text_box boxes[5];
  memset(boxes, 0, sizeof boxes);
  for (int i = 0; i < 5; i++) memcpy(boxes[i].corners[0], tops[i], sizeof tops[i]);
  assert_int_equal(itg_text_reading_order(boxes, 5, NULL), ITG_OK);
  static const float order[5] = {10, 150, 300, 5, 200};
  for (int i = 0; i < 5; i++) assert_true(boxes[i].corners[0][0] == order[i]);
}

static void crops_stand_upright(void **state) {
  (void)state;
  uint8_t pixels[30 * 40];
  for (int i = 0; i < 30 * 40; i++) pixels[i] = (uint8_t)(i % 30 * 4 + i / 30 * 3);
  const itg_image image = {30, 40, 1, pixels};
  const itg_text_box lying = {.corners = {{4, 6}, {24, 6}, {24, 14}, {4, 14}}};
  const itg_text_box standing = {.corners = {{4, 6}, {12, 6}, {12, 30}, {4, 30}}};
  itg_image crop = {0};
  assert_true(itg_text_proportion(&lying) == 2.5 && itg_text_proportion(&standing) == 3);
  assert_int_equal(itg_text_crop(&image, &lying, NULL, &crop), ITG_OK);
  assert_true(crop.width == 20 && crop.height == 8);
  for (int y = 1; y < 7; y++) // An exact cut: the pixel's own value, or one less because the kernel truncates.
    for (int x = 1; x < 19; x++) {
      const int difference = pixels[(y + 6) * 30 + x + 4] - crop.pixels[y * 20 + x];
      assert_true(difference == 0 || difference == 1);
    }
  itg_image_free(&crop);
  assert_int_equal(itg_text_crop(&image, &standing, NULL, &crop), ITG_OK);
  assert_true(crop.width == 24 && crop.height == 8);
  // Turned against the clock: the upper right corner of the box comes to the upper left.
  assert_true(abs(crop.pixels[0] - pixels[6 * 30 + 11]) <= 1);
  itg_image_free(&crop);
  const itg_text_box flat = {.corners = {{4, 6}, {4, 6}, {4, 6}, {4, 6}}};
  const itg_text_box wrong = {.corners = {{NAN, 6}, {24, 6}, {24, 14}, {4, 14}}};
  assert_true(itg_text_proportion(&flat) == 0);
  assert_int_equal(itg_text_crop(&image, &flat, NULL, &crop), ITG_ERROR_SHAPE);
  assert_int_equal(itg_text_crop(&image, &wrong, NULL, &crop), ITG_ERROR_SHAPE);
}

static void repetitions_and_blanks_are_left_out(void **state) {
  (void)state;
  static const char lines[] = "a\n\xc3\xa4\r\nxy\n";
  itg_charset charset = {0};
  assert_int_equal(itg_charset_read((itg_span){(const uint8_t *)lines, sizeof lines - 1}, NULL, &charset), ITG_OK);
  assert_int_equal(charset.count, 3);
  assert_int_equal(itg_charset_check(&charset, 4, NULL), ITG_OK);
  assert_int_equal(itg_charset_check(&charset, 5, NULL), ITG_OK);
  assert_int_equal(itg_charset_check(&charset, 6, NULL), ITG_ERROR_FORMAT);
  // Classes: blank, a, a with dots, xy, space.
  static const int best[10] = {0, 1, 1, 0, 1, 4, 2, 2, 3, 0};
  float rows[10 * 5];
  for (int t = 0; t < 10; t++)
    for (int c = 0; c < 5; c++) rows[t * 5 + c] = c == best[t] ? 0.5f + 0.04f * (float)t : 0.01f;
  char *text = NULL;
  float score = 0;
  assert_int_equal(itg_ctc_decode(&charset, rows, 10, 5, NULL, &text, &score), ITG_OK);
  assert_string_equal(text, "aa \xc3\xa4xy");
  assert_true(fabs(score - (0.54 + 0.66 + 0.70 + 0.74 + 0.82) / 5) < 1e-6);
  free(text);
  for (int t = 0; t < 10; t++) rows[t * 5] = 1;
  assert_int_equal(itg_ctc_decode(&charset, rows, 10, 5, NULL, &text, &score), ITG_OK);
  assert_string_equal(text, "");
  assert_true(score == 0);
  free(text);
  itg_charset_free(&charset);
  assert_int_equal(itg_charset_read((itg_span){NULL, 0}, NULL, &charset), ITG_ERROR_FORMAT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bar_becomes_its_grown_box), cmocka_unit_test(holes_have_outlines_and_slow_scores_fill_them),
      cmocka_unit_test(turned_rectangles_are_found), cmocka_unit_test(boxes_are_read_line_by_line),
      cmocka_unit_test(crops_stand_upright),         cmocka_unit_test(repetitions_and_blanks_are_left_out)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
