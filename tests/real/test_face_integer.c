// The whole face pipeline in integers: detector, landmarks and embedder are compiled with the even photographs of the
// shared set as calibration (each with what the float pipeline feeds it) and run in sessions on the odd ones.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipelines/face.h"
#include "support/float_network.h"
#include "support/oracle.h"

enum { MAX_PHOTOGRAPHS = 64, EMBEDDING = 512 };

static const char *const model_names[3] = {"fr_detect.onnx", "fr_landmark.onnx", "fr_feature.onnx"};
static char models[4096], faces[4096];

// A float network that keeps its inputs, which become the calibration samples of the same model.
typedef struct recorder {
  itg_network network;
  size_t size, count;
  float *rows;
} recorder;

static itg_status recorder_run(void *context, const float *const *inputs, float *const *outputs,
                               itg_diagnostic *diagnostic) {
  recorder *r = context;
  if (r->count < MAX_PHOTOGRAPHS) memcpy(r->rows + r->count++ * r->size, inputs[0], r->size * sizeof(float));
  return r->network.run(r->network.context, inputs, outputs, diagnostic);
}
static const itg_tensor_info *recorder_input(void *context, size_t index) {
  const itg_network *network = &((recorder *)context)->network;
  return network->input(network->context, index);
}
static const itg_tensor_info *recorder_output(void *context, size_t index) {
  const itg_network *network = &((recorder *)context)->network;
  return network->output(network->context, index);
}

static itg_status read_row(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  const recorder *r = context;
  (void)diagnostic;
  memcpy(inputs[0], r->rows + index * r->size, r->size * sizeof(float));
  return ITG_OK;
}

static itg_network start_recording(recorder *r, const char *name) {
  char path[8192];
  itg_diagnostic why = {0};
  snprintf(path, sizeof path, "%s/%s", models, name);
  r->network = float_network_open(path, &why);
  if (!r->network.run) fail_msg("%s: %s", path, why.message);
  r->size = r->network.input(r->network.context, 0)->count;
  r->rows = malloc(MAX_PHOTOGRAPHS * r->size * sizeof(float));
  assert_non_null(r->rows);
  return (itg_network){
      r, r->network.input_count, r->network.output_count, recorder_run, recorder_input, recorder_output, NULL};
}

static void compile(recorder *r, const char *name, const char *output) {
  char path[8192];
  itg_compiler *compiler = NULL;
  itg_diagnostic why = {0};
  itg_compile_options options;
  itg_compile_options_default(&options);
  options.calibration = (itg_samples){.context = r, .count = r->count, .read = read_row};
  snprintf(path, sizeof path, "%s/%s", models, name);
  if (itg_compiler_open(path, NULL, &why, &compiler) != ITG_OK ||
      itg_compiler_compile(compiler, &options, output, &why, NULL) != ITG_OK)
    fail_msg("%s: %s: %s", name, why.subject, why.message);
  itg_compiler_close(compiler);
}

// The embedding of the most certain face, of length 1.
static void embed(itg_face_pipeline *pipeline, const char *path, float *out) {
  static uint8_t crop[112 * 112 * 3];
  itg_image photo = {0};
  itg_face face;
  itg_diagnostic why = {0};
  assert_int_equal(itg_image_read(path, NULL, NULL, &photo), ITG_OK);
  if (itg_face_find(pipeline, &photo, &why, &face) != ITG_OK) fail_msg("%s: %s", path, why.message);
  assert_int_equal(itg_face_crop(&photo, &face, NULL, crop), ITG_OK);
  assert_int_equal(itg_face_embed(pipeline, crop, NULL, out, EMBEDDING), ITG_OK);
  double sum = 0;
  for (int i = 0; i < EMBEDDING; i++) sum += (double)out[i] * out[i];
  for (int i = 0; i < EMBEDDING; i++) out[i] = (float)(out[i] / sqrt(sum));
  itg_image_free(&photo);
}

static double cosine(const float *a, const float *b) {
  double sum = 0;
  for (int i = 0; i < EMBEDDING; i++) sum += (double)a[i] * b[i];
  return sum;
}

static bool same_person(const char *a, const char *b) {
  const size_t length = (size_t)(strrchr(a, '/') - a);
  return strncmp(a, b, length + 1) == 0;
}

// Lowest cosine of two photographs of one person minus the highest of two people.
static double margin(const itg_image_list *list, float (*embeddings)[EMBEDDING]) {
  double same = 1, different = -1;
  for (size_t i = 1; i < list->count; i += 2) {
    for (size_t k = i + 2; k < list->count; k += 2) {
      const double c = cosine(embeddings[i], embeddings[k]);
      if (same_person(list->paths[i], list->paths[k]))
        same = fmin(same, c);
      else
        different = fmax(different, c);
    }
  }
  return same - different;
}

// Pairs that one embedding takes for the same person at Immich's distance of .5 and the other does not.
static size_t pairs_told_otherwise(const itg_image_list *list, float (*a)[EMBEDDING], float (*b)[EMBEDDING],
                                   size_t *pairs) {
  size_t otherwise = 0;
  for (size_t i = 1; i < list->count; i += 2)
    for (size_t k = i + 2; k < list->count; k += 2, ++*pairs)
      otherwise += (cosine(a[i], a[k]) >= 0.5) != (cosine(b[i], b[k]) >= 0.5);
  return otherwise;
}

