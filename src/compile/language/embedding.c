// See embedding.h.
#include "compile/language/embedding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/infer.h"
#include "tensor/multiplier.h"

void itg_row_table_free(itg_row_table *table) {
  free(table->codes);
  free(table->scales);
  *table = (itg_row_table){0};
}

static const int8_t *codes_of(const itg_row_table *table) { return table->codes ? table->codes : table->borrowed; }

static void encode_row(const float *row, int64_t width, int8_t *codes, double *scale) {
  float largest = 0;
  for (int64_t i = 0; i < width; i++) largest = fmaxf(largest, fabsf(row[i]));
  *scale = largest > 0 ? (double)(float)((double)largest / 127) : 1;
  for (int64_t i = 0; i < width; i++) {
    const double code = floor((double)row[i] / *scale + 0.5);
    codes[i] = (int8_t)(code < -127 ? -127 : code > 127 ? 127 : code);
  }
}

itg_status itg_row_table_from_model(const itg_language_model *model, itg_diagnostic *diagnostic, itg_row_table *out) {
  const int64_t count = model->config.vocabulary, width = model->config.hidden;
  const itg_weight *weight = itg_language_weight(model, ITG_WEIGHT_EMBEDDING, 0, false);
  itg_row_table table = {.codes = malloc((size_t)(count * width)),
                         .scales = malloc((size_t)count * sizeof(double)),
                         .count = count,
                         .width = width};
  float *row = malloc((size_t)width * sizeof *row);
  itg_status status = ITG_OK;
  if (!table.codes || !table.scales || !row)
    status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  for (int64_t r = 0; status == ITG_OK && r < count; r++) {
    itg_weight_read(weight, r, 1, row);
    for (int64_t i = 0; i < width; i++) {
      if (!isfinite(row[i]))
        status = itg_fail(diagnostic, ITG_ERROR_QUANTIZATION, weight->name, __FILE__, __LINE__,
                          "the token embedding holds infinities or NaN");
    }
    encode_row(row, width, table.codes + r * width, &table.scales[r]);
  }
  free(row);
  if (status != ITG_OK)
    itg_row_table_free(&table);
  else
    *out = table;
  return status;
}

itg_status itg_row_table_from_head(const itg_graph *decoder, itg_diagnostic *diagnostic, itg_row_table *out) {
  const itg_tensor *logits = decoder->output_count ? decoder->outputs[0] : NULL;
  const itg_node *node = logits ? logits->producer : NULL;
  *out = (itg_row_table){0};
  if (!node || node->op != ITG_OP_Q_FULLY_CONNECTED) return ITG_OK;
  const itg_tensor *weight = node->inputs[1];
  if (weight->dtype != ITG_DTYPE_S8 || !weight->encoding || weight->encoding->count != weight->shape.dims[0])
    return ITG_OK;
  const size_t bytes = (size_t)weight->shape.dims[0] * sizeof(double);
  double *scales = malloc(bytes);
  ITG_TRY_MEMORY(scales, diagnostic);
  memcpy(scales, weight->encoding->scales, bytes);
  *out = (itg_row_table){
      .scales = scales, .borrowed = weight->data, .count = weight->shape.dims[0], .width = weight->shape.dims[1]};
  return ITG_OK;
}

void itg_row_table_read(const itg_row_table *table, int32_t id, float *out) {
  const int8_t *row = codes_of(table) + id * table->width;
  for (int64_t i = 0; i < table->width; i++) out[i] = (float)(table->scales[id] * row[i]);
}

static itg_status build(itg_graph *graph, const itg_row_table *table, const itg_encoding *encoding,
                        itg_diagnostic *diagnostic) {
  const itg_shape id_shape = itg_shape_of(1, (const int64_t[]){1});
  const itg_shape table_shape = itg_shape_of(2, (const int64_t[]){table->count, table->width});
  const itg_shape vector = itg_shape_of(1, &table->count);
  const itg_shape out_shape = itg_shape_of(2, (const int64_t[]){1, table->width});
  itg_tensor *ids = itg_graph_add_tensor(graph, "ids", ITG_DTYPE_S32, &id_shape);
  itg_tensor *codes = itg_graph_add_borrowed(graph, "rows", ITG_DTYPE_S8, &table_shape, codes_of(table));
  itg_tensor *multiplier = itg_graph_add_constant(graph, "multiplier", ITG_DTYPE_S32, &vector, NULL);
  itg_tensor *shift = itg_graph_add_constant(graph, "shift", ITG_DTYPE_S32, &vector, NULL);
  itg_tensor *output = itg_graph_add_tensor(graph, "embeddings", encoding->storage, &out_shape);
  ITG_TRY_MEMORY(ids && codes && multiplier && shift && output, diagnostic);
  itg_encoding *copy = itg_arena_copy(&graph->arena, encoding, sizeof *encoding);
  ITG_TRY_MEMORY(copy, diagnostic);
  copy->scales = itg_arena_copy(&graph->arena, encoding->scales, sizeof encoding->scales[0]);
  copy->zero_points =
      encoding->zero_points ? itg_arena_copy(&graph->arena, encoding->zero_points, sizeof(int32_t)) : NULL;
  ITG_TRY_MEMORY(copy->scales && (copy->zero_points || !encoding->zero_points), diagnostic);
  output->encoding = copy;
  int32_t *multipliers = itg_tensor_writable(multiplier), *shifts = itg_tensor_writable(shift);
  for (int64_t r = 0; r < table->count; r++) {
    if (!itg_multiplier_from_double(table->scales[r] / encoding->scales[0], &multipliers[r], &shifts[r]))
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, "embeddings",
               "row %lld of the token embedding does not fit the range that was calibrated", (long long)r);
  }
  itg_tensor *inputs[] = {ids, codes, multiplier, shift};
  itg_node *node = itg_graph_insert_node(graph, NULL, ITG_OP_Q_EMBEDDING, "embeddings", inputs, 4, &output, 1);
  ITG_TRY_MEMORY(node && itg_graph_add_input(graph, ids) && itg_graph_add_output(graph, output), diagnostic);
  node->attributes.requantize =
      (itg_requantize_attributes){.low = itg_code_min(encoding->storage), .high = itg_code_max(encoding->storage)};
  graph->stage = ITG_STAGE_LEGAL;
  return itg_infer_node(node, diagnostic);
}

itg_status itg_embedding_graph(const itg_row_table *table, const itg_encoding *encoding, itg_diagnostic *diagnostic,
                               itg_graph **out) {
  itg_graph *graph = NULL;
  ITG_TRY(itg_graph_create(diagnostic, &graph));
  const itg_status status = build(graph, table, encoding, diagnostic);
  if (status != ITG_OK) {
    itg_graph_destroy(graph);
    return status;
  }
  *out = graph;
  return ITG_OK;
}
