// Weights: s8 in [-127, 127] or s4 in [-7, 7], symmetric, one scale an output channel; LPBQ: an integer scale a block of s4
// codes besides. Biases: s32 with scale s_x*s_w (docs/ARITHMETIC.md 1). The rounding of the weights moves the mean of every output; the bias takes that back, from the
// input's calibrated channel means (bias correction, arXiv 1906.04721).
#include <math.h>
#include <stdlib.h>

#include "quantize/plan.h"
#include "tensor/nibbles.h"

enum { MAX_BLOCK_SCALE = 16 };
static const double bias_limit = 0x1p30;

typedef struct weight_job {
  const float *weight, *bias; // bias NULL: none
  int64_t rows, length;       // Scales, and weights a scale.
  int64_t outputs;            // Biases; a multiple of rows (grouped transposed convolutions).
  const double *means;        // Of the input's channels; NULL: no correction.
  int64_t width, group;       // Input channels a weight row sees at each tap; groups.
  double input_scale;
  int32_t method;
  int32_t most;          // Largest code: 127 or 7.
  int64_t block;         // LPBQ: weights that share a block scale; 0 for none.
  double smallest_scale; // The NPU cannot hold less; 0 for our own kernels.
  double snap_unit;      // NPU: scale / snap_unit is the requantization factor; 0 for our own kernels.
  int snap_bits;         // Mantissa bits that the NPU keeps of the factor.
  double *scales;        // [rows]
  int8_t *codes;         // [rows, length]
  uint8_t *block_scales; // [rows, length / block] or NULL
  int32_t *bias_codes;   // [outputs] or NULL
} weight_job;

static int8_t encode_weight(float value, double reciprocal, int32_t most) {
  const double code = floor((double)value * reciprocal + 0.5);
  return (int8_t)(code < -most ? -most : code > most ? most : code);
}

static double squared_error(const float *row, int64_t length, double scale, int32_t most) {
  double error = 0;
  for (int64_t k = 0; k < length; k++) {
    const double difference = encode_weight(row[k], 1 / scale, most) * scale - (double)row[k];
    error += difference * difference;
  }
  return error;
}

// The scale of a row, or of a block of one: of its largest weight, or smaller where the squared error is.
static double row_scale(const float *row, int64_t length, int32_t method, int32_t most) {
  float largest = 0;
  for (int64_t k = 0; k < length; k++) largest = fmaxf(largest, fabsf(row[k]));
  const double full = (double)largest / most;
  if (method != ITG_WEIGHT_MSE || full == 0) return full;
  double best = full, best_error = squared_error(row, length, full, most);
  for (int step = 1; step < 30; step++) {
    const double scale = full * (1 - 0.02 * step), error = squared_error(row, length, scale, most);
    if (error < best_error) {
      best = scale;
      best_error = error;
    }
  }
  return best;
}

// A scale of which the bias fits: |b| <= 2^30 * s_x * s_w, with a little room for the rounding of the scale to float.
static double scale_for_bias(const weight_job *job, int64_t row) {
  double largest = 0;
  for (int64_t o = row; job->bias && o < job->outputs; o += job->rows)
    largest = fmax(largest, fabs((double)job->bias[o]));
  return largest / (job->input_scale * bias_limit) * (1 + 0x1p-20);
}

// What the rounded weights of a row lack on average.
static double mean_shift(const weight_job *job, int64_t row) {
  const float *weight = job->weight + row * job->length;
  const int8_t *codes = job->codes + row * job->length;
  const uint8_t *blocks = job->block ? job->block_scales + row * (job->length / job->block) : NULL;
  const double *means = job->means + row / (job->rows / job->group) * job->width;
  double shift = 0;
  for (int64_t k = 0; k < job->length; k++) {
    const int32_t code = blocks ? codes[k] * blocks[k / job->block] : codes[k];
    shift += ((double)weight[k] - code * job->scales[row]) * means[k % job->width];
  }
  return shift;
}

static int32_t encode_bias(double bias, double scale) {
  const double code = floor(bias / scale + 0.5);
  return (int32_t)(code < -bias_limit ? -bias_limit : code > bias_limit ? bias_limit : code);
}

// The next larger scale whose factor has a mantissa of `snap_bits` bits, so that the NPU's own rounding of the factor changes
// nothing (facts: 24 -> 2 codes on 16-bit activations of v68).
static double snapped(double scale, double unit, int bits) {
  int exponent;
  const double mantissa = frexp(scale / unit, &exponent);
  return ldexp(ceil(ldexp(mantissa, bits) - 1e-6), exponent - bits) * unit;
}

// The nearest scale that bias and target allow.
static double allowed_scale(const weight_job *job, int64_t row, double scale) {
  scale = fmax(fmax(scale, scale_for_bias(job, row)), job->smallest_scale);
  if (job->snap_unit > 0 && scale > 0) scale = snapped(scale, job->snap_unit, job->snap_bits);
  scale = (double)(float)scale;
  return scale > 0x1p-100 ? scale : 1.0 / job->most; // All zero: any scale will do.
}

