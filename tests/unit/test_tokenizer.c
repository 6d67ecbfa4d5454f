// Tokenizers: small hand-made ones of each model, added tokens, truncation, streaming, and files that must be refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/tokenizer.h"

static itg_span span(const char *text) { return (itg_span){(const uint8_t *)text, strlen(text)}; }

static itg_tokenizer *open_tokenizer(const char *json) {
  itg_tokenizer *tokenizer = NULL;
  itg_diagnostic why = {0};
  if (itg_tokenizer_open(span(json), &why, &tokenizer) != ITG_OK) fail_msg("%s", why.message);
  return tokenizer;
}

static void expect_ids_with(const itg_tokenizer *tokenizer, itg_span text, const itg_encode_options *options,
                            const int32_t *expected, size_t count) {
  itg_token_ids ids = {0};
  itg_diagnostic why = {0};
  if (itg_tokenizer_encode(tokenizer, text, options, &why, &ids) != ITG_OK) fail_msg("%s", why.message);
  assert_int_equal(ids.count, count);
  for (size_t i = 0; i < count; i++) assert_int_equal(ids.ids[i], expected[i]);
  itg_token_ids_free(&ids);
}
#define EXPECT_IDS(tokenizer, text, options, ...)                                 \
  expect_ids_with(tokenizer, span(text), options, (const int32_t[]){__VA_ARGS__}, \
                  sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void expect_text(const itg_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip,
                        const char *expected) {
  itg_text text = {0};
  itg_stream_decoder *decoder = NULL;
  assert_int_equal(itg_tokenizer_decode(tokenizer, ids, count, skip, NULL, &text), ITG_OK);
  assert_int_equal(text.size, strlen(expected));
  assert_memory_equal(text.data, expected, text.size);
  text.size = 0;
  assert_int_equal(itg_stream_decoder_create(tokenizer, skip, NULL, &decoder), ITG_OK);
  for (size_t i = 0; i < count; i++) assert_int_equal(itg_stream_decoder_push(decoder, ids[i], NULL, &text), ITG_OK);
  assert_int_equal(itg_stream_decoder_finish(decoder, NULL, &text), ITG_OK);
  assert_int_equal(text.size, strlen(expected));
  assert_memory_equal(text.data, expected, text.size);
  itg_stream_decoder_destroy(decoder);
  itg_text_free(&text);
}
#define EXPECT_TEXT(tokenizer, skip, expected, ...)                                                                \
  expect_text(tokenizer, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), \
              skip, expected)

static const char word_piece[] =
    "{\"version\":\"1.0\",\"truncation\":{\"max_length\":6,\"strategy\":\"LongestFirst\",\"stride\":0},"
    "\"padding\":{\"strategy\":{\"Fixed\":8},\"direction\":\"Right\",\"pad_id\":0,\"pad_type_id\":0,\"pad_token\":\"["
    "PAD]\"},"
    "\"added_tokens\":[{\"id\":0,\"content\":\"[PAD]\",\"special\":true},{\"id\":2,\"content\":\"[CLS]\",\"special\":"
    "true},"
    "{\"id\":3,\"content\":\"[SEP]\",\"special\":true}],"
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":"
    "null,"
    "\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}"
    "},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],\"pair\":[],"
    "\"special_tokens\":{\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[2],\"tokens\":[\"[CLS]\"]},"
    "\"[SEP]\":{\"id\":\"[SEP]\",\"ids\":[3],\"tokens\":[\"[SEP]\"]}}},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
    "\"max_input_chars_per_word\":8,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"play\":4,\"##ing\":5,"
    "\"##er\":6,\"cafe\":7,\".\":8,\"\\u4e2d\":9,\"p\":10}}}";

static void word_piece_takes_the_longest_token_first(void **state) {
  (void)state;
  itg_tokenizer *tokenizer = open_tokenizer(word_piece);
  const itg_encode_options special = {.add_special = true};
  EXPECT_IDS(tokenizer, "Playing player.", NULL, 4, 5, 4, 6, 8);
  EXPECT_IDS(tokenizer, "CAF\xC3\x89 x\xE4\xB8\xADp", &special, 2, 7, 1, 9, 10, 3);
  EXPECT_IDS(tokenizer, "playinging", NULL, 1); // Longer than max_input_chars_per_word.
  EXPECT_IDS(tokenizer, "play[SEP]er", NULL, 4, 3, 1);
  EXPECT_TEXT(tokenizer, true, "playing cafe.", 2, 4, 5, 7, 8, 3);
  EXPECT_TEXT(tokenizer, false, "[CLS] play [SEP]", 2, 4, 3);
  assert_int_equal(itg_tokenizer_id_of_token(tokenizer, span("##er")), 6);
  assert_int_equal(itg_tokenizer_id_of_token(tokenizer, span("er")), -1);
  assert_true(itg_span_equals(itg_tokenizer_token_of_id(tokenizer, 9), "\xE4\xB8\xAD"));
  assert_null(itg_tokenizer_token_of_id(tokenizer, 11).data);
  assert_null(itg_tokenizer_token_of_id(tokenizer, -1).data);
  assert_int_equal(itg_tokenizer_vocabulary_size(tokenizer), 11);
  assert_true(itg_tokenizer_is_special(tokenizer, 2));
  assert_false(itg_tokenizer_is_special(tokenizer, 4));
  itg_tokenizer_close(tokenizer);
}

