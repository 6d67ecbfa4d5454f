// CLIP services against Immich's way of running such models (Pillow, tokenizers, ONNX Runtime): five families with made
// weights. Token ids must be equal, embeddings within 1e-4 (they are of length 1).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "support/float_source.h"
#include "support/oracle.h"
#include "support/take.h"

enum { EMBEDDING = 24, MAX_IDS = 128 };

static char folder[] = "/tmp/intaglio-clip-XXXXXX", photographs[4096];
static itg_image_list list;
static const char *const models[] = {"ViT-test__openai", "ViT-test-SigLIP__webli", "ViT-test-SigLIP2__webli",
                                     "nllb-clip-test__v1", "XLM-Roberta-test"};

static int run_oracle(void **state) {
  (void)state;
  char command[65536];
  if (!mkdtemp(folder)) return -1;
  assert_int_equal(itg_image_list_folder(photographs, NULL, &list), ITG_OK);
  int length =
      snprintf(command, sizeof command,
               "mkdir '%s/tokenizers' && '%s' '%s/tests/real/tokenizer_oracle.py' '%s/tokenizers' 0 1 && '%s' "
               "'%s/tests/real/clip_oracle.py' '%s' '%s/tokenizers'",
               folder, oracle_python(), ITG_SOURCE_DIR, folder, oracle_python(), ITG_SOURCE_DIR, folder, folder);
  for (size_t i = 0; i < list.count; i++)
    length += snprintf(command + length, sizeof command - (size_t)length, " '%s'", list.paths[i]);
  return system(command) == 0 ? 0 : -1;
}

static int remove_oracle(void **state) {
  (void)state;
  char command[256];
  itg_image_list_free(&list);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static int32_t take_integer(itg_span *rest) {
  int32_t value;
  memcpy(&value, take(rest, sizeof value), sizeof value);
  return value;
}

static double distance(const float *values, itg_span *rest) {
  float expected[EMBEDDING];
  double worst = 0;
  memcpy(expected, take(rest, sizeof expected), sizeof expected);
  for (int i = 0; i < EMBEDDING; i++) worst = fmax(worst, fabs((double)values[i] - expected[i]));
  return worst;
}

static itg_mapped_file open_expected(const char *model, const char *type) {
  char path[512];
  itg_mapped_file file;
  snprintf(path, sizeof path, "%s/%s.%s.bin", folder, model, type);
  assert_int_equal(itg_mapped_file_open(path, NULL, &file), ITG_OK);
  return file;
}

static itg_service *open_service(itg_service_kind kind, const char *model, size_t *open_count) {
  char path[512];
  itg_diagnostic why = {0};
  itg_service *service = NULL;
  const itg_network_source source = float_source(open_count);
  snprintf(path, sizeof path, "%s/clip/%s/%s", folder, model, itg_service_type(kind));
  if (itg_service_open(kind, path, &source, &why, &service) != ITG_OK)
    fail_msg("%s: %s: %s", model, why.subject, why.message);
  assert_int_equal(itg_service_embedding_size(service), EMBEDDING);
  return service;
}

static void pictures_embed_as_in_the_reference(void **state) {
  (void)state;
  for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
    size_t open_count = 0;
    double worst = 0;
    itg_service *service = open_service(ITG_SERVICE_CLIP_VISUAL, models[m], &open_count);
    itg_mapped_file file = open_expected(models[m], "visual");
    itg_span rest = file.bytes;
    for (size_t i = 0; i < list.count; i++) {
      itg_image image = {0};
      float values[EMBEDDING];
      assert_int_equal(itg_image_read(list.paths[i], NULL, NULL, &image), ITG_OK);
      assert_int_equal(itg_service_embed_image(service, &image, NULL, values), ITG_OK);
      worst = fmax(worst, distance(values, &rest));
      itg_image_free(&image);
    }
    assert_int_equal(rest.size, 0);
    printf("%s: %zu pictures, largest difference %.1e\n", models[m], list.count, worst);
    assert_true(worst <= 1e-4);
    itg_mapped_file_close(&file);
    itg_service_close(service);
    assert_int_equal(open_count, 0);
  }
}

static void texts_embed_as_in_the_reference(void **state) {
  (void)state;
  for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
    size_t open_count = 0, texts = 0;
    double worst = 0;
    char path[512];
    itg_clip_text *preparation = NULL;
    itg_service *service = open_service(ITG_SERVICE_CLIP_TEXTUAL, models[m], &open_count);
    snprintf(path, sizeof path, "%s/clip/%s/textual", folder, models[m]);
    assert_int_equal(itg_clip_text_open(path, NULL, &preparation), ITG_OK);
    itg_mapped_file file = open_expected(models[m], "textual");
    for (itg_span rest = file.bytes; rest.size; texts++) {
      char language[32] = "";
      float values[EMBEDDING], ids[MAX_IDS], mask[MAX_IDS];
      const int32_t code_size = take_integer(&rest);
      if (code_size > 0) memcpy(language, take(&rest, (size_t)code_size), (size_t)code_size);
      const size_t size = (size_t)take_integer(&rest);
      const char *text = (const char *)take(&rest, size);
      const size_t count = (size_t)take_integer(&rest);
      assert_int_equal(count, itg_clip_text_context(preparation));
      assert_true(count <= MAX_IDS);
      assert_int_equal(itg_clip_text_values(preparation, text, size, code_size < 0 ? NULL : language, NULL, ids, mask),
                       ITG_OK);
      for (size_t i = 0; i < count; i++) {
        const int32_t expected = take_integer(&rest);
        if ((int32_t)ids[i] != expected)
          fail_msg("%s, text %zu \"%.*s\": id %zu is %d, not %d", models[m], texts, (int)size, text, i, (int)ids[i],
                   expected);
      }
      assert_int_equal(itg_service_embed_text(service, text, size, code_size < 0 ? NULL : language, NULL, values),
                       ITG_OK);
      worst = fmax(worst, distance(values, &rest));
    }
    printf("%s: %zu texts, largest difference %.1e\n", models[m], texts, worst);
    assert_true(texts >= 20 && worst <= 1e-4);
    itg_clip_text_close(preparation);
    itg_mapped_file_close(&file);
    itg_service_close(service);
    assert_int_equal(open_count, 0);
  }
}

int main(void) {
  snprintf(photographs, sizeof photographs, "%s/../photos", oracle_models());
  if (!oracle_exists(photographs) || !oracle_has("PIL, onnx, onnxruntime, tokenizers")) {
    printf("skipped: needs the photographs and Python with Pillow, ONNX, ONNX Runtime and tokenizers\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(pictures_embed_as_in_the_reference),
                                     cmocka_unit_test(texts_embed_as_in_the_reference)};
  return cmocka_run_group_tests(tests, run_oracle, remove_oracle);
}
