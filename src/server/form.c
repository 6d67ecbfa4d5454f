// See form.h. The parser walks the body once; nothing is copied.
#include "server/form.h"

#include <stdbool.h>
#include <stdlib.h>
#include <strings.h>

enum { MAX_BOUNDARY = 200, MAX_PART_HEADERS = 16 << 10 };

static itg_status add_field(itg_form *form, itg_span name, itg_span value, itg_diagnostic *diagnostic) {
  if (form->count == ITG_FORM_FIELDS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "Too many fields. Maximum number of fields is %d.", ITG_FORM_FIELDS);
  form->fields[form->count++] = (itg_form_field){name, value};
  return ITG_OK;
}

// ---- parameters of a header: type; name=value; name="value" ----

static bool is_token(char c) { return c > 0x20 && c < 0x7f && !strchr("()<>@,;:\\\"/[]?=", c); }

// Value of a parameter within [at, end), quotes taken off; an empty span when it is absent.
static itg_span find_parameter(const char *at, const char *end, const char *name) {
  while (at < end) {
    const char *semicolon = memchr(at, ';', (size_t)(end - at));
    if (!semicolon) break;
    at = semicolon + 1;
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    const char *start = at;
    while (at < end && is_token(*at)) at++;
    const bool found = (size_t)(at - start) == strlen(name) && strncasecmp(start, name, strlen(name)) == 0;
    if (at == end || *at != '=') continue;
    const bool quoted = ++at < end && *at == '"';
    const char *value = at += quoted;
    while (at < end && (quoted ? *at != '"' : *at != ';')) at += quoted && *at == '\\' && at + 1 < end ? 2 : 1;
    if (found) {
      size_t size = (size_t)(at - value);
      while (!quoted && size > 0 && (value[size - 1] == ' ' || value[size - 1] == '\t')) size--;
      return (itg_span){(const uint8_t *)value, size};
    }
  }
  return (itg_span){0};
}

static bool type_is(const char *content_type, const char *type) {
  const size_t length = strlen(type);
  return strncasecmp(content_type, type, length) == 0 && !is_token(content_type[length]) && content_type[length] != '/';
}

// ---- multipart ----

// The "name" of the part whose headers are [at, end); false when it is no form field.
static bool part_name(const char *at, const char *end, itg_span *name) {
  static const char disposition[] = "content-disposition:";
  while (at < end) {
    const char *line = at, *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
    if (!line_end) line_end = end;
    at = line_end + 2 < end ? line_end + 2 : end;
    if ((size_t)(line_end - line) < sizeof disposition - 1 ||
        strncasecmp(line, disposition, sizeof disposition - 1) != 0)
      continue;
    *name = find_parameter(line, line_end, "name");
    return name->data != NULL;
  }
  return false;
}

// Finds "\r\n--boundary" at or after `from`; the first one may lack the line break. NULL when there is none.
static const uint8_t *find_delimiter(itg_span body, const uint8_t *from, const char *delimiter, size_t length) {
  if (body.size == 0) return NULL;
  if (from == body.data && body.size >= length - 2 && memcmp(from, delimiter + 2, length - 2) == 0) return from - 2;
  return memmem(from, (size_t)(body.data + body.size - from), delimiter, length);
}

