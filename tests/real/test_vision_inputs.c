// Pictures and prompts of vision-language models against the references: tiles within 1 (one tile) or 2 codes of the reference's
// resampler in few places, and equal to Pillow's; normalised values; prompts to the letter, token ids equal.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "import/language/model.h"
#include "pipelines/vision_tiles.h"
#include "support/language_reference.h"

static itg_diagnostic why;
static void check(itg_status status) {
  if (status != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
}

static itg_image read_picture(const char *folder) {
  int64_t dims[4] = {0};
  float *values = reference_array(folder, "image_rgb", dims);
  assert_non_null(values);
  itg_image image = {(int32_t)dims[1], (int32_t)dims[0], 3, malloc((size_t)(dims[0] * dims[1] * 3))};
  for (int64_t i = 0; i < dims[0] * dims[1] * 3; i++) image.pixels[i] = (uint8_t)values[i];
  free(values);
  return image;
}

// The prompt of the reference with each picture's tokens folded back into one placeholder.
static char *question(const itg_vision_config *vision) {
  return strdup(vision->family == ITG_VISION_INTERNVL
                    ? "<|im_start|>user\n<IMG_CONTEXT>\nCan you describe this image?<|im_end|>\n<|im_start|>assistant\n"
                    : "<|im_start|>User:<image>Can you describe this image?<end_of_utterance>\nAssistant:");
}

static void compare_pixels(const itg_vision_config *vision, const itg_vision_tiles *tiles, const char *folder) {
  int64_t dims[4] = {0};
  float *expected = reference_array(folder, "tiles_u8", dims);
  assert_non_null(expected);
  assert_int_equal(dims[0], tiles->count);
  assert_int_equal(dims[3], tiles->side);
  const size_t plane = (size_t)(dims[2] * dims[3]);
  size_t different = 0, total = tiles->count * 3 * plane;
  int largest = 0;
  for (size_t i = 0; i < total; i++) {
    const size_t tile = i / (3 * plane), c = i / plane % 3, at = i % plane;
    const int difference = abs((int)tiles->pixels[(tile * plane + at) * 3 + c] - (int)expected[i]);
    different += difference != 0;
    if (difference > largest) largest = difference;
  }
  printf("%s: %zu of %zu values differ, by at most %d\n", folder, different, total, largest);
  assert_true(largest <= (tiles->count > 1 ? 2 : 1));
  assert_true((double)different <= 0.03 * (double)total);
  free(expected);
  // Values: from the reference's own codes nothing but the normalisation is left.
  float *values = reference_array(folder, "pixel_values", dims), *ours = malloc(3 * plane * sizeof *ours);
  expected = reference_array(folder, "tiles_u8", dims);
  itg_vision_tiles given = {.count = tiles->count, .side = tiles->side, .pixels = malloc(total)};
  for (size_t i = 0; i < total; i++)
    given.pixels[(i / (3 * plane) * plane + i % plane) * 3 + i / plane % 3] = (uint8_t)expected[i];
  for (size_t t = 0; values && t < tiles->count; t++) {
    itg_vision_tile_values(vision, &given, t, ours);
    for (size_t i = 0; i < 3 * plane; i++) assert_true(fabsf(ours[i] - values[t * 3 * plane + i]) < 2e-6f);
  }
  free(given.pixels);
  free(values);
  free(expected);
  free(ours);
}

static void compare_prompt(const itg_vision_config *vision, const itg_vision_tiles *tiles, const char *folder,
                           const itg_tokenizer *tokenizer) {
  char path[32768];
  itg_mapped_file file;
  itg_text text = {0};
  itg_token_ids ids = {0};
  char *prompt = question(vision);
  check(itg_vision_expand_prompt(vision, (itg_span){(uint8_t *)prompt, strlen(prompt)}, tiles, 1, &why, &text));
  snprintf(path, sizeof path, "%s/prompt.txt", folder);
  check(itg_mapped_file_open(path, &why, &file));
  assert_int_equal(text.size, file.bytes.size);
  assert_memory_equal(text.data, file.bytes.data, text.size);
  itg_mapped_file_close(&file);
  check(itg_tokenizer_encode(tokenizer, (itg_span){text.data, text.size}, NULL, &why, &ids));
  int64_t dims[4] = {0};
  float *expected = reference_array(folder, "input_ids", dims);
  assert_non_null(expected);
  assert_int_equal(ids.count, dims[0]);
  for (size_t i = 0; i < ids.count; i++) assert_int_equal(ids.ids[i], (int32_t)expected[i]);
  free(expected);
  free(prompt);
  itg_text_free(&text);
  itg_token_ids_free(&ids);
}

static void inputs_equal_the_reference(void **state) {
  (void)state;
  static const char *const names[] = {"vlm/smolvlm-tiny", "vlm/internvl3-tiny", "vlm-full/smolvlm-500m",
                                      "vlm-full/internvl3-1b"};
  char path[4096], folder[16384];
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/data/%s", oracle_shared(), names[i]);
    if (!oracle_exists(path)) {
      printf("skipped: %s is not there\n", path);
      skip();
    }
    itg_language_model *model = calloc(1, sizeof *model);
    // The full-size folders have no weights, which are not needed here.
    const itg_status status = itg_language_open_folder(path, &why, model);
    if (status != ITG_OK && !strstr(why.subject, "safetensors")) check(status);
    const itg_vision_config *vision = &model->config.vision;
    itg_tokenizer *tokenizer = NULL;
    check(itg_tokenizer_open((itg_span){(uint8_t *)model->tokenizer_json, model->tokenizer_size}, &why, &tokenizer));
    snprintf(folder, sizeof folder, "%s/reference", path);
    itg_image picture = read_picture(folder);
    for (int tiled = 0; tiled < 2; tiled++) {
      snprintf(folder, sizeof folder, "%s/reference/%s", path, tiled ? "tiled" : "single");
      itg_vision_config split = *vision;
      split.split = true; // The reference made both kinds, whatever the model's own setting.
      itg_vision_tiles tiles;
      check(itg_vision_tiles_make(&split, &picture, tiled, &why, &tiles));
      compare_pixels(vision, &tiles, folder);
      compare_prompt(vision, &tiles, folder, tokenizer);
      itg_vision_tiles_free(&tiles);
    }
    itg_image_free(&picture);
    itg_tokenizer_close(tokenizer);
    itg_language_model_close(model);
  }
}

static void pictures_and_places_must_agree(void **state) {
  (void)state;
  const itg_vision_config vision = {.family = ITG_VISION_IDEFICS3, .tile_tokens = 1};
  const itg_vision_tiles tiles[2] = {{.count = 1}, {.count = 1}};
  itg_text text = {0};
  const itg_span two = {(const uint8_t *)"<image> and <image>", 19};
  assert_int_equal(itg_vision_expand_prompt(&vision, two, tiles, 2, &why, &text), ITG_OK);
  assert_int_equal(itg_vision_expand_prompt(&vision, two, tiles, 1, &why, &text), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_vision_expand_prompt(&vision, (itg_span){two.data, 7}, tiles, 2, &why, &text),
                   ITG_ERROR_ARGUMENT);
  itg_text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(inputs_equal_the_reference),
                                     cmocka_unit_test(pictures_and_places_must_agree)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
