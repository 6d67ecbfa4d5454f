// intaglio compile: a float model and samples become a .itg.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "cli/language.h"
#include "cli/source.h"
#include "intaglio/compiler.h"

static const cli_option options[] = {
    {"output", 'o', "FILE", "the compiled file (.itg) to write"},
    {"calibration", 'c', "DIR|INPUT=FILE.npy",
     "samples that set the ranges: a folder of pictures, or a .npy file with one sample a row for each input; may be "
     "repeated"},
    {"judge", 0, "DIR|INPUT=FILE.npy",
     "other samples, on which the result is judged; without them (and without --split) the calibration samples are "
     "used, and the record says so"},
    {"split", 0, NULL, "every second calibration sample judges instead of calibrating"},
    CLI_OPTION_KIND,
    CLI_OPTION_PREPROCESS,
    CLI_OPTION_FACE_MODELS,
    CLI_OPTION_ALL_FACES,
    CLI_OPTION_TEXT_MODELS,
    CLI_OPTION_IDENTITIES,
    CLI_OPTION_LIMIT,
    CLI_OPTION_SHAPE,
    {"precision", 'p', "NAME",
     "a8w8 (8 bits), a8w8+s16 (8-bit compute, 16-bit stream; the default), a16w8 (16-bit activations), a16w4 (16-bit "
     "activations, 4-bit weights), mixed (16 bits where they matter most, within --budget)"},
    {"budget", 0, "cost=X|cosine=X",
     "for mixed: at most X times what a8w8 takes (default cost=1.3), or as cheap as possible with a mean cosine of X; "
     "of "
     "each four calibration samples the last then selects and does not calibrate"},
    {"recipe-out", 0, "FILE",
     "write the recipe that was used (JSON), also the one that mixed found, to edit and use again"},
    {"target", 0, "CHIP[,CHIP..]",
     "NPUs to prepare for (qcs6490, sm8550, sm8750, ..): the program follows their rules and the file holds a context "
     "for "
     "each; it still runs on any CPU"},
    CLI_OPTION_QNN_DIR,
    {"recipe", 0, "FILE", "a recipe (JSON) instead of the precision's built-in one"},
    {"weight-block", 0, "N",
     "language models at a16w4: weights that share a scale (LPBQ), 16, 32 (default) or 64; 0: a channel"},
    {"cache-bits", 0, "N", "language models: bits of cached keys and values, 8 (default) or 16"},
    {"context", 0, "N", "language models: positions that the caches hold (default 2048)"},
    {"sample-length", 0, "N", "language models: tokens of a window of calibration text (default 512)"},
    {"judge-limit", 0, "N", "language models: at most N windows or conversations judge (default 64)"},
    {"report", 0, "FILE.html", "write the accuracy report"},
    {"ablate", 0, NULL, "also measure what each method bought: builds the program once without each of them"},
    {"allow-collapse", 0, NULL, "write the file even when the result lost what the model could do"},
    {"dump-after", 0, "PASS", "print the graph after a pass (all, a pass, quantize, legalize) to standard output"},
    CLI_OPTION_THREADS,
    CLI_OPTION_JSON,
    CLI_OPTION_QUIET,
    CLI_OPTION_HELP,
};

typedef struct compile_run {
  const cli_arguments *arguments;
  itg_diagnostic diagnostic;
  const char **shapes, **calibration, **judge;
  char *target_names; // Copy of --target, cut at its commas.
  const char *targets[16];
  size_t calibration_count, judge_count;
  itg_compiler *compiler;
  cli_source source;
  cli_samples *calibration_samples, *judge_samples;
  cli_sample_view calibration_view, judge_view;
} compile_run;

static const itg_tensor_info *compiler_input(const void *compiler, size_t index) {
  return itg_compiler_input(compiler, index);
}

