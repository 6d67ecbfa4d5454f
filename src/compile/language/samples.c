// See samples.h.
#include "compile/language/samples.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/file.h"
#include "text/buffers.h"
#include "text/chat_template.h"

void itg_language_samples_free(itg_language_samples *samples) {
  for (size_t i = 0; i < samples->count; i++) {
    itg_language_sample *sample = &samples->items[i];
    itg_token_ids_free(&sample->ids);
    for (size_t t = 0; t < sample->tile_sets; t++) itg_vision_tiles_free(&sample->tiles[t]);
    free(sample->tiles);
  }
  free(samples->items);
  *samples = (itg_language_samples){0};
}

static itg_status add_sample(itg_language_samples *samples, itg_diagnostic *diagnostic, itg_language_sample **out) {
  if (!itg_grow((void **)&samples->items, &samples->capacity, samples->count + 1, sizeof samples->items[0]))
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  *out = &samples->items[samples->count++];
  **out = (itg_language_sample){0};
  return ITG_OK;
}

static void hash_sample(itg_language_samples *samples, const itg_language_sample *sample) {
  samples->hash = XXH3_64bits_withSeed(sample->ids.ids, sample->ids.count * sizeof sample->ids.ids[0], samples->hash);
  for (size_t t = 0; t < sample->tile_sets; t++) {
    const itg_vision_tiles *tiles = &sample->tiles[t];
    const size_t bytes = tiles->count * (size_t)tiles->side * (size_t)tiles->side * 3;
    samples->hash = XXH3_64bits_withSeed(tiles->pixels, bytes, samples->hash);
  }
}

// Every sample begins with the prefix.
static itg_status begin_sample(itg_language_sample *sample, const itg_language_config *config,
                               itg_diagnostic *diagnostic) {
  for (int32_t i = 0; i < config->prefix_count; i++)
    ITG_TRY(itg_token_ids_append(&sample->ids, config->prefix[i], diagnostic));
  return ITG_OK;
}

// Windows of the text's tokens, evenly spread over it when it has more than are wanted.
static itg_status cut_windows(const itg_token_ids *ids, const itg_language_sample_options *options,
                              itg_diagnostic *diagnostic, itg_language_samples *samples) {
  const size_t length = options->longest - (size_t)options->config->prefix_count;
  const size_t whole = ids->count < length ? 1 : ids->count / length;
  const size_t windows = options->most && options->most < whole ? options->most : whole;
  for (size_t w = 0; w < windows; w++) {
    const size_t first = w * whole / windows * length;
    const size_t count = ids->count - first < length ? ids->count - first : length;
    itg_language_sample *sample;
    ITG_TRY(add_sample(samples, diagnostic, &sample));
    ITG_TRY(begin_sample(sample, options->config, diagnostic));
    for (size_t i = 0; i < count; i++) ITG_TRY(itg_token_ids_append(&sample->ids, ids->ids[first + i], diagnostic));
    hash_sample(samples, sample);
  }
  return ITG_OK;
}

static itg_status read_text(itg_span text, const itg_tokenizer *tokenizer, const itg_language_sample_options *options,
                            itg_diagnostic *diagnostic, itg_language_samples *samples) {
  itg_token_ids ids = {0};
  itg_status status = itg_tokenizer_encode(tokenizer, text, NULL, diagnostic, &ids);
  if (status == ITG_OK && ids.count < 2)
    status = itg_fail(diagnostic, ITG_ERROR_ARGUMENT, NULL, __FILE__, __LINE__, "the text has no tokens");
  if (status == ITG_OK) status = cut_windows(&ids, options, diagnostic, samples);
  itg_token_ids_free(&ids);
  return status;
}

// ---- conversations ----

enum { MAX_TURNS = 256, MAX_PIECES = 1024, MAX_LIST = 10000, MAX_JSON = 64 << 20 };

typedef struct conversations {
  const char *path; // Of the list; pictures are relative to its folder.
  const itg_language_model *model;
  const itg_tokenizer *tokenizer;
  const itg_language_sample_options *options;
  itg_chat_template chat;
  itg_diagnostic *diagnostic;
  itg_arena arena; // Of one conversation.
  size_t number;   // From 1.
} conversations;

#define REFUSE(c, ...) ITG_FAIL((c)->diagnostic, ITG_ERROR_FORMAT, (c)->path, __VA_ARGS__)

static itg_status check_object(const conversations *c, const json_t *object, const char *what,
                               const char *const *known) {
  if (!json_is_object(object)) REFUSE(c, "%s of conversation %zu is no object", what, c->number);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    size_t k = 0;
    while (known[k] && strcmp(known[k], key) != 0) k++;
    if (!known[k]) REFUSE(c, "%s of conversation %zu has the unknown key \"%.80s\"", what, c->number, key);
  }
  return ITG_OK;
}

