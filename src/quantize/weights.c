// Weights: s8 in [-127, 127] or s4 in [-7, 7], symmetric, one scale an output channel; LPBQ: an integer scale a block of s4
// codes besides. Biases: s32 with scale s_x*s_w (docs/ARITHMETIC.md 1). This file turns the constants of each layer over; how
// codes are chosen is in weight_fit: rounded on their own, or fitted to what reaches the layer (walk.h, fit.h).
#include <math.h>
#include <stdlib.h>

#include "quantize/plan.h"
#include "quantize/weight_fit/fit.h"
#include "quantize/weight_fit/walk.h"
#include "quantize/weight_fit/work.h"
#include "tensor/nibbles.h"

static const size_t walk_memory = (size_t)384 << 20;

// A layer whose constants become integers.
typedef struct weight_job {
  itg_node *node;
  itg_weight_rows rows;
  itg_tensor *weight, *bias; // The new constants; bias NULL: none.
} weight_job;

static bool has_weights(const itg_node *node) {
  return node->op == ITG_OP_CONV || node->op == ITG_OP_CONV_TRANSPOSE || node->op == ITG_OP_FULLY_CONNECTED;
}

static itg_status check_constant(const itg_quantize_plan *plan, const itg_node *node, itg_tensor *tensor,
                                 const char *what, itg_diagnostic *diagnostic) {
  if (!tensor->data) ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the %s must be constant", what);
  if (tensor->dtype != ITG_DTYPE_F32)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the %s must be f32, not %s", what,
             itg_dtype_name(tensor->dtype));
  ITG_TRY(itg_graph_align_constant(plan->graph, tensor, diagnostic));
  size_t count;
  if (!itg_shape_count(&tensor->shape, &count) || count == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the %s is empty", what);
  const float *values = tensor->data;
  for (size_t i = 0; i < count; i++) {
    if (!isfinite(values[i]))
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the %s holds infinities or NaN", what);
  }
  return ITG_OK;
}

// Channel means of the node's input, where a weight row sees one value of each channel at each tap.
static itg_status read_means(const itg_quantize_plan *plan, const itg_node *node, itg_arena *arena,
                             itg_weight_rows *job, itg_diagnostic *diagnostic) {
  const itg_activation_entry *entry = itg_plan_entry(plan, node->inputs[0]);
  const itg_tensor_statistics *statistics = entry ? entry->statistics : NULL;
  const itg_tensor *weight = node->inputs[1];
  job->group = node->op == ITG_OP_CONV ? node->attributes.conv.group : 1;
  job->width = weight->shape.dims[weight->shape.rank - 1];
  if (!itg_method_is_on(plan->recipe->methods_off, ITG_METHOD_BIAS_CORRECTION)) return ITG_OK;
  if (node->op == ITG_OP_CONV_TRANSPOSE || !statistics || statistics->channel_count == 0) return ITG_OK;
  if (statistics->channels != job->width * job->group || job->rows % job->group != 0) return ITG_OK;
  double *means = itg_arena_array(arena, (size_t)statistics->channels, sizeof means[0]);
  ITG_TRY_MEMORY(means, diagnostic);
  for (int64_t c = 0; c < statistics->channels; c++)
    means[c] = statistics->channel_sum[c] / (double)statistics->channel_count;
  job->means = means;
  return ITG_OK;
}

// The NPU adds the output's zero point, divided by the factor, to 32-bit sums: the factor must not be too small. It keeps 11
// (v68, v69) or 12 bits of it (facts measured on the vendor's library).
static void set_target_limits(const itg_quantize_plan *plan, const itg_node *node, itg_weight_rows *job) {
  const itg_encoding *output = node->outputs[0]->encoding;
  if (!output) return;
  const double zero = fmax(output->zero_points ? output->zero_points[0] : 0, 1);
  const double smallest_factor = ldexp(zero, output->storage == ITG_DTYPE_U16 ? -37 : -29);
  const double unit = output->scales[0] / job->input_scale;
  if (itg_method_is_on(plan->recipe->methods_off, ITG_METHOD_SCALE_SNAPPING)) job->snap_unit = unit;
  job->snap_bits = plan->target->arch < 73 ? 11 : 12;
  job->smallest_scale = smallest_factor * unit;
}

