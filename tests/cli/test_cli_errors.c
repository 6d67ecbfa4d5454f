// The command from end to end: everything that goes wrong, with its exit code, its message and what it leaves behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/command.h"

#define assert_says(part)                                                                       \
  do {                                                                                          \
    if (!strstr(command_stderr, part)) fail_msg("\"%s\" is not in:\n%s", part, command_stderr); \
  } while (0)

static int prepare(void **state) {
  if (enter_work_folder(state) != 0) return -1;
  write_model("m.onnx", 16, NULL);
  write_samples("a.npy", 8, 16, 3);
  write_samples("small.npy", 8, 8, 3);
  return command("compile m.onnx -o m.itg -c x=a.npy --quiet");
}

static void test_usage(void **state) {
  (void)state;
  assert_int_equal(command(""), 2);
  assert_int_equal(command("compil"), 2);
  assert_says("did you mean compile");
  assert_int_equal(command("zzzzzz"), 2);
  assert_says("--help");
  assert_int_equal(command("compile --calibratoin x m.onnx"), 2);
  assert_says("--calibration");
  assert_int_equal(command("compile m.onnx"), 2);
  assert_says("-o");
  assert_int_equal(command("compile m.onnx -o x.itg"), 2);
  assert_says("--calibration");
  assert_int_equal(command("compile m.onnx -o"), 2);
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --quiet=yes"), 2);
  assert_int_equal(command("compile m.onnx n.onnx -o x.itg -c a.npy"), 2);
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --threads many"), 2);
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --threads 0"), 2);
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --precision a3w2"), 2);
  assert_says("a8w8");
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --kind dogs"), 2);
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --shape x=1x-3"), 2);
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --split --judge a.npy"), 2);
  assert_int_equal(command("compile m.itg -o x.itg -c a.npy"), 2);
  assert_says("already compiled");
  assert_int_equal(command("run m.itg"), 2);
  assert_int_equal(command("run m.itg --input a.npy --samples --output wrong=y.npy"), 2);
  assert_says("\"y\"");
  assert_int_equal(command("bench m.itg --cpu abacus"), 2);
  assert_int_equal(count_files("x.itg"), 0);
}

static void test_missing_files(void **state) {
  (void)state;
  assert_int_equal(command("compile none.onnx -o x.itg -c a.npy"), 3);
  assert_says("none.onnx");
  assert_int_equal(command("inspect none.onnx"), 3);
  assert_int_equal(command("run none.itg --input a.npy"), 3);
  assert_int_equal(command("bench none.itg"), 3);
  assert_int_equal(command("compare none.itg --float m.onnx --data a.npy"), 3);
  assert_int_equal(command("compare m.itg --float none.onnx --data a.npy"), 3);
  assert_int_equal(command("compile m.onnx -o x.itg -c none.npy"), 3);
  assert_says("none.npy");
  assert_int_equal(command("compile m.onnx -o x.itg -c none-folder --preprocess raw-255"), 3);
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --recipe none.json"), 3);
  assert_int_equal(command("compile m.onnx -o x.itg -c . --kind face-recognition"), 3);
  assert_says("--face-models");
}

static void test_garbage_models(void **state) {
  (void)state;
  uint8_t garbage[3000];
  uint32_t seed = 9;
  for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (uint8_t)(onnx_random(&seed) * 127);
  onnx_write_file("garbage.onnx", garbage, sizeof garbage);
  onnx_write_file("empty.onnx", garbage, 0);
  static const char *const lines[] = {"inspect garbage.onnx", "compile garbage.onnx -o x.itg -c a.npy",
                                      "run garbage.onnx --input a.npy", "bench garbage.onnx", "inspect empty.onnx"};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    assert_int_equal(command(lines[i]), 4);
    assert_says("intaglio: ");
  }
  assert_false(exists("x.itg"));
}

static void test_truncated_models(void **state) {
  (void)state;
  const onnx_bytes model = onnx_small_embedder(16, NULL);
  for (size_t size = 1; size < model.size; size += model.size / 23) {
    onnx_write_file("cut.onnx", model.data, size);
    const int code = command("compile cut.onnx -o x.itg -c a.npy --quiet");
    assert_true(code == 4 || code == 5); // Cut between two fields, a model may be whole but lack its output.
    assert_false(exists("x.itg"));
  }
  free(model.data);
  static char whole[OUTPUT_LIMIT];
  struct stat info;
  read_text("m.itg", whole);
  assert_int_equal(stat("m.itg", &info), 0);
  for (off_t size = 4; size < info.st_size; size += info.st_size / 23) {
    onnx_write_file("cut.itg", whole, (size_t)size);
    assert_int_equal(command("run cut.itg --input a.npy --samples"), 4);
  }
}

