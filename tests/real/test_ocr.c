// Text recognition with the real PP-OCR models against Immich's way of running them (OpenCV, Pillow, ONNX Runtime): boxes
// within 1 pixel, scores within 1e-3, the same text; and against the rapidocr packages: the same letters (spaces
// depend on how wide a line's canvas is, and theirs differ), boxes within 2 pixels.
// The score of a turned rectangle hangs on corners that are whole numbers but for rounding, and OpenCV's rounding in single
// precision is not repeated: one box in eight may be off by up to 1e-2 there.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "support/float_source.h"
#include "support/oracle.h"
#include "support/take.h"

enum { MOST_LINES = 200 };

static char folder[] = "/tmp/intaglio-ocr-XXXXXX";
static itg_image_list pages;

static int run_oracle(void **state) {
  (void)state;
  char command[16384], path[256];
  if (!mkdtemp(folder)) return -1;
  snprintf(command, sizeof command,
           "'%s' '%s/tests/real/ocr_oracle.py' '%s' '%s' '%s/../photos/ocr/page.png' "
           "'%s/../photos/ocr/text.png' >/dev/null 2>&1",
           oracle_python(), ITG_SOURCE_DIR, folder, oracle_models(), oracle_models(), oracle_models());
  if (system(command) != 0) return -1;
  snprintf(path, sizeof path, "%s/pages", folder);
  return itg_image_list_folder(path, NULL, &pages) == ITG_OK ? 0 : -1;
}

