// Opening language models: which file is which, and that the weights are those of the architecture. See model.h.
#include "import/language/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MAX_NAME = 256 };

bool itg_language_model_is(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return false;
  if (S_ISDIR(info.st_mode)) {
    char config[4096];
    const int length = snprintf(config, sizeof config, "%s/config.json", path);
    return length > 0 && (size_t)length < sizeof config && stat(config, &info) == 0 && S_ISREG(info.st_mode);
  }
  char magic[4] = "";
  FILE *file = S_ISREG(info.st_mode) ? fopen(path, "rb") : NULL; // Opening a pipe would wait for its other end.
  const bool is_gguf = file && fread(magic, 1, sizeof magic, file) == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
  if (file) fclose(file);
  return is_gguf;
}

void itg_language_model_close(itg_language_model *model) {
  if (!model) return;
  itg_checkpoint_free(&model->checkpoint);
  free(model->tokenizer_json);
  free(model->chat_template);
  free(model);
}

// The name of a role's weight, or of its bias: "bias" in place of the last word. False when the role has no name or no bias.
static bool role_name(const itg_language_model *model, itg_weight_role role, int32_t layer, bool bias,
                      char name[MAX_NAME]) {
  const char *pattern = model->names[role], *number = pattern ? strstr(pattern, "%d") : NULL;
  if (!pattern) return false;
  int length;
  if (number)
    length = snprintf(name, MAX_NAME, "%.*s%d%s", (int)(number - pattern), pattern, (int)layer, number + 2);
  else
    length = snprintf(name, MAX_NAME, "%s", pattern);
  if (length < 0 || length >= MAX_NAME) return false;
  if (!bias) return true;
  char *last = strrchr(name, '.');
  if (!last || strcmp(last, ".weight") != 0) return false;
  snprintf(last, MAX_NAME - (size_t)(last - name), ".bias");
  return true;
}

const itg_weight *itg_language_weight(const itg_language_model *model, itg_weight_role role, int32_t layer, bool bias) {
  char name[MAX_NAME];
  return role_name(model, role, layer, bias, name) ? itg_checkpoint_find(&model->checkpoint, name) : NULL;
}

typedef struct checker {
  const itg_language_model *model;
  itg_diagnostic *diagnostic;
} checker;

static itg_status need(const checker *c, itg_weight_role role, int32_t layer, bool bias, int rank,
                       const int64_t *dims) {
  char name[MAX_NAME];
  const itg_weight *weight;
  if (!role_name(c->model, role, layer, bias, name))
    ITG_FAIL(c->diagnostic, ITG_ERROR_UNSUPPORTED, NULL, "this kind of file has no place for a weight of the model");
  const itg_shape shape = itg_shape_of(rank, dims);
  return itg_checkpoint_need(&c->model->checkpoint, name, &shape, c->diagnostic, &weight);
}

static itg_status need_vector(const checker *c, itg_weight_role role, int32_t layer, bool bias, int64_t size) {
  return need(c, role, layer, bias, 1, &size);
}

static itg_status need_matrix(const checker *c, itg_weight_role role, int32_t layer, int64_t rows, int64_t columns,
                              bool bias) {
  ITG_TRY(need(c, role, layer, false, 2, (const int64_t[]){rows, columns}));
  return bias ? need_vector(c, role, layer, true, rows) : ITG_OK;
}

static itg_status check_layer(const checker *c, int32_t layer) {
  const itg_language_config *config = &c->model->config;
  const int64_t hidden = config->hidden, inner = config->intermediate;
  const int64_t q = (int64_t)config->heads * config->head_size, kv = (int64_t)config->kv_heads * config->head_size;
  ITG_TRY(need_vector(c, ITG_WEIGHT_LAYER_NORM, layer, false, hidden));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_LAYER_Q, layer, q, hidden, config->qkv_bias));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_LAYER_K, layer, kv, hidden, config->qkv_bias));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_LAYER_V, layer, kv, hidden, config->qkv_bias));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_LAYER_OUTPUT, layer, hidden, q, config->output_bias));
  if (config->head_norm) {
    ITG_TRY(need_vector(c, ITG_WEIGHT_LAYER_Q_NORM, layer, false, config->head_size));
    ITG_TRY(need_vector(c, ITG_WEIGHT_LAYER_K_NORM, layer, false, config->head_size));
  }
  ITG_TRY(need_vector(c, ITG_WEIGHT_LAYER_SECOND_NORM, layer, false, hidden));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_LAYER_GATE, layer, inner, hidden, config->mlp_bias));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_LAYER_UP, layer, inner, hidden, config->mlp_bias));
  return need_matrix(c, ITG_WEIGHT_LAYER_DOWN, layer, hidden, inner, config->mlp_bias);
}

static itg_status check_vision_norm(const checker *c, itg_weight_role role, int32_t layer, int64_t size) {
  ITG_TRY(need_vector(c, role, layer, false, size));
  return need_vector(c, role, layer, true, size);
}

