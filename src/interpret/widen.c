// Constants in a form that kernels can read; see widen.h.
#include "interpret/widen.h"

#include "interpret/executor.h"

itg_status itg_aligned_constant(const itg_tensor *tensor, itg_dtype dtype, itg_arena *arena, itg_diagnostic *diagnostic,
                                void **out) {
  const void *data = tensor->data;
  const size_t alignment = itg_dtype_size(tensor->dtype);
  size_t count, bytes;
  if (!itg_shape_count(&tensor->shape, &count) || !itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, tensor->name, "the constant is too large");
  if (alignment > 1 && (uintptr_t)data % alignment != 0) {
    data = itg_arena_copy(arena, data, bytes);
    ITG_TRY_MEMORY(data, diagnostic);
  }
  if (dtype != tensor->dtype) {
    void *wide = itg_arena_array(arena, count, itg_dtype_size(dtype));
    ITG_TRY_MEMORY(wide, diagnostic);
    itg_convert(tensor->dtype, data, dtype, wide, count);
    data = wide;
  }
  *out = (void *)data;
  return ITG_OK;
}
