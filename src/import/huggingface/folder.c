// A Hugging Face folder as a language model: config.json, weights, tokenizer.json and chat template.
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "import/huggingface/config.h"
#include "import/huggingface/safetensors.h"
#include "import/language/model.h"

// What follows the prefix of the text half ("model.", ..), of the encoder and of the connector.
static const char *const text_names[ITG_WEIGHT_ROLES] = {
    [ITG_WEIGHT_EMBEDDING] = "embed_tokens.weight",
    [ITG_WEIGHT_FINAL_NORM] = "norm.weight",
    [ITG_WEIGHT_LAYER_NORM] = "layers.%d.input_layernorm.weight",
    [ITG_WEIGHT_LAYER_Q] = "layers.%d.self_attn.q_proj.weight",
    [ITG_WEIGHT_LAYER_K] = "layers.%d.self_attn.k_proj.weight",
    [ITG_WEIGHT_LAYER_V] = "layers.%d.self_attn.v_proj.weight",
    [ITG_WEIGHT_LAYER_OUTPUT] = "layers.%d.self_attn.o_proj.weight",
    [ITG_WEIGHT_LAYER_Q_NORM] = "layers.%d.self_attn.q_norm.weight",
    [ITG_WEIGHT_LAYER_K_NORM] = "layers.%d.self_attn.k_norm.weight",
    [ITG_WEIGHT_LAYER_SECOND_NORM] = "layers.%d.post_attention_layernorm.weight",
    [ITG_WEIGHT_LAYER_GATE] = "layers.%d.mlp.gate_proj.weight",
    [ITG_WEIGHT_LAYER_UP] = "layers.%d.mlp.up_proj.weight",
    [ITG_WEIGHT_LAYER_DOWN] = "layers.%d.mlp.down_proj.weight",
};
static const char *const idefics3_names[ITG_WEIGHT_ROLES] = {
    [ITG_WEIGHT_PATCH] = "embeddings.patch_embedding.weight",
    [ITG_WEIGHT_POSITION] = "embeddings.position_embedding.weight",
    [ITG_WEIGHT_VISION_LAYER_NORM] = "encoder.layers.%d.layer_norm1.weight",
    [ITG_WEIGHT_VISION_LAYER_Q] = "encoder.layers.%d.self_attn.q_proj.weight",
    [ITG_WEIGHT_VISION_LAYER_K] = "encoder.layers.%d.self_attn.k_proj.weight",
    [ITG_WEIGHT_VISION_LAYER_V] = "encoder.layers.%d.self_attn.v_proj.weight",
    [ITG_WEIGHT_VISION_LAYER_OUTPUT] = "encoder.layers.%d.self_attn.out_proj.weight",
    [ITG_WEIGHT_VISION_LAYER_SECOND_NORM] = "encoder.layers.%d.layer_norm2.weight",
    [ITG_WEIGHT_VISION_LAYER_UP] = "encoder.layers.%d.mlp.fc1.weight",
    [ITG_WEIGHT_VISION_LAYER_DOWN] = "encoder.layers.%d.mlp.fc2.weight",
    [ITG_WEIGHT_VISION_FINAL_NORM] = "post_layernorm.weight",
};
static const char *const internvl_names[ITG_WEIGHT_ROLES] = {
    [ITG_WEIGHT_PATCH] = "embeddings.patch_embeddings.projection.weight",
    [ITG_WEIGHT_POSITION] = "embeddings.position_embeddings",
    [ITG_WEIGHT_CLASS] = "embeddings.cls_token",
    [ITG_WEIGHT_VISION_LAYER_NORM] = "encoder.layer.%d.layernorm_before.weight",
    [ITG_WEIGHT_VISION_LAYER_Q] = "encoder.layer.%d.attention.q_proj.weight",
    [ITG_WEIGHT_VISION_LAYER_K] = "encoder.layer.%d.attention.k_proj.weight",
    [ITG_WEIGHT_VISION_LAYER_V] = "encoder.layer.%d.attention.v_proj.weight",
    [ITG_WEIGHT_VISION_LAYER_OUTPUT] = "encoder.layer.%d.attention.projection_layer.weight",
    [ITG_WEIGHT_VISION_LAYER_SCALE] = "encoder.layer.%d.lambda_1",
    [ITG_WEIGHT_VISION_LAYER_SECOND_NORM] = "encoder.layer.%d.layernorm_after.weight",
    [ITG_WEIGHT_VISION_LAYER_UP] = "encoder.layer.%d.mlp.fc1.weight",
    [ITG_WEIGHT_VISION_LAYER_DOWN] = "encoder.layer.%d.mlp.fc2.weight",
    [ITG_WEIGHT_VISION_LAYER_SECOND_SCALE] = "encoder.layer.%d.lambda_2",
};
static const char *const idefics3_connector[ITG_WEIGHT_ROLES] = {[ITG_WEIGHT_CONNECTOR] =
                                                                     "modality_projection.proj.weight"};
