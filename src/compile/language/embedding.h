// The token embedding in eight bits: one scale a row, so that a row is read on its own from the mapped file.
#ifndef ITG_COMPILE_LANGUAGE_EMBEDDING_H
#define ITG_COMPILE_LANGUAGE_EMBEDDING_H

#include "graph/graph.h"
#include "import/language/model.h"

// Codes and scales of a table [count, width].
typedef struct itg_row_table {
  int8_t *codes;  // malloc'ed, or NULL with `borrowed`.
  double *scales; // malloc'ed; values of float32.
  const int8_t *borrowed;
  int64_t count, width;
} itg_row_table;
void itg_row_table_free(itg_row_table *table);

// The model's embedding, nearest codes. Errors: MEMORY.
ITG_MUST_USE itg_status itg_row_table_from_model(const itg_language_model *model, itg_diagnostic *diagnostic,
                                                 itg_row_table *out);
// The head of a LEGAL decoder with 8-bit weights: its codes are borrowed. NULL-like (count 0) when it has other weights.
ITG_MUST_USE itg_status itg_row_table_from_head(const itg_graph *decoder, itg_diagnostic *diagnostic,
                                                itg_row_table *out);
// What the table says about a token, [width].
void itg_row_table_read(const itg_row_table *table, int32_t id, float *out);

// A LEGAL graph "ids" s32 [1] -> "embeddings" [1,width] u16 in `encoding` (of the decoder's input): one row at a time. The
// table must outlive the graph. Errors: QUANTIZATION, MEMORY.
ITG_MUST_USE itg_status itg_embedding_graph(const itg_row_table *table, const itg_encoding *encoding,
                                            itg_diagnostic *diagnostic, itg_graph **out);

#endif
