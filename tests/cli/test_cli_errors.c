// The command from end to end: everything that goes wrong, with its exit code, its message and what it leaves behind.
#include <math.h>
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

// An output under the name of something that is read would destroy it, by whatever road the name leads there.
static void test_outputs_that_would_destroy_inputs(void **state) {
  (void)state;
  write_model("keep.onnx", 16, NULL);
  assert_int_equal(symlink("keep.onnx", "keep-link"), 0);
  assert_int_equal(link("keep.onnx", "keep-twin"), 0);
  onnx_write_file("notes.txt", "hello", 5);
  static const char *const lines[] = {
      "compile keep.onnx -o keep.onnx -c x=a.npy",
      "compile keep.onnx -o keep-link -c x=a.npy",
      "compile keep.onnx -o keep-twin -c x=a.npy",
      "compile keep.onnx -o a.npy -c x=a.npy",
      "compile keep.onnx -o ./a.npy -c x=a.npy",
      "compile keep.onnx -o notes.txt -c x=a.npy",
      "compile keep.onnx -o x.itg --report keep.onnx -c x=a.npy",
      "compile keep.onnx -o x.itg --report x.itg -c x=a.npy",
      "compile keep.onnx -o x.itg --report ./x.itg -c x=a.npy",
      "compare m.itg --float keep.onnx --data x=a.npy --report keep.onnx",
      "compare m.itg --float keep.onnx --data x=a.npy --report m.itg",
      "run m.itg --samples --input a.npy --output a.npy",
      "run m.itg --samples --input x=a.npy --output y=a.npy",
      "run m.itg --samples --input a.npy --output m.itg",
  };
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    if (command(lines[i]) != 2) fail_msg("not refused: %s", lines[i]);
    assert_says("choose another name");
  }
  assert_int_equal(mkdir("folder", 0777), 0);
  write_samples("folder/y.npy", 8, 16, 3);
  assert_int_equal(command("run m.itg --samples --input folder/y.npy --output-dir folder"), 2);
  assert_says("folder/y.npy");
  assert_int_equal(command("inspect keep.onnx"), 0);
  assert_int_equal(command("compile keep.onnx -o x.itg -c x=a.npy -q"), 0); // Everything is as it was.
  assert_int_equal(command("compile keep.onnx -o x.itg -c x=a.npy -q"), 0); // A compiled file gives way.
  assert_int_equal(unlink("x.itg"), 0);
}

static void test_links_as_outputs(void **state) {
  (void)state;
  assert_int_equal(command("compile m.onnx -o target.itg -c a.npy -q"), 0);
  assert_int_equal(symlink("target.itg", "link.itg"), 0);
  assert_int_equal(symlink("nowhere.itg", "dangling.itg"), 0);
  assert_int_equal(command("compile m.onnx -o link.itg -c a.npy -q --precision a16w8"), 0);
  struct stat info;
  assert_int_equal(lstat("link.itg", &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  assert_int_equal(lstat("target.itg", &info), 0);
  assert_true(S_ISREG(info.st_mode));
  assert_int_equal(command("inspect target.itg"), 0);
  assert_non_null(strstr(command_stdout, "a16w8"));
  assert_int_equal(command("compile m.onnx -o dangling.itg -c a.npy -q"), 3);
  assert_says("leads nowhere");
  assert_int_equal(lstat("dangling.itg", &info), 0);
  assert_false(exists("nowhere.itg"));
  assert_int_equal(count_files(".tmp-"), 0);
}

// A pipe that nobody writes to must not hold the command up.
static void test_pipes_as_inputs(void **state) {
  (void)state;
  assert_int_equal(mkfifo("pipe", 0666), 0);
  static const char *const lines[] = {"inspect pipe",
                                      "bench pipe",
                                      "run pipe --input a.npy",
                                      "compile pipe -o x.itg -c a.npy",
                                      "compare pipe --float m.onnx --data a.npy",
                                      "compare m.itg --float pipe --data a.npy",
                                      "compile m.onnx -o x.itg -c x=pipe",
                                      "compile m.onnx -o x.itg -c pipe --preprocess raw-255",
                                      "compile m.onnx -o x.itg -c a.npy --recipe pipe",
                                      "run m.itg --input a.npy --preprocess ./pipe"};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    const pid_t child = start_command(lines[i], "stdout.txt");
    for (int wait = 0; wait < 1000 && kill(child, 0) == 0; wait++) {
      siginfo_t ended = {0};
      if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == child) break;
      usleep(10000);
    }
    kill(child, SIGKILL);
    if (finish_command(child) != 3) fail_msg("%s: %s", lines[i], command_stderr);
    assert_says("not a regular file");
  }
}

// What is not done for language models is refused, not ignored.
static void test_language_options(void **state) {
  (void)state;
  write_text("tiny.gguf", "GGUF");
  static const char *const options[] = {"--target qcs6490", "--report r.html", "--ablate", "--split", "--kind image"};
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    char line[160];
    snprintf(line, sizeof line, "compile tiny.gguf -o x.itg -c a.npy %s", options[i]);
    assert_int_equal(command(line), 2);
    assert_says("is not available for language models");
  }
  assert_int_equal(command("compile tiny.gguf -o x.itg -c a.npy"), 4); // Cut off behind its first four bytes.
  assert_false(exists("x.itg"));
}

