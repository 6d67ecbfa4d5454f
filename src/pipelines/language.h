// Inside pipelines: an opened language model.
#ifndef ITG_PIPELINES_LANGUAGE_H
#define ITG_PIPELINES_LANGUAGE_H

#include "intaglio/language.h"
#include "text/chat_template.h"

enum { ITG_LANGUAGE_MAX_ENDS = 16 };

struct itg_language {
  itg_model *model;
  const itg_model *decoder, *embedding, *vision;     // Parts; vision NULL for text alone.
  size_t input_embeddings, input_cosine, input_sine; // Of the decoder.
  size_t block, capacity;                            // T and C.
  itg_language_config config;
  itg_tokenizer *tokenizer;
  itg_chat_template chat;
  int32_t ends[ITG_LANGUAGE_MAX_ENDS]; // Tokens that end an answer.
  size_t end_count;
};

#endif
