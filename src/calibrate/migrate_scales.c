// SmoothQuant (arXiv 2211.10438) with the shift of RepQ-ViT (arXiv 2212.08254): u = (x - z_c) / s_c with z_c the middle of the
// channel's range and s_c = (r_c / median r)^alpha, r_c half its width.
//
// Alpha is chosen for each tensor by the error that the readers would make, from per-channel statistics: the rounding of u
// (step^2 / 12 in every channel, multiplied by the weights it meets) and the rounding of the weights (each row's step^2 / 12,
// multiplied by the variance it meets; what their rounding does to the mean, the bias takes back). "Off" is one of the
// choices, and wins unless another is clearly better. Where 16 bits are read, only the weights gain: the columns
// that loud channels meet are rounded more finely (MiniLM, a16w8: SQNR 28.7 -> 29.5 dB).
//
// MiniLM, a8w8+s16: one channel of the norms' outputs reaches 28 where the others reach 2, and one of the GELUs' 25
// where the others reach 1.5.
#include "calibrate/migrate_scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/rewrite.h"

static const double exponents[] = {0, 0.25, 0.5, 0.75, 1}; // Of the ranges. 0: nothing but the shift.
// Part of the error without migration that must not be exceeded; where weights are all that can gain, less is to be had.
static const double worth_it[] = {0.7, 0.9}; // Of operands of 8 and of 16 bits.
static const double most_scale = 256;        // Either way; channels that hardly move are not amplified without end.

typedef struct migration {
  itg_graph *graph;
  itg_tensor *tensor;
  int64_t channels;
  itg_node **readers; // malloc'ed
  double **weights;   // malloc'ed, each of them too; [rows, taps, channels]
  int32_t reader_count;
  double low, high; // Of the whole tensor, holding 0.
  double *radius, *variance,
      *weight_energy;            // [channels]; weight_energy: sum of the squared weights that meet the channel.
  double *shift, *scale, *trial; // [channels]
} migration;

static int64_t row_length(const itg_node *reader) {
  size_t count = 0;
  const itg_shape *shape = &reader->inputs[1]->shape;
  return itg_shape_count(shape, &count) ? (int64_t)count / shape->dims[0] : 0;
}

// Reads `tensor` as its first input through a matrix of constant weights without padding (a shift would show at borders).
static bool is_reader(const itg_node *node, const itg_tensor *tensor, int64_t channels) {
  const itg_conv_attributes *conv = &node->attributes.conv;
  if (node->op != ITG_OP_FULLY_CONNECTED && node->op != ITG_OP_CONV) return false;
  const itg_tensor *weight = node->inputs[1], *bias = itg_node_input(node, 2);
  if (node->inputs[0] != tensor || !itg_tensor_is_constant(weight) || weight->dtype != ITG_DTYPE_F32) return false;
  if (weight->shape.rank < 2 || weight->shape.dims[0] < 1 || weight->shape.dims[weight->shape.rank - 1] != channels)
    return false;
  if (bias && (!itg_tensor_is_constant(bias) || bias->dtype != ITG_DTYPE_F32 || bias->shape.rank != 1)) return false;
  if (node->op == ITG_OP_FULLY_CONNECTED) return true;
  for (int32_t i = 0; i < conv->window.rank; i++) {
    if (conv->window.pad_begin[i] != 0 || conv->window.pad_end[i] != 0) return false;
  }
  return conv->group == 1 && conv->layout == ITG_LAYOUT_CHANNELS_LAST;
}

static bool makes_its_own_scale(itg_op op) {
  switch (op) {
  case ITG_OP_LAYER_NORM:
  case ITG_OP_RMS_NORM:
  case ITG_OP_GELU:
  case ITG_OP_QUICK_GELU:
  case ITG_OP_SILU:
  case ITG_OP_MUL: return true;
  default: return false;
  }
}

// The norm can take scale and shift itself: nobody but the readers sees its output.
static bool folds(const migration *m) {
  const itg_node *norm = m->tensor->producer;
  return norm->op == ITG_OP_LAYER_NORM && m->reader_count == m->tensor->user_count && !m->tensor->is_output &&
         norm->input_count > 1 && itg_tensor_is_constant(norm->inputs[1]) && norm->inputs[1]->shape.rank == 1 &&
         (!itg_node_input(norm, 2) || itg_tensor_is_constant(norm->inputs[2]));
}

static void forget(migration *m) {
  for (int32_t i = 0; m->weights && i < m->reader_count; i++) free(m->weights[i]);
  free(m->weights);
  free(m->readers);
  free(m->radius);
  *m = (migration){0};
}

