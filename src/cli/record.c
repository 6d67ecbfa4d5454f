// Records of a compiled file as lines for people: what --json gives whole, without the braces.
#include "cli/record.h"

#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

enum {
  COLUMNS = 140,
  MAX_DEPTH = 6,     // Of nested objects; deeper ones are left out.
  MAX_ELEMENTS = 16, // Of an array that are shown.
  VALUE_CHARACTERS = 120
};

typedef struct printer {
  FILE *stream;
  int column; // Characters written on this line; 0 at its start.
} printer;

static void end_line(printer *p) {
  if (p->column) fputc('\n', p->stream);
  p->column = 0;
}

static void write_pair(printer *p, int indent, const char *key, const char *value) {
  const int length = (int)(strlen(key) + strlen(value) + (*key && *value));
  if (p->column && p->column + length + 3 > COLUMNS) end_line(p);
  if (p->column)
    p->column += fprintf(p->stream, ", ");
  else
    p->column += fprintf(p->stream, "%*s", indent, "");
  for (; *key; key++, p->column++) fputc(*key == '_' ? ' ' : *key, p->stream);
  if (*value) p->column += fprintf(p->stream, "%s%s", length > (int)strlen(value) ? " " : "", value);
}

// A file's text must not move the cursor of the terminal it is shown on.
static void copy_printable(char *to, size_t capacity, const char *from) {
  size_t n = 0;
  for (; *from && n + 1 < capacity; from++) to[n++] = iscntrl((unsigned char)*from) ? ' ' : *from;
  to[n] = '\0';
}

static bool is_scalar(const json_t *value) { return !json_is_object(value) && !json_is_array(value); }

static void scalar_text(const json_t *value, char *text, size_t capacity) {
  if (json_is_string(value))
    copy_printable(text, capacity, json_string_value(value));
  else if (json_is_integer(value))
    snprintf(text, capacity, "%lld", (long long)json_integer_value(value));
  else if (json_is_real(value))
    snprintf(text, capacity, "%.5g", json_real_value(value));
  else
    snprintf(text, capacity, "%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "none");
}

// [112, 112] as "112 112".
static bool scalars_text(const json_t *array, char *text, size_t capacity) {
  size_t length = 0;
  text[0] = '\0';
  for (size_t i = 0; i < json_array_size(array) && i < MAX_ELEMENTS && length + 1 < capacity; i++) {
    char element[VALUE_CHARACTERS];
    if (!is_scalar(json_array_get(array, i))) return false;
    scalar_text(json_array_get(array, i), element, sizeof element);
    const int written = snprintf(text + length, capacity - length, "%s%s", i ? " " : "", element);
    length += written > 0 ? (size_t)written : 0;
  }
  return true;
}

static void write_object(printer *p, const json_t *object, int indent, int depth) {
  const char *key;
  json_t *value;
  char text[4 * VALUE_CHARACTERS], printable_key[VALUE_CHARACTERS];
  json_object_foreach((json_t *)object, key, value) {
    copy_printable(printable_key, sizeof printable_key, key);
    if (is_scalar(value))
      scalar_text(value, text, sizeof text);
    else if (!json_is_array(value) || !scalars_text(value, text, sizeof text))
      continue;
    if (*text) write_pair(p, indent, printable_key, text);
  }
  end_line(p);
  if (depth == MAX_DEPTH) return;
  json_object_foreach((json_t *)object, key, value) {
    copy_printable(printable_key, sizeof printable_key, key);
    if (json_is_object(value)) {
      write_pair(p, indent, printable_key, "");
      end_line(p);
      write_object(p, value, indent + 2, depth + 1);
    }
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value) && i < MAX_ELEMENTS; i++) {
      const json_t *element = json_array_get(value, i);
      if (!json_is_object(element)) continue;
      write_pair(p, indent, printable_key, "");
      end_line(p);
      write_object(p, element, indent + 2, depth + 1);
    }
  }
}

void cli_print_record(FILE *stream, const char *name, const char *text, size_t size) {
  printer p = {.stream = stream};
  json_t *record = json_loadb(text, size, 0, NULL);
  fprintf(stream, "%s\n", name);
  if (json_is_object(record)) {
    write_object(&p, record, 2, 0);
  } else {
    char line[COLUMNS], copy[COLUMNS];
    snprintf(copy, sizeof copy, "%.*s", (int)(size < sizeof copy ? size : sizeof copy), text);
    copy_printable(line, sizeof line, copy);
    fprintf(stream, "  %s\n", line);
  }
  json_decref(record);
}
