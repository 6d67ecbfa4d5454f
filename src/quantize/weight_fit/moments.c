// Collecting second moments: windows are gathered column by column, a strip of each matrix is one unit of work, and samples
// are added in order. See moments.h.
#include "quantize/weight_fit/moments.h"

#include <string.h>

#include "base/checked.h"
#include "interpret/geometry.h"
#include "interpret/packed_gemm.h"

enum { STRIP = 48, SMALL = 24 };

// One strip of rows of one part's matrices.
typedef struct strip {
  const itg_moment_part *part;
  int64_t begin, end;
  size_t product; // Where its products go.
} strip;

typedef struct collection {
  const itg_node *node;
  itg_geometry geometry;
  itg_moments *moments;
  const float *exact, *rounded; // Of the sample.
  int set;
  int64_t windows, phase;      // Windows of a sample, and which (differs from sample to sample).
  int64_t positions, taps;     // To choose from; of the window.
  int64_t *sources;            // [taps, windows]
  float *difference, *columns; // [groups * length, windows]: x - x' and x'.
  float *panels;               // Packed columns of each part.
  size_t *panel_offset;        // [parts]
  strip *strips;
  size_t strip_count;
  float *products; // Of each strip: [STRIP, size of the part].
} collection;

static bool is_flat(const itg_node *node) { return node->op == ITG_OP_FULLY_CONNECTED; }

// Where the sampled windows begin their reads, one list a tap: the element of the input's first channel, -1 in the padding.
static void find_sources(void *context, size_t tap_index) {
  const collection *c = context;
  const itg_geometry *g = &c->geometry;
  int64_t *sources = c->sources + (int64_t)tap_index * c->windows;
  int64_t tap[3] = {0}, out[3];
  if (!is_flat(c->node)) itg_geometry_split(g->kernel, (int64_t)tap_index, tap);
  for (int64_t w = 0; w < c->windows; w++) {
    const int64_t position = (w * c->positions + c->phase) / c->windows;
    sources[w] = position * c->moments->length;
    if (is_flat(c->node)) continue;
    itg_geometry_split(g->out, position % g->out_count, out);
    const int64_t source = itg_geometry_source(g, out, tap);
    sources[w] = source < 0 ? -1 : (position / g->out_count * g->in_count + source) * g->channels;
  }
}

// Gathers all windows of one column: feature `index` counts groups, taps, channels of a group.
static void gather_column(void *context, size_t index) {
  const collection *c = context;
  const int64_t length = c->moments->length, group = (int64_t)index / length, k = (int64_t)index % length;
  const int64_t width = length / c->taps, channel = group * width + k % width;
  const int64_t *sources = c->sources + k / width * c->windows;
  float *difference = c->difference + (int64_t)index * c->windows, *column = c->columns + (int64_t)index * c->windows;
  for (int64_t w = 0; w < c->windows; w++) {
    const int64_t at = sources[w] + channel;
    column[w] = sources[w] < 0 ? 0 : c->rounded[at];
    difference[w] = sources[w] < 0 ? 0 : c->exact[at] - c->rounded[at];
  }
}

static void add_small(const collection *c, const strip *s) {
  const itg_moment_part *part = s->part;
  const int64_t origin = part->group * c->moments->length + part->first;
  for (int64_t i = s->begin; i < s->end; i++) {
    const float *x = c->columns + (origin + i) * c->windows, *d = c->difference + (origin + i) * c->windows;
    for (int64_t j = 0; j < part->size; j++) {
      const float *y = c->columns + (origin + j) * c->windows;
      double h = 0, t = 0;
      for (int64_t w = 0; w < c->windows; w++) {
        h += (double)(x[w] * y[w]);
        t += (double)(d[w] * y[w]);
      }
      part->h[c->set][i * part->size + j] += h;
      part->t[c->set][i * part->size + j] += t;
    }
  }
}

static void add_strip(void *context, size_t index) {
  const collection *c = context;
  const strip *s = &c->strips[index];
  const itg_moment_part *part = s->part;
  if (part->size <= SMALL) {
    add_small(c, s);
    return;
  }
  const int64_t origin = part->group * c->moments->length + part->first;
  const float *panels = c->panels + c->panel_offset[part - c->moments->parts];
  float *product = c->products + s->product;
  const size_t pitch = (size_t)c->windows, rows = (size_t)(s->end - s->begin), size = (size_t)part->size;
  for (int which = 0; which < 2; which++) {
    const float *a = (which ? c->difference : c->columns) + (origin + s->begin) * c->windows;
    itg_gemm(a, pitch, rows, (size_t)c->windows, panels, size, product, size);
    double *sum = (which ? part->t : part->h)[c->set] + s->begin * part->size;
    for (size_t i = 0; i < rows * size; i++) sum[i] += (double)product[i];
  }
}