// LPBQ: block b wants the scale d_b; the channel's is max d_b / 16, and each block takes the nearest multiple (facts of the
// method: AIMET's low-power blockwise quantization).
static void quantize_blocks(const weight_job *job, int64_t r) {
  const int64_t count = job->length / job->block;
  const float *row = job->weight + r * job->length;
  uint8_t *multiples = job->block_scales + r * count;
  double largest = 0;
  for (int64_t b = 0; b < count; b++)
    largest = fmax(largest, row_scale(row + b * job->block, job->block, job->method, job->most));
  const double scale = job->scales[r] = allowed_scale(job, r, largest / MAX_BLOCK_SCALE);
  for (int64_t b = 0; b < count; b++) {
    const float *weight = row + b * job->block;
    const double wanted = floor(row_scale(weight, job->block, job->method, job->most) / scale + 0.5);
    multiples[b] = (uint8_t)(wanted < 1 ? 1 : wanted > MAX_BLOCK_SCALE ? MAX_BLOCK_SCALE : wanted);
    int8_t *codes = job->codes + r * job->length + b * job->block;
    for (int64_t k = 0; k < job->block; k++) codes[k] = encode_weight(weight[k], 1 / (scale * multiples[b]), job->most);
  }
}

static void quantize_rows(void *context, size_t index) {
  const weight_job *job = (const weight_job *)context + index;
  for (int64_t r = 0; r < job->rows; r++) {
    if (job->block) {
      quantize_blocks(job, r);
      continue;
    }
    const float *row = job->weight + r * job->length;
    const double scale = allowed_scale(job, r, row_scale(row, job->length, job->method, job->most));
    job->scales[r] = scale;
    for (int64_t k = 0; k < job->length; k++)
      job->codes[r * job->length + k] = encode_weight(row[k], 1 / scale, job->most);
  }
  for (int64_t o = 0; job->bias_codes && o < job->outputs; o++) {
    const int64_t row = o % job->rows;
    const double bias = (job->bias ? (double)job->bias[o] : 0) + (job->means ? mean_shift(job, row) : 0);
    job->bias_codes[o] = encode_bias(bias, job->input_scale * job->scales[row]);
  }
}

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
static itg_status read_means(const itg_quantize_plan *plan, const itg_node *node, itg_arena *arena, weight_job *job,
                             itg_diagnostic *diagnostic) {
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
static void set_target_limits(const itg_quantize_plan *plan, const itg_node *node, weight_job *job) {
  const itg_encoding *output = node->outputs[0]->encoding;
  if (!output) return;
  const double zero = fmax(output->zero_points ? output->zero_points[0] : 0, 1);
  const double smallest_factor = ldexp(zero, output->storage == ITG_DTYPE_U16 ? -37 : -29);
  const double unit = output->scales[0] / job->input_scale;
  if (itg_method_is_on(plan->recipe->methods_off, ITG_METHOD_SCALE_SNAPPING)) job->snap_unit = unit;
  job->snap_bits = plan->target->arch < 73 ? 11 : 12;
  job->smallest_scale = smallest_factor * unit;
}

// 4-bit weights stay away from convolutions of a channel each, whose few weights have nothing to average their errors, and
// from the first layer, which reads a graph input.
static int32_t weight_bits(const itg_quantize_plan *plan, const itg_node *node, const itg_node_choice *choice) {
  if (choice->weight_bits) return choice->weight_bits;
  const itg_shape *weight = &node->inputs[1]->shape;
  if (node->inputs[0]->is_input || (node->op == ITG_OP_CONV && weight->dims[weight->rank - 1] == 1)) return 8;
  return itg_recipe_weight_bits(plan->recipe);
}

// Makes the integer constants of one node (still to be filled by quantize_rows).
static itg_status prepare(itg_quantize_plan *plan, itg_node *node, itg_arena *arena, itg_diagnostic *diagnostic,
                          weight_job *job, itg_tensor **new_weight, itg_tensor **new_bias) {
  itg_tensor *weight = node->inputs[1], *bias = itg_node_input(node, 2);
  ITG_TRY(check_constant(plan, node, weight, "weights", diagnostic));
  if (bias) ITG_TRY(check_constant(plan, node, bias, "bias", diagnostic));
  const itg_encoding *input = node->inputs[0]->encoding;
  if (!input) ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the input must be a float activation");
  size_t count = 0;
  itg_shape_count(&weight->shape, &count); // check_constant has seen that it fits.
  *job = (weight_job){.weight = weight->data, .rows = weight->shape.dims[0], .input_scale = input->scales[0]};
  job->length = (int64_t)count / job->rows;
  job->outputs = job->rows * (node->op == ITG_OP_CONV_TRANSPOSE ? node->attributes.conv.group : 1);
  if (plan->target) set_target_limits(plan, node, job);
  const itg_node_choice choice = itg_recipe_choice(plan->recipe, node);
  const bool packed = weight_bits(plan, node, &choice) == 4;
  job->method = choice.weight_method;
  job->most = packed ? 7 : 127;
  if (packed && node->op == ITG_OP_FULLY_CONNECTED && choice.weight_block && job->length % choice.weight_block == 0) {
    job->block = choice.weight_block;
    job->block_scales = itg_arena_array(arena, count / (size_t)job->block, 1);
    ITG_TRY_MEMORY(job->block_scales, diagnostic);
  }
  job->scales = itg_arena_array(arena, (size_t)job->rows, sizeof job->scales[0]);
  *new_weight =
      itg_graph_add_constant(plan->graph, weight->name, packed ? ITG_DTYPE_S4 : ITG_DTYPE_S8, &weight->shape, NULL);
  ITG_TRY_MEMORY(job->scales && *new_weight, diagnostic);
  (*new_weight)->index = -1;
  job->codes = packed ? itg_arena_allocate(arena, count) : itg_tensor_writable(*new_weight);
  ITG_TRY_MEMORY(job->codes, diagnostic);
  ITG_TRY(read_means(plan, node, arena, job, diagnostic));
  *new_bias = NULL;
  if (!bias && !job->means) return ITG_OK;
  if (bias && (bias->shape.rank != 1 || bias->shape.dims[0] != job->outputs))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, node->name, "the bias must have one value an output channel");
  job->bias = bias ? bias->data : NULL;
  const itg_shape shape = itg_shape_of(1, &job->outputs);
  *new_bias = itg_graph_add_constant(plan->graph, bias ? bias->name : "bias", ITG_DTYPE_S32, &shape, NULL);
  ITG_TRY_MEMORY(*new_bias, diagnostic);
  (*new_bias)->index = -1;
  job->bias_codes = itg_tensor_writable(*new_bias);
  return ITG_OK;
}

