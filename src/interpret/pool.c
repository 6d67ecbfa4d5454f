// MAX_POOL, AVERAGE_POOL, LP_POOL in both layouts. Padding never wins a maximum and adds nothing to a sum.
#include <math.h>
#include <string.h>

#include "interpret/executor.h"
#include "interpret/geometry.h"

// What one output index sees along one dimension.
typedef struct pool_range {
  int64_t first, end; // Input coordinates inside of the input, in steps of the dilation.
  int64_t counted;    // Taps that count in the divisor of an average.
} pool_range;

typedef struct pool_plan {
  itg_geometry geometry;
  pool_range *ranges[3]; // One an output index of each dimension.
  int op;
  double p; // LP_POOL
} pool_plan;

static int64_t count_taps(int64_t begin, int64_t low, int64_t high, int64_t kernel, int64_t dilation) {
  const int64_t skipped = begin < low ? (low - begin + dilation - 1) / dilation : 0;
  const int64_t end = begin < high ? (high - 1 - begin) / dilation + 1 : 0;
  const int64_t count = (end < kernel ? end : kernel) - skipped;
  return count > 0 ? count : 0;
}

static itg_status prepare_ranges(pool_plan *plan, const itg_pool_attributes *attributes, itg_arena *arena,
                                 itg_diagnostic *diagnostic) {
  const itg_geometry *g = &plan->geometry;
  for (int d = 0; d < 3; d++) {
    const int source = d - (3 - attributes->window.rank);
    const int64_t dilation = g->dilation[d],
                  declared = g->in[d] + (source >= 0 ? attributes->declared_pad_end[source] : 0);
    plan->ranges[d] = itg_arena_array(arena, (size_t)g->out[d], sizeof *plan->ranges[d]);
    ITG_TRY_MEMORY(plan->ranges[d], diagnostic);
    for (int64_t o = 0; o < g->out[d]; o++) {
      const int64_t begin = o * g->stride[d] - g->pad[d], end = begin + (g->kernel[d] - 1) * dilation + 1;
      const int64_t skipped = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
      plan->ranges[d][o] = (pool_range){.first = begin + skipped * dilation,
                                        .end = end < g->in[d] ? end : g->in[d],
                                        .counted = attributes->count_include_pad
                                                       ? count_taps(begin, -g->pad[d], declared, g->kernel[d], dilation)
                                                       : count_taps(begin, 0, g->in[d], g->kernel[d], dilation)};
    }
  }
  return ITG_OK;
}

itg_status itg_prepare_pool(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_pool_attributes *attributes = &call->node->attributes.pool;
  const itg_dtype dtype = call->inputs[0].dtype;
  const bool bytes = dtype == ITG_DTYPE_U8 || dtype == ITG_DTYPE_S8;
  if (dtype != ITG_DTYPE_F32 && dtype != ITG_DTYPE_F64 && !(bytes && call->node->op == ITG_OP_MAX_POOL))
    return itg_refuse_dtype(call, dtype, diagnostic);
  pool_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  plan->geometry = itg_geometry_of(&attributes->window, attributes->layout, &call->inputs[0].tensor->shape,
                                   &call->outputs[0].tensor->shape);
  plan->op = (int)call->node->op;
  plan->p = attributes->p ? attributes->p : 2;
  ITG_TRY(prepare_ranges(plan, attributes, preparation->arena, diagnostic));
  // Sums or maxima of one pixel's channels, or (channels first) down the columns of one row of windows.
  const int64_t row = plan->geometry.channels_last ? plan->geometry.channels : plan->geometry.in[2];
  preparation->scratch = (size_t)row * sizeof(double);
  preparation->prepared = plan;
  return ITG_OK;
}

typedef struct window_range {
  pool_range d, h, w;
} window_range;

static window_range window_at(const pool_plan *plan, const int64_t o[3]) {
  return (window_range){plan->ranges[0][o[0]], plan->ranges[1][o[1]], plan->ranges[2][o[2]]};
}
static double divisor_of(const window_range *range) {
  return (double)range->d.counted * (double)range->h.counted * (double)range->w.counted;
}

