// The ways to choose a layer's codes, and the choice among them. See fit.h.
//
// Every way is tried with the moments of one half of the samples and measured with those of the other half; the best one
// then chooses the final codes with the moments of all of them.
#include "quantize/weight_fit/fit.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "interpret/packed_gemm.h"
#include "quantize/weight_fit/feedback.h"

enum { CHUNK = 24, MOST_FILLS = 16, WAYS = 8 };
enum { WAY_FEEDBACK = 1, WAY_TARGET = 2, WAY_GAIN = 4 }; // A way is a sum of these.

// The moments that a set of samples gives, ready for products.
typedef struct measure {
  const double *const *h, *const *t; // [parts]
  float **panels;                    // [parts]: h, packed.
  itg_feedback *feedback;            // [parts]; NULL: only for measuring.
} measure;

typedef struct fit {
  const itg_weight_rows *rows;
  const itg_moments *moments;
  const itg_weight_fit_options *options;
  measure choose, held;
  int way;              // >= 0: choose the final codes this way.
  struct chunk *chunks; // Rows that are worked on together.
  size_t chunk_count;
} fit;

typedef struct chunk {
  fit *fit;
  int64_t group, begin, end; // Rows of one group.
  // Scratch of the chunk. [CHUNK, length] unless stated.
  float *target, *difference, *product; // difference and product: [CHUNK, ITG_MOMENT_COLUMNS]
  double *lost, *held_lost;             // T'w of each row, by the moments that choose and by the held ones.
  double *solution, *solve;             // [ITG_MOMENT_COLUMNS]
  float *errors;                        // [ITG_MOMENT_COLUMNS]: of the row being rounded, in the order of rounding.
  double error[CHUNK], best[CHUNK], gain[CHUNK];
  double fill[CHUNK];
  double total[WAYS]; // Error on the held samples, of the rows of the chunk.
} chunk;

static const float *row_of(const chunk *c, int64_t r) {
  return c->fit->rows->weight + (c->begin + r) * c->fit->rows->length;
}
static int8_t *codes_of(const chunk *c, int64_t r) {
  return c->fit->rows->codes + (c->begin + r) * c->fit->rows->length;
}

// Parts of the chunk's group.
static size_t part_begin(const chunk *c, int64_t group) {
  const itg_moments *m = c->fit->moments;
  return (size_t)group * (m->part_count / (size_t)m->groups);
}
#define FOR_EACH_PART(p, c) for (size_t p = part_begin(c, (c)->group); p < part_begin(c, (c)->group + 1); p++)

// lost = T'w.
static void set_lost(const chunk *c, const measure *m, double *all) {
  const int64_t length = c->fit->rows->length;
  FOR_EACH_PART(p, c) {
    const itg_moment_part *part = &c->fit->moments->parts[p];
    for (int64_t r = 0; r < c->end - c->begin; r++) {
      const float *w = row_of(c, r) + part->first;
      double *lost = all + r * length + part->first;
      memset(lost, 0, (size_t)part->size * sizeof lost[0]);
      for (int64_t i = 0; i < part->size; i++) {
        const double *t = m->t[p] + i * part->size;
        for (int64_t j = 0; j < part->size; j++) lost[j] += (double)w[i] * t[j];
      }
    }
  }
}

// The weights to round: those of the network, or those that best answer for the lost inputs, w + H^-1 T'w.
static void set_target(chunk *c, bool corrected) {
  const int64_t length = c->fit->rows->length;
  for (int64_t r = 0; r < c->end - c->begin; r++)
    memcpy(c->target + r * length, row_of(c, r), (size_t)length * sizeof c->target[0]);
  if (!corrected) return;
  FOR_EACH_PART(p, c) {
    const itg_moment_part *part = &c->fit->moments->parts[p];
    for (int64_t r = 0; r < c->end - c->begin; r++) {
      itg_feedback_solve(&c->fit->choose.feedback[p], c->lost + r * length + part->first, c->solution, c->solve);
      for (int64_t j = 0; j < part->size; j++) c->target[r * length + part->first + j] += (float)c->solution[j];
    }
  }
}

static void encode_nearest(const chunk *c, int64_t r) {
  const int64_t length = c->fit->rows->length;
  int8_t *codes = codes_of(c, r);
  for (int64_t k = 0; k < length; k++)
    codes[k] = itg_weight_encode((double)c->target[r * length + k], 1 / itg_weight_unit(c->fit->rows, c->begin + r, k),
                                 c->fit->rows->most);
}

