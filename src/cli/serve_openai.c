// intaglio serve --openai, and the waiting that all services share.
#include <signal.h>
#include <string.h>

#include "base/status.h"
#include "cli/serving.h"
#include "server/log.h"
#include "server/openai.h"

enum { DEFAULT_PORT = 8080, DEFAULT_QUEUE = 64, DEFAULT_BODY = 64 };

static void service_signals(sigset_t *out) {
  sigemptyset(out);
  sigaddset(out, SIGINT);
  sigaddset(out, SIGTERM);
  sigaddset(out, SIGHUP);
}

void cli_hold_signals(void) {
  sigset_t signals;
  service_signals(&signals);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  signal(SIGPIPE, SIG_IGN);
}

void cli_wait_for_end(void) {
  sigset_t signals;
  service_signals(&signals);
  int number = 0;
  sigwait(&signals, &number);
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static int read_options(const cli_arguments *arguments, itg_openai_options *out) {
  int port = DEFAULT_PORT, workers = 1, queue = DEFAULT_QUEUE, body = DEFAULT_BODY, pixels = 100, connections = 256;
  const char *level = cli_get(arguments, "log-level");
  itg_log_level log_level = ITG_LOG_INFO;
  itg_session_options_default(&out->session);
  if (!cli_get_integer(arguments, "port", 0, 65535, &port) ||
      !cli_get_integer(arguments, "workers", 1, 256, &workers) ||
      !cli_get_integer(arguments, "queue", 1, 100000, &queue) ||
      !cli_get_integer(arguments, "max-body", 1, 4096, &body) ||
      !cli_get_integer(arguments, "max-pixels", 1, 1000, &pixels) ||
      !cli_get_integer(arguments, "max-connections", 1, 100000, &connections) ||
      !cli_get_integer(arguments, "threads", 1, 1024, &out->session.thread_count) ||
      !cli_get_cpu(arguments, &out->session.cpu))
    return CLI_USAGE;
  if (level && !itg_log_parse_level(level, &log_level))
    return cli_usage_error("--log-level is debug, info, warn or error, not \"%s\"", level);
  itg_log_set_level(log_level);
  const char *host = cli_get(arguments, "host"), *name = cli_get(arguments, "model-name");
  out->host = host ? host : "[::]";
  out->port = (uint16_t)port;
  out->model_name = name ? name : base_name(cli_get(arguments, "openai"));
  out->conversations = (size_t)workers;
  out->queue_capacity = (size_t)queue;
  out->image_limits = (itg_image_limits){.max_pixels = (int64_t)pixels * 1000000, .max_bytes = (size_t)body << 20};
  out->http = (itg_http_limits){
      .max_body = (size_t)body << 20, .max_body_total = (size_t)body << 22, .max_connections = (unsigned)connections};
  return CLI_OK;
}

int cli_serve_openai(const cli_arguments *arguments) {
  itg_openai_options options = {0};
  itg_diagnostic why = {0};
  itg_language *language = NULL;
  itg_openai *openai = NULL;
  const int code = read_options(arguments, &options);
  if (code != CLI_OK) return code;
  cli_hold_signals();
  itg_status status = itg_language_open(cli_get(arguments, "openai"), &why, &language);
  if (status == ITG_OK) status = itg_openai_start(&options, language, &why, &openai);
  if (status == ITG_OK) {
    itg_log(ITG_LOG_INFO, "listening on %s, port %u; the model is \"%s\"", options.host, itg_openai_port(openai),
            options.model_name);
    cli_wait_for_end();
    itg_log(ITG_LOG_INFO, "stopping: finishing what was asked for");
  }
  itg_openai_stop(openai);
  itg_language_close(language);
  return status == ITG_OK ? CLI_OK : cli_fail(&why);
}
