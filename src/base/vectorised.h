// Compiles a loop for several x86 vector widths; the dynamic linker picks one. Results may differ in the last bit between
// machines, never between runs on one machine. Not under sanitizers, whose instrumentation may not run that early.
#ifndef ITG_BASE_VECTORISED_H
#define ITG_BASE_VECTORISED_H

#if defined(__x86_64__) && defined(__ELF__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define ITG_VECTORISED __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define ITG_VECTORISED
#endif

#endif
