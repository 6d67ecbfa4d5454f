// Products with a prepared right side: c[r][j] = sum over k of a[r][k]*b[k][j], with b packed into panels of a few columns.
//
// Rows of `a` are given by pointers, so that a strided convolution reads its pixels where they are. Convolutions in both
// layouts are such products: channels last packs the weights and reads pixels as rows; channels first packs a tile of
// pixels and reads weights as rows.
#ifndef ITG_INTERPRET_PACKED_GEMM_H
#define ITG_INTERPRET_PACKED_GEMM_H

#include <stddef.h>

enum { ITG_GEMM_MAX_ROWS = 12, ITG_GEMM_MAX_COLUMNS = 32 };

// Columns of a panel on this machine: 32, 16 or 8. A panel holds k*columns floats: [k][columns]. The last panel is a half
// one when that suffices.
size_t itg_gemm_columns(void);
// Columns of the panel that starts `remaining` columns before the end.
size_t itg_gemm_panel_width(size_t remaining);
// Floats of all panels of an [k, n] matrix.
size_t itg_gemm_packed_count(size_t k, size_t n);
// Packs b, whose element (row i, column j) is b[i*row_stride + j*column_stride]; missing columns become 0. `panels` is
// aligned to 64 bytes.
void itg_gemm_pack(const float *b, size_t row_stride, size_t column_stride, size_t k, size_t n, float *panels);
// c[r*c_pitch + j] for r < rows <= ITG_GEMM_MAX_ROWS, j < n. `a`: one pointer a row.
void itg_gemm_rows(const float *const *a, size_t rows, size_t k, const float *panels, size_t n, float *c,
                   size_t c_pitch);
// All rows of c = a*b; a is [m, k] with rows `a_pitch` apart. k may be 0.
void itg_gemm(const float *a, size_t a_pitch, size_t m, size_t k, const float *panels, size_t n, float *c,
              size_t c_pitch);
// How many of the remaining rows to give to the next call, so that blocks are even.
static inline size_t itg_gemm_next_rows(size_t remaining) {
  const size_t blocks = (remaining + ITG_GEMM_MAX_ROWS - 1) / ITG_GEMM_MAX_ROWS;
  return blocks ? (remaining + blocks - 1) / blocks : 0;
}

#endif
