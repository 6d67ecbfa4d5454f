// Bodies of HTML forms: multipart/form-data (RFC 7578, RFC 2046) and application/x-www-form-urlencoded (WHATWG URL).
#ifndef ITG_SERVER_FORM_H
#define ITG_SERVER_FORM_H

#include "base/span.h"
#include "base/status.h"

enum { ITG_FORM_FIELDS = 64 };

typedef struct itg_form_field {
  itg_span name, value;
} itg_form_field;

typedef struct itg_form {
  itg_form_field fields[ITG_FORM_FIELDS];
  size_t count;
  void *memory; // Decoded text of an urlencoded body.
} itg_form;

// `content_type` is the header (NULL: none). A body of another type gives a form without fields. Spans of a multipart body
// point into it. Errors: FORMAT (no boundary, a part without end or headers), LIMIT (too many fields), MEMORY.
ITG_MUST_USE itg_status itg_form_parse(const char *content_type, itg_span body, itg_diagnostic *diagnostic,
                                       itg_form *out);
void itg_form_free(itg_form *form);
// The last field of a name, or NULL.
const itg_form_field *itg_form_find(const itg_form *form, const char *name);

#endif
