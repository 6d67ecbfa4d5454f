// Every version of the vendor's library that is there, as a user meets them: compile for three chips, run, and take contexts
// from one version to another. Each run is a process of its own, since two versions in one would share symbols.
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/command.h"
#include "support/oracle.h"

enum { MAX_VERSIONS = 8, SIDE = 16 };
static char versions[MAX_VERSIONS][512]; // Folders, oldest first; "" stands for the one that is found by itself.
static size_t version_count;

static void find_versions(void) {
  char pattern[2200];
  glob_t found = {0};
  snprintf(pattern, sizeof pattern, "%s/../qnn/*/onnxruntime_qnn", oracle_models());
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && version_count + 1 < MAX_VERSIONS; i++)
      snprintf(versions[version_count++], sizeof versions[0], "%s", found.gl_pathv[i]);
  }
  globfree(&found);
  versions[version_count++][0] = 0;
}

static int with_version(const char *line, size_t version) {
  char whole[5000];
  snprintf(whole, sizeof whole, "%s%s%s", line, versions[version][0] ? " --qnn-dir " : "", versions[version]);
  return command(whole);
}

static size_t read_bytes(const char *path, char *bytes) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t size = fread(bytes, 1, OUTPUT_LIMIT, file);
  fclose(file);
  return size;
}

static void every_version_compiles_and_runs(void **state) {
  (void)state;
  static const char *const chips[] = {"qcs6490", "sm8550", "sm8750"};
  for (size_t v = 0; v < version_count; v++) {
    char line[256];
    snprintf(line, sizeof line, "compile m.onnx -o v%zu.itg -c x=a.npy --target %s,%s,%s --allow-collapse --quiet", v,
             chips[0], chips[1], chips[2]);
    if (with_version(line, v) != 0) fail_msg("%s: %s", versions[v], command_stderr);
    for (size_t c = 0; c < 3; c++) {
      static char first[OUTPUT_LIMIT], other[OUTPUT_LIMIT];
      snprintf(line, sizeof line, "run v%zu.itg --input x=one.npy --output y=y%zu.npy --backend qnn --target %s", v, v,
               chips[c]);
      if (with_version(line, v) != 0) fail_msg("%s on %s: %s", chips[c], versions[v], command_stderr);
      if (v == 0) continue;
      // The chip's arithmetic does not depend on the version of the library that simulates it.
      char names[2][32];
      snprintf(line, sizeof line, "run v0.itg --input x=one.npy --output y=y0.npy --backend qnn --target %s", chips[c]);
      assert_int_equal(with_version(line, 0), 0);
      snprintf(names[0], sizeof names[0], "y0.npy");
      snprintf(names[1], sizeof names[1], "y%zu.npy", v);
      const size_t size = read_bytes(names[0], first);
      assert_int_equal(read_bytes(names[1], other), size);
      assert_memory_equal(first, other, size);
    }
  }
  print_message("%zu versions of the library, three chips each\n", version_count);
}

static void contexts_go_to_newer_libraries_only(void **state) {
  (void)state;
  const size_t newest = version_count - 1;
  assert_int_equal(with_version("run v0.itg --input x=one.npy --output y=y.npy --backend qnn --target qcs6490", newest),
                   0);
  char line[160];
  snprintf(line, sizeof line, "run v%zu.itg --input x=one.npy --output y=z.npy --backend qnn --target qcs6490", newest);
  assert_int_not_equal(with_version(line, 0), 0);
  assert_non_null(strstr(command_stderr, "the context was made with core API 2."));
  assert_non_null(strstr(command_stderr, "--qnn-dir"));
  assert_false(oracle_exists("z.npy"));
}

int main(void) {
  find_versions();
  if (version_count < 2) {
    printf("skipped: only one version of the NPU library is there; ./setup check fetches the oldest\n");
    return 77;
  }
  if (!mkdtemp(work_folder) || chdir(work_folder) != 0) return 1;
  if (command("doctor") != 0 || !strstr(command_stdout, "ok      QNN library")) {
    printf("skipped: the NPU library cannot be opened\n");
    return 77;
  }
  onnx_bytes model = onnx_small_embedder(SIDE, NULL);
  onnx_write_file("m.onnx", model.data, model.size);
  free(model.data);
  write_samples("a.npy", 2, SIDE, 3);
  write_samples("one.npy", 1, SIDE, 4);
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_version_compiles_and_runs),
                                     cmocka_unit_test(contexts_go_to_newer_libraries_only)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char line[160];
  snprintf(line, sizeof line, "rm -rf '%s'", work_folder);
  return system(line) == 0 ? failed : 1;
}