// error[r] = d H d', d = gain * rounded weights - reference [CHUNK, length]; with `lost` also - 2 d T'w.
static void measure_error(chunk *c, const measure *m, const float *reference, const double *all_lost) {
  const itg_weight_rows *rows = c->fit->rows;
  const int64_t count = c->end - c->begin;
  memset(c->error, 0, sizeof c->error);
  FOR_EACH_PART(p, c) {
    const itg_moment_part *part = &c->fit->moments->parts[p];
    for (int64_t r = 0; r < count; r++) {
      const int8_t *codes = codes_of(c, r) + part->first;
      const float *from = reference + r * rows->length + part->first;
      for (int64_t k = 0; k < part->size; k++)
        c->difference[r * part->size + k] =
            (float)(codes[k] * itg_weight_unit(rows, c->begin + r, part->first + k) * c->gain[r] - (double)from[k]);
    }
    const size_t size = (size_t)part->size;
    itg_gemm(c->difference, size, (size_t)count, size, m->panels[p], size, c->product, size);
    for (int64_t r = 0; r < count; r++) {
      double sum = 0;
      const float *d = c->difference + r * part->size, *q = c->product + r * part->size;
      for (int64_t k = 0; k < part->size; k++) sum += (double)d[k] * (double)q[k];
      const double *lost = all_lost ? all_lost + r * rows->length + part->first : NULL;
      for (int64_t k = 0; lost && k < part->size; k++) sum -= 2 * (double)d[k] * lost[k];
      c->error[r] += sum;
    }
  }
}

// The scale of each row with the least error of nearest codes.
static void search_scales(chunk *c) {
  const itg_weight_rows *rows = c->fit->rows;
  const int64_t count = c->end - c->begin;
  // Eight bits gain nothing from much smaller scales; four bits do.
  const int fills = rows->most > 7 ? 4 : MOST_FILLS;
  const double step = rows->most > 7 ? 0.05 : 0.04;
  for (int f = 0; f < fills; f++) {
    const double fill = 1 - step * f;
    for (int64_t r = 0; r < count; r++) {
      c->gain[r] = 1;
      itg_weight_round_row(rows, c->begin + r, fill);
      encode_nearest(c, r);
    }
    measure_error(c, &c->fit->choose, c->target, NULL);
    for (int64_t r = 0; r < count; r++) {
      if (f > 0 && !(c->error[r] < c->best[r])) continue;
      c->best[r] = c->error[r];
      c->fill[r] = fill;
    }
  }
  for (int64_t r = 0; r < count; r++) {
    itg_weight_round_row(rows, c->begin + r, c->fill[r]);
    encode_nearest(c, r);
  }
}

static float dot(const float *a, const float *b, int64_t count) {
  float lanes[8] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int l = 0; l < 8; l++) lanes[l] += a[i + l] * b[i + l];
  }
  for (; i < count; i++) sum += a[i] * b[i];
  for (int l = 0; l < 8; l++) sum += lanes[l];
  return sum;
}

static void round_with_feedback(chunk *c, int64_t r) {
  const itg_weight_rows *rows = c->fit->rows;
  FOR_EACH_PART(p, c) {
    const itg_moment_part *part = &c->fit->moments->parts[p];
    const itg_feedback *f = &c->fit->choose.feedback[p];
    const float *target = c->target + r * rows->length + part->first;
    int8_t *codes = codes_of(c, r) + part->first;
    for (int64_t k = 0; k < part->size; k++) {
      const int64_t column = f->order[k];
      const double unit = itg_weight_unit(rows, c->begin + r, part->first + column);
      const float given = dot(c->errors, f->feedback + k * part->size, k);
      codes[column] = itg_weight_encode((double)(target[column] + given), 1 / unit, rows->most);
      c->errors[k] = target[column] - (float)(codes[column] * unit);
    }
  }
}

// gain[r] = (y . y') / (y' . y') of exact outputs y and rounded ones y'.
static void set_gains(chunk *c) {
  const itg_weight_rows *rows = c->fit->rows;
  const int64_t count = c->end - c->begin;
  double over[CHUNK] = {0}, under[CHUNK] = {0};
  FOR_EACH_PART(p, c) {
    const itg_moment_part *part = &c->fit->moments->parts[p];
    for (int64_t r = 0; r < count; r++) {
      for (int64_t k = 0; k < part->size; k++)
        c->difference[r * part->size + k] =
            (float)(codes_of(c, r)[part->first + k] * itg_weight_unit(rows, c->begin + r, part->first + k));
    }
    const size_t size = (size_t)part->size;
    itg_gemm(c->difference, size, (size_t)count, size, c->fit->choose.panels[p], size, c->product, size);
    for (int64_t r = 0; r < count; r++) {
      const float *v = c->difference + r * part->size, *q = c->product + r * part->size,
                  *w = row_of(c, r) + part->first;
      const double *lost = c->lost + r * rows->length + part->first;
      for (int64_t k = 0; k < part->size; k++) {
        over[r] += (double)v[k] * lost[k] + ((double)w[k] - (double)v[k]) * (double)q[k];
        under[r] += (double)v[k] * (double)q[k];
      }
    }
  }
  for (int64_t r = 0; r < count; r++) {
    const double gain = under[r] > 0 ? 1 + over[r] / under[r] : 1;
    c->gain[r] = gain < 0.8 ? 0.8 : gain > 1.25 ? 1.25 : gain;
  }
}

