// Durations in logarithmic classes: percentiles within 6 % in constant memory. Any thread, without locks.
#ifndef ITG_SERVER_STATISTICS_H
#define ITG_SERVER_STATISTICS_H

#include <stdatomic.h>
#include <stdint.h>

enum { ITG_STATISTICS_CLASSES = 160 }; // From 10 microseconds, 20 a factor of ten.

typedef struct itg_statistics { // Starts as zeroes.
  atomic_uint_fast64_t classes[ITG_STATISTICS_CLASSES];
  atomic_uint_fast64_t count, microseconds; // Sum.
} itg_statistics;

void itg_statistics_add(itg_statistics *statistics, double seconds);
// Seconds below which `share` (0..1) of all durations lie; 0 without any.
double itg_statistics_percentile(const itg_statistics *statistics, double share);

// Seconds of a clock that never jumps.
double itg_clock(void);

#endif
