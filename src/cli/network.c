// See network.h.
#include "cli/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensor/dtype.h"

static itg_status copy_infos(const cli_network *network, bool outputs, size_t count, itg_diagnostic *diagnostic,
                             itg_tensor_info **infos, void ***values) {
  *infos = calloc(count + 1, sizeof **infos);
  *values = calloc(count + 1, sizeof **values);
  ITG_TRY_MEMORY(*infos && *values, diagnostic);
  for (size_t i = 0; i < count; i++) {
    itg_tensor_info *info = &(*infos)[i];
    if (network->model) {
      *info = outputs ? *itg_model_output(network->model, i) : *itg_model_input(network->model, i);
      info->dtype = ITG_DTYPE_F32; // A session converts from and to floats.
    } else {
      *info = outputs ? *itg_float_network_output(network->source, i) : *itg_float_network_input(network->source, i);
      if (itg_dtype_is_float(info->dtype)) info->dtype = ITG_DTYPE_F32;
    }
    (*values)[i] = calloc(info->count + 1, itg_dtype_size(info->dtype));
    ITG_TRY_MEMORY((*values)[i], diagnostic);
  }
  return ITG_OK;
}

static itg_status open_compiled(cli_network *network, const char *path, const itg_session_options *options,
                                itg_diagnostic *diagnostic) {
  ITG_TRY(itg_model_open(path, diagnostic, &network->model));
  ITG_TRY(itg_session_create(network->model, options, diagnostic, &network->session));
  network->input_count = itg_model_input_count(network->model);
  network->output_count = itg_model_output_count(network->model);
  return ITG_OK;
}

static itg_status open_source(cli_network *network, const char *path, const cli_arguments *arguments,
                              itg_diagnostic *diagnostic) {
  const char **shapes;
  const itg_source_options options = cli_source_options(arguments, &shapes);
  const itg_status status = itg_float_network_open(path, &options, diagnostic, &network->source);
  free(shapes);
  ITG_TRY(status);
  network->input_count = itg_float_network_input_count(network->source);
  network->output_count = itg_float_network_output_count(network->source);
  return ITG_OK;
}

int cli_network_open(const cli_arguments *arguments, const char *path, bool profile, itg_diagnostic *diagnostic,
                     cli_network *out) {
  *out = (cli_network){0};
  itg_session_options options;
  itg_session_options_default(&options);
  if (!cli_get_integer(arguments, "threads", 1, 1024, &options.thread_count)) return CLI_USAGE;
  if (!cli_get_cpu(arguments, &options.cpu) || !cli_check_backend(arguments)) return CLI_USAGE;
  options.backend = cli_get(arguments, "backend");
  options.target = cli_get(arguments, "target");
  options.qnn_directory = cli_get(arguments, "qnn-dir");
  options.npu_performance = cli_get(arguments, "npu-performance");
  options.profile = profile;
  const double start = cli_now();
  itg_status status = cli_is_compiled(path) ? open_compiled(out, path, &options, diagnostic)
                                            : open_source(out, path, arguments, diagnostic);
  out->open_seconds = cli_now() - start;
  if (status == ITG_OK) status = copy_infos(out, false, out->input_count, diagnostic, &out->inputs, &out->input_values);
  if (status == ITG_OK)
    status = copy_infos(out, true, out->output_count, diagnostic, &out->outputs, &out->output_values);
  if (status == ITG_OK) return CLI_OK;
  cli_network_close(out);
  return cli_fail(diagnostic);
}

static void free_values(void **values, size_t count) {
  for (size_t i = 0; values && i < count; i++) free(values[i]);
  free(values);
}

void cli_network_close(cli_network *network) {
  free_values(network->input_values, network->input_count);
  free_values(network->output_values, network->output_count);
  free(network->inputs);
  free(network->outputs);
  itg_session_destroy(network->session);
  itg_model_close(network->model);
  itg_float_network_close(network->source);
  *network = (cli_network){0};
}

itg_status cli_network_set(cli_network *network, itg_diagnostic *diagnostic) {
  for (size_t i = 0; network->session && i < network->input_count; i++)
    ITG_TRY(itg_session_set_input(network->session, i, network->input_values[i], network->inputs[i].count, diagnostic));
  return ITG_OK;
}

itg_status cli_network_run(cli_network *network, itg_diagnostic *diagnostic) {
  if (network->session) return itg_session_run(network->session, diagnostic);
  return itg_float_network_run(network->source, (const void *const *)network->input_values, network->output_values,
                               diagnostic);
}

itg_status cli_network_read(cli_network *network, itg_diagnostic *diagnostic) {
  for (size_t i = 0; network->session && i < network->output_count; i++)
    ITG_TRY(
        itg_session_get_output(network->session, i, network->output_values[i], network->outputs[i].count, diagnostic));
  return ITG_OK;
}

const itg_tensor_info *cli_network_input(const void *network, size_t index) {
  const cli_network *opened = network;
  return index < opened->input_count ? &opened->inputs[index] : NULL;
}