static bool is_graph_input(const itg_tensor *tensor) {
  while (tensor->producer && itg_op_moves_codes(tensor->producer->op)) tensor = tensor->producer->inputs[0];
  return tensor->is_input;
}

// 4-bit weights stay away from convolutions of a channel each, whose few weights have nothing to average their errors, and
// from the first layer, which reads a graph input.
static int32_t weight_bits(const itg_quantize_plan *plan, const itg_node *node, const itg_node_choice *choice) {
  if (choice->weight_bits) return choice->weight_bits;
  const itg_shape *weight = &node->inputs[1]->shape;
  if (is_graph_input(node->inputs[0]) || (node->op == ITG_OP_CONV && weight->dims[weight->rank - 1] == 1)) return 8;
  return itg_recipe_weight_bits(plan->recipe);
}

static bool is_fitted(const weight_job *job) {
  return job->rows.method == ITG_WEIGHT_SEQUENTIAL || job->rows.method == ITG_WEIGHT_FEEDBACK;
}

// Windows of other ranks and transposed convolutions are rounded without a fit.
static bool can_be_fitted(const itg_node *node) {
  return node->op == ITG_OP_FULLY_CONNECTED ||
         (node->op == ITG_OP_CONV && node->attributes.conv.layout == ITG_LAYOUT_CHANNELS_LAST);
}

// Makes the integer constants of one node, still to be filled.
static itg_status prepare(itg_quantize_plan *plan, itg_node *node, itg_arena *arena, itg_diagnostic *diagnostic,
                          weight_job *job) {
  itg_tensor *weight = node->inputs[1], *bias = itg_node_input(node, 2);
  ITG_TRY(check_constant(plan, node, weight, "weights", diagnostic));
  if (bias) ITG_TRY(check_constant(plan, node, bias, "bias", diagnostic));
  const itg_encoding *input = node->inputs[0]->encoding;
  if (!input) ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the input must be a float activation");
  size_t count = 0;
  itg_shape_count(&weight->shape, &count); // check_constant has seen that it fits.
  *job = (weight_job){.node = node,
                      .rows = {.weight = weight->data,
                               .rows = weight->shape.dims[0],
                               .length = (int64_t)count / weight->shape.dims[0],
                               .input_scale = input->scales[0]}};
  itg_weight_rows *rows = &job->rows;
  rows->outputs = rows->rows * (node->op == ITG_OP_CONV_TRANSPOSE ? node->attributes.conv.group : 1);
  if (plan->target) set_target_limits(plan, node, rows);
  const itg_node_choice choice = itg_recipe_choice(plan->recipe, node);
  const bool packed = weight_bits(plan, node, &choice) == 4;
  rows->method = choice.weight_method;
  if (is_fitted(job) && !can_be_fitted(node)) rows->method = ITG_WEIGHT_MSE;
  rows->most = packed ? 7 : 127;
  if (packed && node->op == ITG_OP_FULLY_CONNECTED && choice.weight_block && rows->length % choice.weight_block == 0) {
    rows->block = choice.weight_block;
    rows->block_scales = itg_arena_array(arena, count / (size_t)rows->block, 1);
    ITG_TRY_MEMORY(rows->block_scales, diagnostic);
  }
  rows->scales = itg_arena_array(arena, (size_t)rows->rows, sizeof rows->scales[0]);
  job->weight =
      itg_graph_add_constant(plan->graph, weight->name, packed ? ITG_DTYPE_S4 : ITG_DTYPE_S8, &weight->shape, NULL);
  ITG_TRY_MEMORY(rows->scales && job->weight, diagnostic);
  job->weight->index = -1;
  rows->codes = packed ? itg_arena_allocate(arena, count) : itg_tensor_writable(job->weight);
  ITG_TRY_MEMORY(rows->codes, diagnostic);
  ITG_TRY(read_means(plan, node, arena, rows, diagnostic));
  if (!bias && !rows->means && !is_fitted(job)) return ITG_OK;
  if (bias && (bias->shape.rank != 1 || bias->shape.dims[0] != rows->outputs))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, node->name, "the bias must have one value an output channel");
  rows->bias = bias ? bias->data : NULL;
  const itg_shape shape = itg_shape_of(1, &rows->outputs);
  job->bias = itg_graph_add_constant(plan->graph, bias ? bias->name : "bias", ITG_DTYPE_S32, &shape, NULL);
  ITG_TRY_MEMORY(job->bias, diagnostic);
  job->bias->index = -1;
  rows->bias_codes = itg_tensor_writable(job->bias);
  return ITG_OK;
}

