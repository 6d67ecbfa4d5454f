// See statistics.h.
#include "server/statistics.h"

#include <math.h>
#include <time.h>

static const double FIRST = 1e-5, CLASSES_A_DECADE = 20;

void itg_statistics_add(itg_statistics *statistics, double seconds) {
  const double position = seconds > FIRST ? CLASSES_A_DECADE * log10(seconds / FIRST) : 0;
  const int index = position < ITG_STATISTICS_CLASSES - 1 ? (int)position : ITG_STATISTICS_CLASSES - 1;
  atomic_fetch_add(&statistics->classes[index], 1);
  atomic_fetch_add(&statistics->count, 1);
  atomic_fetch_add(&statistics->microseconds, (uint_fast64_t)(1e6 * seconds));
}

double itg_statistics_percentile(const itg_statistics *statistics, double share) {
  const uint_fast64_t count = atomic_load(&statistics->count);
  uint_fast64_t before = 0;
  for (int i = 0; count > 0 && i < ITG_STATISTICS_CLASSES; i++) {
    before += atomic_load(&statistics->classes[i]);
    if ((double)before >= share * (double)count) return FIRST * pow(10, (i + 0.5) / CLASSES_A_DECADE);
  }
  return 0;
}

double itg_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