static void print_result(const compile_run *run, const itg_compile_result *result, const char *output) {
  const double mib = 1 << 20;
  cli_print_accuracy(stdout, result->outputs, result->output_count);
  cli_print_ablation(stdout, result->ablation, result->ablation_count);
  if (result->loss_summary[0]) printf("loss    %s\n", result->loss_summary);
  printf("judged on %zu %s samples, calibrated with %zu\n", result->judge_count,
         result->judged_on_calibration ? "calibration" : "other", result->calibration_count);
  printf("time    float %.2f ms (interpreter), integer %.2f ms; one thread each\n", result->float_milliseconds,
         result->integer_milliseconds);
  printf("size    float %.2f MiB, integer %.2f MiB; a session's activations %.2f MiB\n",
         (double)result->source_bytes / mib, (double)result->file_bytes / mib, (double)result->workspace_bytes / mib);
  printf("compile %.2f s (import %.2f, calibrate %.2f, quantize %.2f, judge %.2f), peak memory %.0f MiB\n",
         result->total_seconds, result->import_seconds, result->calibrate_seconds, result->quantize_seconds,
         result->judge_seconds, (double)result->peak_memory_bytes / mib);
  for (size_t i = 0; i < result->placement_count; i++) cli_print_placement(stdout, &result->placements[i]);
  const char *report = cli_get(run->arguments, "report");
  if (report) printf("report  %s\n", report);
  if (!result->file_bytes) return;
  printf("next    intaglio run %s", output);
  for (size_t i = 0; i < itg_compiler_input_count(run->compiler); i++)
    printf(" --input %s=FILE", itg_compiler_input(run->compiler, i)->name);
  printf(" --output-dir DIR\n        intaglio bench %s --layers\n", output);
}

static itg_status open_samples(compile_run *run, itg_compile_options *compile_options) {
  const cli_arguments *arguments = run->arguments;
  itg_diagnostic *diagnostic = &run->diagnostic;
  const bool split = cli_has(arguments, "split");
  const cli_inputs inputs = {run->compiler, itg_compiler_input_count(run->compiler), compiler_input};
  itg_status status = cli_source_open(arguments, inputs, arguments->positional[0], NULL, 0, run->calibration,
                                      run->calibration_count, diagnostic, &run->source);
  if (status == ITG_OK)
    status = cli_samples_open(run->calibration, run->calibration_count, &run->source.options, diagnostic,
                              &run->calibration_samples);
  if (status == ITG_OK && run->judge_count)
    status = cli_samples_open(run->judge, run->judge_count, &run->source.options, diagnostic, &run->judge_samples);
  if (status != ITG_OK) return status;
  if (split && cli_samples_view(run->calibration_samples, 1, 2, &run->judge_view).count == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "--split needs two samples or more: one calibrates, one judges");
  compile_options->calibration = cli_samples_view(run->calibration_samples, 0, split ? 2 : 1, &run->calibration_view);
  if (split) compile_options->judge = cli_samples_view(run->calibration_samples, 1, 2, &run->judge_view);
  if (run->judge_samples) compile_options->judge = cli_samples_view(run->judge_samples, 0, 1, &run->judge_view);
  compile_options->preprocessing = cli_source_preprocessing(&run->source);
  return ITG_OK;
}

