// intaglio run: data through a compiled file or a float model.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/status.h"
#include "cli/files.h"
#include "cli/network.h"
#include "tensor/npy.h"

static const cli_option options[] = {
    {"input", 'i', "INPUT=FILE",
     "data of an input: .npy, raw little-endian values, or a picture; once for each input. \"INPUT=\" may be left out "
     "when there is only one"},
    {"output", 'o', "OUTPUT=FILE.npy", "where to write an output; may be repeated"},
    {"output-dir", 0, "DIR", "write every output as DIR/OUTPUT.npy; the folder is made if need be"},
    {"samples", 's', NULL,
     "each row of the .npy files (or each picture of a folder) is a run; outputs get one row a run"},
    {"codes", 0, NULL, "write the integer codes of the outputs instead of real numbers (compiled files only)"},
    CLI_OPTION_KIND,
    CLI_OPTION_PREPROCESS,
    CLI_OPTION_FACE_MODELS,
    CLI_OPTION_SHAPE,
    CLI_OPTION_CPU,
    CLI_OPTION_ARITHMETIC,
    CLI_OPTION_BACKEND,
    CLI_OPTION_CONTEXT,
    CLI_OPTION_QNN_DIR,
    CLI_OPTION_NPU_PERFORMANCE,
    CLI_OPTION_THREADS,
    CLI_OPTION_JSON,
    CLI_OPTION_QUIET,
    CLI_OPTION_HELP,
};

typedef struct output_file {
  char *path; // NULL: not wanted.
  itg_npy_writer *writer;
  void *codes;
} output_file;

typedef struct run_state {
  const cli_arguments *arguments;
  itg_diagnostic diagnostic;
  cli_network network;
  cli_source source;
  const char **inputs;
  size_t input_count;
  cli_samples *samples;
  cli_sample_view view;
  itg_samples list;
  output_file *outputs; // One an output of the network.
  bool codes;
} run_state;

// ---- inputs ----

static const char *file_of(const run_state *run, const char *spec, size_t *input) {
  for (size_t i = 0; i < run->network.input_count; i++) {
    const char *name = run->network.inputs[i].name;
    const size_t length = strlen(name);
    if (strncmp(spec, name, length) == 0 && spec[length] == '=') {
      *input = i;
      return spec + length + 1;
    }
  }
  *input = 0;
  return spec;
}

// Raw files have no header: their size must be that of the input, as floats or in its own type.
static itg_status read_raw(run_state *run, const char *path, size_t input, bool *raw) {
  const itg_tensor_info *info = &run->network.inputs[input];
  const char *dot = strrchr(path, '.');
  *raw = dot && (strcmp(dot, ".raw") == 0 || strcmp(dot, ".bin") == 0);
  if (!*raw) return ITG_OK;
  itg_mapped_file file;
  ITG_TRY(itg_mapped_file_open(path, &run->diagnostic, &file));
  const size_t wanted = info->count * itg_dtype_size(info->dtype), size = file.bytes.size;
  if (size == wanted && size) memcpy(run->network.input_values[input], file.bytes.data, size);
  itg_mapped_file_close(&file);
  if (size != wanted)
    ITG_FAIL(&run->diagnostic, ITG_ERROR_SHAPE, path, "holds %zu bytes; input \"%s\" needs %zu (%zu values of %s)",
             size, info->name, wanted, info->count, itg_dtype_name(info->dtype));
  return ITG_OK;
}

static itg_status check_raw(run_state *run, const bool *given) {
  for (size_t i = 0; i < run->network.input_count; i++) {
    if (!given[i])
      ITG_FAIL(&run->diagnostic, ITG_ERROR_ARGUMENT, run->network.inputs[i].name,
               "no values for this input; add --input INPUT=FILE");
  }
  return ITG_OK;
}

