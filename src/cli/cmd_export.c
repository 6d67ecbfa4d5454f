// intaglio export: a compiled file for other runtimes.
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/files.h"
#include "intaglio/compiler.h"

static const cli_option options[] = {
    {"qdq", 0, "FILE", "ONNX with QuantizeLinear and DequantizeLinear, for ONNX Runtime on the CPU or an NPU"},
    {"epcontext", 0, "FILE", "ONNX that carries the NPU context, for ONNX Runtime's QNN provider"},
    {"qnn-context", 0, "FILE", "the NPU context itself, for the vendor's own tools"},
    {"target", 0, "CHIP", "which of the file's NPU contexts; not needed when it holds one only"},
    CLI_OPTION_QUIET,
    CLI_OPTION_HELP,
};

static int run_export(const cli_arguments *arguments) {
  const char *qdq = cli_get(arguments, "qdq"), *epcontext = cli_get(arguments, "epcontext"),
             *context = cli_get(arguments, "qnn-context"), *target = cli_get(arguments, "target");
  if (!qdq && !epcontext && !context)
    return cli_usage_error("nothing to export: give --qdq, --epcontext or --qnn-context");
  if (target && !epcontext && !context)
    return cli_usage_error("--target chooses an NPU context: give --epcontext or --qnn-context with it");
  const int code = cli_check_outputs(arguments);
  if (code != CLI_OK) return code;
  itg_diagnostic diagnostic = {0};
  itg_model *model = NULL;
  itg_status status = itg_model_open(arguments->positional[0], &diagnostic, &model);
  if (status == ITG_OK && qdq) status = itg_export_qdq(model, qdq, &diagnostic);
  if (status == ITG_OK && epcontext) status = itg_export_epcontext(model, target, epcontext, &diagnostic);
  if (status == ITG_OK && context) status = itg_export_qnn_context(model, target, context, &diagnostic);
  itg_model_close(model);
  if (status != ITG_OK) return cli_fail(&diagnostic);
  const char *written[] = {qdq, epcontext, context};
  for (size_t i = 0; i < 3 && !cli_has(arguments, "quiet"); i++)
    if (written[i]) printf("wrote %s\n", written[i]);
  return cli_finish_output();
}

const cli_command cli_export = {
    .name = "export",
    .arguments = "MODEL.itg --qdq FILE | --epcontext FILE | --qnn-context FILE",
    .summary = "write a compiled file for ONNX Runtime or the vendor's tools",
    .details =
        "--qdq keeps weights, biases, scales and zero points bit for bit; what stands between the pairs is float "
        "there, so results differ from ours by its rounding. --epcontext and --qnn-context need a file that was "
        "compiled with --target.",
    .min_positional = 1,
    .max_positional = 1,
    CLI_OPTIONS(options),
    .run = run_export,
};
