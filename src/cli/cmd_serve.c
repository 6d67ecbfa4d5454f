// intaglio serve: answers over HTTP until it is told to stop.
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parallel.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/serving.h"
#include "server/compiling.h"
#include "server/health.h"
#include "server/immich.h"
#include "server/settings.h"

static const cli_option options[] = {
    {"immich", 0, NULL, "the contract of Immich's machine-learning service"},
    {"openai", 0, "MODEL.itg", "OpenAI's chat completions API over this compiled language model (port 8080)"},
    {"model-name", 0, "NAME", "of --openai in requests and answers (default: the file's name)"},
    {"models", 0, "DIR", "folder of models, as Immich lays it out (default: $MACHINE_LEARNING_CACHE_FOLDER, /cache)"},
    {"host", 0, "ADDRESS", "address to listen on (default: $IMMICH_HOST, or [::], which is all of IPv6 and IPv4)"},
    {"port", 0, "N", "port to listen on (default: $IMMICH_PORT, or 3003); 0 takes a free one, which the log names"},
    {"immich-compat", 0, "VERSION",
     "of Immich's server: 3 (default) or 2.7. Only status codes follow it yet: pictures and text are prepared as for "
     "3"},
    CLI_OPTION_BACKEND,
    CLI_OPTION_CONTEXT,
    CLI_OPTION_QNN_DIR,
    CLI_OPTION_NPU_PERFORMANCE,
    {"calibration", 0, "DIR",
     "photographs with which float models are compiled when they are first used; they never leave this machine. "
     "Without it, float models stay float"},
    {"precision", 'p', "NAME", "of models that are compiled: a8w8, a8w8+s16 (default) or a16w8"},
    {"offline", 0, NULL,
     "never fetch a model; without it, one that is asked for and not there is fetched from the hub as "
     "intaglio pull does"},
    {"alias", 0, "NAME=MODEL",
     "requests for NAME are served by MODEL; may be repeated. Embeddings of different models "
     "cannot be compared: an alias for what a library was indexed with needs a new index"},
    {"model-ttl", 0, "SECONDS",
     "close a model after this long without a request; 0: never (default: "
     "$MACHINE_LEARNING_MODEL_TTL, or 300)"},
    {"preload", 0, "TASK/TYPE/MODEL",
     "load at the start and keep, e.g. clip/textual/ViT-B-32__openai; may be repeated"},
    {"workers", 0, "N",
     "requests worked on at the same time (default: $MACHINE_LEARNING_REQUEST_THREADS, or one a "
     "processor and at least 4)"},
    {"threads", 't', "N",
     "threads of a model (default: $MACHINE_LEARNING_MODEL_INTRA_OP_THREADS, or one a processor "
     "and at most 4)"},
    {"queue", 0, "N", "requests that may wait before others get 503 (default: 64)"},
    {"max-body", 0, "MIB", "largest request (default: 256); all requests together hold four times that"},
    {"max-pixels", 0, "MEGAPIXELS", "largest picture (default: 100)"},
    {"max-connections", 0, "N", "connections at the same time; more wait (default: 256)"},
    CLI_OPTION_CPU,
    {"log-level", 0, "LEVEL", "debug, info, warn or error (default: $IMMICH_LOG_LEVEL, or info)"},
    {"health", 0, NULL, "ask the service that listens on the host and port whether it is well, and end with 0 if so"},
    CLI_OPTION_HELP,
};

enum { MAX_ALIASES = 32, HEALTH_SECONDS = 2, DEFAULT_QUEUE = 64 };

typedef struct serve_run {
  const cli_arguments *arguments;
  itg_settings settings;
  itg_immich_options immich;
  itg_models_options models;
  itg_compile_service_options compiling;
  itg_model_alias aliases[MAX_ALIASES];
  char *alias_text[MAX_ALIASES];
  char program[4096], npu[2048];
} serve_run;

// ---- reading what the user wants; each returns CLI_OK or an exit code after a message ----

