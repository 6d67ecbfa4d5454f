// Convolutions and pools. See converters.h.
#include <string.h>

#include "import/onnx/converters.h"

enum { MAX_WINDOW = 1 << 24 };
typedef enum padding_rule { EXPLICIT, SAME_UPPER, SAME_LOWER, VALID } padding_rule;

static itg_status read_padding_rule(const itg_onnx_importer *importer, padding_rule *rule) {
  const itg_span text = itg_onnx_get_string(importer, "auto_pad");
  if (text.size == 0 || itg_span_equals(text, "NOTSET"))
    *rule = EXPLICIT;
  else if (itg_span_equals(text, "SAME_UPPER"))
    *rule = SAME_UPPER;
  else if (itg_span_equals(text, "SAME_LOWER"))
    *rule = SAME_LOWER;
  else if (itg_span_equals(text, "VALID"))
    *rule = VALID;
  else
    ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "unknown auto_pad '%.*s'", text.size < 40 ? (int)text.size : 40,
                  (const char *)text.data);
  return ITG_OK;
}

// A list of `count` numbers within [low, 2^24], or `otherwise` everywhere when the attribute is absent.
static itg_status read_sizes(const itg_onnx_importer *importer, const char *name, size_t count, int64_t low,
                             int32_t otherwise, int32_t *out) {
  int64_t values[2 * ITG_MAX_SPATIAL];
  size_t found;
  ITG_TRY(itg_onnx_get_ints(importer, name, values, 2 * ITG_MAX_SPATIAL, &found));
  if (found != 0 && found != count)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "attribute '%s' has %zu values, not %zu", name, found, count);
  for (size_t i = 0; i < count; i++) {
    const int64_t value = found ? values[i] : otherwise;
    if (value < low || value > MAX_WINDOW)
      ITG_ONNX_REFUSE(importer, "%s = %lld is not supported", name, (long long)value);
    out[i] = (int32_t)value;
  }
  return ITG_OK;
}

// Everything of a window but its padding; `kernel` holds the weight's, or NULL where the attribute must give it.
static itg_status read_window(const itg_onnx_importer *importer, const itg_tensor *x, const int64_t *kernel,
                              itg_window *window) {
  const int32_t rank = x->shape.rank - 2;
  if (rank < 1 || rank > ITG_MAX_SPATIAL)
    ITG_ONNX_REFUSE(importer, "%d spatial dimensions; 1 to %d are supported", (int)rank, ITG_MAX_SPATIAL);
  window->rank = rank;
  ITG_TRY(read_sizes(importer, "kernel_shape", (size_t)rank, 0, 0, window->kernel));
  ITG_TRY(read_sizes(importer, "strides", (size_t)rank, 1, 1, window->stride));
  ITG_TRY(read_sizes(importer, "dilations", (size_t)rank, 1, 1, window->dilation));
  for (int32_t i = 0; i < rank; i++) {
    if (kernel && (kernel[i] > MAX_WINDOW || (window->kernel[i] != 0 && window->kernel[i] != kernel[i])))
      ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s", "kernel_shape and the weight do not agree");
    if (kernel) window->kernel[i] = (int32_t)kernel[i];
    if (window->kernel[i] < 1) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s", "the kernel is empty");
  }
  return ITG_OK;
}

static int64_t extent_of(const itg_window *window, int i) {
  return (int64_t)(window->kernel[i] - 1) * window->dilation[i] + 1;
}

