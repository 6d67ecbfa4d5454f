// A small Llama-like decoder with random weights: the float graph, and its compiled form for a session.
#ifndef ITG_TESTS_SUPPORT_DECODER_GRAPH_H
#define ITG_TESTS_SUPPORT_DECODER_GRAPH_H

#include "calibrate/calibrate.h"
#include "support/integer_net.h"

enum {
  DECODER_BLOCK = 16,
  DECODER_CONTEXT = 64,
  DECODER_HIDDEN = 48,
  DECODER_HEADS = 6,
  DECODER_GROUPS = 2,
  DECODER_DIM = 8,
  DECODER_WIDE = 96,
  DECODER_VOCABULARY = 131,
  DECODER_LAYERS = 2,
};

static inline itg_tensor *decoder_linear(itg_graph *graph, itg_tensor *x, int64_t inputs, int64_t outputs) {
  const float gain = 1.5f / sqrtf((float)inputs);
  return NET_NODE(graph, ITG_OP_FULLY_CONNECTED, net_no_attributes, NULL, x,
                  net_constant(graph, net_shape(2, outputs, inputs, 0, 0), -gain, gain));
}

static inline itg_tensor *decoder_norm(itg_graph *graph, itg_tensor *x) {
  const itg_attributes attributes = {.norm = {.epsilon = 1e-5, .axis = 2}};
  return NET_NODE(graph, ITG_OP_RMS_NORM, attributes, NULL, x,
                  net_constant(graph, net_shape(1, DECODER_HIDDEN, 0, 0, 0), 0.7f, 1.3f));
}

static inline itg_tensor *decoder_input(itg_graph *graph, const char *name, int layer, itg_dtype dtype,
                                        itg_shape shape) {
  char full[32];
  snprintf(full, sizeof full, layer < 0 ? "%s" : "%s.%d", name, layer);
  return net_input(graph, full, dtype, shape);
}

