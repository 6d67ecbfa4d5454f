// The decoder of Llama, Qwen2 and Qwen3: RMSNorm, grouped attention with rotary embeddings over a cache, gated MLP.
#include <math.h>

#include "graph/infer.h"
#include "import/language/builder.h"

typedef struct decoder {
  itg_builder b;
  itg_decoder_part part;
  itg_tensor *cosine, *sine, *position;
} decoder;

#define NAME(format, ...) itg_builder_name(&d->b, "layers.%d." format, (int)layer, ##__VA_ARGS__)

// RMSNorm of each head (Qwen3).
static itg_tensor *norm_heads(decoder *d, itg_tensor *x, itg_weight_role role, int32_t layer, const char *what) {
  const itg_language_config *config = &d->b.model->config;
  if (!config->head_norm || !x) return x;
  const itg_shape flat = x->shape;
  const int64_t heads = flat.dims[2] / config->head_size;
  x = itg_builder_reshape(&d->b, x, NAME("%s_heads", what),
                          itg_shape_of(4, (const int64_t[]){1, d->part.block, heads, config->head_size}));
  x = itg_builder_norm(&d->b, ITG_OP_RMS_NORM, x, role, layer, config->norm_epsilon, NAME("%s_norm", what));
  return itg_builder_reshape(&d->b, x, NAME("%s_rows", what), flat);
}

static itg_tensor *project(decoder *d, itg_tensor *x, itg_weight_role role, int32_t layer, const char *what) {
  const itg_weight_change change = {.pair_size = d->b.model->paired_rotation ? d->b.model->config.head_size : 0};
  return itg_builder_linear(&d->b, x, role, layer, role == ITG_WEIGHT_LAYER_V ? NULL : &change, NAME("%s", what));
}

static itg_tensor *rotate(decoder *d, itg_tensor *x, int32_t layer, const char *what) {
  itg_tensor *inputs[] = {x, d->cosine, d->sine};
  return itg_builder_node(&d->b, ITG_OP_ROPE, NULL, NAME("%s_rotated", what), inputs, 3, NULL);
}

