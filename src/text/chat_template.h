// Chat templates: a conversation as the text that a model was trained on.
//
// The models' own templates are Jinja programs; these are the same formats in plain C, one a family, and the program is only
// looked at to tell which: ChatML (SmolLM2, Qwen2, Qwen2.5, Qwen3, each with its default system prompt), Llama 3, SmolVLM and
// InternVL3. The texts equal those of the templates, so the ids do.
#ifndef ITG_TEXT_CHAT_TEMPLATE_H
#define ITG_TEXT_CHAT_TEMPLATE_H

#include "text/language_config.h"
#include "text/tokenizer.h"

typedef enum itg_chat_format {
  ITG_CHAT_CHATML = 1,
  ITG_CHAT_LLAMA3,
  ITG_CHAT_SMOLVLM,
  ITG_CHAT_INTERNVL,
} itg_chat_format;

typedef struct itg_chat_template {
  itg_chat_format format;
  const char *default_system; // Static; what a conversation without a system message begins with, or NULL.
  bool dated_system;          // LLAMA3: system messages name the knowledge and a fixed "today" date (3.1 and later).
  bool no_thinking;           // CHATML: the answer begins behind an empty thought (Qwen3 with thinking turned off).
} itg_chat_template;

// One part of a message; `is_image` stands for a picture.
typedef struct itg_chat_piece {
  itg_span text;
  bool is_image;
} itg_chat_piece;
typedef struct itg_chat_turn {
  const char *role;
  const itg_chat_piece *pieces;
  size_t piece_count;
} itg_chat_turn;

// Chooses by the model's description, its template's text (may be empty) and its special tokens.
// Errors: UNSUPPORTED when it is none of the known ones.
ITG_MUST_USE itg_status itg_chat_template_choose(const itg_language_config *config, itg_span jinja,
                                                 const itg_tokenizer *tokenizer, itg_diagnostic *diagnostic,
                                                 itg_chat_template *out);
// Appends the text of the turns and the beginning of the assistant's answer. Pictures become the placeholders that
// itg_vision_expand_prompt replaces. Errors: ARGUMENT (a role that is not system, user or assistant; a system message that
// is not the first; no turns), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_chat_template_render(const itg_chat_template *chat, const itg_chat_turn *turns,
                                                 size_t turn_count, itg_diagnostic *diagnostic, itg_text *out);

#endif
