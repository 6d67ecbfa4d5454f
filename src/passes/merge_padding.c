// A Pad that only widens the image goes into the window that alone reads it: zeroes into a convolution; zeroes into an average
// pool that counts them; minus infinity into a max pool. Graphs are CHANNELS_FIRST at this point.
#include <float.h>
#include <math.h>

#include "passes/list.h"
#include "passes/rewrite.h"

static bool is_spatial(const itg_node *pad, int32_t rank) {
  const itg_pad_attributes *attributes = &pad->attributes.pad;
  if (attributes->mode != ITG_PAD_CONSTANT || pad->inputs[0]->shape.rank != rank + 2) return false;
  for (int32_t i = 0; i < rank + 2; i++) {
    const int64_t begin = attributes->begin[i], end = attributes->end[i];
    if (begin < 0 || end < 0 || begin > 1 << 16 || end > 1 << 16 || (i < 2 && (begin || end))) return false;
  }
  return true;
}

static void widen(itg_window *window, const itg_pad_attributes *pad) {
  for (int32_t i = 0; i < window->rank; i++) {
    window->pad_begin[i] += (int32_t)pad->begin[i + 2];
    window->pad_end[i] += (int32_t)pad->end[i + 2];
  }
}

// Pools refuse padding that could fill a whole window.
static bool fits_window(const itg_window *window, const itg_pad_attributes *pad) {
  for (int32_t i = 0; i < window->rank; i++) {
    const int64_t extent = (int64_t)(window->kernel[i] - 1) * window->dilation[i] + 1;
    if (window->pad_begin[i] + pad->begin[i + 2] >= extent || window->pad_end[i] + pad->end[i + 2] >= extent)
      return false;
  }
  return true;
}

static bool merge_into_pool(itg_node *node, const itg_pad_attributes *pad) {
  itg_pool_attributes *pool = &node->attributes.pool;
  if (!fits_window(&pool->window, pad)) return false;
  if (node->op == ITG_OP_MAX_POOL) {
    if (pad->value > -(double)FLT_MAX) return false;
  } else {
    // Padding of the pool's own must count, too, or not exist.
    for (int32_t i = 0; i < pool->window.rank; i++) {
      if (!pool->count_include_pad && (pool->window.pad_begin[i] || pool->declared_pad_end[i])) return false;
    }
    if (pad->value != 0) return false;
    pool->count_include_pad = 1;
  }
  widen(&pool->window, pad);
  for (int32_t i = 0; i < pool->window.rank; i++) pool->declared_pad_end[i] += (int32_t)pad->end[i + 2];
  return true;
}

static bool merge(itg_node *node, const itg_node *pad) {
  const itg_pad_attributes *attributes = &pad->attributes.pad;
  if (node->op == ITG_OP_CONV) {
    itg_conv_attributes *conv = &node->attributes.conv;
    if (conv->layout != ITG_LAYOUT_CHANNELS_FIRST || !is_spatial(pad, conv->window.rank) || attributes->value != 0)
      return false;
    widen(&conv->window, attributes);
    return true;
  }
  const itg_pool_attributes *pool = &node->attributes.pool;
  return pool->layout == ITG_LAYOUT_CHANNELS_FIRST && is_spatial(pad, pool->window.rank) &&
         merge_into_pool(node, attributes);
}

itg_status itg_pass_merge_padding(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE(node, graph) {
    if (node->op != ITG_OP_CONV && node->op != ITG_OP_AVERAGE_POOL && node->op != ITG_OP_MAX_POOL) continue;
    itg_node *pad = itg_sole_producer(node->inputs[0], ITG_OP_PAD);
    if (!pad || !merge(node, pad)) continue;
    ITG_TRY_MEMORY(itg_node_set_input(node, 0, pad->inputs[0]), diagnostic);
    itg_graph_remove_node(graph, pad);
    *changed = true;
  }
  return ITG_OK;
}
