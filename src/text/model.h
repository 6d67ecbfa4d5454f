// The models of a tokenizer.json: a piece of text becomes tokens of the vocabulary.
#ifndef ITG_TEXT_MODEL_H
#define ITG_TEXT_MODEL_H

#include "text/json_fields.h"
#include "text/vocabulary.h"

typedef enum itg_text_model_kind { ITG_MODEL_BPE, ITG_MODEL_WORDPIECE, ITG_MODEL_UNIGRAM } itg_text_model_kind;

// Two tokens that become one. Lower ranks come first.
typedef struct itg_merge {
  uint64_t pair; // Left id in the high half; UINT64_MAX: a free slot.
  uint32_t rank, id;
} itg_merge;

// Starts as zeroes; immutable after reading.
typedef struct itg_text_model {
  itg_text_model_kind kind;
  itg_vocabulary vocabulary;
  int32_t unknown;         // -1: none.
  itg_text prefix, suffix; // continuing_subword_prefix, end_of_word_suffix
  bool byte_fallback;
  int32_t byte_ids[256]; // Of "<0x00>" .. "<0xFF>"; -1 where there is none.
  // BPE
  bool fuse_unknown, ignore_merges;
  itg_merge *merges; // Open hash table.
  size_t merge_slots;
  int32_t character_ids[0x200]; // Of the first characters, where neither prefix nor suffix changes them.
  // WordPiece
  int64_t max_characters;
  // Unigram
  double *scores;
  double unknown_score;
  itg_prefix_set prefixes;
} itg_text_model;

// Scratch memory of one call; starts as zeroes. One thread at a time.
typedef struct itg_model_scratch {
  itg_text text;
  void *symbols;
  size_t symbol_capacity;
  uint64_t *heap;
  size_t heap_capacity;
} itg_model_scratch;
void itg_model_scratch_free(itg_model_scratch *scratch);

// `json` is the field "model". Errors: FORMAT, UNSUPPORTED, LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_text_model_read(const json_t *json, itg_diagnostic *diagnostic, itg_text_model *out);
void itg_text_model_free(itg_text_model *model);
// Appends the ids of `piece` (valid UTF-8, not empty). `piece` must not lie in `scratch`.
// Errors: FORMAT (no token for unknown text), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_text_model_encode(const itg_text_model *model, itg_span piece, itg_model_scratch *scratch,
                                              itg_token_ids *ids, itg_diagnostic *diagnostic);

// The parts, one a file.
ITG_MUST_USE itg_status itg_bpe_read(const json_t *json, itg_diagnostic *diagnostic, itg_text_model *model);
ITG_MUST_USE itg_status itg_bpe_encode(const itg_text_model *model, itg_span piece, itg_model_scratch *scratch,
                                       itg_token_ids *ids, itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_unigram_read(const json_t *json, itg_diagnostic *diagnostic, itg_text_model *model);
ITG_MUST_USE itg_status itg_unigram_encode(const itg_text_model *model, itg_span piece, itg_model_scratch *scratch,
                                           itg_token_ids *ids, itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_wordpiece_read(const json_t *json, itg_diagnostic *diagnostic, itg_text_model *model);
ITG_MUST_USE itg_status itg_wordpiece_encode(const itg_text_model *model, itg_span piece, itg_model_scratch *scratch,
                                             itg_token_ids *ids, itg_diagnostic *diagnostic);
// The vocabulary as an object of token and id.
ITG_MUST_USE itg_status itg_text_model_read_vocabulary(const json_t *json, const char *where,
                                                       itg_diagnostic *diagnostic, itg_text_model *model);
// The id of the string field "unk_token": -1 when it is null or not in the vocabulary.
ITG_MUST_USE itg_status itg_text_model_read_unknown(const json_t *json, const char *where, itg_diagnostic *diagnostic,
                                                    itg_text_model *model);
// Appends the byte tokens of `text`; false, with nothing appended, when one is missing.
ITG_MUST_USE itg_status itg_text_model_bytes(const itg_text_model *model, itg_span text, bool *done, itg_token_ids *ids,
                                             itg_diagnostic *diagnostic);

#endif
