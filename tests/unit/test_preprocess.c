// Preprocessing descriptions: the built-in ones, every fitting rule, and descriptions that are refused.
#include <math.h>
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

static itg_preprocess *parse(const char *json) {
  itg_preprocess *p = NULL;
  itg_diagnostic why = {0};
  if (itg_preprocess_from_json(json, strlen(json), &why, &p) != ITG_OK) fail_msg("%s: %s", json, why.message);
  return p;
}

static itg_image picture(int width, int height, int channels) {
  itg_image image = {0};
  assert_int_equal(itg_image_create(width, height, channels, NULL, &image), ITG_OK);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < channels; c++) image.pixels[(y * width + x) * channels + c] = (uint8_t)(10 * y + x + 80 * c);
  return image;
}

static itg_shape shape(int64_t a, int64_t b, int64_t c, int64_t d) { return (itg_shape){4, {a, b, c, d}}; }

static float out[3 * 256 * 256 * 2];

static void built_in_descriptions_open_and_run(void **state) {
  (void)state;
  itg_image photo = picture(60, 48, 3);
  for (size_t i = 0; itg_preprocess_builtin_name(i); i++) {
    const char *name = itg_preprocess_builtin_name(i);
    itg_preprocess *p = NULL, *again = NULL;
    assert_int_equal(itg_preprocess_open(name, NULL, &p), ITG_OK);
    // Its own text means the same.
    assert_int_equal(itg_preprocess_from_json(itg_preprocess_json(p), strlen(itg_preprocess_json(p)), NULL, &again),
                     ITG_OK);
    assert_string_equal(itg_preprocess_json(p), itg_preprocess_json(again));
    itg_preprocess_close(again);
    static const struct {
      const char *name;
      int channels, height, width;
    } sizes[] = {{"arcface", 3, 112, 112},
                 {"faceplugin-embedder", 3, 112, 112},
                 {"faceplugin-detector", 3, 240, 320},
                 {"faceplugin-landmarks", 1, 64, 64},
                 {"imagenet", 3, 224, 224},
                 {"ppocr-recognition", 3, 48, 200},
                 {"", 3, 128, 128}};
    size_t k = 0;
    while (sizes[k].name[0] && strcmp(sizes[k].name, name) != 0) k++;
    const itg_shape input = shape(1, sizes[k].channels, sizes[k].height, sizes[k].width);
    itg_diagnostic why;
    if (itg_preprocess_run(p, &photo, &input, &why, out) != ITG_OK) fail_msg("%s: %s", name, why.message);
    for (int n = 0; n < sizes[k].channels * sizes[k].height * sizes[k].width; n++) assert_true(isfinite(out[n]));
    itg_preprocess_close(p);
  }
  itg_image_free(&photo);
  itg_preprocess *p = NULL;
  itg_diagnostic why;
  assert_int_equal(itg_preprocess_open("imagenot", &why, &p), ITG_ERROR_ARGUMENT);
  assert_non_null(strstr(why.message, "imagenet"));
  assert_int_equal(itg_preprocess_open("./no-such.json", &why, &p), ITG_ERROR_IO);
  itg_preprocess_close(NULL);
}

