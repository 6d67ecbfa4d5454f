// Everything that is generated from the command table: help, bash completion, man page.
#include <string.h>

#include "cli/commands.h"
#include "intaglio/intaglio.h"

typedef struct exit_code {
  int code;
  const char *meaning;
} exit_code;

static const exit_code exit_codes[] = {
    {CLI_OK, "done"},
    {CLI_BELOW, "the answer is no: a comparison below its limit, a result that collapsed"},
    {CLI_USAGE, "wrong usage: unknown option, missing or contradictory argument"},
    {CLI_IO, "the system refused: missing file, full disk, no permission"},
    {CLI_FORMAT, "a file is not what it claims to be, of an unknown version, or beyond a limit"},
    {CLI_UNSUPPORTED, "an operation or shape that is not supported"},
    {CLI_MEMORY, "out of memory"},
    {CLI_DEVICE, "the accelerator or its library failed"},
    {CLI_INTERNAL, "a bug of ours"},
    {CLI_INTERRUPTED, "interrupted; no unfinished file is left"},
};

void cli_print_help(FILE *stream) {
  fprintf(stream,
          "Intaglio turns a trained network into an integer-only program, proves on your data that the accuracy\n"
          "survived, and runs it.\n\nusage: intaglio COMMAND ...\n\n");
  for (size_t i = 0; i < cli_command_count; i++)
    fprintf(stream, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
  fprintf(stream, "\nintaglio COMMAND --help shows the options of a command; man pages and shell completion come from\n"
                  "intaglio --man and intaglio --completion (source it in bash).\n\nexit codes:\n");
  for (size_t i = 0; i < sizeof exit_codes / sizeof exit_codes[0]; i++)
    fprintf(stream, "  %3d  %s\n", exit_codes[i].code, exit_codes[i].meaning);
}

// Breaks lines at spaces; the first line starts at `indent` already.
static void print_wrapped(FILE *stream, const char *text, size_t indent, size_t width) {
  size_t column = indent;
  while (*text) {
    const size_t length = strcspn(text, " \n");
    if (column > indent && column + 1 + length > width) {
      fprintf(stream, "\n%*s", (int)indent, "");
      column = indent;
    } else if (column > indent) {
      fputc(' ', stream);
      column++;
    }
    fprintf(stream, "%.*s", (int)length, text);
    column += length;
    text += length;
    if (*text == '\n') {
      fprintf(stream, "\n%*s", (int)indent, "");
      column = indent;
    }
    if (*text) text++;
  }
  fputc('\n', stream);
}

static void print_option(FILE *stream, const cli_option *option) {
  enum { COLUMN = 28 };
  char label[64], letter[8] = "    ";
  if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
  const int length = snprintf(label, sizeof label, "  %s--%s%s%s", letter, option->name, option->argument ? " " : "",
                              option->argument ? option->argument : "");
  fprintf(stream, "%-*s", COLUMN, label);
  if (length >= COLUMN) fprintf(stream, "\n%*s", COLUMN, "");
  print_wrapped(stream, option->help, COLUMN, 100);
}

void cli_print_command_help(const cli_command *command, FILE *stream) {
  fprintf(stream, "intaglio %s: %s\n\nusage: intaglio %s %s\n\n", command->name, command->summary, command->name,
          command->arguments);
  for (size_t i = 0; i < command->option_count; i++) print_option(stream, &command->options[i]);
  if (!command->details) return;
  fputc('\n', stream);
  print_wrapped(stream, command->details, 0, 100);
}

void cli_print_completion(FILE *stream) {
  fprintf(stream, "# bash completion of intaglio, generated from its command table.\n"
                  "_intaglio() {\n"
                  "  local word=${COMP_WORDS[COMP_CWORD]} options=\n"
                  "  case ${COMP_WORDS[1]} in\n");
  for (size_t i = 0; i < cli_command_count; i++) {
    fprintf(stream, "  %s) options=\"", cli_commands[i]->name);
    for (size_t k = 0; k < cli_commands[i]->option_count; k++)
      fprintf(stream, "%s--%s", k ? " " : "", cli_commands[i]->options[k].name);
    fprintf(stream, "\" ;;\n");
  }
  fprintf(stream, "  esac\n"
                  "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
                  "    COMPREPLY=($(compgen -W \"");
  for (size_t i = 0; i < cli_command_count; i++) fprintf(stream, "%s%s", i ? " " : "", cli_commands[i]->name);
  fprintf(stream, " --help --version\" -- \"$word\"))\n"
                  "  elif [[ $word == -* ]]; then\n"
                  "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
                  "  else\n"
                  "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
                  "  fi\n"
                  "}\n"
                  "complete -o filenames -F _intaglio intaglio\n");
}

// Roff reads a leading dot or quote as a request, and backslashes and dashes specially.
static void print_roff(FILE *stream, const char *text) {
  bool line_start = true;
  for (; *text; text++) {
    if (line_start && (*text == '.' || *text == '\'')) fputs("\\&", stream);
    if (*text == '\\')
      fputs("\\e", stream);
    else if (*text == '-')
      fputs("\\-", stream);
    else
      fputc(*text, stream);
    line_start = *text == '\n';
  }
}

static void print_command_man(FILE *stream, const cli_command *command) {
  fprintf(stream, ".SS intaglio %s ", command->name);
  print_roff(stream, command->arguments);
  fputc('\n', stream);
  print_roff(stream, command->summary);
  fprintf(stream, ".\n");
  if (command->details) {
    fprintf(stream, ".PP\n");
    print_roff(stream, command->details);
    fputc('\n', stream);
  }
  for (size_t k = 0; k < command->option_count; k++) {
    const cli_option *option = &command->options[k];
    fprintf(stream, ".TP\n");
    if (option->letter) fprintf(stream, "\\fB\\-%c\\fR, ", option->letter);
    fprintf(stream, "\\fB\\-\\-");
    print_roff(stream, option->name);
    fprintf(stream, "\\fR");
    if (option->argument) fprintf(stream, " \\fI%s\\fR", option->argument);
    fputc('\n', stream);
    print_roff(stream, option->help);
    fputc('\n', stream);
  }
}

void cli_print_man(FILE *stream) {
  fprintf(stream, ".TH INTAGLIO 1 \"\" \"Intaglio %s\" \"User Commands\"\n", ITG_VERSION);
  fprintf(stream, ".SH NAME\nintaglio \\- integer\\-only neural network compiler and runtime\n"
                  ".SH SYNOPSIS\n.B intaglio\n.I COMMAND\n[OPTIONS] ...\n.SH COMMANDS\n");
  for (size_t i = 0; i < cli_command_count; i++) print_command_man(stream, cli_commands[i]);
  fprintf(stream, ".SH EXIT STATUS\n");
  for (size_t i = 0; i < sizeof exit_codes / sizeof exit_codes[0]; i++) {
    fprintf(stream, ".TP\n%d\n", exit_codes[i].code);
    print_roff(stream, exit_codes[i].meaning);
    fputc('\n', stream);
  }
  fprintf(stream, ".SH ENVIRONMENT\n.TP\nINTAGLIO_CPU\nhighest instruction set to use, as with \\-\\-cpu\n");
}
