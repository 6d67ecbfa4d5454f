// Convolutions, transposed convolutions and pools against naive loops over random geometries, in both layouts.
#include "interpret_support.h"

typedef struct geometry {
  int rank, n, c, o, group, layout;
  int in[3], out[3];
  itg_window window;
} geometry;

static int pick(uint64_t *seed, int low, int high) {
  return low + (int)(test_random(seed) % (uint32_t)(high - low + 1));
}

static geometry random_geometry(uint64_t *seed, bool transposed, bool pool) {
  geometry g;
  for (;;) {
    g = (geometry){.rank = pick(seed, 1, 3), .n = pick(seed, 1, 2), .layout = pick(seed, 0, 1)};
    const int kind = pick(seed, 0, 3);
    g.group = pool ? 1 : (kind == 0 ? pick(seed, 2, 5) : 1);
    g.c = g.group * pick(seed, 1, 5);
    g.o = pool ? g.c : g.group * pick(seed, 1, 40);
    if (kind == 1 && !pool) g.group = g.c = g.o = pick(seed, 2, 90);
    g.window.rank = g.rank;
    bool fits = true;
    for (int d = 0; d < 3; d++) {
      const bool present = d < g.rank;
      const int k = present ? pick(seed, 1, 3) : 1, s = present ? pick(seed, 1, 3) : 1,
                e = present ? pick(seed, 1, 2) : 1;
      const int span = (k - 1) * e + 1;
      g.in[d] = present ? pick(seed, 1, 9) : 1;
      g.window.kernel[d] = k;
      g.window.stride[d] = s;
      g.window.dilation[d] = e;
      g.window.pad_begin[d] = present ? pick(seed, 0, span - 1) : 0;
      g.window.pad_end[d] = present ? pick(seed, 0, span - 1) : 0;
      const int pads = g.window.pad_begin[d] + g.window.pad_end[d];
      g.out[d] =
          transposed ? (g.in[d] - 1) * s + span - pads : (g.in[d] + pads < span ? 0 : (g.in[d] + pads - span) / s + 1);
      fits = fits && g.out[d] > 0;
    }
    if (fits) return g;
  }
}

static itg_shape shape_of(const geometry *g, const int *spatial, int channels) {
  itg_shape shape = {.rank = g->rank + 2};
  const bool last = g->layout == ITG_LAYOUT_CHANNELS_LAST;
  shape.dims[0] = g->n;
  shape.dims[last ? g->rank + 1 : 1] = channels;
  for (int d = 0; d < g->rank; d++) shape.dims[(last ? 1 : 2) + d] = spatial[d];
  return shape;
}

static size_t at(const geometry *g, const int *spatial, int channels, int n, int c, const int *p) {
  const size_t position = ((size_t)p[0] * (size_t)spatial[1] + (size_t)p[1]) * (size_t)spatial[2] + (size_t)p[2];
  const size_t pixels = (size_t)spatial[0] * (size_t)spatial[1] * (size_t)spatial[2];
  return g->layout == ITG_LAYOUT_CHANNELS_LAST ? ((size_t)n * pixels + position) * (size_t)channels + (size_t)c
                                               : ((size_t)n * (size_t)channels + (size_t)c) * pixels + position;
}

// Weights [a, b, taps] (channels first) or [a, taps, b].
static size_t weight_at(const geometry *g, int b_count, int taps, int a, int b, int tap) {
  return g->layout == ITG_LAYOUT_CHANNELS_LAST ? ((size_t)a * (size_t)taps + (size_t)tap) * (size_t)b_count + (size_t)b
                                               : ((size_t)a * (size_t)b_count + (size_t)b) * (size_t)taps + (size_t)tap;
}

static itg_shape weight_shape(const geometry *g, int a, int b) {
  itg_shape shape = {.rank = g->rank + 2};
  const bool last = g->layout == ITG_LAYOUT_CHANNELS_LAST;
  shape.dims[0] = a;
  shape.dims[last ? g->rank + 1 : 1] = b;
  for (int d = 0; d < g->rank; d++) shape.dims[(last ? 1 : 2) + d] = g->window.kernel[d];
  return shape;
}

#define FOR_3(p, limits)                       \
  for (p[0] = 0; p[0] < (limits)[0]; p[0]++)   \
    for (p[1] = 0; p[1] < (limits)[1]; p[1]++) \
      for (p[2] = 0; p[2] < (limits)[2]; p[2]++)

static size_t count_of(const itg_shape *shape) {
  size_t count;
  assert_true(itg_shape_count(shape, &count));
  return count;
}