static itg_status read_all_raw(run_state *run, const char **specs, size_t *raw_count, bool *given) {
  for (size_t i = 0; i < run->input_count; i++) {
    size_t input;
    bool raw;
    const char *path = file_of(run, run->inputs[i], &input);
    const size_t length = strlen(path);
    const bool array = length > 4 && strcmp(path + length - 4, ".npy") == 0;
    specs[i] = array ? run->inputs[i] : path;
    if (run->network.input_count == 0)
      ITG_FAIL(&run->diagnostic, ITG_ERROR_ARGUMENT, path, "the network has no inputs; leave --input out");
    ITG_TRY(read_raw(run, path, input, &raw));
    if (!raw) continue;
    if (path == run->inputs[i] && run->network.input_count > 1)
      ITG_FAIL(&run->diagnostic, ITG_ERROR_ARGUMENT, path,
               "the network has %zu inputs; write --input INPUT=FILE to say which; the first is \"%s\"",
               run->network.input_count, run->network.inputs[0].name);
    if (given[input])
      ITG_FAIL(&run->diagnostic, ITG_ERROR_ARGUMENT, path, "input \"%s\" is given twice",
               run->network.inputs[input].name);
    given[input] = true;
    ++*raw_count;
  }
  return ITG_OK;
}

static itg_status prepare_inputs(run_state *run) {
  const cli_arguments *arguments = run->arguments;
  size_t raw_count = 0, stored_size = 0;
  const char **specs = calloc(run->input_count + 1, sizeof *specs); // Without the names of pictures' inputs.
  bool *given = calloc(run->network.input_count + 1, sizeof *given);
  itg_status status = specs && given
                          ? read_all_raw(run, specs, &raw_count, given)
                          : itg_fail(&run->diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  const bool all_raw = status == ITG_OK && raw_count == run->input_count;
  if (all_raw) status = check_raw(run, given);
  free(given);
  if (all_raw) {
    free(specs);
    return status;
  }
  if (status == ITG_OK && raw_count > 0)
    status = itg_fail(&run->diagnostic, ITG_ERROR_ARGUMENT, NULL, __FILE__, __LINE__,
                      "raw files cannot be mixed with other kinds of input");
  const char *stored =
      run->network.model ? itg_model_metadata(run->network.model, "preprocessing", &stored_size) : NULL;
  const cli_inputs inputs = {&run->network, run->network.input_count, cli_network_input};
  if (status == ITG_OK)
    status = cli_source_open(arguments, inputs, arguments->positional[0], stored, stored_size, specs, run->input_count,
                             &run->diagnostic, &run->source);
  if (status == ITG_OK)
    status = cli_samples_open(specs, run->input_count, &run->source.options, &run->diagnostic, &run->samples);
  free(specs);
  ITG_TRY(status);
  run->list = cli_samples_view(run->samples, 0, 1, &run->view);
  if (run->list.count > 1 && !cli_has(arguments, "samples"))
    ITG_FAIL(&run->diagnostic, ITG_ERROR_ARGUMENT, NULL,
             "the data holds %zu samples; add --samples to run them all, each its own row of the outputs",
             run->list.count);
  return ITG_OK;
}

// ---- outputs ----

static itg_status choose_outputs(run_state *run) {
  const size_t count = run->network.output_count;
  run->outputs = calloc(count + 1, sizeof *run->outputs);
  ITG_TRY_MEMORY(run->outputs, &run->diagnostic);
  for (size_t v = 0; v < run->arguments->value_count; v++) {
    const cli_value *value = &run->arguments->values[v];
    if (strcmp(value->option->name, "output") != 0) continue;
    size_t i = 0;
    const char *path = NULL;
    for (; i < count && !path; i++) {
      const char *name = run->network.outputs[i].name;
      const size_t length = strlen(name);
      if (strncmp(value->text, name, length) == 0 && value->text[length] == '=') path = value->text + length + 1;
    }
    if (!path && count == 1 && !strchr(value->text, '=')) {
      path = value->text;
      i = 1;
    }
    if (!path)
      ITG_FAIL(&run->diagnostic, ITG_ERROR_ARGUMENT, value->text,
               "names no output of the network; write OUTPUT=FILE.npy; the first output is \"%s\"",
               count ? run->network.outputs[0].name : "");
    free(run->outputs[i - 1].path);
    ITG_TRY_MEMORY(run->outputs[i - 1].path = strdup(path), &run->diagnostic);
  }
  const char *folder = cli_get(run->arguments, "output-dir");
  for (size_t i = 0; folder && i < count; i++) {
    if (run->outputs[i].path) continue;
    const char *name = run->network.outputs[i].name;
    const size_t size = strlen(folder) + strlen(name) + 8;
    char *path = run->outputs[i].path = malloc(size);
    ITG_TRY_MEMORY(path, &run->diagnostic);
    snprintf(path, size, "%s/%s.npy", folder, name);
    for (char *c = path + strlen(folder) + 1; *c; c++) { // Names of outputs may hold slashes; file names may not.
      if (*c == '/') *c = '_';
    }
    const char *input = cli_input_file(run->arguments, path);
    if (input)
      ITG_FAIL(&run->diagnostic, ITG_ERROR_ARGUMENT, path,
               "--output-dir would overwrite what is read (%s); choose another folder", input);
  }
  return ITG_OK;
}

static itg_dtype output_dtype(const run_state *run, size_t index) {
  return run->codes ? itg_model_output(run->network.model, index)->dtype : run->network.outputs[index].dtype;
}

static itg_status open_outputs(run_state *run) {
  const char *folder = cli_get(run->arguments, "output-dir");
  if (folder && mkdir(folder, 0777) != 0 && errno != EEXIST)
    ITG_FAIL(&run->diagnostic, ITG_ERROR_IO, folder, "cannot make the folder for outputs: %s", strerror(errno));
  for (size_t i = 0; i < run->network.output_count; i++) {
    output_file *output = &run->outputs[i];
    const itg_tensor_info *info = &run->network.outputs[i];
    if (run->codes) {
      output->codes = malloc(info->count * itg_dtype_size(output_dtype(run, i)) + 1);
      ITG_TRY_MEMORY(output->codes, &run->diagnostic);
    }
    if (!output->path || !cli_has(run->arguments, "samples")) continue;
    itg_shape row = info->shape;
    if (row.rank > 0 && row.dims[0] == 1) { // [1, ..] a run becomes [runs, ..].
      for (int32_t d = 1; d < row.rank; d++) row.dims[d - 1] = row.dims[d];
      row.rank--;
    }
    ITG_TRY(itg_npy_writer_create(output->path, output_dtype(run, i), (int64_t)run->list.count, &row, &run->diagnostic,
                                  &output->writer));
  }
  return ITG_OK;
}

static itg_status write_outputs(run_state *run) {
  for (size_t i = 0; i < run->network.output_count; i++) {
    output_file *output = &run->outputs[i];
    const itg_tensor_info *info = &run->network.outputs[i];
    if (run->codes)
      ITG_TRY(itg_session_get_output_codes(run->network.session, i, output->codes,
                                           info->count * itg_dtype_size(output_dtype(run, i)), &run->diagnostic));
    const void *values = run->codes ? output->codes : run->network.output_values[i];
    if (output->writer)
      ITG_TRY(itg_npy_writer_append(output->writer, values, &run->diagnostic));
    else if (output->path)
      ITG_TRY(itg_npy_write(output->path, output_dtype(run, i), &info->shape, values, &run->diagnostic));
  }
  return ITG_OK;
}

// ---- the command ----

static itg_status run_all(run_state *run, double *seconds) {
  const size_t count = run->samples ? run->list.count : 1;
  cli_progress *progress = &run->source.progress;
  for (size_t i = 0; i < count; i++) {
    if (count > 1) cli_progress_update(progress, "running", (long long)i, (long long)count);
    if (run->samples) ITG_TRY(run->list.read(run->list.context, i, run->network.input_values, &run->diagnostic));
    ITG_TRY(cli_network_set(&run->network, &run->diagnostic));
    const double start = cli_now();
    ITG_TRY(cli_network_run(&run->network, &run->diagnostic));
    *seconds += cli_now() - start;
    ITG_TRY(cli_network_read(&run->network, &run->diagnostic));
    ITG_TRY(write_outputs(run));
  }
  if (count > 1) cli_progress_update(progress, "running", (long long)count, (long long)count);
  for (size_t i = 0; i < run->network.output_count; i++) {
    itg_npy_writer *writer = run->outputs[i].writer;
    run->outputs[i].writer = NULL; // Gone whatever commit says.
    if (writer) ITG_TRY(itg_npy_writer_commit(writer, &run->diagnostic));
  }
  return ITG_OK;
}

static void print_summary(const run_state *run, double seconds) {
  const size_t count = run->samples ? run->list.count : 1;
  const double milliseconds = 1e3 * seconds / (double)count;
  if (cli_has(run->arguments, "json")) {
    printf("{\"runs\": %zu, \"milliseconds_per_run\": %.4f, \"compiled\": %s}\n", count, milliseconds,
           run->network.session ? "true" : "false");
    return;
  }
  if (cli_has(run->arguments, "quiet")) return;
  printf("%zu run%s, %.2f ms each%s\n", count, count == 1 ? "" : "s", milliseconds,
         run->network.session ? "" : " in the float interpreter");
  for (size_t i = 0; i < run->network.output_count; i++) {
    const itg_tensor_info *info = &run->network.outputs[i];
    char shape[160];
    printf("  %s  %s", info->name, itg_shape_print(&info->shape, shape, sizeof shape));
    if (run->outputs[i].path) {
      printf("  -> %s\n", run->outputs[i].path);
      continue;
    }
    printf(" ");
    const float *values = run->network.output_values[i];
    for (size_t k = 0; info->dtype == ITG_DTYPE_F32 && k < info->count && k < 6; k++) printf(" %g", (double)values[k]);
    printf("%s\n", info->count > 6 ? " .." : "");
  }
}

static int run_network(run_state *run) {
  const cli_arguments *arguments = run->arguments;
  const int opened = cli_network_open(arguments, arguments->positional[0], false, &run->diagnostic, &run->network);
  if (opened != CLI_OK) return opened;
  run->codes = cli_has(arguments, "codes");
  if (run->codes && !run->network.session)
    return cli_usage_error("--codes needs a compiled file; a float model has none");
  double seconds = 0;
  itg_status status = choose_outputs(run);
  if (status == ITG_OK) status = prepare_inputs(run);
  if (status == ITG_OK) status = open_outputs(run);
  if (status == ITG_OK) status = run_all(run, &seconds);
  cli_progress_end(&run->source.progress);
  if (status != ITG_OK) return cli_fail(&run->diagnostic);
  print_summary(run, seconds);
  return cli_finish_output();
}

static int run_run(const cli_arguments *arguments) {
  if (!cli_has(arguments, "input")) return cli_usage_error("run needs --input INPUT=FILE for each input");
  run_state run = {.arguments = arguments};
  run.inputs = cli_get_all(arguments, "input", &run.input_count);
  const int code = run_network(&run);
  for (size_t i = 0; run.outputs && i < run.network.output_count; i++) {
    itg_npy_writer_discard(run.outputs[i].writer);
    free(run.outputs[i].path);
    free(run.outputs[i].codes);
  }
  free(run.outputs);
  cli_samples_close(run.samples);
  cli_source_close(&run.source);
  cli_network_close(&run.network);
  free(run.inputs);
  return code;
}

const cli_command cli_run = {
    .name = "run",
    .arguments = "MODEL --input INPUT=FILE... [--output OUTPUT=FILE.npy | --output-dir DIR] [options]",
    .summary = "run a compiled file, or a float model in the interpreter",
    .details =
        "Pictures are prepared as the compiled file says, or by --preprocess. A file for recognising faces takes "
        "photographs: give --face-models, the folder of the models that find the face.",
    .min_positional = 1,
    .max_positional = 1,
    CLI_OPTIONS(options),
    .run = run_run,
};
