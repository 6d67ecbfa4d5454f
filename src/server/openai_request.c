// See openai_request.h.
#include "server/openai_request.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/json.h"
#include "base/status.h"

#define FAIL_FIELD(field, ...) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, field, __VA_ARGS__)

// ---- fields ----

static itg_status read_number(const json_t *root, const char *name, double low, double high, itg_diagnostic *diagnostic,
                              double *out) {
  const json_t *value = json_object_get(root, name);
  if (!value || json_is_null(value)) return ITG_OK;
  const double number = json_number_value(value);
  if (!json_is_number(value) || !(number >= low && number <= high))
    FAIL_FIELD(name, "%s must be a number from %g to %g", name, low, high);
  *out = number;
  return ITG_OK;
}

static itg_status read_integer(const json_t *root, const char *name, json_int_t low, json_int_t high,
                               itg_diagnostic *diagnostic, json_int_t *out) {
  const json_t *value = json_object_get(root, name);
  if (!value || json_is_null(value)) return ITG_OK;
  const json_int_t number = json_integer_value(value);
  if (!json_is_integer(value) || number < low || number > high)
    FAIL_FIELD(name, "%s must be an integer from %lld to %lld", name, (long long)low, (long long)high);
  *out = number;
  return ITG_OK;
}

static itg_status read_bool(const json_t *root, const char *name, itg_diagnostic *diagnostic, bool *out) {
  const json_t *value = json_object_get(root, name);
  if (!value || json_is_null(value)) return ITG_OK;
  if (!json_is_boolean(value)) FAIL_FIELD(name, "%s must be true or false", name);
  *out = json_is_true(value);
  return ITG_OK;
}

// What would need an answer of another kind.
static itg_status refuse_unsupported(const json_t *root, itg_diagnostic *diagnostic) {
  static const char *const absent[] = {"tools", "functions",  "tool_choice", "function_call",
                                       "audio", "prediction", "logit_bias"};
  static const char *const zero[] = {"frequency_penalty", "presence_penalty", "top_logprobs"};
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
    const json_t *value = json_object_get(root, absent[i]);
    const bool empty = (json_is_array(value) && json_array_size(value) == 0) ||
                       (json_is_object(value) && json_object_size(value) == 0) ||
                       (json_is_string(value) && strcmp(json_string_value(value), "none") == 0);
    if (value && !json_is_null(value) && !empty) FAIL_FIELD(absent[i], "%s is not supported", absent[i]);
  }
  for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++) {
    double number = 0;
    ITG_TRY(read_number(root, zero[i], 0, 0, diagnostic, &number));
  }
  bool logprobs = false;
  json_int_t choices = 1;
  ITG_TRY(read_bool(root, "logprobs", diagnostic, &logprobs));
  if (logprobs) FAIL_FIELD("logprobs", "log probabilities are not supported");
  ITG_TRY(read_integer(root, "n", 1, 1, diagnostic, &choices));
  const json_t *format = json_object_get(root, "response_format");
  const char *type = json_string_value(json_object_get(format, "type"));
  if (format && !json_is_null(format) && (!type || strcmp(type, "text") != 0))
    FAIL_FIELD("response_format", "only the response format \"text\" is supported");
  return ITG_OK;
}

static itg_status read_stops(const json_t *root, itg_diagnostic *diagnostic, itg_openai_request *out) {
  const json_t *stop = json_object_get(root, "stop");
  if (!stop || json_is_null(stop)) return ITG_OK;
  const size_t count = json_is_array(stop) ? json_array_size(stop) : 1;
  if (count > ITG_CHAT_MAX_STOPS) FAIL_FIELD("stop", "%zu stop texts; at most %d", count, ITG_CHAT_MAX_STOPS);
  for (size_t i = 0; i < count; i++) {
    const json_t *text = json_is_array(stop) ? json_array_get(stop, i) : stop;
    if (!json_is_string(text)) FAIL_FIELD("stop", "stop must be a string or a list of strings");
    out->stops[i] = json_string_value(text);
  }
  out->settings.stops = out->stops;
  out->settings.stop_count = count;
  return ITG_OK;
}