static void truncation_counts_special_tokens_and_padding_fills(void **state) {
  (void)state;
  itg_tokenizer *tokenizer = open_tokenizer(word_piece);
  const itg_tokenizer_limits *limits = itg_tokenizer_stored_limits(tokenizer);
  itg_encode_options options = {.add_special = true, .max_length = limits->max_length};
  itg_token_ids ids = {0};
  assert_int_equal(limits->max_length, 6);
  assert_int_equal(limits->pad_length, 8);
  assert_true(limits->has_padding && !limits->pad_left);
  EXPECT_IDS(tokenizer, "play playing player .", &options, 2, 4, 4, 5, 4, 3);
  options.truncate_left = true;
  EXPECT_IDS(tokenizer, "play playing player .", &options, 2, 5, 4, 6, 8, 3);
  options.max_length = 2;
  EXPECT_IDS(tokenizer, "play", &options, 2, 3);
  options.max_length = 1;
  assert_int_equal(itg_tokenizer_encode(tokenizer, span("play"), &options, NULL, &ids), ITG_ERROR_LIMIT);
  assert_int_equal(ids.count, 0);
  assert_int_equal(itg_tokenizer_encode(tokenizer, span("play"), NULL, NULL, &ids), ITG_OK);
  assert_int_equal(itg_token_ids_pad(&ids, 3, 7, false, NULL), ITG_OK);
  assert_int_equal(itg_token_ids_pad(&ids, 4, 9, true, NULL), ITG_OK);
  assert_int_equal(itg_token_ids_pad(&ids, 2, 9, true, NULL), ITG_OK);
  const int32_t padded[] = {9, 4, 7, 7};
  assert_int_equal(ids.count, 4);
  assert_memory_equal(ids.ids, padded, sizeof padded);
  itg_token_ids_free(&ids);
  itg_tokenizer_close(tokenizer);
}

static const char byte_pairs[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<end>\",\"special\":true,\"rstrip\":true},"
    "{\"id\":10,\"content\":\"lo\",\"special\":false,\"normalized\":false,\"single_word\":true}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
    "\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"vocab\":{\"l\":0,\"o\":1,\"w\":2,\"\\u0120\":3,"
    "\"lo\":10,\"low\":4,\"\\u0120low\":5,\"\\u00e2\":6,\"\\u0124\":7,\"\\u00ac\":8},"
    "\"merges\":[\"l o\",[\"lo\",\"w\"],\"\\u0120 low\"]}}";

static void byte_pairs_merge_by_rank(void **state) {
  (void)state;
  itg_tokenizer *tokenizer = open_tokenizer(byte_pairs);
  EXPECT_IDS(tokenizer, "low low", NULL, 4, 5);
  EXPECT_IDS(tokenizer, "olwlow", NULL, 1, 0, 2, 4);
  EXPECT_IDS(tokenizer, "\xE2\x82\xAC", NULL, 6, 7, 8);
  EXPECT_IDS(tokenizer, "low<end>  low lo", NULL, 4, 9, 4, 3, 10);
  EXPECT_TEXT(tokenizer, false, "low \xE2\x82\xAC<end>", 4, 3, 6, 7, 8, 9);
  EXPECT_TEXT(tokenizer, true, "low\xEF\xBF\xBD", 4, 9, 6, 7);
  EXPECT_TEXT(tokenizer, true, "\xEF\xBF\xBDl\xEF\xBF\xBD", 6, 0, 8);
  // A word too long for the scan gives what the scan gives, in a time that is not quadratic.
  enum { TIMES = 200000 };
  uint8_t *text = malloc(TIMES * 3);
  int32_t *expected = malloc(TIMES * sizeof *expected);
  assert_true(text && expected);
  for (size_t i = 0; i < TIMES; i++) {
    memcpy(text + i * 3, "low", 3);
    expected[i] = 4;
  }
  expect_ids_with(tokenizer, (itg_span){text, TIMES * 3}, NULL, expected, TIMES);
  expect_ids_with(tokenizer, (itg_span){text, 27}, NULL, expected, 9);
  expect_ids_with(tokenizer, (itg_span){text, 24}, NULL, expected, 8);
  free(text);
  free(expected);
  itg_tokenizer_close(tokenizer);
}

static void a_stream_holds_back_incomplete_characters(void **state) {
  (void)state;
  itg_tokenizer *tokenizer = open_tokenizer(byte_pairs);
  itg_stream_decoder *decoder = NULL;
  itg_text text = {0};
  static const size_t sizes[] = {1, 1, 1, 4};
  static const int32_t ids[] = {0, 6, 7, 8};
  assert_int_equal(itg_stream_decoder_create(tokenizer, false, NULL, &decoder), ITG_OK);
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(itg_stream_decoder_push(decoder, ids[i], NULL, &text), ITG_OK);
    assert_int_equal(text.size, sizes[i]);
  }
  itg_stream_decoder_destroy(decoder);
  itg_text_free(&text);
  itg_tokenizer_close(tokenizer);
}

