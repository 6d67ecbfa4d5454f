// config.json and its companions. See config.h.
#include "import/huggingface/config.h"

#include <string.h>

#include <jansson.h>

#include "base/checked.h"
#include "base/json.h"

typedef struct reader {
  const char *file; // Named in messages.
  itg_diagnostic *diagnostic;
} reader;

// What changes training, generation defaults or bookkeeping, and never what the network computes.
static const char *const harmless[] = {"_attn_implementation_autoset",
                                       "_flash_attn_2_enabled",
                                       "_name_or_path",
                                       "add_cross_attention",
                                       "architectures",
                                       "attention_dropout",
                                       "auto_map",
                                       "bad_words_ids",
                                       "begin_suppress_tokens",
                                       "chunk_size_feed_forward",
                                       "cross_attention_hidden_size",
                                       "decoder_start_token_id",
                                       "diversity_penalty",
                                       "do_sample",
                                       "drop_path_rate",
                                       "dropout",
                                       "dtype",
                                       "early_stopping",
                                       "encoder_no_repeat_ngram_size",
                                       "exponential_decay_length_penalty",
                                       "finetuning_task",
                                       "forced_bos_token_id",
                                       "forced_eos_token_id",
                                       "hidden_dropout_prob",
                                       "id2label",
                                       "initializer_factor",
                                       "initializer_range",
                                       "is_decoder",
                                       "is_encoder_decoder",
                                       "is_llama_config",
                                       "label2id",
                                       "layer_scale_init_value",
                                       "length_penalty",
                                       "max_length",
                                       "max_window_layers",
                                       "min_length",
                                       "neftune_noise_alpha",
                                       "no_repeat_ngram_size",
                                       "num_beam_groups",
                                       "num_beams",
                                       "num_return_sequences",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_scores",
                                       "perceiver_config",
                                       "prefix",
                                       "pretraining_tp",
                                       "problem_type",
                                       "projection_dropout",
                                       "pruned_heads",
                                       "remove_invalid_values",
                                       "repetition_penalty",
                                       "return_dict",
                                       "return_dict_in_generate",
                                       "sep_token_id",
                                       "suppress_tokens",
                                       "task_specific_params",
                                       "temperature",
                                       "tf_legacy_loss",
                                       "tie_encoder_decoder",
                                       "tokenizer_class",
                                       "top_k",
                                       "top_p",
                                       "torch_dtype",
                                       "torchscript",
                                       "transformers.js_config",
                                       "transformers_version",
                                       "typical_p",
                                       "unsloth_version",
                                       "use_bfloat16",
                                       "use_cache"};

static bool listed(const char *const *list, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(list[i], name) == 0) return true;
  }
  return false;
}
#define LISTED(list, name) listed(list, sizeof(list) / sizeof(list)[0], name)

// Refuses keys that neither `used` nor the list above knows.
static itg_status check_keys(const reader *r, const json_t *object, const char *where, const char *const *used,
                             size_t count) {
  if (!json_is_object(object))
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->file, "%s of %s is no object", where, r->file);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    if (!listed(used, count, key) && !LISTED(harmless, key))
      ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "%s of %s has the unknown key \"%.80s\"", where, r->file,
               key);
  }
  return ITG_OK;
}
#define CHECK_KEYS(r, object, where, used) ITG_TRY(check_keys(r, object, where, used, sizeof(used) / sizeof(used)[0]))

// Absent or null: *out stays.
static itg_status read_integer(const reader *r, const json_t *object, const char *key, int64_t low, int64_t high,
                               int32_t *out) {
  const json_t *value = json_object_get(object, key);
  if (!value || json_is_null(value)) return ITG_OK;
  const bool whole = json_is_integer(value) ||
                     (json_is_real(value) && json_real_value(value) == (double)(int32_t)json_real_value(value));
  const json_int_t number = json_is_integer(value) ? json_integer_value(value) : (json_int_t)json_number_value(value);
  if (!whole || number < low || number > high)
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->file, "\"%s\" of %s is not a whole number from %lld to %lld", key,
             r->file, (long long)low, (long long)high);
  *out = (int32_t)number;
  return ITG_OK;
}

