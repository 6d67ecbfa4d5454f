// The Immich service for tests: a folder of models with the built-in faces, a server in this process or in its own.
#ifndef ITG_TESTS_SERVER_SERVICE_H
#define ITG_TESTS_SERVER_SERVICE_H

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "server/http_client.h"
#include "server/immich.h"
#include "server/log.h"
#include "support/oracle.h"

static char service_folder[] = "/tmp/intaglio-service-XXXXXX"; // Of models and whatever else a test writes.

#define FACES_ENTRIES                                                                                    \
  "{\"facial-recognition\":{\"detection\":{\"modelName\":\"faceplugin\",\"options\":{\"minScore\":%g}}," \
  "\"recognition\":{\"modelName\":\"faceplugin\"}}}"

static inline void service_sleep(long milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static inline void service_link(const char *name, const char *place) {
  char from[4096], to[4096];
  snprintf(from, sizeof from, "%s/faceplugin/%s", oracle_models(), name);
  snprintf(to, sizeof to, "%s/models/facial-recognition/%s", service_folder, place);
  if (symlink(from, to) != 0) abort();
}

static inline void service_write(const char *place, const char *text) {
  char path[16384];
  snprintf(path, sizeof path, "%s/%s", service_folder, place);
  FILE *file = fopen(path, "w");
  if (!file || fputs(text, file) < 0 || fclose(file) != 0) abort();
}

// True when the built-in face models are there; makes the folder.
static inline bool service_prepare(void) {
  char path[4096], command[4200];
  snprintf(path, sizeof path, "%s/faceplugin/fr_feature.onnx", oracle_models());
  if (!oracle_exists(path) || !mkdtemp(service_folder)) return false;
  snprintf(command, sizeof command,
           "mkdir -p %s/models/facial-recognition/faceplugin/detection "
           "%s/models/facial-recognition/faceplugin/recognition",
           service_folder, service_folder);
  if (system(command) != 0) abort();
  service_link("fr_detect.onnx", "faceplugin/detection/model.onnx");
  service_link("fr_landmark.onnx", "faceplugin/detection/landmarks.onnx");
  service_link("fr_feature.onnx", "faceplugin/recognition/model.onnx");
  service_write("models/facial-recognition/faceplugin/recognition/preprocess.json",
                "{\"channels\": \"BGR\", \"resize\": {\"rule\": \"squash\", \"method\": \"opencv-linear\"}, \"size\": "
                "[112, 112], "
                "\"mean\": 127, \"std\": 128}");
  return true;
}

static pid_t service_child = -1; // Of service_spawn.

static inline void service_remove(void) {
  if (service_child > 0) kill(service_child, SIGKILL); // A test that fails leaves no server behind.
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", service_folder);
  if (system(command) != 0) abort();
}

// ---- in this process ----

typedef struct service {
  itg_models *models;
  itg_immich *immich;
  uint16_t port;
  char folder[4096];
} service;

static inline void service_start(service *s, itg_models_options models, itg_immich_options immich) {
  itg_diagnostic why = {0};
  snprintf(s->folder, sizeof s->folder, "%s/models", service_folder);
  models.folder = s->folder;
  if (!models.poll_seconds) models.poll_seconds = 1;
  if (!models.network.thread_count) models.network.thread_count = 1;
  if (!immich.worker_count) immich.worker_count = 2;
  if (!immich.queue_capacity) immich.queue_capacity = 64;
  if (!immich.npu) immich.npu = "not asked for";
  immich.host = "127.0.0.1";
  itg_log_set_level(ITG_LOG_ERROR);
  if (itg_models_create(&models, &why, &s->models) != ITG_OK ||
      itg_immich_start(&immich, s->models, &why, &s->immich) != ITG_OK) {
    fprintf(stderr, "%s\n", why.message);
    abort();
  }
  s->port = itg_immich_port(s->immich);
}

static inline void service_stop(service *s) {
  itg_immich_stop(s->immich);
  itg_models_destroy(s->models);
}

// ---- the command in its own process ----

static inline const char *service_log_path(void) {
  static char path[128];
  snprintf(path, sizeof path, "%s/log", service_folder);
  return path;
}

// Starts `intaglio serve --immich --offline` over the folder, with `more` options (NULL ends them), and waits until it
// listens; its log goes to service_log_path. Port 0: a free one. -1 when it ended or did not come up.
static inline pid_t service_spawn(const char *const *more, uint16_t wanted_port, uint16_t *port) {
  char number[8], models[256];
  const char *words[40] = {"intaglio", "serve",  "--immich",  "--offline", "--models",
                           models,     "--host", "127.0.0.1", "--port",    number};
  size_t count = 10;
  snprintf(number, sizeof number, "%u", wanted_port);
  snprintf(models, sizeof models, "%s/models", service_folder);
  while (more && *more && count < 39) words[count++] = *more++;
  unlink(service_log_path());
  const pid_t child = service_child = fork();
  if (child == 0) {
    const int file = open(service_log_path(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(file, STDERR_FILENO);
    execv(ITG_BINARY_DIR "/intaglio", (char *const *)(uintptr_t)words);
    _exit(127);
  }
  for (int waited = 0; waited < 3000 && waitpid(child, NULL, WNOHANG) == 0; waited++) {
    char line[512];
    unsigned found = 0;
    FILE *file = fopen(service_log_path(), "r");
    while (file && !found && fgets(line, sizeof line, file)) {
      const char *at = strstr(line, ", port ");
      if (at) sscanf(at, ", port %u;", &found);
    }
    if (file) fclose(file);
    if (found) {
      *port = (uint16_t)found;
      return child;
    }
    service_sleep(10);
  }
  return -1;
}

// A polite end: SIGTERM. True when the command ended with 0.
static inline bool service_end(pid_t child) {
  int status = 1;
  service_child = -1;
  kill(child, SIGTERM);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// ---- multipart bodies as Node's FormData builds them ----

typedef struct body {
  char *data;
  size_t size;
} body;

#define BODY_TYPE "multipart/form-data; boundary=----formdata-undici-012345678901"
static const char body_boundary[] = "------formdata-undici-012345678901";

static inline void body_add(body *b, const void *data, size_t size) {
  b->data = realloc(b->data, b->size + size + 1);
  if (!b->data) abort();
  memcpy(b->data + b->size, data, size);
  b->size += size;
}

static inline void body_field(body *b, const char *name, const char *more, const void *value, size_t size) {
  char head[512];
  const int length = snprintf(head, sizeof head, "%s\r\nContent-Disposition: form-data; name=\"%s\"%s\r\n\r\n",
                              body_boundary, name, more);
  body_add(b, head, (size_t)length);
  body_add(b, value, size);
  body_add(b, "\r\n", 2);
}

static inline body body_end(body b) {
  body_add(&b, body_boundary, sizeof body_boundary - 1);
  body_add(&b, "--\r\n", 4);
  return b;
}

static inline body body_of(const char *entries, const void *image, size_t image_size, const char *text) {
  body b = {0};
  if (entries) body_field(&b, "entries", "", entries, strlen(entries));
  if (image)
    body_field(&b, "image", "; filename=\"blob\"\r\nContent-Type: application/octet-stream", image, image_size);
  if (text) body_field(&b, "text", "", text, strlen(text));
  return body_end(b);
}

static inline http_reply body_post(uint16_t port, const body *b) {
  return http_call(port, "POST", "/predict", "Content-Type: " BODY_TYPE "\r\n", b->data, b->size);
}

static inline char *service_read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) abort();
  *size = (size_t)ftell(file);
  rewind(file);
  char *data = malloc(*size + 1);
  if (!data || fread(data, 1, *size, file) != *size) abort();
  data[*size] = '\0';
  fclose(file);
  return data;
}

#endif
