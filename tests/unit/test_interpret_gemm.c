// Every micro-kernel that this processor can run, not only the best one: all row counts, whole and half panels.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "../../src/interpret/packed_gemm.c" // The engines are not visible outside of it.

enum { K = 29, PITCH = ITG_GEMM_MAX_COLUMNS + 5 };

static float value_at(size_t i) { return (float)((i * 2654435761u >> 7) % 2001) / 1000.0f - 1.0f; }

static void check_block(block_function block, size_t rows, size_t width, size_t k) {
  static float a[ITG_GEMM_MAX_ROWS][K], c[ITG_GEMM_MAX_ROWS * PITCH];
  static _Alignas(64) float panel[K * ITG_GEMM_MAX_COLUMNS];
  const float *pointers[ITG_GEMM_MAX_ROWS];
  for (size_t r = 0; r < rows; r++) {
    for (size_t i = 0; i < k; i++) a[r][i] = value_at(r * K + i + 11);
    pointers[r] = a[r];
  }
  for (size_t i = 0; i < k * width; i++) panel[i] = value_at(i + 5000);
  for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) c[i] = 77;
  block(pointers, k, panel, c, PITCH);
  for (size_t r = 0; r < ITG_GEMM_MAX_ROWS; r++) {
    for (size_t j = 0; j < PITCH; j++) {
      double expected = r < rows && j < width ? 0 : 77; // Nothing is written beside the block.
      for (size_t i = 0; r < rows && j < width && i < k; i++)
        expected += (double)a[r][i] * (double)panel[i * width + j];
      assert_true(fabs((double)c[r * PITCH + j] - expected) < 1e-5);
    }
  }
}

static void check_engine(const engine *e) {
  for (size_t rows = 1; rows <= ITG_GEMM_MAX_ROWS; rows++) {
    for (size_t k = 0; k <= K; k++) {
      check_block(e->whole[rows - 1], rows, e->columns, k);
      check_block(e->half[rows - 1], rows, e->columns / 2, k);
    }
  }
}

static void every_engine_multiplies_right(void **state) {
  (void)state;
  check_engine(&plain);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) check_engine(&avx2);
  if (__builtin_cpu_supports("avx512f")) check_engine(&avx512);
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_engine_multiplies_right)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