static itg_status read_number(const reader *r, const json_t *object, const char *key, double *out) {
  const json_t *value = json_object_get(object, key);
  if (!value || json_is_null(value)) return ITG_OK;
  if (!json_is_number(value))
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->file, "\"%s\" of %s is not a number", key, r->file);
  *out = json_number_value(value);
  return ITG_OK;
}

static itg_status read_bool(const reader *r, const json_t *object, const char *key, bool *out) {
  const json_t *value = json_object_get(object, key);
  if (!value || json_is_null(value)) return ITG_OK;
  if (!json_is_boolean(value))
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->file, "\"%s\" of %s is not true or false", key, r->file);
  *out = json_is_true(value);
  return ITG_OK;
}

// Fails when a switch that must be off is on.
static itg_status must_be_off(const reader *r, const json_t *object, const char *key) {
  bool on = false;
  ITG_TRY(read_bool(r, object, key, &on));
  if (on) ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "\"%s\" of %s is not supported", key, r->file);
  return ITG_OK;
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

// A text that must be one of `choices` (absent counts as the first); *out receives which.
static itg_status read_choice(const reader *r, const json_t *object, const char *key, const char *const *choices,
                              size_t count, size_t *out) {
  const json_t *value = json_object_get(object, key);
  *out = 0;
  if (!value || json_is_null(value)) return ITG_OK;
  for (size_t i = 0; i < count; i++) {
    if (json_is_string(value) && strcmp(json_string_value(value), choices[i]) == 0) {
      *out = i;
      return ITG_OK;
    }
  }
  ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "\"%s\" of %s is \"%.80s\", which is not supported", key,
           r->file, json_is_string(value) ? json_string_value(value) : "no text");
}

// A number, or a pair of equal numbers (height and width).
static itg_status read_side(const reader *r, const json_t *object, const char *key, int32_t *out) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_array(value)) return read_integer(r, object, key, 1, 1 << 20, out);
  const json_t *a = json_array_get(value, 0), *b = json_array_get(value, 1);
  if (json_array_size(value) != 2 || !json_is_integer(a) || !json_equal(a, b) || json_integer_value(a) < 1 ||
      json_integer_value(a) > 1 << 20)
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "\"%s\" of %s must be square", key, r->file);
  *out = (int32_t)json_integer_value(a);
  return ITG_OK;
}

static itg_status add_eos(const reader *r, itg_language_config *config, const json_t *value) {
  if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX)
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->file, "\"eos_token_id\" of %s is not a token id", r->file);
  const int32_t id = (int32_t)json_integer_value(value);
  for (int32_t i = 0; i < config->eos_count; i++) {
    if (config->eos[i] == id) return ITG_OK;
  }
  if (config->eos_count == ITG_LANGUAGE_MAX_EOS)
    ITG_FAIL(r->diagnostic, ITG_ERROR_LIMIT, r->file, "%s names more than %d end tokens", r->file,
             ITG_LANGUAGE_MAX_EOS);
  config->eos[config->eos_count++] = id;
  return ITG_OK;
}

static itg_status read_eos(const reader *r, const json_t *object, itg_language_config *config) {
  const json_t *value = json_object_get(object, "eos_token_id");
  if (!value || json_is_null(value)) return ITG_OK;
  if (!json_is_array(value)) return add_eos(r, config, value);
  for (size_t i = 0; i < json_array_size(value); i++) ITG_TRY(add_eos(r, config, json_array_get(value, i)));
  return ITG_OK;
}

// ---- rotary embeddings ----

