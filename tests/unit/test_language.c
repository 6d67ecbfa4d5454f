// Conversations with a tiny compiled model: blocks and turns give the same answers, limits and errors, sampling, stop texts.
#include "support/integer_net.h"

#include <unistd.h>

#include "intaglio/language.h"
#include "pipelines/answer_text.h"
#include "pipelines/sampler.h"
#include "support/hostile_file.h"
#include "support/language_file.h"
#include "support/oracle.h"

static char path[] = "/tmp/intaglio-language-XXXXXX";
static itg_language *language;

static int make_model(void **state) {
  (void)state;
  static const char *const texts[] = {"The quick brown fox jumps over the lazy dog, and then it sleeps.",
                                      "def add(a, b):\n    return a + b\n\nprint(add(1, 2))",
                                      "<|im_start|>User: What is this?<end_of_utterance>\nAssistant: A test."};
  char checkpoint[4096];
  snprintf(checkpoint, sizeof checkpoint, "%s/data/vlm/smolvlm-tiny", oracle_shared());
  const int descriptor = mkstemp(path);
  if (descriptor < 0) return -1;
  close(descriptor);
  const language_file file = {checkpoint, path, "a16w8", 32, 256, texts, 3};
  itg_diagnostic why = {0};
  if (language_file_make(&file, &why) == ITG_OK && itg_language_open(path, &why, &language) == ITG_OK) return 0;
  print_error("%s: %s\n", why.subject, why.message);
  return -1;
}

static int remove_model(void **state) {
  (void)state;
  itg_language_close(language);
  unlink(path);
  return 0;
}

