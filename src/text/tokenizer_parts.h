// What an open tokenizer consists of.
#ifndef ITG_TEXT_TOKENIZER_PARTS_H
#define ITG_TEXT_TOKENIZER_PARTS_H

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"

struct itg_tokenizer {
  itg_tokenizer_limits limits;
  itg_text_model model;
  itg_normalizers normalizers;
  itg_pre_tokenizers pre_tokenizers;
  itg_post_processor post_processor;
  itg_token_decoders decoders;
  itg_added_tokens added;
};

#endif
