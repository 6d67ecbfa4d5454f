// What is measured on one tensor of one sample: the inner loops of calibration.
#ifndef ITG_CALIBRATE_OBSERVE_H
#define ITG_CALIBRATE_OBSERVE_H

#include <stdint.h>

// Ranges and sums a channel over `rows` x `channels` values (channels fastest). low, high, sum and squares have one entry
// a channel and are overwritten. A value that is not finite shows in low, high or sum.
void itg_observe_channels(const float *values, int64_t rows, int64_t channels, float *low, float *high, double *sum,
                          double *squares);

enum { ITG_OBSERVE_LANES = 4 };
// Adds `count` values to `bins` (even bins over [low, high]; values outside count in the outer ones).
// `scratch`: ITG_OBSERVE_LANES * bin_count entries, all zero before and after.
void itg_observe_histogram(const float *values, int64_t count, double low, double high, int32_t bin_count,
                           uint64_t *bins, uint32_t *scratch);

#endif
