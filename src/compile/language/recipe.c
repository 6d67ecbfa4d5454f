// The built-in recipes of language models: which weights keep 8 bits when the others get 4, and how wide the caches are.
//
// At 4 bits the head, the values of attention and the projections out of the MLP of the first four and the last two layers
// keep 8: they carry the outliers of gated models.
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "compile/language/run.h"

enum { MAX_RULES = 32 };

typedef struct rule_list {
  itg_recipe *recipe;
  itg_recipe_rule *rules;
  size_t count;
  bool failed;
} rule_list;

static itg_recipe_rule *add(rule_list *list, const char *name) {
  itg_recipe_rule *rule = &list->rules[list->count++];
  *rule = (itg_recipe_rule){.range_method = -1, .weight_method = -1, .weight_block = -1};
  rule->name = itg_arena_string(&list->recipe->arena, name, strlen(name));
  list->failed |= rule->name == NULL;
  return rule;
}

static void keep_8(rule_list *list, const char *name, int32_t method) {
  itg_recipe_rule *rule = add(list, name);
  rule->weight_method = method;
  rule->weight_bits = 8;
  rule->weight_block = 0;
}

static void add_weight_rules(rule_list *list, const itg_language_config *config) {
  // Eight bits need no fit; and the head's rows may be the token embedding too.
  static const char *const always[] = {"vision.*", "connector.*", "features", "logits"};
  for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) keep_8(list, always[i], ITG_WEIGHT_NEAREST);
  keep_8(list, "layers.*.v", -1);
  for (int32_t layer = 0; layer < config->layers; layer++) {
    char name[48];
    if (layer >= 4 && layer < config->layers - 2) continue;
    snprintf(name, sizeof name, "layers.%d.down", (int)layer);
    keep_8(list, name, -1);
  }
}

// The rules of a user's recipe come last, so they win.
static itg_status add_user_rules(rule_list *list, const char *path, itg_diagnostic *diagnostic) {
  itg_mapped_file file;
  itg_recipe user;
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  const itg_status status = itg_recipe_parse(file.bytes, diagnostic, &user);
  itg_mapped_file_close(&file);
  ITG_TRY(status);
  itg_recipe_rule *rules = itg_arena_array(&list->recipe->arena, list->count + user.rule_count, sizeof list->rules[0]);
  if (rules) {
    memcpy(rules, list->rules, list->count * sizeof rules[0]);
    for (size_t i = 0; i < user.rule_count; i++) {
      itg_recipe_rule *rule = &rules[list->count + i];
      *rule = user.rules[i];
      if (rule->op) rule->op = itg_arena_string(&list->recipe->arena, rule->op, strlen(rule->op));
      if (rule->name) rule->name = itg_arena_string(&list->recipe->arena, rule->name, strlen(rule->name));
      list->failed |= (user.rules[i].op && !rule->op) || (user.rules[i].name && !rule->name);
    }
    list->rules = rules;
    list->count += user.rule_count;
  }
  list->recipe->methods_off = user.methods_off;
  list->recipe->range_method = user.range_method;
  list->recipe->weight_method = user.weight_method;
  itg_recipe_free(&user);
  ITG_TRY_MEMORY(rules, diagnostic);
  return ITG_OK;
}

static itg_status fill(const itg_language_options *options, const itg_language_config *config,
                       itg_diagnostic *diagnostic, itg_recipe *recipe) {
  rule_list list = {.recipe = recipe, .rules = itg_arena_array(&recipe->arena, MAX_RULES, sizeof *list.rules)};
  ITG_TRY_MEMORY(list.rules, diagnostic);
  if (options->cache_bits == 16) {
    add(&list, "layers.*.k_rotated")->activation_bits = 16;
    add(&list, "layers.*.v")->activation_bits = 16;
  }
  if (itg_recipe_weight_bits(recipe) == 4) {
    recipe->weight_block = options->weight_block;
    add_weight_rules(&list, config);
  }
  if (options->recipe) ITG_TRY(add_user_rules(&list, options->recipe, diagnostic));
  ITG_TRY_MEMORY(!list.failed, diagnostic);
  recipe->rules = list.rules;
  recipe->rule_count = list.count;
  return ITG_OK;
}

itg_status itg_language_recipe(const itg_language_options *options, const itg_language_config *config,
                               itg_diagnostic *diagnostic, itg_recipe *out) {
  const char *precision = options->precision ? options->precision : "a16w8";
  if (strcmp(precision, "a16w8") != 0 && strcmp(precision, "a16w4") != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, precision,
             "language models are compiled to a16w8 or a16w4: 8-bit activations of decoders lose too much");
  if (options->cache_bits != 8 && options->cache_bits != 16)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "keys and values have 8 or 16 bits, not %d", options->cache_bits);
  const int block = options->weight_block;
  if (block != 0 && block != 16 && block != 32 && block != 64)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "blocks of %d weights; there are 16, 32, 64 and 0 (none)", block);
  itg_recipe recipe;
  ITG_TRY(itg_recipe_builtin(precision, diagnostic, &recipe));
  const itg_status status = fill(options, config, diagnostic, &recipe);
  if (status != ITG_OK)
    itg_recipe_free(&recipe);
  else
    *out = recipe;
  return status;
}