static const char *const internvl_connector[ITG_WEIGHT_ROLES] = {[ITG_WEIGHT_CONNECTOR_NORM] = "layer_norm.weight",
                                                                 [ITG_WEIGHT_CONNECTOR] = "linear_1.weight",
                                                                 [ITG_WEIGHT_SECOND_CONNECTOR] = "linear_2.weight"};

// Prefixes that files of one family were published with; the one under which `probe` exists counts.
typedef struct naming {
  const char *text, *head, *vision, *connector;
} naming;
static const naming namings[] = {
    {"model.", "lm_head.weight", NULL, NULL},
    {"model.text_model.", "lm_head.weight", "model.vision_model.", "model.connector."},
    {"language_model.model.", "language_model.lm_head.weight", "vision_tower.", "multi_modal_projector."},
    {"model.language_model.", "lm_head.weight", "model.vision_tower.", "model.multi_modal_projector."},
};

static itg_status add_names(itg_language_model *model, const char *prefix, const char *const *suffixes,
                            const char **names, itg_diagnostic *diagnostic) {
  for (int i = 0; prefix && i < ITG_WEIGHT_ROLES; i++) {
    if (!suffixes[i]) continue;
    char name[256];
    snprintf(name, sizeof name, "%s%s", prefix, suffixes[i]);
    names[i] = itg_arena_string(&model->checkpoint.arena, name, strlen(name));
    ITG_TRY_MEMORY(names[i], diagnostic);
  }
  return ITG_OK;
}

static itg_status choose_names(itg_language_model *model, itg_diagnostic *diagnostic) {
  const naming *found = NULL;
  const itg_vision_family family = model->config.vision.family;
  for (size_t i = 0; i < sizeof namings / sizeof namings[0]; i++) {
    char probe[256];
    const int length = snprintf(probe, sizeof probe, "%sembed_tokens.weight", namings[i].text);
    if ((family == ITG_VISION_NONE) == (namings[i].vision == NULL) &&
        itg_map_get(&model->checkpoint.by_name, probe, (size_t)length))
      found = &namings[i];
  }
  if (!found)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "embed_tokens.weight",
             "the checkpoint has no token embedding (embed_tokens.weight) under any known name");
  const char **names = itg_arena_array(&model->checkpoint.arena, ITG_WEIGHT_ROLES, sizeof names[0]);
  ITG_TRY_MEMORY(names, diagnostic);
  model->names = names;
  names[ITG_WEIGHT_HEAD] = found->head;
  ITG_TRY(add_names(model, found->text, text_names, names, diagnostic));
  if (family == ITG_VISION_NONE) return ITG_OK;
  const bool internvl = family == ITG_VISION_INTERNVL;
  ITG_TRY(add_names(model, found->vision, internvl ? internvl_names : idefics3_names, names, diagnostic));
  return add_names(model, found->connector, internvl ? internvl_connector : idefics3_connector, names, diagnostic);
}