static double raise(double magnitude, double p) {
  return p == 2 ? magnitude * magnitude : (p == 1 ? magnitude : pow(magnitude, p));
}
static double root(double sum, double p) { return p == 2 ? sqrt(sum) : (p == 1 ? sum : pow(sum, 1 / p)); }

static double finish(const pool_plan *plan, double sum, double divisor) {
  if (plan->op == ITG_OP_LP_POOL) return root(sum, plan->p);
  return divisor > 0 ? sum / divisor : 0;
}

// Every input pixel of a window.
#define FOR_WINDOW(g, range, position)                                                                         \
  for (int64_t d = (range)->d.first; d < (range)->d.end; d += (g)->dilation[0])                                \
    for (int64_t h = (range)->h.first; h < (range)->h.end; h += (g)->dilation[1])                              \
      for (int64_t w = (range)->w.first, position = (d * (g)->in[1] + h) * (g)->in[2] + w; w < (range)->w.end; \
           w += (g)->dilation[2], position += (g)->dilation[2])
// The input rows behind one row of outputs.
#define FOR_LINES(g, range, line)                                                     \
  for (int64_t d = (range)->d.first; d < (range)->d.end; d += (g)->dilation[0])       \
    for (int64_t h = (range)->h.first, line = d * (g)->in[1] + h; h < (range)->h.end; \
         h += (g)->dilation[1], line += (g)->dilation[1])

#define SUM_POOL(type)                                                                                             \
  ITG_VECTORISED static void add_run_##type(double *sums, const type *x, int64_t n) {                              \
    for (int64_t c = 0; c < n; c++) sums[c] += (double)x[c];                                                       \
  }                                                                                                                \
  static void sum_into_##type(const pool_plan *plan, double *sums, const type *x, int64_t n) {                     \
    if (plan->op == ITG_OP_AVERAGE_POOL) {                                                                         \
      add_run_##type(sums, x, n);                                                                                  \
    } else {                                                                                                       \
      for (int64_t c = 0; c < n; c++) sums[c] += raise(fabs((double)x[c]), plan->p);                               \
    }                                                                                                              \
  }                                                                                                                \
  static void sum_last_##type(const pool_plan *plan, const int64_t o[3], const type *x, double *sums, type *y) {   \
    const itg_geometry *g = &plan->geometry;                                                                       \
    const window_range range = window_at(plan, o);                                                                 \
    const double divisor = divisor_of(&range);                                                                     \
    memset(sums, 0, (size_t)g->channels * sizeof *sums);                                                           \
    FOR_WINDOW(g, &range, position) sum_into_##type(plan, sums, x + position * g->channels, g->channels);          \
    for (int64_t c = 0; c < g->channels; c++) y[c] = (type)finish(plan, sums[c], divisor);                         \
  }                                                                                                                \
  /* One row of outputs: first the sums down the columns, then along the row. */                                   \
  static void sum_row_##type(const pool_plan *plan, const int64_t o[3], const type *x, double *columns, type *y) { \
    const itg_geometry *g = &plan->geometry;                                                                       \
    window_range range = window_at(plan, o);                                                                       \
    memset(columns, 0, (size_t)g->in[2] * sizeof *columns);                                                        \
    FOR_LINES(g, &range, line) sum_into_##type(plan, columns, x + line * g->in[2], g->in[2]);                      \
    for (int64_t ow = 0; ow < g->out[2]; ow++) {                                                                   \
      range.w = plan->ranges[2][ow];                                                                               \
      double sum = 0;                                                                                              \
      for (int64_t w = range.w.first; w < range.w.end; w += g->dilation[2]) sum += columns[w];                     \
      y[ow] = (type)finish(plan, sum, divisor_of(&range));                                                         \
    }                                                                                                              \
  }
SUM_POOL(float)
SUM_POOL(double)