static itg_status find_readers(migration *m, itg_diagnostic *diagnostic) {
  const size_t most = (size_t)m->tensor->user_count;
  m->readers = calloc(most + 1, sizeof m->readers[0]);
  m->weights = calloc(most + 1, sizeof m->weights[0]);
  m->radius = calloc(6 * (size_t)m->channels + 1, sizeof m->radius[0]);
  ITG_TRY_MEMORY(m->readers && m->weights && m->radius, diagnostic);
  double **rest[] = {&m->variance, &m->weight_energy, &m->shift, &m->scale, &m->trial};
  for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) *rest[i] = m->radius + (i + 1) * (size_t)m->channels;
  for (int32_t u = 0; u < m->tensor->user_count; u++) {
    itg_node *user = m->tensor->users[u];
    if (!is_reader(user, m->tensor, m->channels)) continue;
    ITG_TRY(itg_constant_read(user->inputs[1], diagnostic, &m->weights[m->reader_count]));
    m->readers[m->reader_count++] = user;
  }
  return ITG_OK;
}

static void measure(migration *m, const itg_tensor_statistics *statistics) {
  const double count = (double)statistics->channel_count;
  for (int64_t c = 0; c < m->channels; c++) {
    const double low = (double)statistics->channel_low[c], high = (double)statistics->channel_high[c];
    const double mean = statistics->channel_sum[c] / count;
    m->low = fmin(m->low, low);
    m->high = fmax(m->high, high);
    m->shift[c] = (double)(float)((low + high) / 2);
    m->radius[c] = (high - low) / 2;
    m->variance[c] = fmax(0, statistics->channel_squares[c] / count - mean * mean);
  }
  for (int32_t i = 0; i < m->reader_count; i++) {
    const int64_t total = m->readers[i]->inputs[1]->shape.dims[0] * row_length(m->readers[i]);
    for (int64_t k = 0; k < total; k++) m->weight_energy[k % m->channels] += m->weights[i][k] * m->weights[i][k];
  }
}

// Squared error at the readers' outputs, times 12, when u has the given scales and rounds with `step`.
static double error_of(const migration *m, const double *scale, double step) {
  double activation = 0, spread = 0, weight = 0;
  for (int64_t c = 0; c < m->channels; c++) {
    activation += scale[c] * scale[c] * m->weight_energy[c];
    spread += m->variance[c] / (scale[c] * scale[c]);
  }
  for (int32_t i = 0; i < m->reader_count; i++) {
    const int64_t rows = m->readers[i]->inputs[1]->shape.dims[0], length = row_length(m->readers[i]);
    double steps = 0;
    for (int64_t r = 0; r < rows; r++) {
      double largest = 0;
      for (int64_t k = 0; k < length; k++)
        largest = fmax(largest, fabs(m->weights[i][r * length + k]) * scale[k % m->channels]);
      steps += largest * largest / (127.0 * 127);
    }
    weight += steps * spread * (double)(length / m->channels);
  }
  return activation * step * step + weight;
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Fills m->scale; false: the tensor is better left alone.
static bool choose_scales(migration *m, double levels) {
  memcpy(m->trial, m->radius, (size_t)m->channels * sizeof m->trial[0]);
  qsort(m->trial, (size_t)m->channels, sizeof m->trial[0], compare_doubles);
  const double median = m->trial[m->channels / 2];
  if (!(median > 0)) return false;
  for (int64_t c = 0; c < m->channels; c++) m->trial[c] = 1;
  double least = worth_it[levels > 255] * error_of(m, m->trial, (m->high - m->low) / levels);
  bool found = false;
  for (size_t i = 0; i < sizeof exponents / sizeof exponents[0]; i++) {
    double widest = 0;
    for (int64_t c = 0; c < m->channels; c++) {
      const double ratio = fmin(fmax(m->radius[c] / median, 1 / most_scale), most_scale);
      m->trial[c] = (double)(float)pow(ratio, exponents[i]);
      widest = fmax(widest, m->radius[c] / m->trial[c]);
    }
    const double error = error_of(m, m->trial, 2 * widest / levels);
    if (error >= least) continue;
    least = error;
    found = true;
    memcpy(m->scale, m->trial, (size_t)m->channels * sizeof m->scale[0]);
  }
  return found;
}

static itg_status set_constant(itg_graph *graph, itg_node *node, int32_t index, const char *name,
                               const itg_shape *shape, const double *values, itg_diagnostic *diagnostic) {
  itg_tensor *constant = itg_constant_write(graph, name, ITG_DTYPE_F32, shape, values);
  ITG_TRY_MEMORY(constant, diagnostic);
  constant->index = -1;
  if (node->input_count <= index) ITG_TRY_MEMORY(itg_node_resize_inputs(graph, node, index + 1), diagnostic);
  ITG_TRY_MEMORY(itg_node_set_input(node, index, constant), diagnostic);
  return ITG_OK;
}

// W*x + b = (W*s)*u + (b + W*z)
static itg_status rewrite_reader(migration *m, int32_t index, itg_diagnostic *diagnostic) {
  itg_node *reader = m->readers[index];
  double *weight = m->weights[index], *bias = NULL;
  const itg_tensor *old_bias = itg_node_input(reader, 2);
  const int64_t rows = reader->inputs[1]->shape.dims[0], length = row_length(reader);
  if (old_bias) ITG_TRY(itg_constant_read(old_bias, diagnostic, &bias));
  if (!bias) bias = calloc((size_t)rows, sizeof bias[0]);
  ITG_TRY_MEMORY(bias, diagnostic);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t k = 0; k < length; k++) {
      bias[r] += weight[r * length + k] * m->shift[k % m->channels];
      weight[r * length + k] *= m->scale[k % m->channels];
    }
  }
  const itg_shape shape = itg_shape_of(1, &rows);
  itg_status status =
      set_constant(m->graph, reader, 1, reader->inputs[1]->name, &reader->inputs[1]->shape, weight, diagnostic);
  if (status == ITG_OK)
    status = set_constant(m->graph, reader, 2, old_bias ? old_bias->name : "bias", &shape, bias, diagnostic);
  free(bias);
  return status;
}

