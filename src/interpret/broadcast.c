// Broadcasting; see broadcast.h.
#include "interpret/broadcast.h"

#include <string.h>

void itg_broadcast_plan(const itg_shape *output, const itg_shape *const *shapes, int operands, itg_broadcast *out) {
  *out = (itg_broadcast){.operands = operands};
  int64_t running[ITG_BROADCAST_OPERANDS] = {1, 1, 1};
  int64_t dims[ITG_MAX_RANK + 1], strides[ITG_BROADCAST_OPERANDS][ITG_MAX_RANK + 1]; // Innermost first.
  int rank = 0;
  for (int i = 1; i <= output->rank; i++) {
    const int64_t dim = output->dims[output->rank - i];
    int64_t stride[ITG_BROADCAST_OPERANDS] = {0};
    for (int k = 0; k < operands; k++) {
      const int64_t own = i <= shapes[k]->rank ? shapes[k]->dims[shapes[k]->rank - i] : 1;
      stride[k] = own == 1 ? 0 : running[k];
      running[k] *= own;
    }
    if (dim == 1) continue;
    bool merges = rank > 0;
    for (int k = 0; merges && k < operands; k++) merges = stride[k] == strides[k][rank - 1] * dims[rank - 1];
    if (merges) {
      dims[rank - 1] *= dim;
      continue;
    }
    dims[rank] = dim;
    for (int k = 0; k < operands; k++) strides[k][rank] = stride[k];
    rank++;
  }
  if (rank == 0) {
    dims[0] = 1;
    for (int k = 0; k < operands; k++) strides[k][0] = 0;
    rank = 1;
  }
  out->rank = rank;
  for (int i = 0; i < rank; i++) {
    out->dims[i] = dims[rank - 1 - i];
    for (int k = 0; k < operands; k++) out->strides[k][i] = strides[k][rank - 1 - i];
  }
}

void itg_broadcast_walk(const itg_broadcast *broadcast, itg_broadcast_inner inner, void *context) {
  int64_t index[ITG_MAX_RANK] = {0}, offsets[ITG_BROADCAST_OPERANDS] = {0}, output_offset = 0;
  for (int i = 0; i < broadcast->rank; i++) {
    if (broadcast->dims[i] == 0) return;
  }
  const int outer = broadcast->rank - 1;
  for (;;) {
    inner(context, offsets, output_offset);
    output_offset += broadcast->dims[outer];
    int d = outer - 1;
    for (; d >= 0; d--) {
      for (int k = 0; k < broadcast->operands; k++) offsets[k] += broadcast->strides[k][d];
      if (++index[d] < broadcast->dims[d]) break;
      for (int k = 0; k < broadcast->operands; k++) offsets[k] -= broadcast->strides[k][d] * broadcast->dims[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}
