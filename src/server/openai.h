// OpenAI's chat completions API over a compiled language model: POST /v1/chat/completions (also streamed), GET /v1/models,
// GET /health.
#ifndef ITG_SERVER_OPENAI_H
#define ITG_SERVER_OPENAI_H

#include "intaglio/language.h"
#include "server/http.h"

typedef struct itg_openai_options {
  const char *host;
  uint16_t port;
  itg_http_limits http;
  const char *model_name;        // What /v1/models lists and answers carry.
  size_t conversations;          // Answered at the same time, each with caches of its own.
  size_t queue_capacity;         // Requests that wait; beyond: 429.
  itg_image_limits image_limits; // Zeroes: those of itg_image_decode.
  itg_session_options session;   // Of each conversation.
} itg_openai_options;

typedef struct itg_openai itg_openai; // Any thread.

// Starts to answer. `language` is borrowed. Errors: those of itg_http_start and itg_chat_create, MEMORY.
ITG_MUST_USE itg_status itg_openai_start(const itg_openai_options *options, const itg_language *language,
                                         itg_diagnostic *diagnostic, itg_openai **out);
uint16_t itg_openai_port(const itg_openai *openai);
// Refuses new requests, finishes those that were taken, ends. NULL is allowed.
void itg_openai_stop(itg_openai *openai);

#endif
