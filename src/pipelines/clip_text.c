// The text side of CLIP and SigLIP: configuration, cleaning, tokenizer, the encoder's input values. See services.h.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pipelines/clip_text.h"
#include "pipelines/json_file.h"
#include "pipelines/service.h"
#include "text/buffers.h"
#include "text/json_fields.h"

enum { DEFAULT_CONTEXT = 77, MAX_CONTEXT = 1 << 16 };

struct itg_clip_text {
  itg_tokenizer *tokenizer;
  bool canonicalize;
  bool translates; // NLLB: the language's code goes before the text.
  int32_t pad_id;
  size_t context;
};

// ---- configuration ----

static itg_status read_config(itg_clip_text *t, const char *folder, itg_diagnostic *diagnostic) {
  char path[ITG_SERVICE_PATH];
  ITG_TRY(itg_service_path(folder, "../config.json", diagnostic, path));
  json_t *root = NULL;
  ITG_TRY(itg_json_file_read(path, diagnostic, &root));
  const json_t *text = json_object_get(root, "text_cfg");
  const json_t *kwargs = json_object_get(text, "tokenizer_kwargs");
  const char *clean = json_string_value(json_object_get(kwargs, "clean"));
  int64_t context = DEFAULT_CONTEXT;
  itg_status status = ITG_OK;
  if (!json_is_object(text)) {
    status =
        itg_fail(diagnostic, ITG_ERROR_FORMAT, path, __FILE__, __LINE__, "has no \"text_cfg\"; is it of a CLIP model?");
  } else {
    status = itg_json_integer(text, path, "context_length", 1, MAX_CONTEXT, diagnostic, &context);
  }
  t->canonicalize = clean && strcmp(clean, "canonicalize") == 0;
  t->context = (size_t)context;
  json_decref(root);
  return status;
}

static itg_status read_pad(itg_clip_text *t, const char *folder, itg_diagnostic *diagnostic) {
  char path[ITG_SERVICE_PATH];
  ITG_TRY(itg_service_path(folder, "tokenizer_config.json", diagnostic, path));
  json_t *root = NULL;
  ITG_TRY(itg_json_file_read(path, diagnostic, &root));
  const json_t *token = json_object_get(root, "pad_token");
  if (json_is_object(token)) token = json_object_get(token, "content");
  itg_status status = ITG_OK;
  t->pad_id = json_is_string(token) ? itg_tokenizer_id_of_token(t->tokenizer, itg_json_span(token)) : -1;
  if (t->pad_id < 0)
    status = itg_fail(diagnostic, ITG_ERROR_FORMAT, path, __FILE__, __LINE__,
                      "\"pad_token\" names no token of the tokenizer");
  json_decref(root);
  return status;
}

static itg_status read_tokenizer(itg_clip_text *t, const char *folder, itg_diagnostic *diagnostic) {
  char path[ITG_SERVICE_PATH];
  itg_mapped_file file;
  ITG_TRY(itg_service_path(folder, "tokenizer.json", diagnostic, path));
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  const itg_status status = itg_tokenizer_open(file.bytes, diagnostic, &t->tokenizer);
  itg_mapped_file_close(&file);
  return status;
}

// <model>/textual or <model>/<revision>/textual: does the model's name begin with "nllb"?
static bool is_nllb(const char *folder) {
  const char *part = folder;
  for (const char *at = folder; *at; at++) {
    if (*at != '/') continue;
    if (strncmp(part, "nllb", 4) == 0) return true;
    part = at + 1;
  }
  return false;
}

itg_status itg_clip_text_open(const char *folder, itg_diagnostic *diagnostic, itg_clip_text **out) {
  itg_clip_text *t = calloc(1, sizeof *t);
  ITG_TRY_MEMORY(t, diagnostic);
  t->translates = is_nllb(folder);
  itg_status status = read_config(t, folder, diagnostic);
  if (status == ITG_OK) status = read_tokenizer(t, folder, diagnostic);
  if (status == ITG_OK) status = read_pad(t, folder, diagnostic);
  if (status != ITG_OK) {
    itg_clip_text_close(t);
    return status;
  }
  *out = t;
  return ITG_OK;
}

void itg_clip_text_close(itg_clip_text *text) {
  if (!text) return;
  itg_tokenizer_close(text->tokenizer);
  free(text);
}

size_t itg_clip_text_context(const itg_clip_text *text) { return text->context; }

// ---- a text ----

static itg_status prefix_language(const char *language, itg_text *cleaned, itg_diagnostic *diagnostic) {
  const char *code = itg_clip_flores_code(language);
  const size_t length = strlen(code);
  ITG_TRY(itg_text_append(cleaned, (itg_span){(const uint8_t *)code, length}, diagnostic));
  memmove(cleaned->data + length, cleaned->data, cleaned->size - length);
  memcpy(cleaned->data, code, length);
  return ITG_OK;
}