static void test_raw_inputs(void **state) {
  (void)state;
  static float values[3 * 16 * 16];
  onnx_write_file("v.raw", values, sizeof values);
  onnx_write_file("short.raw", values, sizeof values - 4);
  assert_int_equal(command("run m.itg --input v.raw"), 0);
  assert_int_equal(command("run m.itg --input x=v.raw --input x=v.raw"), 2);
  assert_says("given twice");
  assert_int_equal(command("run m.itg --input short.raw"), 5);
  assert_says("3072");
}

// Nothing can be judged where the float model itself gives no numbers; the measures must not call it perfect.
static void test_samples_without_numbers(void **state) {
  (void)state;
  static float values[4 * 3 * 16 * 16];
  const itg_shape shape = {4, {4, 3, 16, 16}};
  static const float bad[] = {NAN, INFINITY};
  for (size_t i = 0; i < 2; i++) {
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) values[k] = bad[i];
    assert_int_equal(itg_npy_write("bad.npy", ITG_DTYPE_F32, &shape, values, NULL), ITG_OK);
    assert_int_equal(command("compile m.onnx -o x.itg -c x=a.npy --judge x=bad.npy"), 1);
    assert_says("sample 0 (row 0)");
    assert_false(exists("x.itg"));
    assert_int_equal(command("compile m.onnx -o x.itg -c x=bad.npy"), 1);
    assert_int_equal(command("compare m.itg --float m.onnx --data x=bad.npy --min-cosine 0.9"), 1);
    assert_says("nothing can be judged");
  }
}

static void test_options_that_contradict(void **state) {
  (void)state;
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --split --limit 1"), 2);
  assert_says("two samples");
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --shape x=1x3x16x16 --shape x=1x3x16x16"), 2);
  assert_says("twice");
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --judge no-such-folder"), 3);
  assert_says("no-such-folder");
  assert_false(exists("x.itg"));
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
    if (code == 1000 + SIGINT)
      code =
          130; // Before main had begun, which a busy machine may put off; what is left behind is checked all the same.
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

// Messages say in which file, what was declared, and which option or variable is meant.
static void test_messages_name_what_is_meant(void **state) {
  (void)state;
  write_text("empty.json", "");
  write_text("half.json", "{");
  write_text("short.onnx", "\x08");
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --recipe empty.json"), 4);
  assert_says("empty.json");
  assert_says("it is empty");
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --recipe half.json"), 4);
  assert_says("half.json");
  assert_int_equal(command("compile m.onnx -o x.itg -c . --preprocess empty.json"), 4);
  assert_says("it is empty");
  assert_int_equal(command("inspect short.onnx"), 4);
  assert_says("short.onnx");
  assert_int_equal(system("head -c 900 m.itg > cut.itg"), 0);
  assert_int_equal(command("inspect cut.itg"), 4);
  assert_says("cut.itg, byte");
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --shape x=1x3x64x64"), 5);
  assert_says("1x3x16x16");
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --target ,"), 2);
  assert_says("--threads");
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --qnn-dir ."), 2);
  assert_says("--target");
  assert_int_equal(command("compile m.onnx -o x.itg -c a.npy --budget cost=1.2"), 2);
  assert_says("mixed");
  assert_int_equal(command("bench m.itg --backend qnn --npu-performance warp"), 2);
  assert_says("power-saver");
  static const char *const of_npu[] = {"bench m.itg --proof", "bench m.itg --target qcs6490",
                                       "bench m.itg --npu-performance burst",
                                       "run m.itg --input a.npy --samples --target qcs6490 --output y.npy",
                                       "compare m.itg --float m.onnx --data a.npy --qnn-dir ."};
  for (size_t i = 0; i < sizeof of_npu / sizeof of_npu[0]; i++) {
    assert_int_equal(command(of_npu[i]), 2);
    assert_says("--backend qnn");
  }
  assert_int_equal(setenv("INTAGLIO_CPU", "z80", 1), 0);
  assert_int_equal(command("bench m.itg"), 2);
  assert_says("INTAGLIO_CPU");
  assert_says("z80");
  unsetenv("INTAGLIO_CPU");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_messages_name_what_is_meant),
      cmocka_unit_test(test_missing_files),
      cmocka_unit_test(test_garbage_models),
      cmocka_unit_test(test_truncated_models),
      cmocka_unit_test(test_folders),
      cmocka_unit_test(test_wrong_arrays),
      cmocka_unit_test(test_outputs_that_cannot_be_written),
      cmocka_unit_test(test_outputs_that_would_destroy_inputs),
      cmocka_unit_test(test_links_as_outputs),
      cmocka_unit_test(test_pipes_as_inputs),
      cmocka_unit_test(test_language_options),
      cmocka_unit_test(test_raw_inputs),
      cmocka_unit_test(test_samples_without_numbers),
      cmocka_unit_test(test_options_that_contradict),
      cmocka_unit_test(test_interrupt),
  };
  return cmocka_run_group_tests(tests, prepare, leave_work_folder);
}
