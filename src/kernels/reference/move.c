// Moving codes: copies with strides, concat, pad, gather, embedding rows, resize (docs/ARITHMETIC.md 3).
#include "graph/attributes.h"
#include "graph/op.h"
#include "kernels/reference/access.h"

static void move_element(void *out, int64_t to, const void *in, int64_t from, int32_t size) {
  __builtin_memcpy((char *)out + to * size, (const char *)in + from * size, (size_t)size);
}

static int64_t product(const int64_t *dims, int32_t rank) {
  int64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= dims[i];
  return count;
}

enum { CHUNK = 4096 };
static size_t chunks(int64_t count) { return ((size_t)count + CHUNK - 1) / CHUNK; }
static int64_t chunk_end(size_t end, int64_t count) {
  return (int64_t)end * CHUNK < count ? (int64_t)end * CHUNK : count;
}

static size_t copy_units(const itg_task *task) { return chunks(product(task->copy.dims, task->copy.rank)); }

static void copy(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_copy_task *t = &task->copy;
  const int64_t last = chunk_end(end, product(t->dims, t->rank));
  for (int64_t i = (int64_t)begin * CHUNK; i < last; i++) {
    int64_t rest = i, from = t->offset;
    for (int32_t d = t->rank - 1; d >= 0; d--) {
      from += rest % t->dims[d] * t->stride[d];
      rest /= t->dims[d];
    }
    move_element(call->outputs[0], i, call->inputs[0], from, t->element_size);
  }
}

static size_t concat_units(const itg_task *task) { return (size_t)task->concat.outer; }

static void concat(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_concat_task *t = &task->concat;
  for (size_t outer = begin; outer < end; outer++) {
    char *out = (char *)call->outputs[0] + (int64_t)outer * t->total;
    for (int32_t i = 0; i < t->input_count; i++) {
      __builtin_memcpy(out, (const char *)call->inputs[i] + (int64_t)outer * t->inner[i], (size_t)t->inner[i]);
      out += t->inner[i];
    }
  }
}

static size_t pad_units(const itg_task *task) { return chunks(product(task->pad.out_dims, task->pad.rank)); }

// The input position of an output position in one dimension, or -1 where the constant goes.
static int64_t padded_position(int64_t position, int64_t size, int32_t mode) {
  if (position >= 0 && position < size) return position;
  switch (mode) {
  case ITG_PAD_EDGE: return position < 0 ? 0 : size - 1;
  case ITG_PAD_WRAP: return ((position % size) + size) % size;
  case ITG_PAD_REFLECT: {
    if (size == 1) return 0;
    const int64_t period = 2 * (size - 1);
    const int64_t folded = ((position % period) + period) % period;
    return folded < size ? folded : period - folded;
  }
  default: return -1;
  }
}

static void pad(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_pad_task *t = &task->pad;
  const int64_t last = chunk_end(end, product(t->out_dims, t->rank));
  for (int64_t i = (int64_t)begin * CHUNK; i < last; i++) {
    int64_t rest = i, from = 0, step = 1;
    int inside = 1;
    for (int32_t d = t->rank - 1; d >= 0; d--) {
      const int64_t position = padded_position(rest % t->out_dims[d] - t->begin[d], t->in_dims[d], t->mode);
      rest /= t->out_dims[d];
      inside = inside && position >= 0;
      from += position * step;
      step *= t->in_dims[d];
    }
    if (inside) {
      move_element(call->outputs[0], i, call->inputs[0], from, t->element_size);
    } else if (t->element_size == 1) {
      ((uint8_t *)call->outputs[0])[i] = (uint8_t)t->code;
    } else if (t->element_size == 2) {
      ((uint16_t *)call->outputs[0])[i] = (uint16_t)t->code;
    } else if (t->element_size == 4) {
      ((int32_t *)call->outputs[0])[i] = t->code;
    } else {
      ((int64_t *)call->outputs[0])[i] = t->code;
    }
  }
}

static int64_t load_index(const void *indices, int64_t at, int32_t type) {
  return type == ITG_TASK_S64 ? ((const int64_t *)indices)[at] : ((const int32_t *)indices)[at];
}

static size_t gather_units(const itg_task *task) { return (size_t)(task->gather.outer * task->gather.count); }

