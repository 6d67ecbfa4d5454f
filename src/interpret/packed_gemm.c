// Micro-kernels of packed_gemm.h: a block of up to 12 rows times one panel, all sums in registers.
#include "interpret/packed_gemm.h"

#include <string.h>

enum { CHUNK_FLOATS = 1 << 17 }; // Panels that stay in the second-level cache while all rows pass.

// c: [rows][c_pitch], one panel wide.
typedef void (*block_function)(const float *const *a, size_t k, const float *panel, float *c, size_t c_pitch);

// Rows of a block, and how many steps of k run side by side: few rows need more independent sums to keep the units busy.
#define ALL_ROWS(X) X(1, 4) X(2, 4) X(3, 2) X(4, 2) X(5, 1) X(6, 1) X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1) X(12, 1)

#if defined(__x86_64__)
#include <immintrin.h>

// V registers a row: 2 for a whole panel of 32 columns, 1 for a half panel.
#define BLOCK_AVX512(name, V, R, U)                                                                                \
  __attribute__((target("avx512f"))) static void name##_##R(const float *const *a, size_t k, const float *panel,   \
                                                            float *c, size_t c_pitch) {                            \
    __m512 sums[U][R][V];                                                                                          \
    const float *row[R];                                                                                           \
    for (int r = 0; r < R; r++) {                                                                                  \
      row[r] = a[r];                                                                                               \
      for (int u = 0; u < U; u++) {                                                                                \
        for (int v = 0; v < V; v++) sums[u][r][v] = _mm512_setzero_ps();                                           \
      }                                                                                                            \
    }                                                                                                              \
    size_t i = 0;                                                                                                  \
    for (; i + U <= k; i += U) {                                                                                   \
      for (int u = 0; u < U; u++) {                                                                                \
        __m512 b[V];                                                                                               \
        for (int v = 0; v < V; v++) b[v] = _mm512_load_ps(panel + 16 * (V * (i + (size_t)u) + (size_t)v));         \
        for (int r = 0; r < R; r++) {                                                                              \
          const __m512 value = _mm512_set1_ps(row[r][i + (size_t)u]);                                              \
          for (int v = 0; v < V; v++) sums[u][r][v] = _mm512_fmadd_ps(value, b[v], sums[u][r][v]);                 \
        }                                                                                                          \
      }                                                                                                            \
    }                                                                                                              \
    for (; i < k; i++) {                                                                                           \
      for (int r = 0; r < R; r++) {                                                                                \
        const __m512 value = _mm512_set1_ps(row[r][i]);                                                            \
        for (int v = 0; v < V; v++)                                                                                \
          sums[0][r][v] = _mm512_fmadd_ps(value, _mm512_load_ps(panel + 16 * (V * i + (size_t)v)), sums[0][r][v]); \
      }                                                                                                            \
    }                                                                                                              \
    for (int r = 0; r < R; r++) {                                                                                  \
      for (int v = 0; v < V; v++) {                                                                                \
        for (int u = 1; u < U; u++) sums[0][r][v] = _mm512_add_ps(sums[0][r][v], sums[u][r][v]);                   \
        _mm512_storeu_ps(c + (size_t)r * c_pitch + 16 * v, sums[0][r][v]);                                         \
      }                                                                                                            \
    }                                                                                                              \
  }
#define WHOLE_AVX512(R, U) BLOCK_AVX512(whole_avx512, 2, R, U)
#define HALF_AVX512(R, U) BLOCK_AVX512(half_avx512, 1, R, U)
ALL_ROWS(WHOLE_AVX512)
ALL_ROWS(HALF_AVX512)

