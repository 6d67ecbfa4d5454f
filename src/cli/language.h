// `intaglio compile` of language and vision-language models.
#ifndef ITG_CLI_LANGUAGE_H
#define ITG_CLI_LANGUAGE_H

#include "cli/commands.h"

// Compiles the model of the first positional argument; returns the exit code.
int cli_compile_language(const cli_arguments *arguments);

#endif
