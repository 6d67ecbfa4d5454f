// See clip_text.h: cleaning a text before it is tokenized, and the names of languages.
#include <string.h>

#include "pipelines/clip_text.h"
#include "text/buffers.h"
#include "text/unicode.h"

// ---- languages ----

static const struct {
  const char *language, *code;
} languages[] = {
    {"af", "afr_Latn"},    {"ar", "arb_Arab"}, {"az", "azj_Latn"}, {"be", "bel_Cyrl"},    {"bg", "bul_Cyrl"},
    {"ca", "cat_Latn"},    {"cs", "ces_Latn"}, {"da", "dan_Latn"}, {"de", "deu_Latn"},    {"el", "ell_Grek"},
    {"en", "eng_Latn"},    {"es", "spa_Latn"}, {"et", "est_Latn"}, {"fa", "pes_Arab"},    {"fi", "fin_Latn"},
    {"fr", "fra_Latn"},    {"he", "heb_Hebr"}, {"hi", "hin_Deva"}, {"hr", "hrv_Latn"},    {"hu", "hun_Latn"},
    {"hy", "hye_Armn"},    {"id", "ind_Latn"}, {"it", "ita_Latn"}, {"ja", "jpn_Hira"},    {"kmr", "kmr_Latn"},
    {"ko", "kor_Hang"},    {"lb", "ltz_Latn"}, {"lt", "lit_Latn"}, {"lv", "lav_Latn"},    {"mfa", "zsm_Latn"},
    {"mk", "mkd_Cyrl"},    {"mn", "khk_Cyrl"}, {"mr", "mar_Deva"}, {"ms", "zsm_Latn"},    {"nb-NO", "nob_Latn"},
    {"nl", "nld_Latn"},    {"nn", "nno_Latn"}, {"pl", "pol_Latn"}, {"pt", "por_Latn"},    {"pt-BR", "por_Latn"},
    {"ro", "ron_Latn"},    {"ru", "rus_Cyrl"}, {"sk", "slk_Latn"}, {"sl", "slv_Latn"},    {"sr-Cyrl", "srp_Cyrl"},
    {"sv", "swe_Latn"},    {"ta", "tam_Taml"}, {"te", "tel_Telu"}, {"th", "tha_Thai"},    {"tr", "tur_Latn"},
    {"uk", "ukr_Cyrl"},    {"ur", "urd_Arab"}, {"vi", "vie_Latn"}, {"zh-CN", "zho_Hans"}, {"zh-Hans", "zho_Hans"},
    {"zh-TW", "zho_Hant"},
};

static const char *find_language(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++)
    if (strlen(languages[i].language) == length && memcmp(languages[i].language, name, length) == 0)
      return languages[i].code;
  return NULL;
}

const char *itg_clip_flores_code(const char *language) {
  const char *code = find_language(language, strlen(language));
  if (!code) code = find_language(language, strcspn(language, "-"));
  return code ? code : "eng_Latn";
}

// ---- cleaning ----

// Python counts the four information separators as white space; Unicode does not.
static bool is_space(uint32_t code) { return itg_is_whitespace(code) || (code >= 0x1c && code <= 0x1f); }

static bool is_ascii_punctuation(uint32_t code) {
  return code > 0x20 && code < 0x7f && !(code >= '0' && code <= '9') && !((code | 0x20) >= 'a' && (code | 0x20) <= 'z');
}

static itg_status put(uint32_t code, itg_diagnostic *diagnostic, itg_text *out) {
  uint8_t bytes[4];
  return itg_text_append(out, (itg_span){bytes, itg_utf8_put(code, bytes)}, diagnostic);
}

static itg_status join_words(itg_span text, itg_diagnostic *diagnostic, itg_text *out) {
  bool space = false;
  for (size_t at = 0; at < text.size;) {
    uint32_t code;
    at += itg_utf8_next(text.data + at, &code);
    if (is_space(code)) {
      space = out->size > 0;
      continue;
    }
    if (space) ITG_TRY(put(' ', diagnostic, out));
    space = false;
    ITG_TRY(put(code, diagnostic, out));
  }
  return ITG_OK;
}

// Unicode's condition Final_Sigma (chapter 3.13): a cased letter somewhere before, none after, marks and the like between
// them passed over.
static bool is_final_sigma(itg_span text, size_t before, size_t after) {
  for (size_t at = after; at < text.size;) {
    uint32_t code;
    at += itg_utf8_next(text.data + at, &code);
    if (itg_is_case_ignorable(code)) continue;
    if (itg_is_cased(code)) return false;
    break;
  }
  while (before > 0) {
    uint32_t code;
    do before--;
    while ((text.data[before] & 0xc0) == 0x80);
    itg_utf8_next(text.data + before, &code);
    if (!itg_is_case_ignorable(code)) return itg_is_cased(code);
  }
  return false;
}

static itg_status lower_without_punctuation(itg_span text, itg_diagnostic *diagnostic, itg_text *kept, itg_text *out) {
  enum { SIGMA = 0x3a3, FINAL_SIGMA = 0x3c2, I_WITH_DOT = 0x130, DOT_ABOVE = 0x307 };
  for (size_t at = 0; at < text.size;) {
    uint32_t code;
    at += itg_utf8_next(text.data + at, &code);
    if (!is_ascii_punctuation(code)) ITG_TRY(put(code, diagnostic, kept));
  }
  const itg_span rest = {kept->data, kept->size};
  for (size_t at = 0; at < rest.size;) {
    uint32_t code;
    const size_t start = at;
    at += itg_utf8_next(rest.data + at, &code);
    if (code == I_WITH_DOT) {
      ITG_TRY(put('i', diagnostic, out));
      code = DOT_ABOVE;
    } else if (code == SIGMA && is_final_sigma(rest, start, at)) {
      code = FINAL_SIGMA;
    } else {
      code = itg_lowercase(code);
    }
    ITG_TRY(put(code, diagnostic, out));
  }
  return ITG_OK;
}

itg_status itg_clip_clean_text(itg_span text, bool canonicalize, itg_diagnostic *diagnostic, itg_text *out) {
  itg_text valid = {0}, words = {0}, kept = {0};
  out->size = 0;
  itg_status status = itg_utf8_repair(text, diagnostic, &valid);
  if (status == ITG_OK)
    status = join_words((itg_span){valid.data, valid.size}, diagnostic, canonicalize ? &words : out);
  if (status == ITG_OK && canonicalize)
    status = lower_without_punctuation((itg_span){words.data, words.size}, diagnostic, &kept, out);
  itg_text_free(&valid);
  itg_text_free(&words);
  itg_text_free(&kept);
  return status;
}