static inline itg_tensor *decoder_attention(itg_graph *graph, itg_tensor *const *operands) {
  const itg_shape scalar = {0};
  itg_tensor *outputs[] = {itg_graph_add_tensor(graph, "attention", ITG_DTYPE_F32, &scalar),
                           itg_graph_add_tensor(graph, "scores", ITG_DTYPE_F32, &scalar)};
  itg_node *node = itg_graph_insert_node(graph, NULL, ITG_OP_ATTENTION, "attention", operands, 6, outputs, 2);
  assert_non_null(node);
  node->attributes.attention.scale = 1 / sqrt(DECODER_DIM);
  itg_diagnostic why = {0};
  if (itg_infer_node(node, &why) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  return outputs[0];
}

// Inputs: embeddings, cosine, sine, position, and k and v caches by layer. Output: logits [1,T,V]. The weights are the same
// for every block and context.
static inline itg_graph *decoder_graph(int64_t block, int64_t context) {
  net_random_state = 4711;
  itg_graph *graph = net_create();
  itg_tensor *x = decoder_input(graph, "embeddings", -1, ITG_DTYPE_F32, net_shape(3, 1, block, DECODER_HIDDEN, 0));
  itg_tensor *cosine = decoder_input(graph, "cosine", -1, ITG_DTYPE_F32, net_shape(2, block, DECODER_DIM / 2, 0, 0));
  itg_tensor *sine = decoder_input(graph, "sine", -1, ITG_DTYPE_F32, net_shape(2, block, DECODER_DIM / 2, 0, 0));
  itg_tensor *position = decoder_input(graph, "position", -1, ITG_DTYPE_S32, net_shape(1, 1, 0, 0, 0));
  for (int layer = 0; layer < DECODER_LAYERS; layer++) {
    const itg_shape cache = net_shape(3, DECODER_GROUPS, context, DECODER_DIM, 0);
    itg_tensor *h = decoder_norm(graph, x);
    itg_tensor *q = decoder_linear(graph, h, DECODER_HIDDEN, DECODER_HEADS * DECODER_DIM);
    itg_tensor *k = decoder_linear(graph, h, DECODER_HIDDEN, DECODER_GROUPS * DECODER_DIM);
    itg_tensor *operands[] = {NET_NODE(graph, ITG_OP_ROPE, net_no_attributes, NULL, q, cosine, sine),
                              NET_NODE(graph, ITG_OP_ROPE, net_no_attributes, NULL, k, cosine, sine),
                              decoder_linear(graph, h, DECODER_HIDDEN, DECODER_GROUPS * DECODER_DIM),
                              decoder_input(graph, "k_cache", layer, ITG_DTYPE_F32, cache),
                              decoder_input(graph, "v_cache", layer, ITG_DTYPE_F32, cache),
                              position};
    h = decoder_attention(graph, operands);
    h = decoder_linear(graph, h, DECODER_HEADS * DECODER_DIM, DECODER_HIDDEN);
    x = NET_NODE(graph, ITG_OP_ADD, net_no_attributes, NULL, x, h);
    h = decoder_norm(graph, x);
    itg_tensor *gate = decoder_linear(graph, h, DECODER_HIDDEN, DECODER_WIDE);
    gate = NET_NODE(graph, ITG_OP_SILU, net_no_attributes, NULL, gate);
    h = NET_NODE(graph, ITG_OP_MUL, net_no_attributes, NULL, gate,
                 decoder_linear(graph, h, DECODER_HIDDEN, DECODER_WIDE));
    h = decoder_linear(graph, h, DECODER_WIDE, DECODER_HIDDEN);
    x = NET_NODE(graph, ITG_OP_ADD, net_no_attributes, NULL, x, h);
  }
  x = decoder_linear(graph, decoder_norm(graph, x), DECODER_HIDDEN, DECODER_VOCABULARY);
  assert_true(itg_graph_add_output(graph, x));
  return graph;
}

// The embedding of the token at a position of sample `seed`.
static inline void decoder_embedding(uint64_t seed, size_t position, float *out) {
  net_random_state = seed * 1000003 + position;
  for (int i = 0; i < DECODER_HIDDEN; i++) out[i] = net_uniform(-1, 1) + net_uniform(-1, 1);
}

static inline void decoder_angles(size_t position, float *cosine, float *sine) {
  for (int i = 0; i < DECODER_DIM / 2; i++) {
    const double angle = (double)position * pow(10000, -2.0 * i / DECODER_DIM);
    cosine[i] = (float)cos(angle);
    sine[i] = (float)sin(angle);
  }
}

// Inputs of a float run over [first, first + rows); caches are the caller's.
static inline void decoder_fill(uint64_t seed, size_t first, size_t rows, void *const *inputs) {
  for (size_t r = 0; r < rows; r++) {
    decoder_embedding(seed, first + r, (float *)inputs[0] + r * DECODER_HIDDEN);
    decoder_angles(first + r, (float *)inputs[1] + r * DECODER_DIM / 2, (float *)inputs[2] + r * DECODER_DIM / 2);
  }
  *(int32_t *)inputs[3] = (int32_t)first;
}

static inline itg_status decoder_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  decoder_fill(100 + index, 0, *(const size_t *)context, inputs);
  return ITG_OK;
}

// The compiled decoder. Calibrated over whole contexts, as one block, with weights and encodings that blocks share by name.
static inline itg_graph *decoder_compile(const char *precision) {
  itg_diagnostic why = {0};
  itg_recipe recipe;
  itg_pool *pool = NULL;
  itg_statistics *statistics = NULL;
  itg_graph *legal = NULL, *graph = decoder_graph(DECODER_BLOCK, DECODER_CONTEXT);
  const size_t rows = DECODER_BLOCK;
  const itg_sample_source samples = {(void *)&rows, 12, decoder_sample};
  assert_int_equal(itg_recipe_builtin(precision, &why, &recipe), ITG_OK);
  assert_int_equal(itg_pool_create(1, &why, &pool), ITG_OK);
  if (itg_calibrate(graph, &samples, pool, NULL, NULL, &why, &statistics) != ITG_OK ||
      itg_quantize(graph, statistics, &recipe, NULL, pool, &why) != ITG_OK ||
      itg_legalize(graph, NULL, &why, &legal) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  itg_statistics_destroy(statistics);
  itg_pool_destroy(pool);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
  return legal;
}

#endif
