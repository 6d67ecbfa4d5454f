// A GGUF file as a language model: description from its metadata, weights by the names of its tensors.
#include <stdio.h>
#include <stdlib.h>

#include "import/language/model.h"
#include "tensor/gguf.h"
#include "text/gguf_tokenizer.h"

static const char *const names[ITG_WEIGHT_ROLES] = {
    [ITG_WEIGHT_EMBEDDING] = "token_embd.weight",
    [ITG_WEIGHT_FINAL_NORM] = "output_norm.weight",
    [ITG_WEIGHT_HEAD] = "output.weight",
    [ITG_WEIGHT_LAYER_NORM] = "blk.%d.attn_norm.weight",
    [ITG_WEIGHT_LAYER_Q] = "blk.%d.attn_q.weight",
    [ITG_WEIGHT_LAYER_K] = "blk.%d.attn_k.weight",
    [ITG_WEIGHT_LAYER_V] = "blk.%d.attn_v.weight",
    [ITG_WEIGHT_LAYER_OUTPUT] = "blk.%d.attn_output.weight",
    [ITG_WEIGHT_LAYER_Q_NORM] = "blk.%d.attn_q_norm.weight",
    [ITG_WEIGHT_LAYER_K_NORM] = "blk.%d.attn_k_norm.weight",
    [ITG_WEIGHT_LAYER_SECOND_NORM] = "blk.%d.ffn_norm.weight",
    [ITG_WEIGHT_LAYER_GATE] = "blk.%d.ffn_gate.weight",
    [ITG_WEIGHT_LAYER_UP] = "blk.%d.ffn_up.weight",
    [ITG_WEIGHT_LAYER_DOWN] = "blk.%d.ffn_down.weight",
};

typedef struct reader {
  const itg_gguf *gguf;
  const char *architecture;
  itg_diagnostic *diagnostic;
} reader;

static const itg_gguf_value *find(const reader *r, const char *key) {
  char full[128];
  snprintf(full, sizeof full, "%s.%s", r->architecture, key);
  return itg_gguf_find(r->gguf, full);
}

// Absent: *out stays.
static itg_status read_integer(const reader *r, const itg_gguf_value *value, const char *key, int64_t high,
                               int32_t *out) {
  int64_t number;
  if (!value) return ITG_OK;
  if (value->is_array || !itg_gguf_integer(value, 0, &number) || number < 0 || number > high)
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, key, "\"%s\" of the GGUF file is not a whole number up to %lld", key,
             (long long)high);
  *out = (int32_t)number;
  return ITG_OK;
}

static itg_status read_own_integer(const reader *r, const char *key, int64_t high, int32_t *out) {
  return read_integer(r, find(r, key), key, high, out);
}

static itg_status read_number(const reader *r, const char *key, double *out) {
  const itg_gguf_value *value = find(r, key);
  if (!value) return ITG_OK;
  if (value->is_array || !itg_gguf_number(value, 0, out))
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, key, "\"%s\" of the GGUF file is not a number", key);
  return ITG_OK;
}

// Refuses keys of the architecture that nothing here reads.
static itg_status check_keys(const reader *r) {
  static const char *const used[] = {"attention.head_count",   "attention.head_count_kv",
                                     "attention.key_length",   "attention.layer_norm_rms_epsilon",
                                     "attention.value_length", "block_count",
                                     "context_length",         "embedding_length",
                                     "feed_forward_length",    "rope.dimension_count",
                                     "rope.freq_base",         "rope.scaling.factor",
                                     "rope.scaling.type",      "rope.scaling.original_context_length",
                                     "rope.scaling.finetuned", "vocab_size"};
  const size_t length = strlen(r->architecture);
  for (size_t i = 0; i < r->gguf->key_count; i++) {
    const itg_span key = r->gguf->keys[i];
    if (key.size <= length || memcmp(key.data, r->architecture, length) != 0 || key.data[length] != '.') continue;
    bool known = false;
    const itg_span rest = {key.data + length + 1, key.size - length - 1};
    for (size_t u = 0; u < sizeof used / sizeof used[0]; u++) known = known || itg_span_equals(rest, used[u]);
    if (!known)
      ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, r->architecture, "the GGUF file has the unknown key \"%.*s\"",
               (int)(key.size < 100 ? key.size : 100), (const char *)key.data);
  }
  return ITG_OK;
}

