// Pulling models from a local server that speaks the hub's protocol: what is fetched, resumed, checked and refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "hub/digest.h"
#include "hub/listing.h"
#include "intaglio/hub.h"
#include "support/hub_server.h"

static char folder[] = "/tmp/intaglio-hub-XXXXXX";
static const char MODEL[] = "ViT-B-32__openai";

static int start_server(void **state) {
  (void)state;
  return mkdtemp(folder) && hub_start(folder, NULL) ? 0 : -1;
}

static int stop_server(void **state) {
  (void)state;
  char command[256];
  hub_stop();
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

typedef struct outcome {
  itg_status status;
  itg_diagnostic why;
  size_t fetched, kept;
} outcome;

static outcome pull(const char *cache_name, const char *name, const char *revision, const char *token, int retries) {
  outcome result = {0};
  char cache[256];
  itg_hub_options options;
  itg_hub_options_default(&options);
  options.revision = revision;
  options.token = token;
  options.retries = retries;
  snprintf(cache, sizeof cache, "%s/%s", folder, cache_name);
  result.status = itg_hub_pull(cache, name, &options, &result.why, &result.fetched, &result.kept);
  return result;
}

static int64_t size_of(const char *path) {
  char full[512];
  struct stat info;
  snprintf(full, sizeof full, "%s/%s", folder, path);
  return stat(full, &info) == 0 ? info.st_size : -1;
}

static void digests_are_those_of_the_standard(void **state) {
  (void)state;
  char sha256[ITG_HEX_SHA256], git[ITG_HEX_SHA1];
  itg_sha256_hex((itg_span){(const uint8_t *)"abc", 3}, sha256);
  assert_string_equal(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  itg_sha256_hex((itg_span){NULL, 0}, sha256);
  assert_string_equal(sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  itg_sha256_hex((itg_span){(const uint8_t *)two_blocks, 56}, sha256);
  assert_string_equal(sha256, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  itg_git_blob_hex((itg_span){NULL, 0}, git);
  assert_string_equal(git, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  itg_git_blob_hex((itg_span){(const uint8_t *)"hello\n", 6}, git);
  assert_string_equal(git, "ce013625030ba8dba906f756967f9e9ca394464a");
}

static void names_become_folders(void **state) {
  (void)state;
  char path[64];
  assert_int_equal(itg_hub_folder("/c", "ViT-B-16-SigLIP2__webli", NULL, path, sizeof path), ITG_OK);
  assert_string_equal(path, "/c/clip/ViT-B-16-SigLIP2__webli");
  assert_int_equal(itg_hub_folder("/c", "a/b:c\\d.e", NULL, path, sizeof path), ITG_OK);
  assert_string_equal(path, "/c/clip/b_c_de");
  assert_int_equal(itg_hub_folder("/c", "EN__PP-OCRv5_mobile", NULL, path, sizeof path), ITG_OK);
  assert_string_equal(path, "/c/ocr/EN__PP-OCRv5_mobile");
  assert_int_equal(itg_hub_folder("/c", "antelopev2", NULL, path, sizeof path), ITG_OK);
  assert_string_equal(path, "/c/facial-recognition/antelopev2");
  assert_int_equal(itg_hub_folder("/c", "..", NULL, path, sizeof path), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_hub_folder("/c", "a b", NULL, path, sizeof path), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_hub_folder("/c", "buffalo_l", NULL, path, 10), ITG_ERROR_LIMIT);
}

static void a_model_is_fetched_once(void **state) {
  (void)state;
  char cache[256];
  snprintf(cache, sizeof cache, "%s/once", folder);
  assert_false(itg_hub_is_complete(cache, MODEL));
  outcome first = pull("once", MODEL, NULL, NULL, 0);
  if (first.status != ITG_OK) fail_msg("%s: %s", first.why.subject, first.why.message);
  assert_int_equal(first.fetched, 6);
  assert_int_equal(first.kept, 0);
  assert_int_equal(size_of("once/clip/ViT-B-32__openai/visual/model.onnx"), 300000);
  assert_int_equal(size_of("once/clip/ViT-B-32__openai/visual/empty.txt"), 0);
  assert_int_equal(size_of("once/clip/ViT-B-32__openai/visual/model.armnn"), -1);
  assert_int_equal(size_of("once/clip/ViT-B-32__openai/visual/rknpu"), -1);
  assert_int_equal(size_of("once/clip/ViT-B-32__openai/README.md"), -1);
  assert_true(itg_hub_is_complete(cache, MODEL));
  hub_forget_requests();
  outcome second = pull("once", MODEL, NULL, NULL, 0);
  assert_int_equal(second.status, ITG_OK);
  assert_int_equal(second.kept, 6);
  assert_int_equal(hub_requests("/resolve/"), 0);
  // A file that lost bytes is fetched again.
  char path[512];
  snprintf(path, sizeof path, "%s/clip/%s/textual/model.onnx", cache, MODEL);
  assert_int_equal(truncate(path, 100), 0);
  assert_false(itg_hub_is_complete(cache, MODEL));
  outcome third = pull("once", MODEL, NULL, NULL, 0);
  assert_int_equal(third.status, ITG_OK);
  assert_int_equal(third.fetched, 1);
  assert_true(itg_hub_is_complete(cache, MODEL));
}

static void interrupted_files_are_continued(void **state) {
  (void)state;
  // Without a second attempt the pull fails, but what came is kept and the next pull goes on behind it.
  outcome cut = pull("cut", MODEL, "cut", NULL, 0);
  assert_int_equal(cut.status, ITG_ERROR_IO);
  assert_int_equal(size_of("cut/clip/ViT-B-32__openai/textual/model.onnx"), -1);
  assert_int_equal(size_of("cut/clip/ViT-B-32__openai/textual/model.onnx.incomplete"), 70000 / 3);
  hub_forget_requests();
  outcome next = pull("cut", MODEL, "cut", NULL, 1); // The other large file is cut now, and continued at once.
  if (next.status != ITG_OK) fail_msg("%s: %s", next.why.subject, next.why.message);
  assert_int_equal(hub_requests("bytes=23333-"), 1);
  assert_int_equal(hub_requests("bytes=100000-"), 1);
  assert_int_equal(size_of("cut/clip/ViT-B-32__openai/visual/model.onnx"), 300000);
  assert_int_equal(size_of("cut/clip/ViT-B-32__openai/visual/model.onnx.incomplete"), -1);
  // A server without ranges sends everything again.
  outcome whole = pull("norange", MODEL, "norange", NULL, 2);
  if (whole.status != ITG_OK) fail_msg("%s: %s", whole.why.subject, whole.why.message);
  assert_int_equal(size_of("norange/clip/ViT-B-32__openai/visual/model.onnx"), 300000);
}

static void busy_servers_are_asked_again(void **state) {
  (void)state;
  hub_forget_requests();
  assert_int_equal(pull("busy", MODEL, "busy", NULL, 2).status, ITG_OK);
  assert_int_equal(hub_requests("/revision/busy"), 3);
}

static void what_is_wrong_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *name, *revision;
    itg_status status;
    const char *message;
  } cases[] = {{"ViT-B-32__openai", "corrupt", ITG_ERROR_FORMAT, "checksum"},
               {"ViT-B-32__openai", "long", ITG_ERROR_FORMAT, "other bytes"},
               {"ViT-B-32__openai", "escape", ITG_ERROR_FORMAT, "name"},
               {"ViT-B-32__openai", "huge", ITG_ERROR_LIMIT, "5000"},
               {"ViT-B-32__openai", "nojson", ITG_ERROR_FORMAT, "JSON"},
               {"ViT-B-32__openai", "nochecksum", ITG_ERROR_FORMAT, "checksum"},
               {"ViT-B-32__openai", "none", ITG_ERROR_IO, "404"},
               {"unknown", "main", ITG_ERROR_IO, "404"},
               {"buffalo_l", "main", ITG_ERROR_IO, "HF_TOKEN"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    outcome result = pull("refused", cases[i].name, cases[i].revision, NULL, 0);
    if (result.status != cases[i].status || !strstr(result.why.message, cases[i].message))
      fail_msg("%s %s: %d %s", cases[i].name, cases[i].revision, result.status, result.why.message);
  }
  assert_int_equal(size_of("refused/clip/ViT-B-32__openai/visual/model.onnx"), -1);
  assert_int_equal(size_of("refused/clip/escaped.txt"), -1);
}

static void hostile_hubs_do_no_harm(void **state) {
  (void)state;
  static const struct {
    const char *revision;
    itg_status status;
    const char *message;
  } cases[] = {
      {"loop", ITG_ERROR_IO, "redirect"}, {"local", ITG_ERROR_IO, "file"}, {"endless", ITG_ERROR_LIMIT, "8388608"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    outcome result = pull("hostile", MODEL, cases[i].revision, NULL, 0);
    if (result.status != cases[i].status || !strstr(result.why.message, cases[i].message))
      fail_msg("%s: %d %s", cases[i].revision, result.status, result.why.message);
  }
  int names = 0;
  for (outcome result;; names++) { // Names that would leave the folder, or mislead.
    char revision[16];
    snprintf(revision, sizeof revision, "name-%d", names);
    result = pull("hostile", MODEL, revision, NULL, 0);
    if (strstr(result.why.message, "404")) break;
    if (result.status != ITG_ERROR_FORMAT) fail_msg("%s: %d %s", revision, result.status, result.why.message);
  }
  assert_true(names >= 16);
  char command[256];
  snprintf(command, sizeof command, "test -z \"$(find %s /etc/intaglio-escaped.txt -name '*escaped*' 2>/dev/null)\"",
           folder);
  assert_int_equal(system(command), 0);
}

static void files_that_nobody_needs_may_have_any_name(void **state) {
  (void)state;
  outcome result = pull("odd", MODEL, "odd", NULL, 0);
  if (result.status != ITG_OK) fail_msg("%s: %s", result.why.subject, result.why.message);
  assert_int_equal(result.fetched, 6);
  assert_int_equal(size_of("odd/clip/ViT-B-32__openai/visual/.gitkeep"), -1);
}

static void what_is_left_of_another_version_is_replaced(void **state) {
  (void)state;
  char command[512];
  snprintf(command, sizeof command,
           "mkdir -p %s/stale/clip/%s/visual && head -c 1000 /dev/zero > %s/stale/clip/%s/visual/model.onnx.incomplete",
           folder, MODEL, folder, MODEL);
  assert_int_equal(system(command), 0);
  outcome result = pull("stale", MODEL, NULL, NULL, 0);
  if (result.status != ITG_OK) fail_msg("%s: %s", result.why.subject, result.why.message);
  assert_int_equal(size_of("stale/clip/ViT-B-32__openai/visual/model.onnx"), 300000);
  // A part from another place than the one asked for is refused, and nothing of it is kept.
  assert_int_equal(pull("elsewhere", MODEL, "elsewhere", NULL, 0).status, ITG_ERROR_IO);
  outcome other = pull("elsewhere", MODEL, "elsewhere", NULL, 0);
  assert_int_equal(other.status, ITG_ERROR_FORMAT);
  assert_int_equal(size_of("elsewhere/clip/ViT-B-32__openai/textual/model.onnx"), -1);
}

static void the_token_goes_to_the_hub_alone(void **state) {
  (void)state;
  hub_forget_requests();
  assert_int_equal(pull("token", "buffalo_l", "redirect", "secret", 0).status, ITG_OK);
  assert_int_equal(size_of("token/facial-recognition/buffalo_l/visual/model.onnx"), 300000);
  assert_int_equal(hub_requests("/moved/"), 6);
  char line[1024];
  FILE *file = fopen(hub_log, "r");
  while (fgets(line, sizeof line, file))
    assert_true((strstr(line, "/moved/") != NULL) != (strstr(line, " token\n") != NULL));
  fclose(file);
}

static void offline_means_no_network(void **state) {
  (void)state;
  hub_forget_requests();
  setenv("HF_HUB_OFFLINE", "1", 1);
  outcome none = pull("nowhere", MODEL, NULL, NULL, 0), there = pull("once", MODEL, NULL, NULL, 0);
  unsetenv("HF_HUB_OFFLINE");
  assert_int_equal(none.status, ITG_ERROR_IO);
  assert_non_null(strstr(none.why.message, "offline"));
  assert_int_equal(there.status, ITG_OK);
  assert_int_equal(there.kept, 6);
  assert_int_equal(hub_requests("GET"), 0);
}

static int stop_after_first_bytes(void *context, const char *stage, long long done, long long total) {
  (void)context;
  return strcmp(stage, "visual/model.onnx") == 0 && done > 1000 && done < total;
}

static void a_pull_can_be_cancelled(void **state) {
  (void)state;
  char cache[256];
  itg_hub_options options;
  itg_hub_options_default(&options);
  options.progress = stop_after_first_bytes;
  snprintf(cache, sizeof cache, "%s/cancel", folder);
  assert_int_equal(itg_hub_pull(cache, MODEL, &options, NULL, NULL, NULL), ITG_ERROR_CANCELLED);
  assert_false(itg_hub_is_complete(cache, MODEL));
  assert_int_equal(pull("cancel", MODEL, NULL, NULL, 0).status, ITG_OK);
}

static void no_server_is_said(void **state) {
  (void)state;
  itg_hub_options options;
  itg_hub_options_default(&options);
  options.endpoint = "http://127.0.0.1:1";
  options.retries = 0;
  itg_diagnostic why = {0};
  assert_int_equal(itg_hub_pull(folder, MODEL, &options, &why, NULL, NULL), ITG_ERROR_IO);
  assert_non_null(strstr(why.message, "network"));
}

static void damaged_listings_do_no_harm(void **state) {
  (void)state;
  static const char good[] =
      "{\"sha\": \"0123456789012345678901234567890123456789\", \"siblings\": [{\"rfilename\": \"a/b c.onnx\", "
      "\"size\": "
      "3, \"lfs\": {\"sha256\": \"0123456789012345678901234567890123456789012345678901234567890123\", \"size\": 5}}, "
      "{\"rfilename\": \"config.json\", \"size\": 7, \"blobId\": \"0123456789012345678901234567890123456789\"}]}";
  itg_hub_listing listing = {0};
  assert_int_equal(itg_hub_listing_read((itg_span){(const uint8_t *)good, sizeof good - 1}, NULL, &listing), ITG_OK);
  assert_int_equal(listing.count, 2);
  assert_string_equal(listing.files[0].path, "a/b c.onnx");
  assert_int_equal(listing.files[0].size, 5);
  itg_hub_listing_free(&listing);
  for (size_t at = 0; at < sizeof good - 1; at++) {
    for (int k = 0; k < 3; k++) {
      char damaged[sizeof good];
      memcpy(damaged, good, sizeof good);
      damaged[at] = (char)(k == 0 ? 0 : k == 1 ? damaged[at] ^ 1 : '"');
      if (itg_hub_listing_read((itg_span){(const uint8_t *)damaged, sizeof good - 1}, NULL, &listing) == ITG_OK)
        itg_hub_listing_free(&listing);
    }
  }
}

int main(void) {
  if (!hub_possible()) {
    printf("skipped: needs Python\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(digests_are_those_of_the_standard),
                                     cmocka_unit_test(names_become_folders),
                                     cmocka_unit_test(a_model_is_fetched_once),
                                     cmocka_unit_test(interrupted_files_are_continued),
                                     cmocka_unit_test(busy_servers_are_asked_again),
                                     cmocka_unit_test(what_is_wrong_is_refused),
                                     cmocka_unit_test(hostile_hubs_do_no_harm),
                                     cmocka_unit_test(files_that_nobody_needs_may_have_any_name),
                                     cmocka_unit_test(what_is_left_of_another_version_is_replaced),
                                     cmocka_unit_test(the_token_goes_to_the_hub_alone),
                                     cmocka_unit_test(offline_means_no_network),
                                     cmocka_unit_test(a_pull_can_be_cancelled),
                                     cmocka_unit_test(no_server_is_said),
                                     cmocka_unit_test(damaged_listings_do_no_harm)};
  return cmocka_run_group_tests(tests, start_server, stop_server);
}