// Reads a picture and cuts it into tiles.
static itg_status add_picture(conversations *c, const char *name, itg_language_sample *sample) {
  const itg_vision_config *vision = &c->model->config.vision;
  if (vision->family == ITG_VISION_NONE)
    REFUSE(c, "conversation %zu has a picture, but the model has no vision encoder", c->number);
  if (strstr(name, "://"))
    REFUSE(c, "conversation %zu names a picture by its address; give the path of a file", c->number);
  const char *slash = strrchr(c->path, '/');
  const size_t folder = name[0] == '/' || !slash ? 0 : (size_t)(slash - c->path) + 1;
  char *path = itg_arena_allocate(&c->arena, folder + strlen(name) + 1);
  ITG_TRY_MEMORY(path, c->diagnostic);
  memcpy(path, c->path, folder);
  memcpy(path + folder, name, strlen(name) + 1);
  itg_vision_tiles *grown = realloc(sample->tiles, (sample->tile_sets + 1) * sizeof *grown);
  ITG_TRY_MEMORY(grown, c->diagnostic);
  sample->tiles = grown;
  itg_image image;
  ITG_TRY(itg_image_read(path, NULL, c->diagnostic, &image));
  const itg_status status =
      itg_vision_tiles_make(vision, &image, true, c->diagnostic, &sample->tiles[sample->tile_sets]);
  itg_image_free(&image);
  sample->tile_sets += status == ITG_OK;
  return status;
}

// A part of a message: text, or a picture that is named here or taken from "files" in order.
static itg_status read_piece(conversations *c, const json_t *part, const json_t *files, size_t *next_file,
                             itg_language_sample *sample, itg_chat_piece *out) {
  static const char *const known[] = {"type", "text", "image", "path", "url", NULL}, *const names[] = {"image", "path",
                                                                                                       "url"};
  ITG_TRY(check_object(c, part, "a part of a message", known));
  const char *type = json_string_value(json_object_get(part, "type"));
  const json_t *text = json_object_get(part, "text");
  if (type && strcmp(type, "text") == 0 && json_is_string(text)) {
    *out = (itg_chat_piece){{(const uint8_t *)json_string_value(text), json_string_length(text)}, false};
    return ITG_OK;
  }
  if (!type || strcmp(type, "image") != 0)
    REFUSE(c, "a part of a message of conversation %zu is neither text nor an image", c->number);
  const char *name = NULL;
  for (int i = 0; i < 3 && !name; i++) name = json_string_value(json_object_get(part, names[i]));
  if (!name) name = json_string_value(json_array_get(files, (*next_file)++));
  if (!name) REFUSE(c, "conversation %zu has an image without a file", c->number);
  *out = (itg_chat_piece){.is_image = true};
  return add_picture(c, name, sample);
}

static itg_status read_turn(conversations *c, const json_t *message, const json_t *files, size_t *next_file,
                            itg_language_sample *sample, itg_chat_turn *out) {
  static const char *const known[] = {"role", "content", NULL};
  ITG_TRY(check_object(c, message, "a message", known));
  const json_t *content = json_object_get(message, "content");
  out->role = json_string_value(json_object_get(message, "role"));
  const bool plain = json_is_string(content);
  out->piece_count = plain ? 1 : json_array_size(content);
  if (!out->role || out->piece_count == 0 || out->piece_count > MAX_PIECES)
    REFUSE(c, "a message of conversation %zu needs a role and a content", c->number);
  itg_chat_piece *pieces = itg_arena_array(&c->arena, out->piece_count, sizeof pieces[0]);
  ITG_TRY_MEMORY(pieces, c->diagnostic);
  out->pieces = pieces;
  if (plain) {
    pieces[0] = (itg_chat_piece){{(const uint8_t *)json_string_value(content), json_string_length(content)}, false};
    return ITG_OK;
  }
  for (size_t i = 0; i < out->piece_count; i++)
    ITG_TRY(read_piece(c, json_array_get(content, i), files, next_file, sample, &pieces[i]));
  return ITG_OK;
}

