// Tokenizers against the `tokenizers` package on lines of mixed text: no id and no decoded byte may differ.
// Also every assigned character. For the families of search models also the ids that a text encoder reads: cleaned, cut, padded.
// ITG_ORACLE_COUNT: lines a tokenizer (default 3000, 100000 in ./check --full); ITG_ORACLE_SEED; ITG_ORACLE_KEEP keeps the folder.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "pipelines/service.h"
#include "support/oracle.h"
#include "text/gguf_tokenizer.h"

static char folder[] = "/tmp/intaglio-tokens-XXXXXX";

static int make_lines(void **state) {
  (void)state;
  static const char *const names[] = {"minilm", "smollm2", "smolvlm", "internvl3"};
  char command[16384], paths[4][4096];
  const char *count = getenv("ITG_ORACLE_COUNT"), *seed = getenv("ITG_ORACLE_SEED");
  if (!mkdtemp(folder)) return -1;
  snprintf(paths[0], sizeof paths[0], "%s/minilm/tokenizer.json", oracle_models());
  snprintf(paths[1], sizeof paths[1], "%s/data/vlm-full/smollm2-135m/tokenizer.json", oracle_shared());
  snprintf(paths[2], sizeof paths[2], "%s/data/vlm-full/smolvlm-500m/tokenizer.json", oracle_shared());
  snprintf(paths[3], sizeof paths[3], "%s/data/vlm-full/internvl3-1b/tokenizer.json", oracle_shared());
  int at = snprintf(command, sizeof command, "'%s' '%s/tests/real/tokenizer_oracle.py' '%s' %d %d", oracle_python(),
                    ITG_SOURCE_DIR, folder, count ? atoi(count) : 3000, seed ? atoi(seed) : 1);
  for (int i = 0; i < 4; i++) {
    if (!oracle_exists(paths[i])) {
      printf("%s is not there: without this one\n", paths[i]);
      continue;
    }
    at += snprintf(command + at, sizeof command - (size_t)at, " '%s=%s'", names[i], paths[i]);
  }
  return system(command) == 0 ? 0 : -1;
}

static int remove_lines(void **state) {
  (void)state;
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return getenv("ITG_ORACLE_KEEP") ? 0 : system(command);
}

static itg_span take(itg_span *rest, size_t size) {
  itg_span taken = {0};
  assert_true(itg_span_cut(*rest, 0, size, &taken));
  *rest = (itg_span){rest->data + size, rest->size - size};
  return taken;
}
static uint32_t take_number(itg_span *rest) {
  uint32_t value;
  memcpy(&value, take(rest, sizeof value).data, sizeof value);
  return value;
}

static void show(const char *what, itg_span bytes) {
  printf("%s: \"", what);
  for (size_t i = 0; i < bytes.size && i < 600; i++)
    printf(bytes.data[i] >= ' ' && bytes.data[i] != 127 ? "%c" : "\\x%02x", bytes.data[i]);
  printf("\"\n");
}

// Streaming gives what decoding at once gives.
static void stream(const itg_tokenizer *tokenizer, const itg_token_ids *ids, bool skip, itg_text *text) {
  itg_stream_decoder *decoder = NULL;
  assert_int_equal(itg_stream_decoder_create(tokenizer, skip, NULL, &decoder), ITG_OK);
  for (size_t i = 0; i < ids->count; i++)
    assert_int_equal(itg_stream_decoder_push(decoder, ids->ids[i], NULL, text), ITG_OK);
  assert_int_equal(itg_stream_decoder_finish(decoder, NULL, text), ITG_OK);
  itg_stream_decoder_destroy(decoder);
}

