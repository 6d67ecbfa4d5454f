// Built-in recipes, and recipes as JSON (docs/FORMATS.md, "Recipe"). Parsing is strict: an unknown key or value is an
// error with its position, because a misspelt rule that is ignored costs hours.
#include "quantize/recipe.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json.h"

enum { MAX_RECIPE_BYTES = 1 << 20, MAX_RULES = 10000 };

static const char *const precisions[] = {"a8w8", "a16w8", "a8w8+s16", "a16w4"};
static const char *const range_methods[] = {"min-max", "mse"};
static const char *const weight_methods[] = {"nearest", "mse", "seqmse", "gptq"};
static const int32_t activation_bits[] = {8, 16}, weight_bits[] = {4, 8}, weight_blocks[] = {0, 16, 32, 64};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static int find_text(const char *const *list, size_t count, const char *text) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(list[i], text) == 0) return (int)i;
  }
  return -1;
}

// Four bits need the walk through the layers; eight do well without (the face embedder: README).
static itg_weight_method usual_weight_method(const itg_recipe *recipe) {
  return itg_recipe_weight_bits(recipe) == 4 ? ITG_WEIGHT_FEEDBACK : ITG_WEIGHT_NEAREST;
}

itg_status itg_recipe_builtin(const char *precision, itg_diagnostic *diagnostic, itg_recipe *out) {
  const int index = find_text(precisions, COUNT(precisions), precision);
  if (index < 0)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, precision,
             "unknown precision \"%s\"; there are a8w8, a16w8, a8w8+s16 and a16w4", precision);
  *out = (itg_recipe){.precision = precisions[index], .range_method = ITG_RANGE_MSE};
  out->weight_method = usual_weight_method(out);
  return ITG_OK;
}

int32_t itg_recipe_operand_bits(const itg_recipe *recipe) { return strncmp(recipe->precision, "a16", 3) == 0 ? 16 : 8; }
int32_t itg_recipe_weight_bits(const itg_recipe *recipe) { return strcmp(recipe->precision, "a16w4") == 0 ? 4 : 8; }

// An NPU's affine answers in as many bits as it gets, so there the 16-bit source of an 8-bit operand buys nothing.
itg_equalization itg_recipe_equalization(const itg_recipe *recipe, const itg_target *target) {
  return (itg_equalization){.operand_bits =
                                recipe->equalize_for ? recipe->equalize_for : itg_recipe_operand_bits(recipe),
                            .wide_stream = !target && strcmp(recipe->precision, "a8w8") != 0,
                            .methods_off = recipe->methods_off};
}

void itg_recipe_free(itg_recipe *recipe) {
  itg_arena_free(&recipe->arena);
  *recipe = (itg_recipe){0};
}

// Checks that `object` has no key but the listed ones.
static itg_status check_keys(const json_t *object, const char *const *known, size_t count, const char *where,
                             itg_diagnostic *diagnostic) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    if (find_text(known, count, key) < 0)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, where, "unknown key \"%s\" in %s of the recipe", key, where);
  }
  return ITG_OK;
}

// Reads an optional choice from a list; leaves *out alone when the key is absent.
static itg_status read_choice(const json_t *object, const char *key, const char *const *list, size_t count,
                              const char *where, itg_diagnostic *diagnostic, int *out) {
  const json_t *value = json_object_get(object, key);
  if (!value) return ITG_OK;
  const int index = json_is_string(value) ? find_text(list, count, json_string_value(value)) : -1;
  if (index < 0) {
    char choices[128] = "";
    for (size_t i = 0; i < count; i++) {
      if (i) strcat(choices, ", ");
      strcat(choices, list[i]);
    }
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, where, "\"%s\" in %s of the recipe must be one of: %s", key, where, choices);
  }
  *out = index;
  return ITG_OK;
}

static itg_status read_number(const json_t *object, const char *key, const int32_t *allowed, size_t count,
                              const char *where, itg_diagnostic *diagnostic, int32_t *out) {
  const json_t *value = json_object_get(object, key);
  if (!value) return ITG_OK;
  char choices[64] = "";
  for (size_t i = 0; i < count; i++) {
    if (json_is_integer(value) && json_integer_value(value) == allowed[i]) {
      *out = allowed[i];
      return ITG_OK;
    }
    const size_t length = strlen(choices);
    snprintf(choices + length, sizeof choices - length, "%s%d", i ? ", " : "", allowed[i]);
  }
  ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, where, "\"%s\" in %s of the recipe must be one of: %s", key, where, choices);
}