static itg_status read_rope(const reader *r, itg_language_config *config) {
  int32_t rotated = config->head_size;
  itg_span type = {0};
  config->rope.theta = 10000;
  ITG_TRY(read_number(r, "rope.freq_base", &config->rope.theta));
  ITG_TRY(read_own_integer(r, "rope.dimension_count", ITG_LANGUAGE_MAX_HEAD_SIZE, &rotated));
  if (rotated != config->head_size)
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, "rope.dimension_count",
             "only %d of %d values of a head are rotated, which is not supported", (int)rotated,
             (int)config->head_size);
  if (!itg_gguf_text(find(r, "rope.scaling.type"), &type) || itg_span_equals(type, "none")) return ITG_OK;
  if (!itg_span_equals(type, "linear"))
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, "rope.scaling.type", "rope scaling \"%.*s\" is not supported",
             (int)(type.size < 80 ? type.size : 80), (const char *)type.data);
  config->rope.kind = ITG_ROPE_LINEAR;
  return read_number(r, "rope.scaling.factor", &config->rope.factor);
}

static itg_status read_ids(const reader *r, itg_language_config *config) {
  static const char *const eos[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                    "tokenizer.ggml.eom_token_id"};
  ITG_TRY(
      read_integer(r, itg_gguf_find(r->gguf, "tokenizer.ggml.bos_token_id"), "bos_token_id", INT32_MAX, &config->bos));
  ITG_TRY(read_integer(r, itg_gguf_find(r->gguf, "tokenizer.ggml.padding_token_id"), "padding_token_id", INT32_MAX,
                       &config->pad));
  for (size_t i = 0; i < sizeof eos / sizeof eos[0]; i++) {
    int32_t id = -1;
    ITG_TRY(read_integer(r, itg_gguf_find(r->gguf, eos[i]), eos[i], INT32_MAX, &id));
    if (id >= 0 && (config->eos_count == 0 || config->eos[0] != id)) config->eos[config->eos_count++] = id;
  }
  return ITG_OK;
}

static itg_status read_sizes(const reader *r, itg_language_config *config) {
  ITG_TRY(read_own_integer(r, "embedding_length", ITG_LANGUAGE_MAX_WIDTH, &config->hidden));
  ITG_TRY(read_own_integer(r, "feed_forward_length", ITG_LANGUAGE_MAX_WIDTH, &config->intermediate));
  ITG_TRY(read_own_integer(r, "block_count", ITG_LANGUAGE_MAX_LAYERS, &config->layers));
  ITG_TRY(read_own_integer(r, "attention.head_count", ITG_LANGUAGE_MAX_HEADS, &config->heads));
  config->kv_heads = config->heads;
  ITG_TRY(read_own_integer(r, "attention.head_count_kv", ITG_LANGUAGE_MAX_HEADS, &config->kv_heads));
  config->head_size = config->heads > 0 ? config->hidden / config->heads : 0;
  ITG_TRY(read_own_integer(r, "attention.key_length", ITG_LANGUAGE_MAX_HEAD_SIZE, &config->head_size));
  int32_t value_size = config->head_size;
  ITG_TRY(read_own_integer(r, "attention.value_length", ITG_LANGUAGE_MAX_HEAD_SIZE, &value_size));
  if (value_size != config->head_size)
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, "attention.value_length", "values of %d beside keys of %d",
             (int)value_size, (int)config->head_size);
  ITG_TRY(read_own_integer(r, "context_length", ITG_LANGUAGE_MAX_POSITIONS, &config->maximum_positions));
  const itg_gguf_value *tokens = itg_gguf_find(r->gguf, "tokenizer.ggml.tokens");
  if (tokens && tokens->count <= ITG_LANGUAGE_MAX_VOCABULARY) config->vocabulary = (int32_t)tokens->count;
  return read_own_integer(r, "vocab_size", ITG_LANGUAGE_MAX_VOCABULARY, &config->vocabulary);
}

static itg_status read_config(reader *r, char architecture[32], itg_language_model *model) {
  itg_language_config *config = &model->config;
  itg_span name = {0};
  itg_language_config_init(config);
  itg_gguf_text(itg_gguf_find(r->gguf, "general.architecture"), &name);
  if (itg_span_equals(name, "llama"))
    config->family = ITG_LANGUAGE_LLAMA;
  else if (itg_span_equals(name, "qwen2"))
    config->family = ITG_LANGUAGE_QWEN2;
  else if (itg_span_equals(name, "qwen3"))
    config->family = ITG_LANGUAGE_QWEN3;
  else
    ITG_FAIL(r->diagnostic, ITG_ERROR_UNSUPPORTED, "general.architecture",
             "the architecture \"%.*s\" is not supported; known are llama, qwen2 and qwen3",
             (int)(name.size < 80 ? name.size : 80), (const char *)name.data);
  snprintf(architecture, 32, "%.*s", (int)name.size, (const char *)name.data);
  r->architecture = architecture;
  ITG_TRY(check_keys(r));
  ITG_TRY(read_sizes(r, config));
  config->norm_epsilon = 1e-5;
  ITG_TRY(read_number(r, "attention.layer_norm_rms_epsilon", &config->norm_epsilon));
  ITG_TRY(read_rope(r, config));
  ITG_TRY(read_ids(r, config));
  config->tied = true; // A head that differs is stored.
  config->qkv_bias = config->family == ITG_LANGUAGE_QWEN2;
  config->head_norm = config->family == ITG_LANGUAGE_QWEN3;
  model->paired_rotation = config->family == ITG_LANGUAGE_LLAMA;
  return itg_language_config_check(config, r->diagnostic);
}