// Takes the tokenizer over.
static void compare_with(itg_tokenizer *tokenizer, const char *name) {
  char path[512];
  itg_mapped_file cases;
  itg_diagnostic why = {0};
  size_t lines = 0, bytes = 0, tokens = 0, wrong = 0, wrong_text = 0, wrong_stream = 0;
  itg_token_ids ids = {0};
  itg_text text = {0}, streamed = {0};
  const itg_encode_options options = {.add_special = true};
  double seconds = 0;
  snprintf(path, sizeof path, "%s/%s.bin", folder, name);
  assert_int_equal(itg_mapped_file_open(path, NULL, &cases), ITG_OK);
  for (itg_span rest = cases.bytes; rest.size; lines++) {
    const itg_span line = take(&rest, take_number(&rest));
    const size_t count = take_number(&rest);
    const itg_span expected = take(&rest, count * sizeof(int32_t));
    const bool skip = take_number(&rest) != 0;
    const itg_span decoded = take(&rest, take_number(&rest));
    struct timespec start, end;
    ids.count = text.size = streamed.size = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (itg_tokenizer_encode(tokenizer, line, &options, &why, &ids) != ITG_OK) fail_msg("%s: %s", name, why.message);
    clock_gettime(CLOCK_MONOTONIC, &end);
    seconds += (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    bytes += line.size;
    tokens += ids.count;
    if (ids.count != count || (count && memcmp(ids.ids, expected.data, expected.size) != 0)) {
      if (wrong++ < 5) {
        show("line", line);
        size_t i = 0;
        int32_t other = -1;
        for (; i < count && i < ids.count; i++) {
          memcpy(&other, expected.data + i * sizeof other, sizeof other);
          if (other != ids.ids[i]) break;
        }
        printf("%zu ids, expected %zu; the first that differs is number %zu: %d instead of %d\n", ids.count, count, i,
               i < ids.count ? ids.ids[i] : -1, other);
        show("ours", itg_tokenizer_token_of_id(tokenizer, i < ids.count ? ids.ids[i] : -1));
        show("theirs", itg_tokenizer_token_of_id(tokenizer, other));
      }
      continue;
    }
    assert_int_equal(itg_tokenizer_decode(tokenizer, ids.ids, ids.count, skip, NULL, &text), ITG_OK);
    if (text.size != decoded.size || (text.size && memcmp(text.data, decoded.data, text.size) != 0)) {
      if (wrong_text++ < 5) {
        show("line", line);
        show("text", (itg_span){text.data, text.size});
        show("expected", decoded);
      }
    }
    stream(tokenizer, &ids, skip, &streamed);
    const bool repaired = text.size && memmem(text.data, text.size, "\xEF\xBF\xBD", 3);
    if ((streamed.size != text.size || (text.size && memcmp(streamed.data, text.data, text.size) != 0)) && !repaired) {
      if (wrong_stream++ < 5) {
        show("streamed", (itg_span){streamed.data, streamed.size});
        show("text", (itg_span){text.data, text.size});
      }
    }
  }
  printf("%-12s %7zu lines %9zu bytes %9zu ids, %.1f MB/s: %zu lines of other ids, %zu of other text, %zu streamed\n",
         name, lines, bytes, tokens, seconds > 0 ? (double)bytes / seconds / 1e6 : 0, wrong, wrong_text, wrong_stream);
  itg_token_ids_free(&ids);
  itg_text_free(&text);
  itg_text_free(&streamed);
  itg_tokenizer_close(tokenizer);
  itg_mapped_file_close(&cases);
  assert_true(lines > 0);
  assert_int_equal(wrong + wrong_text + wrong_stream, 0);
}

static void compare(const char *name) {
  char path[512];
  itg_mapped_file json;
  itg_tokenizer *tokenizer = NULL;
  itg_diagnostic why = {0};
  snprintf(path, sizeof path, "%s/%s.json", folder, name);
  if (!oracle_exists(path)) return;
  assert_int_equal(itg_mapped_file_open(path, NULL, &json), ITG_OK);
  if (itg_tokenizer_open(json.bytes, &why, &tokenizer) != ITG_OK) fail_msg("%s: %s", name, why.message);
  itg_mapped_file_close(&json);
  compare_with(tokenizer, name);
}

// The tokenizer inside the GGUF file of a model gives the ids of the model's tokenizer.json.
static void gguf_agrees(void **state) {
  (void)state;
  char path[4096], cases[512];
  itg_mapped_file file;
  itg_gguf gguf;
  itg_text json = {0};
  itg_tokenizer *tokenizer = NULL;
  itg_diagnostic why = {0};
  snprintf(path, sizeof path, "%s/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", oracle_models());
  snprintf(cases, sizeof cases, "%s/smollm2.bin", folder);
  if (!oracle_exists(path) || !oracle_exists(cases)) skip();
  assert_int_equal(itg_mapped_file_open(path, NULL, &file), ITG_OK);
  assert_int_equal(itg_gguf_read(file.bytes, &why, &gguf), ITG_OK);
  if (itg_gguf_tokenizer_to_json(&gguf, &why, &json) != ITG_OK ||
      itg_tokenizer_open((itg_span){json.data, json.size}, &why, &tokenizer) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  itg_text_free(&json);
  itg_gguf_free(&gguf);
  itg_mapped_file_close(&file);
  compare_with(tokenizer, "smollm2");
}

// ---- what the services make of a text ----

enum { MAX_CONTEXT = 77 };

static bool same_ids(const itg_clip_text *preparation, itg_span line, uint32_t used, const int32_t *expected) {
  float ids[MAX_CONTEXT], mask[MAX_CONTEXT];
  const size_t context = itg_clip_text_context(preparation);
  itg_diagnostic why = {0};
  assert_true(context <= MAX_CONTEXT);
  if (itg_clip_text_values(preparation, (const char *)line.data, line.size, NULL, &why, ids, mask) != ITG_OK)
    fail_msg("%s", why.message);
  bool same = true;
  for (size_t i = 0; i < context; i++) same = same && (int32_t)ids[i] == expected[i] && mask[i] == (i < used);
  return same;
}

static void services_agree(void **state) {
  (void)state;
  static const char *const names[] = {"clip", "siglip", "gemma", "xlm-roberta", "nllb", "minilm"};
  size_t all_wrong = 0, compared = 0;
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
    char path[512];
    itg_mapped_file cases;
    itg_clip_text *preparation = NULL;
    itg_diagnostic why = {0};
    size_t lines = 0, cut = 0, wrong = 0;
    snprintf(path, sizeof path, "%s/%s.service.bin", folder, names[n]);
    if (!oracle_exists(path)) continue; // One of the models is not there.
    assert_int_equal(itg_mapped_file_open(path, NULL, &cases), ITG_OK);
    snprintf(path, sizeof path, "%s/service/%s/textual", folder, names[n]);
    if (itg_clip_text_open(path, &why, &preparation) != ITG_OK) fail_msg("%s: %s", names[n], why.message);
    const size_t context = itg_clip_text_context(preparation);
    for (itg_span rest = cases.bytes; rest.size; lines++) {
      const itg_span line = take(&rest, take_number(&rest));
      const uint32_t used = take_number(&rest);
      int32_t expected[MAX_CONTEXT];
      memcpy(expected, take(&rest, context * sizeof *expected).data, context * sizeof *expected);
      cut += used == context;
      if (!same_ids(preparation, line, used, expected) && wrong++ < 5) show("line", line);
    }
    printf("%-12s %7zu lines cleaned, cut and padded to %zu (%zu are cut or just fit): %zu with other ids\n", names[n],
           lines, context, cut, wrong);
    itg_clip_text_close(preparation);
    itg_mapped_file_close(&cases);
    assert_true(cut > 0 && cut < lines);
    all_wrong += wrong;
    compared++;
  }
  assert_true(compared >= 5);
  assert_int_equal(all_wrong, 0);
}

#define COMPARE(function, name)                 \
  static void function##_agrees(void **state) { \
    (void)state;                                \
    compare(name);                              \
  }