static void test_folders(void **state) {
  (void)state;
  assert_int_equal(mkdir("none", 0777), 0);
  assert_int_equal(command("compile m.onnx -o x.itg -c none --preprocess raw-255"), 2);
  assert_says("none");
  assert_int_equal(mkdir("texts", 0777), 0);
  onnx_write_file("texts/notes.txt", "hello", 5);
  assert_int_equal(command("compile m.onnx -o x.itg -c texts --preprocess raw-255"), 2);
  assert_says("texts");
  assert_int_equal(mkdir("pictures", 0777), 0);
  onnx_write_file("pictures/broken.jpg", "this is no picture", 18);
  assert_int_equal(command("compile m.onnx -o x.itg -c pictures --preprocess raw-255"), 4);
  assert_says("broken.jpg");
  assert_int_equal(command("compile m.onnx -o x.itg -c pictures"), 2);
  assert_says("--preprocess");
  assert_int_equal(command("compile m.onnx -o x.itg -c pictures --preprocess sepia"), 2);
  assert_int_equal(command("compile m.onnx -o x.itg -c pictures -c a.npy --preprocess raw-255"), 2);
  assert_false(exists("x.itg"));
}

static void test_wrong_arrays(void **state) {
  (void)state;
  assert_int_equal(command("compile m.onnx -o x.itg -c x=small.npy"), 5);
  assert_says("8x3x8x8");
  assert_says("1x3x16x16");
  assert_int_equal(command("run m.itg --input x=small.npy --samples"), 5);
  assert_int_equal(command("compile m.onnx -o x.itg -c z=a.npy"), 2);
  assert_says("x");
  onnx_write_file("broken.npy", "\x93NUMPY\1\0garbage", 15);
  assert_int_equal(command("compile m.onnx -o x.itg -c broken.npy"), 4);
  assert_int_equal(command("compile m.onnx -o x.itg -c x=a.npy -c x=a.npy"), 2);
  assert_false(exists("x.itg"));
}

static void test_outputs_that_cannot_be_written(void **state) {
  (void)state;
  assert_int_equal(command("compile m.onnx -o no/such/folder/x.itg -c a.npy"), 3);
  assert_int_equal(command("compile m.onnx -o /dev/full -c a.npy"), 3);
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --report no/such/folder/x.html"), 3);
  assert_false(exists("x.itg"));
  assert_int_equal(command("run m.itg --samples --input a.npy --output no/such/y.npy"), 3);
  assert_int_equal(finish_command(start_command("inspect m.onnx", "/dev/full")), 3);
  assert_says("standard output");
  assert_int_equal(count_files(".tmp-"), 0);
}

// Interrupted at ever later moments until a run ends before its signal: no moment may leave anything behind.
static void test_interrupt(void **state) {
  (void)state;
  write_model("big.onnx", 64, NULL);
  write_samples("big.npy", 40, 64, 3);
  int interrupted = 0, code = 130;
  for (useconds_t delay = 15000; delay < 20000000 && code == 130; delay *= 2) {
    const pid_t child = start_command("compile big.onnx -o big.itg -c big.npy", "stdout.txt");
    usleep(delay);
    kill(child, SIGINT);
    code = finish_command(child);
    if (code == 1000 + SIGINT && interrupted == 0)
      code = 130; // Before main had begun.
    else if (code == 130)
      interrupted++;
    assert_true(code == 130 || code == 0);
    if (code == 130 && interrupted > 0) assert_says("interrupted");
    assert_int_equal(count_files(".tmp-"), 0);
    // The signal may come after the file was finished and before the end; then the file is whole.
    if (exists("big.itg") && code == 130) code = command("inspect big.itg");
  }
  assert_true(interrupted > 0);
  assert_int_equal(code, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_missing_files),
      cmocka_unit_test(test_garbage_models),
      cmocka_unit_test(test_truncated_models),
      cmocka_unit_test(test_folders),
      cmocka_unit_test(test_wrong_arrays),
      cmocka_unit_test(test_outputs_that_cannot_be_written),
      cmocka_unit_test(test_interrupt),
  };
  return cmocka_run_group_tests(tests, prepare, leave_work_folder);
}
