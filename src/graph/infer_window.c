// Shape inference of convolutions and pools. See infer.h.
#include "base/checked.h"
#include "graph/infer_rules.h"

enum { MAX_WINDOW = 1 << 24 }; // Kernel, stride, dilation, padding: keeps all sums far from overflow.

static itg_status check_window(const itg_node *node, const itg_window *window, itg_diagnostic *diagnostic) {
  if (window->rank < 1 || window->rank > ITG_MAX_SPATIAL)
    ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "%d spatial dimensions; 1 to %d are supported", (int)window->rank,
                   ITG_MAX_SPATIAL);
  for (int i = 0; i < window->rank; i++) {
    const int32_t sizes[] = {window->kernel[i], window->stride[i], window->dilation[i]};
    const int32_t pads[] = {window->pad_begin[i], window->pad_end[i]};
    for (int k = 0; k < 3; k++) {
      if (sizes[k] < 1 || sizes[k] > MAX_WINDOW)
        ITG_INFER_SHAPE("kernel, stride or dilation %d is out of range", (int)sizes[k]);
    }
    for (int k = 0; k < 2; k++) {
      if (pads[k] < 0 || pads[k] > MAX_WINDOW) ITG_INFER_SHAPE("padding %d is out of range", (int)pads[k]);
    }
  }
  return ITG_OK;
}

static itg_status check_image(const itg_node *node, int32_t rank, int32_t layout, itg_diagnostic *diagnostic) {
  if (layout != ITG_LAYOUT_CHANNELS_FIRST && layout != ITG_LAYOUT_CHANNELS_LAST)
    ITG_INFER_SHAPE("unknown layout %d", (int)layout);
  if (node->inputs[0]->shape.rank != rank + 2)
    ITG_INFER_SHAPE("%s has %d dimensions, not %d", node->inputs[0]->name, (int)node->inputs[0]->shape.rank,
                    (int)rank + 2);
  return ITG_OK;
}

// Output size of a window: floor((in + pads - ((kernel-1)*dilation + 1))/stride) + 1.
static itg_status slide(const itg_node *node, const itg_window *window, int i, int64_t in, itg_diagnostic *diagnostic,
                        int64_t *out) {
  int64_t padded;
  const int64_t extent = (int64_t)(window->kernel[i] - 1) * window->dilation[i] + 1;
  if (!itg_checked_add_i64(in, (int64_t)window->pad_begin[i] + window->pad_end[i], &padded) || padded < extent)
    ITG_INFER_SHAPE("the window (%lld) is larger than the padded input (%lld)", (long long)extent, (long long)in);
  *out = (padded - extent) / window->stride[i] + 1;
  return ITG_OK;
}

// Geometry of Conv and ConvInteger, whose operand lists differ after the weight.
static itg_status convolve(const itg_node *node, itg_diagnostic *diagnostic, itg_shape *out) {
  const itg_conv_attributes *conv = &node->attributes.conv;
  ITG_TRY(check_window(node, &conv->window, diagnostic));
  ITG_TRY(check_image(node, conv->window.rank, conv->layout, diagnostic));
  const itg_shape *x = &node->inputs[0]->shape, *w = &node->inputs[1]->shape;
  const bool last = conv->layout == ITG_LAYOUT_CHANNELS_LAST;
  const int channel = last ? x->rank - 1 : 1, spatial = last ? 1 : 2;
  if (w->rank != x->rank) ITG_INFER_SHAPE("the weight has %d dimensions, not %d", (int)w->rank, (int)x->rank);
  const int64_t channels = x->dims[channel], outputs = w->dims[0];
  if (conv->group < 1 || channels % conv->group != 0 || outputs % conv->group != 0 ||
      w->dims[channel] != channels / conv->group)
    ITG_INFER_SHAPE("%lld channels in %d groups do not fit a weight with %lld filters of %lld channels",
                    (long long)channels, (int)conv->group, (long long)outputs, (long long)w->dims[channel]);
  itg_shape shape = *x;
  shape.dims[channel] = outputs;
  for (int i = 0; i < conv->window.rank; i++) {
    if (w->dims[spatial + i] != conv->window.kernel[i])
      ITG_INFER_SHAPE("%s", "the weight does not have the kernel's size");
    ITG_TRY(slide(node, &conv->window, i, x->dims[spatial + i], diagnostic, &shape.dims[spatial + i]));
  }
  *out = shape;
  return ITG_OK;
}

