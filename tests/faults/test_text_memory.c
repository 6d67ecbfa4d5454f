// Every allocation of the tokenizers may fail: an error comes back and nothing leaks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "faults/fail_allocation.h"

#include "base/file.h"
#include "text/tokenizer.h"

static itg_mapped_file file;

static itg_status use_all(const itg_tokenizer *tokenizer, itg_token_ids *ids, itg_text *text,
                          itg_diagnostic *diagnostic) {
  // Marks out of order, a word too long for the short way, an added token, bytes that are not UTF-8.
  static const char line[] = " low the ca\xCC\x81\xCC\xA3"
                             "fe<s> 12 xab abababababababababababababababababababababababab\xFF[CLS] \xED\x95\x9C";
  const itg_encode_options options = {.add_special = true, .max_length = 64};
  itg_stream_decoder *decoder = NULL;
  ITG_TRY(
      itg_tokenizer_encode(tokenizer, (itg_span){(const uint8_t *)line, sizeof line - 1}, &options, diagnostic, ids));
  ITG_TRY(itg_token_ids_pad(ids, 70, 1, true, diagnostic));
  ITG_TRY(itg_tokenizer_decode(tokenizer, ids->ids, ids->count, false, diagnostic, text));
  ITG_TRY(itg_stream_decoder_create(tokenizer, true, diagnostic, &decoder));
  itg_status status = ITG_OK;
  for (size_t i = 50; status == ITG_OK && i < ids->count; i++)
    status = itg_stream_decoder_push(decoder, ids->ids[i], diagnostic, text);
  if (status == ITG_OK) status = itg_stream_decoder_finish(decoder, diagnostic, text);
  itg_stream_decoder_destroy(decoder);
  return status;
}

static itg_status open_and_use(itg_diagnostic *diagnostic) {
  itg_tokenizer *tokenizer = NULL;
  itg_token_ids ids = {0};
  itg_text text = {0};
  ITG_TRY(itg_tokenizer_open(file.bytes, diagnostic, &tokenizer));
  const itg_status status = use_all(tokenizer, &ids, &text, diagnostic);
  itg_token_ids_free(&ids);
  itg_text_free(&text);
  itg_tokenizer_close(tokenizer);
  return status;
}

static void each_allocation_fails_once(const char *name) {
  char path[1024];
  itg_diagnostic why = {0};
  snprintf(path, sizeof path, "%s/tests/fuzz/seeds/tokenizer/%s.json", ITG_SOURCE_DIR, name);
  assert_int_equal(itg_mapped_file_open(path, NULL, &file), ITG_OK);
  const long first = allocation_count();
  if (open_and_use(&why) != ITG_OK) fail_msg("%s", why.message);
  const long allocations = allocation_count() - first;
  assert_true(allocations >= 20);
  for (long number = 1; number <= allocations; number++) {
    const long before = live_blocks();
    fail_allocation(number);
    const itg_status status = open_and_use(&why);
    assert_false(fail_is_pending());
    if (status != ITG_ERROR_MEMORY || why.status != ITG_ERROR_MEMORY)
      fail_msg("allocation %ld of %ld: status %d", number, allocations, (int)status);
    if (live_blocks() != before) fail_msg("allocation %ld: %ld blocks are left", number, live_blocks() - before);
  }
  itg_mapped_file_close(&file);
}

static void word_piece_survives(void **state) {
  (void)state;
  each_allocation_fails_once("wordpiece");
}
static void byte_level_survives(void **state) {
  (void)state;
  each_allocation_fails_once("byte-level");
}
static void byte_fallback_survives(void **state) {
  (void)state;
  each_allocation_fails_once("byte-fallback");
}
static void unigram_survives(void **state) {
  (void)state;
  each_allocation_fails_once("unigram");
}
static void splits_survive(void **state) {
  (void)state;
  each_allocation_fails_once("splits");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(word_piece_survives), cmocka_unit_test(byte_level_survives),
                                     cmocka_unit_test(byte_fallback_survives), cmocka_unit_test(unigram_survives),
                                     cmocka_unit_test(splits_survive)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