COMPARE(minilm, "minilm")
COMPARE(smollm2, "smollm2")
COMPARE(smolvlm, "smolvlm")
COMPARE(internvl3, "internvl3")
COMPARE(clip, "clip")
COMPARE(gemma, "gemma")
COMPARE(llama, "llama")
COMPARE(llama3, "llama3")
COMPARE(roberta, "roberta")
COMPARE(nllb, "nllb")
COMPARE(unknown, "unknown")
COMPARE(bert_cased, "bert-cased")
COMPARE(xlm_roberta, "xlm-roberta")
COMPARE(siglip, "siglip")
COMPARE(splits, "splits")

int main(void) {
  if (!oracle_has("tokenizers")) {
    printf("skipped: needs Python with the tokenizers package\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gguf_agrees),       cmocka_unit_test(minilm_agrees),      cmocka_unit_test(smollm2_agrees),
      cmocka_unit_test(smolvlm_agrees),    cmocka_unit_test(internvl3_agrees),   cmocka_unit_test(clip_agrees),
      cmocka_unit_test(gemma_agrees),      cmocka_unit_test(llama_agrees),       cmocka_unit_test(llama3_agrees),
      cmocka_unit_test(roberta_agrees),    cmocka_unit_test(nllb_agrees),        cmocka_unit_test(unknown_agrees),
      cmocka_unit_test(bert_cased_agrees), cmocka_unit_test(xlm_roberta_agrees), cmocka_unit_test(siglip_agrees),
      cmocka_unit_test(splits_agrees),     cmocka_unit_test(services_agree)};
  return cmocka_run_group_tests(tests, make_lines, remove_lines);
}
