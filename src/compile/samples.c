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

static size_t whole_index(const itg_sample_cut *cut, size_t index) {
  return cut->selects ? 4 * index + 3 : index + index / 3;
}

static itg_status read_cut(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  const itg_sample_cut *cut = context;
  return cut->all.read(cut->all.context, whole_index(cut, index), inputs, diagnostic);
}

itg_samples itg_samples_cut(const itg_samples *all, bool selects, itg_sample_cut *cut) {
  *cut = (itg_sample_cut){*all, selects};
  if (all->count < ITG_MIN_SAMPLES_TO_CUT) return *all;
  const size_t selecting = all->count / 4;
  return (itg_samples){.context = cut, .count = selects ? selecting : all->count - selecting, .read = read_cut};
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

itg_status itg_session_feed_create(const itg_tensor_info *inputs, size_t count, const itg_model *model,
                                   itg_arena *arena, itg_diagnostic *diagnostic, itg_session_feed *out) {
  itg_session_feed feed = {inputs, count, itg_arena_array(arena, count, sizeof *feed.converted)};
  ITG_TRY_MEMORY(feed.converted, diagnostic);
  for (size_t i = 0; i < count; i++) {
    if (itg_dtype_is_float(inputs[i].dtype) || inputs[i].dtype == itg_model_input(model, i)->dtype) continue;
    feed.converted[i] = itg_arena_array(arena, inputs[i].count, sizeof(float));
    ITG_TRY_MEMORY(feed.converted[i], diagnostic);
  }
  *out = feed;
  return ITG_OK;
}

itg_status itg_session_feed_set(const itg_session_feed *feed, itg_session *session, void *const *values,
                                itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < feed->count; i++) {
    const itg_tensor_info *info = &feed->inputs[i];
    if (feed->converted[i]) {
      itg_public_to_float(info->dtype, values[i], feed->converted[i], info->count);
      ITG_TRY(itg_session_set_input(session, i, feed->converted[i], info->count, diagnostic));
    } else if (itg_dtype_is_float(info->dtype)) {
      ITG_TRY(itg_session_set_input(session, i, values[i], info->count, diagnostic));
    } else {
      ITG_TRY(
          itg_session_set_input_codes(session, i, values[i], info->count * itg_dtype_size(info->dtype), diagnostic));
    }
  }
  return ITG_OK;
}