static itg_status finish(itg_quantize_plan *plan, itg_node *node, const weight_job *job, itg_arena *arena,
                         itg_tensor *weight, itg_tensor *bias, itg_diagnostic *diagnostic) {
  weight->encoding = itg_encoding_create(plan->graph, weight->dtype, 0, job->rows, job->scales, NULL);
  ITG_TRY_MEMORY(weight->encoding && itg_node_set_input(node, 1, weight), diagnostic);
  if (weight->dtype == ITG_DTYPE_S4) {
    for (int64_t i = 0; i < job->rows * job->length; i++) itg_nibble_set(itg_tensor_writable(weight), i, job->codes[i]);
  }
  if (job->block) {
    const itg_shape shape = itg_shape_of(2, (const int64_t[]){job->rows, job->length / job->block});
    itg_tensor *blocks = itg_graph_add_constant(plan->graph, "block_scale", ITG_DTYPE_U8, &shape, job->block_scales);
    ITG_TRY_MEMORY(blocks && itg_node_resize_inputs(plan->graph, node, 5), diagnostic);
    blocks->index = -1;
    ITG_TRY_MEMORY(itg_node_set_input(node, 4, blocks), diagnostic);
  }
  if (!bias) return ITG_OK;
  double *scales = itg_arena_array(arena, (size_t)job->outputs, sizeof scales[0]);
  ITG_TRY_MEMORY(scales, diagnostic);
  for (int64_t o = 0; o < job->outputs; o++) scales[o] = job->input_scale * job->scales[o % job->rows];
  bias->encoding = itg_encoding_create(plan->graph, ITG_DTYPE_S32, 0, job->outputs, scales, NULL);
  if (node->input_count < 3) ITG_TRY_MEMORY(itg_node_resize_inputs(plan->graph, node, 3), diagnostic);
  ITG_TRY_MEMORY(bias->encoding && itg_node_set_input(node, 2, bias), diagnostic);
  return ITG_OK;
}

static itg_status quantize_all(itg_quantize_plan *plan, itg_arena *arena, itg_diagnostic *diagnostic) {
  size_t count = 0, n = 0;
  ITG_FOR_EACH_NODE(node, plan->graph) count += has_weights(node);
  weight_job *jobs = itg_arena_array(arena, count, sizeof jobs[0]);
  itg_tensor **weights = itg_arena_array(arena, count, sizeof weights[0]);
  itg_tensor **biases = itg_arena_array(arena, count, sizeof biases[0]);
  itg_node **nodes = itg_arena_array(arena, count, sizeof nodes[0]);
  ITG_TRY_MEMORY(jobs && weights && biases && nodes, diagnostic);
  ITG_FOR_EACH_NODE(node, plan->graph) {
    // Weights that came as integers (an imported Q/DQ model) stay as they are.
    if (!has_weights(node) || (node->inputs[1]->data && node->inputs[1]->dtype == ITG_DTYPE_S8)) continue;
    ITG_TRY(prepare(plan, node, arena, diagnostic, &jobs[n], &weights[n], &biases[n]));
    nodes[n++] = node;
  }
  itg_parallel_for(plan->pool, n, quantize_rows, jobs);
  for (size_t i = 0; i < n; i++) ITG_TRY(finish(plan, nodes[i], &jobs[i], arena, weights[i], biases[i], diagnostic));
  return ITG_OK;
}

itg_status itg_plan_weights(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  itg_arena arena = {0};
  const itg_status status = quantize_all(plan, &arena, diagnostic);
  itg_arena_free(&arena);
  return status;
}