static void pack_part(void *context, size_t index) {
  const collection *c = context;
  const itg_moment_part *part = &c->moments->parts[index];
  if (part->size <= SMALL) return;
  itg_gemm_pack(c->columns + (part->group * c->moments->length + part->first) * c->windows, 1, (size_t)c->windows,
                (size_t)c->windows, (size_t)part->size, c->panels + c->panel_offset[index]);
}

// Sums of the columns, at first in place of the means.
static void add_sums(void *context, size_t index) {
  const collection *c = context;
  const float *column = c->columns + (int64_t)index * c->windows,
              *difference = c->difference + (int64_t)index * c->windows;
  double rounded = 0, lost = 0;
  for (int64_t w = 0; w < c->windows; w++) {
    rounded += (double)column[w];
    lost += (double)difference[w];
  }
  const int64_t features = c->moments->groups * c->moments->length;
  c->moments->mean_rounded[c->set * features + (int64_t)index] += rounded;
  c->moments->mean_exact[c->set * features + (int64_t)index] += rounded + lost;
}

static itg_status make_parts(itg_moments *m, itg_arena *arena, itg_diagnostic *diagnostic) {
  const int64_t pieces = (m->length + ITG_MOMENT_COLUMNS - 1) / ITG_MOMENT_COLUMNS;
  m->part_count = (size_t)(pieces * m->groups);
  m->parts = itg_arena_array(arena, m->part_count, sizeof m->parts[0]);
  ITG_TRY_MEMORY(m->parts, diagnostic);
  for (size_t i = 0; i < m->part_count; i++) {
    const int64_t piece = (int64_t)i % pieces;
    itg_moment_part *part = &m->parts[i];
    part->group = (int64_t)i / pieces;
    part->first = piece * m->length / pieces;
    part->size = (piece + 1) * m->length / pieces - part->first;
    for (int set = 0; set < ITG_MOMENT_SETS; set++) {
      part->h[set] = itg_arena_array(arena, (size_t)(part->size * part->size), sizeof(double));
      part->t[set] = itg_arena_array(arena, (size_t)(part->size * part->size), sizeof(double));
      ITG_TRY_MEMORY(part->h[set] && part->t[set], diagnostic);
    }
  }
  return ITG_OK;
}

static itg_status prepare(collection *c, itg_arena *arena, itg_arena *scratch, itg_diagnostic *diagnostic) {
  itg_moments *m = c->moments;
  const itg_shape *weight = &c->node->inputs[1]->shape, *x = &c->node->inputs[0]->shape;
  m->groups = is_flat(c->node) ? 1 : c->node->attributes.conv.group;
  m->length = 1;
  for (int32_t i = 1; i < weight->rank; i++) m->length *= weight->dims[i];
  const size_t features = (size_t)(m->groups * m->length);
  m->mean_exact = itg_arena_array(arena, ITG_MOMENT_SETS * features, sizeof m->mean_exact[0]);
  m->mean_rounded = itg_arena_array(arena, ITG_MOMENT_SETS * features, sizeof m->mean_rounded[0]);
  c->difference = itg_arena_array(scratch, features * (size_t)c->windows, sizeof c->difference[0]);
  c->columns = itg_arena_array(scratch, features * (size_t)c->windows, sizeof c->columns[0]);
  ITG_TRY_MEMORY(m->mean_exact && m->mean_rounded && c->difference && c->columns, diagnostic);
  ITG_TRY(make_parts(m, arena, diagnostic));
  c->taps = 1;
  if (!is_flat(c->node)) {
    c->geometry = itg_geometry_of(&c->node->attributes.conv.window, c->node->attributes.conv.layout, x,
                                  &c->node->outputs[0]->shape);
    c->taps = c->geometry.taps;
  }
  c->sources = itg_arena_array(scratch, (size_t)(c->taps * c->windows), sizeof c->sources[0]);
  ITG_TRY_MEMORY(c->sources, diagnostic);
  size_t panels = 0, products = 0;
  c->panel_offset = itg_arena_array(scratch, m->part_count, sizeof c->panel_offset[0]);
  ITG_TRY_MEMORY(c->panel_offset, diagnostic);
  for (size_t i = 0; i < m->part_count; i++) {
    c->panel_offset[i] = panels;
    c->strip_count += (size_t)(m->parts[i].size + STRIP - 1) / STRIP;
    if (m->parts[i].size <= SMALL) continue;
    panels += (itg_gemm_packed_count((size_t)c->windows, (size_t)m->parts[i].size) + 15) / 16 * 16;
  }
  c->panels = itg_arena_array(scratch, panels + 16, sizeof c->panels[0]);
  c->strips = itg_arena_array(scratch, c->strip_count, sizeof c->strips[0]);
  ITG_TRY_MEMORY(c->panels && c->strips, diagnostic);
  size_t n = 0;
  for (size_t i = 0; i < m->part_count; i++) {
    for (int64_t begin = 0; begin < m->parts[i].size; begin += STRIP) {
      c->strips[n++] = (strip){&m->parts[i], begin, itg_min_i64(begin + STRIP, m->parts[i].size), products};
      products += (size_t)(STRIP * m->parts[i].size);
    }
  }
  c->products = itg_arena_array(scratch, products, sizeof c->products[0]);
  ITG_TRY_MEMORY(c->products, diagnostic);
  return ITG_OK;
}