static void byte_fallback_spells_unknown_characters(void **state) {
  (void)state;
  itg_tokenizer *tokenizer = open_tokenizer(
      "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\\u2581\"},"
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}]},"
      "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},"
      "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
      "\"start\":1,\"stop\":0}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,"
      "\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"a\":3,\"\\u2581\":4,\"\\u2581a\":5},"
      "\"merges\":[\"\\u2581 a\"]}}");
  EXPECT_IDS(tokenizer, "a \xC3\xA9zza", NULL, 5, 4, 1, 2, 0, 3);
  EXPECT_TEXT(tokenizer, false,
              "a \xC3\xA9"
              "a",
              5, 4, 1, 2, 3);
  itg_tokenizer_close(tokenizer);
}

static void unigram_takes_the_best_path(void **state) {
  (void)state;
  itg_tokenizer *tokenizer = open_tokenizer(
      "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"always\"},"
      "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
      "\"vocab\":[[\"<unk>\",0],[\"\\u2581\",-2],[\"a\",-3],[\"b\",-3],[\"ab\",-4],[\"\\u2581a\",-3.5],[\"abab\",-9]]}"
      "}");
  EXPECT_IDS(tokenizer, "ab", NULL, 1, 4);
  EXPECT_IDS(tokenizer, "abab a", NULL, 1, 4, 4, 5);
  EXPECT_IDS(tokenizer, "xyb", NULL, 1, 0, 3);
  EXPECT_TEXT(tokenizer, false, "ab a", 1, 4, 5);
  itg_tokenizer_close(tokenizer);
}

static void expect_refusal(const char *json, itg_status status, const char *message) {
  itg_tokenizer *tokenizer = NULL;
  itg_diagnostic why = {0};
  assert_int_equal(itg_tokenizer_open(span(json), &why, &tokenizer), status);
  assert_null(tokenizer);
  if (!strstr(why.message, message)) fail_msg("\"%s\" does not say \"%s\"", why.message, message);
}

static void long_runs_of_marks_are_ordered_in_linear_time(void **state) {
  (void)state;
  itg_tokenizer *tokenizer = open_tokenizer("{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{"
                                            "\"\\u00e9\":0,\"\\u0323\":1,\"\\u0301\":2,\"\\u1eb9\":3},\"merges\":[]}}");
  EXPECT_IDS(tokenizer, "e\xCC\x81", NULL, 0);
  EXPECT_IDS(tokenizer, "e\xCC\x81\xCC\xA3", NULL, 3, 2);
  // Acute accents (class 230) and dots below (class 220) by turns: all dots come first, the first joins the letter.
  enum { TIMES = 100000 };
  uint8_t *text = malloc(1 + TIMES * 4);
  int32_t *expected = malloc(2 * TIMES * sizeof *expected);
  assert_true(text && expected);
  text[0] = 'e';
  for (size_t i = 0; i < TIMES; i++) {
    memcpy(text + 1 + i * 4, "\xCC\x81\xCC\xA3", 4);
    expected[i] = i ? 1 : 3;
    expected[TIMES + i] = 2;
  }
  expect_ids_with(tokenizer, (itg_span){text, 1 + TIMES * 4}, NULL, expected, 2 * TIMES);
  free(text);
  free(expected);
  itg_tokenizer_close(tokenizer);
}