static int remove_oracle(void **state) {
  (void)state;
  char command[256];
  itg_image_list_free(&pages);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

typedef struct expected_line {
  double corners[4][2], box_score, score;
  char text[512];
} expected_line;

static size_t take_page(itg_span *rest, expected_line *lines) {
  int32_t count, size;
  memcpy(&count, take(rest, sizeof count), sizeof count);
  assert_true(count >= 0 && count < MOST_LINES);
  for (int32_t i = 0; i < count; i++) {
    expected_line *line = &lines[i];
    memcpy(line->corners, take(rest, sizeof line->corners), sizeof line->corners);
    memcpy(&line->box_score, take(rest, sizeof line->box_score), sizeof line->box_score);
    memcpy(&line->score, take(rest, sizeof line->score), sizeof line->score);
    memcpy(&size, take(rest, sizeof size), sizeof size);
    assert_true(size >= 0 && (size_t)size < sizeof line->text);
    if (size) memcpy(line->text, take(rest, (size_t)size), (size_t)size);
    line->text[size] = 0;
  }
  return (size_t)count;
}

static itg_service *open_service(itg_service_kind kind, const char *family, size_t *open_count) {
  char path[512];
  itg_diagnostic why = {0};
  itg_service *service = NULL;
  const itg_network_source source = float_source(open_count);
  snprintf(path, sizeof path, "%s/ocr/%s/%s", folder, family, itg_service_type(kind));
  if (itg_service_open(kind, path, &source, &why, &service) != ITG_OK) fail_msg("%s: %s", path, why.message);
  return service;
}

static itg_mapped_file open_expected(const char *family, const char *mode) {
  char path[512];
  itg_mapped_file file;
  snprintf(path, sizeof path, "%s/%s.%s.bin", folder, family, mode);
  assert_int_equal(itg_mapped_file_open(path, NULL, &file), ITG_OK);
  return file;
}

static double furthest(const itg_text_box *box, const expected_line *line) {
  double worst = 0;
  for (int i = 0; i < 8; i++)
    worst = fmax(worst, fabs((double)box->corners[i / 2][i % 2] - line->corners[i / 2][i % 2]));
  return worst;
}

static bool same_letters(const char *a, const char *b) {
  for (;; a++, b++) {
    while (*a == ' ') a++;
    while (*b == ' ') b++;
    if (*a != *b) return false;
    if (!*a) return true;
  }
}

// What one family finds and reads on one page.
typedef struct page_result {
  itg_text_box *boxes;
  size_t count;
  itg_text_line *lines; // One a box: nothing is left out at a score of -1.
  size_t line_count;
} page_result;

static void compare_with_immich(const page_result *page, const expected_line *lines, size_t count, const char *name,
                                double *worst) {
  if (page->count != count) fail_msg("%s: %zu boxes, not %zu", name, page->count, count);
  assert_int_equal(page->line_count, count);
  for (size_t i = 0; i < count; i++) {
    const double distance = furthest(&page->boxes[i], &lines[i]);
    const double off = fabs(page->boxes[i].score - lines[i].box_score);
    worst[2] += off > 1e-3;
    if (distance > 1 || off > 1e-2)
      fail_msg("%s, box %zu (\"%s\"): %.1f pixels off, score %f %f", name, i, lines[i].text, distance,
               (double)page->boxes[i].score, lines[i].box_score);
    worst[0] = fmax(worst[0], distance);
    if (strcmp(page->lines[i].text, lines[i].text) != 0)
      fail_msg("%s: \"%s\", not \"%s\"", name, page->lines[i].text, lines[i].text);
    const double difference = fabs(page->lines[i].score - lines[i].score);
    worst[1] = fmax(worst[1], difference);
    // A corner that is one pixel off changes the pixels that are read.
    if (difference > (distance > 0 ? 0.05 : 2e-3))
      fail_msg("%s: \"%s\": score %f, not %f", name, lines[i].text, (double)page->lines[i].score, lines[i].score);
  }
}

static void compare_with_rapidocr(const page_result *page, const expected_line *lines, size_t count, const char *name,
                                  size_t *boxes, size_t *texts) {
  for (size_t i = 0; i < count; i++) {
    size_t at = page->count;
    for (size_t k = 0; k < page->count && at == page->count; k++)
      if (furthest(&page->boxes[k], &lines[i]) <= 2) at = k;
    if (at == page->count) {
      printf("%s: no box within 2 pixels of \"%s\"\n", name, lines[i].text);
      continue;
    }
    ++*boxes;
    if (same_letters(page->lines[at].text, lines[i].text))
      ++*texts;
    else
      printf("%s: \"%s\", rapidocr \"%s\"\n", name, page->lines[at].text, lines[i].text);
  }
}

static void read_all(const char *family) {
  static expected_line lines[MOST_LINES];
  size_t open_count = 0, total = 0, rapid_total = 0, rapid_boxes = 0, rapid_texts = 0, read_pages = 0;
  double worst[3] = {0, 0, 0}; // Pixels, score of a text, and the number of scores of boxes that are off.
  itg_service *detection = open_service(ITG_SERVICE_OCR_DETECTION, family, &open_count);
  itg_service *recognition = open_service(ITG_SERVICE_OCR_RECOGNITION, family, &open_count);
  itg_mapped_file immich = open_expected(family, "immich"), rapid = open_expected(family, "rapid");
  itg_mapped_file slow = open_expected(family, "slow");
  itg_span rest[3] = {immich.bytes, rapid.bytes, slow.bytes};
  for (size_t i = 0; i < pages.count && rest[0].size; i++, read_pages++) {
    itg_image image = {0};
    page_result page = {0};
    itg_text_options options = {.min_score = 0.5, .max_resolution = 736};
    assert_int_equal(itg_image_read(pages.paths[i], NULL, NULL, &image), ITG_OK);
    assert_int_equal(itg_service_find_text(detection, &image, &options, NULL, &page.boxes, &page.count), ITG_OK);
    assert_int_equal(
        itg_service_read_text(recognition, &image, page.boxes, page.count, -1, NULL, &page.lines, &page.line_count),
        ITG_OK);
    size_t count = take_page(&rest[0], lines);
    total += count;
    compare_with_immich(&page, lines, count, pages.paths[i], worst);
    count = take_page(&rest[1], lines);
    if (i + 1 < pages.count) { // The last page is made smaller, which rapidocr does in another way.
      rapid_total += count;
      compare_with_rapidocr(&page, lines, count, pages.paths[i], &rapid_boxes, &rapid_texts);
    }
    itg_text_lines_free(page.lines, page.line_count);
    free(page.boxes);
    if (i == 0 || i + 1 == pages.count) { // The slow score on a page or two.
      options.slow_score = 1;
      assert_int_equal(itg_service_find_text(detection, &image, &options, NULL, &page.boxes, &page.count), ITG_OK);
      count = take_page(&rest[2], lines);
      assert_int_equal(page.count, count);
      for (size_t k = 0; k < count; k++) {
        assert_true(furthest(&page.boxes[k], &lines[k]) <= 1);
        assert_true(fabs(page.boxes[k].score - lines[k].box_score) <= 1e-3);
      }
      free(page.boxes);
    } else {
      take_page(&rest[2], lines);
    }
    itg_image_free(&image);
  }
  for (int k = 0; k < 3; k++) assert_int_equal(rest[k].size, 0);
  printf(
      "%s: %zu lines on %zu pages, as Immich reads them (boxes within %.0f pixel, scores within %.1e); of rapidocr's "
      "%zu lines %zu boxes within 2 pixels, %zu the same text\n",
      family, total, read_pages, worst[0], worst[1], rapid_total, rapid_boxes, rapid_texts);
  assert_true(total >= 15 && worst[2] * 8 <= (double)total);
  assert_true(rapid_boxes * 100 >= rapid_total * 95 && rapid_texts * 100 >= rapid_total * 95);
  itg_mapped_file_close(&immich);
  itg_mapped_file_close(&rapid);
  itg_mapped_file_close(&slow);
  itg_service_close(detection);
  itg_service_close(recognition);
  assert_int_equal(open_count, 0);
}

static void the_fourth_version_reads_like_the_references(void **state) {
  (void)state;
  read_all("v4");
}
static void the_sixth_version_reads_like_the_references(void **state) {
  (void)state;
  read_all("v6");
}

int main(void) {
  char path[4200];
  snprintf(path, sizeof path, "%s/rapidocr", oracle_models());
  if (!oracle_exists(path) || !oracle_has("cv2, PIL, onnxruntime, rapidocr, rapidocr_onnxruntime")) {
    printf("skipped: needs the PP-OCR models and Python with OpenCV, Pillow, ONNX Runtime and rapidocr\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_fourth_version_reads_like_the_references),
                                     cmocka_unit_test(the_sixth_version_reads_like_the_references)};
  return cmocka_run_group_tests(tests, run_oracle, remove_oracle);
}