static itg_status read_rope_scaling(const reader *r, const json_t *scaling, itg_rope_config *rope) {
  static const char *const used[] = {"type",
                                     "rope_type",
                                     "factor",
                                     "low_freq_factor",
                                     "high_freq_factor",
                                     "rope_theta",
                                     "original_max_position_embeddings"};
  if (!scaling || json_is_null(scaling)) return ITG_OK;
  CHECK_KEYS(r, scaling, "the rope scaling", used);
  const char *type = text_of(scaling, "rope_type");
  if (!*type) type = text_of(scaling, "type");
  ITG_TRY(read_number(r, scaling, "factor", &rope->factor));
  ITG_TRY(read_number(r, scaling, "rope_theta", &rope->theta));
  ITG_TRY(read_number(r, scaling, "low_freq_factor", &rope->low_frequency_factor));
  ITG_TRY(read_number(r, scaling, "high_freq_factor", &rope->high_frequency_factor));
  ITG_TRY(read_integer(r, scaling, "original_max_position_embeddings", 1, ITG_LANGUAGE_MAX_POSITIONS,
                       &rope->original_positions));
  if (strcmp(type, "llama3") == 0)
    rope->kind = ITG_ROPE_LLAMA3;
  else if (strcmp(type, "linear") == 0)
    rope->kind = ITG_ROPE_LINEAR;
  else if (strcmp(type, "default") == 0 || strcmp(type, "dynamic") == 0)
    rope->kind = ITG_ROPE_PLAIN; // "dynamic" changes nothing within the trained positions, and we offer no more.
  else
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "rope scaling \"%.80s\" is not supported", type);
  return ITG_OK;
}

// ---- the text half ----

static itg_status check_layer_types(const reader *r, const json_t *object) {
  const json_t *types = json_object_get(object, "layer_types");
  for (size_t i = 0; i < json_array_size(types); i++) {
    const char *type = json_string_value(json_array_get(types, i));
    if (!type || strcmp(type, "full_attention") != 0)
      ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file,
               "layer %zu has \"%.80s\"; only full_attention is supported", i, type ? type : "?");
  }
  return ITG_OK;
}

static itg_status read_family(const reader *r, const json_t *object, itg_language_config *config) {
  const char *type = text_of(object, "model_type");
  if (strcmp(type, "llama") == 0)
    config->family = ITG_LANGUAGE_LLAMA;
  else if (strcmp(type, "qwen2") == 0)
    config->family = ITG_LANGUAGE_QWEN2;
  else if (strcmp(type, "qwen3") == 0)
    config->family = ITG_LANGUAGE_QWEN3;
  else
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file,
             "model_type \"%.80s\" is not supported; known are llama, qwen2, qwen3, smolvlm, idefics3 and internvl",
             type);
  config->qkv_bias = config->family == ITG_LANGUAGE_QWEN2;
  config->head_norm = config->family == ITG_LANGUAGE_QWEN3;
  return ITG_OK;
}

static const char *const text_keys[] = {"attention_bias",
                                        "bos_token_id",
                                        "eos_token_id",
                                        "head_dim",
                                        "hidden_act",
                                        "hidden_size",
                                        "intermediate_size",
                                        "layer_types",
                                        "max_position_embeddings",
                                        "mlp_bias",
                                        "model_type",
                                        "num_attention_heads",
                                        "num_hidden_layers",
                                        "num_key_value_heads",
                                        "pad_token_id",
                                        "pixel_shuffle_factor",
                                        "qk_layer_norms",
                                        "rms_norm_eps",
                                        "rope_interleaved",
                                        "rope_parameters",
                                        "rope_scaling",
                                        "rope_theta",
                                        "sliding_window",
                                        "tie_word_embeddings",
                                        "use_resampler",
                                        "use_sliding_window",
                                        "vocab_size"};