static itg_status read_settings(const json_t *root, itg_diagnostic *diagnostic, itg_openai_request *out) {
  itg_chat_settings *settings = &out->settings;
  json_int_t tokens = 0, top_k = 0, seed = (json_int_t)time(NULL);
  itg_chat_settings_default(settings);
  settings->temperature = 1; // The API's default.
  ITG_TRY(read_number(root, "temperature", 0, 2, diagnostic, &settings->temperature));
  ITG_TRY(read_number(root, "top_p", 0, 1, diagnostic, &settings->top_p));
  if (settings->top_p <= 0) settings->top_p = 1e-9; // The likeliest token alone.
  ITG_TRY(read_number(root, "min_p", 0, 1, diagnostic, &settings->min_p));
  ITG_TRY(read_number(root, "repetition_penalty", 0.01, 100, diagnostic, &settings->repetition_penalty));
  ITG_TRY(read_integer(root, "top_k", 0, 1 << 20, diagnostic, &top_k));
  ITG_TRY(read_integer(root, "max_tokens", 1, INT32_MAX, diagnostic, &tokens));
  ITG_TRY(read_integer(root, "max_completion_tokens", 1, INT32_MAX, diagnostic, &tokens));
  ITG_TRY(read_integer(root, "seed", INT64_MIN, INT64_MAX, diagnostic, &seed));
  settings->top_k = (int32_t)top_k;
  settings->max_tokens = (size_t)tokens;
  settings->seed = (uint64_t)seed;
  return read_stops(root, diagnostic, out);
}

// ---- messages ----