static itg_status finish(itg_quantize_plan *plan, const weight_job *job, itg_arena *arena, itg_diagnostic *diagnostic) {
  const itg_weight_rows *rows = &job->rows;
  itg_node *node = job->node;
  itg_tensor *weight = job->weight, *bias = job->bias;
  weight->encoding = itg_encoding_create(plan->graph, weight->dtype, 0, rows->rows, rows->scales, NULL);
  ITG_TRY_MEMORY(weight->encoding && itg_node_set_input(node, 1, weight), diagnostic);
  if (weight->dtype == ITG_DTYPE_S4) {
    for (int64_t i = 0; i < rows->rows * rows->length; i++)
      itg_nibble_set(itg_tensor_writable(weight), i, rows->codes[i]);
  }
  if (rows->block) {
    const itg_shape shape = itg_shape_of(2, (const int64_t[]){rows->rows, rows->length / rows->block});
    itg_tensor *blocks = itg_graph_add_constant(plan->graph, "block_scale", ITG_DTYPE_U8, &shape, rows->block_scales);
    ITG_TRY_MEMORY(blocks && itg_node_resize_inputs(plan->graph, node, 5), diagnostic);
    blocks->index = -1;
    ITG_TRY_MEMORY(itg_node_set_input(node, 4, blocks), diagnostic);
  }
  if (!bias) return ITG_OK;
  double *scales = itg_arena_array(arena, (size_t)rows->outputs, sizeof scales[0]);
  ITG_TRY_MEMORY(scales, diagnostic);
  for (int64_t o = 0; o < rows->outputs; o++) scales[o] = rows->input_scale * rows->scales[o % rows->rows];
  bias->encoding = itg_encoding_create(plan->graph, ITG_DTYPE_S32, 0, rows->outputs, scales, NULL);
  if (node->input_count < 3) ITG_TRY_MEMORY(itg_node_resize_inputs(plan->graph, node, 3), diagnostic);
  ITG_TRY_MEMORY(bias->encoding && itg_node_set_input(node, 2, bias), diagnostic);
  return ITG_OK;
}

static void round_job(void *context, size_t index) { itg_weight_round(&((const weight_job *)context)[index].rows); }

// The real values of a finished layer's constants (arena memory).
static itg_status decode(const itg_weight_rows *rows, itg_arena *arena, itg_diagnostic *diagnostic, float **weight,
                         float **bias) {
  *weight = itg_arena_array(arena, (size_t)(rows->rows * rows->length), sizeof **weight);
  *bias = rows->bias_codes ? itg_arena_array(arena, (size_t)rows->outputs, sizeof **bias) : NULL;
  ITG_TRY_MEMORY(*weight && (*bias || !rows->bias_codes), diagnostic);
  for (int64_t r = 0; r < rows->rows; r++) {
    for (int64_t k = 0; k < rows->length; k++) {
      const int64_t i = r * rows->length + k;
      (*weight)[i] = (float)(rows->codes[i] * itg_weight_unit(rows, r, k));
    }
  }
  for (int64_t o = 0; rows->bias_codes && o < rows->outputs; o++)
    (*bias)[o] = (float)(rows->bias_codes[o] * (rows->input_scale * rows->scales[o % rows->rows]));
  return ITG_OK;
}