// The scores are an output of their own, so that calibration sees them.
static itg_tensor *attend(decoder *d, itg_tensor *q, itg_tensor *k, itg_tensor *v, int32_t layer) {
  itg_builder *b = &d->b;
  const itg_language_config *config = &b->model->config;
  const itg_shape cache = itg_shape_of(3, (const int64_t[]){config->kv_heads, d->part.context, config->head_size});
  itg_tensor *inputs[ITG_ATTENTION_POSITION + 1] = {q, k, v};
  inputs[ITG_ATTENTION_K_CACHE] =
      itg_builder_input(b, itg_builder_name(b, "k_cache.%d", (int)layer), ITG_DTYPE_F32, cache);
  inputs[ITG_ATTENTION_V_CACHE] =
      itg_builder_input(b, itg_builder_name(b, "v_cache.%d", (int)layer), ITG_DTYPE_F32, cache);
  inputs[ITG_ATTENTION_POSITION] = d->position;
  if (b->status != ITG_OK) return NULL;
  const itg_shape unknown = {0};
  itg_tensor *outputs[2] = {itg_graph_add_tensor(b->graph, NAME("attention"), ITG_DTYPE_F32, &unknown),
                            itg_graph_add_tensor(b->graph, NAME("scores"), ITG_DTYPE_F32, &unknown)};
  itg_node *node = outputs[0] && outputs[1] ? itg_graph_insert_node(b->graph, NULL, ITG_OP_ATTENTION, outputs[0]->name,
                                                                    inputs, ITG_ATTENTION_POSITION + 1, outputs, 2)
                                            : NULL;
  if (!node) {
    b->status = itg_fail(b->diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
    return NULL;
  }
  node->attributes.attention.scale = 1 / sqrt(config->head_size);
  b->status = itg_infer_node(node, b->diagnostic);
  return outputs[0];
}

static itg_tensor *add(decoder *d, itg_tensor *a, itg_tensor *c, const char *name) {
  return itg_builder_node(&d->b, ITG_OP_ADD, NULL, name, (itg_tensor *[]){a, c}, 2, NULL);
}

static itg_tensor *layer_of(decoder *d, itg_tensor *x, int32_t layer) {
  itg_builder *b = &d->b;
  const double epsilon = b->model->config.norm_epsilon;
  itg_tensor *h = itg_builder_norm(b, ITG_OP_RMS_NORM, x, ITG_WEIGHT_LAYER_NORM, layer, epsilon, NAME("norm"));
  itg_tensor *q = norm_heads(d, project(d, h, ITG_WEIGHT_LAYER_Q, layer, "q"), ITG_WEIGHT_LAYER_Q_NORM, layer, "q");
  itg_tensor *k = norm_heads(d, project(d, h, ITG_WEIGHT_LAYER_K, layer, "k"), ITG_WEIGHT_LAYER_K_NORM, layer, "k");
  itg_tensor *v = project(d, h, ITG_WEIGHT_LAYER_V, layer, "v");
  q = rotate(d, q, layer, "q");
  k = rotate(d, k, layer, "k");
  h = attend(d, q, k, v, layer);
  h = itg_builder_linear(b, h, ITG_WEIGHT_LAYER_OUTPUT, layer, NULL, NAME("o"));
  x = add(d, x, h, NAME("attended"));
  h = itg_builder_norm(b, ITG_OP_RMS_NORM, x, ITG_WEIGHT_LAYER_SECOND_NORM, layer, epsilon, NAME("mlp_norm"));
  itg_tensor *gate = itg_builder_linear(b, h, ITG_WEIGHT_LAYER_GATE, layer, NULL, NAME("gate"));
  itg_tensor *up = itg_builder_linear(b, h, ITG_WEIGHT_LAYER_UP, layer, NULL, NAME("up"));
  gate = itg_builder_node(b, ITG_OP_SILU, NULL, NAME("gate_silu"), &gate, 1, NULL);
  h = itg_builder_node(b, ITG_OP_MUL, NULL, NAME("gated"), (itg_tensor *[]){gate, up}, 2, NULL);
  h = itg_builder_linear(b, h, ITG_WEIGHT_LAYER_DOWN, layer, NULL, NAME("down"));
  return add(d, x, h, NAME("output"));
}
#undef NAME

static itg_tensor *inputs_of(decoder *d) {
  itg_builder *b = &d->b;
  const itg_language_config *config = &b->model->config;
  const int64_t block = d->part.block;
  const char *name = d->part.first ? itg_builder_name(b, "layers.%d.output", (int)d->part.first - 1) : "embeddings";
  itg_tensor *x =
      itg_builder_input(b, name, ITG_DTYPE_F32, itg_shape_of(3, (const int64_t[]){1, block, config->hidden}));
  if (d->part.first == d->part.end) return x;
  const itg_shape table = itg_shape_of(2, (const int64_t[]){block, config->head_size / 2});
  d->cosine = itg_builder_input(b, "cosine", ITG_DTYPE_F32, table);
  d->sine = itg_builder_input(b, "sine", ITG_DTYPE_F32, table);
  d->position = itg_builder_input(b, "position", ITG_DTYPE_S32, itg_shape_of(1, (const int64_t[]){1}));
  return x;
}

static itg_tensor *head_of(decoder *d, itg_tensor *x) {
  itg_builder *b = &d->b;
  const itg_language_config *config = &b->model->config;
  x = itg_builder_norm(b, ITG_OP_RMS_NORM, x, ITG_WEIGHT_FINAL_NORM, 0, config->norm_epsilon, "final_norm");
  return itg_builder_linear(b, x, config->tied ? ITG_WEIGHT_EMBEDDING : ITG_WEIGHT_HEAD, 0, NULL, "logits");
}

itg_status itg_build_decoder(const itg_language_model *model, const itg_decoder_part *part, itg_diagnostic *diagnostic,
                             itg_graph **out) {
  if (part->first < 0 || part->end < part->first || part->end > model->config.layers || part->block < 1 ||
      part->context < part->block || part->context > model->config.maximum_positions ||
      (part->first == part->end && !part->head))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL,
             "layers %d..%d of %d over blocks of %lld in a context of %lld (of at most %d) cannot be built",
             (int)part->first, (int)part->end, (int)model->config.layers, (long long)part->block,
             (long long)part->context, (int)model->config.maximum_positions);
  decoder d = {.b = {.model = model, .diagnostic = diagnostic}, .part = *part};
  ITG_TRY(itg_graph_create(diagnostic, &d.b.graph));
  itg_tensor *x = inputs_of(&d);
  for (int32_t layer = part->first; layer < part->end; layer++) x = layer_of(&d, x, layer);
  if (part->head) x = head_of(&d, x);
  if (d.b.status == ITG_OK && !itg_graph_add_output(d.b.graph, x))
    d.b.status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  if (d.b.status != ITG_OK) {
    itg_graph_destroy(d.b.graph);
    return d.b.status;
  }
  *out = d.b.graph;
  return ITG_OK;
}

itg_status itg_language_embed(const itg_language_model *model, const int32_t *ids, size_t count,
                              itg_diagnostic *diagnostic, float *out) {
  const itg_weight *table = itg_language_weight(model, ITG_WEIGHT_EMBEDDING, 0, false);
  for (size_t i = 0; i < count; i++) {
    if (ids[i] < 0 || ids[i] >= model->config.vocabulary)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "token %d is outside the vocabulary of %d", (int)ids[i],
               (int)model->config.vocabulary);
    itg_weight_read(table, ids[i], 1, out + i * (size_t)model->config.hidden);
  }
  return ITG_OK;
}