static int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// RFC 4648, with padding or without; false when it is no base64.
static bool decode_base64(const char *text, size_t length, uint8_t *out, size_t *size) {
  while (length > 0 && text[length - 1] == '=') length--;
  uint32_t bits = 0;
  size_t count = 0;
  for (size_t i = 0; i < length; i++) {
    const int value = base64_value(text[i]);
    if (value < 0) return false;
    bits = bits << 6 | (uint32_t)value;
    if (i % 4) out[count++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
  }
  *size = count;
  return length % 4 != 1;
}

static itg_status read_image(const json_t *part, const itg_image_limits *limits, itg_diagnostic *diagnostic,
                             itg_openai_request *out) {
  const json_t *value = json_object_get(part, "image_url");
  const json_t *url = json_is_object(value) ? json_object_get(value, "url") : value;
  const char *text = json_string_value(url);
  const char *comma = text ? strchr(text, ',') : NULL;
  if (!text || strncmp(text, "data:", 5) != 0 || !comma || comma - text > 100 ||
      !memmem(text, (size_t)(comma - text), ";base64", 7))
    FAIL_FIELD("messages", "images must be data URLs (data:image/jpeg;base64,...); nothing is downloaded");
  if (out->image_count == ITG_OPENAI_MAX_IMAGES) FAIL_FIELD("messages", "more than %d images", ITG_OPENAI_MAX_IMAGES);
  const size_t length = json_string_length(url) - (size_t)(comma + 1 - text);
  uint8_t *bytes = malloc(length / 4 * 3 + 4);
  ITG_TRY_MEMORY(bytes, diagnostic);
  size_t size = 0;
  itg_status status = ITG_OK;
  if (!decode_base64(comma + 1, length, bytes, &size))
    status = itg_fail(diagnostic, ITG_ERROR_ARGUMENT, "messages", __FILE__, __LINE__, "an image's data is no base64");
  else
    status = itg_image_decode(bytes, size, limits, diagnostic, &out->images[out->image_count]);
  free(bytes);
  if (status == ITG_OK) out->image_count++;
  return status;
}

static itg_status read_part(const json_t *part, const itg_image_limits *limits, itg_diagnostic *diagnostic,
                            itg_openai_request *out, itg_chat_part *to) {
  const char *type = json_string_value(json_object_get(part, "type"));
  if (type && strcmp(type, "text") == 0 && json_is_string(json_object_get(part, "text"))) {
    const json_t *text = json_object_get(part, "text");
    *to = (itg_chat_part){json_string_value(text), json_string_length(text), NULL};
    return ITG_OK;
  }
  if (!type || strcmp(type, "image_url") != 0)
    FAIL_FIELD("messages", "a part must be of type \"text\" or \"image_url\"");
  ITG_TRY(read_image(part, limits, diagnostic, out));
  *to = (itg_chat_part){.image = &out->images[out->image_count - 1]};
  return ITG_OK;
}

static itg_status read_message(const json_t *message, size_t index, const itg_image_limits *limits,
                               itg_diagnostic *diagnostic, itg_openai_request *out) {
  const char *role = json_string_value(json_object_get(message, "role"));
  const json_t *content = json_object_get(message, "content");
  if (!role) FAIL_FIELD("messages", "message %zu has no role", index);
  if (strcmp(role, "developer") == 0) role = "system"; // The API's newer name.
  const size_t count = json_is_array(content) ? json_array_size(content) : 1;
  if (count > ITG_OPENAI_MAX_PARTS)
    FAIL_FIELD("messages", "message %zu has %zu parts; at most %d", index, count, ITG_OPENAI_MAX_PARTS);
  if (!json_is_array(content) && !json_is_string(content))
    FAIL_FIELD("messages", "the content of message %zu must be a string or a list of parts", index);
  itg_chat_part *parts = calloc(count + 1, sizeof *parts);
  ITG_TRY_MEMORY(parts, diagnostic);
  out->messages[out->message_count++] = (itg_chat_message){role, parts, count};
  if (json_is_string(content)) {
    parts[0] = (itg_chat_part){json_string_value(content), json_string_length(content), NULL};
    return ITG_OK;
  }
  for (size_t i = 0; i < count; i++) ITG_TRY(read_part(json_array_get(content, i), limits, diagnostic, out, &parts[i]));
  return ITG_OK;
}

static itg_status read_messages(const json_t *root, const itg_image_limits *limits, itg_diagnostic *diagnostic,
                                itg_openai_request *out) {
  const json_t *messages = json_object_get(root, "messages");
  const size_t count = json_array_size(messages);
  if (!json_is_array(messages) || count == 0)
    FAIL_FIELD("messages", "messages must be a list with at least one message");
  if (count > ITG_OPENAI_MAX_MESSAGES)
    FAIL_FIELD("messages", "%zu messages; at most %d", count, ITG_OPENAI_MAX_MESSAGES);
  out->messages = calloc(count, sizeof *out->messages);
  out->images = calloc(ITG_OPENAI_MAX_IMAGES, sizeof *out->images);
  ITG_TRY_MEMORY(out->messages && out->images, diagnostic);
  for (size_t i = 0; i < count; i++) ITG_TRY(read_message(json_array_get(messages, i), i, limits, diagnostic, out));
  return ITG_OK;
}

itg_status itg_openai_request_parse(itg_span body, const itg_image_limits *limits, itg_diagnostic *diagnostic,
                                    itg_openai_request *out) {
  json_error_t error;
  out->json = itg_json_parse(body, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
  if (!out->json) ITG_FAIL(diagnostic, itg_json_status(&error), "body", "the body is no JSON object: %s", error.text);
  if (!json_is_object(out->json)) FAIL_FIELD("body", "the body is no JSON object: another value");
  const json_t *model = json_object_get(out->json, "model");
  if (json_is_string(model)) {
    out->model = strdup(json_string_value(model));
    ITG_TRY_MEMORY(out->model, diagnostic);
  }
  ITG_TRY(refuse_unsupported(out->json, diagnostic));
  ITG_TRY(read_settings(out->json, diagnostic, out));
  ITG_TRY(read_bool(out->json, "stream", diagnostic, &out->stream));
  const json_t *stream_options = json_object_get(out->json, "stream_options");
  if (json_is_object(stream_options))
    ITG_TRY(read_bool(stream_options, "include_usage", diagnostic, &out->include_usage));
  return read_messages(out->json, limits, diagnostic, out);
}

void itg_openai_request_free(itg_openai_request *request) {
  for (size_t i = 0; i < request->message_count; i++) free((void *)request->messages[i].parts);
  for (size_t i = 0; i < request->image_count; i++) itg_image_free(&request->images[i]);
  free(request->messages);
  free(request->images);
  free(request->model);
  json_decref(request->json);
  *request = (itg_openai_request){0};
}
