// MAX_POOL, AVERAGE_POOL, LP_POOL in both layouts. Padding never wins a maximum and adds nothing to a sum.
#include <math.h>
#include <string.h>

#include "interpret/executor.h"
#include "interpret/geometry.h"

typedef struct pool_plan {
  itg_geometry geometry;
  int64_t declared_end[3]; // Input size plus the padding that counts (AVERAGE_POOL with count_include_pad).
  int op;
  int count_include_pad;
  double p;
} pool_plan;

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
  plan->count_include_pad = attributes->count_include_pad;
  plan->p = attributes->p ? attributes->p : 2;
  for (int d = 0; d < 3; d++) {
    const int source = d - (3 - attributes->window.rank);
    plan->declared_end[d] = plan->geometry.in[d] + (source >= 0 ? attributes->declared_pad_end[source] : 0);
  }
  // Sums of one pixel in f64, or (channels first) the column maxima of one row of the input.
  const int64_t row = plan->geometry.channels_last ? plan->geometry.channels : plan->geometry.in[2];
  preparation->scratch = (size_t)row * sizeof(double);
  preparation->prepared = plan;
  return ITG_OK;
}

typedef struct window_range {
  int64_t first[3], end[3]; // Input coordinates, already inside of the input; steps of the dilation.
  double divisor;
} window_range;

static int64_t count_taps(int64_t begin, int64_t low, int64_t high, int64_t kernel, int64_t dilation) {
  int64_t count = 0;
  for (int64_t t = 0; t < kernel; t++) count += begin + t * dilation >= low && begin + t * dilation < high;
  return count;
}

static window_range window_at(const pool_plan *plan, const int64_t o[3]) {
  const itg_geometry *g = &plan->geometry;
  window_range range = {.divisor = 1};
  for (int d = 0; d < 3; d++) {
    const int64_t begin = o[d] * g->stride[d] - g->pad[d], end = begin + (g->kernel[d] - 1) * g->dilation[d] + 1;
    const int64_t skipped = begin < 0 ? (-begin + g->dilation[d] - 1) / g->dilation[d] : 0;
    range.first[d] = begin + skipped * g->dilation[d];
    range.end[d] = end < g->in[d] ? end : g->in[d];
    range.divisor *= (double)(plan->count_include_pad
                                  ? count_taps(begin, -g->pad[d], plan->declared_end[d], g->kernel[d], g->dilation[d])
                                  : count_taps(begin, 0, g->in[d], g->kernel[d], g->dilation[d]));
  }
  return range;
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
#define FOR_WINDOW(g, range, position)                                                                           \
  for (int64_t d = (range)->first[0]; d < (range)->end[0]; d += (g)->dilation[0])                                \
    for (int64_t h = (range)->first[1]; h < (range)->end[1]; h += (g)->dilation[1])                              \
      for (int64_t w = (range)->first[2], position = (d * (g)->in[1] + h) * (g)->in[2] + w; w < (range)->end[2]; \
           w += (g)->dilation[2], position += (g)->dilation[2])

#define SUM_POOL(type)                                                                                       \
  ITG_VECTORISED static void add_pixel_##type(double *sums, const type *x, int64_t n) {                      \
    for (int64_t c = 0; c < n; c++) sums[c] += (double)x[c];                                                 \
  }                                                                                                          \
  static void sum_last_##type(const pool_plan *plan, const window_range *range, const type *x, double *sums, \
                              type *y) {                                                                     \
    const itg_geometry *g = &plan->geometry;                                                                 \
    const int64_t channels = g->channels;                                                                    \
    memset(sums, 0, (size_t)channels * sizeof *sums);                                                        \
    FOR_WINDOW(g, range, position) {                                                                         \
      const type *pixel = x + position * channels;                                                           \
      if (plan->op == ITG_OP_AVERAGE_POOL) {                                                                 \
        add_pixel_##type(sums, pixel, channels);                                                             \
      } else {                                                                                               \
        for (int64_t c = 0; c < channels; c++) sums[c] += raise(fabs((double)pixel[c]), plan->p);            \
      }                                                                                                      \
    }                                                                                                        \
    for (int64_t c = 0; c < channels; c++) y[c] = (type)finish(plan, sums[c], range->divisor);               \
  }                                                                                                          \
  static type sum_first_##type(const pool_plan *plan, const window_range *range, const type *x) {            \
    const itg_geometry *g = &plan->geometry;                                                                 \
    double sum = 0;                                                                                          \
    if (plan->op == ITG_OP_AVERAGE_POOL) {                                                                   \
      FOR_WINDOW(g, range, position) sum += (double)x[position];                                             \
    } else {                                                                                                 \
      FOR_WINDOW(g, range, position) sum += raise(fabs((double)x[position]), plan->p);                       \
    }                                                                                                        \
    return (type)finish(plan, sum, range->divisor);                                                          \
  }
