// Regular expressions of tokenizer files on PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <pcre2.h>
#include <stdlib.h>

#include "text/unicode.h"

enum { MAX_PATTERN = 1 << 16, MATCH_LIMIT = 20000000, HEAP_LIMIT_KIB = 1 << 16 };

struct itg_pattern {
  pcre2_code *code; // NULL for plain strings.
  pcre2_match_context *context;
  uint8_t *literal;
  size_t literal_size;
};

// White_Space and Oniguruma's word characters, as the inside of a class.
#define SPACES "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define WORD_CHARACTERS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

// Rewrites \s, \S, \w and \W. Inside a class only \s and \w can be spelled out; \S and \W stay as PCRE2 has them there.
static itg_status rewrite(itg_span source, itg_diagnostic *diagnostic, itg_text *out) {
  bool in_class = false;
  for (size_t i = 0; i < source.size; i++) {
    const uint8_t byte = source.data[i];
    const char *spelled = NULL;
    size_t taken = 1;
    if (byte == '\\' && i + 1 < source.size) {
      taken = 2;
      switch (source.data[i + 1]) {
      case 's': spelled = in_class ? SPACES : "[" SPACES "]"; break;
      case 'S': spelled = in_class ? NULL : "[^" SPACES "]"; break;
      case 'w': spelled = in_class ? WORD_CHARACTERS : "[" WORD_CHARACTERS "]"; break;
      case 'W': spelled = in_class ? NULL : "[^" WORD_CHARACTERS "]"; break;
      case 'h':
      case 'H': ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, NULL, "\\h in a regular expression is not supported");
      default: break;
      }
    } else if (byte == '[') {
      if (in_class && !(i + 1 < source.size && source.data[i + 1] == ':'))
        ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, NULL,
                 "a class inside a class of a regular expression is not supported");
      // A bracket that closes at the very beginning of a class is one of its characters.
      if (!in_class) {
        if (i + taken < source.size && source.data[i + taken] == '^') taken++;
        if (i + taken < source.size && source.data[i + taken] == ']') taken++;
      }
      in_class = true;
    } else if (byte == '&' && in_class && i + 1 < source.size && source.data[i + 1] == '&') {
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, NULL, "&& in a class of a regular expression is not supported");
    } else if (byte == ']') {
      const bool posix = in_class && i > 0 && source.data[i - 1] == ':';
      if (!posix) in_class = false;
    }
    const itg_span text =
        spelled ? (itg_span){(const uint8_t *)spelled, strlen(spelled)} : (itg_span){source.data + i, taken};
    ITG_TRY(itg_text_append(out, text, diagnostic));
    i += taken - 1;
  }
  return ITG_OK;
}

static itg_status compile(itg_span source, itg_diagnostic *diagnostic, itg_pattern *pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_compile_context *limits = pcre2_compile_context_create(NULL);
  ITG_TRY_MEMORY(limits, diagnostic);
  pcre2_set_parens_nest_limit(limits, 100);
  pattern->code =
      pcre2_compile(source.data, source.size, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, limits);
  pcre2_compile_context_free(limits);
  if (!pattern->code) {
    char reason[160] = "";
    (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, sizeof reason);
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "a regular expression does not compile: %s (at byte %zu of \"%.*s\")",
             reason, (size_t)offset, source.size > 100 ? 100 : (int)source.size, (const char *)source.data);
  }
  pattern->context = pcre2_match_context_create(NULL);
  ITG_TRY_MEMORY(pattern->context, diagnostic);
  pcre2_set_match_limit(pattern->context, MATCH_LIMIT);
  pcre2_set_heap_limit(pattern->context, HEAP_LIMIT_KIB);
  // Without just-in-time code (no permission for executable memory, say) matching is slower and the same.
  (void)pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
  return ITG_OK;
}