static itg_status read_padding(const itg_onnx_importer *importer, const itg_tensor *x, itg_window *window) {
  padding_rule rule;
  int32_t pads[2 * ITG_MAX_SPATIAL] = {0};
  ITG_TRY(read_padding_rule(importer, &rule));
  if (rule == EXPLICIT) ITG_TRY(read_sizes(importer, "pads", 2 * (size_t)window->rank, 0, 0, pads));
  for (int i = 0; i < window->rank; i++) {
    window->pad_begin[i] = pads[i];
    window->pad_end[i] = pads[window->rank + i];
    if (rule == EXPLICIT || rule == VALID) continue;
    const int64_t in = x->shape.dims[2 + i], stride = window->stride[i];
    const int64_t out = in / stride + (in % stride != 0);
    int64_t total = (out - 1) * stride + extent_of(window, i) - in; // out - 1 < in/stride + 1: no overflow.
    if (total < 0) total = 0;
    if (total > MAX_WINDOW) ITG_ONNX_REFUSE(importer, "a padding of %lld is not supported", (long long)total);
    window->pad_begin[i] = (int32_t)(rule == SAME_UPPER ? total / 2 : total - total / 2);
    window->pad_end[i] = (int32_t)total - window->pad_begin[i];
  }
  return ITG_OK;
}

itg_status itg_onnx_read_conv(const itg_onnx_importer *importer, const itg_tensor *x, const itg_tensor *weight,
                              itg_conv_attributes *out) {
  int64_t group;
  *out = (itg_conv_attributes){.layout = ITG_LAYOUT_CHANNELS_FIRST};
  if (weight->shape.rank != x->shape.rank)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "the weight has %d dimensions, the input %d", (int)weight->shape.rank,
                  (int)x->shape.rank);
  ITG_TRY(read_window(importer, x, weight->shape.dims + 2, &out->window));
  ITG_TRY(itg_onnx_get_int(importer, "group", 1, &group));
  if (group < 1 || group > INT32_MAX) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%lld groups", (long long)group);
  out->group = (int32_t)group;
  return read_padding(importer, x, &out->window);
}

itg_status itg_onnx_convert_conv(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[3], *y;
  itg_attributes attributes = {0};
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(itg_onnx_required(importer, 1, &inputs[1]));
  ITG_TRY(itg_onnx_input(importer, 2, &inputs[2]));
  ITG_TRY(itg_onnx_read_conv(importer, inputs[0], inputs[1], &attributes.conv));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, inputs[2] ? 3 : 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_conv_integer(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[4], *y;
  itg_attributes attributes = {0};
  for (size_t i = 0; i < 4; i++)
    ITG_TRY(i < 2 ? itg_onnx_required(importer, i, &inputs[i]) : itg_onnx_input(importer, i, &inputs[i]));
  ITG_TRY(itg_onnx_read_conv(importer, inputs[0], inputs[1], &attributes.conv));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 4, inputs, &y));
  return itg_onnx_finish(importer, y);
}

// Padding of a transposed convolution from the wanted output size; what would be negative grows the output instead.
static itg_status pad_to_size(const itg_onnx_importer *importer, const itg_tensor *x, const int64_t *sizes, bool upper,
                              itg_conv_attributes *conv) {
  itg_window *window = &conv->window;
  for (int i = 0; i < window->rank; i++) {
    const int64_t in = x->shape.dims[2 + i];
    const int64_t size = sizes ? sizes[i] : in > (int64_t)1 << 32 ? 0 : in * window->stride[i];
    if (in > (int64_t)1 << 32 || size < 1 || size > (int64_t)1 << 40)
      ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "output size %lld is out of range", (long long)size);
    int64_t total = window->stride[i] * (in - 1) + conv->output_padding[i] + extent_of(window, i) - size;
    if (total < -MAX_WINDOW || total > MAX_WINDOW)
      ITG_ONNX_REFUSE(importer, "output size %lld does not fit the input", (long long)size);
    if (total < 0) {
      conv->output_padding[i] += (int32_t)-total;
      total = 0;
    }
    window->pad_begin[i] = (int32_t)(upper ? total / 2 : total - total / 2);
    window->pad_end[i] = (int32_t)total - window->pad_begin[i];
  }
  return ITG_OK;
}

