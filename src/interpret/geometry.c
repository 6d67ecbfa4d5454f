// Window geometry; see geometry.h.
#include "interpret/geometry.h"

itg_geometry itg_geometry_of(const itg_window *window, int layout, const itg_shape *x, const itg_shape *y) {
  itg_geometry g = {.batch = x->dims[0], .channels_last = layout == ITG_LAYOUT_CHANNELS_LAST};
  g.in_count = g.out_count = g.taps = 1;
  const int first = g.channels_last ? 1 : 2; // First spatial dimension.
  g.channels = x->dims[g.channels_last ? x->rank - 1 : 1];
  g.out_channels = y->dims[g.channels_last ? y->rank - 1 : 1];
  for (int d = 0; d < 3; d++) {
    const int source = d - (3 - window->rank);
    const bool present = source >= 0;
    g.in[d] = present ? x->dims[first + source] : 1;
    g.out[d] = present ? y->dims[first + source] : 1;
    g.kernel[d] = present ? window->kernel[source] : 1;
    g.stride[d] = present ? window->stride[source] : 1;
    g.dilation[d] = present ? window->dilation[source] : 1;
    g.pad[d] = present ? window->pad_begin[source] : 0;
    g.in_count *= g.in[d];
    g.out_count *= g.out[d];
    g.taps *= g.kernel[d];
  }
  return g;
}
