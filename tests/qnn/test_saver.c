// The vendor's own recorder (libQnnSaver.so) in the place of the HTP library: it checks what it is given and writes every call down
// as C code. What it wrote must be the calls that a preparation consists of, each accepted.
#include <unistd.h>

#include "support/npu_net.h"

static char folder[] = "/tmp/itg-saver-XXXXXX";
static char *record;

// A folder in which the recorder has the other library's name; the record goes there too.
static bool make_folder(void) {
  itg_qnn_library saver = {0};
  itg_diagnostic why = {0};
  char path[600];
  if (itg_qnn_shared_object_open(NULL, "libQnnSaver.so", &why, &saver) != ITG_OK) {
    printf("skipped: %s\n", why.message);
    return false;
  }
  if (!mkdtemp(folder)) return false;
  snprintf(path, sizeof path, "%s/libQnnHtp.so", folder);
  return symlink(saver.path, path) == 0 && chdir(folder) == 0;
}

static size_t count_of(const char *text) {
  size_t count = 0;
  for (const char *at = record; (at = strstr(at, text)) != NULL; at += strlen(text)) count++;
  return count;
}

static void read_record(void) {
  FILE *file = fopen("saver_output/saver_output.c", "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long size = ftell(file);
  rewind(file);
  record = calloc(1, (size_t)size + 1);
  assert_int_equal(fread(record, 1, (size_t)size, file), size);
  fclose(file);
}

static itg_graph *small_network(void) {
  net_random_state = 5;
  itg_graph *graph = net_create();
  itg_attributes a = {.conv = {.group = 1, .layout = ITG_LAYOUT_CHANNELS_LAST}};
  a.conv.window = (itg_window){
      .rank = 2, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .pad_begin = {1, 1}, .pad_end = {1, 1}};
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 6, 6, 16));
  const itg_shape shape = net_shape(4, 1, 6, 6, 16);
  itg_tensor *y = NET_NODE(graph, ITG_OP_CONV, a, &shape, x, net_constant(graph, net_shape(4, 16, 3, 3, 16), -.5f, .5f),
                           net_constant(graph, net_shape(1, 16, 0, 0, 0), -1, 1));
  y = NET_NODE(graph, ITG_OP_PRELU, net_no_attributes, NULL, y, net_constant(graph, net_shape(1, 16, 0, 0, 0), 0, .5f));
  y = NET_NODE(graph, ITG_OP_ADD, net_no_attributes, NULL, x, y);
  assert_true(itg_graph_add_output(graph, y));
  return npu_legalize(graph, "a8w8+s16", npu_target("qcs6490"), -3, 3);
}

static void the_vendors_recorder_takes_our_calls(void **state) {
  (void)state;
  itg_graph *legal = small_network();
  itg_qnn_blob blob = {0};
  itg_diagnostic why = {0};
  const itg_qnn_prepare_options options = {.directory = folder};
  // It makes no binary: asking for its size is the first call that it refuses.
  const itg_status status = itg_qnn_prepare(legal, npu_target("qcs6490"), &options, &why, &blob);
  print_message("%s\n", why.message);
  assert_int_equal(status, ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "contextGetBinarySize"));
  read_record();
  static const char *const once[] = {"backendCreate(", "deviceCreate(", "contextCreate(", "graphCreate(",
                                     "graphFinalize("};
  for (size_t i = 0; i < sizeof once / sizeof once[0]; i++) {
    if (count_of(once[i]) < 1) fail_msg("%s was not recorded", once[i]);
  }
  const size_t nodes = count_of("graphAddNode("), tensors = count_of("tensorCreateGraphTensor("),
               checked = count_of("backendValidateOpConfig(");
  print_message("recorded: %zu nodes, %zu tensors, %zu validations\n", nodes, tensors, checked);
  assert_true(nodes >= 3 && tensors > 2 * nodes && checked >= nodes);
  free(record);
  itg_graph_destroy(legal);
}

int main(void) {
  if (!make_folder()) return 77;
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_vendors_recorder_takes_our_calls)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char line[160];
  snprintf(line, sizeof line, "rm -rf '%s'", folder);
  return chdir("/") == 0 && system(line) == 0 ? failed : 1;
}
