// One face for what a command can run: a compiled file in a session, or a float model in the interpreter.
#ifndef ITG_CLI_NETWORK_H
#define ITG_CLI_NETWORK_H

#include "cli/source.h"
#include "intaglio/compiler.h"

typedef struct cli_network {
  itg_model *model; // Compiled, or
  itg_session *session;
  itg_float_network *source; // a float model.
  size_t input_count, output_count;
  itg_tensor_info *inputs, *outputs;    // As the caller passes values: f32 for everything a session takes.
  void **input_values, **output_values; // Dense, by `inputs` and `outputs`.
  double open_seconds;
} cli_network;

// Reads --threads, --cpu and --shape. Fails with a printed error and an exit code; CLI_OK otherwise.
int cli_network_open(const cli_arguments *arguments, const char *path, bool profile, itg_diagnostic *diagnostic,
                     cli_network *out);
void cli_network_close(cli_network *network);
// Runs on input_values; output_values are filled by `cli_network_read`, which is not part of the time.
itg_status cli_network_set(cli_network *network, itg_diagnostic *diagnostic);
itg_status cli_network_run(cli_network *network, itg_diagnostic *diagnostic);
itg_status cli_network_read(cli_network *network, itg_diagnostic *diagnostic);
// As cli_inputs.get.
const itg_tensor_info *cli_network_input(const void *network, size_t index);

#endif