static float activate(const itg_activation *a, const float *slopes, int channel, double v) {
  if (a->kind == ITG_ACTIVATION_CLIP) return (float)fmin(fmax(v, a->low), a->high);
  if (a->kind == ITG_ACTIVATION_LEAKY && v < 0) return (float)(v * a->slope);
  if (a->kind == ITG_ACTIVATION_PRELU && v < 0) return (float)(v * (double)slopes[channel]);
  return (float)v;
}

static void check_convolution(uint64_t *seed, bool transposed) {
  const geometry g = random_geometry(seed, transposed, false);
  const int gc = g.c / g.group, go = g.o / g.group;
  const int taps = g.window.kernel[0] * g.window.kernel[1] * g.window.kernel[2];
  const itg_shape xs = shape_of(&g, g.in, g.c), ys = shape_of(&g, g.out, g.o);
  const bool last = g.layout == ITG_LAYOUT_CHANNELS_LAST;
  // Transposed: [C, O/group, k] or [O/group, k, C]; else [O, C/group, k] or [O, k, C/group].
  const int a = transposed ? (last ? go : g.c) : g.o, b = transposed ? (last ? g.c : go) : gc;
  const itg_shape ws = weight_shape(&g, a, b), os = DIMS(g.o);
  float *x = test_random_floats(seed, count_of(&xs)), *w = test_random_floats(seed, count_of(&ws));
  float *bias = test_random_floats(seed, (size_t)g.o), *slopes = test_random_floats(seed, (size_t)g.o);
  float *y = test_random_floats(seed, count_of(&ys)), *expected = test_random_floats(seed, count_of(&ys));
  itg_attributes attributes = {.conv = {.window = g.window, .group = g.group, .layout = g.layout}};
  attributes.conv.activation = (itg_activation){pick(seed, 0, 3), 0, -.5, .75, .1};
  const bool has_bias = pick(seed, 0, 1);
  const int *k = g.window.kernel;
  int p[3], t[3];
  double *sums = calloc(count_of(&ys), sizeof *sums);
  const int *walked = transposed ? g.in : g.out, *other = transposed ? g.out : g.in;
  for (int n = 0; n < g.n; n++) {
    for (int o = 0; o < g.o; o++) {
      for (int c = 0; c < gc; c++) {
        const int channel = o / go * gc + c;
        FOR_3(p, walked) {
          FOR_3(t, k) {
            int q[3];
            bool inside = true;
            for (int d = 0; d < 3; d++) {
              q[d] = p[d] * g.window.stride[d] + t[d] * g.window.dilation[d] - g.window.pad_begin[d];
              inside = inside && q[d] >= 0 && q[d] < other[d];
            }
            if (!inside) continue;
            const int tap = (t[0] * k[1] + t[1]) * k[2] + t[2];
            const size_t wi = !transposed ? weight_at(&g, gc, taps, o, c, tap)
                              : last      ? weight_at(&g, g.c, taps, o % go, channel, tap)
                                          : weight_at(&g, go, taps, channel, o % go, tap);
            sums[at(&g, g.out, g.o, n, o, transposed ? q : p)] +=
                (double)x[at(&g, g.in, g.c, n, channel, transposed ? p : q)] * (double)w[wi];
          }
        }
      }
      FOR_3(p, g.out) {
        const size_t i = at(&g, g.out, g.o, n, o, p);
        expected[i] = activate(&attributes.conv.activation, slopes, o, sums[i] + (has_bias ? (double)bias[o] : 0));
      }
    }
  }
  const bool has_slopes = attributes.conv.activation.kind == ITG_ACTIVATION_PRELU;
  const test_value inputs[] = {{ITG_DTYPE_F32, xs, x},
                               {ITG_DTYPE_F32, ws, w},
                               {ITG_DTYPE_F32, os, has_bias ? bias : NULL},
                               {ITG_DTYPE_F32, os, has_slopes ? slopes : NULL}};
  test_f32(transposed ? ITG_OP_CONV_TRANSPOSE : ITG_OP_CONV, &attributes, inputs, 4, ys, y);
  assert_close(y, expected, count_of(&ys), 1e-5);
  free(x);
  free(w);
  free(bias);
  free(slopes);
  free(y);
  free(expected);
  free(sums);
}

static void convolutions_equal_the_naive_loop(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int trial = 0; trial < 600; trial++) check_convolution(&seed, false);
}
static void transposed_convolutions_equal_the_naive_loop(void **state) {
  (void)state;
  uint64_t seed = 2;
  for (int trial = 0; trial < 400; trial++) check_convolution(&seed, true);
}

