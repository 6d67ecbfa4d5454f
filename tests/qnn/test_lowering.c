// Every kind of operation on the vendor's real library, taken the whole way (float, calibrated, quantized for the chip, lowered,
// prepared, run from the file), against our own kernels on the same codes.
#include "support/npu_net.h"

typedef itg_tensor *build_function(itg_graph *graph);

static itg_tensor *image(itg_graph *graph, int64_t size, int64_t channels) {
  return net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, size, size, channels));
}
static itg_tensor *rows(itg_graph *graph, int64_t count, int64_t width) {
  return net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, count, width, 0, 0));
}
static itg_tensor *vector(itg_graph *graph, int64_t count, float low, float high) {
  return net_constant(graph, net_shape(1, count, 0, 0, 0), low, high);
}
static itg_window window(int32_t kernel, int32_t stride, int32_t pad) {
  return (itg_window){.rank = 2,
                      .kernel = {kernel, kernel},
                      .stride = {stride, stride},
                      .dilation = {1, 1},
                      .pad_begin = {pad, pad},
                      .pad_end = {pad, pad}};
}
static itg_tensor *unary(itg_graph *graph, itg_op op, itg_tensor *x) {
  return NET_NODE(graph, op, net_no_attributes, NULL, x);
}

static itg_tensor *softmax(itg_graph *g) {
  return NET_NODE(g, ITG_OP_SOFTMAX, ((itg_attributes){.axis.axis = 1}), NULL, rows(g, 16, 50));
}
static itg_tensor *layer_norm(itg_graph *g) {
  const itg_attributes a = {.norm = {.epsilon = 1e-5, .axis = 1}};
  return NET_NODE(g, ITG_OP_LAYER_NORM, a, NULL, rows(g, 16, 64), vector(g, 64, .5f, 1.5f), vector(g, 64, -1, 1));
}
static itg_tensor *rms_norm(itg_graph *g) {
  const itg_attributes a = {.norm = {.epsilon = 1e-5, .axis = 1}};
  return NET_NODE(g, ITG_OP_RMS_NORM, a, NULL, rows(g, 16, 64), vector(g, 64, .5f, 1.5f));
}
static itg_tensor *l2_norm(itg_graph *g) {
  const itg_attributes a = {.norm = {.epsilon = 1e-12, .axis = 1, .groups = 2}};
  return NET_NODE(g, ITG_OP_LP_NORM, a, NULL, rows(g, 16, 64));
}
static itg_tensor *gelu(itg_graph *g) { return unary(g, ITG_OP_GELU, rows(g, 16, 64)); }
static itg_tensor *sigmoid(itg_graph *g) { return unary(g, ITG_OP_SIGMOID, rows(g, 16, 64)); }
static itg_tensor *hyperbolic(itg_graph *g) { return unary(g, ITG_OP_TANH, rows(g, 16, 64)); }
static itg_tensor *silu(itg_graph *g) { return unary(g, ITG_OP_SILU, rows(g, 16, 64)); }
static itg_tensor *quick_gelu(itg_graph *g) {
  return NET_NODE(g, ITG_OP_QUICK_GELU, ((itg_attributes){.scalar.alpha = 1.702}), NULL, rows(g, 16, 64));
}
static itg_tensor *hard_swish(itg_graph *g) { return unary(g, ITG_OP_HARD_SWISH, image(g, 6, 24)); }
static itg_tensor *hard_sigmoid(itg_graph *g) {
  const itg_attributes a = {.scalar = {.alpha = .2, .beta = .5}};
  return NET_NODE(g, ITG_OP_HARD_SIGMOID, a, NULL, image(g, 6, 24));
}
static itg_tensor *exponential(itg_graph *g) { return unary(g, ITG_OP_EXP, rows(g, 8, 32)); }
static itg_tensor *clip(itg_graph *g) {
  return NET_NODE(g, ITG_OP_CLIP, ((itg_attributes){.scalar = {.alpha = -1, .beta = 2}}), NULL, rows(g, 8, 32));
}
static itg_tensor *leaky(itg_graph *g) {
  return NET_NODE(g, ITG_OP_LEAKY_RELU, ((itg_attributes){.scalar.alpha = .1}), NULL, image(g, 6, 24));
}
static itg_tensor *prelu(itg_graph *g) {
  return NET_NODE(g, ITG_OP_PRELU, net_no_attributes, NULL, image(g, 6, 24), vector(g, 24, 0, .5f));
}
static itg_tensor *wide_affine(itg_graph *g) {
  return NET_NODE(g, ITG_OP_AFFINE, net_no_attributes, NULL, image(g, 4, 384), vector(g, 384, -2, 2),
                  vector(g, 384, -1, 1));
}
static itg_tensor *resize_of(itg_graph *g, int32_t mode, int32_t coordinates, int64_t out) {
  itg_attributes a = {.resize = {.mode = mode, .coordinates = coordinates, .nearest_rounding = ITG_NEAREST_FLOOR}};
  const itg_shape shape = net_shape(4, 1, out, out, 8);
  a.resize.scale[0] = a.resize.scale[3] = 1;
  a.resize.scale[1] = a.resize.scale[2] = (double)out / 6;
  return NET_NODE(g, ITG_OP_RESIZE, a, &shape, image(g, 6, 8));
}
static itg_tensor *resize_nearest(itg_graph *g) { return resize_of(g, ITG_RESIZE_NEAREST, ITG_RESIZE_ASYMMETRIC, 12); }
static itg_tensor *resize_linear(itg_graph *g) { return resize_of(g, ITG_RESIZE_LINEAR, ITG_RESIZE_HALF_PIXEL, 12); }
static itg_tensor *resize_corners(itg_graph *g) {
  return resize_of(g, ITG_RESIZE_LINEAR, ITG_RESIZE_ALIGN_CORNERS, 11);
}
static itg_tensor *pad(itg_graph *g) {
  const itg_attributes a = {.pad = {.begin = {0, 1, 2, 0}, .end = {0, 0, 1, 0}, .value = .5}};
  const itg_shape shape = net_shape(4, 1, 7, 9, 8);
  return NET_NODE(g, ITG_OP_PAD, a, &shape, image(g, 6, 8));
}
static itg_tensor *depth_to_space(itg_graph *g) {
  const itg_attributes a = {.block = {.block = 2, .layout = ITG_LAYOUT_CHANNELS_LAST, .column_row_depth = 1}};
  return NET_NODE(g, ITG_OP_DEPTH_TO_SPACE, a, NULL, image(g, 4, 16));
}
static itg_tensor *space_to_depth(itg_graph *g) {
  const itg_attributes a = {.block = {.block = 2, .layout = ITG_LAYOUT_CHANNELS_LAST}};
  return NET_NODE(g, ITG_OP_SPACE_TO_DEPTH, a, NULL, image(g, 4, 8));
}
static itg_tensor *gather(itg_graph *g) {
  const int64_t indices[3] = {5, 0, -1};
  const itg_shape shape = net_shape(1, 3, 0, 0, 0);
  itg_tensor *at = itg_graph_add_constant(g, "indices", ITG_DTYPE_S64, &shape, indices);
  return NET_NODE(g, ITG_OP_GATHER, ((itg_attributes){.axis.axis = 0}), NULL, rows(g, 8, 16), at);
}
static itg_tensor *conv_transpose(itg_graph *g) {
  const itg_attributes a = {.conv = {.window = window(2, 2, 0), .group = 1, .layout = ITG_LAYOUT_CHANNELS_LAST}};
  const itg_shape shape = net_shape(4, 1, 10, 10, 12);
  return NET_NODE(g, ITG_OP_CONV_TRANSPOSE, a, &shape, image(g, 5, 16),
                  net_constant(g, net_shape(4, 12, 2, 2, 16), -.5f, .5f), vector(g, 12, -1, 1));
}
static itg_tensor *convolution_of(itg_graph *g, int32_t group, int64_t inputs, int64_t outputs, bool clipped) {
  itg_attributes a = {.conv = {.window = window(3, 1, 1), .group = group, .layout = ITG_LAYOUT_CHANNELS_LAST}};
  if (clipped) a.conv.activation = (itg_activation){.kind = ITG_ACTIVATION_CLIP, .low = -.5, .high = 1};
  const itg_shape shape = net_shape(4, 1, 6, 6, outputs);
  return NET_NODE(g, ITG_OP_CONV, a, &shape, image(g, 6, inputs),
                  net_constant(g, net_shape(4, outputs, 3, 3, inputs / group), -.5f, .5f), vector(g, outputs, -1, 1));
}
static itg_tensor *convolution(itg_graph *g) { return convolution_of(g, 1, 16, 24, false); }
static itg_tensor *grouped(itg_graph *g) { return convolution_of(g, 4, 16, 24, false); }
static itg_tensor *depthwise(itg_graph *g) { return convolution_of(g, 24, 24, 24, false); }
static itg_tensor *clipped(itg_graph *g) { return convolution_of(g, 1, 16, 24, true); }
static itg_tensor *clipped_depthwise(itg_graph *g) { return convolution_of(g, 24, 24, 24, true); }
static itg_tensor *clipped_linear(itg_graph *g) {
  const itg_attributes a = {.conv.activation = {.kind = ITG_ACTIVATION_CLIP, .low = -.5, .high = 1}};
  return NET_NODE(g, ITG_OP_FULLY_CONNECTED, a, NULL, rows(g, 16, 64),
                  net_constant(g, net_shape(2, 48, 64, 0, 0), -.3f, .3f), vector(g, 48, -1, 1));
}
static itg_tensor *max_pool(itg_graph *g) {
  const itg_attributes a = {.pool = {.window = window(3, 2, 1), .layout = ITG_LAYOUT_CHANNELS_LAST}};
  const itg_shape shape = net_shape(4, 1, 4, 4, 8);
  return NET_NODE(g, ITG_OP_MAX_POOL, a, &shape, image(g, 7, 8));
}
static itg_tensor *average_pool(itg_graph *g) {
  const itg_attributes a = {.pool = {.window = window(3, 2, 1), .layout = ITG_LAYOUT_CHANNELS_LAST}};
  const itg_shape shape = net_shape(4, 1, 4, 4, 8);
  return NET_NODE(g, ITG_OP_AVERAGE_POOL, a, &shape, image(g, 7, 8));
}
static itg_tensor *reduce_mean(itg_graph *g) {
  return NET_NODE(g, ITG_OP_REDUCE_MEAN, ((itg_attributes){.reduce = {.axes = 6, .keep_dims = 1}}), NULL,
                  image(g, 6, 24));
}
static itg_tensor *reduce_max(itg_graph *g) {
  return NET_NODE(g, ITG_OP_REDUCE_MAX, ((itg_attributes){.reduce = {.axes = 6, .keep_dims = 1}}), NULL,
                  image(g, 6, 24));
}
static itg_tensor *concat(itg_graph *g) {
  itg_tensor *x = rows(g, 8, 16);
  return NET_NODE(g, ITG_OP_CONCAT, ((itg_attributes){.axis.axis = 1}), NULL, x, unary(g, ITG_OP_RELU, x));
}
static itg_tensor *slice(itg_graph *g) {
  const itg_attributes a = {.slice = {.start = {1, 3}, .step = {2, 1}}};
  const itg_shape shape = net_shape(2, 4, 7, 0, 0);
  return NET_NODE(g, ITG_OP_SLICE, a, &shape, rows(g, 8, 16));
}
static itg_tensor *expand(itg_graph *g) {
  const itg_shape shape = net_shape(3, 2, 8, 16, 0);
  return NET_NODE(g, ITG_OP_EXPAND, net_no_attributes, &shape, rows(g, 8, 16));
}
static itg_tensor *second(itg_graph *g) { return net_input(g, "y", ITG_DTYPE_F32, net_shape(2, 16, 64, 0, 0)); }
static itg_tensor *sum(itg_graph *g) {
  return NET_NODE(g, ITG_OP_ADD, net_no_attributes, NULL, rows(g, 16, 64), second(g));
}
static itg_tensor *difference(itg_graph *g) {
  return NET_NODE(g, ITG_OP_SUB, net_no_attributes, NULL, rows(g, 16, 64), second(g));
}
static itg_tensor *product(itg_graph *g) {
  return NET_NODE(g, ITG_OP_MUL, net_no_attributes, NULL, rows(g, 16, 64), second(g));
}
static itg_tensor *larger(itg_graph *g) {
  return NET_NODE(g, ITG_OP_MAX, net_no_attributes, NULL, rows(g, 16, 64), second(g));
}
static itg_tensor *matmul(itg_graph *g) {
  itg_tensor *b = net_input(g, "y", ITG_DTYPE_F32, net_shape(2, 64, 32, 0, 0));
  return NET_NODE(g, ITG_OP_MATMUL, net_no_attributes, NULL, rows(g, 16, 64), b);
}
// The clamped branch shares its range with the other one, which is wider: the clamp cuts inside it.
static itg_tensor *shared_range(itg_graph *g) {
  const itg_attributes a = {.conv.activation = {.kind = ITG_ACTIVATION_CLIP, .low = -.5, .high = 1}};
  itg_tensor *x = rows(g, 16, 64);
  itg_tensor *y = NET_NODE(g, ITG_OP_FULLY_CONNECTED, a, NULL, x,
                           net_constant(g, net_shape(2, 48, 64, 0, 0), -.3f, .3f), vector(g, 48, -1, 1));
  return NET_NODE(g, ITG_OP_CONCAT, ((itg_attributes){.axis.axis = 1}), NULL, x, y);
}
static itg_tensor *linear(itg_graph *g) {
  return NET_NODE(g, ITG_OP_FULLY_CONNECTED, net_no_attributes, NULL, rows(g, 16, 64),
                  net_constant(g, net_shape(2, 48, 64, 0, 0), -.3f, .3f), vector(g, 48, -1, 1));
}
static itg_tensor *embedding(itg_graph *g) {
  itg_tensor *ids = net_input(g, "ids", ITG_DTYPE_S64, net_shape(1, 8, 0, 0, 0));
  itg_tensor *table = net_constant(g, net_shape(2, 16, 64, 0, 0), -1, 1);
  itg_tensor *x = NET_NODE(g, ITG_OP_GATHER, ((itg_attributes){.axis.axis = 0}), NULL, table, ids);
  return NET_NODE(g, ITG_OP_FULLY_CONNECTED, net_no_attributes, NULL, x,
                  net_constant(g, net_shape(2, 48, 64, 0, 0), -.3f, .3f), vector(g, 48, -1, 1));
}