// Reads a file of the folder into malloc'ed, NUL-terminated memory; *out stays NULL when there is none and it may be absent.
static itg_status read_file(const char *folder, const char *name, bool required, itg_diagnostic *diagnostic, char **out,
                            size_t *size) {
  const size_t length = strlen(folder) + strlen(name) + 2;
  char *path = malloc(length);
  ITG_TRY_MEMORY(path, diagnostic);
  snprintf(path, length, "%s/%s", folder, name);
  itg_mapped_file file;
  const itg_status status = itg_mapped_file_open(path, required ? diagnostic : NULL, &file);
  free(path);
  *size = 0;
  if (status != ITG_OK) return required ? status : ITG_OK;
  *out = malloc(file.bytes.size + 1);
  if (*out) {
    if (file.bytes.size) memcpy(*out, file.bytes.data, file.bytes.size);
    (*out)[file.bytes.size] = 0;
    *size = file.bytes.size;
  }
  itg_mapped_file_close(&file);
  ITG_TRY_MEMORY(*out, diagnostic);
  return ITG_OK;
}

// "chat_template" of a JSON file: a text, or a list of named ones of which "default" counts.
static itg_status template_from_json(const char *json, size_t size, const char *file, itg_diagnostic *diagnostic,
                                     char **out) {
  json_error_t error;
  json_t *root = json_loadb(json, size, 0, &error);
  if (!root) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, file, "%s is no JSON (line %d)", file, error.line);
  const json_t *value = json_object_get(root, "chat_template");
  for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
    const json_t *entry = json_array_get(value, i);
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (name && strcmp(name, "default") == 0) {
      value = json_object_get(entry, "template");
      break;
    }
  }
  itg_status status = ITG_OK;
  if (json_is_string(value) && !(*out = strdup(json_string_value(value))))
    status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  json_decref(root);
  return status;
}

static itg_status read_template(const char *folder, itg_diagnostic *diagnostic, itg_language_model *model) {
  static const char *const files[] = {"chat_template.json", "tokenizer_config.json"};
  size_t size;
  ITG_TRY(read_file(folder, "chat_template.jinja", false, diagnostic, &model->chat_template, &size));
  for (size_t i = 0; i < 2 && !model->chat_template; i++) {
    char *json = NULL;
    ITG_TRY(read_file(folder, files[i], false, diagnostic, &json, &size));
    const itg_status status =
        json ? template_from_json(json, size, files[i], diagnostic, &model->chat_template) : ITG_OK;
    free(json);
    ITG_TRY(status);
  }
  return ITG_OK;
}

static itg_status read_config(const char *folder, itg_diagnostic *diagnostic, itg_language_model *model) {
  char *config = NULL, *preprocessor = NULL, *generation = NULL;
  size_t config_size = 0, preprocessor_size = 0, generation_size = 0;
  itg_status status = read_file(folder, "config.json", true, diagnostic, &config, &config_size);
  if (status == ITG_OK)
    status = read_file(folder, "preprocessor_config.json", false, diagnostic, &preprocessor, &preprocessor_size);
  if (status == ITG_OK)
    status = read_file(folder, "generation_config.json", false, diagnostic, &generation, &generation_size);
  if (status == ITG_OK)
    status = itg_huggingface_config((itg_span){(uint8_t *)config, config_size},
                                    (itg_span){(uint8_t *)preprocessor, preprocessor_size}, diagnostic, &model->config);
  if (status == ITG_OK && generation)
    status = itg_huggingface_generation((itg_span){(uint8_t *)generation, generation_size}, diagnostic, &model->config);
  free(config);
  free(preprocessor);
  free(generation);
  return status;
}

itg_status itg_language_open_folder(const char *path, itg_diagnostic *diagnostic, itg_language_model *model) {
  ITG_TRY(read_config(path, diagnostic, model));
  ITG_TRY(read_file(path, "tokenizer.json", false, diagnostic, &model->tokenizer_json, &model->tokenizer_size));
  ITG_TRY(read_template(path, diagnostic, model));
  ITG_TRY(itg_safetensors_add_folder(&model->checkpoint, path, diagnostic));
  return choose_names(model, diagnostic);
}
