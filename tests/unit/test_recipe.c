// Recipes: the built-in ones, strict parsing, and that what is written can be read again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quantize/recipe.h"

static itg_status parse(const char *text, itg_diagnostic *diagnostic, itg_recipe *out) {
  return itg_recipe_parse((itg_span){(const uint8_t *)text, strlen(text)}, diagnostic, out);
}

static void builtin_recipes_have_the_known_names(void **state) {
  (void)state;
  itg_recipe recipe;
  itg_diagnostic why;
  const char *const names[] = {"a8w8", "a16w8", "a8w8+s16", "a16w4"};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(itg_recipe_builtin(names[i], &why, &recipe), ITG_OK);
    assert_string_equal(recipe.precision, names[i]);
    itg_recipe_free(&recipe);
  }
  assert_int_equal(itg_recipe_builtin("a4w4", &why, &recipe), ITG_ERROR_ARGUMENT);
  assert_non_null(strstr(why.message, "a8w8+s16"));
}

static void a_recipe_survives_being_written_and_read(void **state) {
  (void)state;
  itg_recipe recipe, again;
  assert_int_equal(parse("{\"precision\": \"a16w8\", \"range_method\": \"min-max\", \"equalize_for\": 8, "
                         "\"methods\": {\"bias-correction\": false, \"mse-ranges\": true}, \"rules\": ["
                         "{\"op\": \"Conv\", \"activation_bits\": 16, \"weight_method\": \"mse\"},"
                         "{\"name\": \"head*\", \"range_method\": \"mse\", \"weight_bits\": 4, \"weight_block\": 32},"
                         "{\"input\": \"x\", \"activation_bits\": 16}]}",
                         NULL, &recipe),
                   ITG_OK);
  char *text = itg_recipe_to_json(&recipe);
  assert_non_null(text);
  assert_int_equal(parse(text, NULL, &again), ITG_OK);
  assert_string_equal(again.precision, "a16w8");
  assert_int_equal(again.range_method, ITG_RANGE_MIN_MAX);
  assert_int_equal(again.weight_method, ITG_WEIGHT_NEAREST);
  assert_int_equal(again.methods_off, 1u << ITG_METHOD_BIAS_CORRECTION);
  assert_int_equal(again.equalize_for, 8);
  assert_int_equal(itg_recipe_equalization(&again, NULL).operand_bits, 8);
  again.equalize_for = 0;
  assert_int_equal(itg_recipe_equalization(&again, NULL).operand_bits, 16);
  assert_int_equal(again.rule_count, 3);
  assert_string_equal(again.rules[2].input, "x");
  assert_string_equal(again.rules[0].op, "Conv");
  assert_null(again.rules[0].name);
  assert_int_equal(again.rules[0].activation_bits, 16);
  assert_int_equal(again.rules[0].weight_bits, 0);
  assert_int_equal(again.rules[0].range_method, -1);
  assert_int_equal(again.rules[0].weight_method, ITG_WEIGHT_MSE);
  assert_null(again.rules[1].op);
  assert_string_equal(again.rules[1].name, "head*");
  assert_int_equal(again.rules[1].range_method, ITG_RANGE_MSE);
  assert_int_equal(again.rules[1].weight_bits, 4);
  assert_int_equal(again.rules[1].weight_block, 32);
  assert_int_equal(again.rules[0].weight_block, -1);
  free(text);
  itg_recipe_free(&recipe);
  itg_recipe_free(&again);
}

static void mistakes_are_refused_with_their_place(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"{\"precision\": \"a8w8\",\n\"rules\": [}", "line 2"},
      {"[]", "object"},
      {"{\"precison\": \"a8w8\"}", "\"precison\""},
      {"{\"precision\": \"a9\"}", "a16w8"},
      {"{\"precision\": 8}", "a16w8"},
      {"{\"rules\": {}}", "list"},
      {"{\"rules\": [1]}", "rule 1"},
      {"{\"rules\": [{}, {\"bits\": 8}]}", "rule 2"},
      {"{\"rules\": [{\"op\": \"Convolution\"}]}", "Convolution"},
      {"{\"rules\": [{\"op\": 3}]}", "rule 1"},
      {"{\"rules\": [{\"op\": \"Conv\", \"input\": \"x\"}]}", "not for both"},
      {"{\"rules\": [{\"activation_bits\": 7}]}", "8, 16"},
      {"{\"rules\": [{\"weight_bits\": 16}]}", "one of: 4, 8"},
      {"{\"weight_block\": 48}", "16, 32, 64"},
      {"{\"equalize_for\": 4}", "8, 16"},
      {"{\"rules\": [{\"range_method\": \"kl\"}]}", "min-max"},
      {"{\"methods\": []}", "object"},
      {"{\"methods\": {\"bias-correction\": 0}}", "true or false"},
      {"{\"methods\": {\"bias\": false}}", "bias-correction"},
      {"{\"precision\": \"a8w8\", \"precision\": \"a8w8\"}", "duplicate"},
      {"", "not JSON"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    itg_recipe recipe;
    itg_diagnostic why;
    assert_int_equal(parse(cases[i].text, &why, &recipe), ITG_ERROR_FORMAT);
    if (!strstr(why.message, cases[i].message)) fail_msg("\"%s\" lacks \"%s\"", why.message, cases[i].message);
  }
}

static void a_huge_recipe_is_refused(void **state) {
  (void)state;
  const size_t size = 2 << 20;
  char *text = malloc(size);
  assert_non_null(text);
  memset(text, ' ', size);
  itg_recipe recipe;
  assert_int_equal(itg_recipe_parse((itg_span){(const uint8_t *)text, size}, NULL, &recipe), ITG_ERROR_LIMIT);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(builtin_recipes_have_the_known_names),
      cmocka_unit_test(a_recipe_survives_being_written_and_read),
      cmocka_unit_test(mistakes_are_refused_with_their_place),
      cmocka_unit_test(a_huge_recipe_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
