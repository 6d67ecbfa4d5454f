// The description of a language model: round trip through JSON, refusals, rotary tables.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/language_config.h"

static itg_language_config example(void) {
  itg_language_config config;
  itg_language_config_init(&config);
  config.family = ITG_LANGUAGE_LLAMA;
  config.layers = 2;
  config.hidden = 96;
  config.intermediate = 256;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_size = 16;
  config.vocabulary = 1024;
  config.maximum_positions = 8192;
  config.norm_epsilon = 1e-5;
  config.rope.theta = 1e5;
  config.bos = 1;
  config.eos[config.eos_count++] = 1023;
  config.eos[config.eos_count++] = 2;
  config.image_token = 934;
  config.vision = (itg_vision_config){.family = ITG_VISION_IDEFICS3,
                                      .layers = 2,
                                      .hidden = 64,
                                      .heads = 4,
                                      .head_size = 16,
                                      .intermediate = 192,
                                      .image_size = 128,
                                      .patch_size = 16,
                                      .norm_epsilon = 1e-6,
                                      .gelu_tanh = true,
                                      .attention_bias = true,
                                      .shuffle = 4,
                                      .tile_tokens = 4,
                                      .maximum_edge = 512,
                                      .split = true};
  return config;
}

static itg_status parse(const char *text, itg_language_config *out) {
  itg_diagnostic diagnostic;
  return itg_language_config_parse((itg_span){(const uint8_t *)text, strlen(text)}, &diagnostic, out);
}

static void json_gives_the_same_back(void **state) {
  (void)state;
  itg_language_config config = example(), back;
  config.rope.kind = ITG_ROPE_FACTORS;
  for (int i = 0; i < 8; i++) config.rope.factors[i] = 1 + 0.25f * (float)i;
  char *text = itg_language_config_to_json(&config);
  assert_non_null(text);
  assert_int_equal(parse(text, &back), ITG_OK);
  char *again = itg_language_config_to_json(&back);
  assert_string_equal(text, again);
  assert_float_equal(back.rope.factors[7], 2.75f, 0);
  assert_int_equal(back.eos[1], 2);
  free(text);
  free(again);
}

static void wrong_descriptions_are_refused(void **state) {
  (void)state;
  itg_language_config config = example(), out;
  assert_int_equal(itg_language_config_check(&config, NULL), ITG_OK);
  config.kv_heads = 4;
  assert_int_equal(itg_language_config_check(&config, NULL), ITG_ERROR_UNSUPPORTED);
  config = example();
  config.vision.tile_tokens = 5;
  assert_int_equal(itg_language_config_check(&config, NULL), ITG_ERROR_FORMAT);
  config = example();
  config.eos[0] = 1024;
  assert_int_equal(itg_language_config_check(&config, NULL), ITG_ERROR_FORMAT);
  config = example();
  char *text = itg_language_config_to_json(&config);
  char *layers = strstr(text, "\"layers\"");
  layers[1] = 'L';
  assert_int_equal(parse(text, &out), ITG_ERROR_UNSUPPORTED);
  free(text);
  assert_int_equal(parse("{}", &out), ITG_ERROR_FORMAT);
  assert_int_equal(parse("[", &out), ITG_ERROR_FORMAT);
}

static void tables_hold_cosines_and_sines(void **state) {
  (void)state;
  itg_language_config config = example();
  float cosines[5 * 8], sines[5 * 8];
  assert_int_equal(itg_rope_tables(&config, 3, 5, NULL, cosines, sines), ITG_OK);
  for (int t = 0; t < 5; t++) {
    for (int i = 0; i < 8; i++) {
      const double angle = (3 + t) * pow(1e5, -i / 8.0);
      assert_true(fabs((double)cosines[t * 8 + i] - cos(angle)) < 1e-6);
      assert_true(fabs((double)sines[t * 8 + i] - sin(angle)) < 1e-6);
    }
  }
}

// Values of the published formula for head size 64, theta 500000, factor 32, low 1, high 4, original context 8192:
// the fastest pair stays, the slowest is divided by 32, one between is interpolated.
static void llama_3_frequencies_follow_the_ramp(void **state) {
  (void)state;
  itg_language_config config = example();
  config.head_size = 64;
  config.rope = (itg_rope_config){ITG_ROPE_LLAMA3, 500000, 32, 1, 4, 8192, {0}};
  double out[32];
  itg_rope_frequencies(&config, out);
  assert_true(out[0] == 1);
  const double slow = pow(500000, -62.0 / 64);
  assert_true(fabs(out[31] / (slow / 32) - 1) < 1e-12);
  int between = 0;
  for (int i = 0; i < 32; i++) {
    const double plain = pow(500000, -2.0 * i / 64), wavelength = 2 * M_PI / plain;
    if (wavelength < 8192 / 4.0) {
      assert_true(out[i] == plain);
    } else if (wavelength > 8192) {
      assert_true(fabs(out[i] / (plain / 32) - 1) < 1e-12);
    } else {
      const double smooth = (8192 / wavelength - 1) / (4 - 1);
      assert_true(fabs(out[i] - ((1 - smooth) * plain / 32 + smooth * plain)) < 1e-15);
      between++;
    }
  }
  assert_true(between > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(json_gives_the_same_back), cmocka_unit_test(wrong_descriptions_are_refused),
      cmocka_unit_test(tables_hold_cosines_and_sines), cmocka_unit_test(llama_3_frequencies_follow_the_ramp)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