static void what_is_not_known_is_refused_by_name(void **state) {
  (void)state;
#define BPE "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"
  expect_refusal("", ITG_ERROR_FORMAT, "not JSON");
  expect_refusal("[]", ITG_ERROR_FORMAT, "not an object");
  expect_refusal("{}", ITG_ERROR_FORMAT, "model");
  expect_refusal("{\"version\":\"2.0\"," BPE "}", ITG_ERROR_VERSION, "1.0");
  expect_refusal("{\"flavor\":1," BPE "}", ITG_ERROR_UNSUPPORTED, "\"flavor\"");
  expect_refusal("{\"model\":{\"type\":\"WordLevel\"}}", ITG_ERROR_UNSUPPORTED, "WordLevel");
  expect_refusal("{\"normalizer\":{\"type\":\"Shout\"}," BPE "}", ITG_ERROR_UNSUPPORTED, "Shout");
  expect_refusal("{\"normalizer\":{\"type\":\"NFC\",\"x\":1}," BPE "}", ITG_ERROR_UNSUPPORTED, "\"x\"");
  expect_refusal("{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," BPE "}", ITG_ERROR_UNSUPPORTED, "UnicodeScripts");
  expect_refusal("{\"decoder\":{\"type\":\"CTC\"}," BPE "}", ITG_ERROR_UNSUPPORTED, "CTC");
  expect_refusal("{\"post_processor\":{\"type\":\"Other\"}," BPE "}", ITG_ERROR_UNSUPPORTED, "Other");
  expect_refusal("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}," BPE
                 "}",
                 ITG_ERROR_FORMAT, "does not compile");
  expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", ITG_ERROR_FORMAT,
                 "merge 0 needs a token");
  expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", ITG_ERROR_FORMAT,
                 "two tokens");
  expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}", ITG_ERROR_LIMIT,
                 "ids are");
  expect_refusal("{\"model\":{\"type\":\"BPE\",\"dropout\":0.5,\"vocab\":{},\"merges\":[]}}", ITG_ERROR_UNSUPPORTED,
                 "dropout");
  expect_refusal("{\"added_tokens\":[{\"id\":7,\"content\":\"a\"}]," BPE "}", ITG_ERROR_FORMAT, "contradicts");
  expect_refusal("{\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[[\"a\",0]]}}", ITG_ERROR_FORMAT, "unk_id");
  char nested[8192] = "{\"normalizer\":";
  for (int i = 0; i < 100; i++) strcat(nested, "{\"type\":\"Sequence\",\"normalizers\":[");
  for (int i = 0; i < 100; i++) strcat(nested, "]}");
  strcat(nested, "," BPE "}");
  expect_refusal(nested, ITG_ERROR_LIMIT, "nested");
}

static void a_text_too_long_or_a_pattern_too_slow_is_an_error(void **state) {
  (void)state;
  itg_tokenizer *tokenizer = open_tokenizer(
      "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|aa)+$\"},\"behavior\":\"Isolated\"}," BPE
      "}");
  itg_token_ids ids = {0};
  itg_diagnostic why = {0};
  char text[201];
  memset(text, 'a', 200);
  text[199] = 'b';
  text[200] = 0;
  assert_int_equal(itg_tokenizer_encode(tokenizer, span(text), NULL, &why, &ids), ITG_ERROR_LIMIT);
  assert_non_null(strstr(why.message, "backtracks"));
  assert_int_equal(
      itg_tokenizer_encode(tokenizer, (itg_span){(const uint8_t *)text, ITG_TOKENIZER_MAX_TEXT + 1}, NULL, &why, &ids),
      ITG_ERROR_LIMIT);
  assert_int_equal(ids.count, 0);
  assert_int_equal(itg_tokenizer_encode(tokenizer, span(""), NULL, &why, &ids), ITG_OK);
  assert_int_equal(ids.count, 0);
  itg_token_ids_free(&ids);
  itg_tokenizer_close(tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(word_piece_takes_the_longest_token_first),
                                     cmocka_unit_test(truncation_counts_special_tokens_and_padding_fills),
                                     cmocka_unit_test(byte_pairs_merge_by_rank),
                                     cmocka_unit_test(a_stream_holds_back_incomplete_characters),
                                     cmocka_unit_test(byte_fallback_spells_unknown_characters),
                                     cmocka_unit_test(unigram_takes_the_best_path),
                                     cmocka_unit_test(long_runs_of_marks_are_ordered_in_linear_time),
                                     cmocka_unit_test(what_is_not_known_is_refused_by_name),
                                     cmocka_unit_test(a_text_too_long_or_a_pattern_too_slow_is_an_error)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
