// intaglio compare: a compiled file against its float model.
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "cli/source.h"

static const cli_option options[] = {
    {"float", 'f', "MODEL.onnx", "the float model that the file was compiled from"},
    {"data", 'd', "DIR|INPUT=FILE.npy", "samples, as for compile --calibration; may be repeated"},
    {"ablate", 0, NULL,
     "also measure what each method bought: builds the program again without each of them, by the recipe in the file"},
    {"calibration", 0, "DIR|INPUT=FILE.npy",
     "samples that calibrate those programs; without them every second sample of --data calibrates and the others "
     "judge"},
    {"min-cosine", 0, "X", "exit with code 1 when an output's mean cosine is below X"},
    CLI_OPTION_KIND,
    CLI_OPTION_PREPROCESS,
    CLI_OPTION_FACE_MODELS,
    CLI_OPTION_ALL_FACES,
    CLI_OPTION_TEXT_MODELS,
    CLI_OPTION_IDENTITIES,
    CLI_OPTION_LIMIT,
    CLI_OPTION_SHAPE,
    CLI_OPTION_CPU,
    CLI_OPTION_ARITHMETIC,
    CLI_OPTION_BACKEND,
    CLI_OPTION_CONTEXT,
    CLI_OPTION_QNN_DIR,
    CLI_OPTION_THREADS,
    {"report", 0, "FILE.html", "write the accuracy report"},
    CLI_OPTION_JSON,
    CLI_OPTION_QUIET,
    CLI_OPTION_HELP,
};

typedef struct compare_run {
  const cli_arguments *arguments;
  itg_diagnostic diagnostic;
  const char **shapes, **data, **calibration;
  size_t data_count, calibration_count;
  itg_model *model; // For the preprocessing stored in it.
  itg_float_network *network;
  cli_source source;
  cli_samples *samples, *calibration_samples;
  cli_sample_view view, calibration_view;
  itg_comparison comparison;
} compare_run;

static const itg_tensor_info *network_input(const void *network, size_t index) {
  return itg_float_network_input(network, index);
}

static itg_status open_samples(compare_run *run) {
  const cli_arguments *arguments = run->arguments;
  itg_status status = itg_model_open(arguments->positional[0], &run->diagnostic, &run->model);
  if (status != ITG_OK) return status;
  const itg_source_options source = cli_source_options(arguments, &run->shapes);
  status = itg_float_network_open(cli_get(arguments, "float"), &source, &run->diagnostic, &run->network);
  if (status != ITG_OK) return status;
  size_t stored_size = 0;
  const char *stored = itg_model_metadata(run->model, "preprocessing", &stored_size);
  const cli_inputs inputs = {run->network, itg_float_network_input_count(run->network), network_input};
  status = cli_source_open(arguments, inputs, cli_get(arguments, "float"), stored, stored_size, run->data,
                           run->data_count, &run->diagnostic, &run->source);
  if (status != ITG_OK) return status;
  status = cli_samples_open(run->data, run->data_count, &run->source.options, &run->diagnostic, &run->samples);
  if (status != ITG_OK || !run->calibration_count) return status;
  return cli_samples_open(run->calibration, run->calibration_count, &run->source.options, &run->diagnostic,
                          &run->calibration_samples);
}

// Who judges, and with --ablate who calibrates; never the same samples.
static itg_status choose_samples(compare_run *run, itg_compare_options *chosen) {
  chosen->samples = cli_samples_view(run->samples, 0, 1, &run->view);
  chosen->ablate = cli_has(run->arguments, "ablate");
  if (!chosen->ablate) return ITG_OK;
  if (run->calibration_samples) {
    chosen->calibration = cli_samples_view(run->calibration_samples, 0, 1, &run->calibration_view);
    return ITG_OK;
  }
  if (chosen->samples.count < 2)
    ITG_FAIL(&run->diagnostic, ITG_ERROR_ARGUMENT, NULL,
             "--ablate needs --calibration, or two samples or more in --data: one calibrates, one judges");
  chosen->calibration = cli_samples_view(run->samples, 0, 2, &run->calibration_view);
  chosen->samples = cli_samples_view(run->samples, 1, 2, &run->view);
  return ITG_OK;
}

