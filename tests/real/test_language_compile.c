// Language models through the whole compiler: SmolLM2-135M from GGUF on text, the tiny vision-language models on a conversation
// with a photograph; and what must be refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "intaglio/compiler.h"
#include "support/oracle.h"

static itg_diagnostic why;
static char folder[] = "/tmp/itg-language-XXXXXX";
static char path[8192], output[128], samples[128];

static int make_folder(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(output, sizeof output, "%s/out.itg", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static const char *write_samples(const char *name, const char *text) {
  snprintf(samples, sizeof samples, "%s/%s", folder, name);
  FILE *file = fopen(samples, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  fclose(file);
  return samples;
}

// English that nobody copied from anywhere, enough for two windows.
static const char text[] =
    "A compiler reads a program and writes another one that means the same. The first one is made for people, the "
    "second "
    "for a machine. Between the two lies a chain of small steps, each of which can be understood alone: names are "
    "looked "
    "up, types are checked, expressions are taken apart, and in the end every operation has a place and a time. What "
    "makes a good compiler is not that it is clever but that it never lies. When it cannot keep a promise it says so, "
    "and "
    "says where, and what could be done about it.\n\nNumbers in a neural network are not exact anyway. They were found "
    "by "
    "walking downhill in a fog, and a small step to the side rarely matters. This is why eight bits are often enough: "
    "the "
    "noise of rounding is spread over thousands of products and mostly cancels. Where it does not cancel, the reason "
    "can "
    "be found. A single value may be a thousand times larger than its neighbours, so that they all fall into one code. "
    "Or "
    "a mean may be shifted in every layer by the same small amount, until the sum of the shifts is larger than the "
    "signal. "
    "Both can be measured, and both can be repaired, but only by somebody who looks at the numbers before believing "
    "them. "
    "A report that shows where the loss arises is therefore worth more than another method that might reduce it.\n";

static void smollm2_keeps_its_perplexity(void **state) {
  (void)state;
  snprintf(path, sizeof path, "%s/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", oracle_models());
  if (!oracle_exists(path)) {
    printf("skipped: %s is not there\n", path);
    skip();
  }
  itg_language_options options;
  itg_language_options_default(&options);
  options.calibration = write_samples("text.txt", text);
  options.sample_length = 128;
  options.context_length = 256;
  itg_language_result result;
  if (itg_language_compile(path, &options, output, &why, &result) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  printf("perplexity %.3f to %.3f, KL %.5f, same top %.4f, %zu bytes\n", result.accuracy.float_perplexity,
         result.accuracy.integer_perplexity, result.accuracy.divergence_mean, result.accuracy.top1_agreement,
         result.file_bytes);
  assert_true(result.accuracy.tokens > 200 && result.judged_on_calibration);
  assert_true(result.accuracy.perplexity_ratio < 1.02);
  assert_true(result.accuracy.top1_agreement > 0.9);
  assert_true(result.part_count == 2 && strcmp(result.parts[0].role, "decoder") == 0);
  assert_true(result.parts[1].constant_bytes < 1000000); // Tied: the head's rows are the embedding.
  assert_true(result.file_bytes < 145000000);
  itg_model *model = NULL;
  itg_session *session = NULL;
  assert_int_equal(itg_model_open(output, &why, &model), ITG_OK);
  size_t size;
  assert_non_null(itg_model_metadata(model, "language", &size));
  assert_non_null(itg_model_metadata(model, "tokenizer", &size));
  assert_non_null(itg_model_metadata(model, "accuracy", &size));
  assert_non_null(itg_model_part(model, "embedding"));
  assert_null(itg_model_part(model, "vision"));
  itg_session_options session_options;
  itg_session_options_default(&session_options);
  assert_int_equal(itg_session_create(model, &session_options, &why, &session), ITG_OK);
  assert_int_equal(itg_session_position(session), 1); // Behind the baked prefix, also after forgetting everything.
  assert_int_equal(itg_session_rewind(session, 0, &why), ITG_OK);
  assert_int_equal(itg_session_position(session), 1);
  itg_session_destroy(session);
  itg_model_close(model);
  itg_language_result_free(&result);
}

static const char *conversation(void) {
  static char json[8192];
  char picture[2048];
  oracle_home(picture, sizeof picture, "ITG_PHOTOS", "/.cache/intaglio/photos");
  snprintf(
      json, sizeof json,
      "[{\"files\":[\"%s/judge/obama/obama.jpg\"],\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},"
      "{\"type\":\"text\",\"text\":\"Can you describe this image?\"}]},{\"role\":\"assistant\",\"content\":"
      "[{\"type\":\"text\",\"text\":\"A man in a suit.\"}]}]}]",
      picture);
  return json;
}

static void vision_models_compile_to_three_parts(void **state) {
  (void)state;
  static const char *const names[] = {"smolvlm-tiny", "internvl3-tiny-tied-bf16"};
  char photo[4096];
  oracle_home(photo, sizeof photo / 2, "ITG_PHOTOS", "/.cache/intaglio/photos");
  snprintf(path, sizeof path, "%s/data/vlm/%s", oracle_shared(), names[0]);
  strncat(photo, "/judge/obama/obama.jpg", sizeof photo - strlen(photo) - 1);
  if (!oracle_exists(path) || !oracle_exists(photo)) {
    printf("skipped: %s or %s is not there\n", path, photo);
    skip();
  }
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/data/vlm/%s", oracle_shared(), names[i]);
    itg_language_options options;
    itg_language_options_default(&options);
    options.calibration = write_samples("samples.json", conversation());
    itg_language_result result;
    if (itg_language_compile(path, &options, output, &why, &result) != ITG_OK)
      fail_msg("%s: %s", why.subject, why.message);
    printf("%s: image cosine %.5f (%.5f), ratio %.4f, same top %.4f\n", names[i], result.accuracy.image_cosine_mean,
           result.accuracy.image_cosine_low, result.accuracy.perplexity_ratio, result.accuracy.top1_agreement);
    assert_true(result.part_count == 3 && result.accuracy.image_tokens > 0);
    assert_true(result.accuracy.image_cosine_mean > 0.995 && result.accuracy.image_cosine_low > 0.98);
    assert_true(result.accuracy.top1_agreement > 0.9);
    itg_language_result_free(&result);
    unlink(output);
  }
}

static int end_while_judging(void *context, const char *stage, long long done, long long total) {
  (void)context, (void)done, (void)total;
  if (strcmp(stage, "judge") != 0) return 0;
  itg_output_file_discard_all_from_signal(); // What the command does when it is interrupted.
  _exit(42);
}

static void an_interrupt_while_judging_leaves_nothing(void **state) {
  (void)state;
  snprintf(path, sizeof path, "%s/data/vlm/smolvlm-tiny", oracle_shared());
  if (!oracle_exists(path)) {
    printf("skipped: %s is not there\n", path);
    skip();
  }
  char inner[64], name[96], command[192];
  snprintf(inner, sizeof inner, "%s/interrupted", folder);
  snprintf(name, sizeof name, "%s/out.itg", inner);
  snprintf(command, sizeof command, "mkdir '%s'", inner);
  assert_int_equal(system(command), 0);
  itg_language_options options;
  itg_language_options_default(&options);
  options.calibration = write_samples("samples.json", conversation());
  options.progress = end_while_judging;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) _exit(itg_language_compile(path, &options, name, &why, NULL) == ITG_OK ? 1 : 2);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  snprintf(command, sizeof command, "test -z \"$(ls -A '%s')\"", inner);
  assert_int_equal(system(command), 0);
}

static void wrong_samples_are_refused(void **state) {
  (void)state;
  snprintf(path, sizeof path, "%s/data/vlm/smolvlm-tiny", oracle_shared());
  if (!oracle_exists(path)) {
    printf("skipped: %s is not there\n", path);
    skip();
  }
  static const struct {
    const char *json, *named;
    itg_status status;
  } cases[] = {
      {"{}", "list", ITG_ERROR_FORMAT},
      {"[]", "list", ITG_ERROR_FORMAT},
      {"[1", "JSON", ITG_ERROR_FORMAT},
      {"[{\"messages\":[{\"role\":\"user\",\"content\":\"no picture\"}]}]", "picture", ITG_ERROR_ARGUMENT},
      {"[{\"messages\":[],\"more\":1}]", "more", ITG_ERROR_FORMAT},
      {"[{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}]", "without a file", ITG_ERROR_FORMAT},
      {"[{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"image\":\"none.jpg\"}]}]}]", "open",
       ITG_ERROR_IO},
      {"[{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":\"http://x/y.jpg\"}]}]}]",
       "address", ITG_ERROR_FORMAT},
      {"[{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"sound\"}]}]}]", "neither", ITG_ERROR_FORMAT},
      {"[{\"files\":[\"a.jpg\"],\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}]", "files", ITG_ERROR_FORMAT},
      {"[{\"messages\":[{\"role\":\"robot\",\"content\":\"x\"}]}]", "robot", ITG_ERROR_ARGUMENT},
  };
  itg_language_options options;
  itg_language_options_default(&options);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    options.calibration = write_samples("wrong.json", cases[i].json);
    const itg_status status = itg_language_compile(path, &options, output, &why, NULL);
    if (status != cases[i].status || !strstr(why.message, cases[i].named))
      fail_msg("case %zu: status %d, %s", i, (int)status, why.message);
    assert_int_not_equal(access(output, F_OK), 0);
  }
  options.calibration = NULL;
  assert_int_equal(itg_language_compile(path, &options, output, &why, NULL), ITG_ERROR_ARGUMENT);
  options.calibration = samples;
  options.precision = "a8w8";
  assert_int_equal(itg_language_compile(path, &options, output, &why, NULL), ITG_ERROR_ARGUMENT);
  options.precision = NULL;
  options.context_length = 9000;
  assert_int_equal(itg_language_compile(path, &options, output, &why, NULL), ITG_ERROR_ARGUMENT);
  assert_false(itg_is_language_model(samples));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(vision_models_compile_to_three_parts),
                                     cmocka_unit_test(an_interrupt_while_judging_leaves_nothing),
                                     cmocka_unit_test(wrong_samples_are_refused),
                                     cmocka_unit_test(smollm2_keeps_its_perplexity)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
