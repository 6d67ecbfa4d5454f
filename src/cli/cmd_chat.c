// intaglio chat: a conversation with a compiled language model.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/commands.h"
#include "intaglio/language.h"
#include "server/reply.h"

static const cli_option options[] = {
    {"prompt", 0, "TEXT", "answer this and end; without it, lines are read until the input ends"},
    {"system", 0, "TEXT", "the system message the conversation begins with"},
    {"image", 0, "FILE", "a picture for the (first) question; may be repeated"},
    {"max-tokens", 'n', "N", "longest answer (default: as long as the context allows)"},
    {"temperature", 0, "X", "0 (default): always the likeliest token"},
    {"top-k", 0, "N", "only the N likeliest tokens; 0 (default): all"},
    {"top-p", 0, "X", "only the likeliest tokens that together have this probability (default: 1)"},
    {"min-p", 0, "X", "only tokens at least this share as likely as the likeliest (default: 0)"},
    {"repeat-penalty", 0, "X", "makes tokens that occurred less likely (default: 1, no)"},
    {"seed", 0, "N", "equal seeds give equal answers (default: 0)"},
    {"stop", 0, "TEXT", "end the answer before this text; may be repeated"},
    {"raw", 0, NULL, "the prompt is the model's input as it is, without its chat template"},
    {"single-tile", 0, NULL, "do not cut pictures into tiles: faster, less detail"},
    CLI_OPTION_CPU,
    CLI_OPTION_THREADS,
    CLI_OPTION_JSON,
    CLI_OPTION_QUIET,
    CLI_OPTION_HELP,
};

enum { MAX_IMAGES = 32 };

// A message of one text, with pictures in front of it; owns everything.
typedef struct turn {
  char *text;
  itg_chat_part *parts;
  size_t part_count;
} turn;

typedef struct chat_run {
  const cli_arguments *arguments;
  itg_diagnostic diagnostic;
  itg_language *language;
  itg_chat *chat;
  itg_chat_settings settings;
  const char **stops;
  itg_image images[MAX_IMAGES]; // Read, and not used in a message yet from `image_used` on.
  size_t image_count, image_used;
  turn *turns;
  itg_chat_message *messages;
  size_t count, capacity;
  itg_reply answer; // Of the last question.
  bool json, quiet;
} chat_run;

// ---- the conversation ----

static bool add_turn(chat_run *run, const char *role, const char *text) {
  if (run->count == run->capacity) {
    const size_t capacity = run->capacity ? 2 * run->capacity : 16;
    turn *turns = realloc(run->turns, capacity * sizeof *turns);
    if (turns) run->turns = turns;
    itg_chat_message *messages = realloc(run->messages, capacity * sizeof *messages);
    if (messages) run->messages = messages;
    if (!turns || !messages) return false;
    run->capacity = capacity;
  }
  const bool user = strcmp(role, "user") == 0;
  const size_t pictures = user ? run->image_count - run->image_used : 0;
  turn t = {.text = strdup(text), .parts = calloc(pictures + 1, sizeof *t.parts), .part_count = pictures + 1};
  if (!t.text || !t.parts) {
    free(t.text);
    free(t.parts);
    return false;
  }
  for (size_t i = 0; i < pictures; i++) t.parts[i].image = &run->images[run->image_used++];
  t.parts[pictures] = (itg_chat_part){t.text, strlen(t.text), NULL};
  run->turns[run->count] = t;
  run->messages[run->count++] = (itg_chat_message){role, t.parts, t.part_count};
  return true;
}

static void drop_turns(chat_run *run, size_t count) {
  while (run->count > count) {
    turn *t = &run->turns[--run->count];
    free(t->text);
    free(t->parts);
  }
}

static int read_image(chat_run *run, const char *path) {
  if (!itg_language_sees(run->language)) return cli_usage_error("%s: this model does not take pictures", path);
  if (run->image_count == MAX_IMAGES) return cli_usage_error("more than %d pictures", MAX_IMAGES);
  if (itg_image_read(path, NULL, &run->diagnostic, &run->images[run->image_count]) != ITG_OK)
    return cli_fail(&run->diagnostic);
  run->image_count++;
  return CLI_OK;
}

// ---- one answer ----

