// Resize on the NPU. The integer graph holds tables of indices and weights; the vendor's operation knows modes. Every mode's
// tables are made and compared: the first that equals the graph's is the one.
#include <string.h>

#include "lower/qnn/lower.h"
#include "lower/resize_table.h"

typedef struct mode {
  int32_t interpolation, coordinates, rounding;              // Ours,
  uint32_t qnn_interpolation, qnn_coordinates, qnn_rounding; // and the vendor's numbers of the same.
} mode;

static const mode modes[] = {
    {ITG_RESIZE_NEAREST, ITG_RESIZE_ASYMMETRIC, ITG_NEAREST_FLOOR, 0, 3, 2},
    {ITG_RESIZE_NEAREST, ITG_RESIZE_HALF_PIXEL, ITG_NEAREST_ROUND_PREFER_FLOOR, 0, 0, 0},
    {ITG_RESIZE_NEAREST, ITG_RESIZE_HALF_PIXEL, ITG_NEAREST_FLOOR, 0, 0, 2},
    {ITG_RESIZE_NEAREST, ITG_RESIZE_ALIGN_CORNERS, ITG_NEAREST_ROUND_PREFER_CEIL, 0, 2, 1},
    {ITG_RESIZE_LINEAR, ITG_RESIZE_HALF_PIXEL, 0, 1, 0, 0},
    {ITG_RESIZE_LINEAR, ITG_RESIZE_PYTORCH_HALF_PIXEL, 0, 1, 1, 0},
    {ITG_RESIZE_LINEAR, ITG_RESIZE_ALIGN_CORNERS, 0, 1, 2, 0},
    {ITG_RESIZE_LINEAR, ITG_RESIZE_ASYMMETRIC, 0, 1, 3, 0},
};

static itg_status matches(itg_qnn_builder *b, const itg_node *node, const mode *m, bool *out) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  *out = true;
  for (int32_t d = 1; d <= 2 && *out; d++) {
    const int64_t from = x->shape.dims[d], to = y->shape.dims[d];
    int32_t *index = itg_arena_array(&b->scratch, (size_t)to * 2, sizeof index[0]);
    int32_t *weight = itg_arena_array(&b->scratch, (size_t)to, sizeof weight[0]);
    ITG_TRY_MEMORY(index && weight, b->diagnostic);
    const itg_resize_attributes resize = {
        .mode = m->interpolation, .coordinates = m->coordinates, .nearest_rounding = m->rounding};
    itg_resize_table(&resize, d, from, to, index, weight);
    const int32_t *given_index = node->inputs[2 * d - 1]->data, *given_weight = node->inputs[2 * d]->data;
    *out = memcmp(weight, given_weight, (size_t)to * sizeof weight[0]) == 0;
    // An index whose weight is 0 does not matter.
    for (int64_t i = 0; i < to && *out; i++)
      *out = index[2 * i] == given_index[2 * i] && (!weight[i] || index[2 * i + 1] == given_index[2 * i + 1]);
  }
  return ITG_OK;
}

itg_status itg_qnn_resize(itg_qnn_builder *b, const itg_node *node) {
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    bool found;
    ITG_TRY(matches(b, node, &modes[i], &found));
    if (!found) continue;
    itg_qnn_parameters p = {0};
    itg_qnn_set_bool(&p, "exclude_outside", false);
    itg_qnn_set_u32(&p, "transformation_mode", modes[i].qnn_coordinates);
    itg_qnn_set_u32(&p, "interpolation_mode", modes[i].qnn_interpolation);
    if (modes[i].qnn_interpolation == 0) itg_qnn_set_u32(&p, "nearest_mode", modes[i].qnn_rounding);
    return itg_qnn_simple(b, node, "Resize", 1, &p);
  }
  return itg_qnn_refuse(b, node, "its coordinates or scales are none of the NPU's");
}
