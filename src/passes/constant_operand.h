// Element-wise arithmetic with a constant as gain and offset per channel.
#ifndef ITG_PASSES_CONSTANT_OPERAND_H
#define ITG_PASSES_CONSTANT_OPERAND_H

#include "graph/graph.h"

// A node y = gain[c]*x + offset[c].
typedef struct itg_channel_map {
  itg_tensor *x;
  double *gain, *offset; // malloc'ed, [channels]; NULL stands for 1 and 0.
} itg_channel_map;

// Reads ADD, SUB, MUL, DIV with one constant operand that varies along `axis` of the output at most (DIV: constant divisor
// without zeroes) and is at most 1e9, and whose output has the shape of the other operand. `map->x` is NULL when the node is none of these.
ITG_MUST_USE itg_status itg_channel_map_read(const itg_node *node, int32_t axis, itg_diagnostic *diagnostic,
                                             itg_channel_map *map);
void itg_channel_map_free(itg_channel_map *map);

#endif
