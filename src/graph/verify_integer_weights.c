// Operations with weights, windows and index tables: the other half of verify_integer.c.
#include <stdlib.h>

#include "base/checked.h"
#include "graph/integer_ops.h"
#include "graph/verify_integer.h"
#include "graph/verify_integer_rules.h"
#include "tensor/nibbles.h"

typedef struct row_sums {
  int64_t magnitude;  // Sum of |w|.
  bool pair_sums_fit; // No two consecutive weights can make a sum of products with bytes leave 16 bits.
} row_sums;

// A sum of two products byte * weight lies in [255*(negative part), 255*(positive part)].
static bool pair_fits(int first, int second) {
  const int positive = (first > 0 ? first : 0) + (second > 0 ? second : 0);
  const int negative = (first < 0 ? first : 0) + (second < 0 ? second : 0);
  return 255 * positive <= INT16_MAX && 255 * negative >= INT16_MIN;
}

static row_sums sum_row(const int8_t *weight, int64_t count, bool pairs) {
  row_sums sums = {0, true};
  while (count > 0) { // In parts whose sum fits 32 bits, which compilers vectorise well.
    const int64_t part = itg_min_i64(count, 1 << 20);
    int32_t magnitude = 0;
    for (int64_t i = 0; i < part; i++) magnitude += abs(weight[i]);
    sums.magnitude += magnitude;
    int unfit = 0;
    const int64_t last = part < count ? part : part - 1; // The pair across the cut as well.
    for (int64_t i = 0; pairs && i < last; i++) unfit |= !pair_fits(weight[i], weight[i + 1]);
    if (unfit) sums.pair_sums_fit = false;
    weight += part;
    count -= part;
  }
  return sums;
}

static itg_status check_channel(const itg_node *node, row_sums sums, int64_t channel, itg_diagnostic *diagnostic) {
  const itg_q_conv_attributes *conv = &node->attributes.q_conv;
  const int64_t bias = ((const int32_t *)node->inputs[ITG_Q_CONV_BIAS]->data)[channel];
  const int64_t bound = sums.magnitude * itg_code_deviation(node->inputs[ITG_Q_CONV_X]) + llabs(bias);
  if (bound > conv->bound)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "the accumulator of channel %lld can reach %lld; the stated bound is %lld", (long long)channel,
             (long long)bound, (long long)conv->bound);
  if (conv->pair_sums_fit && !sums.pair_sums_fit)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "two products of channel %lld can leave 16 bits although the step says that none can", (long long)channel);
  return ITG_OK;
}

// Reads weights as s8 whatever their storage: s4 codes are unpacked, times their block's scale, into `buffer`.
typedef struct weight_reader {
  const itg_tensor *weight;
  const uint8_t *block_scale; // NULL: none
  int64_t block;
  int8_t *buffer; // As long as the longest part that is read; NULL for s8.
} weight_reader;

static const int8_t *read_weights(const weight_reader *reader, int64_t first, int64_t count) {
  if (!reader->buffer) return (const int8_t *)reader->weight->data + first;
  itg_nibbles_unpack(reader->weight->data, reader->block_scale, reader->block, first, count, reader->buffer);
  return reader->buffer;
}

// Transposed convolutions store [O/group,KH,KW,C]: the weights of output o of group g are the g-th part of each tap's row.
// Every tap may contribute to an output position, so the sum over all taps is a bound.
static itg_status check_transposed_rows(const itg_node *node, const weight_reader *reader, itg_diagnostic *diagnostic) {
  const itg_q_conv_attributes *conv = &node->attributes.q_conv;
  const itg_shape *shape = &node->inputs[ITG_Q_CONV_WEIGHT]->shape;
  const int64_t outputs = shape->dims[0], taps = shape->dims[1] * shape->dims[2], channels = shape->dims[3];
  const int64_t part = channels / conv->group;
  for (int64_t o = 0; o < outputs; o++) {
    for (int64_t g = 0; g < conv->group; g++) {
      row_sums sums = {0, true};
      for (int64_t tap = 0; tap < taps; tap++) {
        const int8_t *weight = read_weights(reader, (o * taps + tap) * channels + g * part, part);
        const row_sums row = sum_row(weight, part, conv->pair_sums_fit != 0);
        sums.magnitude += row.magnitude;
        sums.pair_sums_fit = sums.pair_sums_fit && row.pair_sums_fit;
      }
      ITG_TRY(check_channel(node, sums, g * outputs + o, diagnostic));
    }
  }
  return ITG_OK;
}

