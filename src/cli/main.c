// The command: finds the sub-command in the table and hands over.
#include <string.h>

#include "cli/commands.h"

const cli_command *const cli_commands[] = {&cli_compile, &cli_run,    &cli_compare, &cli_inspect,
                                           &cli_bench,   &cli_export, &cli_serve,   &cli_pull,
                                           &cli_doctor,  &cli_chat,   &cli_version};
const size_t cli_command_count = sizeof cli_commands / sizeof cli_commands[0];

static int unknown_command(const char *word) {
  const char *names[sizeof cli_commands / sizeof cli_commands[0]];
  for (size_t i = 0; i < cli_command_count; i++) names[i] = cli_commands[i]->name;
  const char *near = cli_nearest(word, names, cli_command_count);
  if (near) return cli_usage_error("unknown command \"%s\"; did you mean %s?", word, near);
  return cli_usage_error("unknown command \"%s\"; see intaglio --help", word);
}

static int run_command(const cli_command *command, int argc, char **argv) {
  cli_arguments arguments;
  int code = cli_parse(command, argc, argv, &arguments);
  if (code < 0) code = command->run(&arguments);
  cli_arguments_free(&arguments);
  return code;
}

int main(int argc, char **argv) {
  cli_catch_interrupts();
  if (argc < 2) {
    cli_print_help(stderr);
    return CLI_USAGE;
  }
  const char *word = argv[1];
  void (*print)(FILE *) = NULL;
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) print = cli_print_help;
  if (strcmp(word, "--completion") == 0) print = cli_print_completion;
  if (strcmp(word, "--man") == 0) print = cli_print_man;
  if (print) {
    print(stdout);
    return cli_finish_output();
  }
  if (strcmp(word, "--version") == 0) word = "version";
  for (size_t i = 0; i < cli_command_count; i++) {
    if (strcmp(cli_commands[i]->name, word) == 0) return run_command(cli_commands[i], argc - 1, argv + 1);
  }
  return unknown_command(word);
}
