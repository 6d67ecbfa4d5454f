// Files whose NPU context is damaged, foreign or made to harm: refused by our own checks, or by the vendor's library in a child
// process. The process that opens them survives. ITG_MUTATIONS sets how many are tried (default 2,000).
#include "npu/qnn/trial.h"
#include "run/model.h"
#include "support/hostile_file.h"
#include "support/npu_net.h"

static uint8_t *file;
static size_t file_size;
static itg_graph *legal;

static void make_file(void) {
  legal = npu_linear(4, 32, 24);
  itg_diagnostic why = {0};
  if (npu_file(legal, npu_target("qcs6490"), &file, &file_size, NULL, &why) != ITG_OK) fail_msg("%s", why.message);
}

// The status of a session on the context of a copy of the file.
static itg_status open_session(const uint8_t *data, size_t size, const char *target, itg_diagnostic *why,
                               itg_model **model, itg_session **session) {
  itg_session_options options;
  itg_session_options_default(&options);
  options.backend = "qnn";
  options.target = target;
  *model = NULL;
  *session = NULL;
  const itg_status status = itg_model_open_memory(data, size, why, model);
  return status == ITG_OK ? itg_session_create(*model, &options, why, session) : status;
}

// What opened is also run, on zeros as in the trial.
static void run_session(itg_session *session) {
  static const uint8_t zeros[4 * 32];
  itg_diagnostic why = {0};
  if (session && itg_session_set_input_codes(session, 0, zeros, sizeof zeros, &why) == ITG_OK &&
      itg_session_run(session, &why) != ITG_OK)
    assert_true(why.message[0]);
}

// The session of a file with another section body.
static itg_status try_body(const uint8_t *body, size_t size, itg_diagnostic *why) {
  uint8_t *made = NULL;
  size_t made_size = 0;
  const itg_metadata_section section = {"qcs6490", (const char *)body, size, true};
  assert_int_equal(itg_container_encode(legal, &section, 1, why, &made, &made_size), ITG_OK);
  itg_model *model;
  itg_session *session;
  const itg_status status = open_session(made, made_size, NULL, why, &model, &session);
  run_session(session);
  itg_session_destroy(session);
  itg_model_close(model);
  free(made);
  return status;
}

static uint8_t *copy_body(size_t *size, itg_qnn_stored *stored) {
  itg_model *model = NULL;
  itg_diagnostic why = {0};
  itg_span body = {0};
  assert_int_equal(itg_model_open_memory(file, file_size, &why, &model), ITG_OK);
  assert_int_equal(itg_qnn_stored_find(&model->container, "qcs6490", &why, &body), ITG_OK);
  uint8_t *copy = malloc(body.size);
  memcpy(copy, body.data, body.size);
  *size = body.size;
  assert_int_equal(itg_qnn_stored_parse((itg_span){copy, body.size}, &why, stored), ITG_OK);
  itg_model_close(model);
  return copy;
}

// The hash of the header made right, as an attacker would.
static void fix_hash(uint8_t *body, size_t size, size_t start) {
  itg_qnn_stored_header header;
  memcpy(&header, body, sizeof header);
  header.blob_hash = XXH3_64bits_withSeed(body + start, size - start, ITG_QNN_STORED_VERSION);
  memcpy(body, &header, sizeof header);
}

static void ports_that_lie_are_refused(void **state) {
  (void)state;
  itg_diagnostic why = {0};
  itg_qnn_stored stored = {0};
  size_t size;
  uint8_t *body = copy_body(&size, &stored);
  const itg_target *target = npu_target("qcs6490");
  assert_int_equal(itg_qnn_stored_try(&stored, NULL, target, "another", &why), ITG_ERROR_FORMAT);
  stored.outputs[0].bytes = 1; // The library would write behind it.
  assert_int_equal(itg_qnn_stored_try(&stored, NULL, target, "intaglio", &why), ITG_ERROR_FORMAT);
  assert_non_null(strstr(why.message, "outputs"));
  stored.outputs[0].bytes = 4 * 24;
  stored.inputs[0].id += 100;
  assert_int_equal(itg_qnn_stored_try(&stored, NULL, target, "intaglio", &why), ITG_ERROR_FORMAT);
  stored.inputs[0].id -= 100;
  stored.header.core_minor = 99; // Made by a newer library.
  assert_int_equal(itg_qnn_stored_try(&stored, NULL, target, "intaglio", &why), ITG_ERROR_VERSION);
  stored.header.core_minor = 22;
  if (itg_qnn_stored_try(&stored, NULL, target, "intaglio", &why) != ITG_OK) fail_msg("%s", why.message);
  itg_qnn_stored_free(&stored);
  free(body);
}