static void layouts_and_channel_orders(void **state) {
  (void)state;
  itg_image photo = picture(4, 3, 3);
  itg_preprocess *p = parse("{\"resize\": {\"rule\": \"none\"}}");
  itg_shape s = shape(1, 3, 3, 4);
  assert_int_equal(itg_preprocess_run(p, &photo, &s, NULL, out), ITG_OK);
  for (int c = 0; c < 3; c++)
    for (int i = 0; i < 12; i++) assert_true(out[c * 12 + i] == photo.pixels[3 * i + c]);
  itg_preprocess_close(p);
  p = parse("{\"resize\": {\"rule\": \"none\"}, \"layout\": \"NHWC\", \"channels\": \"BGR\", \"divide_by\": 2, "
            "\"mean\": [1, 2, 3], "
            "\"std\": [4, 5, 8]}");
  s = shape(1, 3, 4, 3);
  assert_int_equal(itg_preprocess_run(p, &photo, &s, NULL, out), ITG_OK);
  for (int i = 0; i < 12; i++) {
    assert_true(out[3 * i] == (float)((photo.pixels[3 * i + 2] / 2.0 - 1) / 4));
    assert_true(out[3 * i + 2] == (float)((photo.pixels[3 * i] / 2.0 - 3) / 8));
  }
  itg_preprocess_close(p);
  p = parse("{\"resize\": {\"rule\": \"none\"}, \"channels\": \"grey\", \"divide_by\": 256}");
  s = shape(1, 1, 3, 4);
  uint8_t grey[12];
  itg_grey_opencv(photo.pixels, 12, grey);
  assert_int_equal(itg_preprocess_run(p, &photo, &s, NULL, out), ITG_OK);
  for (int i = 0; i < 12; i++) assert_true(out[i] == grey[i] / 256.0f);
  itg_preprocess_close(p);
  itg_image_free(&photo);
  // A grey picture for a network with colours.
  photo = picture(4, 3, 1);
  p = parse("{\"resize\": {\"rule\": \"none\"}}");
  s = shape(1, 3, 3, 4);
  assert_int_equal(itg_preprocess_run(p, &photo, &s, NULL, out), ITG_OK);
  for (int c = 0; c < 3; c++)
    for (int i = 0; i < 12; i++) assert_true(out[c * 12 + i] == photo.pixels[i]);
  itg_preprocess_close(p);
  itg_image_free(&photo);
}

// The picture resized to w x h must appear in the 3x`rows`x`columns` output at (left, top), from its pixel (x, y) on;
// elsewhere `fill`.
static void check_placed(const itg_image *photo, itg_resize_method method, int w, int h, int left, int top, int x,
                         int y, int rows, int columns, float fill) {
  itg_image fitted = {0};
  assert_int_equal(itg_image_resize(photo, method, w, h, NULL, &fitted), ITG_OK);
  for (int c = 0; c < 3; c++) {
    for (int row = 0; row < rows; row++) {
      for (int column = 0; column < columns; column++) {
        const int fy = row - top + y, fx = column - left + x;
        const int inside = row >= top && column >= left && fy < h && fx < w;
        assert_true(out[(c * rows + row) * columns + column] ==
                    (inside ? (float)fitted.pixels[(fy * w + fx) * 3 + c] : fill));
      }
    }
  }
  itg_image_free(&fitted);
}

static void rules_place_the_picture(void **state) {
  (void)state;
  itg_image wide = picture(60, 25, 3), tall = picture(31, 90, 3);
  const itg_shape square = shape(1, 3, 32, 32);
  itg_preprocess *p = parse("{\"resize\": {\"rule\": \"squash\", \"method\": \"opencv-linear\"}}");
  assert_int_equal(itg_preprocess_run(p, &wide, &square, NULL, out), ITG_OK);
  check_placed(&wide, ITG_RESIZE_OPENCV_LINEAR, 32, 32, 0, 0, 0, 0, 32, 32, 0);
  itg_preprocess_close(p);
  // 25 -> 36: 60 * 36 / 25 = 86.4, cut to 86; the middle 32 start at 27 and 2.
  p = parse("{\"resize\": {\"rule\": \"shortest-center-crop\", \"method\": \"pillow-bicubic\", \"shortest\": 36}, "
            "\"size\": [32, 32]}");
  assert_int_equal(itg_preprocess_run(p, &wide, &square, NULL, out), ITG_OK);
  check_placed(&wide, ITG_RESIZE_PILLOW_BICUBIC, 86, 36, 0, 0, 27, 2, 32, 32, 0);
  // 31 -> 36: 90 * 36 / 31 = 104.5; (104 - 32) / 2 = 36.
  assert_int_equal(itg_preprocess_run(p, &tall, &square, NULL, out), ITG_OK);
  check_placed(&tall, ITG_RESIZE_PILLOW_BICUBIC, 36, 104, 0, 0, 2, 36, 32, 32, 0);
  const itg_shape other = shape(1, 3, 32, 33), large = shape(1, 3, 64, 64);
  assert_int_equal(itg_preprocess_run(p, &tall, &other, NULL, out), ITG_ERROR_SHAPE);
  itg_preprocess_close(p);
  p = parse("{\"resize\": {\"rule\": \"shortest-center-crop\", \"method\": \"pillow-box\", \"shortest\": 36}}");
  assert_int_equal(itg_preprocess_run(p, &tall, &large, NULL, out), ITG_ERROR_SHAPE);
  itg_preprocess_close(p);
  // 60x25 into 32x32: 32 x 13.33 -> 13, 19 left over, 9 of them above.
  p = parse("{\"resize\": {\"rule\": \"letterbox\", \"method\": \"opencv-linear\", \"fill\": 114}}");
  assert_int_equal(itg_preprocess_run(p, &wide, &square, NULL, out), ITG_OK);
  check_placed(&wide, ITG_RESIZE_OPENCV_LINEAR, 32, 13, 0, 9, 0, 0, 32, 32, 114);
  itg_preprocess_close(p);
  p = parse("{\"resize\": {\"rule\": \"letterbox\", \"method\": \"pillow-lanczos\", \"align\": \"top-left\", \"fill\": "
            "7.5}}");
  assert_int_equal(itg_preprocess_run(p, &tall, &square, NULL, out), ITG_OK);
  check_placed(&tall, ITG_RESIZE_PILLOW_LANCZOS, 11, 32, 0, 0, 0, 0, 32, 32, 7.5f);
  itg_preprocess_close(p);
  // Height 16: 60 * 16 / 25 = 38.4, up to 39; and a picture that is too wide is squashed.
  p = parse("{\"resize\": {\"rule\": \"fit-height\", \"method\": \"opencv-linear\", \"fill\": 3}}");
  const itg_shape line = shape(1, 3, 16, 64), narrow = shape(1, 3, 16, 30);
  assert_int_equal(itg_preprocess_run(p, &wide, &line, NULL, out), ITG_OK);
  check_placed(&wide, ITG_RESIZE_OPENCV_LINEAR, 39, 16, 0, 0, 0, 0, 16, 64, 3);
  assert_int_equal(itg_preprocess_run(p, &wide, &narrow, NULL, out), ITG_OK);
  check_placed(&wide, ITG_RESIZE_OPENCV_LINEAR, 30, 16, 0, 0, 0, 0, 16, 30, 3);
  itg_preprocess_close(p);
  itg_image_free(&wide);
  itg_image_free(&tall);
}

