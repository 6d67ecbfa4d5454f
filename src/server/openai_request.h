// Bodies of POST /v1/chat/completions (OpenAI's chat completions API): messages and settings, or what is wrong with them.
#ifndef ITG_SERVER_OPENAI_REQUEST_H
#define ITG_SERVER_OPENAI_REQUEST_H

#include "base/span.h"
#include "intaglio/language.h"

enum { ITG_OPENAI_MAX_MESSAGES = 4096, ITG_OPENAI_MAX_PARTS = 64, ITG_OPENAI_MAX_IMAGES = 32 };

// One request. Starts as zeroes; free with itg_openai_request_free in any case.
typedef struct itg_openai_request {
  char *model; // NULL: not named.
  itg_chat_message *messages;
  size_t message_count;
  itg_image *images;
  size_t image_count;
  itg_chat_settings settings;
  const char *stops[ITG_CHAT_MAX_STOPS];
  bool stream, include_usage;
  struct json_t *json; // What the texts lie in.
} itg_openai_request;

// Reads and checks a body; images come as data URLs (base64) and are decoded. Unknown fields are passed over, but what would
// change the answer and is not supported (tools, log probabilities, several choices, ...) is refused. The diagnostic's
// subject is the field. Errors: ARGUMENT (the request's fault), LIMIT, MEMORY, those of itg_image_decode.
ITG_MUST_USE itg_status itg_openai_request_parse(itg_span body, const itg_image_limits *limits,
                                                 itg_diagnostic *diagnostic, itg_openai_request *out);
void itg_openai_request_free(itg_openai_request *request);

#endif
