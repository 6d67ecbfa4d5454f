// Intaglio language models: conversations with a compiled language or vision-language model. Needs only the runtime.
//
//   itg_language_open("model.itg") -> itg_chat_create -> itg_chat_generate, as often as wanted
//
// A call takes the whole conversation; what its beginning has in common with what the chat has seen before is not computed
// again, so that further turns cost only their own tokens.
#ifndef INTAGLIO_LANGUAGE_H
#define INTAGLIO_LANGUAGE_H

#include "intaglio/pipelines.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct itg_language itg_language; // Immutable after open; share freely between threads.
typedef struct itg_chat itg_chat;         // One thread at a time. Chats of one model are independent.

// Opens a compiled language model (intaglio compile of a checkpoint folder or GGUF file).
// Errors: those of itg_model_open; FORMAT, UNSUPPORTED when the file is no language model or lacks a part of one.
ITG_API ITG_MUST_USE itg_status itg_language_open(const char *path, itg_diagnostic *diagnostic, itg_language **out);
// All chats must be destroyed before. NULL is allowed.
ITG_API void itg_language_close(itg_language *language);
ITG_API bool itg_language_sees(const itg_language *language);      // Takes images.
ITG_API size_t itg_language_context(const itg_language *language); // Tokens of prompt and answer together.
// Caches and buffers of one conversation. `options` as of a session (NULL: default).
ITG_API ITG_MUST_USE itg_status itg_chat_create(const itg_language *language, const itg_session_options *options,
                                                itg_diagnostic *diagnostic, itg_chat **out);
ITG_API void itg_chat_destroy(itg_chat *chat); // NULL is allowed.

// A piece of a message: a text (UTF-8), or an image.
typedef struct itg_chat_part {
  const char *text;
  size_t size;
  const itg_image *image; // NULL: text.
} itg_chat_part;

typedef struct itg_chat_message {
  const char *role; // "system", "user", "assistant"
  const itg_chat_part *parts;
  size_t part_count;
} itg_chat_message;

enum { ITG_CHAT_MAX_STOPS = 16, ITG_CHAT_MAX_STOP_BYTES = 1024 };

typedef struct itg_chat_settings {
  size_t struct_size;        // sizeof(itg_chat_settings); itg_chat_settings_default sets it.
  size_t max_tokens;         // Of the answer; 0: until the model ends or the context is full.
  double temperature;        // 0 (default): always the likeliest token.
  int32_t top_k;             // Only the k likeliest tokens; 0: all.
  double top_p;              // Only the likeliest tokens whose probabilities reach p together; 1: all.
  double min_p;              // Only tokens at least this share as likely as the likeliest; 0: all.
  double repetition_penalty; // Logits of tokens that were seen are divided (positive) or multiplied; 1: none.
  uint64_t seed;             // Equal seeds give equal answers.
  const char *const *stops;  // The answer ends before any of these texts; they are not part of it.
  size_t stop_count;
  bool raw;         // The messages' texts are the prompt as they are, without the model's template.
  bool single_tile; // Images are not cut into tiles: faster, less detail.
} itg_chat_settings;

ITG_API void itg_chat_settings_default(itg_chat_settings *settings);

typedef enum itg_chat_end {
  ITG_CHAT_STOPPED = 0, // By the model, or a stop text.
  ITG_CHAT_LENGTH,      // max_tokens, or the context is full.
  ITG_CHAT_CANCELLED,   // By the caller.
} itg_chat_end;

typedef struct itg_chat_statistics {
  itg_chat_end end;
  size_t prompt_tokens;                  // Image tokens included.
  size_t cached_tokens;                  // Of them, those that were still known.
  size_t answer_tokens;                  // Without the one that ended it.
  size_t tiles;                          // That went through the image encoder.
  double image_seconds, prefill_seconds; // Encoding images; computing the prompt.
  double first_token_seconds;            // From the call to the first token.
  double decode_seconds;                 // From the first token to the last.
  size_t peak_resident_bytes;            // Of the process.
} itg_chat_statistics;

// Receives the answer piece by piece, whole UTF-8 characters only. False cancels. Between the blocks of a long prompt it is
// called with size 0, only to ask that.
typedef bool (*itg_chat_text_function)(void *context, const char *text, size_t size);

// Answers the last message. `statistics` may be NULL.
// Errors: ARGUMENT (settings, an unknown role, images for a model that sees none), LIMIT (the prompt does not fit the
// context: how long both are), MEMORY, those of the parts. After an error the chat can be used again.
ITG_API ITG_MUST_USE itg_status itg_chat_generate(itg_chat *chat, const itg_chat_message *messages,
                                                  size_t message_count, const itg_chat_settings *settings,
                                                  itg_chat_text_function on_text, void *context,
                                                  itg_diagnostic *diagnostic, itg_chat_statistics *statistics);
// Ids of the last answer; they live until the next call.
ITG_API const int32_t *itg_chat_answer_ids(const itg_chat *chat, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