static void extreme_pictures(void **state) {
  (void)state;
  itg_image dot = picture(1, 1, 3), thread = picture(200000, 1, 1);
  for (size_t i = 0; itg_preprocess_builtin_name(i); i++) {
    itg_preprocess *p = NULL;
    assert_int_equal(itg_preprocess_open(itg_preprocess_builtin_name(i), NULL, &p), ITG_OK);
    const itg_shape inputs[] = {shape(1, 3, 32, 32), shape(1, 3, 112, 112), shape(1, 3, 224, 224), shape(1, 1, 64, 64),
                                shape(1, 3, 240, 320)};
    int fitting = 0;
    for (size_t k = 0; k < sizeof inputs / sizeof inputs[0]; k++) {
      itg_diagnostic why = {0};
      const itg_status a = itg_preprocess_run(p, &dot, &inputs[k], &why, out);
      const itg_status b = itg_preprocess_run(p, &thread, &inputs[k], &why, out);
      assert_true(a == ITG_OK || a == ITG_ERROR_SHAPE);
      assert_true(b == ITG_OK || b == ITG_ERROR_SHAPE || b == ITG_ERROR_LIMIT);
      fitting += a == ITG_OK;
    }
    assert_true(fitting >= 1);
    itg_preprocess_close(p);
  }
  itg_preprocess *p = parse("{\"resize\": {\"rule\": \"squash\", \"method\": \"pillow-box\"}}");
  const itg_shape bad[] = {{3, {3, 32, 32}},
                           shape(2, 3, 8, 8),
                           shape(1, 1, 8, 8),
                           shape(1, 3, 0, 8),
                           shape(1, 3, 8, -1),
                           shape(1, 3, 1 << 21, 8),
                           shape(1, 3, 1 << 20, 1 << 20)};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_int_equal(itg_preprocess_run(p, &dot, &bad[i], NULL, out), ITG_ERROR_SHAPE);
  const itg_shape good = shape(1, 3, 8, 8);
  assert_int_equal(itg_preprocess_run(p, &(itg_image){0}, &good, NULL, out), ITG_ERROR_ARGUMENT);
  itg_preprocess_close(p);
  itg_image_free(&dot);
  itg_image_free(&thread);
}