// Faces of at least .7 that the float detector finds, and those of them that the integer one finds too (half of the boxes'
// union shared).
static void count_recall(itg_face_pipeline *float_pipeline, itg_face_pipeline *integer_pipeline, const char *path,
                         size_t *faces_there, size_t *faces_found) {
  itg_image photo = {0};
  static itg_face expected[128], actual[128];
  size_t expected_count, actual_count;
  assert_int_equal(itg_image_read(path, NULL, NULL, &photo), ITG_OK);
  assert_int_equal(itg_face_find_all(float_pipeline, &photo, 0.7, 0.3, expected, 128, NULL, &expected_count), ITG_OK);
  assert_int_equal(itg_face_find_all(integer_pipeline, &photo, 0.7, 0.3, actual, 128, NULL, &actual_count), ITG_OK);
  for (size_t i = 0; i < expected_count; i++) {
    bool found = false;
    for (size_t k = 0; k < actual_count && !found; k++) found = itg_face_overlap(expected[i].box, actual[k].box) >= 0.5;
    ++*faces_there;
    *faces_found += found;
  }
  itg_image_free(&photo);
}

static void integer_pipeline_recognises_the_same_people(void **state) {
  (void)state;
  static float float_embeddings[MAX_PHOTOGRAPHS][EMBEDDING], integer_embeddings[MAX_PHOTOGRAPHS][EMBEDDING];
  static recorder recorders[3];
  itg_network networks[3];
  itg_image_list list = {0};
  itg_face_pipeline *pipeline = NULL;
  itg_diagnostic why = {0};
  char folder[] = "/tmp/intaglio-faces-XXXXXX", paths[3][64];
  assert_int_equal(itg_image_list_folder(faces, NULL, &list), ITG_OK);
  assert_true(list.count >= 10 && list.count <= MAX_PHOTOGRAPHS);
  for (int i = 0; i < 3; i++) networks[i] = start_recording(&recorders[i], model_names[i]);
  assert_int_equal(itg_face_pipeline_create(networks[0], networks[1], networks[2], &why, &pipeline), ITG_OK);
  assert_int_equal(itg_face_embedding_size(pipeline), EMBEDDING);
  for (size_t i = 0; i < list.count; i += 2) embed(pipeline, list.paths[i], float_embeddings[i]);
  assert_non_null(mkdtemp(folder));
  for (int i = 0; i < 3; i++) {
    snprintf(paths[i], sizeof paths[i], "%s/%d.itg", folder, i);
    assert_int_equal(recorders[i].count, (list.count + 1) / 2);
    compile(&recorders[i], model_names[i], paths[i]);
  }
  for (size_t i = 1; i < list.count; i += 2) embed(pipeline, list.paths[i], float_embeddings[i]);
  itg_face_pipeline *float_pipeline = pipeline;

  itg_model *compiled[3] = {NULL};
  itg_session_network sessions[3];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(itg_model_open(paths[i], &why, &compiled[i]), ITG_OK);
    sessions[i].model = compiled[i];
    assert_int_equal(itg_session_create(compiled[i], NULL, &why, &sessions[i].session), ITG_OK);
    networks[i] = itg_network_from_session(&sessions[i]);
  }
  if (itg_face_pipeline_create(networks[0], networks[1], networks[2], &why, &pipeline) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  double lowest = 1, sum = 0;
  size_t count = 0;
  for (size_t i = 1; i < list.count; i += 2, count++) {
    embed(pipeline, list.paths[i], integer_embeddings[i]);
    const double c = cosine(float_embeddings[i], integer_embeddings[i]);
    sum += c;
    lowest = fmin(lowest, c);
  }
  const double float_margin = margin(&list, float_embeddings), integer_margin = margin(&list, integer_embeddings);
  printf(
      "%zu photographs, all three networks in integers: cosine to the float pipeline %.4f, lowest %.4f; lowest same - "
      "highest different %.4f (float %.4f)\n",
      count, sum / (double)count, lowest, integer_margin, float_margin);
  assert_true(sum / (double)count >= 0.992);
  assert_true(lowest >= 0.97);
  assert_true(integer_margin > 0); // A threshold exists that tells every pair right.
  assert_true(integer_margin >= float_margin - 0.02);
  size_t pairs = 0, there = 0, found = 0;
  const size_t otherwise = pairs_told_otherwise(&list, float_embeddings, integer_embeddings, &pairs);
  for (size_t i = 1; i < list.count; i += 2) count_recall(float_pipeline, pipeline, list.paths[i], &there, &found);
  itg_image_list judged = {0};
  char photographs[4200];
  snprintf(photographs, sizeof photographs, "%s/../photos/judge", oracle_models());
  if (oracle_exists(photographs)) assert_int_equal(itg_image_list_folder(photographs, NULL, &judged), ITG_OK);
  for (size_t i = 0; i < judged.count; i++) count_recall(float_pipeline, pipeline, judged.paths[i], &there, &found);
  itg_image_list_free(&judged);
  printf("%zu of %zu pairs told otherwise at a distance of .5; %zu of %zu faces found again at .7\n", otherwise, pairs,
         found, there);
  assert_int_equal(otherwise, 0);
  assert_true(there >= 20 && (double)found >= 0.99 * (double)there);
  itg_face_pipeline_destroy(pipeline);
  itg_face_pipeline_destroy(float_pipeline);
  for (int i = 0; i < 3; i++) {
    itg_session_destroy(sessions[i].session);
    itg_model_close(compiled[i]);
    itg_float_network_close(recorders[i].network.context);
    free(recorders[i].rows);
    unlink(paths[i]);
  }
  rmdir(folder);
  itg_image_list_free(&list);
}

int main(void) {
  snprintf(models, sizeof models, "%s/faceplugin", oracle_models());
  snprintf(faces, sizeof faces, "%s/data/faces", oracle_shared());
  if (!oracle_exists(models) || !oracle_exists(faces)) {
    printf("skipped: needs the face models and the shared photographs\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(integer_pipeline_recognises_the_same_people)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