static itg_status encode(const itg_clip_text *t, itg_span text, const char *language, itg_text *cleaned,
                         itg_token_ids *ids, itg_diagnostic *diagnostic) {
  const itg_encode_options options = {.add_special = true, .max_length = t->context};
  ITG_TRY(itg_clip_clean_text(text, t->canonicalize, diagnostic, cleaned));
  if (t->translates && language) ITG_TRY(prefix_language(language, cleaned, diagnostic));
  return itg_tokenizer_encode(t->tokenizer, itg_text_span(cleaned), &options, diagnostic, ids);
}

itg_status itg_clip_text_values(const itg_clip_text *text, const char *words, size_t size, const char *language,
                                itg_diagnostic *diagnostic, float *ids, float *mask) {
  itg_text cleaned = {0};
  itg_token_ids found = {0};
  const itg_status status =
      encode(text, (itg_span){(const uint8_t *)words, size}, language, &cleaned, &found, diagnostic);
  for (size_t i = 0; status == ITG_OK && i < text->context; i++) {
    const bool there = i < found.count;
    ids[i] = (float)(there ? found.ids[i] : text->pad_id);
    if (mask) mask[i] = there;
  }
  itg_text_free(&cleaned);
  itg_token_ids_free(&found);
  return status;
}

// ---- the service ----

typedef struct clip_textual {
  itg_network_source source;
  itg_network network;
  itg_clip_text *text;
  size_t ids_input;  // 0 or 1; the other one, if any, is the mask.
  float *ids, *mask; // `mask` also where the network has none.
} clip_textual;

static void close_textual(void *state) {
  clip_textual *textual = state;
  if (textual->network.run) textual->source.close(textual->source.context, &textual->network);
  itg_clip_text_close(textual->text);
  free(textual->ids);
  free(textual->mask);
  free(textual);
}

static itg_status embed_text(void *state, const char *text, size_t size, const char *language,
                             itg_diagnostic *diagnostic, float *out) {
  clip_textual *t = state;
  ITG_TRY(itg_clip_text_values(t->text, text, size, language, diagnostic, t->ids, t->mask));
  const float *inputs[2];
  inputs[t->ids_input] = t->ids;
  inputs[1 - t->ids_input] = t->mask;
  return t->network.run(t->network.context, inputs, &out, diagnostic);
}

static const itg_service_calls textual_calls = {.close = close_textual, .embed_text = embed_text};

static itg_status check_network(clip_textual *t, const char *folder, itg_diagnostic *diagnostic) {
  const itg_network *n = &t->network;
  bool good = n->output_count == 1 && (n->input_count == 1 || n->input_count == 2);
  for (size_t i = 0; good && i < n->input_count; i++) {
    const itg_tensor_info *info = n->input(n->context, i);
    good = info->count == itg_clip_text_context(t->text);
    if (n->input_count == 2 && strcmp(info->name, "attention_mask") == 0) t->ids_input = 1 - i;
  }
  if (!good || n->output(n->context, 0)->count < 1)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, folder,
             "not a CLIP text encoder: [1,%zu] ids (and, for multilingual CLIP, a mask) -> embedding was expected",
             itg_clip_text_context(t->text));
  return ITG_OK;
}

static itg_status open_network(clip_textual *t, const char *folder, itg_diagnostic *diagnostic) {
  char shape[32];
  const char *const shapes[] = {shape};
  itg_status status = t->source.open(t->source.context, folder, "model", NULL, 0, diagnostic, &t->network);
  if (status == ITG_ERROR_SHAPE) { // The context's length is left open.
    snprintf(shape, sizeof shape, "1x%zu", itg_clip_text_context(t->text));
    status = t->source.open(t->source.context, folder, "model", shapes, 1, diagnostic, &t->network);
  }
  return status;
}

itg_status itg_open_clip_textual(const char *folder, const itg_network_source *source, itg_diagnostic *diagnostic,
                                 itg_service *service) {
  clip_textual *t = calloc(1, sizeof *t);
  ITG_TRY_MEMORY(t, diagnostic);
  t->source = *source;
  itg_status status = itg_clip_text_open(folder, diagnostic, &t->text);
  if (status == ITG_OK) status = open_network(t, folder, diagnostic);
  if (status == ITG_OK) status = check_network(t, folder, diagnostic);
  if (status == ITG_OK) {
    t->ids = calloc(itg_clip_text_context(t->text), sizeof *t->ids);
    t->mask = calloc(itg_clip_text_context(t->text), sizeof *t->mask);
    if (!t->ids || !t->mask) status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  }
  if (status != ITG_OK) {
    close_textual(t);
    return status;
  }
  service->calls = &textual_calls;
  service->state = t;
  service->embedding_size = t->network.output(t->network.context, 0)->count;
  return ITG_OK;
}