// Takes the means out: sum x y - n mean(x) mean(y).
static void centre(itg_moments *m) {
  const int64_t features = m->groups * m->length;
  for (int set = 0; set < ITG_MOMENT_SETS; set++) {
    const double n = m->count[set];
    const double *rounded = m->mean_rounded + set * features, *exact = m->mean_exact + set * features;
    for (size_t p = 0; n > 0 && p < m->part_count; p++) {
      const itg_moment_part *part = &m->parts[p];
      const int64_t origin = part->group * m->length + part->first;
      for (int64_t i = 0; i < part->size; i++) {
        for (int64_t j = 0; j < part->size; j++) {
          const double y = rounded[origin + j] / n;
          part->h[set][i * part->size + j] -= rounded[origin + i] * y;
          part->t[set][i * part->size + j] -= (exact[origin + i] - rounded[origin + i]) * y;
        }
      }
    }
  }
  const double total = m->count[ITG_MOMENT_FIT] + m->count[ITG_MOMENT_HELD];
  for (int64_t i = 0; i < features; i++) {
    m->mean_exact[i] = (m->mean_exact[i] + m->mean_exact[features + i]) / total;
    m->mean_rounded[i] = (m->mean_rounded[i] + m->mean_rounded[features + i]) / total;
  }
}

static itg_status collect(collection *c, const float *const *exact, const float *const *rounded, size_t samples,
                          itg_pool *pool) {
  itg_moments *m = c->moments;
  const size_t features = (size_t)(m->groups * m->length);
  for (size_t s = 0; s < samples; s++) {
    c->exact = exact[s];
    c->rounded = rounded[s];
    c->set = (int)(s % 2);
    c->phase = (int64_t)(s * 7919) % c->positions;
    itg_parallel_for(pool, (size_t)c->taps, find_sources, c);
    itg_parallel_for(pool, features, gather_column, c);
    itg_parallel_for(pool, features, add_sums, c);
    itg_parallel_for(pool, m->part_count, pack_part, c);
    itg_parallel_for(pool, c->strip_count, add_strip, c);
    m->count[c->set] += (double)c->windows;
  }
  centre(m);
  return ITG_OK;
}

itg_status itg_moments_collect(const itg_node *node, const float *const *exact, const float *const *rounded,
                               size_t samples, int64_t most_windows, itg_pool *pool, itg_arena *arena,
                               itg_diagnostic *diagnostic, itg_moments *out) {
  const itg_shape *y = &node->outputs[0]->shape;
  itg_moments moments = {0};
  collection c = {.node = node, .moments = &moments, .positions = 1};
  for (int32_t i = 0; i + 1 < y->rank; i++) c.positions *= y->dims[i]; // Outputs without their channels.
  c.windows = itg_min_i64(most_windows, c.positions);
  itg_arena scratch = {0};
  itg_status status = prepare(&c, arena, &scratch, diagnostic);
  if (status == ITG_OK) status = collect(&c, exact, rounded, samples, pool);
  itg_arena_free(&scratch);
  if (status == ITG_OK) *out = moments;
  return status;
}