static itg_status read_text_sizes(const reader *r, const json_t *object, itg_language_config *config) {
  const int64_t width = ITG_LANGUAGE_MAX_WIDTH;
  ITG_TRY(read_integer(r, object, "hidden_size", 1, width, &config->hidden));
  ITG_TRY(read_integer(r, object, "intermediate_size", 1, width, &config->intermediate));
  ITG_TRY(read_integer(r, object, "num_hidden_layers", 1, ITG_LANGUAGE_MAX_LAYERS, &config->layers));
  ITG_TRY(read_integer(r, object, "num_attention_heads", 1, ITG_LANGUAGE_MAX_HEADS, &config->heads));
  config->kv_heads = config->heads;
  ITG_TRY(read_integer(r, object, "num_key_value_heads", 1, ITG_LANGUAGE_MAX_HEADS, &config->kv_heads));
  config->head_size = config->heads > 0 ? config->hidden / config->heads : 0;
  ITG_TRY(read_integer(r, object, "head_dim", 1, ITG_LANGUAGE_MAX_HEAD_SIZE, &config->head_size));
  ITG_TRY(read_integer(r, object, "vocab_size", 1, ITG_LANGUAGE_MAX_VOCABULARY, &config->vocabulary));
  return read_integer(r, object, "max_position_embeddings", 1, ITG_LANGUAGE_MAX_POSITIONS, &config->maximum_positions);
}

static itg_status read_text(const reader *r, const json_t *object, itg_language_config *config) {
  static const char *const silu[] = {"silu", "swish"};
  size_t choice;
  ITG_TRY(read_family(r, object, config));
  config->maximum_positions = 2048;
  config->norm_epsilon = 1e-6;
  config->rope.theta = 10000;
  ITG_TRY(read_text_sizes(r, object, config));
  ITG_TRY(read_number(r, object, "rms_norm_eps", &config->norm_epsilon));
  ITG_TRY(read_number(r, object, "rope_theta", &config->rope.theta));
  ITG_TRY(read_rope_scaling(r, json_object_get(object, "rope_scaling"), &config->rope));
  ITG_TRY(read_rope_scaling(r, json_object_get(object, "rope_parameters"), &config->rope));
  ITG_TRY(read_choice(r, object, "hidden_act", silu, 2, &choice));
  if (config->family == ITG_LANGUAGE_LLAMA) {
    ITG_TRY(read_bool(r, object, "attention_bias", &config->qkv_bias));
    config->output_bias = config->qkv_bias;
    ITG_TRY(read_bool(r, object, "mlp_bias", &config->mlp_bias));
  } else if (config->family == ITG_LANGUAGE_QWEN3) {
    ITG_TRY(must_be_off(r, object, "attention_bias"));
  }
  ITG_TRY(must_be_off(r, object, "use_sliding_window"));
  ITG_TRY(must_be_off(r, object, "rope_interleaved"));
  ITG_TRY(must_be_off(r, object, "qk_layer_norms"));
  ITG_TRY(must_be_off(r, object, "use_resampler"));
  ITG_TRY(check_layer_types(r, object));
  ITG_TRY(read_bool(r, object, "tie_word_embeddings", &config->tied));
  ITG_TRY(read_integer(r, object, "bos_token_id", -1, INT32_MAX, &config->bos));
  ITG_TRY(read_integer(r, object, "pad_token_id", -1, INT32_MAX, &config->pad));
  return read_eos(r, object, config);
}

// ---- the vision half ----

static itg_status read_vision_sizes(const reader *r, const json_t *object, itg_vision_config *vision) {
  const int64_t width = ITG_LANGUAGE_MAX_WIDTH;
  ITG_TRY(read_integer(r, object, "hidden_size", 1, width, &vision->hidden));
  ITG_TRY(read_integer(r, object, "intermediate_size", 1, width, &vision->intermediate));
  ITG_TRY(read_integer(r, object, "num_hidden_layers", 1, ITG_LANGUAGE_MAX_LAYERS, &vision->layers));
  ITG_TRY(read_integer(r, object, "num_attention_heads", 1, ITG_LANGUAGE_MAX_HEADS, &vision->heads));
  ITG_TRY(read_number(r, object, "layer_norm_eps", &vision->norm_epsilon));
  ITG_TRY(read_side(r, object, "image_size", &vision->image_size));
  ITG_TRY(read_side(r, object, "patch_size", &vision->patch_size));
  int32_t channels = 3;
  ITG_TRY(read_integer(r, object, "num_channels", 1, 1024, &channels));
  if (channels != 3) ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "pictures of %d channels", (int)channels);
  vision->head_size = vision->heads > 0 ? vision->hidden / vision->heads : 0;
  return ITG_OK;
}

