// The values of the integer dialect's operands: the gate for untrusted .itg files.
#ifndef ITG_GRAPH_VERIFY_INTEGER_H
#define ITG_GRAPH_VERIFY_INTEGER_H

#include "graph/graph.h"

enum {
  ITG_LIMIT_ACTIVATION_ELEMENTS = 0x7fffffff, // Elements of one activation; kernels may index with s32.
  ITG_LIMIT_BLOCK_SCALE = 16,                 // Of LPBQ: 16 times an s4 code fits s8.
  ITG_LIMIT_SPATIAL = 1 << 20,                // Height and width of what a window slides over, padding included.
  ITG_LIMIT_NORM_CHANNELS = 8192,             // docs/ARITHMETIC.md section 4: the variance fits 61 bits.
  ITG_LIMIT_HEAD = 1024,                      // Values of one attention head.
  ITG_LIMIT_CONTEXT = 1 << 20,                // Positions of a cache.
};

// Checks what kernels rely on and shapes do not say: multipliers and shifts, code ranges, zero points, table entries,
// indices, and the proven bounds, which are recomputed from the actual weights (docs/ARITHMETIC.md). Needs a graph whose
// links, arities and shapes were verified (itg_graph_verify calls it last, for stage LEGAL). Time is linear in the constants.
// Errors: FORMAT (an index or size that is out of range), QUANTIZATION (a number that breaks the arithmetic's rules),
// UNSUPPORTED (an operation or type that integer graphs do not have), LIMIT; the subject is the node's or tensor's name.
ITG_MUST_USE itg_status itg_verify_integer(const itg_graph *graph, itg_diagnostic *diagnostic);

#endif