// 16 registers: at most six rows at a time, so larger blocks run as two.
#define PART_AVX2(name, V, R)                                                                                     \
  __attribute__((target("avx2,fma"))) static void name##_##R(const float *const *a, size_t k, const float *panel, \
                                                             float *c, size_t c_pitch) {                          \
    __m256 sums[R][V];                                                                                            \
    const float *row[R];                                                                                          \
    for (int r = 0; r < R; r++) {                                                                                 \
      row[r] = a[r];                                                                                              \
      for (int v = 0; v < V; v++) sums[r][v] = _mm256_setzero_ps();                                               \
    }                                                                                                             \
    for (size_t i = 0; i < k; i++) {                                                                              \
      __m256 b[V];                                                                                                \
      for (int v = 0; v < V; v++) b[v] = _mm256_load_ps(panel + 8 * (V * i + (size_t)v));                         \
      for (int r = 0; r < R; r++) {                                                                               \
        const __m256 value = _mm256_broadcast_ss(row[r] + i);                                                     \
        for (int v = 0; v < V; v++) sums[r][v] = _mm256_fmadd_ps(value, b[v], sums[r][v]);                        \
      }                                                                                                           \
    }                                                                                                             \
    for (int r = 0; r < R; r++) {                                                                                 \
      for (int v = 0; v < V; v++) _mm256_storeu_ps(c + (size_t)r * c_pitch + 8 * v, sums[r][v]);                  \
    }                                                                                                             \
  }
#define SIX(X, name, V) X(name, V, 1) X(name, V, 2) X(name, V, 3) X(name, V, 4) X(name, V, 5) X(name, V, 6)
SIX(PART_AVX2, part_avx2, 2)
SIX(PART_AVX2, narrow_avx2, 1)
#define PAIR_AVX2(name, part, R)                                                                          \
  static void name##_##R(const float *const *a, size_t k, const float *panel, float *c, size_t c_pitch) { \
    static const block_function parts[] = {part##_1, part##_2, part##_3, part##_4, part##_5, part##_6};   \
    const size_t first = R <= 6 ? R : (R + 1) / 2;                                                        \
    parts[first - 1](a, k, panel, c, c_pitch);                                                            \
    if (first < R) parts[R - first - 1](a + first, k, panel, c + first * c_pitch, c_pitch);               \
  }
#define WHOLE_AVX2(R, U) PAIR_AVX2(whole_avx2, part_avx2, R)
#define HALF_AVX2(R, U) PAIR_AVX2(half_avx2, narrow_avx2, R)
ALL_ROWS(WHOLE_AVX2)
ALL_ROWS(HALF_AVX2)
#endif

// Any processor: vectors of four, which are registers on ARM and SSE.
typedef float quad __attribute__((vector_size(16), aligned(4)));
#define BLOCK_PLAIN(name, V, R)                                                                           \
  static void name##_##R(const float *const *a, size_t k, const float *panel, float *c, size_t c_pitch) { \
    quad sums[R][V];                                                                                      \
    for (int r = 0; r < R; r++) {                                                                         \
      for (int v = 0; v < V; v++) sums[r][v] = (quad){0};                                                 \
    }                                                                                                     \
    for (size_t i = 0; i < k; i++) {                                                                      \
      const quad *b = (const quad *)(panel + 4 * V * i);                                                  \
      for (int r = 0; r < R; r++) {                                                                       \
        for (int v = 0; v < V; v++) sums[r][v] += a[r][i] * b[v];                                         \
      }                                                                                                   \
    }                                                                                                     \
    for (int r = 0; r < R; r++) {                                                                         \
      for (int v = 0; v < V; v++) *(quad *)(c + (size_t)r * c_pitch + 4 * v) = sums[r][v];                \
    }                                                                                                     \
  }
#define WHOLE_PLAIN(R, U) BLOCK_PLAIN(whole_plain, 2, R)
#define HALF_PLAIN(R, U) BLOCK_PLAIN(half_plain, 1, R)
ALL_ROWS(WHOLE_PLAIN)
ALL_ROWS(HALF_PLAIN)

typedef struct engine {
  size_t columns; // Of a whole panel; a half panel has half of them.
  block_function whole[ITG_GEMM_MAX_ROWS], half[ITG_GEMM_MAX_ROWS];
} engine;

