// Parsing by the command table, over getopt_long.
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/edit_distance.h"
#include "cli/commands.h"
#include "cli/files.h"

enum { FIRST_LONG = 256 }; // getopt values of long options start beyond all characters.

const char *cli_nearest(const char *word, const char *const *names, size_t count) {
  const char *best = NULL;
  size_t best_distance = strlen(word) / 3 + 2; // With more changes than this it is another word.
  for (size_t i = 0; i < count; i++) {
    const size_t changes = itg_edit_distance(word, names[i]);
    if (changes < best_distance) {
      best_distance = changes;
      best = names[i];
    }
  }
  return best;
}

static int unknown_option(const cli_command *command, const char *given) {
  char word[64];
  const char *start = given + strspn(given, "-");
  snprintf(word, sizeof word, "%.*s", (int)strcspn(start, "="), start);
  const char *names[64];
  size_t count = 0;
  for (size_t i = 0; i < command->option_count && count < 64; i++) names[count++] = command->options[i].name;
  const char *near = cli_nearest(word, names, count);
  if (near) return cli_usage_error("unknown option %s of %s; did you mean --%s?", given, command->name, near);
  return cli_usage_error("unknown option %s of %s; see intaglio %s --help", given, command->name, command->name);
}

static const cli_option *find_option(const cli_command *command, int value) {
  if (value >= FIRST_LONG) return &command->options[value - FIRST_LONG];
  for (size_t i = 0; i < command->option_count; i++) {
    if (command->options[i].letter == value) return &command->options[i];
  }
  return NULL;
}

static void fill_tables(const cli_command *command, struct option *longs, char *shorts) {
  *shorts++ = ':'; // Makes getopt tell a missing value from an unknown option.
  for (size_t i = 0; i < command->option_count; i++) {
    const cli_option *option = &command->options[i];
    longs[i] =
        (struct option){option->name, option->argument ? required_argument : no_argument, NULL, FIRST_LONG + (int)i};
    if (!option->letter) continue;
    *shorts++ = option->letter;
    if (option->argument) *shorts++ = ':';
  }
  *shorts = '\0';
}

static int parse(const cli_command *command, int argc, char **argv, const struct option *longs, const char *shorts,
                 cli_arguments *out) {
  opterr = 0;
  optind = 1;
  for (;;) {
    const int at = optind;
    const int value = getopt_long(argc, argv, shorts, longs, NULL);
    if (value == -1) break;
    const char *given = argv[at < argc ? at : argc - 1];
    if (value == ':')
      return cli_usage_error("%s needs a value; see intaglio %s --help", argv[optind - 1], command->name);
    const cli_option *option = value == '?' ? NULL : find_option(command, value);
    if (!option && optopt >= FIRST_LONG)
      return cli_usage_error("--%s takes no value", command->options[optopt - FIRST_LONG].name);
    if (!option) return unknown_option(command, argv[optind - 1][0] == '-' ? argv[optind - 1] : given);
    if (strcmp(option->name, "help") == 0) {
      cli_print_command_help(command, stdout);
      return cli_finish_output();
    }
    out->values[out->value_count++] = (cli_value){option, option->argument ? optarg : NULL};
  }
  out->positional = argv + optind;
  out->positional_count = (size_t)(argc - optind);
  if (out->positional_count < command->min_positional)
    return cli_usage_error("too few arguments; usage: intaglio %s %s", command->name, command->arguments);
  if (out->positional_count > command->max_positional)
    return cli_usage_error("unexpected argument \"%s\"; usage: intaglio %s %s",
                           out->positional[command->max_positional], command->name, command->arguments);
  return cli_check_outputs(out) == CLI_OK ? -1 : CLI_USAGE;
}

int cli_parse(const cli_command *command, int argc, char **argv, cli_arguments *out) {
  *out = (cli_arguments){.command = command};
  struct option *longs = calloc(command->option_count + 1, sizeof *longs);
  char *shorts = malloc(2 * command->option_count + 2);
  out->values = calloc((size_t)argc + 1, sizeof *out->values);
  int code = CLI_MEMORY;
  if (longs && shorts && out->values) {
    fill_tables(command, longs, shorts);
    code = parse(command, argc, argv, longs, shorts, out);
  } else {
    fprintf(stderr, "intaglio: out of memory\n");
  }
  free(longs);
  free(shorts);
  return code;
}

void cli_arguments_free(cli_arguments *arguments) {
  free(arguments->values);
  arguments->values = NULL;
}

bool cli_has(const cli_arguments *arguments, const char *name) {
  for (size_t i = 0; i < arguments->value_count; i++) {
    if (strcmp(arguments->values[i].option->name, name) == 0) return true;
  }
  return false;
}

const char *cli_get(const cli_arguments *arguments, const char *name) {
  for (size_t i = arguments->value_count; i-- > 0;) {
    if (strcmp(arguments->values[i].option->name, name) == 0) return arguments->values[i].text;
  }
  return NULL;
}

const char **cli_get_all(const cli_arguments *arguments, const char *name, size_t *count) {
  *count = 0;
  if (!cli_has(arguments, name)) return NULL;
  const char **list = calloc(arguments->value_count, sizeof *list);
  if (!list) return NULL;
  for (size_t i = 0; i < arguments->value_count; i++) {
    if (strcmp(arguments->values[i].option->name, name) == 0) list[(*count)++] = arguments->values[i].text;
  }
  return list;
}

bool cli_get_number(const cli_arguments *arguments, const char *name, double low, double high, double *out) {
  const char *text = cli_get(arguments, name);
  if (!text) return true;
  char *end;
  errno = 0;
  const double value = strtod(text, &end);
  if (end == text || *end || errno || !(value >= low && value <= high)) {
    cli_usage_error("--%s must be a number from %g to %g, not \"%s\"", name, low, high, text);
    return false;
  }
  *out = value;
  return true;
}

bool cli_get_integer(const cli_arguments *arguments, const char *name, long low, long high, int *out) {
  const char *text = cli_get(arguments, name);
  if (!text) return true;
  char *end;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (end == text || *end || errno || value < low || value > high) {
    cli_usage_error("--%s must be a whole number from %ld to %ld, not \"%s\"", name, low, high, text);
    return false;
  }
  *out = (int)value;
  return true;
}

bool cli_check_backend(const cli_arguments *arguments) {
  static const char *const options[] = {"target", "qnn-dir", "npu-performance", "proof"};
  const char *backend = cli_get(arguments, "backend");
  if (backend && strcmp(backend, "cpu") != 0) return true;
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    if (!cli_has(arguments, options[i])) continue;
    cli_usage_error("--%s belongs to --backend qnn; without it the CPU computes", options[i]);
    return false;
  }
  return true;
}

bool cli_get_cpu(const cli_arguments *arguments, const char **out) {
  const char *cpu = cli_get(arguments, "cpu"), *arithmetic = cli_get(arguments, "arithmetic");
  if (cpu && arithmetic) {
    cli_usage_error("--cpu and --arithmetic exclude each other");
    return false;
  }
  if (arithmetic && strcmp(arithmetic, "native") != 0 && strncmp(arithmetic, "htp-", 4) != 0) {
    cli_usage_error("--arithmetic is native, htp-v68 or htp-v73");
    return false;
  }
  *out = arithmetic && strcmp(arithmetic, "native") != 0 ? arithmetic : cpu;
  return true;
}