static int read_numbers(serve_run *run) {
  const cli_arguments *arguments = run->arguments;
  itg_settings *settings = &run->settings;
  int queue = DEFAULT_QUEUE, body = 256, pixels = 100, connections = 256;
  if (!cli_get_integer(arguments, "port", 0, 65535, &settings->port) ||
      !cli_get_integer(arguments, "model-ttl", 0, 1000000000, &settings->idle_seconds) ||
      !cli_get_integer(arguments, "workers", 1, 256, &settings->workers) ||
      !cli_get_integer(arguments, "threads", 1, 256, &settings->threads) ||
      !cli_get_integer(arguments, "queue", 1, 100000, &queue) ||
      !cli_get_integer(arguments, "max-body", 1, 4096, &body) ||
      !cli_get_integer(arguments, "max-pixels", 1, 1000, &pixels) ||
      !cli_get_integer(arguments, "max-connections", 1, 100000, &connections))
    return CLI_USAGE;
  const int processors = itg_processor_count();
  if (settings->workers == 0) settings->workers = processors > 4 ? processors : 4;
  if (settings->threads == 0) settings->threads = processors < 4 ? processors : 4;
  run->immich.port = (uint16_t)settings->port;
  run->immich.worker_count = (size_t)settings->workers;
  run->immich.queue_capacity = (size_t)queue;
  run->immich.image_limits =
      (itg_image_limits){.max_pixels = (int64_t)pixels * 1000000, .max_bytes = (size_t)body << 20};
  run->immich.http = (itg_http_limits){.max_body = (size_t)body << 20,
                                       .max_body_total = (size_t)body << 22,
                                       .max_connections = (unsigned)connections,
                                       .idle_seconds = (unsigned)settings->keep_alive_seconds};
  return CLI_OK;
}

static int read_aliases(serve_run *run) {
  size_t count = 0;
  for (size_t i = 0; i < run->arguments->value_count; i++) {
    const cli_value *value = &run->arguments->values[i];
    if (strcmp(value->option->name, "alias") != 0) continue;
    const char *sign = strchr(value->text, '=');
    if (!sign || sign == value->text || !sign[1] || count == MAX_ALIASES)
      return cli_usage_error("--alias is NAME=MODEL, at most %d times, not \"%s\"", MAX_ALIASES, value->text);
    char *copy = run->alias_text[count] = strdup(value->text), *equals = copy ? strchr(copy, '=') : NULL;
    if (!equals) return CLI_MEMORY;
    *equals = '\0';
    run->aliases[count++] = (itg_model_alias){copy, equals + 1};
  }
  run->models.aliases = run->aliases;
  run->models.alias_count = count;
  return CLI_OK;
}

static int add_preload(itg_settings *settings, const char *text) {
  for (itg_service_kind kind = 0; kind < ITG_SERVICE_KIND_COUNT; kind++) {
    char prefix[64];
    const int length = snprintf(prefix, sizeof prefix, "%s/%s/", itg_service_task(kind), itg_service_type(kind));
    if (strncmp(text, prefix, (size_t)length) != 0) continue;
    const size_t rest = strlen(text + length);
    if (rest == 0 || rest >= ITG_MODEL_NAME || settings->preload_count == ITG_PRELOADS) break;
    itg_preload *preload = &settings->preloads[settings->preload_count++];
    preload->kind = kind;
    memcpy(preload->model, text + length, rest + 1);
    return CLI_OK;
  }
  return cli_usage_error("--preload is TASK/TYPE/MODEL, e.g. facial-recognition/detection/buffalo_l, not \"%s\"", text);
}