static bool on_text(void *context, const char *text, size_t size) {
  chat_run *run = context;
  itg_reply_append(&run->answer, text, size);
  if (run->json) return true;
  fwrite(text, 1, size, stdout);
  return fflush(stdout) == 0;
}

static void print_json(const chat_run *run, const itg_chat_statistics *s) {
  static const char *const ends[] = {"stop", "length", "cancelled"};
  itg_reply reply = {0};
  itg_reply_text(&reply, "{\"answer\": ");
  itg_reply_json_string(&reply, run->answer.data);
  itg_reply_print(&reply,
                  ", \"end\": \"%s\", \"prompt_tokens\": %zu, \"cached_tokens\": %zu, \"answer_tokens\": %zu, "
                  "\"image_tiles\": %zu, \"image_seconds\": %.6f, \"prefill_seconds\": %.6f, "
                  "\"first_token_seconds\": %.6f, \"decode_seconds\": %.6f, \"peak_resident_bytes\": %zu, \"ids\": [",
                  ends[s->end], s->prompt_tokens, s->cached_tokens, s->answer_tokens, s->tiles, s->image_seconds,
                  s->prefill_seconds, s->first_token_seconds, s->decode_seconds, s->peak_resident_bytes);
  size_t count = 0;
  const int32_t *ids = itg_chat_answer_ids(run->chat, &count);
  for (size_t i = 0; i < count; i++) itg_reply_print(&reply, i ? ", %d" : "%d", (int)ids[i]);
  itg_reply_text(&reply, "]}\n");
  if (!reply.failed) fwrite(reply.data, 1, reply.size, stdout);
  itg_reply_free(&reply);
}

static double rate(size_t tokens, double seconds) { return seconds > 0 ? (double)tokens / seconds : 0; }

static void print_statistics(const itg_chat_statistics *s) {
  const size_t computed = s->prompt_tokens - s->cached_tokens, steps = s->answer_tokens > 1 ? s->answer_tokens - 1 : 0;
  if (s->tiles) fprintf(stderr, "pictures: %zu tiles, %.2f s; ", s->tiles, s->image_seconds);
  fprintf(stderr, "prompt: %zu tokens (%zu known), %.2f s, %.0f tokens/s; first token after %.2f s; ", s->prompt_tokens,
          s->cached_tokens, s->prefill_seconds, rate(computed, s->prefill_seconds), s->first_token_seconds);
  fprintf(stderr, "answer: %zu tokens, %.1f tokens/s; at most %zu MB resident\n", s->answer_tokens,
          rate(steps, s->decode_seconds), s->peak_resident_bytes / 1000000);
}

static int answer(chat_run *run) {
  itg_chat_statistics statistics;
  run->answer.size = 0;
  if (itg_chat_generate(run->chat, run->messages, run->count, &run->settings, on_text, run, &run->diagnostic,
                        &statistics) != ITG_OK)
    return cli_fail(&run->diagnostic);
  itg_reply_append(&run->answer, "", 1);
  if (run->answer.failed) return CLI_MEMORY;
  if (run->json) {
    print_json(run, &statistics);
  } else {
    putchar('\n');
    if (!run->quiet) print_statistics(&statistics);
  }
  return CLI_OK;
}

// ---- reading questions ----

static int obey(chat_run *run, const char *line, size_t first) {
  if (strcmp(line, "/reset") == 0) {
    drop_turns(run, first);
  } else if (strncmp(line, "/image ", 7) == 0) {
    read_image(run, line + 7);
  } else {
    fputs("/image FILE adds a picture to the next question, /reset starts anew, /exit ends\n", stderr);
  }
  return CLI_OK;
}

static int converse(chat_run *run) {
  char *line = NULL;
  size_t capacity = 0;
  const size_t first = run->count; // The system message stays.
  const bool terminal = isatty(STDIN_FILENO) && !run->json;
  int code = CLI_OK;
  while (code == CLI_OK) {
    if (terminal) fputs("> ", stderr);
    const ssize_t length = getline(&line, &capacity, stdin);
    if (length < 0) break;
    if (length > 0 && line[length - 1] == '\n') line[length - 1] = '\0';
    if (strcmp(line, "/exit") == 0) break;
    if (line[0] == '\0') continue;
    if (line[0] == '/') {
      code = obey(run, line, first);
      continue;
    }
    const size_t before = run->count;
    if (!add_turn(run, "user", line)) code = CLI_MEMORY;
    if (code == CLI_OK && answer(run) != CLI_OK) {
      drop_turns(run, before); // The question that failed is forgotten; others can be asked.
      if (!terminal) code = CLI_BELOW;
      continue;
    }
    if (code == CLI_OK && !add_turn(run, "assistant", run->answer.data)) code = CLI_MEMORY;
  }
  free(line);
  return code;
}

