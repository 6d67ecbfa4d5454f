// The command from end to end on a small model: what must work.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/command.h"

#define assert_contains(text, part)                                                         \
  do {                                                                                      \
    if (!strstr(text, part)) fail_msg("\"%s\" is not in:\n%s", part, (const char *)(text)); \
  } while (0)

static int prepare(void **state) {
  if (enter_work_folder(state) != 0) return -1;
  write_model("m.onnx", 16, NULL);
  write_samples("a.npy", 24, 16, 3);
  write_samples("b.npy", 9, 16, 4);
  return command("compile m.onnx -o m.itg --calibration x=a.npy --judge x=b.npy --report m.html");
}

static void test_help(void **state) {
  (void)state;
  static const char *const names[] = {"compile", "run", "compare", "inspect", "bench", "export", "doctor", "version"};
  assert_int_equal(command("--help"), 0);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) assert_contains(command_stdout, names[i]);
  assert_contains(command_stdout, "exit codes");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char line[64];
    snprintf(line, sizeof line, "%s --help", names[i]);
    assert_int_equal(command(line), 0);
    assert_contains(command_stdout, "usage: intaglio");
    assert_contains(command_stdout, "--help");
    assert_string_equal(command_stderr, "");
  }
  assert_int_equal(command("--man"), 0);
  assert_contains(command_stdout, ".TH INTAGLIO 1");
  assert_contains(command_stdout, "allow\\-collapse");
  assert_int_equal(command("--completion"), 0);
  assert_contains(command_stdout, "--calibration");
  assert_int_equal(command("doctor"), 0);
  assert_int_equal(command("--version"), 0);
  assert_contains(command_stdout, "intaglio ");
}

static void test_doctor(void **state) {
  (void)state;
  assert_int_equal(mkdir("tree", 0755) | mkdir("tree/proc", 0755) | mkdir("tree/proc/device-tree", 0755), 0);
  write_text("tree/proc/device-tree/compatible", "radxa,dragon-q6a qcom,qcs6490");
  assert_int_equal(command("doctor --root tree"), 0);
  assert_contains(command_stdout, "--target qcs6490");
  assert_contains(command_stdout, "missing FastRPC node");
  assert_contains(command_stdout, "The NPU cannot be used yet");
  assert_int_equal(command("doctor --root none"), 3);
  assert_contains(command_stderr, "none");
  assert_int_equal(command("doctor --root m.onnx"), 3);
  assert_int_equal(command("doctor --root tree --json"), 0);
  assert_contains(command_stdout, "\"target\": \"qcs6490\"");
  // A folder below a user's own must not name the user in a file that is sent away.
  assert_int_equal(command("doctor --root tree --qnn-dir /home/alice/qnn --report doctor.txt"), 0);
  static char report[OUTPUT_LIMIT];
  read_text("doctor.txt", report);
  assert_contains(report, "\"next_step\"");
  assert_null(strstr(report, "alice"));
  assert_int_equal(command("doctor --qnn-dir /home/alice/qnn --json"), 0);
  assert_null(strstr(command_stdout, "alice"));
}

static void test_export(void **state) {
  (void)state;
  assert_int_equal(command("export m.itg --qdq q.onnx"), 0);
  assert_contains(command_stdout, "wrote q.onnx");
  // What we write, we read: the importer folds the pairs back into encodings.
  assert_int_equal(command("compile q.onnx -o q.itg -c x=a.npy --judge x=b.npy --quiet"), 0);
  assert_int_equal(command("export m.itg"), 2);
  assert_contains(command_stderr, "nothing to export");
  assert_int_equal(command("export m.itg --qdq q2.onnx --target qcs6490"), 2);
  assert_int_equal(command("export m.itg --qdq m.itg"), 2);
  assert_contains(command_stderr, "would overwrite");
  assert_int_equal(command("export m.itg --epcontext c.onnx"), 7);
  assert_contains(command_stderr, "compile the model with --target");
  assert_false(exists("c.onnx"));
}

