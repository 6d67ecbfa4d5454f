// intaglio inspect: what is inside a float model or a compiled file.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/network.h"
#include "cli/record.h"

static const cli_option options[] = {
    {"steps", 0, NULL, "list every step of a compiled file with its kernel"},
    {"target", 0, "CHIP", "list what would run where on an NPU, and every reason why something would not run there"},
    {"precision", 'p', "NAME", "of a float model with --target: a8w8, a8w8+s16 (default), a16w8"},
    {"qnn-dir", 0, "DIR", "folder of the vendor's NPU library (--target)"},
    CLI_OPTION_SHAPE,
    CLI_OPTION_CPU,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
};

typedef struct op_total {
  const char *op;
  size_t steps;
  int64_t multiply_accumulates;
} op_total;

typedef struct inspection {
  const char *path;
  size_t file_bytes, workspace_bytes;
  const cli_network *network;
  itg_step_info *steps;
  size_t step_count;
  op_total *ops;
  size_t op_count;
  int64_t multiply_accumulates;
} inspection;

static int by_work(const void *a, const void *b) {
  const op_total *x = a, *y = b;
  if (x->multiply_accumulates != y->multiply_accumulates)
    return x->multiply_accumulates < y->multiply_accumulates ? 1 : -1;
  return x->steps != y->steps ? (x->steps < y->steps ? 1 : -1) : strcmp(x->op, y->op);
}

static itg_status collect(inspection *found, itg_diagnostic *diagnostic) {
  found->step_count = itg_session_step_count(found->network->session);
  found->steps = calloc(found->step_count + 1, sizeof *found->steps);
  found->ops = calloc(found->step_count + 1, sizeof *found->ops);
  if (!found->steps || !found->ops) {
    diagnostic->status = ITG_ERROR_MEMORY;
    return ITG_ERROR_MEMORY;
  }
  for (size_t i = 0; i < found->step_count; i++) {
    const itg_step_info *step = &found->steps[i];
    const itg_status status = itg_session_step(found->network->session, i, &found->steps[i]);
    if (status != ITG_OK) return status;
    size_t k = 0;
    while (k < found->op_count && strcmp(found->ops[k].op, step->op) != 0) k++;
    if (k == found->op_count) found->ops[found->op_count++].op = step->op;
    found->ops[k].steps++;
    found->ops[k].multiply_accumulates += step->multiply_accumulates;
    found->multiply_accumulates += step->multiply_accumulates;
  }
  qsort(found->ops, found->op_count, sizeof *found->ops, by_work);
  return ITG_OK;
}

// ---- text ----

static void print_tensor(const itg_tensor_info *info) {
  char shape[160];
  size_t length = 0;
  shape[0] = '\0';
  for (int32_t d = 0; d < info->shape.rank; d++)
    length +=
        (size_t)snprintf(shape + length, sizeof shape - length, "%s%lld", d ? "x" : "", (long long)info->shape.dims[d]);
  printf("  %-24s %-5s %s", info->name, itg_dtype_name(info->dtype), info->shape.rank ? shape : "scalar");
  if (info->scale != 1 || info->zero_point != 0)
    printf("   real = %g * (code - %d)", info->scale, (int)info->zero_point);
  printf("\n");
}

static void print_section(const itg_model *model, const char *name) {
  size_t size;
  const char *text = itg_model_metadata(model, name, &size);
  if (text) cli_print_record(stdout, name, text, size);
}

static void print_inspection(const inspection *found, bool steps) {
  const itg_model *model = found->network->model;
  printf("%s: compiled, %.2f MiB; a session needs %.2f MiB for activations\n", found->path,
         (double)found->file_bytes / (1 << 20), (double)found->workspace_bytes / (1 << 20));
  printf("inputs\n");
  for (size_t i = 0; i < itg_model_input_count(model); i++) print_tensor(itg_model_input(model, i));
  printf("outputs\n");
  for (size_t i = 0; i < itg_model_output_count(model); i++) print_tensor(itg_model_output(model, i));
  print_section(model, "accuracy");
  print_section(model, "preprocessing");
  print_section(model, "provenance");
  for (size_t i = 0; i < itg_model_context_count(model); i++)
    printf("%s%s", i ? ", " : "prepared for ", itg_model_context_name(model, i));
  if (itg_model_context_count(model)) printf("\n");
  printf("%zu steps on %s, %.2f million multiply-accumulates\n", found->step_count,
         itg_session_cpu(found->network->session), (double)found->multiply_accumulates / 1e6);
  for (size_t i = 0; i < found->op_count; i++)
    printf("  %-24s %5zu  %10.2f M\n", found->ops[i].op, found->ops[i].steps,
           (double)found->ops[i].multiply_accumulates / 1e6);
  for (size_t i = 0; steps && i < found->step_count; i++)
    printf("  %4zu %-16s %-28s %8.3f M  %s\n", i, found->steps[i].op, found->steps[i].kernel,
           (double)found->steps[i].multiply_accumulates / 1e6, found->steps[i].name);
}

// ---- JSON ----

static json_t *text(const char *value) {
  json_t *string = json_string(value); // NULL for what is not UTF-8.
  return string ? string : json_null();
}

