// Subnormal floats count as zero while a graph runs: trained weights hold thousands of them, and each costs the processor
// over a hundred cycles. The caller's mode is restored afterwards. No effect on machines whose mode we do not know.
#ifndef ITG_INTERPRET_SUBNORMALS_H
#define ITG_INTERPRET_SUBNORMALS_H

#if defined(__x86_64__)
#include <xmmintrin.h>
static inline unsigned itg_subnormals_off(void) {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040u); // Flush to zero (results), denormals are zero (operands).
  return saved;
}
static inline void itg_subnormals_restore(unsigned saved) { _mm_setcsr(saved); }
#else
static inline unsigned itg_subnormals_off(void) { return 0; }
static inline void itg_subnormals_restore(unsigned saved) { (void)saved; }
#endif

#endif