static int read_names(serve_run *run) {
  const cli_arguments *arguments = run->arguments;
  itg_settings *settings = &run->settings;
  const char *version = cli_get(arguments, "immich-compat"), *level = cli_get(arguments, "log-level");
  const char *backend = cli_get(arguments, "backend");
  if (version && strcmp(version, "3") != 0 && strcmp(version, "2.7") != 0)
    return cli_usage_error("--immich-compat is 3 or 2.7, not \"%s\"", version);
  if (version && strcmp(version, "2.7") == 0) run->immich.version = ITG_IMMICH_2_7;
  if (level && !itg_log_parse_level(level, &settings->log_level))
    return cli_usage_error("--log-level is debug, info, warn or error, not \"%s\"", level);
  if (backend && strcmp(backend, "cpu") != 0 && strcmp(backend, "qnn") != 0)
    return cli_usage_error("--backend is cpu or qnn, not \"%s\"", backend);
  if (cli_get(arguments, "host")) settings->host = cli_get(arguments, "host");
  if (cli_get(arguments, "models")) settings->models = cli_get(arguments, "models");
  for (size_t i = 0; i < arguments->value_count; i++) {
    if (strcmp(arguments->values[i].option->name, "preload") != 0) continue;
    const int code = add_preload(settings, arguments->values[i].text);
    if (code != CLI_OK) return code;
  }
  return read_aliases(run);
}

static void describe_npu(serve_run *run) {
  const char *backend = run->models.network.backend;
  if (!backend || strcmp(backend, "qnn") != 0) {
    snprintf(run->npu, sizeof run->npu, "not asked for; --backend qnn uses it");
    return;
  }
  itg_survey *survey = NULL;
  itg_diagnostic why = {0};
  if (itg_survey_create(NULL, run->models.network.qnn_directory, &why, &survey) != ITG_OK) {
    snprintf(run->npu, sizeof run->npu, "asked for, but this machine could not be looked at: %s", why.message);
    return;
  }
  size_t length = (size_t)snprintf(run->npu, sizeof run->npu, "%s", itg_survey_verdict(survey));
  const itg_finding *finding;
  for (size_t i = 0; length < sizeof run->npu && (finding = itg_survey_finding(survey, i)) != NULL; i++) {
    if (finding->state != ITG_FINDING_MISSING) continue;
    length +=
        (size_t)snprintf(run->npu + length, sizeof run->npu - length, " %s: %s%s%s.", finding->topic, finding->fact,
                         finding->next_step ? "; " : "", finding->next_step ? finding->next_step : "");
  }
  itg_survey_destroy(survey);
}

static int read_arguments(serve_run *run) {
  const cli_arguments *arguments = run->arguments;
  int code = read_numbers(run);
  if (code == CLI_OK) code = read_names(run);
  if (code != CLI_OK) return code;
  const itg_settings *settings = &run->settings;
  run->immich.host = settings->host;
  run->models.folder = settings->models;
  run->models.download = !cli_has(arguments, "offline");
  run->models.organization = settings->organization;
  run->models.download_waiters =
      settings->workers > 2 ? (size_t)settings->workers - 2 : 0; // One is left for the others.
  run->models.idle_seconds = settings->idle_seconds;
  run->models.poll_seconds = settings->poll_seconds;
  run->models.network = (itg_network_options){.backend = cli_get(arguments, "backend"),
                                              .target = cli_get(arguments, "target"),
                                              .qnn_directory = cli_get(arguments, "qnn-dir"),
                                              .npu_performance = cli_get(arguments, "npu-performance"),
                                              .cpu = cli_get(arguments, "cpu"),
                                              .thread_count = settings->threads};
  run->compiling = (itg_compile_service_options){.program = run->program,
                                                 .calibration = cli_get(arguments, "calibration"),
                                                 .precision = cli_get(arguments, "precision"),
                                                 .target = cli_get(arguments, "target"),
                                                 .qnn_directory = cli_get(arguments, "qnn-dir")};
  describe_npu(run);
  run->immich.npu = run->npu;
  struct stat info;
  if (stat(settings->models, &info) != 0 || !S_ISDIR(info.st_mode))
    return cli_usage_error("there is no folder %s; say with --models DIR (or MACHINE_LEARNING_CACHE_FOLDER) where the "
                           "models are",
                           settings->models);
  return CLI_OK;
}

// ---- running ----