// Codes of the chunk's rows, chosen one way but for the gain.
static void choose_codes(chunk *c, int way) {
  set_target(c, (way & WAY_TARGET) != 0);
  search_scales(c);
  if (!(way & WAY_FEEDBACK)) return;
  for (int64_t r = 0; r < c->end - c->begin; r++) round_with_feedback(c, r);
}

static bool is_offered(const itg_weight_fit_options *o, int way) {
  return (!(way & WAY_FEEDBACK) || o->feedback) && (!(way & WAY_TARGET) || o->target) && (!(way & WAY_GAIN) || o->gain);
}

static void try_ways(chunk *c) {
  const fit *f = c->fit;
  set_lost(c, &f->held, c->held_lost);
  for (int way = 0; way < WAY_GAIN; way++) {
    if (!is_offered(f->options, way)) continue;
    choose_codes(c, way);
    for (int gain = 0; gain <= (f->options->gain ? WAY_GAIN : 0); gain += WAY_GAIN) {
      if (gain) set_gains(c);
      measure_error(c, &f->held, row_of(c, 0), c->held_lost);
      for (int64_t r = 0; r < c->end - c->begin; r++) c->total[way + gain] += c->error[r];
    }
  }
}

static void set_bias(const chunk *c, int64_t r) {
  const itg_weight_rows *rows = c->fit->rows;
  const itg_moments *m = c->fit->moments;
  const int64_t row = c->begin + r;
  const double *exact = m->mean_exact + c->group * rows->length, *rounded = m->mean_rounded + c->group * rows->length;
  double bias = rows->bias ? (double)rows->bias[row] : 0;
  for (int64_t k = 0; k < rows->length; k++)
    bias += (double)row_of(c, r)[k] * exact[k] - codes_of(c, r)[k] * itg_weight_unit(rows, row, k) * rounded[k];
  itg_weight_set_bias(rows, row, bias);
}

static void run_chunk(void *context, size_t index) {
  chunk *c = (chunk *)context + index;
  const fit *f = c->fit;
  set_lost(c, &f->choose, c->lost);
  if (f->way < 0) {
    try_ways(c);
    return;
  }
  choose_codes(c, f->way);
  if (f->way & WAY_GAIN) set_gains(c);
  for (int64_t r = 0; r < c->end - c->begin; r++) {
    if (f->way & WAY_GAIN)
      f->rows->scales[c->begin + r] =
          itg_weight_allowed_scale(f->rows, c->begin + r, f->rows->scales[c->begin + r] * c->gain[r]);
    set_bias(c, r);
  }
}

static itg_status make_measure(const itg_moments *m, const double *const *h, const double *const *t, bool factored,
                               itg_arena *arena, itg_diagnostic *diagnostic, measure *out) {
  measure result = {.h = h, .t = t};
  result.panels = itg_arena_array(arena, m->part_count, sizeof result.panels[0]);
  if (factored) result.feedback = itg_arena_array(arena, m->part_count, sizeof result.feedback[0]);
  ITG_TRY_MEMORY(result.panels && (!factored || result.feedback), diagnostic);
  for (size_t p = 0; p < m->part_count; p++) {
    const size_t size = (size_t)m->parts[p].size;
    float *narrow = itg_arena_array(arena, size * size, sizeof narrow[0]);
    // A little longer than needed, so that the arena aligns it as large blocks are.
    result.panels[p] = itg_arena_array(arena, itg_gemm_packed_count(size, size) + 16, sizeof narrow[0]);
    ITG_TRY_MEMORY(narrow && result.panels[p], diagnostic);
    for (size_t i = 0; i < size * size; i++) narrow[i] = (float)h[p][i];
    itg_gemm_pack(narrow, size, 1, size, size, result.panels[p]);
    if (factored) ITG_TRY(itg_feedback_create(h[p], m->parts[p].size, arena, diagnostic, &result.feedback[p]));
  }
  *out = result;
  return ITG_OK;
}