static itg_status encode_turns(conversations *c, const itg_chat_turn *turns, size_t count,
                               itg_language_sample *sample) {
  itg_text rendered = {0}, prompt = {0};
  itg_token_ids ids = {0};
  itg_status status = itg_chat_template_render(&c->chat, turns, count, c->diagnostic, &rendered);
  if (status == ITG_OK && sample->tile_sets)
    status = itg_vision_expand_prompt(&c->model->config.vision, itg_text_span(&rendered), sample->tiles,
                                      sample->tile_sets, c->diagnostic, &prompt);
  if (status == ITG_OK)
    status = itg_tokenizer_encode(c->tokenizer, itg_text_span(sample->tile_sets ? &prompt : &rendered), NULL,
                                  c->diagnostic, &ids);
  const itg_language_config *config = c->options->config;
  const size_t prefix = (size_t)config->prefix_count;
  const bool begun = ids.count >= prefix && memcmp(ids.ids, config->prefix, prefix * sizeof ids.ids[0]) == 0;
  if (status == ITG_OK && !begun) status = begin_sample(sample, config, c->diagnostic);
  for (size_t i = 0; status == ITG_OK && i < ids.count; i++)
    status = itg_token_ids_append(&sample->ids, ids.ids[i], c->diagnostic);
  itg_text_free(&rendered);
  itg_text_free(&prompt);
  itg_token_ids_free(&ids);
  return status;
}

static itg_status read_conversation(conversations *c, const json_t *item, itg_language_sample *sample) {
  static const char *const known[] = {"files", "messages", NULL};
  ITG_TRY(check_object(c, item, "the top level", known));
  const json_t *messages = json_object_get(item, "messages"), *files = json_object_get(item, "files");
  const size_t count = json_array_size(messages);
  size_t next_file = 0;
  if (count == 0 || count > MAX_TURNS)
    REFUSE(c, "conversation %zu needs \"messages\", at most %d", c->number, MAX_TURNS);
  itg_chat_turn *turns = itg_arena_array(&c->arena, count, sizeof turns[0]);
  ITG_TRY_MEMORY(turns, c->diagnostic);
  for (size_t i = 0; i < count; i++)
    ITG_TRY(read_turn(c, json_array_get(messages, i), files, &next_file, sample, &turns[i]));
  if (next_file < json_array_size(files))
    REFUSE(c, "conversation %zu has %zu files, but its messages take %zu", c->number, json_array_size(files),
           next_file);
  return encode_turns(c, turns, count, sample);
}

static itg_status read_list(conversations *c, const json_t *root, itg_language_samples *samples) {
  const size_t given = json_array_size(root), most = c->options->most;
  if (given == 0 || given > MAX_LIST) REFUSE(c, "%s is no list of 1 to %d conversations", c->path, MAX_LIST);
  const itg_span jinja = {(const uint8_t *)(c->model->chat_template ? c->model->chat_template : ""),
                          c->model->chat_template ? strlen(c->model->chat_template) : 0};
  ITG_TRY(itg_chat_template_choose(&c->model->config, jinja, c->tokenizer, c->diagnostic, &c->chat));
  for (size_t i = 0; i < (most && most < given ? most : given); i++) {
    itg_language_sample *sample;
    ITG_TRY(add_sample(samples, c->diagnostic, &sample));
    c->number = i + 1;
    const itg_status status = read_conversation(c, json_array_get(root, i), sample);
    itg_arena_free(&c->arena);
    c->arena = (itg_arena){0};
    ITG_TRY(status);
    hash_sample(samples, sample);
  }
  return ITG_OK;
}

static itg_status read_json(conversations *c, itg_span text, itg_language_samples *samples) {
  if (text.size > MAX_JSON)
    ITG_FAIL(c->diagnostic, ITG_ERROR_LIMIT, c->path, "%zu bytes of conversations; at most %d are allowed", text.size,
             MAX_JSON);
  json_error_t error;
  json_t *root = json_loadb((const char *)text.data, text.size, JSON_REJECT_DUPLICATES, &error);
  if (!root) REFUSE(c, "line %d of %s is no JSON: %s", error.line, c->path, error.text);
  const itg_status status = read_list(c, root, samples);
  json_decref(root);
  return status;
}

itg_status itg_language_samples_read(const char *path, const itg_language_model *model, const itg_tokenizer *tokenizer,
                                     const itg_language_sample_options *options, itg_diagnostic *diagnostic,
                                     itg_language_samples *out) {
  itg_mapped_file file;
  itg_language_samples samples = {0};
  conversations c = {
      .path = path, .model = model, .tokenizer = tokenizer, .options = options, .diagnostic = diagnostic};
  const size_t length = strlen(path);
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  const bool json = length > 5 && strcmp(path + length - 5, ".json") == 0;
  const itg_status status =
      json ? read_json(&c, file.bytes, &samples) : read_text(file.bytes, tokenizer, options, diagnostic, &samples);
  itg_mapped_file_close(&file);
  if (status != ITG_OK) {
    itg_language_samples_free(&samples);
    return status;
  }
  *out = samples;
  return ITG_OK;
}
