// See texts.h.
#include "cli/texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"

enum { MAX_TEXTS = 1000000 };

static itg_status add(cli_texts *texts, const itg_clip_text *preparation, const char *line, size_t size,
                      itg_diagnostic *diagnostic) {
  if (texts->count == MAX_TEXTS) ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "more than %d texts", MAX_TEXTS);
  const size_t bytes = (texts->count + 1) * texts->context * sizeof(float), at = texts->count * texts->context;
  if ((texts->count & (texts->count + 1)) == 0 || texts->count == 0) { // The room doubles.
    float *ids = realloc(texts->ids, 2 * bytes);
    if (ids) texts->ids = ids;
    float *masks = realloc(texts->masks, 2 * bytes);
    if (masks) texts->masks = masks;
    ITG_TRY_MEMORY(ids && masks, diagnostic);
  }
  ITG_TRY(itg_clip_text_values(preparation, line, size, NULL, diagnostic, texts->ids + at, texts->masks + at));
  texts->count++;
  return ITG_OK;
}

itg_status cli_texts_read(cli_texts *texts, const itg_clip_text *preparation, const char *path,
                          itg_diagnostic *diagnostic) {
  itg_mapped_file file;
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  itg_status status = ITG_OK;
  texts->context = itg_clip_text_context(preparation);
  for (size_t start = 0; start < file.bytes.size && status == ITG_OK;) {
    const uint8_t *line = file.bytes.data + start;
    const uint8_t *end = memchr(line, '\n', file.bytes.size - start);
    const size_t size = end ? (size_t)(end - line) : file.bytes.size - start;
    if (size) status = add(texts, preparation, (const char *)line, size, diagnostic);
    start += size + 1;
  }
  itg_mapped_file_close(&file);
  return status;
}

void cli_texts_free(cli_texts *texts) {
  free(texts->ids);
  free(texts->masks);
  *texts = (cli_texts){0};
}
