// See reply.h.
#include "server/reply.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void itg_reply_free(itg_reply *reply) {
  free(reply->data);
  *reply = (itg_reply){0};
}

static bool make_room(itg_reply *reply, size_t size) {
  if (reply->failed) return false;
  const size_t needed = reply->size + size;
  if (needed <= reply->capacity) return true;
  size_t capacity = reply->capacity ? reply->capacity : 1024;
  while (capacity < needed) capacity *= 2;
  char *grown = realloc(reply->data, capacity);
  reply->failed = !grown;
  if (!grown) return false;
  reply->data = grown;
  reply->capacity = capacity;
  return true;
}

void itg_reply_append(itg_reply *reply, const char *data, size_t size) {
  if (!make_room(reply, size)) return;
  memcpy(reply->data + reply->size, data, size);
  reply->size += size;
}

void itg_reply_text(itg_reply *reply, const char *text) { itg_reply_append(reply, text, strlen(text)); }

void itg_reply_print(itg_reply *reply, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length >= 0 && make_room(reply, (size_t)length + 1)) {
    vsnprintf(reply->data + reply->size, (size_t)length + 1, format, again);
    reply->size += (size_t)length;
  }
  va_end(again);
}

void itg_reply_json_string(itg_reply *reply, const char *text) {
  itg_reply_text(reply, "\"");
  while (*text) {
    size_t plain = 0;
    while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\') plain++;
    itg_reply_append(reply, text, plain);
    text += plain;
    if (!*text) break;
    static const char controls[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
    const char *known = strchr(controls, *text);
    if (known)
      itg_reply_print(reply, "\\%c", letters[known - controls]);
    else
      itg_reply_print(reply, "\\u%04x", (unsigned)*text);
    text++;
  }
  itg_reply_text(reply, "\"");
}

void itg_reply_html(itg_reply *reply, const char *text) {
  for (; *text; text++) {
    switch (*text) {
    case '&': itg_reply_text(reply, "&amp;"); break;
    case '<': itg_reply_text(reply, "&lt;"); break;
    case '>': itg_reply_text(reply, "&gt;"); break;
    case '"': itg_reply_text(reply, "&quot;"); break;
    case '\'': itg_reply_text(reply, "&#39;"); break;
    default: itg_reply_append(reply, text, 1);
    }
  }
}

// Digits and decimal exponent of the shortest decimal: value = 0.d1d2.. * 10^exponent. Nine digits always suffice, and
// when p digits read back, so do p + 1.
static int shortest(float value, char digits[16], int *exponent) {
  char text[32];
  int precision = 8; // Most floats need 8 or 9; round ones far fewer.
  snprintf(text, sizeof text, "%.7e", (double)value);
  if (strtof(text, NULL) != value) snprintf(text, sizeof text, "%.*e", precision++, (double)value);
  while (precision > 1) {
    char shorter[32];
    snprintf(shorter, sizeof shorter, "%.*e", precision - 2, (double)value);
    if (strtof(shorter, NULL) != value) break;
    memcpy(text, shorter, sizeof text);
    precision--;
  }
  int count = 0;
  const char *at = text + (text[0] == '-');
  for (; *at && *at != 'e'; at++)
    if (*at != '.') digits[count++] = *at;
  while (count > 1 && digits[count - 1] == '0') count--;
  *exponent = atoi(at + 1) + 1;
  return count;
}

void itg_reply_float(itg_reply *reply, float value) {
  if (value == 0) {
    itg_reply_text(reply, signbit(value) ? "-0.0" : "0.0");
    return;
  }
  char digits[16];
  int exponent;
  const int count = shortest(value, digits, &exponent);
  if (value < 0) itg_reply_text(reply, "-");
  if (exponent < -4 || exponent > 16) {
    itg_reply_append(reply, digits, 1);
    if (count > 1) {
      itg_reply_text(reply, ".");
      itg_reply_append(reply, digits + 1, (size_t)count - 1);
    }
    itg_reply_print(reply, "e%d", exponent - 1);
  } else if (exponent <= 0) {
    itg_reply_append(reply, "0.0000", (size_t)(2 - exponent));
    itg_reply_append(reply, digits, (size_t)count);
  } else if (exponent >= count) {
    itg_reply_append(reply, digits, (size_t)count);
    itg_reply_append(reply, "0000000000000000", (size_t)(exponent - count));
    itg_reply_text(reply, ".0");
  } else {
    itg_reply_append(reply, digits, (size_t)exponent);
    itg_reply_text(reply, ".");
    itg_reply_append(reply, digits + exponent, (size_t)(count - exponent));
  }
}

void itg_reply_embedding(itg_reply *reply, const float *values, size_t count) {
  itg_reply_text(reply, "\"[");
  for (size_t i = 0; i < count; i++) {
    if (i) itg_reply_text(reply, ",");
    itg_reply_float(reply, values[i]);
  }
  itg_reply_text(reply, "]\"");
}