static bool split_targets(compile_run *run, itg_compile_options *compile_options) {
  const char *given = cli_get(run->arguments, "target");
  if (!given) return true;
  run->target_names = strdup(given);
  if (!run->target_names) return false;
  char *rest = NULL;
  for (char *name = strtok_r(run->target_names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
    if (compile_options->target_count == sizeof run->targets / sizeof run->targets[0]) return false;
    run->targets[compile_options->target_count++] = name;
  }
  compile_options->targets = run->targets;
  return compile_options->target_count > 0;
}

static int compile(compile_run *run) {
  const cli_arguments *arguments = run->arguments;
  const char *output = cli_get(arguments, "output"), *model = arguments->positional[0];
  itg_compile_options compile_options;
  itg_compile_options_default(&compile_options);
  if (!cli_get_integer(arguments, "threads", 1, 1024, &compile_options.thread_count)) return CLI_USAGE;
  if (cli_has(arguments, "recipe") && cli_has(arguments, "precision"))
    return cli_usage_error("--recipe and --precision exclude each other: a recipe names its precision");
  if (cli_has(arguments, "budget") &&
      (!cli_has(arguments, "precision") || strcmp(cli_get(arguments, "precision"), "mixed")))
    return cli_usage_error("--budget belongs to --precision mixed");
  if (cli_has(arguments, "split") && run->judge_count) return cli_usage_error("--split and --judge exclude each other");
  if (cli_get(arguments, "precision")) compile_options.precision = cli_get(arguments, "precision");
  if (!split_targets(run, &compile_options))
    return cli_usage_error(
        "--target %s: give 1 to 16 names of chips, cut by commas (qcs6490,sm8550); a number of threads "
        "is --threads",
        cli_get(arguments, "target"));
  if (cli_has(arguments, "qnn-dir") && !cli_has(arguments, "target"))
    return cli_usage_error("--qnn-dir belongs to --target: without a chip nothing is prepared for an NPU");
  compile_options.qnn_directory = cli_get(arguments, "qnn-dir");
  compile_options.budget = cli_get(arguments, "budget");
  compile_options.recipe_output = cli_get(arguments, "recipe-out");
  compile_options.recipe = cli_get(arguments, "recipe");
  compile_options.report = cli_get(arguments, "report");
  compile_options.ablate = cli_has(arguments, "ablate");
  compile_options.allow_collapse = cli_has(arguments, "allow-collapse");
  compile_options.dump_after = cli_get(arguments, "dump-after");
  compile_options.dump = stdout;
  compile_options.progress = cli_progress_update;
  compile_options.progress_context = &run->source.progress;
  const itg_source_options source = cli_source_options(arguments, &run->shapes);
  itg_compile_result result = {0};
  if (itg_compiler_open(model, &source, &run->diagnostic, &run->compiler) != ITG_OK ||
      open_samples(run, &compile_options) != ITG_OK)
    return cli_fail(&run->diagnostic);
  const itg_status status = itg_compiler_compile(run->compiler, &compile_options, output, &run->diagnostic, &result);
  cli_progress_end(&run->source.progress);
  if (result.outputs && cli_has(arguments, "json"))
    printf("%s\n", result.json);
  else if (result.outputs && !(cli_has(arguments, "quiet") && status == ITG_OK))
    print_result(run, &result, output);
  const int written = cli_finish_output();
  if (status != ITG_OK) return cli_fail(&run->diagnostic);
  return written;
}

// Files that a model refers to (external data, pictures) are not among the arguments; none of them is a compiled file.
static bool is_other_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 && !cli_is_compiled(path);
}

static int run_compile(const cli_arguments *arguments) {
  if (!cli_get(arguments, "output")) return cli_usage_error("compile needs -o FILE.itg, the file to write");
  if (is_other_file(cli_get(arguments, "output")))
    return cli_usage_error("%s exists and is no compiled file; remove it first, or choose another name for -o",
                           cli_get(arguments, "output"));
  if (!cli_has(arguments, "calibration"))
    return cli_usage_error(
        "compile needs --calibration: a folder of pictures, INPUT=FILE.npy, or text or conversations for a "
        "language model; ranges of activations cannot be known without samples");
  if (itg_is_language_model(arguments->positional[0])) return cli_compile_language(arguments);
  compile_run run = {.arguments = arguments};
  run.calibration = cli_get_all(arguments, "calibration", &run.calibration_count);
  run.judge = cli_get_all(arguments, "judge", &run.judge_count);
  const int code = compile(&run);
  cli_samples_close(run.calibration_samples);
  cli_samples_close(run.judge_samples);
  cli_source_close(&run.source);
  itg_compiler_close(run.compiler);
  free(run.target_names);
  free(run.shapes);
  free(run.calibration);
  free(run.judge);
  return code;
}

const cli_command cli_compile = {
    .name = "compile",
    .arguments = "MODEL.onnx -o OUT.itg --calibration DATA [options]",
    .summary = "turn a float model into an integer program",
    .details =
        "Calibrates on real samples, quantizes, and judges the integer program against the float model on held-out "
        "samples. A result that collapsed (centred cosine below 0.5, or less than 70 % of the spread between samples "
        "kept) is refused with exit code 1 unless --allow-collapse is given.\n"
        "Pictures are read in the order of their names. With --kind face-recognition they are photographs: the most "
        "certain face of each is aligned and given to the embedder; photographs without one are left out. "
        "ocr-recognition finds lines of text first; clip-visual reads preprocess_cfg.json and clip-textual the "
        "tokenizer "
        "beside the model. No picture enters the compiled file.",
    .min_positional = 1,
    .max_positional = 1,
    CLI_OPTIONS(options),
    .run = run_compile,
};
