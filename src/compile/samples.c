// See samples.h.
#include "compile/samples.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compile/float_network.h"

itg_status itg_sample_buffers(const itg_tensor_info *infos, size_t count, itg_arena *arena, itg_diagnostic *diagnostic,
                              void ***out) {
  void **buffers = itg_arena_array(arena, count, sizeof *buffers);
  ITG_TRY_MEMORY(buffers, diagnostic);
  for (size_t i = 0; i < count; i++) {
    size_t bytes;
    if (!itg_public_bytes(&infos[i], &bytes))
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, infos[i].name, "has too many elements");
    buffers[i] = itg_arena_allocate(arena, bytes);
    ITG_TRY_MEMORY(buffers[i], diagnostic);
  }
  *out = buffers;
  return ITG_OK;
}

itg_status itg_calibration_feed_read(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  itg_calibration_feed *feed = context;
  ITG_TRY(feed->samples.read(feed->samples.context, index, feed->values, diagnostic));
  const bool first_time = index == feed->hashed;
  for (size_t i = 0; i < feed->input_count; i++) {
    const itg_tensor_info *info = &feed->infos[i];
    size_t bytes;
    if (first_time && itg_public_bytes(info, &bytes))
      feed->hash = XXH3_64bits_withSeed(feed->values[i], bytes, feed->hash);
    itg_from_public(info->dtype, feed->values[i], inputs[i], info->count);
  }
  if (first_time) feed->hashed++;
  return ITG_OK;
}