#define MAXIMUM_POOL(type, lowest)                                                                                    \
  ITG_VECTORISED static void raise_to_##type(type *y, const type *x, int64_t n) {                                     \
    for (int64_t c = 0; c < n; c++) y[c] = x[c] > y[c] ? x[c] : y[c];                                                 \
  }                                                                                                                   \
  static void maximum_last_##type(const pool_plan *plan, const int64_t o[3], const type *x, type *scratch, type *y) { \
    (void)scratch;                                                                                                    \
    const itg_geometry *g = &plan->geometry;                                                                          \
    const window_range range = window_at(plan, o);                                                                    \
    for (int64_t c = 0; c < g->channels; c++) y[c] = lowest;                                                          \
    FOR_WINDOW(g, &range, position) raise_to_##type(y, x + position * g->channels, g->channels);                      \
  }                                                                                                                   \
  static void maximum_row_##type(const pool_plan *plan, const int64_t o[3], const type *x, type *columns, type *y) {  \
    const itg_geometry *g = &plan->geometry;                                                                          \
    window_range range = window_at(plan, o);                                                                          \
    for (int64_t i = 0; i < g->in[2]; i++) columns[i] = lowest;                                                       \
    FOR_LINES(g, &range, line) raise_to_##type(columns, x + line * g->in[2], g->in[2]);                               \
    for (int64_t ow = 0; ow < g->out[2]; ow++) {                                                                      \
      range.w = plan->ranges[2][ow];                                                                                  \
      type best = lowest;                                                                                             \
      for (int64_t w = range.w.first; w < range.w.end; w += g->dilation[2])                                           \
        best = columns[w] > best ? columns[w] : best;                                                                 \
      y[ow] = best;                                                                                                   \
    }                                                                                                                 \
  }
MAXIMUM_POOL(float, -INFINITY)
MAXIMUM_POOL(double, -INFINITY)
MAXIMUM_POOL(uint8_t, 0)
MAXIMUM_POOL(int8_t, INT8_MIN)

// Channels first works on rows of a plane, channels last on pixels.
#define RUN(type, kind)                                                                                            \
  static void run_##kind##_##type(const itg_call *call, const pool_plan *plan) {                                   \
    const itg_geometry *g = &plan->geometry;                                                                       \
    const type *x = call->inputs[0].data;                                                                          \
    type *y = call->outputs[0].data;                                                                               \
    if (!g->channels_last) {                                                                                       \
      for (int64_t plane = 0; plane < g->batch * g->channels; plane++, x += g->in_count) {                         \
        for (int64_t line = 0; line < g->out[0] * g->out[1]; line++, y += g->out[2])                               \
          kind##_row_##type(plan, (const int64_t[3]){line / g->out[1], line % g->out[1], 0}, x, call->scratch, y); \
      }                                                                                                            \
      return;                                                                                                      \
    }                                                                                                              \
    for (int64_t n = 0; n < g->batch; n++, x += g->in_count * g->channels) {                                       \
      for (int64_t p = 0; p < g->out_count; p++, y += g->channels) {                                               \
        int64_t o[3];                                                                                              \
        itg_geometry_split(g->out, p, o);                                                                          \
        kind##_last_##type(plan, o, x, call->scratch, y);                                                          \
      }                                                                                                            \
    }                                                                                                              \
  }
RUN(float, maximum)
RUN(double, maximum)
RUN(uint8_t, maximum)
RUN(int8_t, maximum)
RUN(float, sum)
RUN(double, sum)

itg_status itg_run_pool(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const pool_plan *plan = call->prepared;
  const itg_dtype dtype = call->inputs[0].dtype;
  if (call->outputs[0].count == 0) return ITG_OK;
  if (plan->op != ITG_OP_MAX_POOL) {
    if (dtype == ITG_DTYPE_F32)
      run_sum_float(call, plan);
    else
      run_sum_double(call, plan);
    return ITG_OK;
  }
  switch (dtype) {
  case ITG_DTYPE_F32: run_maximum_float(call, plan); break;
  case ITG_DTYPE_F64: run_maximum_double(call, plan); break;
  case ITG_DTYPE_U8: run_maximum_uint8_t(call, plan); break;
  default: run_maximum_int8_t(call, plan); break;
  }
  return ITG_OK;
}