// The C library keeps an arena a thread, and what is free in one is of no use to the others: a service that had worked kept twice
// the memory. Allocations are few (some 60 a request), so threads hardly wait for each other. Pictures and weights are mapped one by
// one, which gives them back when they are freed; left alone the library soon takes them from the arenas, and these keep holes.
static void share_allocator(void) {
#if defined(__GLIBC__)
  enum { ARENAS = 2, MAPPED_FROM = 4 << 20 };
  mallopt(M_ARENA_MAX, ARENAS);
  mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
#endif
}

static itg_status serve(serve_run *run, itg_diagnostic *diagnostic) {
  itg_compile_service *compiling = NULL;
  itg_models *models = NULL;
  itg_immich *immich = NULL;
  itg_status status = ITG_OK;
  if (run->compiling.calibration) status = itg_compile_service_create(&run->compiling, diagnostic, &compiling);
  run->models.compiling = compiling;
  if (status == ITG_OK) status = itg_models_create(&run->models, diagnostic, &models);
  if (status == ITG_OK) status = itg_immich_start(&run->immich, models, diagnostic, &immich);
  if (status == ITG_OK) {
    itg_log(ITG_LOG_INFO, "listening on %s, port %u; models in %s", run->immich.host, itg_immich_port(immich),
            run->models.folder);
    for (size_t i = 0; i < run->settings.preload_count; i++)
      itg_models_preload(models, run->settings.preloads[i].kind, run->settings.preloads[i].model);
    cli_wait_for_end();
    itg_log(ITG_LOG_INFO, "stopping: finishing what was asked for");
    itg_models_cancel(models);
  }
  itg_immich_stop(immich);
  itg_models_destroy(models);
  itg_compile_service_destroy(compiling);
  return status;
}

static int run_serve(const cli_arguments *arguments) {
  serve_run run = {.arguments = arguments};
  itg_diagnostic why = {0};
  if (itg_settings_from_environment(&why, &run.settings) != ITG_OK) return cli_fail(&why);
  if (cli_has(arguments, "health")) {
    if (!cli_get_integer(arguments, "port", 1, 65535, &run.settings.port)) return CLI_USAGE;
    const char *host = cli_get(arguments, "host") ? cli_get(arguments, "host") : run.settings.host;
    const itg_status health = itg_health_check(host, (uint16_t)run.settings.port, HEALTH_SECONDS, &why);
    return health == ITG_OK ? CLI_OK : cli_fail(&why);
  }
  if (cli_has(arguments, "openai")) return cli_serve_openai(arguments);
  if (!cli_has(arguments, "immich"))
    return cli_usage_error("serve needs --immich or --openai MODEL.itg; see intaglio serve --help");
  const ssize_t length = readlink("/proc/self/exe", run.program, sizeof run.program - 1);
  if (length <= 0) return cli_usage_error("cannot find this program's own file; is /proc mounted?");
  int code = read_arguments(&run);
  if (code == CLI_OK) {
    share_allocator();
    cli_hold_signals();
    itg_log_set_level(run.settings.log_level);
    if (serve(&run, &why) != ITG_OK) code = cli_fail(&why);
  }
  for (size_t i = 0; i < MAX_ALIASES; i++) free(run.alias_text[i]);
  return code;
}

const cli_command cli_serve = {
    .name = "serve",
    .arguments = "--immich | --openai MODEL.itg [options]",
    .summary = "answer over HTTP: Immich's machine-learning service, or OpenAI's chat completions",
    .details =
        "GET / is a status page in a browser, GET /status the same as JSON, GET /metrics for Prometheus.\n"
        "Models are opened when they are first asked for: the compiled file (.itg) where there is one, otherwise the "
        "float model (.onnx) on the CPU, which is compiled in the background when --calibration is given.\n"
        "With --openai: POST /v1/chat/completions (also streamed), GET /v1/models, GET /health; images as data URLs. "
        "--workers is the number of conversations answered at the same time (default 1).\n"
        "The environment variables of Immich's own container are understood; options come before them.\n"
        "Replace a model that is being served with mv, never by copying over it: its weights are mapped.\n"
        "SIGTERM finishes the requests that were taken; a second one ends at once.",
    CLI_OPTIONS(options),
    .run = run_serve,
};
