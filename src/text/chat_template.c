// See chat_template.h.
#include "text/chat_template.h"

#include <string.h>

#include "text/buffers.h"

static itg_span span_of(const char *text) { return (itg_span){(const uint8_t *)text, strlen(text)}; }

static bool contains(itg_span text, const char *part) { return memmem(text.data, text.size, part, strlen(part)); }

static bool has_token(const itg_tokenizer *tokenizer, const char *token) {
  return itg_tokenizer_id_of_token(tokenizer, span_of(token)) >= 0;
}

itg_status itg_chat_template_choose(const itg_language_config *config, itg_span jinja, const itg_tokenizer *tokenizer,
                                    itg_diagnostic *diagnostic, itg_chat_template *out) {
  // Sentences by which a template adds a system message of its own.
  static const char *const defaults[] = {
      "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
      "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
      "You are a helpful assistant.",
  };
  itg_chat_template chat = {0};
  if (config->vision.family == ITG_VISION_IDEFICS3) {
    chat.format = ITG_CHAT_SMOLVLM;
  } else if (config->vision.family == ITG_VISION_INTERNVL) {
    chat.format = ITG_CHAT_INTERNVL;
  } else if (has_token(tokenizer, "<|start_header_id|>")) {
    chat.format = ITG_CHAT_LLAMA3;
    chat.dated_system = contains(jinja, "Cutting Knowledge Date");
  } else if (has_token(tokenizer, "<|im_start|>")) {
    chat.format = ITG_CHAT_CHATML;
    chat.no_thinking = contains(jinja, "enable_thinking");
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0] && !chat.default_system; i++) {
      if (contains(jinja, defaults[i])) chat.default_system = defaults[i];
    }
  } else {
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "chat template",
             "the model's tokens belong to no known chat format (ChatML, Llama 3, SmolVLM, InternVL3)");
  }
  *out = chat;
  return ITG_OK;
}

// ---- rendering ----

typedef struct renderer {
  const itg_chat_template *chat;
  itg_text *out;
  itg_diagnostic *diagnostic;
} renderer;

static itg_status put(const renderer *r, const char *text) {
  return itg_text_append(r->out, span_of(text), r->diagnostic);
}

static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Without white space at both ends, as the templates' trim does for ASCII.
static itg_span trimmed(itg_span text) {
  while (text.size && is_space(text.data[0])) text = (itg_span){text.data + 1, text.size - 1};
  while (text.size && is_space(text.data[text.size - 1])) text.size--;
  return text;
}

// Earlier answers are kept without their thoughts (Qwen3).
static itg_span without_thought(itg_span text) {
  static const char end[] = "</think>";
  const uint8_t *found = memmem(text.data, text.size, end, sizeof end - 1);
  if (!found) return text;
  found += sizeof end - 1;
  itg_span rest = {found, text.size - (size_t)(found - text.data)};
  while (rest.size && rest.data[0] == '\n') rest = (itg_span){rest.data + 1, rest.size - 1};
  return rest;
}

static itg_status put_pieces(const renderer *r, const itg_chat_turn *turn, const char *placeholder) {
  for (size_t i = 0; i < turn->piece_count; i++) {
    const itg_chat_piece *piece = &turn->pieces[i];
    if (piece->is_image) {
      ITG_TRY(put(r, placeholder));
    } else {
      const bool old_answer = r->chat->no_thinking && strcmp(turn->role, "assistant") == 0;
      ITG_TRY(itg_text_append(r->out, old_answer ? without_thought(piece->text) : piece->text, r->diagnostic));
    }
  }
  return ITG_OK;
}

