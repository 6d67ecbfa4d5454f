// Samples in the forms the compiler needs: public values, the graph's own dtypes (calibration), and a hash of all.
#ifndef ITG_COMPILE_SAMPLES_H
#define ITG_COMPILE_SAMPLES_H

#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "graph/graph.h"
#include "intaglio/compiler.h"

// Room for the public values of one sample a graph's inputs or outputs, in `arena`.
ITG_MUST_USE itg_status itg_sample_buffers(const itg_tensor_info *infos, size_t count, itg_arena *arena,
                                           itg_diagnostic *diagnostic, void ***out);

// Samples that are given to calibrate, cut in two when something has to be chosen on samples of its own: of each four, the last
// selects. With fewer than four all of them do both.
typedef struct itg_sample_cut {
  itg_samples all;
  bool selects; // This part: those that select, or those that calibrate.
} itg_sample_cut;
enum { ITG_MIN_SAMPLES_TO_CUT = 4 };
// The part as samples of its own; `cut` is filled and must live as long as they do.
itg_samples itg_samples_cut(const itg_samples *all, bool selects, itg_sample_cut *cut);

// Feeds itg_calibrate from public samples and hashes the public bytes of every sample once. One thread at a time.
typedef struct itg_calibration_feed {
  itg_samples samples;
  const itg_tensor_info *infos;
  size_t input_count;
  void **values; // Public values of one sample.
  size_t hashed; // Samples hashed so far, in order.
  uint64_t hash; // XXH3, chained: seeded with the hash of the samples before.
} itg_calibration_feed;

// An itg_sample_source read function; `context` is an itg_calibration_feed.
itg_status itg_calibration_feed_read(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic);

// Gives public samples to sessions of a model: as floats where the program takes floats, as codes where it takes integers.
typedef struct itg_session_feed {
  const itg_tensor_info *inputs; // Of the float network.
  size_t count;
  float **converted; // One an input: room for its values as floats, NULL where they are passed as they are.
} itg_session_feed;
ITG_MUST_USE itg_status itg_session_feed_create(const itg_tensor_info *inputs, size_t count, const itg_model *model,
                                                itg_arena *arena, itg_diagnostic *diagnostic, itg_session_feed *out);
// values[i]: as itg_samples.read fills them. One thread at a time for one feed.
ITG_MUST_USE itg_status itg_session_feed_set(const itg_session_feed *feed, itg_session *session, void *const *values,
                                             itg_diagnostic *diagnostic);

#endif
