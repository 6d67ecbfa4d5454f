// intaglio version.
#include "cli/commands.h"
#include "intaglio/intaglio.h"

static const cli_option options[] = {CLI_OPTION_HELP};

static int run_version(const cli_arguments *arguments) {
  (void)arguments;
  printf("intaglio %s\n", ITG_VERSION);
  return cli_finish_output();
}

const cli_command cli_version = {
    .name = "version",
    .arguments = "",
    .summary = "print the version",
    CLI_OPTIONS(options),
    .run = run_version,
};
