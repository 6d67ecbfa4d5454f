// Memory of the ONNX import: every allocation may fail; the call then says so and leaks nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "faults/fail_allocation.h"

#include "import/import.h"
#include "support/onnx_bytes.h"

enum { FLOAT = 1, INT64 = 7 };

static onnx_bytes model;

// Unsorted nodes, folded shape arithmetic, typed data, an operation that is decomposed, and one that is not supported when
// `problem`.
static onnx_bytes make_model(bool problem) {
  const int64_t one = 1;
  onnx_bytes graph = {0}, typed = onnx_tensor_head("last", INT64, 1, &one),
             split = onnx_node("Split", NULL, "x", "a,b");
  onnx_message(&graph, 11, onnx_value("x", FLOAT, 3, (const int64_t[]){2, 4, 6}));
  onnx_message(&graph, 12, onnx_value("y", FLOAT, -1, NULL));
  onnx_message(&graph, 13, onnx_value("m", FLOAT, 3, (const int64_t[]){1, 4, 6}));
  onnx_int(&typed, 7, -1);
  onnx_message(&graph, 5, typed);
  onnx_message(&graph, 1, onnx_node("Reshape", NULL, "m,target", "y"));
  onnx_message(&graph, 1, onnx_node("Shape", NULL, "m", "s"));
  onnx_message(&graph, 1, onnx_node("Mul", NULL, "s,last", "n"));
  onnx_message(&graph, 1, onnx_node("Abs", NULL, "n", "target"));
  onnx_message(&graph, 1, onnx_node(problem ? "Frobnicate" : "Mean", NULL, "a,b,a", "m"));
  onnx_attribute_int(&split, "axis", 0);
  onnx_message(&graph, 1, split);
  return onnx_model(13, graph);
}

static itg_status import_once(itg_import_problems *problems, itg_diagnostic *diagnostic) {
  itg_graph *graph = NULL;
  const itg_status status = itg_import_onnx_memory(onnx_span(model), NULL, NULL, problems, diagnostic, &graph);
  itg_graph_destroy(graph);
  if (problems) {
    itg_arena_free(&problems->arena);
    *problems = (itg_import_problems){0};
  }
  return status;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  for (int problem = 0; problem < 2; problem++) {
    itg_import_problems problems = {0}, *list = problem ? &problems : NULL;
    itg_diagnostic diagnostic = {0};
    const itg_status expected = problem ? ITG_ERROR_UNSUPPORTED : ITG_OK;
    model = make_model(problem);
    if (import_once(list, &diagnostic) != expected) fail_msg("%s: %s", diagnostic.subject, diagnostic.message);
    const long live = live_blocks();
    long number = 1;
    for (;; number++) {
      fail_allocation(number);
      const itg_status status = import_once(list, &diagnostic);
      const bool unused = fail_is_pending();
      fail_allocation(0);
      assert_int_equal(live_blocks(), live);
      if (unused) {
        assert_int_equal(status, expected);
        break;
      }
      assert_int_equal(status, ITG_ERROR_MEMORY);
    }
    assert_true(number > 20);
    free(model.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
