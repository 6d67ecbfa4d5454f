// Memory of writing, opening and running: every allocation may fail without harm, and running does none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "faults/fail_allocation.h"

#include "container/container.h"
#include "intaglio/intaglio.h"
#include "support/integer_graph.h"

static itg_graph *graph;
static uint8_t *bytes;
static size_t size;

static int make_file(void **state) {
  (void)state;
  static const itg_metadata_section sections[] = {{"provenance", "{}", 2, false}};
  graph = builder_small_graph();
  return itg_container_encode(graph, sections, 1, NULL, &bytes, &size) != ITG_OK;
}

static int free_file(void **state) {
  (void)state;
  itg_graph_destroy(graph);
  free(bytes);
  return 0;
}

static itg_status write_once(itg_diagnostic *diagnostic) {
  uint8_t *out = NULL;
  size_t out_size;
  const itg_status status = itg_container_encode(graph, NULL, 0, diagnostic, &out, &out_size);
  free(out);
  return status;
}

// Opens, plans with two threads and runs.
static itg_status run_once(itg_diagnostic *diagnostic, const void *data) {
  itg_model *model = NULL;
  itg_session *session = NULL;
  itg_status status = itg_model_open_memory(data, size, diagnostic, &model);
  if (status != ITG_OK) return status;
  itg_session_options options;
  itg_session_options_default(&options);
  options.thread_count = 2;
  options.profile = 1;
  status = itg_session_create(model, &options, diagnostic, &session);
  if (status == ITG_OK) {
    const float image[108] = {0};
    status = itg_session_set_input(session, 0, image, 108, diagnostic);
    if (status == ITG_OK) status = itg_session_run(session, diagnostic);
    itg_session_destroy(session);
  }
  itg_model_close(model);
  return status;
}

static void every_failure_of_writing_is_clean(void **state) {
  (void)state;
  const long before = live_blocks();
  long number = 1;
  for (;; number++) {
    itg_diagnostic diagnostic = {0};
    fail_allocation(number);
    const itg_status status = write_once(&diagnostic);
    const bool reached = !fail_is_pending();
    fail_allocation(0);
    assert_int_equal(live_blocks(), before);
    if (!reached) {
      assert_int_equal(status, ITG_OK);
      break;
    }
    assert_int_equal(status, ITG_ERROR_MEMORY);
    assert_int_equal(diagnostic.status, ITG_ERROR_MEMORY);
  }
  assert_true(number > 10);
}

static void every_failure_of_opening_is_clean(void **state) {
  (void)state;
  uint8_t *unaligned = malloc(size + 65); // Its copy is one more allocation that may fail.
  uint8_t *odd = unaligned + 64 - (uintptr_t)unaligned % 64 + 1;
  memcpy(odd, bytes, size);
  const long before = live_blocks();
  long number = 1;
  for (;; number++) {
    itg_diagnostic diagnostic = {0};
    fail_allocation(number);
    const itg_status status = run_once(&diagnostic, odd);
    const bool reached = !fail_is_pending();
    fail_allocation(0);
    assert_int_equal(live_blocks(), before);
    if (!reached) {
      assert_int_equal(status, ITG_OK);
      break;
    }
    assert_int_equal(status, ITG_ERROR_MEMORY);
    assert_int_equal(diagnostic.status, ITG_ERROR_MEMORY);
  }
  assert_true(number > 20);
  free(unaligned);
}

static void running_allocates_nothing(void **state) {
  (void)state;
  itg_model *model = NULL;
  assert_int_equal(itg_model_open_memory(bytes, size, NULL, &model), ITG_OK);
  for (int threads = 1; threads <= 2; threads++) {
    itg_session *session = NULL;
    itg_session_options options;
    itg_session_options_default(&options);
    options.thread_count = threads;
    assert_int_equal(itg_session_create(model, &options, NULL, &session), ITG_OK);
    const long before = allocation_count();
    for (int i = 0; i < 10; i++) {
      float image[108] = {0}, code[5];
      image[i] = 1;
      assert_int_equal(itg_session_set_input(session, 0, image, 108, NULL), ITG_OK);
      assert_int_equal(itg_session_run(session, NULL), ITG_OK);
      assert_int_equal(itg_session_get_output(session, 0, code, 5, NULL), ITG_OK);
    }
    assert_int_equal(allocation_count(), before);
    itg_session_destroy(session);
  }
  itg_model_close(model);
}

static void sessions_share_packed_weights(void **state) {
  (void)state;
  itg_model *model = NULL;
  itg_session *first = NULL, *second = NULL;
  assert_int_equal(itg_model_open_memory(bytes, size, NULL, &model), ITG_OK);
  const long opened = live_blocks();
  assert_int_equal(itg_session_create(model, NULL, NULL, &first), ITG_OK);
  const long after_first = live_blocks();
  assert_int_equal(itg_session_create(model, NULL, NULL, &second), ITG_OK);
  assert_true(live_blocks() - after_first < after_first - opened); // No second plan, no second packing.
  itg_session_destroy(first);
  itg_session_destroy(second);
  itg_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_failure_of_writing_is_clean),
      cmocka_unit_test(every_failure_of_opening_is_clean),
      cmocka_unit_test(running_allocates_nothing),
      cmocka_unit_test(sessions_share_packed_weights),
  };
  return cmocka_run_group_tests(tests, make_file, free_file);
}