static itg_status parse_parts(itg_span body, const char *delimiter, size_t length, itg_form *form,
                              itg_diagnostic *diagnostic) {
  const uint8_t *end = body.data + body.size, *at = find_delimiter(body, body.data, delimiter, length);
  if (!at) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the form does not begin with its boundary");
  for (;;) {
    at += length;
    if (end - at >= 2 && at[0] == '-' && at[1] == '-') return ITG_OK; // The closing delimiter.
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    if (end - at < 2 || at[0] != '\r' || at[1] != '\n')
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "no line break behind a boundary of the form (byte %zu)",
               (size_t)(at - body.data));
    const uint8_t *headers = at + 2;
    const size_t room = (size_t)(end - at) < MAX_PART_HEADERS ? (size_t)(end - at) : MAX_PART_HEADERS;
    const uint8_t *blank = memmem(at, room, "\r\n\r\n", 4);
    if (!blank)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "a part of the form has no end of its headers (byte %zu)",
               (size_t)(at - body.data));
    const uint8_t *value = blank + 4;
    at = find_delimiter(body, blank + 2, delimiter, length); // An empty value shares its line break.
    if (!at)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the form ends in the middle of a part (begun at byte %zu)",
               (size_t)(headers - body.data));
    itg_span name;
    const size_t size = at > value ? (size_t)(at - value) : 0;
    if (blank > headers && part_name((const char *)headers, (const char *)blank, &name))
      ITG_TRY(add_field(form, name, (itg_span){value, size}, diagnostic));
  }
}

static itg_status parse_multipart(const char *content_type, itg_span body, itg_form *form, itg_diagnostic *diagnostic) {
  const itg_span boundary = find_parameter(content_type, content_type + strlen(content_type), "boundary");
  if (boundary.size == 0 || boundary.size > MAX_BOUNDARY)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "Missing boundary in multipart.");
  char delimiter[MAX_BOUNDARY + 4] = "\r\n--";
  memcpy(delimiter + 4, boundary.data, boundary.size);
  return parse_parts(body, delimiter, boundary.size + 4, form, diagnostic);
}

// ---- urlencoded ----

static int hex_digit(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Decodes into `out`; never longer than the source.
static itg_span decode(itg_span source, uint8_t *out) {
  size_t size = 0;
  for (size_t i = 0; i < source.size; i++) {
    uint8_t c = source.data[i];
    if (c == '+') c = ' ';
    if (c == '%' && i + 2 < source.size && hex_digit(source.data[i + 1]) >= 0 && hex_digit(source.data[i + 2]) >= 0) {
      c = (uint8_t)(hex_digit(source.data[i + 1]) * 16 + hex_digit(source.data[i + 2]));
      i += 2;
    }
    out[size++] = c;
  }
  return (itg_span){out, size};
}

static itg_status parse_urlencoded(itg_span body, itg_form *form, itg_diagnostic *diagnostic) {
  uint8_t *room = malloc(body.size + 1);
  ITG_TRY_MEMORY(room, diagnostic);
  form->memory = room;
  for (size_t at = 0; at < body.size;) {
    const uint8_t *start = body.data + at, *ampersand = memchr(start, '&', body.size - at);
    const size_t length = ampersand ? (size_t)(ampersand - start) : body.size - at;
    const uint8_t *equals = memchr(start, '=', length);
    const size_t name_length = equals ? (size_t)(equals - start) : length;
    at += length + 1;
    if (length == 0) continue;
    const itg_span name = decode((itg_span){start, name_length}, room);
    room += name.size;
    const itg_span value =
        decode(equals ? (itg_span){equals + 1, length - name_length - 1} : (itg_span){start, 0}, room);
    room += value.size;
    ITG_TRY(add_field(form, name, value, diagnostic));
  }
  return ITG_OK;
}

itg_status itg_form_parse(const char *content_type, itg_span body, itg_diagnostic *diagnostic, itg_form *out) {
  out->count = 0;
  out->memory = NULL;
  itg_status status = ITG_OK;
  if (content_type && type_is(content_type, "multipart/form-data"))
    status = parse_multipart(content_type, body, out, diagnostic);
  else if (content_type && type_is(content_type, "application/x-www-form-urlencoded"))
    status = parse_urlencoded(body, out, diagnostic);
  if (status != ITG_OK) itg_form_free(out);
  return status;
}

void itg_form_free(itg_form *form) {
  free(form->memory);
  form->memory = NULL;
  form->count = 0;
}

const itg_form_field *itg_form_find(const itg_form *form, const char *name) {
  for (size_t i = form->count; i-- > 0;)
    if (itg_span_equals(form->fields[i].name, name)) return &form->fields[i];
  return NULL;
}