static itg_status check_bias_and_slope(const itg_node *node, int64_t outputs, itg_diagnostic *diagnostic) {
  for (int i = 2; i < node->input_count; i++) {
    if (!node->inputs[i]) continue;
    ITG_TRY(itg_infer_expect(node, i, ITG_TYPES_FLOAT, diagnostic));
    ITG_TRY(itg_infer_vector(node, i, outputs, diagnostic));
  }
  return ITG_OK;
}

static itg_status infer_conv(const itg_node *node, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_infer_expect(node, 0, ITG_TYPES_FLOAT, diagnostic));
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_FLOAT, diagnostic));
  ITG_TRY(itg_infer_same_type(node, 1, diagnostic));
  itg_shape shape;
  ITG_TRY(convolve(node, diagnostic, &shape));
  ITG_TRY(check_bias_and_slope(node, node->inputs[1]->shape.dims[0], diagnostic));
  return itg_infer_set(node, 0, itg_infer_dtype(node->inputs[0]), &shape, diagnostic);
}

static itg_status infer_conv_integer(const itg_node *node, itg_diagnostic *diagnostic) {
  const int bytes = 1 << ITG_DTYPE_U8 | 1 << ITG_DTYPE_S8;
  for (int i = 0; i < node->input_count; i++) {
    if (i < 2 || node->inputs[i]) ITG_TRY(itg_infer_expect(node, i, bytes, diagnostic));
  }
  itg_shape shape;
  ITG_TRY(convolve(node, diagnostic, &shape));
  for (int i = 2; i < node->input_count; i++) {
    const itg_tensor *zero = node->inputs[i];
    if (!zero) continue;
    size_t count;
    const bool counted = itg_shape_count(&zero->shape, &count);
    if (!counted || zero->dtype != node->inputs[i - 2]->dtype || zero->shape.rank > 1 ||
        !(count == 1 || (i == 3 && count == (size_t)node->inputs[1]->shape.dims[0])))
      ITG_INFER_SHAPE("the zero point %s does not fit", zero->name);
  }
  return itg_infer_set(node, 0, ITG_DTYPE_S32, &shape, diagnostic);
}