static void pools_equal_the_naive_loop(void **state) {
  (void)state;
  uint64_t seed = 3;
  for (int trial = 0; trial < 400; trial++) {
    const geometry g = random_geometry(&seed, false, true);
    const itg_op op = (itg_op[]){ITG_OP_MAX_POOL, ITG_OP_AVERAGE_POOL, ITG_OP_LP_POOL}[trial % 3];
    const itg_shape xs = shape_of(&g, g.in, g.c), ys = shape_of(&g, g.out, g.c);
    float *x = test_random_floats(&seed, count_of(&xs)), *y = test_random_floats(&seed, count_of(&ys));
    float *expected = test_random_floats(&seed, count_of(&ys));
    itg_attributes attributes = {.pool = {.window = g.window, .layout = g.layout, .p = pick(&seed, 1, 3)}};
    attributes.pool.count_include_pad = pick(&seed, 0, 1);
    for (int d = 0; d < g.rank; d++) attributes.pool.declared_pad_end[d] = pick(&seed, 0, g.window.pad_end[d]);
    int p[3], t[3];
    for (int n = 0; n < g.n; n++) {
      for (int c = 0; c < g.c; c++) {
        FOR_3(p, g.out) {
          double best = -INFINITY, sum = 0, power = 0, inside_count = 0, padded_count = 0;
          FOR_3(t, g.window.kernel) {
            int q[3];
            bool inside = true, padded = true;
            for (int d = 0; d < 3; d++) {
              q[d] = p[d] * g.window.stride[d] + t[d] * g.window.dilation[d] - g.window.pad_begin[d];
              inside = inside && q[d] >= 0 && q[d] < g.in[d];
              padded = padded && q[d] < g.in[d] + (d < g.rank ? attributes.pool.declared_pad_end[d] : 0);
            }
            padded_count += padded;
            if (!inside) continue;
            const double v = (double)x[at(&g, g.in, g.c, n, c, q)];
            inside_count++;
            best = fmax(best, v);
            sum += v;
            power += pow(fabs(v), attributes.pool.p);
          }
          const double divisor = attributes.pool.count_include_pad ? padded_count : inside_count;
          expected[at(&g, g.out, g.c, n, c, p)] =
              (float)(op == ITG_OP_MAX_POOL       ? best
                      : op == ITG_OP_AVERAGE_POOL ? (divisor > 0 ? sum / divisor : 0)
                                                  : pow(power, 1.0 / attributes.pool.p));
        }
      }
    }
    test_f32(op, &attributes, (const test_value[]){{ITG_DTYPE_F32, xs, x}}, 1, ys, y);
    assert_close(y, expected, count_of(&ys), 1e-6);
    free(x);
    free(y);
    free(expected);
  }
}

// Larger shapes reach the full micro-kernel blocks and several panels.
static void large_products_equal_the_naive_loop(void **state) {
  (void)state;
  uint64_t seed = 4;
  enum { M = 37, N = 101, K = 67 };
  float *x = test_random_floats(&seed, M * K), *w = test_random_floats(&seed, N * K),
        *bias = test_random_floats(&seed, N);
  float *y = test_random_floats(&seed, M * N), *expected = test_random_floats(&seed, M * N);
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
      double sum = (double)bias[j];
      for (int k = 0; k < K; k++) sum += (double)x[i * K + k] * (double)w[j * K + k];
      expected[i * N + j] = (float)sum;
    }
  }
  const test_value inputs[] = {
      {ITG_DTYPE_F32, DIMS(M, K), x}, {ITG_DTYPE_F32, DIMS(N, K), w}, {ITG_DTYPE_F32, DIMS(N), bias}};
  test_f32(ITG_OP_FULLY_CONNECTED, &(itg_attributes){.conv = {.group = 1}}, inputs, 3, DIMS(M, N), y);
  assert_close(y, expected, M * N, 1e-5);
  test_f32(ITG_OP_GEMM, &(itg_attributes){.gemm = {1, 1, 0, 1}}, inputs, 3, DIMS(M, N), y);
  assert_close(y, expected, M * N, 1e-5);
  free(x);
  free(w);
  free(bias);
  free(y);
  free(expected);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions_equal_the_naive_loop),
      cmocka_unit_test(transposed_convolutions_equal_the_naive_loop),
      cmocka_unit_test(pools_equal_the_naive_loop),
      cmocka_unit_test(large_products_equal_the_naive_loop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
