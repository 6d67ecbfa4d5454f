// Output files that would destroy what a command reads, or each other; files beside a model.
#ifndef ITG_CLI_FILES_H
#define ITG_CLI_FILES_H

#include "base/status.h"
#include "cli/commands.h"

// "<folder of model>/<name>" into `path`. Errors: LIMIT (longer than `size`).
ITG_MUST_USE itg_status cli_beside(const char *model, const char *name, itg_diagnostic *diagnostic, char *path,
                                   size_t size);
// Whether two paths lead to one file, present or still to be created (through links and different spellings of a folder).
bool cli_same_file(const char *a, const char *b);

// The input (model, samples, recipe, ..) among the arguments that `path` leads to, as it was given, or NULL.
const char *cli_input_file(const cli_arguments *arguments, const char *path);

// Every --output and --report against all inputs and each other. CLI_OK, or CLI_USAGE after printing the error.
int cli_check_outputs(const cli_arguments *arguments);

#endif
