// See prompt.h.
#include "pipelines/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "text/buffers.h"

typedef struct conversation {
  itg_chat_turn *turns;
  itg_chat_piece *pieces;
  const itg_image **images; // In the order of the prompt.
  size_t image_count;
} conversation;

static void release(conversation *c) {
  free(c->turns);
  free(c->pieces);
  free(c->images);
}

static itg_status read_messages(const itg_chat_message *messages, size_t count, itg_diagnostic *diagnostic,
                                conversation *out) {
  size_t parts = 0;
  for (size_t i = 0; i < count; i++) parts += messages[i].part_count;
  out->turns = calloc(count + 1, sizeof *out->turns);
  out->pieces = calloc(parts + 1, sizeof *out->pieces);
  out->images = calloc(parts + 1, sizeof *out->images);
  ITG_TRY_MEMORY(out->turns && out->pieces && out->images, diagnostic);
  itg_chat_piece *piece = out->pieces;
  for (size_t i = 0; i < count; i++) {
    out->turns[i] = (itg_chat_turn){messages[i].role, piece, messages[i].part_count};
    for (size_t p = 0; p < messages[i].part_count; p++) {
      const itg_chat_part *part = &messages[i].parts[p];
      *piece++ = (itg_chat_piece){{(const uint8_t *)part->text, part->image ? 0 : part->size}, part->image != NULL};
      if (part->image) out->images[out->image_count++] = part->image;
    }
  }
  return ITG_OK;
}

static itg_status make_tiles(const itg_language *l, const conversation *c, bool single, itg_diagnostic *diagnostic,
                             itg_prompt *out) {
  if (c->image_count == 0) return ITG_OK;
  if (!l->vision) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "messages", "this model does not take images");
  out->tiles = calloc(c->image_count, sizeof *out->tiles);
  ITG_TRY_MEMORY(out->tiles, diagnostic);
  for (size_t i = 0; i < c->image_count; i++) {
    ITG_TRY(itg_vision_tiles_make(&l->config.vision, c->images[i], !single && l->config.vision.split, diagnostic,
                                  &out->tiles[i]));
    out->picture_count++;
  }
  return ITG_OK;
}

// A fingerprint of a tile's pixels: FNV-1a over words.
static uint64_t fingerprint(const uint8_t *pixels, size_t size) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    memcpy(&word, pixels + i, size - i < 8 ? size - i : 8);
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

// Keys of texts are below 2^32, those of image tokens above.
static itg_status make_keys(const itg_language *l, itg_prompt *prompt, itg_diagnostic *diagnostic) {
  if (!itg_grow((void **)&prompt->keys, &prompt->key_capacity, prompt->ids.count, sizeof prompt->keys[0]))
    ITG_TRY_MEMORY(NULL, diagnostic);
  const size_t tokens = l->vision ? (size_t)l->config.vision.tile_tokens : 1;
  size_t picture = 0, tile = 0, row = 0;
  uint64_t hash = 0;
  for (size_t i = 0; i < prompt->ids.count; i++) {
    const int32_t id = prompt->ids.ids[i];
    prompt->keys[i] = (uint32_t)id;
    if (!l->vision || id != l->config.image_token) continue;
    if (picture == prompt->picture_count)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "messages", "the text holds the model's image token without an image");
    const itg_vision_tiles *tiles = &prompt->tiles[picture];
    const size_t bytes = (size_t)tiles->side * (size_t)tiles->side * 3;
    if (row == 0) hash = fingerprint(tiles->pixels + tile * bytes, bytes);
    prompt->keys[i] = (hash + row) | (uint64_t)1 << 63;
    if (++row < tokens) continue;
    row = 0;
    if (++tile < tiles->count) continue;
    tile = 0;
    picture++;
  }
  if (picture != prompt->picture_count)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "messages", "%zu of %zu images have no place in the prompt",
             prompt->picture_count - picture, prompt->picture_count);
  return ITG_OK;
}

static itg_status render(const itg_language *l, const conversation *c, size_t count, bool raw, const itg_prompt *prompt,
                         itg_diagnostic *diagnostic, itg_text *text, itg_text *expanded) {
  if (raw) {
    for (size_t i = 0; i < count; i++) {
      for (size_t p = 0; p < c->turns[i].piece_count; p++)
        ITG_TRY(itg_text_append(text, c->turns[i].pieces[p].text, diagnostic));
    }
  } else {
    ITG_TRY(itg_chat_template_render(&l->chat, c->turns, count, diagnostic, text));
  }
  if (!l->vision) return itg_text_append(expanded, itg_text_span(text), diagnostic);
  return itg_vision_expand_prompt(&l->config.vision, itg_text_span(text), prompt->tiles, prompt->picture_count,
                                  diagnostic, expanded);
}

static itg_status make(const itg_language *l, const itg_chat_message *messages, size_t count,
                       const itg_chat_settings *settings, itg_diagnostic *diagnostic, conversation *c, itg_text *text,
                       itg_text *expanded, itg_prompt *out) {
  ITG_TRY(read_messages(messages, count, diagnostic, c));
  ITG_TRY(make_tiles(l, c, settings->single_tile, diagnostic, out));
  ITG_TRY(render(l, c, count, settings->raw, out, diagnostic, text, expanded));
  ITG_TRY(itg_tokenizer_encode(l->tokenizer, itg_text_span(expanded), NULL, diagnostic, &out->ids));
  if (out->ids.count == 0) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "messages", "the prompt is empty");
  return make_keys(l, out, diagnostic);
}

itg_status itg_prompt_make(const itg_language *language, const itg_chat_message *messages, size_t message_count,
                           const itg_chat_settings *settings, itg_diagnostic *diagnostic, itg_prompt *out) {
  conversation c = {0};
  itg_text text = {0}, expanded = {0};
  itg_prompt_clear(out);
  const itg_status status = make(language, messages, message_count, settings, diagnostic, &c, &text, &expanded, out);
  itg_text_free(&text);
  itg_text_free(&expanded);
  release(&c);
  return status;
}

void itg_prompt_clear(itg_prompt *prompt) {
  for (size_t i = 0; i < prompt->picture_count; i++) itg_vision_tiles_free(&prompt->tiles[i]);
  free(prompt->tiles);
  prompt->tiles = NULL;
  prompt->picture_count = 0;
  prompt->ids.count = 0;
}

void itg_prompt_free(itg_prompt *prompt) {
  itg_prompt_clear(prompt);
  itg_token_ids_free(&prompt->ids);
  free(prompt->keys);
  *prompt = (itg_prompt){0};
}