static itg_status fit_layer(const itg_quantize_plan *plan, const itg_walk *walk, const weight_job *job,
                            itg_arena *arena, itg_diagnostic *diagnostic) {
  const itg_methods_off off = plan->recipe->methods_off;
  const bool feedback = job->rows.method == ITG_WEIGHT_FEEDBACK;
  const itg_weight_fit_options options = {.feedback = feedback,
                                          .target = feedback && itg_method_is_on(off, ITG_METHOD_INPUT_CORRECTION),
                                          .gain = feedback && itg_method_is_on(off, ITG_METHOD_GAIN_CORRECTION)};
  const itg_tensor *x = job->node->inputs[0];
  const size_t samples = itg_walk_sample_count(walk);
  itg_moments moments;
  ITG_TRY(itg_moments_collect(job->node, itg_walk_exact(walk, x), itg_walk_rounded(walk, x), samples,
                              ITG_FIT_MOST_WINDOWS / (int64_t)samples, plan->pool, arena, diagnostic, &moments));
  return itg_weight_fit(&job->rows, &moments, &options, plan->pool, diagnostic);
}

// One step of the walk: fits the layer, if it is one, to what reaches it, and computes what it gives.
static itg_status walk_layer(const itg_quantize_plan *plan, itg_walk *walk, const itg_node *node, const weight_job *job,
                             itg_diagnostic *diagnostic) {
  itg_arena arena = {0};
  float *weight = NULL, *bias = NULL;
  itg_status status = ITG_OK;
  if (job && is_fitted(job)) status = fit_layer(plan, walk, job, &arena, diagnostic);
  if (job && !is_fitted(job)) itg_weight_round(&job->rows);
  if (job && status == ITG_OK) status = decode(&job->rows, &arena, diagnostic, &weight, &bias);
  if (status == ITG_OK) status = itg_walk_step(walk, node, weight, bias, diagnostic);
  itg_arena_free(&arena);
  return status;
}

static itg_status walk_layers(itg_quantize_plan *plan, itg_walk *walk, weight_job *jobs, size_t count,
                              itg_diagnostic *diagnostic) {
  size_t next = 0;
  ITG_FOR_EACH_NODE(node, plan->graph) {
    const weight_job *job = next < count && jobs[next].node == node ? &jobs[next++] : NULL;
    ITG_TRY(walk_layer(plan, walk, node, job, diagnostic));
    if (next == count) break; // What comes after the last layer changes no weights.
  }
  return ITG_OK;
}

static itg_status fill_jobs(itg_quantize_plan *plan, weight_job *jobs, size_t count, bool imported,
                            itg_diagnostic *diagnostic) {
  bool fitted = false;
  for (size_t i = 0; i < count; i++) fitted = fitted || is_fitted(&jobs[i]);
  itg_walk *walk = NULL;
  if (fitted && !imported)
    ITG_TRY(itg_walk_create(plan->graph, itg_statistics_samples(plan->statistics), walk_memory, ITG_FIT_MOST_SAMPLES,
                            plan->pool, diagnostic, &walk));
  if (!walk) {
    for (size_t i = 0; i < count; i++) {
      if (is_fitted(&jobs[i])) jobs[i].rows.method = ITG_WEIGHT_MSE;
    }
    itg_parallel_for(plan->pool, count, round_job, jobs);
    return ITG_OK;
  }
  const itg_status status = walk_layers(plan, walk, jobs, count, diagnostic);
  itg_walk_destroy(walk);
  return status;
}

static itg_status quantize_all(itg_quantize_plan *plan, itg_arena *arena, itg_diagnostic *diagnostic) {
  size_t count = 0, n = 0;
  bool imported = false; // Weights that came as integers (a Q/DQ model) stay as they are.
  ITG_FOR_EACH_NODE(node, plan->graph) count += has_weights(node);
  weight_job *jobs = itg_arena_array(arena, count, sizeof jobs[0]);
  ITG_TRY_MEMORY(jobs, diagnostic);
  ITG_FOR_EACH_NODE(node, plan->graph) {
    if (!has_weights(node)) continue;
    if (node->inputs[1]->data && node->inputs[1]->dtype == ITG_DTYPE_S8)
      imported = true;
    else
      ITG_TRY(prepare(plan, node, arena, diagnostic, &jobs[n++]));
  }
  ITG_TRY(fill_jobs(plan, jobs, n, imported, diagnostic));
  for (size_t i = 0; i < n; i++) ITG_TRY(finish(plan, &jobs[i], arena, diagnostic));
  return ITG_OK;
}

itg_status itg_plan_weights(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  itg_arena arena = {0};
  const itg_status status = quantize_all(plan, &arena, diagnostic);
  itg_arena_free(&arena);
  return status;
}