static itg_status check_rows(const itg_node *node, const weight_reader *reader, int64_t row,
                             itg_diagnostic *diagnostic) {
  if (node->op == ITG_OP_Q_CONV_TRANSPOSE) return check_transposed_rows(node, reader, diagnostic);
  for (int64_t o = 0; o < reader->weight->shape.dims[0]; o++) {
    const row_sums sums = sum_row(read_weights(reader, o * row, row), row, node->attributes.q_conv.pair_sums_fit != 0);
    ITG_TRY(check_channel(node, sums, o, diagnostic));
  }
  return ITG_OK;
}

static itg_status check_weights(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *weight = node->inputs[ITG_Q_CONV_WEIGHT];
  const itg_tensor *blocks = itg_node_input(node, ITG_Q_CONV_BLOCK_SCALE);
  size_t count;
  if (!itg_shape_count(&weight->shape, &count)) return ITG_ERROR_SHAPE;
  const int64_t row = (int64_t)count / weight->shape.dims[0];
  weight_reader reader = {.weight = weight};
  if (blocks) {
    reader.block_scale = blocks->data;
    reader.block = row / blocks->shape.dims[1];
    for (int64_t i = 0; i < blocks->shape.dims[0] * blocks->shape.dims[1]; i++) {
      if (reader.block_scale[i] < 1 || reader.block_scale[i] > ITG_LIMIT_BLOCK_SCALE)
        ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "block scale %lld is %d; 1..%d are allowed",
                 (long long)i, reader.block_scale[i], ITG_LIMIT_BLOCK_SCALE);
    }
  }
  if (weight->dtype == ITG_DTYPE_S4) {
    reader.buffer = malloc((size_t)row);
    ITG_TRY_MEMORY(reader.buffer, diagnostic);
  }
  const itg_status status = check_rows(node, &reader, row, diagnostic);
  free(reader.buffer);
  return status;
}

// An encoding of the weights is optional; kernels of a target's own arithmetic read its scales.
static itg_status check_weight_encoding(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *weight = node->inputs[ITG_Q_CONV_WEIGHT];
  const itg_encoding *encoding = weight->encoding;
  if (!encoding) return ITG_OK;
  const int64_t rows = weight->shape.dims[0];
  if (encoding->storage != weight->dtype || encoding->block != 0 || encoding->zero_points ||
      !(encoding->axis == -1 ? encoding->count == 1 : encoding->axis == 0 && encoding->count == rows))
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "the encoding of the weights must be symmetric %s with one scale, or one a row",
             itg_dtype_name(weight->dtype));
  return ITG_OK;
}

itg_status itg_check_q_conv(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_conv_attributes *conv = &node->attributes.q_conv;
  if (conv->bound < 0)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the stated bound of the accumulator is %lld",
             (long long)conv->bound);
  ITG_TRY(check_weight_encoding(node, diagnostic));
  ITG_TRY(itg_check_accumulator(node, (uint64_t)conv->bound, conv->wide != 0, conv->pre_shift, diagnostic));
  ITG_TRY(itg_check_codes(node, node->outputs[0], conv->low, conv->high, diagnostic));
  const int32_t pre_shift = conv->wide ? conv->pre_shift : 0;
  ITG_TRY(itg_check_requantize_vectors(node, ITG_Q_CONV_MULTIPLIER, pre_shift, diagnostic));
  if (itg_node_input(node, ITG_Q_CONV_NEGATIVE_MULTIPLIER))
    ITG_TRY(itg_check_requantize_vectors(node, ITG_Q_CONV_NEGATIVE_MULTIPLIER, pre_shift, diagnostic));
  return check_weights(node, diagnostic);
}