static itg_status read_idefics3(const reader *r, const json_t *root, itg_language_config *config) {
  static const char *const root_keys[] = {"bos_token_id",
                                          "eos_token_id",
                                          "image_token_id",
                                          "model_type",
                                          "pad_token_id",
                                          "scale_factor",
                                          "text_config",
                                          "tie_word_embeddings",
                                          "vision_config",
                                          "vocab_size",
                                          "image_seq_len",
                                          "frames_per_clip",
                                          "use_reentrant_checkpointing"};
  static const char *const keys[] = {
      "attention_dropout", "hidden_act",     "hidden_size", "image_size",          "intermediate_size",
      "layer_norm_eps",    "max_image_size", "model_type",  "num_attention_heads", "num_channels",
      "num_hidden_layers", "patch_size",     "size",        "tie_word_embeddings", "use_base_siglip"};
  static const char *const activations[] = {"gelu_pytorch_tanh", "gelu"};
  const json_t *object = json_object_get(root, "vision_config");
  itg_vision_config *vision = &config->vision;
  size_t activation;
  CHECK_KEYS(r, root, "the top level", root_keys);
  CHECK_KEYS(r, object, "vision_config", keys);
  // What these models' files leave out has the values of the encoder they were made from.
  *vision = (itg_vision_config){.family = ITG_VISION_IDEFICS3,
                                .layers = 12,
                                .hidden = 1152,
                                .heads = 16,
                                .intermediate = 3072,
                                .image_size = 224,
                                .patch_size = 32,
                                .norm_epsilon = 1e-6,
                                .attention_bias = true,
                                .shuffle = 2,
                                .split = true};
  ITG_TRY(read_vision_sizes(r, object, vision));
  ITG_TRY(read_choice(r, object, "hidden_act", activations, 2, &activation));
  vision->gelu_tanh = activation == 0;
  ITG_TRY(read_integer(r, root, "scale_factor", 1, 64, &vision->shuffle));
  vision->maximum_edge = 4 * vision->image_size;
  return ITG_OK;
}

static itg_status read_internvl(const reader *r, const json_t *root, itg_language_config *config) {
  static const char *const root_keys[] = {"bos_token_id",
                                          "eos_token_id",
                                          "downsample_ratio",
                                          "image_seq_length",
                                          "image_token_id",
                                          "model_type",
                                          "pad_token_id",
                                          "projector_hidden_act",
                                          "text_config",
                                          "tie_word_embeddings",
                                          "vision_config",
                                          "vision_feature_layer",
                                          "vision_feature_select_strategy",
                                          "vocab_size"};
  static const char *const keys[] = {"attention_bias",
                                     "hidden_act",
                                     "hidden_size",
                                     "image_size",
                                     "intermediate_size",
                                     "layer_norm_eps",
                                     "model_type",
                                     "norm_type",
                                     "num_attention_heads",
                                     "num_channels",
                                     "num_hidden_layers",
                                     "patch_size",
                                     "use_absolute_position_embeddings",
                                     "use_mask_token",
                                     "use_mean_pooling",
                                     "use_qk_norm"};
  static const char *const gelu[] = {"gelu"}, *const norm[] = {"layer_norm"}, *const strategy[] = {"default"};
  const json_t *object = json_object_get(root, "vision_config");
  itg_vision_config *vision = &config->vision;
  size_t choice;
  bool pooled = true, positions = true;
  double ratio = 0.5;
  int32_t layer = -1;
  CHECK_KEYS(r, root, "the top level", root_keys);
  CHECK_KEYS(r, object, "vision_config", keys);
  *vision = (itg_vision_config){.family = ITG_VISION_INTERNVL,
                                .layers = 24,
                                .hidden = 1024,
                                .heads = 16,
                                .intermediate = 4096,
                                .image_size = 448,
                                .patch_size = 14,
                                .norm_epsilon = 1e-6,
                                .maximum_tiles = 12,
                                .split = true};
  ITG_TRY(read_vision_sizes(r, object, vision));
  ITG_TRY(read_choice(r, object, "hidden_act", gelu, 1, &choice));
  ITG_TRY(read_choice(r, object, "norm_type", norm, 1, &choice));
  ITG_TRY(read_choice(r, root, "projector_hidden_act", gelu, 1, &choice));
  ITG_TRY(read_choice(r, root, "vision_feature_select_strategy", strategy, 1, &choice));
  ITG_TRY(read_bool(r, object, "attention_bias", &vision->attention_bias));
  ITG_TRY(must_be_off(r, object, "use_qk_norm"));
  ITG_TRY(read_bool(r, object, "use_mean_pooling", &pooled));
  ITG_TRY(read_bool(r, object, "use_absolute_position_embeddings", &positions));
  ITG_TRY(read_integer(r, root, "vision_feature_layer", -1, 0, &layer));
  ITG_TRY(read_number(r, root, "downsample_ratio", &ratio));
  if (!pooled || !positions || layer != -1)
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file,
             "InternVL without mean pooling, without absolute positions or with features of an inner layer");
  if (!(ratio > 0 && ratio <= 1) || 1 / ratio != (double)(int32_t)(1 / ratio))
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->file, "\"downsample_ratio\" %g is not one over a whole number", ratio);
  vision->shuffle = (int32_t)(1 / ratio);
  return ITG_OK;
}

