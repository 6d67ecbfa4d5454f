// See ctc.h.
#include "pipelines/ctc.h"

#include <stdlib.h>

itg_status itg_charset_read(itg_span lines, itg_diagnostic *diagnostic, itg_charset *out) {
  if (lines.size == 0 || lines.size > UINT32_MAX / 2)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the list of characters is empty or too long");
  itg_charset charset = {.text = malloc(lines.size), .starts = malloc((lines.size + 2) * sizeof *charset.starts)};
  if (!charset.text || !charset.starts) {
    itg_charset_free(&charset);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  uint32_t used = 0;
  charset.starts[0] = 0;
  for (size_t at = 0; at < lines.size; at++) {
    const uint8_t byte = lines.data[at];
    const bool ends = byte == '\n' || (byte == '\r' && (at + 1 == lines.size || lines.data[at + 1] == '\n'));
    if (!ends) charset.text[used++] = (char)byte;
    if (byte == '\n' || (at + 1 == lines.size && !ends)) charset.starts[++charset.count] = used;
  }
  *out = charset;
  return ITG_OK;
}

void itg_charset_free(itg_charset *charset) {
  free(charset->text);
  free(charset->starts);
  *charset = (itg_charset){0};
}

itg_status itg_charset_check(const itg_charset *charset, size_t classes, itg_diagnostic *diagnostic) {
  if (classes != charset->count + 1 && classes != charset->count + 2)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL,
             "the network tells %zu classes apart, but the list has %zu characters; is it of another model?", classes,
             charset->count);
  return ITG_OK;
}

static itg_span character(const itg_charset *charset, size_t index) {
  if (index > charset->count) return (itg_span){(const uint8_t *)" ", 1};
  const uint32_t start = charset->starts[index - 1];
  return (itg_span){(const uint8_t *)charset->text + start, charset->starts[index] - start};
}

itg_status itg_ctc_decode(const itg_charset *charset, const float *probabilities, size_t steps, size_t classes,
                          itg_diagnostic *diagnostic, char **text, float *score) {
  size_t kept = 0, used = 0, last = 0, *indices = malloc((steps + 1) * sizeof *indices);
  double sum = 0;
  ITG_TRY_MEMORY(indices, diagnostic);
  for (size_t t = 0; t < steps; t++) {
    const float *row = probabilities + t * classes;
    size_t best = 0;
    for (size_t i = 1; i < classes; i++)
      if (row[i] > row[best]) best = i;
    if (best != 0 && best != last) {
      indices[kept++] = best;
      used += character(charset, best).size;
      sum += row[best];
    }
    last = best;
  }
  char *out = malloc(used + 1);
  if (out) {
    used = 0;
    for (size_t i = 0; i < kept; i++) {
      const itg_span part = character(charset, indices[i]);
      memcpy(out + used, part.data, part.size);
      used += part.size;
    }
    out[used] = 0;
  }
  free(indices);
  ITG_TRY_MEMORY(out, diagnostic);
  *text = out;
  *score = kept ? (float)(sum / (double)kept) : 0;
  return ITG_OK;
}
