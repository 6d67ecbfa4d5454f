// Window geometry in three spatial dimensions, whatever the rank and layout: missing leading dimensions are 1.
#ifndef ITG_INTERPRET_GEOMETRY_H
#define ITG_INTERPRET_GEOMETRY_H

#include <stdbool.h>

#include "graph/graph.h"

typedef struct itg_geometry {
  int64_t batch, channels, out_channels;
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3]; // `pad` is at the beginning.
  int64_t in_count, out_count, taps;                                // Products of in, out, kernel.
  bool channels_last;
} itg_geometry;

itg_geometry itg_geometry_of(const itg_window *window, int layout, const itg_shape *x, const itg_shape *y);

// Splits a flat position into coordinates of `dims`.
static inline void itg_geometry_split(const int64_t dims[3], int64_t position, int64_t coordinates[3]) {
  coordinates[2] = position % dims[2];
  position /= dims[2];
  coordinates[1] = position % dims[1];
  coordinates[0] = position / dims[1];
}

// Flat input position that output `o` sees through tap `t`, or -1 in the padding.
static inline int64_t itg_geometry_source(const itg_geometry *g, const int64_t o[3], const int64_t t[3]) {
  int64_t position = 0;
  for (int d = 0; d < 3; d++) {
    const int64_t i = o[d] * g->stride[d] - g->pad[d] + t[d] * g->dilation[d];
    if (i < 0 || i >= g->in[d]) return -1;
    position = position * g->in[d] + i;
  }
  return position;
}

#endif