static itg_status fold_into_norm(migration *m, itg_diagnostic *diagnostic) {
  itg_node *norm = m->tensor->producer;
  double *gamma, *beta = NULL;
  ITG_TRY(itg_constant_read(norm->inputs[1], diagnostic, &gamma));
  itg_status status = ITG_OK;
  const itg_tensor *old_beta = itg_node_input(norm, 2);
  if (old_beta) status = itg_constant_read(old_beta, diagnostic, &beta);
  if (status == ITG_OK && !beta && !(beta = calloc((size_t)m->channels, sizeof beta[0])))
    status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  const itg_shape shape = itg_shape_of(1, &m->channels);
  if (status == ITG_OK) {
    for (int64_t c = 0; c < m->channels; c++) {
      gamma[c] /= m->scale[c];
      beta[c] = (beta[c] - m->shift[c]) / m->scale[c];
    }
    status = set_constant(m->graph, norm, 1, norm->inputs[1]->name, &shape, gamma, diagnostic);
  }
  if (status == ITG_OK)
    status = set_constant(m->graph, norm, 2, old_beta ? old_beta->name : "beta", &shape, beta, diagnostic);
  free(gamma);
  free(beta);
  return status;
}

static itg_status insert_affine(migration *m, itg_diagnostic *diagnostic) {
  itg_tensor *x = m->tensor, *u = itg_graph_add_tensor(m->graph, x->name, ITG_DTYPE_F32, &x->shape);
  ITG_TRY_MEMORY(u, diagnostic);
  u->index = -1;
  itg_node *affine = itg_graph_insert_node(m->graph, x->producer->next, ITG_OP_AFFINE, u->name, &x, 1, &u, 1);
  ITG_TRY_MEMORY(affine, diagnostic);
  for (int64_t c = 0; c < m->channels; c++) m->trial[c] = 1 / m->scale[c];
  const itg_shape shape = itg_shape_of(1, &m->channels);
  ITG_TRY(set_constant(m->graph, affine, 1, "gain", &shape, m->trial, diagnostic));
  for (int64_t c = 0; c < m->channels; c++) m->trial[c] = -m->shift[c] / m->scale[c];
  ITG_TRY(set_constant(m->graph, affine, 2, "offset", &shape, m->trial, diagnostic));
  for (int32_t i = 0; i < m->reader_count; i++) ITG_TRY_MEMORY(itg_node_set_input(m->readers[i], 0, u), diagnostic);
  return ITG_OK;
}

static itg_status migrate(migration *m, const itg_tensor_statistics *statistics, double levels, bool insert,
                          bool *changed, itg_diagnostic *diagnostic) {
  ITG_TRY(find_readers(m, diagnostic));
  const bool into_norm = m->reader_count > 0 && folds(m);
  if (m->reader_count == 0 || (!into_norm && !insert)) return ITG_OK;
  measure(m, statistics);
  if (!choose_scales(m, levels)) return ITG_OK;
  *changed = true;
  for (int32_t i = 0; i < m->reader_count; i++) ITG_TRY(rewrite_reader(m, i, diagnostic));
  return into_norm ? fold_into_norm(m, diagnostic) : insert_affine(m, diagnostic);
}

itg_status itg_migrate_scales(itg_graph *graph, const itg_statistics *statistics, int32_t operand_bits, bool insert,
                              bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE(node, graph) {
    itg_tensor *tensor = node->outputs[0];
    if (!makes_its_own_scale(node->op) || tensor->encoding || tensor->shape.rank < 1) continue;
    const itg_tensor_statistics *entry = itg_statistics_of(statistics, tensor);
    if (!entry || entry->channel_count == 0) continue;
    migration m = {.graph = graph, .tensor = tensor, .channels = entry->channels};
    const itg_status status = migrate(&m, entry, operand_bits == 8 ? 255 : 65535, insert, changed, diagnostic);
    forget(&m);
    ITG_TRY(status);
  }
  return ITG_OK;
}
