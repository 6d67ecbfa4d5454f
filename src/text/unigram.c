// Unigram (Kudo 2018): the segmentation of the highest total score, by Viterbi search over the characters.
#include "text/model.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/unicode.h"

// Hugging Face's library reads its file with serde_json (crates.io/crates/serde_json, without the feature "float_roundtrip"):
// the digits as one whole number, rounded, times or over a power of ten, rounded again. That may be the neighbour of the number
// that is written, and between segmentations that tie but for rounding it decides. The digits are the shortest ones that
// stand for the number, as every writer of such files gives them.
static double read_score(const json_t *score) {
  const double value = json_number_value(score);
  if (json_is_integer(score) || value == 0 || !isfinite(value)) return value;
  char text[40];
  int precision = DBL_DIG; // Shorter ones read back from so many digits, with zeros at the end.
  do snprintf(text, sizeof text, "%.*e", precision - 1, value);
  while (strtod(text, NULL) != value && precision++ < DBL_DECIMAL_DIG);
  uint64_t digits = 0;
  const char *at = text;
  for (; *at != 'e'; at++)
    if (*at >= '0' && *at <= '9') digits = digits * 10 + (uint64_t)(*at - '0');
  long exponent = strtol(at + 1, NULL, 10) - (precision - 1);
  for (; digits % 10 == 0; digits /= 10) exponent++;
  if (labs(exponent) > 300) return value;
  const double magnitude =
      exponent < 0 ? (double)digits / pow(10, (double)-exponent) : (double)digits * pow(10, (double)exponent);
  return value < 0 ? -magnitude : magnitude;
}

itg_status itg_unigram_read(const json_t *json, itg_diagnostic *diagnostic, itg_text_model *model) {
  static const char where[] = "model Unigram";
  const json_t *vocabulary, *entry;
  size_t id;
  int64_t unknown = -1;
  model->kind = ITG_MODEL_UNIGRAM;
  ITG_TRY(itg_json_allow(json, where, "type unk_id vocab byte_fallback", diagnostic));
  ITG_TRY(itg_json_bool(json, where, "byte_fallback", diagnostic, &model->byte_fallback));
  ITG_TRY(itg_json_need_array(json, where, "vocab", diagnostic, &vocabulary));
  const size_t count = json_array_size(vocabulary);
  ITG_TRY(itg_vocabulary_reserve(&model->vocabulary, count, diagnostic));
  ITG_TRY(itg_json_integer(json, where, "unk_id", 0, (int64_t)count - 1, diagnostic, &unknown));
  model->unknown = (int32_t)unknown;
  model->scores = malloc((count + 1) * sizeof *model->scores);
  ITG_TRY_MEMORY(model->scores, diagnostic);
  double lowest = DBL_MAX;
  json_array_foreach(vocabulary, id, entry) {
    const json_t *token = json_array_get(entry, 0), *score = json_array_get(entry, 1);
    if (json_array_size(entry) != 2 || !json_is_string(token) || !json_is_number(score))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: entry %zu of \"vocab\" is not [token, score]",
               where, id);
    // The last of equal tokens counts, as in the reference.
    ITG_TRY(itg_vocabulary_add(&model->vocabulary, itg_json_span(token), (int64_t)id, true, diagnostic));
    model->scores[id] = read_score(score);
    if (model->scores[id] < lowest) lowest = model->scores[id];
  }
  model->unknown_score = lowest - 10; // SentencePiece's penalty.
  return itg_prefix_set_build(&model->vocabulary, diagnostic, &model->prefixes);
}

typedef struct node {
  double score;
  uint32_t start; // UINT32_MAX: not reached.
  int32_t id;
} node;

static void reach(node *target, double score, uint32_t start, int32_t id) {
  if (target->start == UINT32_MAX || score > target->score) *target = (node){score, start, id};
}

// Appends the token of a part of the text, or what stands for an unknown part.
static itg_status put(const itg_text_model *model, itg_span part, itg_token_ids *ids, itg_diagnostic *diagnostic) {
  int32_t id = itg_vocabulary_id(&model->vocabulary, part);
  if (id < 0 && model->byte_fallback) {
    bool done;
    ITG_TRY(itg_text_model_bytes(model, part, &done, ids, diagnostic));
    if (done) return ITG_OK;
  }
  return itg_token_ids_append(ids, id >= 0 ? id : model->unknown, diagnostic);
}

itg_status itg_unigram_encode(const itg_text_model *model, itg_span piece, itg_model_scratch *scratch,
                              itg_token_ids *ids, itg_diagnostic *diagnostic) {
  void *array = scratch->symbols;
  if (!itg_grow(&array, &scratch->symbol_capacity, piece.size + 1, sizeof(node)))
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  scratch->symbols = array;
  node *nodes = array;
  for (size_t i = 0; i <= piece.size; i++) nodes[i] = (node){0, UINT32_MAX, -1};
  for (size_t at = 0; at < piece.size;) {
    const itg_span rest = {piece.data + at, piece.size - at};
    const size_t character = itg_utf8_length(piece.data[at]);
    const double so_far = nodes[at].score;
    bool single = false;
    size_t length;
    int32_t id;
    itg_prefix_walk walk = itg_prefix_begin(&model->prefixes, rest.data[0]);
    while ((id = itg_prefix_next(&model->prefixes, rest, &walk, &length)) >= 0) {
      reach(&nodes[at + length], model->scores[id] + so_far, (uint32_t)at, id);
      single |= length == character;
    }
    if (!single) {
      if (model->unknown < 0)
        ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the text has an unknown character, and the model has no unk_id");
      reach(&nodes[at + character], model->unknown_score + so_far, (uint32_t)at, model->unknown);
    }
    at += character;
  }
  // The path backwards, adjacent unknown parts joined.
  for (size_t end = piece.size; end > 0;) {
    size_t start = nodes[end].start;
    if (model->unknown >= 0 && nodes[end].id == model->unknown)
      while (start > 0 && nodes[start].id == model->unknown) start = nodes[start].start;
    nodes[end].start = (uint32_t)start;
    end = start;
  }
  // Turned around in place: `start` of the beginning of a part becomes its end.
  uint32_t next = UINT32_MAX;
  for (uint32_t end = (uint32_t)piece.size;;) {
    const uint32_t start = nodes[end].start;
    nodes[end].start = next;
    next = end;
    if (end == 0) break;
    end = start;
  }
  for (uint32_t start = 0; start < piece.size;) {
    const uint32_t end = nodes[start].start;
    ITG_TRY(put(model, (itg_span){piece.data + start, end - start}, ids, diagnostic));
    start = end;
  }
  return ITG_OK;
}