static void wrong_descriptions_are_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "",
      "[]",
      "{",
      "{}",
      "{\"resize\": 1}",
      "{\"resize\": {}}",
      "{\"resize\": {\"rule\": \"squash\"}}",
      "{\"resize\": {\"rule\": \"stretch\", \"method\": \"pillow-box\"}}",
      "{\"resize\": {\"rule\": \"squash\", \"method\": \"pillow-mitchell\"}}",
      "{\"resize\": {\"rule\": \"squash\", \"method\": 3}}",
      "{\"resize\": {\"rule\": \"none\"}, \"sise\": [1, 2]}",
      "{\"resize\": {\"rule\": \"none\", \"x\": 1}}",
      "{\"resize\": {\"rule\": \"none\"}, \"resize\": {\"rule\": \"none\"}}",
      "{\"resize\": {\"rule\": \"none\"}, \"size\": [224]}",
      "{\"resize\": {\"rule\": \"none\"}, \"size\": [0, 224]}",
      "{\"resize\": {\"rule\": \"none\"}, \"size\": [1.5, 224]}",
      "{\"resize\": {\"rule\": \"none\"}, \"size\": [1, 99999999]}",
      "{\"resize\": {\"rule\": \"none\"}, \"layout\": \"CHWN\"}",
      "{\"resize\": {\"rule\": \"none\"}, \"channels\": \"YUV\"}",
      "{\"resize\": {\"rule\": \"none\"}, \"mean\": [1, 2]}",
      "{\"resize\": {\"rule\": \"none\"}, \"mean\": \"1\"}",
      "{\"resize\": {\"rule\": \"none\"}, \"mean\": [1, 2, \"3\"]}",
      "{\"resize\": {\"rule\": \"none\"}, \"channels\": \"grey\", \"mean\": [1, 2, 3]}",
      "{\"resize\": {\"rule\": \"none\"}, \"std\": 0}",
      "{\"resize\": {\"rule\": \"none\"}, \"std\": [1, 1, -1]}",
      "{\"resize\": {\"rule\": \"none\"}, \"mean\": 1e300}",
      "{\"resize\": {\"rule\": \"none\"}, \"divide_by\": 0}",
      "{\"resize\": {\"rule\": \"none\"}, \"divide_by\": -255}",
      "{\"resize\": {\"rule\": \"none\"}, \"divide_by\": \"255\"}",
      "{\"resize\": {\"rule\": \"none\", \"fill\": 1}}",
      "{\"resize\": {\"rule\": \"squash\", \"method\": \"pillow-box\", \"align\": \"center\"}}",
      "{\"resize\": {\"rule\": \"squash\", \"method\": \"pillow-box\", \"shortest\": 5}}",
      "{\"resize\": {\"rule\": \"letterbox\", \"method\": \"pillow-box\", \"fill\": 256}}",
      "{\"resize\": {\"rule\": \"letterbox\", \"method\": \"pillow-box\", \"align\": \"left\"}}",
      "{\"resize\": {\"rule\": \"shortest-center-crop\", \"method\": \"pillow-box\", \"shortest\": 0}}",
      "{\"resize\": {\"rule\": \"none\"}} x",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    itg_preprocess *p = NULL;
    itg_diagnostic why = {0};
    if (itg_preprocess_from_json(wrong[i], strlen(wrong[i]), &why, &p) != ITG_ERROR_FORMAT)
      fail_msg("taken: %s", wrong[i]);
    assert_true(why.message[0] != 0);
  }
  itg_preprocess *p = NULL;
  itg_diagnostic why;
  char *large = malloc(70000);
  memset(large, ' ', 70000);
  assert_int_equal(itg_preprocess_from_json(large, 70000, &why, &p), ITG_ERROR_FORMAT);
  free(large);
  const char *text = "{\"resize\": {\"rule\": \"none\"}}";
  assert_int_equal(itg_write_file("test_preprocess.json", text, strlen(text), NULL), ITG_OK);
  assert_int_equal(itg_preprocess_open("test_preprocess.json", NULL, &p), ITG_OK);
  itg_preprocess_close(p);
  unlink("test_preprocess.json");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(built_in_descriptions_open_and_run),
                                     cmocka_unit_test(layouts_and_channel_orders),
                                     cmocka_unit_test(rules_place_the_picture), cmocka_unit_test(extreme_pictures),
                                     cmocka_unit_test(wrong_descriptions_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
