// From messages to what the decoder is fed: token ids, with a key for each by which an earlier prompt is recognised.
#ifndef ITG_PIPELINES_PROMPT_H
#define ITG_PIPELINES_PROMPT_H

#include "pipelines/language.h"
#include "pipelines/vision_tiles.h"

// One call's prompt. One thread at a time; starts as zeroes.
typedef struct itg_prompt {
  itg_token_ids ids;
  uint64_t *keys; // [ids.count]: the id, or for image tokens a fingerprint of their tile and place in it.
  size_t key_capacity;
  itg_vision_tiles *tiles; // One entry a picture.
  size_t picture_count;
} itg_prompt;

// Errors: ARGUMENT (roles, pictures the model does not take), LIMIT, MEMORY, those of the template, tiles and tokenizer.
ITG_MUST_USE itg_status itg_prompt_make(const itg_language *language, const itg_chat_message *messages,
                                        size_t message_count, const itg_chat_settings *settings,
                                        itg_diagnostic *diagnostic, itg_prompt *out);
// Frees what belongs to one call, keeps buffers.
void itg_prompt_clear(itg_prompt *prompt);
void itg_prompt_free(itg_prompt *prompt);

#endif