static void gather(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_gather_task *t = &task->gather;
  const int64_t bytes = t->inner * t->element_size;
  for (size_t unit = begin; unit < end; unit++) {
    const int64_t outer = (int64_t)unit / t->count;
    int64_t index = load_index(call->inputs[1], (int64_t)unit % t->count, t->index_type);
    if (index < 0) index += t->axis;
    char *out = (char *)call->outputs[0] + (int64_t)unit * bytes;
    if (index < 0 || index >= t->axis) {
      __builtin_memset(out, 0, (size_t)bytes);
    } else {
      __builtin_memcpy(out, (const char *)call->inputs[0] + (outer * t->axis + index) * bytes, (size_t)bytes);
    }
  }
}

static size_t embedding_units(const itg_task *task) { return (size_t)task->embedding.count; }

static void embedding(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_embedding_task *t = &task->embedding;
  for (size_t i = begin; i < end; i++) {
    int64_t id = load_index(call->inputs[0], (int64_t)i, t->id_type);
    if (id < 0) id += t->vocabulary;
    const int known = id >= 0 && id < t->vocabulary; // An unknown id gives real 0.
    for (int64_t d = 0; d < t->dim; d++) {
      int32_t code = t->out_zero;
      if (known)
        code = itg_requantize(t->rows[id * t->dim + d], t->multiplier[id], t->shift[id], t->out_zero, t->low, t->high);
      itg_store(call->outputs[0], (int64_t)i * t->dim + d, t->out_type, code);
    }
  }
}

static size_t resize_units(const itg_task *task) { return (size_t)task->resize.batch * (size_t)task->resize.out_h; }

static void resize(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_resize_task *t = &task->resize;
  for (size_t unit = begin; unit < end; unit++) {
    const int64_t n = (int64_t)unit / t->out_h, oy = (int64_t)unit % t->out_h;
    const int64_t wy = t->row_weight[oy];
    for (int64_t ox = 0; ox < t->out_w; ox++) {
      const int64_t wx = t->column_weight[ox];
      for (int64_t c = 0; c < t->channels; c++) {
        int64_t rows[2];
        for (int i = 0; i < 2; i++) {
          const int64_t base = (n * t->in_h + t->row_index[2 * oy + i]) * t->in_w;
          const int64_t a = itg_load(call->inputs[0], (base + t->column_index[2 * ox]) * t->channels + c, t->type);
          const int64_t b = itg_load(call->inputs[0], (base + t->column_index[2 * ox + 1]) * t->channels + c, t->type);
          rows[i] = a * (2048 - wx) + b * wx;
        }
        const int64_t value = (rows[0] * (2048 - wy) + rows[1] * wy + ((int64_t)1 << 21)) >> 22;
        itg_store(call->outputs[0], ((int64_t)unit * t->out_w + ox) * t->channels + c, t->type, (int32_t)value);
      }
    }
  }
}

#define MOVE(symbol, operation, count, function) \
  const itg_kernel symbol = {.name = #symbol, .op = operation, .units = count, .run = function}
MOVE(itg_identity__reference, ITG_OP_IDENTITY, copy_units, copy);
MOVE(itg_reshape__reference, ITG_OP_RESHAPE, copy_units, copy);
MOVE(itg_transpose__reference, ITG_OP_TRANSPOSE, copy_units, copy);
MOVE(itg_slice__reference, ITG_OP_SLICE, copy_units, copy);
MOVE(itg_expand__reference, ITG_OP_EXPAND, copy_units, copy);
MOVE(itg_tile__reference, ITG_OP_TILE, copy_units, copy);
MOVE(itg_depth_to_space__reference, ITG_OP_DEPTH_TO_SPACE, copy_units, copy);
MOVE(itg_space_to_depth__reference, ITG_OP_SPACE_TO_DEPTH, copy_units, copy);
MOVE(itg_concat__reference, ITG_OP_CONCAT, concat_units, concat);
MOVE(itg_pad__reference, ITG_OP_PAD, pad_units, pad);
MOVE(itg_gather__reference, ITG_OP_GATHER, gather_units, gather);
MOVE(itg_embedding__reference, ITG_OP_Q_EMBEDDING, embedding_units, embedding);
MOVE(itg_resize__reference, ITG_OP_Q_RESIZE, resize_units, resize);
