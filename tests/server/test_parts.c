// The parts of the server that need no socket: forms, entries, numbers as text, settings, names, percentiles, the queue.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/entries.h"
#include "server/form.h"
#include "server/models.h"
#include "server/queue.h"
#include "server/reply.h"
#include "server/settings.h"
#include "server/statistics.h"

static itg_span span(const char *text) { return (itg_span){(const uint8_t *)text, strlen(text)}; }

// ---- forms ----

#define TYPE "multipart/form-data; boundary=XX"

static void assert_field(const itg_form *form, const char *name, const char *value) {
  const itg_form_field *field = itg_form_find(form, name);
  assert_non_null(field);
  assert_int_equal(field->value.size, strlen(value));
  assert_memory_equal(field->value.data, value, field->value.size);
}

static void reads_multipart(void **state) {
  (void)state;
  itg_form form;
  // As Node's FormData sends it: a bare blob has the name "blob", and order is that of append.
  const char *body = "--XX\r\nContent-Disposition: form-data; name=\"entries\"\r\n\r\n{\"a\":1}\r\n"
                     "--XX\r\nContent-Disposition: form-data; name=\"image\"; filename=\"blob\"\r\n"
                     "Content-Type: application/octet-stream\r\n\r\n\r\n--XY--\r\n\r\n\r\n"
                     "--XX \t\r\ncontent-disposition:form-data;name=text\r\nX-More: 1\r\n\r\n\r\n"
                     "--XX\r\nContent-Type: text/plain\r\n\r\nno name\r\n"
                     "--XX--\r\nepilogue";
  assert_int_equal(itg_form_parse(TYPE, span(body), NULL, &form), ITG_OK);
  assert_int_equal(form.count, 3);
  assert_field(&form, "entries", "{\"a\":1}");
  assert_field(&form, "image", "\r\n--XY--\r\n\r\n");
  assert_field(&form, "text", "");
  assert_null(itg_form_find(&form, "other"));
  itg_form_free(&form);
  const char *quoted = "preamble\r\n--a b\r\nContent-Disposition: form-data; filename=\"x;name=y\\\"\"; NAME=\"n\"\r\n"
                       "\r\n1\r\n--a b\r\nContent-Disposition: form-data; name=n\r\n\r\n2\r\n--a b--";
  assert_int_equal(itg_form_parse("Multipart/Form-Data;Boundary=\"a b\"; x", span(quoted), NULL, &form), ITG_OK);
  assert_int_equal(form.count, 2);
  assert_field(&form, "n", "2"); // The last one counts.
  itg_form_free(&form);
}

static void refuses_broken_multipart(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "",
      "--X",
      "--XX",
      "--XXX\r\n",
      "--XX\r\n",
      "--XX\r\n\r\n",
      "--XX\r\n\r\nvalue",
      "--XX\r\n\r\nvalue\r\n--X",
      "--XX\r\nContent-Disposition: form-data; name=a\r\n--XX--",
      "--XX\r\na: b\r\n\r\n1\r\n--XXz",
  };
  for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
    itg_form form;
    itg_diagnostic why = {0};
    if (itg_form_parse(TYPE, span(bodies[i]), &why, &form) != ITG_ERROR_FORMAT) fail_msg("accepted: %s", bodies[i]);
  }
  itg_form form;
  itg_diagnostic why = {0};
  assert_int_equal(itg_form_parse("multipart/form-data", span("--XX--"), &why, &form), ITG_ERROR_FORMAT);
  assert_string_equal(why.message, "Missing boundary in multipart.");
  assert_int_equal(itg_form_parse("multipart/form-data; boundary=", span("--XX--"), NULL, &form), ITG_ERROR_FORMAT);
  char many[65 * 64] = "";
  for (int i = 0; i < 65; i++) strcat(many, "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n");
  strcat(many, "--XX--");
  assert_int_equal(itg_form_parse(TYPE, span(many), NULL, &form), ITG_ERROR_LIMIT);
}

static void reads_urlencoded(void **state) {
  (void)state;
  itg_form form;
  const char *type = "application/x-www-form-urlencoded; charset=utf-8";
  assert_int_equal(itg_form_parse(type, span("text=a+photo%20of%c3%A9%zz%4&&entries=%7B%7D&x&=y"), NULL, &form),
                   ITG_OK);
  assert_field(&form, "text", "a photo of\xc3\xa9%zz%4");
  assert_field(&form, "entries", "{}");
  assert_field(&form, "x", "");
  assert_field(&form, "", "y");
  itg_form_free(&form);
  assert_int_equal(itg_form_parse("application/json", span("{\"entries\":1}"), NULL, &form), ITG_OK);
  assert_int_equal(form.count, 0);
  assert_int_equal(itg_form_parse(NULL, span("entries=1"), NULL, &form), ITG_OK);
  assert_int_equal(form.count, 0);
}