static itg_status read_text(itg_recipe *recipe, const json_t *object, const char *key, const char *where,
                            itg_diagnostic *diagnostic, const char **out) {
  const json_t *value = json_object_get(object, key);
  if (!value) return ITG_OK;
  if (!json_is_string(value) || json_string_length(value) == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, where, "\"%s\" in %s of the recipe must be a text", key, where);
  *out = itg_arena_string(&recipe->arena, json_string_value(value), json_string_length(value));
  ITG_TRY_MEMORY(*out, diagnostic);
  return ITG_OK;
}

static bool is_op_name(const char *name) {
  for (int op = 1; op < 1000; op++) {
    const itg_op_info *info = itg_op_get_info(op);
    if (info && strcmp(info->name, name) == 0) return true;
  }
  return false;
}

static itg_status read_rule(itg_recipe *recipe, const json_t *object, size_t index, itg_diagnostic *diagnostic) {
  static const char *const keys[] = {"op",          "name",         "input",        "activation_bits",
                                     "weight_bits", "weight_block", "range_method", "weight_method"};
  char where[32];
  snprintf(where, sizeof where, "rule %zu", index + 1);
  if (!json_is_object(object)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, where, "%s is not an object", where);
  ITG_TRY(check_keys(object, keys, COUNT(keys), where, diagnostic));
  itg_recipe_rule *rule = &recipe->rules[index];
  *rule = (itg_recipe_rule){.weight_block = -1, .range_method = -1, .weight_method = -1};
  ITG_TRY(read_text(recipe, object, "op", where, diagnostic, &rule->op));
  ITG_TRY(read_text(recipe, object, "name", where, diagnostic, &rule->name));
  ITG_TRY(read_text(recipe, object, "input", where, diagnostic, &rule->input));
  if (rule->input && (rule->op || rule->name))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, where, "%s of the recipe is for an input or for nodes, not for both", where);
  if (rule->op && !is_op_name(rule->op))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, where, "%s names an unknown operation \"%s\"", where, rule->op);
  ITG_TRY(read_number(object, "activation_bits", activation_bits, COUNT(activation_bits), where, diagnostic,
                      &rule->activation_bits));
  ITG_TRY(read_number(object, "weight_bits", weight_bits, COUNT(weight_bits), where, diagnostic, &rule->weight_bits));
  ITG_TRY(
      read_number(object, "weight_block", weight_blocks, COUNT(weight_blocks), where, diagnostic, &rule->weight_block));
  ITG_TRY(
      read_choice(object, "range_method", range_methods, COUNT(range_methods), where, diagnostic, &rule->range_method));
  return read_choice(object, "weight_method", weight_methods, COUNT(weight_methods), where, diagnostic,
                     &rule->weight_method);
}

// {"bias-correction": false}: methods are on unless switched off.
static itg_status read_methods(itg_recipe *recipe, const json_t *object, itg_diagnostic *diagnostic) {
  if (!object) return ITG_OK;
  if (!json_is_object(object))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "methods", "\"methods\" must be an object of names and true or false");
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    const itg_method method = itg_method_find(key);
    if (method == ITG_METHOD_COUNT) {
      char names[300] = "";
      for (int i = 0; i < ITG_METHOD_COUNT; i++) {
        const size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "",
                 itg_method_get_info((itg_method)i)->name);
      }
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "methods", "no method \"%s\" in the recipe; there are %s", key, names);
    }
    if (!json_is_boolean(value))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "methods", "\"%s\" in methods of the recipe must be true or false", key);
    if (!json_is_true(value)) recipe->methods_off |= (itg_methods_off)1 << method;
  }
  return ITG_OK;
}

static itg_status read_recipe(itg_recipe *recipe, const json_t *root, itg_diagnostic *diagnostic) {
  static const char *const keys[] = {"precision",    "range_method", "weight_method", "weight_block",
                                     "equalize_for", "methods",      "rules"};
  if (!json_is_object(root)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "line 1", "a recipe is a JSON object");
  ITG_TRY(check_keys(root, keys, COUNT(keys), "the top level", diagnostic));
  int precision = -1, range = recipe->range_method, weight = -1;
  ITG_TRY(read_choice(root, "precision", precisions, COUNT(precisions), "the top level", diagnostic, &precision));
  ITG_TRY(read_choice(root, "range_method", range_methods, COUNT(range_methods), "the top level", diagnostic, &range));
  ITG_TRY(
      read_choice(root, "weight_method", weight_methods, COUNT(weight_methods), "the top level", diagnostic, &weight));
  ITG_TRY(read_number(root, "weight_block", weight_blocks, COUNT(weight_blocks), "the top level", diagnostic,
                      &recipe->weight_block));
  ITG_TRY(read_number(root, "equalize_for", activation_bits, COUNT(activation_bits), "the top level", diagnostic,
                      &recipe->equalize_for));
  if (precision >= 0) recipe->precision = precisions[precision];
  recipe->range_method = (itg_range_method)range;
  recipe->weight_method = weight < 0 ? usual_weight_method(recipe) : (itg_weight_method)weight;
  ITG_TRY(read_methods(recipe, json_object_get(root, "methods"), diagnostic));
  const json_t *rules = json_object_get(root, "rules");
  if (!rules) return ITG_OK;
  if (!json_is_array(rules)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "rules", "\"rules\" must be a list");
  recipe->rule_count = json_array_size(rules);
  if (recipe->rule_count > MAX_RULES)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "rules", "the recipe has %zu rules; at most %d are allowed",
             recipe->rule_count, MAX_RULES);
  recipe->rules = itg_arena_array(&recipe->arena, recipe->rule_count, sizeof recipe->rules[0]);
  ITG_TRY_MEMORY(recipe->rules, diagnostic);
  for (size_t i = 0; i < recipe->rule_count; i++) ITG_TRY(read_rule(recipe, json_array_get(rules, i), i, diagnostic));
  return ITG_OK;
}