static itg_status make_chunks(fit *f, itg_arena *arena, itg_diagnostic *diagnostic) {
  const itg_weight_rows *rows = f->rows;
  const int64_t groups = f->moments->groups, of_group = rows->rows / groups;
  const int64_t per_group = (of_group + CHUNK - 1) / CHUNK;
  f->chunk_count = (size_t)(groups * per_group);
  f->chunks = itg_arena_array(arena, f->chunk_count, sizeof f->chunks[0]);
  ITG_TRY_MEMORY(f->chunks, diagnostic);
  for (size_t i = 0; i < f->chunk_count; i++) {
    chunk *c = &f->chunks[i];
    const int64_t piece = (int64_t)i % per_group;
    *c = (chunk){.fit = f, .group = (int64_t)i / per_group};
    c->begin = c->group * of_group + piece * of_group / per_group;
    c->end = c->group * of_group + (piece + 1) * of_group / per_group;
    const size_t count = (size_t)(c->end - c->begin), widest = (size_t)itg_min_i64(rows->length, ITG_MOMENT_COLUMNS);
    c->target = itg_arena_array(arena, count * (size_t)rows->length, sizeof(float));
    c->difference = itg_arena_array(arena, count * widest, sizeof(float));
    c->product = itg_arena_array(arena, count * widest, sizeof(float));
    c->lost = itg_arena_array(arena, count * (size_t)rows->length, sizeof(double));
    c->held_lost = itg_arena_array(arena, count * (size_t)rows->length, sizeof(double));
    c->solution = itg_arena_array(arena, widest, sizeof(double));
    c->solve = itg_arena_array(arena, widest, sizeof(double));
    c->errors = itg_arena_array(arena, widest, sizeof(float));
    ITG_TRY_MEMORY(c->target && c->difference && c->product && c->lost && c->held_lost && c->solution && c->solve &&
                       c->errors,
                   diagnostic);
  }
  return ITG_OK;
}

// The matrices of one set, or of both together.
static itg_status gather_matrices(const itg_moments *m, int set, itg_arena *arena, itg_diagnostic *diagnostic,
                                  const double ***h, const double ***t) {
  *h = itg_arena_array(arena, m->part_count, sizeof **h);
  *t = itg_arena_array(arena, m->part_count, sizeof **t);
  ITG_TRY_MEMORY(*h && *t, diagnostic);
  for (size_t p = 0; p < m->part_count; p++) {
    const itg_moment_part *part = &m->parts[p];
    if (set == ITG_MOMENT_SETS) { // Both: added up in place of the first, which is of no more use.
      for (int64_t i = 0; i < part->size * part->size; i++) {
        part->h[0][i] += part->h[1][i];
        part->t[0][i] += part->t[1][i];
      }
      set = 0;
      (*h)[p] = part->h[0];
      (*t)[p] = part->t[0];
      set = ITG_MOMENT_SETS;
      continue;
    }
    (*h)[p] = part->h[set];
    (*t)[p] = part->t[set];
  }
  return ITG_OK;
}

static itg_status choose_way(fit *f, itg_pool *pool, itg_arena *arena, itg_diagnostic *diagnostic) {
  const double **h, **t;
  f->way = 0;
  if (!(f->moments->count[ITG_MOMENT_FIT] > 0 && f->moments->count[ITG_MOMENT_HELD] > 0)) return ITG_OK;
  ITG_TRY(gather_matrices(f->moments, ITG_MOMENT_FIT, arena, diagnostic, &h, &t));
  ITG_TRY(make_measure(f->moments, h, t, true, arena, diagnostic, &f->choose));
  ITG_TRY(gather_matrices(f->moments, ITG_MOMENT_HELD, arena, diagnostic, &h, &t));
  ITG_TRY(make_measure(f->moments, h, t, false, arena, diagnostic, &f->held));
  f->way = -1;
  itg_parallel_for(pool, f->chunk_count, run_chunk, f->chunks);
  double total[WAYS] = {0};
  for (size_t i = 0; i < f->chunk_count; i++) {
    for (int way = 0; way < WAYS; way++) total[way] += f->chunks[i].total[way];
  }
  f->way = 0;
  for (int way = 1; way < WAYS; way++) {
    if (is_offered(f->options, way) && total[way] < total[f->way]) f->way = way;
  }
  return ITG_OK;
}

static itg_status run(fit *f, itg_pool *pool, itg_arena *arena, itg_diagnostic *diagnostic) {
  const double **h, **t;
  ITG_TRY(make_chunks(f, arena, diagnostic));
  ITG_TRY(choose_way(f, pool, arena, diagnostic));
  ITG_TRY(gather_matrices(f->moments, ITG_MOMENT_SETS, arena, diagnostic, &h, &t));
  ITG_TRY(make_measure(f->moments, h, t, true, arena, diagnostic, &f->choose));
  itg_parallel_for(pool, f->chunk_count, run_chunk, f->chunks);
  return ITG_OK;
}

itg_status itg_weight_fit(const itg_weight_rows *rows, const itg_moments *moments,
                          const itg_weight_fit_options *options, itg_pool *pool, itg_diagnostic *diagnostic) {
  fit f = {.rows = rows, .moments = moments, .options = options};
  itg_arena arena = {0};
  const itg_status status = run(&f, pool, &arena, diagnostic);
  itg_arena_free(&arena);
  return status;
}