itg_status itg_pattern_compile(itg_span source, bool literal, itg_diagnostic *diagnostic, itg_pattern **out) {
  if (source.size > MAX_PATTERN)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "a pattern of %zu bytes; at most %d", source.size, MAX_PATTERN);
  itg_pattern *pattern = calloc(1, sizeof *pattern);
  ITG_TRY_MEMORY(pattern, diagnostic);
  itg_status status = ITG_OK;
  if (literal) {
    pattern->literal = malloc(source.size + 1);
    if (!pattern->literal) {
      status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
    } else {
      if (source.size) memcpy(pattern->literal, source.data, source.size);
      pattern->literal_size = source.size;
    }
  } else {
    itg_text text = {0};
    status = itg_text_reserve(&text, source.size + 1, diagnostic);
    if (status == ITG_OK) status = rewrite(source, diagnostic, &text);
    if (status == ITG_OK) status = compile(itg_text_span(&text), diagnostic, pattern);
    itg_text_free(&text);
  }
  if (status != ITG_OK) {
    itg_pattern_free(pattern);
    return status;
  }
  *out = pattern;
  return ITG_OK;
}

void itg_pattern_free(itg_pattern *pattern) {
  if (!pattern) return;
  pcre2_code_free(pattern->code);
  pcre2_match_context_free(pattern->context);
  free(pattern->literal);
  free(pattern);
}

itg_status itg_matches_begin(const itg_pattern *pattern, itg_diagnostic *diagnostic, itg_matches *out) {
  *out = (itg_matches){.pattern = pattern};
  if (!pattern->code) return ITG_OK;
  out->data = pcre2_match_data_create_from_pattern(pattern->code, NULL);
  ITG_TRY_MEMORY(out->data, diagnostic);
  return ITG_OK;
}

void itg_matches_set_text(itg_matches *matches, itg_span text) {
  matches->text = text;
  matches->from = matches->last_end = 0;
  matches->has_last = false;
}

void itg_matches_end(itg_matches *matches) {
  pcre2_match_data_free(matches->data);
  *matches = (itg_matches){0};
}

static itg_status search(itg_matches *matches, bool *found, size_t *start, size_t *end, itg_diagnostic *diagnostic) {
  const itg_pattern *pattern = matches->pattern;
  const itg_span text = matches->text;
  *found = false;
  if (!pattern->code) {
    // An empty string matches nothing, as in the reference.
    if (pattern->literal_size == 0 || text.size - matches->from < pattern->literal_size) return ITG_OK;
    const uint8_t *at =
        memmem(text.data + matches->from, text.size - matches->from, pattern->literal, pattern->literal_size);
    if (!at) return ITG_OK;
    *start = (size_t)(at - text.data);
    *end = *start + pattern->literal_size;
    *found = true;
    return ITG_OK;
  }
  int result = pcre2_match(pattern->code, text.data, text.size, matches->from, PCRE2_NO_UTF_CHECK, matches->data,
                           pattern->context);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)
    result = pcre2_match(pattern->code, text.data, text.size, matches->from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         matches->data, pattern->context);
  if (result == PCRE2_ERROR_NOMATCH) return ITG_OK;
  if (result == PCRE2_ERROR_NOMEMORY) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  if (result < 0)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL,
             "a regular expression of the tokenizer backtracks too much on this text (PCRE2 error %d)", result);
  const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(matches->data);
  // \K may move the start behind the end; such a match is none.
  if (offsets[0] > offsets[1] || offsets[0] < matches->from) return ITG_OK;
  *start = offsets[0];
  *end = offsets[1];
  *found = true;
  return ITG_OK;
}

itg_status itg_matches_next(itg_matches *matches, bool *found, size_t *start, size_t *end, itg_diagnostic *diagnostic) {
  const itg_span text = matches->text;
  for (;;) {
    *found = false;
    if (matches->from > text.size || text.size == 0) return ITG_OK;
    ITG_TRY(search(matches, found, start, end, diagnostic));
    if (!*found) return ITG_OK;
    matches->from = *end;
    if (*end > *start) break;
    // An empty match: the next search starts a character further on.
    const bool repeated = matches->has_last && matches->last_end == *end;
    matches->from = *end < text.size ? *end + itg_utf8_length(text.data[*end]) : text.size + 1;
    if (!repeated) break;
  }
  matches->has_last = true;
  matches->last_end = *end;
  return ITG_OK;
}