static void print_result(const itg_comparison *comparison, size_t samples) {
  cli_print_accuracy(stdout, comparison->outputs, comparison->output_count);
  cli_print_ablation(stdout, comparison->ablation, comparison->ablation_count);
  printf("%zu samples; float %.2f ms (interpreter), integer %.2f ms; one thread each\n", samples,
         comparison->float_milliseconds, comparison->integer_milliseconds);
  if (comparison->collapsed) printf("the integer program has collapsed on these samples\n");
}

static int compare(compare_run *run) {
  const cli_arguments *arguments = run->arguments;
  itg_compare_options compare_options;
  itg_compare_options_default(&compare_options);
  double limit = -INFINITY;
  if (!cli_get_integer(arguments, "threads", 1, 1024, &compare_options.thread_count) ||
      !cli_get_number(arguments, "min-cosine", -1, 1, &limit))
    return CLI_USAGE;
  if (!cli_get_cpu(arguments, &compare_options.cpu) || !cli_check_backend(arguments)) return CLI_USAGE;
  compare_options.backend = cli_get(arguments, "backend");
  compare_options.target = cli_get(arguments, "target");
  compare_options.qnn_directory = cli_get(arguments, "qnn-dir");
  compare_options.report = cli_get(arguments, "report");
  compare_options.progress = cli_progress_update;
  compare_options.progress_context = &run->source.progress;
  if (open_samples(run) != ITG_OK || choose_samples(run, &compare_options) != ITG_OK) return cli_fail(&run->diagnostic);
  const itg_status status =
      itg_compare(arguments->positional[0], run->network, &compare_options, &run->diagnostic, &run->comparison);
  cli_progress_end(&run->source.progress);
  if (status != ITG_OK) return cli_fail(&run->diagnostic);
  if (cli_has(arguments, "json"))
    printf("%s\n", run->comparison.json);
  else
    print_result(&run->comparison, compare_options.samples.count);
  const int written = cli_finish_output();
  bool below = run->comparison.collapsed;
  for (size_t i = 0; i < run->comparison.output_count; i++) below |= run->comparison.outputs[i].cosine_mean < limit;
  return written != CLI_OK ? written : below ? CLI_BELOW : CLI_OK;
}

static int run_compare(const cli_arguments *arguments) {
  if (!cli_get(arguments, "float")) return cli_usage_error("compare needs --float MODEL.onnx to compare with");
  if (!cli_has(arguments, "data"))
    return cli_usage_error("compare needs --data: a folder of pictures or INPUT=FILE.npy");
  if (cli_has(arguments, "calibration") && !cli_has(arguments, "ablate"))
    return cli_usage_error("--calibration belongs to --ablate: a comparison alone needs no calibration");
  compare_run run = {.arguments = arguments};
  run.calibration = cli_get_all(arguments, "calibration", &run.calibration_count);
  run.data = cli_get_all(arguments, "data", &run.data_count);
  const int code = compare(&run);
  itg_comparison_free(&run.comparison);
  itg_float_network_close(run.network);
  cli_samples_close(run.samples);
  cli_samples_close(run.calibration_samples);
  cli_source_close(&run.source);
  itg_model_close(run.model);
  free(run.shapes);
  free(run.data);
  free(run.calibration);
  return code;
}

const cli_command cli_compare = {
    .name = "compare",
    .arguments = "OUT.itg --float MODEL.onnx --data DATA [options]",
    .summary = "measure a compiled file against its float model",
    .details =
        "Prints per output: mean and lowest cosine, cosine after subtracting the float mean (centred), how much of "
        "the spread between samples was kept, signal to error, and the correlation of pair similarities. Exit "
        "code 1 when the program has collapsed or a cosine is below --min-cosine.",
    .min_positional = 1,
    .max_positional = 1,
    CLI_OPTIONS(options),
    .run = run_compare,
};