static json_t *tensor_json(const itg_tensor_info *info) {
  json_t *object = json_object(), *shape = json_array();
  json_object_set_new(object, "name", text(info->name));
  json_object_set_new(object, "dtype", text(itg_dtype_name(info->dtype)));
  for (int32_t d = 0; d < info->shape.rank; d++) json_array_append_new(shape, json_integer(info->shape.dims[d]));
  json_object_set_new(object, "shape", shape);
  json_object_set_new(object, "scale", json_real(info->scale));
  json_object_set_new(object, "zero_point", json_integer(info->zero_point));
  return object;
}

static int print_json(const inspection *found) {
  const itg_model *model = found->network->model;
  json_t *root = json_object(), *inputs = json_array(), *outputs = json_array(), *steps = json_array();
  for (size_t i = 0; i < itg_model_input_count(model); i++)
    json_array_append_new(inputs, tensor_json(itg_model_input(model, i)));
  for (size_t i = 0; i < itg_model_output_count(model); i++)
    json_array_append_new(outputs, tensor_json(itg_model_output(model, i)));
  for (size_t i = 0; i < found->step_count; i++) {
    json_t *step = json_object();
    json_object_set_new(step, "name", text(found->steps[i].name));
    json_object_set_new(step, "op", text(found->steps[i].op));
    json_object_set_new(step, "kernel", text(found->steps[i].kernel));
    json_object_set_new(step, "multiply_accumulates", json_integer(found->steps[i].multiply_accumulates));
    json_array_append_new(steps, step);
  }
  json_object_set_new(root, "model", text(found->path));
  json_object_set_new(root, "bytes", json_integer((json_int_t)found->file_bytes));
  json_object_set_new(root, "workspace_bytes", json_integer((json_int_t)found->workspace_bytes));
  json_object_set_new(root, "cpu", text(itg_session_cpu(found->network->session)));
  json_object_set_new(root, "inputs", inputs);
  json_object_set_new(root, "outputs", outputs);
  json_object_set_new(root, "multiply_accumulates", json_integer(found->multiply_accumulates));
  static const char *const sections[] = {"provenance", "accuracy", "preprocessing"};
  for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
    size_t size;
    const char *section = itg_model_metadata(model, sections[i], &size);
    json_t *parsed = section ? json_loadb(section, size, 0, NULL) : NULL;
    if (parsed) json_object_set_new(root, sections[i], parsed);
  }
  json_object_set_new(root, "steps", steps);
  json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  json_decref(root);
  printf("\n");
  return cli_finish_output();
}

static int inspect_compiled(const cli_arguments *arguments, const char *path) {
  itg_diagnostic diagnostic = {0};
  cli_network network;
  const int opened = cli_network_open(arguments, path, false, &diagnostic, &network);
  if (opened != CLI_OK) return opened;
  inspection found = {.path = path, .network = &network};
  struct stat info;
  if (stat(path, &info) == 0) found.file_bytes = (size_t)info.st_size;
  itg_session_options session;
  itg_session_options_default(&session);
  session.cpu = cli_get(arguments, "cpu");
  itg_status status = itg_session_workspace_size(network.model, &session, &diagnostic, &found.workspace_bytes);
  if (status == ITG_OK) status = collect(&found, &diagnostic);
  int code;
  if (status != ITG_OK) {
    code = cli_fail(&diagnostic);
  } else if (cli_has(arguments, "json")) {
    code = print_json(&found);
  } else {
    print_inspection(&found, cli_has(arguments, "steps"));
    code = cli_finish_output();
  }
  free(found.steps);
  free(found.ops);
  cli_network_close(&network);
  return code;
}

static int inspect_placement(const cli_arguments *arguments, const char *path) {
  itg_diagnostic diagnostic = {0};
  itg_placement_report report = {0};
  const char **shapes;
  const itg_source_options source = cli_source_options(arguments, &shapes);
  const itg_status status =
      itg_inspect_placement(path, &source, cli_get(arguments, "precision"), cli_get(arguments, "target"),
                            cli_get(arguments, "qnn-dir"), &diagnostic, &report);
  free(shapes);
  if (status != ITG_OK) return cli_fail(&diagnostic);
  if (cli_has(arguments, "json"))
    printf("%s\n", report.json);
  else
    cli_print_placement(stdout, &report.placement);
  itg_placement_report_free(&report);
  return cli_finish_output();
}

static int run_inspect(const cli_arguments *arguments) {
  const char *path = arguments->positional[0];
  if (cli_has(arguments, "target")) return inspect_placement(arguments, path);
  if (cli_is_compiled(path)) return inspect_compiled(arguments, path);
  itg_diagnostic diagnostic = {0};
  const char **shapes;
  const itg_source_options source = cli_source_options(arguments, &shapes);
  const itg_status status = itg_inspect_source(path, &source, cli_has(arguments, "json"), stdout, &diagnostic);
  free(shapes);
  const int written = cli_finish_output();
  if (status != ITG_OK) return cli_fail(&diagnostic);
  return written;
}

const cli_command cli_inspect = {
    .name = "inspect",
    .arguments = "MODEL.onnx|FILE.itg [options]",
    .summary = "show what is inside a model, and everything in it that is not supported",
    .details =
        "Of a float model: inputs, outputs, operations, parameters; every node that is not supported is listed with "
        "its reason (exit code 5). Of a compiled file: encodings, accuracy record, provenance, steps and kernels. With "
        "--target: every node is shown to the validator of the vendor's NPU library; a float model is quantized with "
        "made-up samples for that, since only shapes and operations matter.",
    .min_positional = 1,
    .max_positional = 1,
    CLI_OPTIONS(options),
    .run = run_inspect,
};