// ---- entries ----

static int parse(const char *json, itg_immich_version version, itg_entries *entries) {
  char detail[ITG_DETAIL];
  return itg_entries_parse(span(json), version, detail, entries);
}

static void reads_what_immich_sends(void **state) {
  (void)state;
  itg_entries e;
  assert_int_equal(parse("{\"clip\":{\"visual\":{\"modelName\":\"ViT-B-32__openai\"}}}", ITG_IMMICH_3, &e), 0);
  assert_true(e.of[ITG_SERVICE_CLIP_VISUAL].wanted);
  assert_string_equal(e.of[ITG_SERVICE_CLIP_VISUAL].model, "ViT-B-32__openai");
  assert_int_equal(
      parse("{\"clip\":{\"textual\":{\"modelName\":\"m\",\"options\":{\"language\":\"de\"}}}}", ITG_IMMICH_3, &e), 0);
  assert_string_equal(e.of[ITG_SERVICE_CLIP_TEXTUAL].language, "de");
  assert_int_equal(
      parse("{\"facial-recognition\":{\"detection\":{\"modelName\":\"buffalo_l\",\"options\":{\"minScore\":0}},"
            "\"recognition\":{\"modelName\":\"buffalo_l\"}},"
            "\"ocr\":{\"detection\":{\"modelName\":\"P\",\"options\":{\"minScore\":0.25,\"maxResolution\":960,"
            "\"scoreMode\":\"slow\",\"new\":[1]}},\"recognition\":{\"modelName\":\"P\"}}}",
            ITG_IMMICH_3, &e),
      0);
  assert_int_equal(e.task_count, 2);
  assert_int_equal(e.task_order[0], ITG_SERVICE_FACE_DETECTION);
  assert_int_equal(e.task_order[1], ITG_SERVICE_OCR_DETECTION);
  assert_true(e.of[ITG_SERVICE_FACE_DETECTION].min_score == 0);
  assert_true(e.of[ITG_SERVICE_OCR_DETECTION].min_score == 0.25);
  assert_int_equal(e.of[ITG_SERVICE_OCR_DETECTION].max_resolution, 960);
  assert_true(e.of[ITG_SERVICE_OCR_DETECTION].slow_score);
  assert_true(e.of[ITG_SERVICE_OCR_RECOGNITION].min_score == 0.9);
  assert_int_equal(e.of[ITG_SERVICE_OCR_RECOGNITION].max_resolution, 736);
  // Languages have been missing, null and of other types.
  assert_int_equal(
      parse("{\"clip\":{\"textual\":{\"modelName\":\"m\",\"options\":{\"language\":null}}}}", ITG_IMMICH_3, &e), 0);
  assert_string_equal(e.of[ITG_SERVICE_CLIP_TEXTUAL].language, "");
  assert_int_equal(parse("{\"clip\":{\"textual\":{\"modelName\":\"m\",\"options\":null}}}", ITG_IMMICH_3, &e), 0);
}

static void refuses_other_entries(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "",
      "{",
      "[]",
      "1",
      "null",
      "\"a\"",
      "{\"clip\":1}",
      "{\"clip\":{\"visual\":1}}",
      "{\"clip\":{\"visual\":{}}}",
      "{\"clip\":{\"visual\":{\"modelName\":\"\"}}}",
      "{\"clip\":{\"visual\":{\"modelName\":3}}}",
      "{\"clip\":{\"visual\":{\"modelName\":\"a\\u0000b\"}}}",
      "{\"clip\":{\"detection\":{\"modelName\":\"a\"}}}",
      "{\"search\":{\"visual\":{\"modelName\":\"a\"}}}",
      "{\"clip\":{\"visual\":{\"modelName\":\"a\",\"options\":1}}}",
      "{\"ocr\":{\"detection\":{\"modelName\":\"a\",\"options\":{\"minScore\":\"0.5\"}}}}",
      "{\"ocr\":{\"detection\":{\"modelName\":\"a\",\"options\":{\"maxResolution\":0}}}}",
      "{\"ocr\":{\"detection\":{\"modelName\":\"a\",\"options\":{\"scoreMode\":\"best\"}}}}",
      "{\"clip\":{\"visual\":{\"modelName\":\"a\"}}} x",
  };
  itg_entries entries;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char detail[ITG_DETAIL] = "";
    if (itg_entries_parse(span(wrong[i]), ITG_IMMICH_3, detail, &entries) != 422) fail_msg("accepted: %s", wrong[i]);
    assert_string_equal(detail, "Invalid request format.");
  }
  char detail[ITG_DETAIL] = "";
  assert_int_equal(itg_entries_parse(span("{}"), ITG_IMMICH_3, detail, &entries), 422);
  assert_string_equal(detail, "No model task requested.");
  assert_int_equal(parse("{}", ITG_IMMICH_2_7, &entries), 0);
}

