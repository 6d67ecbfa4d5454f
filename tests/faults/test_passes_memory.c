// Memory of cloning, rewriting and adapting graphs: every allocation may fail without harm or leak.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "faults/fail_allocation.h"

#include "adapt/adapt.h"
#include "passes/passes.h"
#include "support/random_graph.h"

static itg_status rewrite_once(const itg_graph *graph, itg_diagnostic *diagnostic) {
  itg_graph *copy = NULL;
  itg_status status = itg_graph_clone(graph, diagnostic, &copy);
  if (status == ITG_OK) status = itg_passes_run(copy, NULL, NULL, diagnostic);
  if (status == ITG_OK) status = itg_adapt_run(copy, NULL, diagnostic);
  itg_graph_destroy(copy);
  return status;
}

static void every_failure_of_rewriting_is_clean(void **state) {
  (void)state;
  for (int i = 0; i < 40; i++) {
    random_state = (uint64_t)i * 7919 + 11;
    itg_graph *graph = random_graph(14);
    const long before = live_blocks();
    bool reached = true;
    for (long number = 1; reached; number++) {
      itg_diagnostic diagnostic = {0};
      fail_allocation(number);
      const itg_status status = rewrite_once(graph, &diagnostic);
      reached = !fail_is_pending();
      fail_allocation(0);
      assert_int_equal(live_blocks(), before);
      assert_int_equal(status, reached ? ITG_ERROR_MEMORY : ITG_OK);
      if (reached) assert_int_equal(diagnostic.status, ITG_ERROR_MEMORY);
    }
    itg_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_failure_of_rewriting_is_clean)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
