// See work.h.
#include "quantize/weight_fit/work.h"

#include <math.h>

#include "plan/task.h"
#include "quantize/weight_fit/moments.h"

// Products of each weight of a row with the columns of its part: the ways, each over a few scales, twice over the samples.
static const double products_a_weight = 16;

static double layer_work(const itg_node *node, double samples) {
  const itg_shape *weight = &node->inputs[1]->shape;
  const double rows = (double)weight->dims[0], group = node->op == ITG_OP_CONV ? node->attributes.conv.group : 1;
  const double length = (double)itg_plan_product(weight, 1, weight->rank);
  const double columns = fmin(length, ITG_MOMENT_COLUMNS);
  const double windows =
      fmin((double)itg_plan_multiply_accumulates(node) / (rows * length) * samples, ITG_FIT_MOST_WINDOWS);
  const double moments = 2 * windows * group * length * columns;
  const double inverses = 2 * group * length * columns * columns;
  return moments + inverses + products_a_weight * rows * length * columns;
}

double itg_weight_fit_work(const itg_graph *graph, size_t samples) {
  const double count = samples < ITG_FIT_MOST_SAMPLES ? (double)samples : ITG_FIT_MOST_SAMPLES;
  double work = 0;
  ITG_FOR_EACH_NODE(node, graph) {
    work += 2 * count * (double)itg_plan_multiply_accumulates(node);
    const bool has_weights = node->op == ITG_OP_CONV || node->op == ITG_OP_FULLY_CONNECTED;
    if (has_weights && itg_tensor_is_constant(node->inputs[1])) work += layer_work(node, count);
  }
  return work;
}
