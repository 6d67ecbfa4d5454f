// Statistics of every activation of a float graph over real samples.
#ifndef ITG_CALIBRATE_CALIBRATE_H
#define ITG_CALIBRATE_CALIBRATE_H

#include "adapt/methods.h"
#include "base/parallel.h"
#include "graph/graph.h"
#include "interpret/interpret.h"

enum { ITG_HISTOGRAM_BINS = 2048 };

// Of one tensor; `histogram` covers [low, high] evenly. Arena memory of the statistics object.
typedef struct itg_tensor_statistics {
  double low, high; // Over all samples and elements; finite.
  double sum, sum_squares;
  uint64_t count;
  uint64_t *histogram;                   // [ITG_HISTOGRAM_BINS]; NULL for tensors that are not f32.
  int64_t channels;                      // Size of the last dimension.
  float *channel_low, *channel_high;     // [channels]
  double *channel_sum, *channel_squares; // [channels]
  uint64_t channel_count;                // Elements a channel.
} itg_tensor_statistics;

typedef struct itg_statistics itg_statistics; // Immutable once collected; share freely.

// Where samples come from. Fills inputs[i] (dense, dtype and shape of graph->inputs[i]) with sample `index`; called from
// one thread at a time, in order. The callback owns nothing afterwards.
typedef struct itg_sample_source {
  void *context;
  size_t count;
  itg_status (*read)(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic);
} itg_sample_source;

// Two passes over the samples (ranges, then histograms), samples side by side on the pool; the result does not depend on
// the number of threads, bit for bit. Memory: one state a thread.
// Errors: ARGUMENT (no samples), QUANTIZATION (a tensor is not finite; named), CANCELLED, those of the source.
ITG_MUST_USE itg_status itg_calibrate(const itg_graph *graph, const itg_sample_source *samples, itg_pool *pool,
                                      itg_progress_function progress, void *progress_context,
                                      itg_diagnostic *diagnostic, itg_statistics **out);
// What calibration over sequences needs beside the samples. Functions get the samples' context.
typedef struct itg_sequence_hooks {
  // How many rows of sample `index` there are, the first `skipped` included, which do not count: of tensors [1,T,..] and
  // [H,T,..] with the T of input 0 only the others are measured.
  int64_t (*rows)(void *context, size_t index);
  int64_t skipped;
  // Receives every activation of every sample once; called from several threads, each with its own sample.
  void (*keep)(void *context, size_t index, const itg_tensor *tensor, const void *data);
} itg_sequence_hooks;
// itg_calibrate for sequences that need not fill the graph's rows. Errors: as above.
ITG_MUST_USE itg_status itg_calibrate_sequences(const itg_graph *graph, const itg_sample_source *samples,
                                                const itg_sequence_hooks *hooks, itg_pool *pool,
                                                itg_diagnostic *diagnostic, itg_statistics **out);
// What the graph gets besides statistics.
typedef struct itg_equalization {
  int32_t operand_bits;        // 8 or 16: what convolutions and fully connected layers will read.
  bool wide_stream;            // 8-bit operands may be converted from 16-bit tensors.
  itg_methods_off methods_off; // STREAM_REBASING, CHANNEL_EQUALIZATION, SCALE_MIGRATION.
} itg_equalization;

// itg_calibrate that makes channels alike in between: streams are re-based (rebase_streams.h), scales and shifts migrate into weights
// (migrate_scales.h). The graph changes, the statistics are those of the changed graph. Gains of streams are powers of two
// and so scale what the first pass found exactly; when scales migrate, the first pass is repeated. After an error the
// graph is of no more use: destroy it. Errors: as above.
ITG_MUST_USE itg_status itg_calibrate_and_equalize(itg_graph *graph, const itg_equalization *equalization,
                                                   const itg_sample_source *samples, itg_pool *pool,
                                                   itg_progress_function progress, void *progress_context,
                                                   itg_diagnostic *diagnostic, itg_statistics **out);
// The same statistics for a clone of the calibrated graph, found by the names of its tensors. They share the memory of
// `statistics`, which must outlive them. Errors: MEMORY.
ITG_MUST_USE itg_status itg_statistics_of_clone(const itg_statistics *statistics, const itg_graph *clone,
                                                itg_diagnostic *diagnostic, itg_statistics **out);
void itg_statistics_destroy(itg_statistics *statistics);
// Where the statistics come from, for steps that must see the samples once more. What its context points to must then still
// live. No samples after itg_calibrate_sequences.
const itg_sample_source *itg_statistics_samples(const itg_statistics *statistics);
// NULL for constants and unknown tensors. `tensor` belongs to the calibrated graph.
const itg_tensor_statistics *itg_statistics_of(const itg_statistics *statistics, const itg_tensor *tensor);

#endif
