// Compiled networks behind the services: CLIP encoders with made weights are compiled by the command from a folder of
// pictures and a file of texts (--kind), and their integer embeddings stay near the float ones.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/networks.h"
#include "support/float_source.h"
#include "support/oracle.h"

enum { EMBEDDING = 24 };

static char folder[] = "/tmp/intaglio-compiled-XXXXXX", photographs[4096];
static itg_image_list list;
static const char *const texts[] = {"a photo of a forest", "two red cars", "the sea at night", "an old man with a dog",
                                    "mountains in the snow"};

static int run(const char *command) { return system(command); }

static int prepare(void **state) {
  (void)state;
  char command[32768], path[256];
  if (!mkdtemp(folder)) return -1;
  assert_int_equal(itg_image_list_folder(photographs, NULL, &list), ITG_OK);
  snprintf(command, sizeof command,
           "mkdir '%s/tokenizers' && '%s' '%s/tests/real/tokenizer_oracle.py' '%s/tokenizers' 0 1 && '%s' "
           "'%s/tests/real/clip_oracle.py' '%s' '%s/tokenizers' '%s'",
           folder, oracle_python(), ITG_SOURCE_DIR, folder, oracle_python(), ITG_SOURCE_DIR, folder, folder,
           list.paths[0]);
  if (run(command) != 0) return -1;
  snprintf(path, sizeof path, "%s/texts.txt", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int i = 0; i < 40; i++) fprintf(file, "text number %d of a %s\n\n", i, texts[i % 5]);
  return fclose(file);
}

static int clean_up(void **state) {
  (void)state;
  char command[256];
  itg_image_list_free(&list);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return run(command);
}

// Compiles a network of the folder with what `--kind` finds beside it.
static void compile(const char *model, const char *type, const char *kind, const char *samples, const char *more) {
  char command[16384];
  snprintf(command, sizeof command,
           "'%s/intaglio' compile '%s/clip/%s/%s/model.onnx' --kind %s -c '%s' %s -o '%s/clip/%s/%s/model.itg' -q",
           ITG_BINARY_DIR, folder, model, type, kind, samples, more, folder, model, type);
  assert_int_equal(run(command), 0);
}

static itg_service *open_service(itg_service_kind kind, const char *model, const itg_network_source *source) {
  char path[512];
  itg_diagnostic why = {0};
  itg_service *service = NULL;
  snprintf(path, sizeof path, "%s/clip/%s/%s", folder, model, itg_service_type(kind));
  if (itg_service_open(kind, path, source, &why, &service) != ITG_OK) fail_msg("%s: %s", path, why.message);
  return service;
}

static double cosine(const float *a, const float *b) {
  double both = 0, own = 0, other = 0;
  for (int i = 0; i < EMBEDDING; i++) {
    both += (double)a[i] * b[i];
    own += (double)a[i] * a[i];
    other += (double)b[i] * b[i];
  }
  return both / sqrt(own * other);
}

static void compare(itg_service_kind kind, const char *model) {
  static const itg_network_options options = {.thread_count = 1};
  itg_networks networks = {.options = &options};
  const itg_network_source compiled = itg_networks_source(&networks), source = float_source(NULL);
  itg_service *integer = open_service(kind, model, &compiled), *original = open_service(kind, model, &source);
  assert_int_equal(networks.count, 1);
  assert_int_equal(networks.reports[0].place, ITG_PLACE_CPU);
  double lowest = 1;
  const size_t count = kind == ITG_SERVICE_CLIP_VISUAL ? list.count : sizeof texts / sizeof texts[0];
  for (size_t i = 0; i < count; i++) {
    float a[EMBEDDING], b[EMBEDDING];
    if (kind == ITG_SERVICE_CLIP_VISUAL) {
      itg_image image = {0};
      assert_int_equal(itg_image_read(list.paths[i], NULL, NULL, &image), ITG_OK);
      assert_int_equal(itg_service_embed_image(integer, &image, NULL, a), ITG_OK);
      assert_int_equal(itg_service_embed_image(original, &image, NULL, b), ITG_OK);
      itg_image_free(&image);
    } else {
      assert_int_equal(itg_service_embed_text(integer, texts[i], strlen(texts[i]), NULL, NULL, a), ITG_OK);
      assert_int_equal(itg_service_embed_text(original, texts[i], strlen(texts[i]), NULL, NULL, b), ITG_OK);
    }
    lowest = fmin(lowest, cosine(a, b));
  }
  printf("%s, %s: %zu embeddings, lowest cosine %.5f\n", model, itg_service_type(kind), count, lowest);
  assert_true(lowest >= 0.98);
  itg_service_close(integer);
  itg_service_close(original);
}

static void pictures_calibrate_image_encoders(void **state) {
  (void)state;
  compile("ViT-test__openai", "visual", "clip-visual", photographs, "--shape 1x3x64x64");
  compare(ITG_SERVICE_CLIP_VISUAL, "ViT-test__openai");
}

static void texts_calibrate_text_encoders(void **state) {
  (void)state;
  char path[256];
  snprintf(path, sizeof path, "%s/texts.txt", folder);
  compile("ViT-test-SigLIP__webli", "textual", "clip-textual", path, "");
  compare(ITG_SERVICE_CLIP_TEXTUAL, "ViT-test-SigLIP__webli");
  compile("XLM-Roberta-test", "textual", "clip-textual", path, ""); // Ids and a mask.
  compare(ITG_SERVICE_CLIP_TEXTUAL, "XLM-Roberta-test");
}

int main(void) {
  snprintf(photographs, sizeof photographs, "%s/../photos/judge", oracle_models());
  if (!oracle_exists(photographs) || !oracle_has("PIL, onnx, onnxruntime, tokenizers")) {
    printf("skipped: needs the photographs and Python with Pillow, ONNX, ONNX Runtime and tokenizers\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(pictures_calibrate_image_encoders),
                                     cmocka_unit_test(texts_calibrate_text_encoders)};
  return cmocka_run_group_tests(tests, prepare, clean_up);
}