static void test_compile_output(void **state) {
  (void)state;
  assert_true(exists("m.itg") && exists("m.html"));
  assert_int_equal(count_files(".tmp-"), 0);
  static char page[OUTPUT_LIMIT];
  read_text("m.html", page);
  assert_contains(page, "</html>");
  assert_contains(page, "<svg");
}

static void test_compile_is_deterministic(void **state) {
  (void)state;
  static char first[OUTPUT_LIMIT], second[OUTPUT_LIMIT];
  struct stat a, b;
  assert_int_equal(command("compile m.onnx -o again.itg -c x=a.npy --judge x=b.npy --threads 1 --quiet"), 0);
  assert_string_equal(command_stdout, "");
  assert_string_equal(command_stderr, "");
  assert_true(stat("m.itg", &a) == 0 && stat("again.itg", &b) == 0 && a.st_size == b.st_size);
  read_text("m.itg", first);
  read_text("again.itg", second);
  assert_memory_equal(first, second, (size_t)a.st_size);
}

static void test_compile_json(void **state) {
  (void)state;
  assert_int_equal(command("compile m.onnx -o j.itg -c a.npy --split --json --quiet"), 0);
  json_t *root = json_loads(command_stdout, 0, NULL);
  assert_non_null(root);
  assert_int_equal(json_integer_value(json_object_get(root, "calibration_samples")), 12);
  json_t *accuracy = json_object_get(root, "accuracy");
  assert_string_equal(json_string_value(json_object_get(accuracy, "judged_on")), "held-out");
  assert_int_equal(json_integer_value(json_object_get(accuracy, "samples")), 12);
  json_t *output = json_array_get(json_object_get(accuracy, "outputs"), 0);
  assert_true(json_real_value(json_object_get(output, "cosine_mean")) > 0.98);
  assert_true(json_array_size(json_object_get(root, "layers")) > 3);
  json_decref(root);
  assert_int_equal(command("compile m.onnx -o j.itg -c a.npy --json --quiet"), 0);
  assert_contains(command_stdout, "\"judged_on\": \"calibration\"");
}

static void test_dump(void **state) {
  (void)state;
  assert_int_equal(command("compile m.onnx -o d.itg -c a.npy --quiet --dump-after legalize"), 0);
  assert_contains(command_stdout, "# after legalize");
  assert_contains(command_stdout, "QConv");
  assert_int_equal(command("compile m.onnx -o d2.itg -c a.npy --quiet --dump-after nothing-like-this"), 2);
  assert_contains(command_stderr, "quantize");
  assert_false(exists("d2.itg"));
}

static void test_precisions(void **state) {
  (void)state;
  double cosine[2];
  static const char *const names[] = {"a8w8", "a16w8"};
  for (int i = 0; i < 2; i++) {
    char line[128];
    snprintf(line, sizeof line, "compile m.onnx -o p.itg -c a.npy --judge b.npy -p %s --json --quiet", names[i]);
    assert_int_equal(command(line), 0);
    json_t *root = json_loads(command_stdout, 0, NULL);
    json_t *outputs = json_object_get(json_object_get(root, "accuracy"), "outputs");
    cosine[i] = json_real_value(json_object_get(json_array_get(outputs, 0), "cosine_mean"));
    json_decref(root);
  }
  assert_true(cosine[1] > cosine[0]); // 16 bits are nearer to float.
}

