// Every allocation of the image and face code may fail: an error comes back and nothing leaks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "faults/fail_allocation.h"

#include "base/file.h"
#include "base/status.h"
#include "intaglio/pipelines.h"
#include "tensor/npy.h"
#include "unit/image_files.inc"

static uint8_t bytes[8192], pixels[60 * 40 * 3];
static const itg_image picture = {60, 40, 3, pixels};
static char folder[] = "test_image_memory-XXXXXX", file_paths[2][64];

static itg_status decode_all(itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    const size_t size = strlen(files[i].hex) / 2;
    for (size_t k = 0; k < size; k++) {
      const char digits[3] = {files[i].hex[2 * k], files[i].hex[2 * k + 1], 0};
      bytes[k] = (uint8_t)strtoul(digits, NULL, 16);
    }
    itg_image image = {0};
    ITG_TRY(itg_image_decode(bytes, size, NULL, diagnostic, &image));
    itg_image_free(&image);
  }
  return ITG_OK;
}

static itg_status resize_all(itg_diagnostic *diagnostic) {
  for (int method = 0; method < ITG_RESIZE_METHOD_COUNT; method++) {
    for (int size = 0; size < 3; size++) {
      itg_image image = {0};
      ITG_TRY(itg_image_resize(&picture, (itg_resize_method)method, size == 1 ? 60 : 17, size == 2 ? 40 : 21,
                               diagnostic, &image));
      itg_image_free(&image);
    }
  }
  return ITG_OK;
}

static itg_status preprocess_one(itg_diagnostic *diagnostic) {
  static float out[3 * 32 * 32];
  const itg_shape shape = {4, {1, 1, 32, 32}};
  const char *text = "{\"channels\": \"grey\", \"resize\": {\"rule\": \"letterbox\", \"method\": \"pillow-lanczos\"}}";
  itg_preprocess *preprocess = NULL;
  ITG_TRY(itg_preprocess_from_json(text, strlen(text), diagnostic, &preprocess));
  const itg_status status = itg_preprocess_run(preprocess, &picture, &shape, diagnostic, out);
  itg_preprocess_close(preprocess);
  return status;
}

static itg_status list_folder(itg_diagnostic *diagnostic) {
  itg_image_list list = {0};
  ITG_TRY(itg_image_list_folder(folder, diagnostic, &list));
  itg_image_list_free(&list);
  return ITG_OK;
}

static itg_status write_array(itg_diagnostic *diagnostic) {
  const itg_shape row = {1, {4}};
  itg_npy_writer *writer = NULL;
  ITG_TRY(itg_npy_writer_create("test_image_memory.npy", ITG_DTYPE_U8, 1, &row, diagnostic, &writer));
  const itg_status status = itg_npy_writer_append(writer, pixels, diagnostic);
  if (status != ITG_OK) {
    itg_npy_writer_discard(writer);
    return status;
  }
  ITG_TRY(itg_npy_writer_commit(writer, diagnostic));
  unlink("test_image_memory.npy");
  return ITG_OK;
}

// Networks that find one face in the middle.
static const itg_tensor_info tensors[] = {{.shape = {4, {1, 3, 24, 32}}, .count = 3 * 24 * 32},
                                          {.shape = {3, {1, 1, 2}}, .count = 2},
                                          {.shape = {3, {1, 1, 4}}, .count = 4},
                                          {.shape = {4, {1, 1, 16, 16}}, .count = 256},
                                          {.shape = {2, {1, 136}}, .count = 136},
                                          {.shape = {4, {1, 3, 112, 112}}, .count = 3 * 112 * 112},
                                          {.shape = {2, {1, 8}}, .count = 8}};
static const int detector_tensors[] = {0, 1, 2}, landmark_tensors[] = {3, 4}, embedder_tensors[] = {5, 6};

