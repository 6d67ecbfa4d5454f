// The one table of commands and options. Parsing, --help, shell completion and the man page all come from it.
#ifndef ITG_CLI_COMMANDS_H
#define ITG_CLI_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "intaglio/status.h"

// Exit codes; shown by --help and the man page, never renumbered.
enum {
  CLI_OK = 0,
  CLI_BELOW = 1, // The work was done and the answer is no: a comparison below its limit, a collapsed result.
  CLI_USAGE = 2,
  CLI_IO = 3,
  CLI_FORMAT = 4,
  CLI_UNSUPPORTED = 5,
  CLI_MEMORY = 6,
  CLI_DEVICE = 7,
  CLI_INTERNAL = 70,
  CLI_INTERRUPTED = 130,
};

typedef struct cli_option {
  const char *name;     // Without dashes.
  char letter;          // 0 for none.
  const char *argument; // What follows, e.g. "FILE"; NULL for a switch.
  const char *help;
} cli_option;

typedef struct cli_arguments cli_arguments;

typedef struct cli_command {
  const char *name;
  const char *arguments; // Of the usage line, e.g. "MODEL -o OUT.itg".
  const char *summary;   // One line.
  const char *details;   // Paragraphs, or NULL.
  size_t min_positional, max_positional;
  const cli_option *options;
  size_t option_count;
  int (*run)(const cli_arguments *arguments);
} cli_command;

#define CLI_OPTIONS(list) .options = list, .option_count = sizeof list / sizeof list[0]

// Options that several commands share; macros, because the tables are constants.
#define CLI_OPTION_HELP \
  { "help", 'h', NULL, "show this help" }
#define CLI_OPTION_JSON \
  { "json", 0, NULL, "write the result as JSON to standard output" }
#define CLI_OPTION_QUIET \
  { "quiet", 'q', NULL, "no progress and no notes; errors only" }
#define CLI_OPTION_THREADS \
  { "threads", 't', "N", "threads to use (default: one a processor)" }
#define CLI_OPTION_SHAPE \
  { "shape", 0, "INPUT=DIMS", "fixes an input's unknown dimensions, e.g. x=1x3x640x640; may be repeated" }
#define CLI_OPTION_PREPROCESS \
  { "preprocess", 0, "NAME|FILE", "from picture to input: a built-in name (imagenet, raw-255, ..) or a JSON file" }
#define CLI_OPTION_KIND                                                                                            \
  {                                                                                                                \
    "kind", 0, "KIND",                                                                                             \
        "what the network does with the samples: image (default), face-detection, face-recognition, clip-visual, " \
        "clip-textual (files of one text a line), ocr-detection, ocr-recognition"                                  \
  }
#define CLI_OPTION_FACE_MODELS                                                                                       \
  {                                                                                                                  \
    "face-models", 0, "DIR",                                                                                         \
        "folder of fr_detect.onnx and fr_landmark.onnx (default: beside the float model), or a detection folder of " \
        "the Immich service"                                                                                         \
  }
#define CLI_OPTION_TEXT_MODELS \
  { "text-models", 0, "DIR", "--kind ocr-recognition: folder of the detector's model.onnx (default: ../detection)" }
#define CLI_OPTION_ALL_FACES \
  { "all-faces", 0, NULL, "every face of a photograph is a sample, not only the most certain one" }
#define CLI_OPTION_IDENTITIES                                                                                        \
  {                                                                                                                  \
    "identities", 0, "RULE",                                                                                         \
        "who is who, for the report: folder (names of sub-folders, the default), prefix (file name up to the first " \
        "'_', '-', '.' or digit), none"                                                                              \
  }
#define CLI_OPTION_LIMIT \
  { "limit", 0, "N", "use at most N samples of each kind, spread evenly over what is there" }
#define CLI_OPTION_CPU \
  { "cpu", 0, "NAME", "highest instruction set to use: reference, avx2, avxvnni, .." }
#define CLI_OPTION_ARITHMETIC \
  { "arithmetic", 0, "NAME", "native (default), or what an NPU computes: htp-v68, htp-v73" }
#define CLI_OPTION_BACKEND \
  { "backend", 0, "NAME", "cpu (default), or qnn: the vendor's NPU library with the context in the file" }
#define CLI_OPTION_CONTEXT \
  { "target", 0, "CHIP", "which of the file's NPU contexts (--backend qnn)" }
#define CLI_OPTION_QNN_DIR                                                                                      \
  {                                                                                                             \
    "qnn-dir", 0, "DIR",                                                                                        \
        "folder of the vendor's NPU library; otherwise $INTAGLIO_QNN_DIR, $QNN_SDK_ROOT and installed packages" \
  }
#define CLI_OPTION_NPU_PERFORMANCE                                                                   \
  {                                                                                                  \
    "npu-performance", 0, "MODE",                                                                    \
        "burst, high, balanced (default), power-saver, low-power, or default: the library's own way" \
  }

extern const cli_command cli_compile, cli_run, cli_compare, cli_inspect, cli_bench, cli_export, cli_serve, cli_pull,
    cli_doctor;
extern const cli_command cli_chat, cli_version;
extern const cli_command *const cli_commands[];
extern const size_t cli_command_count;

// ---- parsed arguments ----

typedef struct cli_value {
  const cli_option *option;
  const char *text; // NULL for a switch.
} cli_value;

struct cli_arguments {
  const cli_command *command;
  char **positional;
  size_t positional_count;
  cli_value *values; // In the order given.
  size_t value_count;
};

// Parses argv[1..] (argv[0] is the command's name). Returns -1 to go on; otherwise the exit code, the help or the error
// being printed already. Free afterwards in both cases.
int cli_parse(const cli_command *command, int argc, char **argv, cli_arguments *out);
void cli_arguments_free(cli_arguments *arguments);

bool cli_has(const cli_arguments *arguments, const char *name);
const char *cli_get(const cli_arguments *arguments, const char *name); // The last one, or NULL.
// All values of an option in a malloc'ed list (NULL and *count 0 when there are none or no memory).
const char **cli_get_all(const cli_arguments *arguments, const char *name, size_t *count);
// A number within [low, high]; leaves *out alone when absent. False after printing an error.
bool cli_get_integer(const cli_arguments *arguments, const char *name, long low, long high, int *out);
// --cpu or --arithmetic as the session takes it ("native" is the default); false after a message.
bool cli_get_cpu(const cli_arguments *arguments, const char **out);
// Options of an NPU need --backend qnn; false after a message.
bool cli_check_backend(const cli_arguments *arguments);
bool cli_get_number(const cli_arguments *arguments, const char *name, double low, double high, double *out);

// ---- messages ----

// "intaglio: what (where)" on standard error; returns the exit code of the status.
int cli_fail(const itg_diagnostic *diagnostic);
// The same for wrong usage; returns CLI_USAGE.
int cli_usage_error(const char *format, ...) ITG_PRINTF(1, 2);
// The nearest of `names` to a mistyped word, or NULL when none is near.
const char *cli_nearest(const char *word, const char *const *names, size_t count);

void cli_print_help(FILE *stream);
void cli_print_command_help(const cli_command *command, FILE *stream);
void cli_print_completion(FILE *stream); // For bash.
void cli_print_man(FILE *stream);        // For man -l -.
// Flushes standard output; CLI_OK, or CLI_IO after printing an error (a full disk behind it).
int cli_finish_output(void);

// Removes unfinished output files when the user interrupts, and ends with 130.
void cli_catch_interrupts(void);

#endif