static void test_run(void **state) {
  (void)state;
  itg_npy integer, real, codes;
  assert_int_equal(command("run m.itg --samples --input x=b.npy --output y=y.npy"), 0);
  assert_int_equal(command("run m.onnx --samples --input x=b.npy --output y=f.npy"), 0);
  for (int k = 0; k < 2; k++) // The folder is made, or taken as it is.
    assert_int_equal(command("run m.itg --samples --codes --input b.npy --output-dir codes"), 0);
  assert_int_equal(command("run m.itg --samples --input b.npy --output-dir none/codes"), 3);
  assert_contains(command_stderr, "none/codes");
  assert_int_equal(itg_npy_open("y.npy", NULL, &integer), ITG_OK);
  assert_int_equal(itg_npy_open("f.npy", NULL, &real), ITG_OK);
  assert_int_equal(itg_npy_open("codes/y.npy", NULL, &codes), ITG_OK);
  assert_int_equal(integer.shape.rank, 2);
  assert_int_equal(integer.shape.dims[0], 9);
  assert_int_equal(integer.shape.dims[1], 16);
  assert_true(codes.dtype == ITG_DTYPE_U8 || codes.dtype == ITG_DTYPE_U16);
  float a[9 * 16], b[9 * 16];
  double dot = 0, x = 0, y = 0;
  assert_int_equal(itg_npy_floats(&integer, 0, 9 * 16, NULL, a), ITG_OK);
  assert_int_equal(itg_npy_floats(&real, 0, 9 * 16, NULL, b), ITG_OK);
  for (int i = 0; i < 9 * 16; i++) {
    dot += (double)a[i] * b[i];
    x += (double)a[i] * a[i];
    y += (double)b[i] * b[i];
  }
  assert_true(dot * dot > 0.97 * x * y);
  itg_npy_close(&integer);
  itg_npy_close(&real);
  itg_npy_close(&codes);
  assert_int_equal(command("run m.onnx --codes --input b.npy --samples"), 2);
  assert_int_equal(command("run m.itg --input b.npy"), 2); // Nine rows without --samples.
  assert_contains(command_stderr, "--samples");
}

static void test_run_raw(void **state) {
  (void)state;
  float values[3 * 16 * 16] = {0.5f};
  onnx_write_file("x.raw", values, sizeof values);
  assert_int_equal(command("run m.itg --input x=x.raw --output y.npy"), 0);
  itg_npy npy;
  assert_int_equal(itg_npy_open("y.npy", NULL, &npy), ITG_OK);
  assert_int_equal(npy.count, 16);
  itg_npy_close(&npy);
  onnx_write_file("x.raw", values, sizeof values - 4);
  assert_int_equal(command("run m.itg --input x=x.raw"), 5);
  assert_contains(command_stderr, "3072");
}

static void test_compare(void **state) {
  (void)state;
  assert_int_equal(command("compare m.itg --float m.onnx --data x=b.npy --report c.html"), 0);
  assert_contains(command_stdout, "cosine");
  assert_true(exists("c.html"));
  assert_int_equal(command("compare m.itg --float m.onnx --data x=b.npy --min-cosine 1"), 1);
  assert_int_equal(command("compare m.itg --float m.onnx --data x=b.npy --json --quiet"), 0);
  json_t *root = json_loads(command_stdout, 0, NULL);
  assert_non_null(root);
  json_decref(root);
  assert_int_equal(command("compare m.itg --float m.onnx --data x=b.npy --ablate"), 0);
  assert_non_null(strstr(command_stdout, "bias-correction"));
  assert_int_equal(command("compare m.itg --float m.onnx --data x=b.npy --ablate --calibration x=a.npy"), 0);
  assert_int_equal(command("compare m.itg --float m.onnx --data x=b.npy --calibration x=a.npy"), 2);
  write_model("other.onnx", 8, NULL);
  write_samples("other.npy", 4, 8, 5);
  assert_int_equal(command("compare m.itg --float other.onnx --data x=other.npy"), 5);
  assert_contains(command_stderr, "1x3x16x16");
}

// The report is a page that a browser reads: every chart is there, and nothing of it is broken.
static void test_report_in_a_browser(void **state) {
  (void)state;
  assert_int_equal(command("compile m.onnx -o r.itg -c x=a.npy --judge x=b.npy --ablate --report r.html --quiet"), 0);
  if (system("command -v chromium >/dev/null 2>&1") != 0) {
    print_message("the page was not opened: no chromium\n");
    return;
  }
  assert_int_equal(system("timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir=browser "
                          "--dump-dom file://$PWD/r.html >dom.html 2>/dev/null"),
                   0);
  static char dom[4 << 20];
  FILE *file = fopen("dom.html", "r");
  assert_non_null(file);
  dom[fread(dom, 1, sizeof dom - 1, file)] = '\0';
  fclose(file);
  static const char *const parts[] = {"Where it was lost", "What each method bought", "bias-correction",
                                      "share of the loss", "worst samples",           "</html>"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) assert_contains(dom, parts[i]);
  assert_null(strstr(dom, "nan")); // A number that does not exist is no coordinate.
  assert_int_equal(system("rm -rf browser"), 0);
}