itg_status itg_onnx_convert_conv_transpose(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[3], *y;
  itg_attributes attributes = {0};
  int64_t sizes[2 * ITG_MAX_SPATIAL];
  size_t count;
  padding_rule rule;
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(itg_onnx_required(importer, 1, &inputs[1]));
  ITG_TRY(itg_onnx_input(importer, 2, &inputs[2]));
  ITG_TRY(itg_onnx_read_conv(importer, inputs[0], inputs[1], &attributes.conv));
  const size_t rank = (size_t)attributes.conv.window.rank;
  ITG_TRY(read_sizes(importer, "output_padding", rank, 0, 0, attributes.conv.output_padding));
  ITG_TRY(itg_onnx_get_ints(importer, "output_shape", sizes, 2 * ITG_MAX_SPATIAL, &count));
  ITG_TRY(read_padding_rule(importer, &rule));
  if (count != 0 && count != rank && count != rank + 2)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "output_shape has %zu values, not %zu", count, rank);
  if (count != 0 || rule == SAME_UPPER || rule == SAME_LOWER)
    ITG_TRY(
        pad_to_size(importer, inputs[0], count ? sizes + (count - rank) : NULL, rule == SAME_UPPER, &attributes.conv));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, inputs[2] ? 3 : 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}

// ceil_mode: one more window where a partial one is left over, unless it would start in the padding behind the input.
static itg_status round_up(const itg_onnx_importer *importer, const itg_tensor *x, itg_window *window) {
  for (int i = 0; i < window->rank; i++) {
    const int64_t in = x->shape.dims[2 + i], stride = window->stride[i], begin = window->pad_begin[i];
    const int64_t free_space = in + begin + window->pad_end[i] - extent_of(window, i);
    if (in > (int64_t)1 << 40 || free_space < 0) continue; // The shape inference reports it.
    int64_t last = (free_space + stride - 1) / stride;     // Index of the last window.
    if (last * stride >= in + begin) last--;
    const int64_t end = last * stride + extent_of(window, i) - in - begin;
    if (end <= window->pad_end[i]) continue;
    if (end > MAX_WINDOW) ITG_ONNX_REFUSE(importer, "a padding of %lld is not supported", (long long)end);
    window->pad_end[i] = (int32_t)end;
  }
  return ITG_OK;
}

itg_status itg_onnx_convert_pool(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *y;
  int64_t ceil_mode, include, p;
  itg_attributes attributes = {.pool = {.layout = ITG_LAYOUT_CHANNELS_FIRST}};
  itg_pool_attributes *pool = &attributes.pool;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(read_window(importer, x, NULL, &pool->window));
  ITG_TRY(read_padding(importer, x, &pool->window));
  ITG_TRY(itg_onnx_get_int(importer, "ceil_mode", 0, &ceil_mode));
  ITG_TRY(itg_onnx_get_int(importer, "count_include_pad", 0, &include));
  ITG_TRY(itg_onnx_get_int(importer, "p", 2, &p));
  memcpy(pool->declared_pad_end, pool->window.pad_end, sizeof pool->declared_pad_end);
  if (ceil_mode) ITG_TRY(round_up(importer, x, &pool->window));
  pool->count_include_pad = op == ITG_OP_AVERAGE_POOL && include != 0;
  if (op == ITG_OP_LP_POOL) {
    if (p < 1 || p > 64) ITG_ONNX_REFUSE(importer, "p = %lld is not supported", (long long)p);
    pool->p = (int32_t)p;
  }
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_global_pool(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *y;
  int64_t p;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "p", 2, &p));
  if (x->shape.rank < 3) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s", "the input has no spatial dimensions");
  if (op == ITG_OP_REDUCE_L2 && p == 1) op = ITG_OP_REDUCE_L1;
  if (op == ITG_OP_REDUCE_L2 && p != 2) ITG_ONNX_REFUSE(importer, "p = %lld is not supported", (long long)p);
  const itg_attributes attributes = {.reduce = {(1u << x->shape.rank) - 4, 1}};
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}
