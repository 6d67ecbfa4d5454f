// Matrix products of f32.
#ifndef ITG_INTERPRET_GEMM_H
#define ITG_INTERPRET_GEMM_H

#include <stdbool.h>
#include <stddef.h>

// c = op(a)*op(b), row-major: op(a) [m, k], op(b) [k, n], c [m, n]. Pitches are the distances of the stored rows. All
// dimensions fit an int.
void itg_gemm_f32(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const float *a, size_t a_pitch,
                  const float *b, size_t b_pitch, float *c, size_t c_pitch);

#endif