// Largest difference allowed, in codes of u8 and u16 results, to our kernels in the chip's profile.
static const struct {
  const char *name;
  build_function *build;
  int narrow, wide;
  int on_cpu;
} cases[] = {
    {"Conv", convolution, 1, 3, 0},
    {"Conv, groups", grouped, 1, 3, 0},
    {"Conv, depth-wise", depthwise, 1, 3, 0},
    {"Conv, clipped", clipped, 1, 3, 0},
    {"Conv, depth-wise, clipped", clipped_depthwise, 1, 3, 0},
    {"FullyConnected, clipped", clipped_linear, 1, 3, 0},
    {"Clamp in a shared range", shared_range, 1, 3, 0},
    {"ConvTranspose", conv_transpose, 1, 3, 0},
    {"FullyConnected", linear, 1, 3, 0},
    {"MatMul", matmul, 1, 3, 0},
    {"Add", sum, 0, 0, 0},
    {"Sub", difference, 0, 0, 0},
    {"Mul", product, 0, 1, 0},
    {"Max", larger, 0, 0, 0},
    {"Affine, 384 channels", wide_affine, 1, 8, 0},
    {"Clip", clip, 1, 1, 0},
    {"LeakyRelu", leaky, 0, 0, 0},
    {"PRelu", prelu, 1, 0, 0},
    {"HardSigmoid", hard_sigmoid, 1, 4, 0},
    {"HardSwish", hard_swish, 1, 4, 0},
    {"Gelu", gelu, 1, 48, 0},
    {"Sigmoid", sigmoid, 1, 8, 0},
    {"Tanh", hyperbolic, 1, 8, 0},
    {"Silu", silu, 1, 4, 0},
    {"QuickGelu", quick_gelu, 1, 4, 0},
    {"Exp", exponential, 1, 16, 0},
    {"Softmax", softmax, 1, 1, 0},
    {"LayerNorm", layer_norm, 1, 2, 0},
    {"RmsNorm", rms_norm, 1, 1, 0},
    {"L2 norm", l2_norm, 5, 8, 0},
    {"ReduceMean", reduce_mean, 1, 1, 0},
    {"ReduceMax", reduce_max, 0, 0, 0},
    {"MaxPool", max_pool, 0, 0, 0},
    {"AveragePool", average_pool, 1, 2, 0},
    {"Resize, nearest", resize_nearest, 0, 0, 0},
    {"Resize, linear", resize_linear, 1, 1, 0},
    {"Resize, corners", resize_corners, 1, 1, 0},
    {"Pad", pad, 0, 0, 0},
    {"DepthToSpace", depth_to_space, 0, 0, 0},
    {"SpaceToDepth", space_to_depth, 0, 0, 0},
    {"Gather", gather, 0, 0, 0},
    {"Concat", concat, 1, 1, 0},
    {"Slice", slice, 0, 0, 0},
    {"Expand", expand, 0, 0, 0},
    {"Embedding", embedding, 1, 3, 1},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

// False when codes are further apart than the case allows.
static bool check_case(size_t i, const char *precision, const itg_target *target) {
  itg_diagnostic why = {0};
  const bool is_wide = strcmp(precision, "a16w8") == 0;
  const char *profile = target->arch < 73 ? "htp-v68" : "htp-v73";
  net_random_state = 17 + i;
  itg_graph *graph = net_create();
  assert_true(itg_graph_add_output(graph, cases[i].build(graph)));
  itg_graph *legal = npu_legalize(graph, precision, target, -3, 3);
  uint8_t *file = NULL;
  size_t size = 0, on_cpu = 0;
  if (npu_file(legal, target, &file, &size, &on_cpu, &why) != ITG_OK)
    fail_msg("%s, %s on %s: %s: %s", cases[i].name, precision, target->name, why.subject, why.message);
  const npu_difference to_native = npu_compare(file, size, "reference", 2);
  const npu_difference to_profile = npu_compare(file, size, profile, 2);
  print_message("%-8s %-6s %-22s %6.2f %% of codes differ from native (largest %d, mean %+.3f), %6.2f %% from %s "
                "(largest %d, mean %+.3f)\n",
                target->name, precision, cases[i].name, 100.0 * (double)to_native.unequal / (double)to_native.count,
                to_native.largest, to_native.mean, 100.0 * (double)to_profile.unequal / (double)to_profile.count,
                profile, to_profile.largest, to_profile.mean);
  assert_int_equal(on_cpu, cases[i].on_cpu);
  free(file);
  itg_graph_destroy(legal);
  return to_profile.largest <= (is_wide ? cases[i].wide : cases[i].narrow);
}

static void check_all(const char *precision, const char *name) {
  const char *only = getenv("ITG_NPU_CASE");
  char failed[600] = "";
  for (size_t i = 0; i < CASE_COUNT; i++) {
    if (only && strcmp(only, cases[i].name) != 0) continue;
    if (check_case(i, precision, npu_target(name))) continue;
    const size_t length = strlen(failed);
    snprintf(failed + length, sizeof failed - length, "%s%s", length ? "; " : "", cases[i].name);
  }
  if (failed[0]) fail_msg("%s on %s: too many codes apart: %s", precision, name, failed);
}

static void narrow_operations_on_v68(void **state) {
  (void)state;
  check_all("a8w8", "qcs6490");
}
static void wide_operations_on_v68(void **state) {
  (void)state;
  check_all("a16w8", "qcs6490");
}
static void wide_operations_on_later_chips(void **state) {
  (void)state;
  if (getenv("ITG_NPU_TARGET")) check_all("a16w8", getenv("ITG_NPU_TARGET")); // In ./check --full.
}

int main(void) {
  if (npu_skip()) return 77;
  const struct CMUnitTest tests[] = {cmocka_unit_test(narrow_operations_on_v68),
                                     cmocka_unit_test(wide_operations_on_v68),
                                     cmocka_unit_test(wide_operations_on_later_chips)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