static itg_status read_vision_language(const reader *r, const json_t *root, bool internvl,
                                       itg_language_config *config) {
  const json_t *text = json_object_get(root, "text_config");
  CHECK_KEYS(r, text, "text_config", text_keys);
  ITG_TRY(read_text(r, text, config));
  ITG_TRY(internvl ? read_internvl(r, root, config) : read_idefics3(r, root, config));
  ITG_TRY(read_bool(r, root, "tie_word_embeddings", &config->tied));
  ITG_TRY(read_integer(r, root, "image_token_id", 0, INT32_MAX, &config->image_token));
  ITG_TRY(read_eos(r, root, config));
  itg_vision_config *vision = &config->vision;
  const int64_t side =
      vision->patch_size > 0 && vision->shuffle > 0 ? vision->image_size / vision->patch_size / vision->shuffle : 0;
  vision->tile_tokens = (int32_t)itg_min_i64(side * side, INT32_MAX);
  return ITG_OK;
}

// ---- preprocessing ----

// The pictures' values are fixed by the family (pipelines/): other numbers than these are refused.
static itg_status check_values(const reader *r, const json_t *root, const char *key, const double *expected) {
  const json_t *list = json_object_get(root, key);
  if (!list) return ITG_OK;
  for (size_t i = 0; i < 3; i++) {
    const double difference = json_number_value(json_array_get(list, i)) - expected[i];
    if (json_array_size(list) != 3 || difference > 1e-6 || difference < -1e-6)
      ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "\"%s\" of %s is not what models of this family take",
               key, r->file);
  }
  return ITG_OK;
}