static void damage_is_noticed_before_the_library_sees_it(void **state) {
  (void)state;
  itg_diagnostic why = {0};
  itg_qnn_stored stored = {0};
  size_t size;
  uint8_t *body = copy_body(&size, &stored);
  const size_t start = (size_t)(stored.blob.data - body);
  body[start + 1000] ^= 1;
  assert_int_equal(try_body(body, size, &why), ITG_ERROR_FORMAT);
  assert_non_null(strstr(why.message, "checksum"));
  body[start + 1000] ^= 1;
  itg_qnn_stored_header header;
  memcpy(&header, body, sizeof header);
  const itg_target *other = npu_target("sm8550"); // A context for another chip under a false name.
  header.soc_model = other->soc_model;
  header.arch = other->arch;
  header.vtcm_megabytes = other->vtcm_megabytes;
  strcpy(header.target, other->name);
  memcpy(body, &header, sizeof header);
  assert_int_equal(try_body(body, size, &why), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "v68"));
  memcpy(&header, body, sizeof header);
  header.version = 1;
  memcpy(body, &header, sizeof header);
  assert_int_equal(try_body(body, size, &why), ITG_ERROR_VERSION);
  itg_qnn_stored_free(&stored);
  free(body);
}

// A third of the files is damaged anywhere; a third has its checksums made right again; a third has a damaged binary with every
// checksum right, which only the trial in a child process stands between.
static void mutations_never_crash_this_process(void **state) {
  (void)state;
  const int count = getenv("ITG_MUTATIONS") ? atoi(getenv("ITG_MUTATIONS")) : 2000;
  itg_qnn_stored stored = {0};
  size_t body_size;
  uint8_t *body = copy_body(&body_size, &stored), *copy = malloc(file_size > body_size ? file_size : body_size);
  const size_t start = (size_t)(stored.blob.data - body);
  int opened = 0, refused = 0, crashed = 0;
  for (int i = 0; i < count; i++) {
    itg_diagnostic why = {0};
    net_random_state = 1000 + (uint64_t)i;
    itg_status status;
    if (i % 3 == 2) {
      memcpy(copy, body, body_size);
      for (uint32_t k = 1 + net_random() % 4; k > 0; k--)
        copy[start + net_random() % (body_size - start)] ^= (uint8_t)(1 << net_random() % 8);
      fix_hash(copy, body_size, start);
      status = try_body(copy, body_size, &why);
    } else {
      memcpy(copy, file, file_size);
      for (uint32_t k = 1 + net_random() % 4; k > 0; k--) copy[net_random() % file_size] = (uint8_t)net_random();
      if (i % 3 == 1) fix_checksums(copy, file_size);
      uint8_t *aligned = aligned_alloc(64, (file_size + 63) / 64 * 64);
      memcpy(aligned, copy, file_size);
      itg_model *model;
      itg_session *session;
      status = open_session(aligned, file_size, NULL, &why, &model, &session);
      run_session(session);
      itg_session_destroy(session);
      itg_model_close(model);
      free(aligned);
    }
    opened += status == ITG_OK;
    refused += status != ITG_OK;
    crashed += strstr(why.message, "crashed") != NULL;
    assert_true(status == ITG_OK || why.message[0]);
  }
  print_message("%d files: %d opened, %d refused, of them %d after the vendor's library crashed in the trial\n", count,
                opened, refused, crashed);
  assert_int_equal(opened + refused, count);
  itg_qnn_stored_free(&stored);
  free(body);
  free(copy);
}

int main(void) {
  if (npu_skip()) return 77;
  make_file();
  const struct CMUnitTest tests[] = {cmocka_unit_test(ports_that_lie_are_refused),
                                     cmocka_unit_test(damage_is_noticed_before_the_library_sees_it),
                                     cmocka_unit_test(mutations_never_crash_this_process)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  itg_graph_destroy(legal);
  free(file);
  return failed;
}
