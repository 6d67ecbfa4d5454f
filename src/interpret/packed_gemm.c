// Micro-kernels of packed_gemm.h: a block of up to 12 rows times one panel, all sums in registers.
#include "interpret/packed_gemm.h"

#include <stdbool.h>
#include <string.h>

// c: [rows][c_pitch], one panel wide.
typedef void (*block_function)(const float *const *a, size_t k, const float *panel, float *c, size_t c_pitch);

#define ALL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)

#if defined(__x86_64__)
#include <immintrin.h>

#define BLOCK_AVX512(R)                                                                                                \
  __attribute__((target("avx512f"))) static void block_avx512_##R(const float *const *a, size_t k, const float *panel, \
                                                                  float *c, size_t c_pitch) {                          \
    __m512 low[R], high[R];                                                                                            \
    const float *row[R];                                                                                               \
    for (int r = 0; r < R; r++) {                                                                                      \
      low[r] = high[r] = _mm512_setzero_ps();                                                                          \
      row[r] = a[r];                                                                                                   \
    }                                                                                                                  \
    for (size_t i = 0; i < k; i++) {                                                                                   \
      const __m512 b0 = _mm512_load_ps(panel + 32 * i), b1 = _mm512_load_ps(panel + 32 * i + 16);                      \
      for (int r = 0; r < R; r++) {                                                                                    \
        const __m512 value = _mm512_set1_ps(row[r][i]);                                                                \
        low[r] = _mm512_fmadd_ps(value, b0, low[r]);                                                                   \
        high[r] = _mm512_fmadd_ps(value, b1, high[r]);                                                                 \
      }                                                                                                                \
    }                                                                                                                  \
    for (int r = 0; r < R; r++) {                                                                                      \
      _mm512_storeu_ps(c + (size_t)r * c_pitch, low[r]);                                                               \
      _mm512_storeu_ps(c + (size_t)r * c_pitch + 16, high[r]);                                                         \
    }                                                                                                                  \
  }
ALL_ROWS(BLOCK_AVX512)

// 16 registers: six rows at a time.
#define BLOCK_AVX2(R)                                                                                                \
  __attribute__((target("avx2,fma"))) static void half_avx2_##R(const float *const *a, size_t k, const float *panel, \
                                                                float *c, size_t c_pitch) {                          \
    __m256 low[R], high[R];                                                                                          \
    const float *row[R];                                                                                             \
    for (int r = 0; r < R; r++) {                                                                                    \
      low[r] = high[r] = _mm256_setzero_ps();                                                                        \
      row[r] = a[r];                                                                                                 \
    }                                                                                                                \
    for (size_t i = 0; i < k; i++) {                                                                                 \
      const __m256 b0 = _mm256_load_ps(panel + 16 * i), b1 = _mm256_load_ps(panel + 16 * i + 8);                     \
      for (int r = 0; r < R; r++) {                                                                                  \
        const __m256 value = _mm256_broadcast_ss(row[r] + i);                                                        \
        low[r] = _mm256_fmadd_ps(value, b0, low[r]);                                                                 \
        high[r] = _mm256_fmadd_ps(value, b1, high[r]);                                                               \
      }                                                                                                              \
    }                                                                                                                \
    for (int r = 0; r < R; r++) {                                                                                    \
      _mm256_storeu_ps(c + (size_t)r * c_pitch, low[r]);                                                             \
      _mm256_storeu_ps(c + (size_t)r * c_pitch + 8, high[r]);                                                        \
    }                                                                                                                \
  }
BLOCK_AVX2(1)
BLOCK_AVX2(2)
BLOCK_AVX2(3) BLOCK_AVX2(4) BLOCK_AVX2(5) BLOCK_AVX2(6)
#define PAIR_AVX2(R)                                                                                          \
  static void block_avx2_##R(const float *const *a, size_t k, const float *panel, float *c, size_t c_pitch) { \
    static const block_function halves[] = {half_avx2_1, half_avx2_2, half_avx2_3,                            \
                                            half_avx2_4, half_avx2_5, half_avx2_6};                           \
    enum { FIRST = (R + 1) / 2 };                                                                             \
    if (R <= 6) {                                                                                             \
      halves[(R <= 6 ? R : 1) - 1](a, k, panel, c, c_pitch);                                                  \
      return;                                                                                                 \
    }                                                                                                         \
    halves[FIRST - 1](a, k, panel, c, c_pitch);                                                               \
    halves[R - FIRST > 0 ? R - FIRST - 1 : 0](a + FIRST, k, panel, c + (size_t)FIRST * c_pitch, c_pitch);     \
  }
    ALL_ROWS(PAIR_AVX2)
#endif

#define BLOCK_PLAIN(R)                                                                                         \
  static void block_plain_##R(const float *const *a, size_t k, const float *panel, float *c, size_t c_pitch) { \
    for (int r = 0; r < R; r++) {                                                                              \
      float sums[8] = {0};                                                                                     \
      for (size_t i = 0; i < k; i++) {                                                                         \
        for (int j = 0; j < 8; j++) sums[j] += a[r][i] * panel[8 * i + (size_t)j];                             \
      }                                                                                                        \
      memcpy(c + (size_t)r * c_pitch, sums, sizeof sums);                                                      \
    }                                                                                                          \
  }
        ALL_ROWS(BLOCK_PLAIN)

            typedef struct engine {
  size_t columns;
  block_function blocks[ITG_GEMM_MAX_ROWS];
} engine;

#define PLAIN(R) block_plain_##R,
static const engine plain = {8, {ALL_ROWS(PLAIN)}};
#if defined(__x86_64__)
#define AVX512(R) block_avx512_##R,
#define AVX2(R) block_avx2_##R,
static const engine avx512 = {32, {ALL_ROWS(AVX512)}};
static const engine avx2 = {16, {ALL_ROWS(AVX2)}};
#endif

static const engine *choose_engine(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return &avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2;
#endif
  return &plain;
}

size_t itg_gemm_columns(void) { return choose_engine()->columns; }

size_t itg_gemm_packed_count(size_t k, size_t n) {
  const size_t columns = itg_gemm_columns();
  return (n + columns - 1) / columns * columns * k;
}

void itg_gemm_pack(const float *b, size_t row_stride, size_t column_stride, size_t k, size_t n, float *panels) {
  const size_t columns = itg_gemm_columns();
  for (size_t j0 = 0; j0 < n; j0 += columns) {
    const size_t width = n - j0 < columns ? n - j0 : columns;
    for (size_t i = 0; i < k; i++, panels += columns) {
      for (size_t j = 0; j < width; j++) panels[j] = b[i * row_stride + (j0 + j) * column_stride];
      for (size_t j = width; j < columns; j++) panels[j] = 0;
    }
  }
}

void itg_gemm_rows(const float *const *a, size_t rows, size_t k, const float *panels, size_t n, float *c,
                   size_t c_pitch) {
  const engine *chosen = choose_engine();
  const block_function block = chosen->blocks[rows - 1];
  const size_t columns = chosen->columns;
  size_t j = 0;
  for (; j + columns <= n; j += columns) block(a, k, panels + j * k, c + j, c_pitch);
  if (j == n) return;
  float edge[ITG_GEMM_MAX_ROWS * ITG_GEMM_MAX_COLUMNS];
  block(a, k, panels + j * k, edge, columns);
  for (size_t r = 0; r < rows; r++) memcpy(c + r * c_pitch + j, edge + r * columns, (n - j) * sizeof *c);
}
