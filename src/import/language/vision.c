// Vision encoders: SigLIP as in SmolVLM and Idefics3, InternViT as in InternVL3, with their connectors to the decoder.
#include <math.h>
#include <string.h>

#include "import/language/builder.h"

typedef struct encoder {
  itg_builder b;
  const itg_vision_config *vision;
  int64_t side, rows; // Patches of a side; tokens of the encoder (one more with a class token).
} encoder;

#define NAME(suffix) itg_builder_name(&e->b, "vision.layers.%d." suffix, (int)layer)

static itg_tensor *add(encoder *e, itg_tensor *a, itg_tensor *c, const char *name) {
  return itg_builder_node(&e->b, ITG_OP_ADD, NULL, name, (itg_tensor *[]){a, c}, 2, NULL);
}

// Rows [first, first + count) of the position table as [1,count,channels], with the class token added when it is given.
static itg_tensor *positions(encoder *e, int64_t first, int64_t count, const itg_weight *class_token,
                             const char *name) {
  itg_builder *b = &e->b;
  if (b->status != ITG_OK) return NULL;
  const int64_t hidden = e->vision->hidden;
  const itg_shape shape = itg_shape_of(3, (const int64_t[]){1, count, hidden});
  itg_tensor *constant = itg_graph_add_constant(b->graph, name, ITG_DTYPE_F32, &shape, NULL);
  float *token = itg_arena_array(&b->graph->arena, (size_t)hidden, sizeof token[0]);
  if (!constant || !token) {
    b->status = itg_fail(b->diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
    return NULL;
  }
  float *values = itg_tensor_writable(constant);
  itg_weight_read(itg_language_weight(b->model, ITG_WEIGHT_POSITION, 0, false), first, count, values);
  if (class_token) itg_weight_read(class_token, 0, 1, token);
  for (int64_t i = 0; class_token && i < hidden; i++) values[i] += token[i];
  return constant;
}

static itg_tensor *patches_of(encoder *e) {
  itg_builder *b = &e->b;
  const itg_vision_config *vision = e->vision;
  const int64_t size = vision->image_size, count = e->side * e->side, hidden = vision->hidden;
  itg_attributes attributes = {.conv = {.group = 1, .layout = ITG_LAYOUT_CHANNELS_FIRST}};
  itg_window *window = &attributes.conv.window;
  window->rank = 2;
  for (int i = 0; i < 2; i++) {
    window->kernel[i] = window->stride[i] = vision->patch_size;
    window->dilation[i] = 1;
  }
  itg_tensor *inputs[] = {
      itg_builder_input(b, "pixels", ITG_DTYPE_F32, itg_shape_of(4, (const int64_t[]){1, 3, size, size})),
      itg_builder_weight(b, ITG_WEIGHT_PATCH, 0, false, NULL), itg_builder_weight(b, ITG_WEIGHT_PATCH, 0, true, NULL)};
  itg_tensor *x = itg_builder_node(b, ITG_OP_CONV, &attributes, "vision.patch_conv", inputs, 3, NULL);
  x = itg_builder_reshape(b, x, "vision.patch_columns", itg_shape_of(3, (const int64_t[]){1, hidden, count}));
  x = itg_builder_transpose(b, x, "vision.patch_rows", (const int32_t[]){0, 2, 1});
  if (vision->family != ITG_VISION_INTERNVL)
    return add(e, x, positions(e, 0, count, NULL, "vision.positions"), "vision.patches");
  const itg_weight *class_token = itg_language_weight(b->model, ITG_WEIGHT_CLASS, 0, false);
  x = add(e, x, positions(e, 1, count, NULL, "vision.positions"), "vision.placed");
  itg_tensor *parts[] = {positions(e, 0, 1, class_token, "vision.class"), x};
  const itg_attributes rows = {.axis = {.axis = 1}};
  return itg_builder_node(b, ITG_OP_CONCAT, &rows, "vision.patches", parts, 2, NULL);
}

// [1,rows,channels] to [1,heads,rows,size].
static itg_tensor *split_heads(encoder *e, itg_tensor *x, const char *name) {
  const itg_vision_config *vision = e->vision;
  x = itg_builder_reshape(&e->b, x, NULL,
                          itg_shape_of(4, (const int64_t[]){1, e->rows, vision->heads, vision->head_size}));
  return itg_builder_transpose(&e->b, x, name, (const int32_t[]){0, 2, 1, 3});
}

static itg_tensor *attend(encoder *e, itg_tensor *x, int32_t layer) {
  itg_builder *b = &e->b;
  // The scale of the scores goes into q.
  const itg_weight_change scaled = {.factor = 1 / sqrt(e->vision->head_size)};
  itg_tensor *q = itg_builder_linear(b, x, ITG_WEIGHT_VISION_LAYER_Q, layer, &scaled, NAME("q"));
  itg_tensor *k = itg_builder_linear(b, x, ITG_WEIGHT_VISION_LAYER_K, layer, NULL, NAME("k"));
  itg_tensor *v = itg_builder_linear(b, x, ITG_WEIGHT_VISION_LAYER_V, layer, NULL, NAME("v"));
  q = split_heads(e, q, NAME("q_heads"));
  k = split_heads(e, k, NAME("k_heads"));
  v = split_heads(e, v, NAME("v_heads"));
  const itg_attributes transposed = {.gemm = {.transpose_b = 1}}, last = {.axis = {.axis = 3}}, plain = {0};
  x = itg_builder_node(b, ITG_OP_MATMUL, &transposed, NAME("scores"), (itg_tensor *[]){q, k}, 2, NULL);
  x = itg_builder_node(b, ITG_OP_SOFTMAX, &last, NAME("probabilities"), &x, 1, NULL);
  x = itg_builder_node(b, ITG_OP_MATMUL, &plain, NAME("attention"), (itg_tensor *[]){x, v}, 2, NULL);
  x = itg_builder_transpose(b, x, NAME("attention_rows"), (const int32_t[]){0, 2, 1, 3});
  return itg_builder_reshape(b, x, NAME("attention_flat"),
                             itg_shape_of(3, (const int64_t[]){1, e->rows, e->vision->hidden}));
}

static itg_tensor *layer_of(encoder *e, itg_tensor *x, int32_t layer) {
  itg_builder *b = &e->b;
  const itg_vision_config *vision = e->vision;
  const bool layer_scale = vision->family == ITG_VISION_INTERNVL;
  const itg_weight_change first = {.rows_scaled = layer_scale ? ITG_WEIGHT_VISION_LAYER_SCALE : 0};
  const itg_weight_change second = {.rows_scaled = layer_scale ? ITG_WEIGHT_VISION_LAYER_SECOND_SCALE : 0};
  const itg_attributes gelu = {.scalar = {.alpha = vision->gelu_tanh ? 1 : 0}};
  const double epsilon = vision->norm_epsilon;
  itg_tensor *h = itg_builder_norm(b, ITG_OP_LAYER_NORM, x, ITG_WEIGHT_VISION_LAYER_NORM, layer, epsilon, NAME("norm"));
  h = attend(e, h, layer);
  h = itg_builder_linear(b, h, ITG_WEIGHT_VISION_LAYER_OUTPUT, layer, &first, NAME("o"));
  x = add(e, x, h, NAME("attended"));
  h = itg_builder_norm(b, ITG_OP_LAYER_NORM, x, ITG_WEIGHT_VISION_LAYER_SECOND_NORM, layer, epsilon, NAME("mlp_norm"));
  h = itg_builder_linear(b, h, ITG_WEIGHT_VISION_LAYER_UP, layer, NULL, NAME("up"));
  h = itg_builder_node(b, ITG_OP_GELU, &gelu, NAME("gelu"), &h, 1, NULL);
  h = itg_builder_linear(b, h, ITG_WEIGHT_VISION_LAYER_DOWN, layer, &second, NAME("down"));
  return add(e, x, h, NAME("output"));
}
#undef NAME

// Squares of shuffle x shuffle patches become one row, the square's rows one after the other.
static itg_tensor *shuffle(encoder *e, itg_tensor *x) {
  const int64_t s = e->vision->shuffle, groups = e->side / s, hidden = e->vision->hidden;
  x = itg_builder_reshape(&e->b, x, "vision.squares",
                          itg_shape_of(4, (const int64_t[]){groups, s, groups, s * hidden}));
  x = itg_builder_transpose(&e->b, x, "vision.squares_together", (const int32_t[]){0, 2, 1, 3});
  return itg_builder_reshape(&e->b, x, "vision.shuffled",
                             itg_shape_of(3, (const int64_t[]){1, groups * groups, s * s * hidden}));
}

static itg_tensor *drop_class(encoder *e, itg_tensor *x) {
  const itg_shape shape = itg_shape_of(3, (const int64_t[]){1, e->rows - 1, e->vision->hidden});
  itg_attributes attributes = {0};
  attributes.slice.start[1] = 1;
  for (int i = 0; i < ITG_MAX_RANK; i++) attributes.slice.step[i] = 1;
  return itg_builder_node(&e->b, ITG_OP_SLICE, &attributes, "vision.without_class", &x, 1, &shape);
}

static itg_tensor *connector_of(encoder *e, itg_tensor *x) {
  itg_builder *b = &e->b;
  if (e->vision->family != ITG_VISION_INTERNVL) {
    x = itg_builder_norm(b, ITG_OP_LAYER_NORM, x, ITG_WEIGHT_VISION_FINAL_NORM, 0, e->vision->norm_epsilon,
                         "vision.final_norm");
    return itg_builder_linear(b, shuffle(e, x), ITG_WEIGHT_CONNECTOR, 0, NULL, "features");
  }
  const itg_attributes gelu = {0};
  x = shuffle(e, drop_class(e, x));
  x = itg_builder_norm(b, ITG_OP_LAYER_NORM, x, ITG_WEIGHT_CONNECTOR_NORM, 0, 1e-5, "connector.norm");
  x = itg_builder_linear(b, x, ITG_WEIGHT_CONNECTOR, 0, NULL, "connector.up");
  x = itg_builder_node(b, ITG_OP_GELU, &gelu, "connector.gelu", &x, 1, NULL);
  return itg_builder_linear(b, x, ITG_WEIGHT_SECOND_CONNECTOR, 0, NULL, "features");
}

static itg_tensor *start_of(encoder *e, const itg_vision_part *part) {
  if (part->patches) return patches_of(e);
  const char *name =
      part->first ? itg_builder_name(&e->b, "vision.layers.%d.output", (int)part->first - 1) : "vision.patches";
  return itg_builder_input(&e->b, name, ITG_DTYPE_F32,
                           itg_shape_of(3, (const int64_t[]){1, e->rows, e->vision->hidden}));
}

itg_status itg_build_vision(const itg_language_model *model, const itg_vision_part *part, itg_diagnostic *diagnostic,
                            itg_graph **out) {
  const itg_vision_config *vision = &model->config.vision;
  if (vision->family == ITG_VISION_NONE || part->first < 0 || part->end < part->first || part->end > vision->layers ||
      (part->patches && part->first > 0) || (part->connector && part->end < vision->layers) ||
      (part->first == part->end && !part->patches && !part->connector))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "layers %d..%d of an encoder of %d cannot be built",
             (int)part->first, (int)part->end, (int)vision->layers);
  encoder e = {.b = {.model = model, .diagnostic = diagnostic}, .vision = vision};
  e.side = vision->image_size / vision->patch_size;
  e.rows = e.side * e.side + (vision->family == ITG_VISION_INTERNVL);
  ITG_TRY(itg_graph_create(diagnostic, &e.b.graph));
  itg_tensor *x = start_of(&e, part);
  for (int32_t layer = part->first; layer < part->end; layer++) x = layer_of(&e, x, layer);
  if (part->connector) x = connector_of(&e, x);
  if (e.b.status == ITG_OK && !itg_graph_add_output(e.b.graph, x))
    e.b.status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  if (e.b.status != ITG_OK) {
    itg_graph_destroy(e.b.graph);
    return e.b.status;
  }
  *out = e.b.graph;
  return ITG_OK;
}