#define NAME_WHOLE_PLAIN(R, U) whole_plain_##R,
#define NAME_HALF_PLAIN(R, U) half_plain_##R,
static const engine plain = {8, {ALL_ROWS(NAME_WHOLE_PLAIN)}, {ALL_ROWS(NAME_HALF_PLAIN)}};
#if defined(__x86_64__)
#define NAME_WHOLE_AVX512(R, U) whole_avx512_##R,
#define NAME_HALF_AVX512(R, U) half_avx512_##R,
#define NAME_WHOLE_AVX2(R, U) whole_avx2_##R,
#define NAME_HALF_AVX2(R, U) half_avx2_##R,
static const engine avx512 = {32, {ALL_ROWS(NAME_WHOLE_AVX512)}, {ALL_ROWS(NAME_HALF_AVX512)}};
static const engine avx2 = {16, {ALL_ROWS(NAME_WHOLE_AVX2)}, {ALL_ROWS(NAME_HALF_AVX2)}};
#endif

static const engine *choose_engine(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return &avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2;
#endif
  return &plain;
}

size_t itg_gemm_columns(void) { return choose_engine()->columns; }

size_t itg_gemm_panel_width(size_t remaining) {
  const size_t columns = itg_gemm_columns();
  return remaining <= columns / 2 ? columns / 2 : columns;
}

size_t itg_gemm_packed_count(size_t k, size_t n) {
  const size_t columns = itg_gemm_columns(), rest = n % columns;
  return (n - rest + (rest ? itg_gemm_panel_width(rest) : 0)) * k;
}

void itg_gemm_pack(const float *b, size_t row_stride, size_t column_stride, size_t k, size_t n, float *panels) {
  size_t width;
  for (size_t j0 = 0; j0 < n; j0 += width) {
    width = itg_gemm_panel_width(n - j0);
    const size_t present = n - j0 < width ? n - j0 : width;
    const float *from = b + j0 * column_stride;
    for (size_t i = 0; i < k; i++, panels += width, from += row_stride) {
      if (column_stride == 1) {
        for (size_t j = 0; j < present; j++) panels[j] = from[j];
      } else {
        for (size_t j = 0; j < present; j++) panels[j] = from[j * column_stride];
      }
      for (size_t j = present; j < width; j++) panels[j] = 0;
    }
  }
}

void itg_gemm_rows(const float *const *a, size_t rows, size_t k, const float *panels, size_t n, float *c,
                   size_t c_pitch) {
  const engine *chosen = choose_engine();
  const size_t columns = chosen->columns;
  size_t j = 0;
  for (; j + columns <= n; j += columns) chosen->whole[rows - 1](a, k, panels + j * k, c + j, c_pitch);
  if (j == n) return;
  const size_t width = itg_gemm_panel_width(n - j);
  const block_function block = width == columns ? chosen->whole[rows - 1] : chosen->half[rows - 1];
  if (n - j == width) {
    block(a, k, panels + j * k, c + j, c_pitch);
    return;
  }
  float edge[ITG_GEMM_MAX_ROWS * ITG_GEMM_MAX_COLUMNS];
  block(a, k, panels + j * k, edge, width);
  for (size_t r = 0; r < rows; r++) {
    for (size_t i = 0; i < n - j; i++) c[r * c_pitch + j + i] = edge[r * width + i];
  }
}

void itg_gemm(const float *a, size_t a_pitch, size_t m, size_t k, const float *panels, size_t n, float *c,
              size_t c_pitch) {
  const size_t columns = itg_gemm_columns();
  size_t chunk = k ? CHUNK_FLOATS / k / columns * columns : n;
  if (chunk < columns) chunk = columns;
  for (size_t j = 0; j < n; j += chunk) {
    const size_t width = n - j < chunk ? n - j : chunk;
    size_t rows;
    for (size_t r = 0; r < m; r += rows) {
      rows = itg_gemm_next_rows(m - r);
      const float *pointers[ITG_GEMM_MAX_ROWS];
      for (size_t i = 0; i < rows; i++) pointers[i] = a + (r + i) * a_pitch;
      itg_gemm_rows(pointers, rows, k, panels + j * k, width, c + r * c_pitch + j, c_pitch);
    }
  }
}
