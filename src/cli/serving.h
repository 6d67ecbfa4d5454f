// What the kinds of `intaglio serve` share.
#ifndef ITG_CLI_SERVING_H
#define ITG_CLI_SERVING_H

#include "cli/commands.h"

// Blocks SIGINT, SIGTERM and SIGHUP for this thread and those it starts, so that they reach cli_wait_for_end alone.
void cli_hold_signals(void);
// Waits for one of them; a second one then ends the process at once.
void cli_wait_for_end(void);

// intaglio serve --openai. Returns the exit code.
int cli_serve_openai(const cli_arguments *arguments);

#endif
