// Text under construction: JSON and HTML answers. An allocation that fails is remembered, not reported at each call.
#ifndef ITG_SERVER_REPLY_H
#define ITG_SERVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "intaglio/status.h"

typedef struct itg_reply { // Starts as zeroes. One thread at a time.
  char *data;              // malloc'ed; not NUL-terminated.
  size_t size, capacity;
  bool failed; // Out of memory: the text is not complete.
} itg_reply;

void itg_reply_free(itg_reply *reply);
void itg_reply_append(itg_reply *reply, const char *data, size_t size);
void itg_reply_text(itg_reply *reply, const char *text);
void itg_reply_print(itg_reply *reply, const char *format, ...) ITG_PRINTF(2, 3);
// A JSON string with its quotes; UTF-8 stays as it is.
void itg_reply_json_string(itg_reply *reply, const char *text);
// HTML text: & < > and quotes become references.
void itg_reply_html(itg_reply *reply, const char *text);
// The shortest decimal that reads back as the same float; whole numbers with ".0", small and large ones with an exponent
// (as Python's orjson and repr do). `value` must be finite.
void itg_reply_float(itg_reply *reply, float value);
// "[0.1,-0.2]", in quotes: how Immich's service sends embeddings.
void itg_reply_embedding(itg_reply *reply, const float *values, size_t count);

#endif