static itg_status run_network(void *context, const float *const *inputs, float *const *outputs,
                              itg_diagnostic *diagnostic) {
  (void)inputs;
  (void)diagnostic;
  const int *which = context;
  for (size_t i = 0; i < tensors[which[1]].count; i++) outputs[0][i] = (float)(i % 7) / 8.0f;
  if (which == detector_tensors) {
    outputs[0][1] = 1;
    memcpy(outputs[1], (const float[]){0.25f, 0.25f, 0.75f, 0.75f}, 16);
  }
  return ITG_OK;
}
static const itg_tensor_info *input_of(void *context, size_t index) { return &tensors[((int *)context)[index]]; }
static const itg_tensor_info *output_of(void *context, size_t index) { return &tensors[((int *)context)[1 + index]]; }

static itg_status find_faces(itg_diagnostic *diagnostic) {
  const itg_network detector = {(void *)detector_tensors, 1, 2, run_network, input_of, output_of, NULL};
  const itg_network landmarks = {(void *)landmark_tensors, 1, 1, run_network, input_of, output_of, NULL};
  const itg_network embedder = {(void *)embedder_tensors, 1, 1, run_network, input_of, output_of, NULL};
  static uint8_t crop[112 * 112 * 3];
  itg_face_pipeline *pipeline = NULL;
  itg_face face;
  float embedding[8];
  ITG_TRY(itg_face_pipeline_create(detector, landmarks, embedder, diagnostic, &pipeline));
  itg_status status = itg_face_find(pipeline, &picture, diagnostic, &face);
  if (status == ITG_OK) status = itg_face_crop(&picture, &face, diagnostic, crop);
  if (status == ITG_OK) status = itg_face_embed(pipeline, crop, diagnostic, embedding, 8);
  itg_face_pipeline_destroy(pipeline);
  return status;
}

// `foreign`: blocks a run frees that a shared library allocated.
static void each_allocation_fails_once(itg_status (*run)(itg_diagnostic *), long least, long foreign) {
  const long first = allocation_count();
  assert_int_equal(run(NULL), ITG_OK);
  const long allocations = allocation_count() - first;
  assert_true(allocations >= least);
  for (long number = 1; number <= allocations; number++) {
    const long before = live_blocks();
    itg_diagnostic why = {0};
    fail_allocation(number);
    const itg_status status = run(&why);
    assert_false(fail_is_pending());
    assert_int_equal(status, ITG_ERROR_MEMORY);
    assert_int_equal(why.status, ITG_ERROR_MEMORY);
    const long leaked = live_blocks() - before;
    if (leaked != 0 && leaked != -foreign) fail_msg("allocation %ld: %ld blocks are left", number, leaked);
  }
}

static void decoding(void **state) {
  (void)state;
  each_allocation_fails_once(decode_all, 40, 0);
}
static void resizing(void **state) {
  (void)state;
  each_allocation_fails_once(resize_all, 60, 0);
}
static void preprocessing(void **state) {
  (void)state;
  each_allocation_fails_once(preprocess_one, 8, 1);
}
static int make_folder(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  for (int i = 0; i < 2; i++) {
    snprintf(file_paths[i], sizeof file_paths[i], "%s/%d.png", folder, i);
    if (itg_write_file(file_paths[i], "x", 1, NULL) != ITG_OK) return -1;
  }
  return 0;
}
static int remove_folder(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) unlink(file_paths[i]);
  return rmdir(folder);
}
static void listing(void **state) {
  (void)state;
  each_allocation_fails_once(list_folder, 3, 0);
}
static void writing_arrays(void **state) {
  (void)state;
  each_allocation_fails_once(write_array, 3, 0);
}
static void finding_faces(void **state) {
  (void)state;
  each_allocation_fails_once(find_faces, 12, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decoding),       cmocka_unit_test(resizing),
      cmocka_unit_test(preprocessing),  cmocka_unit_test_setup_teardown(listing, make_folder, remove_folder),
      cmocka_unit_test(writing_arrays), cmocka_unit_test(finding_faces)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
