// Files of texts, one a line, to the inputs of a CLIP text encoder.
#ifndef ITG_CLI_TEXTS_H
#define ITG_CLI_TEXTS_H

#include "intaglio/pipelines.h"

typedef struct cli_texts {
  float *ids, *masks; // `context` numbers a text.
  size_t count, context;
} cli_texts;

// Appends the texts of a file (UTF-8; empty lines are left out). `texts` starts as zeroes; at most a million.
// Errors: IO, FORMAT, LIMIT, MEMORY.
ITG_MUST_USE itg_status cli_texts_read(cli_texts *texts, const itg_clip_text *preparation, const char *path,
                                       itg_diagnostic *diagnostic);
void cli_texts_free(cli_texts *texts);

#endif