// ---- setting up ----

static int read_settings(chat_run *run) {
  const cli_arguments *arguments = run->arguments;
  itg_chat_settings *s = &run->settings;
  int tokens = 0, top_k = 0, seed = 0;
  size_t stops = 0;
  itg_chat_settings_default(s);
  if (!cli_get_integer(arguments, "max-tokens", 1, 1 << 24, &tokens) ||
      !cli_get_number(arguments, "temperature", 0, 100, &s->temperature) ||
      !cli_get_integer(arguments, "top-k", 0, 1 << 20, &top_k) ||
      !cli_get_number(arguments, "top-p", 1e-9, 1, &s->top_p) || !cli_get_number(arguments, "min-p", 0, 1, &s->min_p) ||
      !cli_get_number(arguments, "repeat-penalty", 0.01, 100, &s->repetition_penalty) ||
      !cli_get_integer(arguments, "seed", 0, INT32_MAX, &seed))
    return CLI_USAGE;
  run->stops = cli_get_all(arguments, "stop", &stops);
  s->max_tokens = (size_t)tokens;
  s->top_k = top_k;
  s->seed = (uint64_t)seed;
  s->stops = run->stops;
  s->stop_count = stops;
  s->raw = cli_has(arguments, "raw");
  s->single_tile = cli_has(arguments, "single-tile");
  run->json = cli_has(arguments, "json");
  run->quiet = cli_has(arguments, "quiet");
  return CLI_OK;
}

static int open_model(chat_run *run) {
  const cli_arguments *arguments = run->arguments;
  itg_session_options session;
  itg_session_options_default(&session);
  if (!cli_get_integer(arguments, "threads", 1, 1024, &session.thread_count) || !cli_get_cpu(arguments, &session.cpu))
    return CLI_USAGE;
  if (itg_language_open(arguments->positional[0], &run->diagnostic, &run->language) != ITG_OK ||
      itg_chat_create(run->language, &session, &run->diagnostic, &run->chat) != ITG_OK)
    return cli_fail(&run->diagnostic);
  size_t count = 0;
  const char **paths = cli_get_all(arguments, "image", &count);
  int code = CLI_OK;
  for (size_t i = 0; i < count && code == CLI_OK; i++) code = read_image(run, paths[i]);
  free(paths);
  return code;
}

static int chat(chat_run *run) {
  const char *system = cli_get(run->arguments, "system"), *prompt = cli_get(run->arguments, "prompt");
  int code = read_settings(run);
  if (code == CLI_OK) code = open_model(run);
  if (code != CLI_OK) return code;
  if (system && !add_turn(run, "system", system)) return CLI_MEMORY;
  if (!prompt) return converse(run);
  return add_turn(run, "user", prompt) ? answer(run) : CLI_MEMORY;
}

static int run_chat(const cli_arguments *arguments) {
  chat_run run = {.arguments = arguments};
  const int code = chat(&run);
  drop_turns(&run, 0);
  free(run.turns);
  free(run.messages);
  free(run.stops);
  for (size_t i = 0; i < run.image_count; i++) itg_image_free(&run.images[i]);
  itg_reply_free(&run.answer);
  itg_chat_destroy(run.chat);
  itg_language_close(run.language);
  return code == CLI_OK ? cli_finish_output() : code;
}

const cli_command cli_chat = {
    .name = "chat",
    .arguments = "MODEL.itg [--prompt TEXT] [options]",
    .summary = "talk to a compiled language or vision-language model",
    .details =
        "MODEL.itg is what intaglio compile made of a language model.\n"
        "Without --prompt each line of the input is a question; /image FILE adds a picture to the next one, /reset "
        "starts anew, /exit ends. What was said before is not computed again.",
    .min_positional = 1,
    .max_positional = 1,
    CLI_OPTIONS(options),
    .run = run_chat,
};
