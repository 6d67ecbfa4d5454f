// What follows a matrix product: bias and fused activation, per output channel.
#ifndef ITG_INTERPRET_EPILOGUE_H
#define ITG_INTERPRET_EPILOGUE_H

#include "interpret/executor.h"

typedef struct itg_epilogue {
  int kind;            // ITG_ACTIVATION_*
  float low, high;     // CLIP
  float slope;         // LEAKY
  const float *bias;   // [channels] or NULL.
  const float *slopes; // PRELU: [channels], or one value when slope_count is 1.
  size_t slope_count;
} itg_epilogue;

// From the node's activation, its bias (input 2) and its slope (the last input, PRELU only).
itg_epilogue itg_epilogue_of(const itg_call *call);
// y[r*pitch + c] for r < rows, c < channels, in place: y = activation(y + bias[c]). channels_last layout.
void itg_epilogue_rows(const itg_epilogue *epilogue, float *y, size_t rows, size_t channels, size_t pitch);
// y[0..count) belongs to one channel.
void itg_epilogue_plane(const itg_epilogue *epilogue, float *y, size_t count, size_t channel);

#endif