static itg_status infer_conv_transpose(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_conv_attributes *conv = &node->attributes.conv;
  const itg_window *window = &conv->window;
  ITG_TRY(itg_infer_expect(node, 0, ITG_TYPES_FLOAT, diagnostic));
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_FLOAT, diagnostic));
  ITG_TRY(itg_infer_same_type(node, 1, diagnostic));
  ITG_TRY(check_window(node, window, diagnostic));
  ITG_TRY(check_image(node, window->rank, conv->layout, diagnostic));
  const itg_shape *x = &node->inputs[0]->shape, *w = &node->inputs[1]->shape;
  const bool last = conv->layout == ITG_LAYOUT_CHANNELS_LAST;
  const int channel = last ? x->rank - 1 : 1, spatial = last ? 1 : 2;
  if (w->rank != x->rank) ITG_INFER_SHAPE("the weight has %d dimensions, not %d", (int)w->rank, (int)x->rank);
  const int64_t channels = x->dims[channel];
  const int64_t in = w->dims[last ? channel : 0], per_group = w->dims[last ? 0 : 1];
  int64_t outputs;
  if (conv->group < 1 || channels % conv->group != 0 || in != channels ||
      !itg_checked_multiply_i64(per_group, conv->group, &outputs))
    ITG_INFER_SHAPE("%lld channels in %d groups do not fit a weight for %lld channels", (long long)channels,
                    (int)conv->group, (long long)in);
  ITG_TRY(check_bias_and_slope(node, outputs, diagnostic));
  itg_shape shape = *x;
  shape.dims[channel] = outputs;
  for (int i = 0; i < window->rank; i++) {
    if (w->dims[spatial + i] != window->kernel[i]) ITG_INFER_SHAPE("%s", "the weight does not have the kernel's size");
    if (conv->output_padding[i] < 0 || conv->output_padding[i] > MAX_WINDOW)
      ITG_INFER_SHAPE("output padding %d is out of range", (int)conv->output_padding[i]);
    int64_t size;
    if (x->dims[spatial + i] < 1 || !itg_checked_multiply_i64(x->dims[spatial + i] - 1, window->stride[i], &size) ||
        !itg_checked_add_i64(size,
                             (int64_t)(window->kernel[i] - 1) * window->dilation[i] + 1 + conv->output_padding[i] -
                                 window->pad_begin[i] - window->pad_end[i],
                             &size) ||
        size < 1)
      ITG_INFER_SHAPE("spatial dimension %d of the output would be empty", i);
    shape.dims[spatial + i] = size;
  }
  return itg_infer_set(node, 0, itg_infer_dtype(node->inputs[0]), &shape, diagnostic);
}

static itg_status infer_pool(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_pool_attributes *pool = &node->attributes.pool;
  const int types = node->op == ITG_OP_MAX_POOL ? ITG_TYPES_NUMBER : ITG_TYPES_FLOAT;
  ITG_TRY(itg_infer_expect(node, 0, types, diagnostic));
  ITG_TRY(check_window(node, &pool->window, diagnostic));
  ITG_TRY(check_image(node, pool->window.rank, pool->layout, diagnostic));
  if (node->op == ITG_OP_LP_POOL && pool->p < 1) ITG_INFER_SHAPE("p = %d is out of range", (int)pool->p);
  const itg_tensor *x = node->inputs[0];
  itg_shape shape = x->shape;
  const int spatial = pool->layout == ITG_LAYOUT_CHANNELS_LAST ? 1 : 2;
  for (int i = 0; i < pool->window.rank; i++) {
    const int64_t extent = (int64_t)(pool->window.kernel[i] - 1) * pool->window.dilation[i] + 1;
    if (pool->window.pad_begin[i] >= extent || pool->window.pad_end[i] >= extent)
      ITG_INFER_SHAPE("padding (%d, %d) must be smaller than the window (%lld)", (int)pool->window.pad_begin[i],
                      (int)pool->window.pad_end[i], (long long)extent);
    if (pool->declared_pad_end[i] < 0 || pool->declared_pad_end[i] > pool->window.pad_end[i])
      ITG_INFER_SHAPE("declared padding %d is out of range", (int)pool->declared_pad_end[i]);
    if (x->shape.dims[spatial + i] < 1) ITG_INFER_SHAPE("spatial dimension %d of %s is empty", i, x->name);
    ITG_TRY(slide(node, &pool->window, i, x->shape.dims[spatial + i], diagnostic, &shape.dims[spatial + i]));
  }
  return itg_infer_set(node, 0, node->op == ITG_OP_MAX_POOL ? x->dtype : itg_infer_dtype(x), &shape, diagnostic);
}

itg_status itg_infer_window(const itg_node *node, itg_diagnostic *diagnostic) {
  switch (node->op) {
  case ITG_OP_CONV: return infer_conv(node, diagnostic);
  case ITG_OP_CONV_TRANSPOSE: return infer_conv_transpose(node, diagnostic);
  case ITG_OP_CONV_INTEGER: return infer_conv_integer(node, diagnostic);
  default: return infer_pool(node, diagnostic);
  }
}