SUM_POOL(float)
SUM_POOL(double)

#define MAXIMUM_POOL(type, lowest)                                                                                   \
  ITG_VECTORISED static void raise_to_##type(type *y, const type *x, int64_t n) {                                    \
    for (int64_t c = 0; c < n; c++) y[c] = x[c] > y[c] ? x[c] : y[c];                                                \
  }                                                                                                                  \
  static void maximum_last_##type(const itg_geometry *g, const window_range *range, const type *x, type *y) {        \
    for (int64_t c = 0; c < g->channels; c++) y[c] = lowest;                                                         \
    FOR_WINDOW(g, range, position) raise_to_##type(y, x + position * g->channels, g->channels);                      \
  }                                                                                                                  \
  /* One row of outputs: first the maxima down the columns, then along the row. */                                   \
  static void maximum_row_##type(const pool_plan *plan, const int64_t o[3], const type *x, type *columns, type *y) { \
    const itg_geometry *g = &plan->geometry;                                                                         \
    window_range range = window_at(plan, o);                                                                         \
    for (int64_t i = 0; i < g->in[2]; i++) columns[i] = lowest;                                                      \
    for (int64_t d = range.first[0]; d < range.end[0]; d += g->dilation[0]) {                                        \
      for (int64_t h = range.first[1]; h < range.end[1]; h += g->dilation[1])                                        \
        raise_to_##type(columns, x + (d * g->in[1] + h) * g->in[2], g->in[2]);                                       \
    }                                                                                                                \
    for (int64_t ow = 0; ow < g->out[2]; ow++) {                                                                     \
      range = window_at(plan, (const int64_t[3]){o[0], o[1], ow});                                                   \
      type best = lowest;                                                                                            \
      for (int64_t w = range.first[2]; w < range.end[2]; w += g->dilation[2])                                        \
        best = columns[w] > best ? columns[w] : best;                                                                \
      y[ow] = best;                                                                                                  \
    }                                                                                                                \
  }
MAXIMUM_POOL(float, -INFINITY)
MAXIMUM_POOL(double, -INFINITY)
MAXIMUM_POOL(uint8_t, 0)
MAXIMUM_POOL(int8_t, INT8_MIN)

#define RUN_MAXIMUM(type)                                                                                           \
  static void run_maximum_##type(const itg_call *call, const pool_plan *plan) {                                     \
    const itg_geometry *g = &plan->geometry;                                                                        \
    const type *x = call->inputs[0].data;                                                                           \
    type *y = call->outputs[0].data;                                                                                \
    if (!g->channels_last) {                                                                                        \
      for (int64_t plane = 0; plane < g->batch * g->channels; plane++, x += g->in_count) {                          \
        for (int64_t line = 0; line < g->out[0] * g->out[1]; line++, y += g->out[2])                                \
          maximum_row_##type(plan, (const int64_t[3]){line / g->out[1], line % g->out[1], 0}, x, call->scratch, y); \
      }                                                                                                             \
      return;                                                                                                       \
    }                                                                                                               \
    for (int64_t n = 0; n < g->batch; n++, x += g->in_count * g->channels) {                                        \
      for (int64_t p = 0; p < g->out_count; p++, y += g->channels) {                                                \
        int64_t o[3];                                                                                               \
        itg_geometry_split(g->out, p, o);                                                                           \
        const window_range range = window_at(plan, o);                                                              \
        maximum_last_##type(g, &range, x, y);                                                                       \
      }                                                                                                             \
    }                                                                                                               \
  }
RUN_MAXIMUM(float)
RUN_MAXIMUM(double)
RUN_MAXIMUM(uint8_t)
RUN_MAXIMUM(int8_t)

#define RUN_SUM(type)                                                                       \
  static void run_sum_##type(const itg_call *call, const pool_plan *plan) {                 \
    const itg_geometry *g = &plan->geometry;                                                \
    const int64_t planes = g->channels_last ? 1 : g->channels;                              \
    const int64_t width = g->channels_last ? g->channels : 1;                               \
    const type *x = call->inputs[0].data;                                                   \
    type *y = call->outputs[0].data;                                                        \
    for (int64_t plane = 0; plane < g->batch * planes; plane++, x += g->in_count * width) { \
      for (int64_t p = 0; p < g->out_count; p++, y += width) {                              \
        int64_t o[3];                                                                       \
        itg_geometry_split(g->out, p, o);                                                   \
        const window_range range = window_at(plan, o);                                      \
        if (g->channels_last)                                                               \
          sum_last_##type(plan, &range, x, call->scratch, y);                               \
        else                                                                                \
          *y = sum_first_##type(plan, &range, x);                                           \
      }                                                                                     \
    }                                                                                       \
  }
RUN_SUM(float)
RUN_SUM(double)

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