static itg_status read_preprocessor(const reader *r, const json_t *root, itg_vision_config *vision) {
  static const char *const used[] = {
      "crop_to_patches", "do_convert_rgb", "do_image_splitting", "do_normalize",         "do_pad",
      "do_rescale",      "do_resize",      "image_mean",         "image_processor_type", "image_std",
      "max_image_size",  "max_patches",    "min_patches",        "processor_class",      "resample",
      "rescale_factor",  "size",           "video_sampling",     "data_format",          "default_to_square",
      "image_seq_len"};
  static const double half[] = {0.5, 0.5, 0.5}, mean[] = {0.485, 0.456, 0.406}, deviation[] = {0.229, 0.224, 0.225};
  const bool internvl = vision->family == ITG_VISION_INTERNVL;
  int32_t resample = internvl ? 3 : 1, edge = vision->image_size, smallest = 1;
  CHECK_KEYS(r, root, "the top level", used);
  ITG_TRY(check_values(r, root, "image_mean", internvl ? mean : half));
  ITG_TRY(check_values(r, root, "image_std", internvl ? deviation : half));
  ITG_TRY(read_integer(r, root, "resample", 0, 5, &resample));
  ITG_TRY(read_integer(r, root, "min_patches", 1, 1, &smallest));
  if (resample != (internvl ? 3 : 1))
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "resampling method %d is not supported", (int)resample);
  const json_t *size = json_object_get(root, "size");
  if (internvl) {
    ITG_TRY(read_bool(r, root, "crop_to_patches", &vision->split));
    ITG_TRY(read_integer(r, root, "max_patches", 1, 64, &vision->maximum_tiles));
    ITG_TRY(read_integer(r, size, "height", 1, 4096, &edge));
  } else {
    ITG_TRY(read_bool(r, root, "do_image_splitting", &vision->split));
    ITG_TRY(read_integer(r, size, "longest_edge", 1, 1 << 14, &vision->maximum_edge));
    ITG_TRY(read_integer(r, json_object_get(root, "max_image_size"), "longest_edge", 1, 4096, &edge));
  }
  if (edge != vision->image_size)
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "tiles of %d pixels for an encoder of %d", (int)edge,
             (int)vision->image_size);
  return ITG_OK;
}

// ---- files ----

static itg_status parse(const reader *r, itg_span bytes, json_t **out) {
  if (bytes.size > ITG_HUGGINGFACE_MAX_JSON)
    ITG_FAIL(r->diagnostic, ITG_ERROR_LIMIT, r->file, "%s has %zu bytes; at most %d are allowed", r->file, bytes.size,
             ITG_HUGGINGFACE_MAX_JSON);
  json_error_t error;
  *out = itg_json_parse(bytes, 0, &error);
  if (json_is_object(*out)) return ITG_OK;
  json_decref(*out);
  *out = NULL;
  ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->file, "%s is no JSON object (line %d)", r->file, error.line);
}

static itg_status read_root(const reader *r, const json_t *root, itg_language_config *config) {
  const char *type = text_of(root, "model_type");
  if (json_object_get(root, "quantization_config"))
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->file, "the model is quantized already (\"quantization_config\")");
  if (strcmp(type, "smolvlm") == 0 || strcmp(type, "idefics3") == 0)
    return read_vision_language(r, root, false, config);
  if (strcmp(type, "internvl") == 0) return read_vision_language(r, root, true, config);
  ITG_TRY(read_family(r, root, config)); // An unknown architecture is a clearer message than an unknown key.
  CHECK_KEYS(r, root, "the top level", text_keys);
  return read_text(r, root, config);
}

itg_status itg_huggingface_config(itg_span config, itg_span preprocessor, itg_diagnostic *diagnostic,
                                  itg_language_config *out) {
  itg_language_config result;
  itg_language_config_init(&result);
  json_t *root;
  reader r = {"config.json", diagnostic};
  ITG_TRY(parse(&r, config, &root));
  itg_status status = read_root(&r, root, &result);
  json_decref(root);
  ITG_TRY(status);
  if (preprocessor.size && result.vision.family != ITG_VISION_NONE) {
    r.file = "preprocessor_config.json";
    ITG_TRY(parse(&r, preprocessor, &root));
    status = read_preprocessor(&r, root, &result.vision);
    json_decref(root);
    ITG_TRY(status);
  }
  ITG_TRY(itg_language_config_check(&result, diagnostic));
  *out = result;
  return ITG_OK;
}

itg_status itg_huggingface_generation(itg_span json, itg_diagnostic *diagnostic, itg_language_config *config) {
  const reader r = {"generation_config.json", diagnostic};
  json_t *root;
  ITG_TRY(parse(&r, json, &root));
  itg_language_config result = *config;
  itg_status status = read_eos(&r, root, &result);
  json_decref(root);
  if (status == ITG_OK) status = itg_language_config_check(&result, diagnostic);
  if (status == ITG_OK) *config = result;
  return status;
}