// ---- numbers ----

static const char *float_text(float value) {
  static char text[64];
  itg_reply reply = {0};
  itg_reply_float(&reply, value);
  snprintf(text, sizeof text, "%.*s", (int)reply.size, reply.data);
  itg_reply_free(&reply);
  return text;
}

static void writes_floats_as_short_as_possible(void **state) {
  (void)state;
  static const struct {
    float value;
    const char *text;
  } known[] = {{0, "0.0"},
               {-0.0f, "-0.0"},
               {1, "1.0"},
               {-89, "-89.0"},
               {690, "690.0"},
               {0.1f, "0.1"},
               {0.7f, "0.7"},
               {1.0f / 3, "0.33333334"},
               {123456.78f, "123456.78"},
               {16777216, "16777216.0"},
               {1e16f, "1e16"},
               {1e15f, "1000000000000000.0"},
               {1e-4f, "0.0001"},
               {1e-5f, "0.00001"},
               {1.5e-6f, "1.5e-6"},
               {3.4028235e38f, "3.4028235e38"},
               {1e-45f, "1e-45"},
               {0.0123f, "0.0123"},
               {-0.0456f, "-0.0456"}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    assert_string_equal(float_text(known[i].value), known[i].text);
  uint32_t seed = 1;
  for (int i = 0; i < 200000; i++) {
    seed = seed * 1664525 + 1013904223;
    uint32_t bits = seed ^ seed >> 15;
    float value;
    memcpy(&value, &bits, sizeof value);
    if (!isfinite(value)) continue;
    const char *text = float_text(value);
    if (strtof(text, NULL) != value) fail_msg("%s is not %.9g", text, (double)value);
    int digits = 0, zeros = 0; // Significant ones: no shorter decimal may give the same float.
    for (const char *c = text; *c && *c != 'e'; c++) {
      if (*c < '0' || *c > '9' || (digits == 0 && *c == '0')) continue;
      digits++;
      zeros = *c == '0' ? zeros + 1 : 0;
    }
    digits -= zeros;
    char shorter[32];
    snprintf(shorter, sizeof shorter, "%.*e", digits - 2, (double)value);
    if (digits > 1 && strtof(shorter, NULL) == value) fail_msg("%s could be %s", text, shorter);
  }
}

static void writes_strings(void **state) {
  (void)state;
  itg_reply reply = {0};
  itg_reply_json_string(&reply, "a\"\\\n\x01\xc3\xa9");
  itg_reply_html(&reply, "<a&'\">");
  const float numbers[] = {0.5f, -1};
  itg_reply_embedding(&reply, numbers, 2);
  const char *wanted = "\"a\\\"\\\\\\n\\u0001\xc3\xa9\"&lt;a&amp;&#39;&quot;&gt;\"[0.5,-1.0]\"";
  assert_int_equal(reply.size, strlen(wanted));
  assert_memory_equal(reply.data, wanted, reply.size);
  itg_reply_free(&reply);
}

// ---- settings and names ----

static void reads_the_environment(void **state) {
  (void)state;
  itg_settings settings;
  itg_diagnostic why = {0};
  assert_int_equal(itg_settings_from_environment(&why, &settings), ITG_OK);
  assert_int_equal(settings.port, 3003);
  assert_int_equal(settings.idle_seconds, 300);
  assert_string_equal(settings.host, "[::]");
  setenv("IMMICH_PORT", "4000", 1);
  setenv("IMMICH_HOST", "127.0.0.1", 1);
  setenv("IMMICH_LOG_LEVEL", "Verbose", 1);
  setenv("MACHINE_LEARNING_MODEL_TTL", "-1", 1);
  setenv("MACHINE_LEARNING_MODEL_TTL_POLL_S", "", 1); // As a container passes an unset one on.
  setenv("MACHINE_LEARNING_CACHE_FOLDER", "/models", 1);
  setenv("MACHINE_LEARNING_PRELOAD__CLIP__TEXTUAL", "a, b,,c", 1);
  assert_int_equal(itg_settings_from_environment(&why, &settings), ITG_OK);
  assert_int_equal(settings.port, 4000);
  assert_string_equal(settings.host, "127.0.0.1");
  assert_string_equal(settings.models, "/models");
  assert_int_equal(settings.log_level, ITG_LOG_DEBUG);
  assert_int_equal(settings.idle_seconds, -1);
  assert_int_equal(settings.poll_seconds, 10);
  assert_int_equal(settings.preload_count, 3);
  assert_int_equal(settings.preloads[2].kind, ITG_SERVICE_CLIP_TEXTUAL);
  assert_string_equal(settings.preloads[2].model, "c");
  setenv("IMMICH_PORT", "70000", 1);
  assert_int_equal(itg_settings_from_environment(&why, &settings), ITG_ERROR_ARGUMENT);
  assert_non_null(strstr(why.message, "IMMICH_PORT must be a whole number from 0 to 65535"));
  setenv("IMMICH_PORT", "4000", 1);
  setenv("IMMICH_LOG_LEVEL", "loud", 1);
  assert_int_equal(itg_settings_from_environment(&why, &settings), ITG_ERROR_ARGUMENT);
  unsetenv("IMMICH_LOG_LEVEL");
}

static void names_folders_as_immich_does(void **state) {
  (void)state;
  char folder[ITG_MODEL_NAME];
  assert_true(itg_model_folder_name("immich-app/ViT-B-32__openai", folder));
  assert_string_equal(folder, "ViT-B-32__openai");
  assert_true(itg_model_folder_name("a:b\\c.d", folder));
  assert_string_equal(folder, "a_b_cd");
  assert_false(itg_model_folder_name("..", folder));
  assert_false(itg_model_folder_name("../..", folder));
  assert_false(itg_model_folder_name("", folder));
  assert_false(itg_model_folder_name("a/", folder));
}

static void tells_percentiles(void **state) {
  (void)state;
  itg_statistics *statistics = calloc(1, sizeof *statistics);
  assert_true(itg_statistics_percentile(statistics, 0.5) == 0);
  for (int i = 1; i <= 1000; i++) itg_statistics_add(statistics, i * 1e-3);
  const double shares[] = {0.5, 0.9, 0.99};
  for (int i = 0; i < 3; i++) {
    const double got = itg_statistics_percentile(statistics, shares[i]);
    assert_true(fabs(got / shares[i] - 1) < 0.07);
  }
  itg_statistics_add(statistics, 0);
  itg_statistics_add(statistics, 1e9);
  free(statistics);
}

// ---- the queue ----

typedef struct counting {
  atomic_int done;
  atomic_bool hold;
} counting;

static void count_job(void *context, void *job) {
  counting *c = context;
  const struct timespec pause = {.tv_nsec = 1000000};
  while (atomic_load(&c->hold)) nanosleep(&pause, NULL);
  atomic_fetch_add(&c->done, (int)(intptr_t)job);
}

static void queues_up_to_its_bound(void **state) {
  (void)state;
  counting c = {.hold = true};
  itg_queue *queue = NULL;
  size_t waiting, running;
  assert_int_equal(itg_queue_create(2, 3, count_job, &c, NULL, &queue), ITG_OK);
  assert_true(itg_queue_push(queue, (void *)1));
  assert_true(itg_queue_push(queue, (void *)2));
  do itg_queue_count(queue, &waiting, &running);
  while (running < 2);
  for (intptr_t i = 3; i < 6; i++) assert_true(itg_queue_push(queue, (void *)i));
  assert_false(itg_queue_push(queue, (void *)100));
  itg_queue_count(queue, &waiting, &running);
  assert_int_equal(waiting, 3);
  atomic_store(&c.hold, false);
  itg_queue_destroy(queue); // Finishes what was taken.
  assert_int_equal(atomic_load(&c.done), 15);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_multipart),
      cmocka_unit_test(refuses_broken_multipart),
      cmocka_unit_test(reads_urlencoded),
      cmocka_unit_test(reads_what_immich_sends),
      cmocka_unit_test(refuses_other_entries),
      cmocka_unit_test(writes_floats_as_short_as_possible),
      cmocka_unit_test(writes_strings),
      cmocka_unit_test(reads_the_environment),
      cmocka_unit_test(names_folders_as_immich_does),
      cmocka_unit_test(tells_percentiles),
      cmocka_unit_test(queues_up_to_its_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
