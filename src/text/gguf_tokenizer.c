// See gguf_tokenizer.h.
#include "text/gguf_tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "text/buffers.h"
#include "text/unicode.h"

// Kinds of tokens (tokenizer.ggml.token_type).
enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_USER_DEFINED = 4 };

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPLIT_BY(pattern)                                                                               \
  "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern     \
  "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false," \
  "\"trim_offsets\":false,\"use_regex\":false}]}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
#define WORDS(digits)                                                                                          \
  CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|" \
               "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

// What tokenizer.ggml.pre names, as the families' own files spell it.
static const struct {
  const char *name, *pre_tokenizer, *normalizer;
  bool ignore_merges; // A piece that is a token is taken whole.
} kinds[] = {
    {"smollm",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL "]}",
     "null", false},
    {"llama-bpe", SPLIT_BY(WORDS("\\\\p{N}{1,3}")), "null", true},
    {"llama3", SPLIT_BY(WORDS("\\\\p{N}{1,3}")), "null", true},
    {"qwen2", SPLIT_BY(WORDS("\\\\p{N}")), "{\"type\":\"NFC\"}", false},
    {"gpt-2", BYTE_LEVEL, "null", false},
};

static itg_status put(itg_text *out, const char *text, itg_diagnostic *diagnostic) {
  return itg_text_append(out, (itg_span){(const uint8_t *)text, strlen(text)}, diagnostic);
}

static bool is_utf8(itg_span text) {
  for (size_t i = 0; i < text.size;) {
    const int length = itg_utf8_part(text.data + i, text.size - i);
    if (length <= 0) return false;
    i += (size_t)length;
  }
  return true;
}

// A JSON string.
static itg_status put_string(itg_text *out, itg_span text, const char *what, size_t index, itg_diagnostic *diagnostic) {
  if (!is_utf8(text)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.ggml", "%s %zu is not UTF-8", what, index);
  ITG_TRY(put(out, "\"", diagnostic));
  for (size_t i = 0, plain = 0; i <= text.size; i++) {
    const bool special = i < text.size && (text.data[i] < 0x20 || text.data[i] == '"' || text.data[i] == '\\');
    if (i < text.size && !special) continue;
    ITG_TRY(itg_text_append(out, (itg_span){text.data + plain, i - plain}, diagnostic));
    plain = i + 1;
    if (!special) break;
    char escape[8];
    snprintf(escape, sizeof escape, "\\u%04x", text.data[i]);
    ITG_TRY(put(out, escape, diagnostic));
  }
  return put(out, "\"", diagnostic);
}

static itg_status need_array(const itg_gguf *gguf, const char *key, itg_gguf_type type, itg_diagnostic *diagnostic,
                             const itg_gguf_value **out) {
  const itg_gguf_value *value = itg_gguf_find(gguf, key);
  if (!value || !value->is_array || value->type != type)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, key, "the GGUF file has no such list of the right type");
  *out = value;
  return ITG_OK;
}

static int64_t kind_of(const itg_gguf_value *types, size_t index) {
  int64_t kind = TOKEN_NORMAL;
  return types && itg_gguf_integer(types, index, &kind) ? kind : TOKEN_NORMAL;
}

// Special tokens (control) and others that are found in text as they are (user-defined).
static itg_status put_added(const itg_gguf_value *tokens, const itg_gguf_value *types, itg_diagnostic *diagnostic,
                            itg_text *out) {
  bool first = true;
  for (size_t i = 0; i < tokens->count; i++) {
    const int64_t kind = kind_of(types, i);
    if ((kind != TOKEN_CONTROL && kind != TOKEN_USER_DEFINED) || tokens->texts[i].size == 0) continue;
    char head[64];
    snprintf(head, sizeof head, "%s{\"id\":%zu,\"content\":", first ? "" : ",", i);
    ITG_TRY(put(out, head, diagnostic));
    ITG_TRY(put_string(out, tokens->texts[i], "token", i, diagnostic));
    ITG_TRY(put(
        out, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":", diagnostic));
    ITG_TRY(put(out, kind == TOKEN_CONTROL ? "true}" : "false}", diagnostic));
    first = false;
  }
  return ITG_OK;
}