static itg_status put_chatml(const renderer *r, const itg_chat_turn *turns, size_t count) {
  if (r->chat->default_system && strcmp(turns[0].role, "system") != 0) {
    ITG_TRY(put(r, "<|im_start|>system\n"));
    ITG_TRY(put(r, r->chat->default_system));
    ITG_TRY(put(r, "<|im_end|>\n"));
  }
  const bool internvl = r->chat->format == ITG_CHAT_INTERNVL;
  for (size_t i = 0; i < count; i++) {
    ITG_TRY(put(r, "<|im_start|>"));
    ITG_TRY(put(r, turns[i].role));
    ITG_TRY(put(r, "\n"));
    ITG_TRY(put_pieces(r, &turns[i], internvl ? "<IMG_CONTEXT>\n" : ""));
    ITG_TRY(put(r, "<|im_end|>\n"));
  }
  ITG_TRY(put(r, "<|im_start|>assistant\n"));
  return r->chat->no_thinking ? put(r, "<think>\n\n</think>\n\n") : ITG_OK;
}

static itg_status put_llama3_turn(const renderer *r, const char *role, const itg_chat_turn *turn) {
  ITG_TRY(put(r, "<|start_header_id|>"));
  ITG_TRY(put(r, role));
  ITG_TRY(put(r, "<|end_header_id|>\n\n"));
  if (r->chat->dated_system && strcmp(role, "system") == 0)
    ITG_TRY(put(r, "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"));
  for (size_t i = 0; turn && i < turn->piece_count; i++)
    ITG_TRY(itg_text_append(r->out, trimmed(turn->pieces[i].text), r->diagnostic));
  return put(r, "<|eot_id|>");
}

static itg_status put_llama3(const renderer *r, const itg_chat_turn *turns, size_t count) {
  ITG_TRY(put(r, "<|begin_of_text|>"));
  if (r->chat->dated_system && strcmp(turns[0].role, "system") != 0) ITG_TRY(put_llama3_turn(r, "system", NULL));
  for (size_t i = 0; i < count; i++) ITG_TRY(put_llama3_turn(r, turns[i].role, &turns[i]));
  return put(r, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

static itg_status put_smolvlm(const renderer *r, const itg_chat_turn *turns, size_t count) {
  ITG_TRY(put(r, "<|im_start|>"));
  for (size_t i = 0; i < count; i++) {
    const char first[] = {(char)(turns[i].role[0] - 'a' + 'A'), 0}; // "User"
    ITG_TRY(put(r, first));
    ITG_TRY(put(r, turns[i].role + 1));
    ITG_TRY(put(r, turns[i].piece_count && turns[i].pieces[0].is_image ? ":" : ": "));
    ITG_TRY(put_pieces(r, &turns[i], "<image>"));
    ITG_TRY(put(r, "<end_of_utterance>\n"));
  }
  return put(r, "Assistant:");
}

static itg_status check_turns(const itg_chat_template *chat, const itg_chat_turn *turns, size_t count,
                              itg_diagnostic *diagnostic) {
  if (count == 0) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "messages", "the conversation has no messages");
  for (size_t i = 0; i < count; i++) {
    const char *role = turns[i].role;
    const bool system = strcmp(role, "system") == 0;
    if (!system && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "messages",
               "unknown role \"%.40s\"; there are system, user and assistant", role);
    if (system && i > 0)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "messages", "a system message can only be the first message");
    const bool sees = chat->format == ITG_CHAT_SMOLVLM || chat->format == ITG_CHAT_INTERNVL;
    for (size_t p = 0; p < turns[i].piece_count && !sees; p++) {
      if (turns[i].pieces[p].is_image)
        ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "messages", "this model does not take images");
    }
  }
  return ITG_OK;
}

itg_status itg_chat_template_render(const itg_chat_template *chat, const itg_chat_turn *turns, size_t turn_count,
                                    itg_diagnostic *diagnostic, itg_text *out) {
  const renderer r = {chat, out, diagnostic};
  ITG_TRY(check_turns(chat, turns, turn_count, diagnostic));
  switch (chat->format) {
  case ITG_CHAT_LLAMA3: return put_llama3(&r, turns, turn_count);
  case ITG_CHAT_SMOLVLM: return put_smolvlm(&r, turns, turn_count);
  default: return put_chatml(&r, turns, turn_count);
  }
}