// Taps of a window at `start` that fall into [low, high).
static int64_t taps_inside(int64_t start, int64_t kernel, int64_t dilation, int64_t low, int64_t high) {
  const int64_t first = start >= low ? 0 : (low - start + dilation - 1) / dilation;
  const int64_t last = high - 1 < start ? -1 : itg_min_i64(kernel - 1, (high - 1 - start) / dilation);
  return itg_max_i64(0, last - first + 1);
}

// Every window of `pool` has a tap inside the image, or inside what counts for the divisor.
static itg_status check_windows(const itg_node *node, const itg_pool_attributes *pool, itg_diagnostic *diagnostic) {
  const itg_window *window = &pool->window;
  for (int axis = 0; axis < 2; axis++) {
    const int64_t size = node->inputs[0]->shape.dims[1 + axis], outputs = node->outputs[0]->shape.dims[1 + axis];
    const int64_t begin = window->pad_begin[axis];
    if (size + begin + window->pad_end[axis] > ITG_LIMIT_SPATIAL)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, node->name, "the padded image is larger than %d", ITG_LIMIT_SPATIAL);
    const bool counted = node->op == ITG_OP_Q_AVERAGE_POOL && pool->count_include_pad;
    const int64_t low = counted ? -begin : 0, high = size + (counted ? pool->declared_pad_end[axis] : 0);
    for (int64_t i = 0; i < outputs; i++) {
      if (taps_inside(i * window->stride[axis] - begin, window->kernel[axis], window->dilation[axis], low, high) == 0)
        ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, node->name, "a window lies wholly in the padding");
    }
  }
  return ITG_OK;
}

itg_status itg_check_q_average_pool(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_pool_attributes *attributes = &node->attributes.q_pool;
  const itg_window *window = &attributes->pool.window;
  ITG_TRY(itg_check_codes(node, node->outputs[0], attributes->low, attributes->high, diagnostic));
  ITG_TRY(itg_check_requantize_vectors(node, 1, 0, diagnostic));
  const uint64_t taps = (uint64_t)window->kernel[0] * (uint64_t)window->kernel[1];
  if (taps >= (uint64_t)1 << 32) ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, node->name, "a window of 2^32 elements");
  ITG_TRY(itg_check_accumulator(node, taps * (uint64_t)itg_code_deviation(node->inputs[0]), false, 0, diagnostic));
  return check_windows(node, &attributes->pool, diagnostic);
}

itg_status itg_check_max_pool(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_pool_attributes *pool = &node->attributes.pool;
  if (pool->layout != ITG_LAYOUT_CHANNELS_LAST || pool->window.rank != 2 || node->inputs[0]->shape.rank != 4)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "MaxPool of integer graphs works on [N,H,W,C] only");
  return check_windows(node, pool, diagnostic);
}

itg_status itg_check_q_resize(const itg_node *node, itg_diagnostic *diagnostic) {
  for (int axis = 0; axis < 2; axis++) {
    const int32_t *index = node->inputs[1 + 2 * axis]->data, *weight = node->inputs[2 + 2 * axis]->data;
    const int64_t size = node->inputs[0]->shape.dims[1 + axis];
    for (int64_t i = 0; i < node->outputs[0]->shape.dims[1 + axis]; i++) {
      if (index[2 * i] < 0 || index[2 * i] >= size || index[2 * i + 1] < 0 || index[2 * i + 1] >= size)
        ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "indices %d and %d are outside %lld entries", index[2 * i],
                 index[2 * i + 1], (long long)size);
      if (weight[i] < 0 || weight[i] > 2048)
        ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "weight %d is not in 0..2048", weight[i]);
    }
  }
  return ITG_OK;
}