itg_status itg_recipe_parse(itg_span json, itg_diagnostic *diagnostic, itg_recipe *out) {
  if (json.size > MAX_RECIPE_BYTES)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "the recipe has %zu bytes; at most %d are allowed", json.size,
             MAX_RECIPE_BYTES);
  json_error_t error;
  json_t *root = itg_json_parse(json, JSON_REJECT_DUPLICATES, &error);
  if (!root) {
    char where[48];
    snprintf(where, sizeof where, "line %d, column %d", error.line, error.column);
    ITG_FAIL(diagnostic, itg_json_status(&error), where, "the recipe is not JSON: %s (%s)", error.text, where);
  }
  itg_recipe recipe;
  itg_status status = itg_recipe_builtin("a8w8+s16", diagnostic, &recipe);
  if (status == ITG_OK) status = read_recipe(&recipe, root, diagnostic);
  json_decref(root);
  if (status != ITG_OK) {
    itg_recipe_free(&recipe);
    return status;
  }
  *out = recipe;
  return ITG_OK;
}

static bool set_text(json_t *object, const char *key, const char *text) {
  return json_object_set_new(object, key, json_string(text)) == 0;
}

static json_t *rule_to_json(const itg_recipe_rule *rule) {
  json_t *object = json_object();
  bool ok = object != NULL;
  if (ok && rule->op) ok = set_text(object, "op", rule->op);
  if (ok && rule->name) ok = set_text(object, "name", rule->name);
  if (ok && rule->input) ok = set_text(object, "input", rule->input);
  if (ok && rule->activation_bits)
    ok = json_object_set_new(object, "activation_bits", json_integer(rule->activation_bits)) == 0;
  if (ok && rule->weight_bits) ok = json_object_set_new(object, "weight_bits", json_integer(rule->weight_bits)) == 0;
  if (ok && rule->weight_block >= 0)
    ok = json_object_set_new(object, "weight_block", json_integer(rule->weight_block)) == 0;
  if (ok && rule->range_method >= 0) ok = set_text(object, "range_method", range_methods[rule->range_method]);
  if (ok && rule->weight_method >= 0) ok = set_text(object, "weight_method", weight_methods[rule->weight_method]);
  if (ok) return object;
  json_decref(object);
  return NULL;
}

// Only what is switched off: a recipe that is used again gets the methods of a newer version.
static bool set_methods(json_t *root, itg_methods_off off) {
  if (!off) return true;
  json_t *object = json_object();
  bool ok = object != NULL;
  for (int i = 0; i < ITG_METHOD_COUNT && ok; i++) {
    if (!itg_method_is_on(off, (itg_method)i))
      ok = json_object_set_new(object, itg_method_get_info((itg_method)i)->name, json_false()) == 0;
  }
  return json_object_set_new(root, "methods", object) == 0 && ok;
}

char *itg_recipe_to_json(const itg_recipe *recipe) {
  json_t *root = json_object(), *rules = json_array();
  bool ok =
      root && rules && set_text(root, "precision", recipe->precision) &&
      set_text(root, "range_method", range_methods[recipe->range_method]) &&
      set_text(root, "weight_method", weight_methods[recipe->weight_method]) &&
      json_object_set_new(root, "weight_block", json_integer(recipe->weight_block)) == 0 &&
      (!recipe->equalize_for || json_object_set_new(root, "equalize_for", json_integer(recipe->equalize_for)) == 0) &&
      set_methods(root, recipe->methods_off);
  for (size_t i = 0; ok && i < recipe->rule_count; i++)
    ok = json_array_append_new(rules, rule_to_json(&recipe->rules[i])) == 0;
  ok = ok && json_object_set(root, "rules", rules) == 0;
  char *text = ok ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(rules);
  json_decref(root);
  return text;
}