static itg_chat *new_chat(const char *cpu, int threads) {
  itg_session_options options;
  itg_session_options_default(&options);
  options.cpu = cpu;
  options.thread_count = threads;
  itg_chat *chat = NULL;
  itg_diagnostic why = {0};
  if (itg_chat_create(language, &options, &why, &chat) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  return chat;
}

typedef struct collected {
  char text[8192];
  size_t size, calls, most; // most: cancel after so many pieces of text; 0: never.
} collected;

static bool collect(void *context, const char *text, size_t size) {
  collected *c = context;
  if (size == 0) return true;
  assert_true(c->size + size < sizeof c->text);
  memcpy(c->text + c->size, text, size);
  c->size += size;
  c->text[c->size] = 0;
  return ++c->calls != c->most;
}

static itg_chat_statistics ask(itg_chat *chat, const itg_chat_message *messages, size_t count,
                               const itg_chat_settings *settings, collected *out) {
  itg_chat_statistics statistics;
  itg_diagnostic why = {0};
  *out = (collected){.most = out->most};
  if (itg_chat_generate(chat, messages, count, settings, collect, out, &why, &statistics) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  return statistics;
}

#define PART(literal) \
  { literal, sizeof(literal) - 1, NULL }
static const itg_chat_part question[] = {PART("Tell me something about foxes and dogs, in a few words.")};
static const itg_chat_part second[] = {PART("And now about cats.")};
static const itg_chat_message first_turn[] = {{"user", question, 1}};

static itg_chat_settings settings_of(size_t tokens) {
  itg_chat_settings settings;
  itg_chat_settings_default(&settings);
  settings.max_tokens = tokens;
  return settings;
}

static void every_instruction_set_gives_one_transcript(void **state) {
  (void)state;
  static const char *const cpus[] = {"reference", "avx2", "avxvnni", "avx512vnni", NULL};
  const itg_chat_settings settings = settings_of(64);
  int32_t golden[64];
  for (int i = 0; i < 5; i++) {
    itg_chat *chat = new_chat(cpus[i], 1 + i % 2);
    collected out = {.most = 0};
    const itg_chat_statistics s = ask(chat, first_turn, 1, &settings, &out);
    size_t count = 0;
    const int32_t *ids = itg_chat_answer_ids(chat, &count);
    assert_int_equal(count, s.answer_tokens);
    assert_true(count > 0);
    if (i == 0) memcpy(golden, ids, count * sizeof *ids);
    assert_memory_equal(ids, golden, count * sizeof *ids);
    itg_chat_destroy(chat);
  }
}

static void further_turns_compute_only_what_is_new(void **state) {
  (void)state;
  const itg_chat_settings settings = settings_of(12);
  itg_chat *chat = new_chat(NULL, 1), *fresh = new_chat(NULL, 1);
  collected answer = {.most = 0}, again = {.most = 0};
  const itg_chat_statistics one = ask(chat, first_turn, 1, &settings, &answer);
  assert_int_equal(one.cached_tokens, 0);
  const itg_chat_part spoken[] = {{answer.text, answer.size, NULL}};
  const itg_chat_message turns[] = {{"user", question, 1}, {"assistant", spoken, 1}, {"user", second, 1}};
  collected warm = {.most = 0};
  const itg_chat_statistics two = ask(chat, turns, 3, &settings, &warm);
  const itg_chat_statistics cold = ask(fresh, turns, 3, &settings, &again);
  assert_true(two.cached_tokens >= one.prompt_tokens - 1);
  assert_int_equal(cold.cached_tokens, 0);
  assert_int_equal(two.prompt_tokens, cold.prompt_tokens);
  assert_string_equal(warm.text, again.text);
  // The same question again: all but its last token is known.
  const itg_chat_statistics third = ask(chat, turns, 3, &settings, &warm);
  assert_int_equal(third.cached_tokens, third.prompt_tokens - 1);
  assert_string_equal(warm.text, again.text);
  itg_chat_destroy(chat);
  itg_chat_destroy(fresh);
}

static void seeds_decide(void **state) {
  (void)state;
  itg_chat_settings settings = settings_of(24);
  settings.temperature = 1.5;
  settings.top_k = 50;
  settings.top_p = 0.95;
  settings.min_p = 0.001;
  settings.repetition_penalty = 1.1;
  settings.seed = 5;
  itg_chat *chat = new_chat(NULL, 1);
  collected a = {.most = 0}, b = {.most = 0}, c = {.most = 0};
  ask(chat, first_turn, 1, &settings, &a);
  ask(chat, first_turn, 1, &settings, &b);
  settings.seed = 6;
  ask(chat, first_turn, 1, &settings, &c);
  assert_string_equal(a.text, b.text);
  assert_string_not_equal(a.text, c.text);
  itg_chat_destroy(chat);
}

static void stop_texts_and_cancelling(void **state) {
  (void)state;
  itg_chat_settings settings = settings_of(40);
  itg_chat *chat = new_chat(NULL, 1);
  collected whole = {.most = 0}, cut = {.most = 0};
  ask(chat, first_turn, 1, &settings, &whole);
  assert_true(whole.size > 12);
  char stop[4] = {0}; // Three bytes of the answer, at a character's beginning.
  size_t at = 6;
  while (((uint8_t)whole.text[at] & 0xC0) == 0x80) at++;
  memcpy(stop, whole.text + at, 3);
  const char *const stops[] = {"never in this text", stop};
  settings.stops = stops;
  settings.stop_count = 2;
  const itg_chat_statistics s = ask(chat, first_turn, 1, &settings, &cut);
  assert_int_equal(s.end, ITG_CHAT_STOPPED);
  const char *expected = strstr(whole.text, stop);
  assert_int_equal(cut.size, expected - whole.text);
  assert_memory_equal(cut.text, whole.text, cut.size);
  settings = settings_of(40);
  collected few = {.most = 2};
  const itg_chat_statistics cancelled = ask(chat, first_turn, 1, &settings, &few);
  assert_int_equal(cancelled.end, ITG_CHAT_CANCELLED);
  assert_int_equal(few.calls, 2);
  itg_chat_destroy(chat);
}

static void errors_leave_the_chat_usable(void **state) {
  (void)state;
  static char long_text[20000];
  for (size_t i = 0; i + 2 < sizeof long_text; i += 2) memcpy(long_text + i, "a ", 2);
  const itg_chat_part parts[] = {{long_text, strlen(long_text), NULL}}, empty[] = {PART("")};
  const itg_chat_message too_long[] = {{"user", parts, 1}}, unknown[] = {{"wizard", question, 1}};
  const itg_image image = {.width = 1, .height = 1, .channels = 3, .pixels = (uint8_t *)"abc"};
  const itg_chat_part picture[] = {{.image = &image}};
  const itg_chat_message seeing[] = {{"user", picture, 1}}, nothing[] = {{"user", empty, 1}};
  itg_chat_settings settings = settings_of(4);
  itg_chat *chat = new_chat(NULL, 1);
  itg_diagnostic why = {0};
  collected out = {.most = 0};
  assert_int_equal(itg_chat_generate(chat, too_long, 1, &settings, NULL, NULL, &why, NULL), ITG_ERROR_LIMIT);
  assert_non_null(strstr(why.message, "256")); // The context.
  assert_int_equal(itg_chat_generate(chat, unknown, 1, &settings, NULL, NULL, &why, NULL), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_chat_generate(chat, seeing, 1, &settings, NULL, NULL, &why, NULL), ITG_ERROR_ARGUMENT);
  settings.raw = true;
  assert_int_equal(itg_chat_generate(chat, nothing, 1, &settings, NULL, NULL, &why, NULL), ITG_ERROR_ARGUMENT);
  settings.raw = false;
  settings.temperature = -1;
  assert_int_equal(itg_chat_generate(chat, first_turn, 1, &settings, NULL, NULL, &why, NULL), ITG_ERROR_ARGUMENT);
  settings.temperature = 0;
  settings.max_tokens = 0; // Until the context is full, or the model ends.
  const itg_chat_statistics s = ask(chat, first_turn, 1, &settings, &out);
  assert_true(s.end == ITG_CHAT_STOPPED || s.prompt_tokens + s.answer_tokens == 256 + 1);
  itg_chat_destroy(chat);
}

// ---- parts ----

static void sampling_follows_its_rules(void **state) {
  (void)state;
  itg_sampler sampler = {0};
  itg_chat_settings settings = settings_of(0);
  const float logits[] = {1, 4, 4, 2, -3};
  float copy[5];
  int32_t id = -1;
  memcpy(copy, logits, sizeof copy);
  assert_int_equal(itg_sampler_choose(&sampler, &settings, NULL, 0, copy, 5, NULL, &id), ITG_OK);
  assert_int_equal(id, 1); // The lower of two equal ones.
  const int32_t seen[] = {1, 2, 1, -7, 99};
  settings.repetition_penalty = 4;
  assert_int_equal(itg_sampler_choose(&sampler, &settings, seen, 5, copy, 5, NULL, &id), ITG_OK);
  assert_int_equal(id, 3);
  assert_true(copy[1] == 1 && copy[2] == 1 && copy[4] == -3);
  settings.repetition_penalty = 1;
  settings.temperature = 1;
  int counts[5] = {0};
  itg_sampler_seed(&sampler, 1);
  for (int i = 0; i < 20000; i++) {
    memcpy(copy, logits, sizeof copy);
    assert_int_equal(itg_sampler_choose(&sampler, &settings, NULL, 0, copy, 5, NULL, &id), ITG_OK);
    counts[id]++;
  }
  double sum = 0;
  for (int i = 0; i < 5; i++) sum += exp((double)logits[i]);
  for (int i = 0; i < 5; i++) assert_true(fabs(counts[i] / 20000.0 - exp((double)logits[i]) / sum) < 0.02);
  const struct {
    int32_t k;
    double p, m;
    int allowed;
  } rules[] = {{2, 1, 0, 2}, {0, 0.5, 0, 2}, {0, 1, 0.1, 3}};
  for (size_t r = 0; r < 3; r++) {
    settings.top_k = rules[r].k;
    settings.top_p = rules[r].p;
    settings.min_p = rules[r].m;
    bool chosen[5] = {false};
    for (int i = 0; i < 2000; i++) {
      memcpy(copy, logits, sizeof copy);
      assert_int_equal(itg_sampler_choose(&sampler, &settings, NULL, 0, copy, 5, NULL, &id), ITG_OK);
      chosen[id] = true;
    }
    int different = 0;
    for (int i = 0; i < 5; i++) different += chosen[i];
    assert_int_equal(different, rules[r].allowed);
  }
  itg_sampler_free(&sampler);
}

static void stops_are_found_across_pieces(void **state) {
  (void)state;
  static const char text[] = "one two STOPPED STOP three";
  for (size_t step = 1; step < 8; step++) {
    collected out = {.most = 0};
    const char *const stops[] = {"STOP three", "zzz"};
    itg_answer_text answer = {.stops = stops, .stop_count = 2, .on_text = collect, .context = &out};
    for (size_t i = 0; i < sizeof text - 1; i += step) {
      const size_t size = sizeof text - 1 - i < step ? sizeof text - 1 - i : step;
      assert_int_equal(itg_answer_text_add(&answer, (itg_span){(const uint8_t *)text + i, size}, NULL), ITG_OK);
    }
    assert_true(answer.stopped);
    assert_string_equal(out.text, "one two STOPPED ");
    itg_text_free(&answer.held);
  }
}

// One part at a time has no inputs or outputs, checksums made right: refused, whichever part it is.
static void parts_without_ends_are_refused(void **state) {
  (void)state;
  char damaged[] = "/tmp/intaglio-damaged-XXXXXX";
  const int descriptor = mkstemp(damaged);
  assert_true(descriptor >= 0);
  close(descriptor);
  itg_diagnostic why = {0};
  itg_mapped_file file;
  assert_int_equal(itg_mapped_file_open(path, &why, &file), ITG_OK);
  uint8_t *copy = malloc(file.bytes.size);
  assert_non_null(copy);
  itg_file_header header;
  memcpy(&header, file.bytes.data, sizeof header);
  itg_file_section section = {0};
  const uint8_t *table = file.bytes.data + header.table_offset;
  for (uint32_t i = 0; section.type != ITG_SECTION_VARIANTS; i++)
    memcpy(&section, table + i * sizeof section, sizeof section);
  assert_int_equal(section.size, 2 * sizeof(itg_file_variant));
  static const size_t counts[] = {offsetof(itg_file_variant, input_count), offsetof(itg_file_variant, output_count)};
  for (size_t i = 0; i < 4; i++) {
    const uint32_t none = 0;
    memcpy(copy, file.bytes.data, file.bytes.size);
    memcpy(copy + section.offset + i / 2 * sizeof(itg_file_variant) + counts[i % 2], &none, sizeof none);
    fix_checksums(copy, file.bytes.size);
    assert_int_equal(itg_write_file(damaged, copy, file.bytes.size, &why), ITG_OK);
    itg_language *opened = NULL;
    const itg_status status = itg_language_open(damaged, &why, &opened);
    assert_true(status == ITG_ERROR_SHAPE || status == ITG_ERROR_FORMAT);
    assert_true(why.message[0] != 0);
    assert_null(opened);
  }
  free(copy);
  itg_mapped_file_close(&file);
  unlink(damaged);
}

int main(void) {
  char checkpoint[4096];
  snprintf(checkpoint, sizeof checkpoint, "%s/data/vlm/smolvlm-tiny/config.json", oracle_shared());
  const struct CMUnitTest parts[] = {cmocka_unit_test(sampling_follows_its_rules),
                                     cmocka_unit_test(stops_are_found_across_pieces)};
  const int failed = cmocka_run_group_tests(parts, NULL, NULL);
  if (failed || !oracle_exists(checkpoint)) {
    if (!failed) printf("skipped: %s is not there\n", checkpoint);
    return failed ? failed : 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_instruction_set_gives_one_transcript),
                                     cmocka_unit_test(further_turns_compute_only_what_is_new),
                                     cmocka_unit_test(seeds_decide),
                                     cmocka_unit_test(stop_texts_and_cancelling),
                                     cmocka_unit_test(errors_leave_the_chat_usable),
                                     cmocka_unit_test(parts_without_ends_are_refused)};
  return cmocka_run_group_tests(tests, make_model, remove_model);
}