static itg_status add_tensors(const reader *r, itg_checkpoint *checkpoint) {
  for (size_t i = 0; i < r->gguf->tensor_count; i++) {
    const itg_gguf_tensor *tensor = &r->gguf->tensors[i];
    const int length = (int)(tensor->name.size < 100 ? tensor->name.size : 100);
    const bool known = itg_block_format_is_known(tensor->type);
    const itg_block_format format = known ? (itg_block_format)tensor->type : ITG_BLOCK_UNKNOWN;
    size_t count, row, total = 0;
    itg_span data = {0};
    const int64_t columns = tensor->shape.rank ? tensor->shape.dims[tensor->shape.rank - 1] : 1;
    if (known) {
      if (!itg_shape_count(&tensor->shape, &count) || !itg_block_row_bytes(format, columns, &row) ||
          __builtin_mul_overflow(columns ? count / (size_t)columns : 0, row, &total) ||
          !itg_span_cut(r->gguf->data, tensor->offset, total, &data))
        ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, "GGUF",
                 "the data of the tensor %.*s does not lie inside the file; is it truncated?", length,
                 (const char *)tensor->name.data);
    }
    ITG_TRY(itg_checkpoint_add(checkpoint, tensor->name, format,
                               known ? itg_block_format_name(tensor->type) : "another type", &tensor->shape, data,
                               r->diagnostic));
  }
  return ITG_OK;
}

// Llama 3's ramp, stored as one factor a pair.
static itg_status read_rope_factors(const reader *r, itg_language_model *model) {
  const itg_weight *weight = itg_checkpoint_find(&model->checkpoint, "rope_freqs.weight");
  const itg_shape shape = itg_shape_of(1, (const int64_t[]){model->config.head_size / 2});
  if (!weight) return ITG_OK;
  ITG_TRY(itg_checkpoint_need(&model->checkpoint, weight->name, &shape, r->diagnostic, &weight));
  model->config.rope.kind = ITG_ROPE_FACTORS;
  itg_weight_read(weight, 0, 1, model->config.rope.factors);
  return itg_language_config_check(&model->config, r->diagnostic);
}

static itg_status copy_template(const reader *r, itg_language_model *model) {
  itg_span text;
  if (!itg_gguf_text(itg_gguf_find(r->gguf, "tokenizer.chat_template"), &text)) return ITG_OK;
  model->chat_template = strndup((const char *)text.data, text.size);
  ITG_TRY_MEMORY(model->chat_template, r->diagnostic);
  return ITG_OK;
}

static itg_status read_tokenizer(const reader *r, itg_language_model *model) {
  if (!itg_gguf_find(r->gguf, "tokenizer.ggml.model")) return ITG_OK; // Weights alone are a model, too.
  itg_text json = {0};
  const itg_status status = itg_gguf_tokenizer_to_json(r->gguf, r->diagnostic, &json);
  if (status != ITG_OK) {
    itg_text_free(&json);
    return status;
  }
  model->tokenizer_json = (char *)json.data;
  model->tokenizer_size = json.size;
  return ITG_OK;
}

itg_status itg_language_open_gguf(const char *path, itg_diagnostic *diagnostic, itg_language_model *model) {
  itg_span bytes;
  itg_gguf gguf;
  char architecture[32];
  ITG_TRY(itg_checkpoint_map(&model->checkpoint, path, diagnostic, &bytes));
  ITG_TRY(itg_gguf_read(bytes, diagnostic, &gguf));
  reader r = {&gguf, NULL, diagnostic};
  model->names = names;
  itg_status status = read_config(&r, architecture, model);
  if (status == ITG_OK) status = add_tensors(&r, &model->checkpoint);
  if (status == ITG_OK) status = read_rope_factors(&r, model);
  if (status == ITG_OK) status = copy_template(&r, model);
  if (status == ITG_OK) status = read_tokenizer(&r, model);
  itg_gguf_free(&gguf);
  return status;
}