static itg_status put_vocabulary(const itg_gguf_value *tokens, itg_diagnostic *diagnostic, itg_text *out) {
  for (size_t i = 0; i < tokens->count; i++) {
    char id[32];
    if (i) ITG_TRY(put(out, ",", diagnostic));
    ITG_TRY(put_string(out, tokens->texts[i], "token", i, diagnostic));
    snprintf(id, sizeof id, ":%zu", i);
    ITG_TRY(put(out, id, diagnostic));
  }
  return ITG_OK;
}

static itg_status put_merges(const itg_gguf_value *merges, itg_diagnostic *diagnostic, itg_text *out) {
  for (size_t i = 0; i < merges->count; i++) {
    if (i) ITG_TRY(put(out, ",", diagnostic));
    ITG_TRY(put_string(out, merges->texts[i], "merge", i, diagnostic));
  }
  return ITG_OK;
}

static itg_status find_kind(const itg_gguf *gguf, itg_diagnostic *diagnostic, size_t *out) {
  itg_span model = {0}, pre = {0};
  if (!itg_gguf_text(itg_gguf_find(gguf, "tokenizer.ggml.model"), &model) || !itg_span_equals(model, "gpt2"))
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.ggml.model",
             "the tokenizer is \"%.*s\"; only byte-level BPE (\"gpt2\") is supported",
             (int)(model.size > 40 ? 40 : model.size), model.size ? (const char *)model.data : "");
  itg_gguf_text(itg_gguf_find(gguf, "tokenizer.ggml.pre"), &pre);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (!itg_span_equals(pre, kinds[i].name)) continue;
    *out = i;
    return ITG_OK;
  }
  ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.ggml.pre",
           "unknown pre-tokenizer \"%.*s\"; known are smollm, llama-bpe, qwen2 and gpt-2",
           (int)(pre.size > 40 ? 40 : pre.size), pre.size ? (const char *)pre.data : "");
}

itg_status itg_gguf_tokenizer_to_json(const itg_gguf *gguf, itg_diagnostic *diagnostic, itg_text *out) {
  const itg_gguf_value *tokens, *merges, *types = itg_gguf_find(gguf, "tokenizer.ggml.token_type");
  size_t kind = 0;
  ITG_TRY(find_kind(gguf, diagnostic, &kind));
  ITG_TRY(need_array(gguf, "tokenizer.ggml.tokens", ITG_GGUF_TEXT, diagnostic, &tokens));
  ITG_TRY(need_array(gguf, "tokenizer.ggml.merges", ITG_GGUF_TEXT, diagnostic, &merges));
  if (types && (!types->is_array || types->count != tokens->count))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.ggml.token_type", "%zu kinds for %zu tokens",
             (size_t)types->count, (size_t)tokens->count);
  ITG_TRY(put(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[", diagnostic));
  ITG_TRY(put_added(tokens, types, diagnostic, out));
  ITG_TRY(put(out, "],\"normalizer\":", diagnostic));
  ITG_TRY(put(out, kinds[kind].normalizer, diagnostic));
  ITG_TRY(put(out, ",\"pre_tokenizer\":", diagnostic));
  ITG_TRY(put(out, kinds[kind].pre_tokenizer, diagnostic));
  ITG_TRY(put(out,
              ",\"post_processor\":null,\"decoder\":" BYTE_LEVEL ",\"model\":{\"type\":\"BPE\",\"dropout\":null,"
              "\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
              "\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":",
              diagnostic));
  ITG_TRY(put(out, kinds[kind].ignore_merges ? "true" : "false", diagnostic));
  ITG_TRY(put(out, ",\"vocab\":{", diagnostic));
  ITG_TRY(put_vocabulary(tokens, diagnostic, out));
  ITG_TRY(put(out, "},\"merges\":[", diagnostic));
  ITG_TRY(put_merges(merges, diagnostic, out));
  return put(out, "]}}", diagnostic);
}