static itg_status check_vision_layer(const checker *c, int32_t layer) {
  const itg_vision_config *vision = &c->model->config.vision;
  const int64_t hidden = vision->hidden, inner = vision->intermediate;
  ITG_TRY(check_vision_norm(c, ITG_WEIGHT_VISION_LAYER_NORM, layer, hidden));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_VISION_LAYER_Q, layer, hidden, hidden, vision->attention_bias));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_VISION_LAYER_K, layer, hidden, hidden, vision->attention_bias));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_VISION_LAYER_V, layer, hidden, hidden, vision->attention_bias));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_VISION_LAYER_OUTPUT, layer, hidden, hidden, true));
  ITG_TRY(check_vision_norm(c, ITG_WEIGHT_VISION_LAYER_SECOND_NORM, layer, hidden));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_VISION_LAYER_UP, layer, inner, hidden, true));
  ITG_TRY(need_matrix(c, ITG_WEIGHT_VISION_LAYER_DOWN, layer, hidden, inner, true));
  if (vision->family != ITG_VISION_INTERNVL) return ITG_OK;
  ITG_TRY(need_vector(c, ITG_WEIGHT_VISION_LAYER_SCALE, layer, false, hidden));
  return need_vector(c, ITG_WEIGHT_VISION_LAYER_SECOND_SCALE, layer, false, hidden);
}

static itg_status check_vision(const checker *c) {
  const itg_language_config *config = &c->model->config;
  const itg_vision_config *vision = &config->vision;
  const int64_t hidden = vision->hidden, patch = vision->patch_size, side = vision->image_size / patch;
  const int64_t shuffled = hidden * vision->shuffle * vision->shuffle;
  ITG_TRY(need(c, ITG_WEIGHT_PATCH, 0, false, 4, (const int64_t[]){hidden, 3, patch, patch}));
  ITG_TRY(need_vector(c, ITG_WEIGHT_PATCH, 0, true, hidden));
  for (int32_t i = 0; i < vision->layers; i++) ITG_TRY(check_vision_layer(c, i));
  if (vision->family == ITG_VISION_INTERNVL) {
    ITG_TRY(need(c, ITG_WEIGHT_CLASS, 0, false, 3, (const int64_t[]){1, 1, hidden}));
    ITG_TRY(need(c, ITG_WEIGHT_POSITION, 0, false, 3, (const int64_t[]){1, side * side + 1, hidden}));
    ITG_TRY(check_vision_norm(c, ITG_WEIGHT_CONNECTOR_NORM, 0, shuffled));
    ITG_TRY(need_matrix(c, ITG_WEIGHT_CONNECTOR, 0, config->hidden, shuffled, true));
    return need_matrix(c, ITG_WEIGHT_SECOND_CONNECTOR, 0, config->hidden, config->hidden, true);
  }
  ITG_TRY(need(c, ITG_WEIGHT_POSITION, 0, false, 2, (const int64_t[]){side * side, hidden}));
  ITG_TRY(check_vision_norm(c, ITG_WEIGHT_VISION_FINAL_NORM, 0, hidden));
  return need_matrix(c, ITG_WEIGHT_CONNECTOR, 0, config->hidden, shuffled, false);
}

// Tables that only training or other programs need.
static bool is_spare(const char *name) {
  static const char *const ends[] = {"rotary_emb.inv_freq", "position_ids", "rope_freqs.weight"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    const size_t length = strlen(name), end = strlen(ends[i]);
    if (length >= end && strcmp(name + length - end, ends[i]) == 0) return true;
  }
  return false;
}

static itg_status check_weights(itg_language_model *model, itg_diagnostic *diagnostic) {
  const checker c = {model, diagnostic};
  const itg_language_config *config = &model->config;
  ITG_TRY(need_matrix(&c, ITG_WEIGHT_EMBEDDING, 0, config->vocabulary, config->hidden, false));
  ITG_TRY(need_vector(&c, ITG_WEIGHT_FINAL_NORM, 0, false, config->hidden));
  const bool stored = itg_language_weight(model, ITG_WEIGHT_HEAD, 0, false) != NULL;
  model->config.tied = config->tied && !stored;
  if (!model->config.tied) ITG_TRY(need_matrix(&c, ITG_WEIGHT_HEAD, 0, config->vocabulary, config->hidden, false));
  for (int32_t i = 0; i < config->layers; i++) ITG_TRY(check_layer(&c, i));
  if (config->vision.family != ITG_VISION_NONE) ITG_TRY(check_vision(&c));
  for (size_t i = 0; i < model->checkpoint.count; i++) {
    const itg_weight *weight = model->checkpoint.weights[i];
    if (!weight->used && !is_spare(weight->name))
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, weight->name,
               "the checkpoint holds %.200s, which this architecture does not use", weight->name);
  }
  return ITG_OK;
}

itg_status itg_language_model_open(const char *path, itg_diagnostic *diagnostic, itg_language_model **out) {
  struct stat info;
  itg_language_model *model = calloc(1, sizeof *model);
  ITG_TRY_MEMORY(model, diagnostic);
  const bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  itg_status status =
      folder ? itg_language_open_folder(path, diagnostic, model) : itg_language_open_gguf(path, diagnostic, model);
  if (status == ITG_OK) status = check_weights(model, diagnostic);
  if (status != ITG_OK) {
    itg_language_model_close(model);
    return status;
  }
  *out = model;
  return ITG_OK;
}
