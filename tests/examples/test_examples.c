// Runs the examples as a user would and compares what they print with a session of our own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "container/container.h"
#include "intaglio/intaglio.h"
#include "support/integer_graph.h"

// [1,3,112,112] -> channels last -> conv 7x7 stride 16 -> [1,196] -> 12 numbers: a face network's outside.
static itg_graph *make_network(void) {
  builder b = {.seed = 77};
  assert_int_equal(itg_graph_create(NULL, &b.graph), ITG_OK);
  itg_tensor *planes = builder_activation(&b, "planes", ITG_DTYPE_U8, 1.0 / 128, 127, SHAPE(1, 3, 112, 112));
  itg_tensor *image = builder_activation(&b, "image", ITG_DTYPE_U8, 1.0 / 128, 127, SHAPE(1, 112, 112, 3));
  itg_tensor *map = builder_activation(&b, "map", ITG_DTYPE_U8, 0.1, 100, SHAPE(1, 7, 7, 4));
  itg_tensor *flat = builder_activation(&b, "flat", ITG_DTYPE_U8, 0.1, 100, SHAPE(1, 196));
  itg_tensor *embedding = builder_activation(&b, "embedding", ITG_DTYPE_U16, 0.001, 30000, SHAPE(1, 12));
  assert_true(itg_graph_add_input(b.graph, planes));
  builder_node(&b, ITG_OP_TRANSPOSE, "layout", 1, &planes, image)->attributes.permutation =
      (itg_permutation_attributes){{0, 2, 3, 1}};
  builder_conv(&b, "conv", image, map, 7, 16, 1, 0.002);
  builder_node(&b, ITG_OP_RESHAPE, "flatten", 1, &map, flat);
  builder_fully_connected(&b, "embed", flat, embedding, 0.05);
  assert_true(itg_graph_add_output(b.graph, embedding));
  b.graph->stage = ITG_STAGE_LEGAL;
  return b.graph;
}

static void face_embed_prints_the_embedding(void **state) {
  (void)state;
  char folder[] = "/tmp/itg-example-XXXXXX", model_path[64], crop_path[64], command[512];
  assert_non_null(mkdtemp(folder));
  snprintf(model_path, sizeof model_path, "%s/face.itg", folder);
  snprintf(crop_path, sizeof crop_path, "%s/crop.ppm", folder);
  itg_graph *graph = make_network();
  assert_int_equal(itg_container_write(model_path, graph, NULL, 0, NULL), ITG_OK);
  itg_graph_destroy(graph);
  static float pixels[3 * 112 * 112];
  FILE *crop = fopen(crop_path, "wb");
  assert_non_null(crop);
  fputs("P6\n112 112\n255\n", crop);
  for (int i = 0; i < 112 * 112; i++) {
    for (int c = 0; c < 3; c++) {
      const int value = (i * 5 + c * 90 + i / 112) % 256;
      fputc(value, crop);
      pixels[(2 - c) * 112 * 112 + i] = ((float)value - 127.0f) / 128.0f;
    }
  }
  fclose(crop);

  itg_model *model = NULL;
  itg_session *session = NULL;
  float expected[12];
  assert_int_equal(itg_model_open(model_path, NULL, &model), ITG_OK);
  assert_int_equal(itg_session_create(model, NULL, NULL, &session), ITG_OK);
  assert_int_equal(itg_session_set_input(session, 0, pixels, 3 * 112 * 112, NULL), ITG_OK);
  assert_int_equal(itg_session_run(session, NULL), ITG_OK);
  assert_int_equal(itg_session_get_output(session, 0, expected, 12, NULL), ITG_OK);
  itg_session_destroy(session);
  itg_model_close(model);

  snprintf(command, sizeof command, "%s %s %s", FACE_EMBED, model_path, crop_path);
  FILE *printed = popen(command, "r");
  assert_non_null(printed);
  bool differ = false;
  for (int i = 0; i < 12; i++) {
    float value = 0;
    assert_int_equal(fscanf(printed, "%f", &value), 1);
    assert_float_equal(value, expected[i], 1e-4);
    differ = differ || value != expected[0];
  }
  assert_true(differ);
  assert_int_equal(pclose(printed), 0);
  snprintf(command, sizeof command, "%s %s %s 2>/dev/null", FACE_EMBED, crop_path, crop_path); // Not a model.
  assert_int_not_equal(system(command), 0);
  unlink(model_path);
  unlink(crop_path);
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(face_embed_prints_the_embedding)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