static void test_inspect(void **state) {
  (void)state;
  assert_int_equal(command("inspect m.onnx"), 0);
  assert_contains(command_stdout, "Conv");
  assert_contains(command_stdout, "1x3x16x16");
  assert_int_equal(command("inspect m.onnx --json"), 0);
  json_t *root = json_loads(command_stdout, 0, NULL);
  assert_int_equal(json_array_size(json_object_get(root, "unsupported")), 0);
  // conv1: 8*16*16*27; conv2: 8*8*8*72; Gemm: 16*8.
  assert_int_equal(json_integer_value(json_object_get(root, "multiply_accumulates")), 8 * 256 * 27 + 8 * 64 * 72 + 128);
  json_decref(root);
  assert_int_equal(command("inspect m.itg --steps"), 0);
  assert_contains(command_stdout, "  judged on held-out, samples ");
  assert_contains(command_stdout, "cosine mean 0.9");
  assert_null(strchr(command_stdout, '{')); // Records are lines for people; --json is for programs.
  assert_contains(command_stdout, "QConv");
  assert_contains(command_stdout, "provenance");
  assert_int_equal(command("inspect m.itg --json"), 0);
  root = json_loads(command_stdout, 0, NULL);
  assert_string_equal(
      json_string_value(json_object_get(json_object_get(json_object_get(root, "provenance"), "source"), "name")),
      "m.onnx");
  assert_non_null(json_object_get(root, "accuracy"));
  json_decref(root);
}

static void test_inspect_unsupported(void **state) {
  (void)state;
  write_model("odd.onnx", 16, "FancyOperation");
  assert_int_equal(command("inspect odd.onnx"), 5);
  assert_contains(command_stdout, "odd one");
  assert_contains(command_stdout, "FancyOperation");
  assert_int_equal(command("inspect odd.onnx --json"), 5);
  json_t *root = json_loads(command_stdout, 0, NULL);
  assert_int_equal(json_array_size(json_object_get(root, "unsupported")), 1);
  json_decref(root);
  assert_int_equal(command("compile odd.onnx -o odd.itg -c a.npy"), 5);
  assert_contains(command_stderr, "odd one");
}

static void test_bench(void **state) {
  (void)state;
  assert_int_equal(command("bench m.itg --runs 5 --layers --threads 1"), 0);
  assert_contains(command_stdout, "median");
  assert_contains(command_stdout, "QConv");
  assert_int_equal(command("bench m.itg --runs 5 --json --layers"), 0);
  json_t *root = json_loads(command_stdout, 0, NULL);
  assert_true(json_real_value(json_object_get(json_object_get(root, "milliseconds"), "min")) > 0);
  json_decref(root);
  assert_int_equal(command("bench m.onnx --runs 2"), 0);
  assert_int_equal(command("bench m.onnx --runs 2 --layers"), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_help),
      cmocka_unit_test(test_doctor),
      cmocka_unit_test(test_compile_output),
      cmocka_unit_test(test_export),
      cmocka_unit_test(test_compile_is_deterministic),
      cmocka_unit_test(test_compile_json),
      cmocka_unit_test(test_dump),
      cmocka_unit_test(test_precisions),
      cmocka_unit_test(test_run),
      cmocka_unit_test(test_run_raw),
      cmocka_unit_test(test_compare),
      cmocka_unit_test(test_report_in_a_browser),
      cmocka_unit_test(test_inspect),
      cmocka_unit_test(test_inspect_unsupported),
      cmocka_unit_test(test_bench),
  };
  return cmocka_run_group_tests(tests, prepare, leave_work_folder);
}
