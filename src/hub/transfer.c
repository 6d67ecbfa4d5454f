// See transfer.h.
#include "hub/transfer.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "intaglio/intaglio.h"

enum { CONNECT_SECONDS = 20, SLOW_BYTES = 16, SLOW_SECONDS = 60, REDIRECTIONS = 8, LONGEST_PAUSE = 8 };

struct itg_transfer {
  CURL *curl;
  struct curl_slist *headers;
  int retries;
  char error[CURL_ERROR_SIZE];
};

// Where the bytes of one attempt go: memory or a file.
typedef struct sink {
  itg_transfer *transfer;
  char *body;
  size_t used, limit;
  FILE *file;
  int64_t offset, size; // Of the file: bytes there, bytes wanted.
  int64_t range_start;  // Of the answer; 0 unless it is a part.
  bool begun;
  const char *stage;
  itg_progress_function progress;
  void *progress_context;
  itg_status status; // Why a callback stopped the transfer.
  int error;         // errno
} sink;

static size_t stop(sink *s, itg_status status) {
  s->status = status;
  return 0; // Anything but the number of bytes ends the transfer.
}

static size_t write_memory(char *data, size_t size, size_t count, void *context) {
  sink *s = context;
  size *= count;
  if (size > s->limit - s->used) return stop(s, ITG_ERROR_LIMIT);
  char *grown = realloc(s->body, s->used + size + 1);
  if (!grown) return stop(s, ITG_ERROR_MEMORY);
  s->body = grown;
  memcpy(s->body + s->used, data, size);
  s->used += size;
  s->body[s->used] = 0;
  return size;
}

// Empties the file. Its buffer goes out first: it would follow otherwise.
static bool restart(sink *s) {
  s->offset = 0;
  return fflush(s->file) == 0 && ftruncate(fileno(s->file), 0) == 0 && fseeko(s->file, 0, SEEK_SET) == 0;
}

// A server without ranges answers with the whole file: then it is written from its beginning.
static bool begin_file(sink *s) {
  long code = 0;
  curl_easy_getinfo(s->transfer->curl, CURLINFO_RESPONSE_CODE, &code);
  s->begun = true;
  if (code == 206 && s->range_start == s->offset) return true;
  return code != 206 && restart(s);
}

static size_t write_file(char *data, size_t size, size_t count, void *context) {
  sink *s = context;
  size *= count;
  if (!s->begun && !begin_file(s)) return stop(s, ITG_ERROR_FORMAT);
  if ((int64_t)size > s->size - s->offset) return stop(s, ITG_ERROR_FORMAT);
  if (fwrite(data, 1, size, s->file) != size) {
    s->error = errno;
    return stop(s, ITG_ERROR_IO);
  }
  s->offset += (int64_t)size;
  if (s->progress && s->progress(s->progress_context, s->stage, s->offset, s->size))
    return stop(s, ITG_ERROR_CANCELLED);
  return size;
}

static size_t read_header(char *data, size_t size, size_t count, void *context) {
  static const char name[] = "content-range: bytes ";
  sink *s = context;
  char line[128];
  size *= count;
  snprintf(line, sizeof line, "%.*s", (int)(size < sizeof line ? size : sizeof line - 1), data);
  if (strncasecmp(line, name, sizeof name - 1) == 0) s->range_start = strtoll(line + sizeof name - 1, NULL, 10);
  return size;
}

// ---- one attempt ----

// What may pass when it is tried again.
static bool is_transient(CURLcode code, long status) {
  switch (code) {
  case CURLE_HTTP_RETURNED_ERROR: return status == 429 || status >= 500;
  case CURLE_COULDNT_RESOLVE_HOST:
  case CURLE_COULDNT_CONNECT:
  case CURLE_OPERATION_TIMEDOUT:
  case CURLE_SEND_ERROR:
  case CURLE_RECV_ERROR:
  case CURLE_PARTIAL_FILE:
  case CURLE_GOT_NOTHING:
  case CURLE_SSL_CONNECT_ERROR:
  case CURLE_HTTP2:
  case CURLE_HTTP2_STREAM: return true;
  default: return false;
  }
}

static itg_status explain(const itg_transfer *t, const sink *s, const char *url, CURLcode code, long status,
                          itg_diagnostic *diagnostic) {
  const char *text = t->error[0] ? t->error : curl_easy_strerror(code);
  if (s->status == ITG_ERROR_CANCELLED) ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, url, "stopped");
  if (s->status == ITG_ERROR_MEMORY) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  if (s->status == ITG_ERROR_LIMIT)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, url, "an answer of more than %zu bytes", s->limit);
  if (s->status == ITG_ERROR_FORMAT)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, url, "the server sends other bytes than it announced");
  if (s->status == ITG_ERROR_IO) ITG_FAIL(diagnostic, ITG_ERROR_IO, url, "cannot write: %s", strerror(s->error));
  if (status == 401 || status == 403)
    ITG_FAIL(diagnostic, ITG_ERROR_IO, url,
             "the hub refuses (HTTP %ld): there is no such public model, or it needs a token in $HF_TOKEN", status);
  if (status == 404)
    ITG_FAIL(diagnostic, ITG_ERROR_IO, url, "the hub has no such model or file (HTTP 404); is its name right?");
  if (code == CURLE_HTTP_RETURNED_ERROR)
    ITG_FAIL(diagnostic, ITG_ERROR_IO, url, "the hub answers with HTTP %ld; try again later", status);
  ITG_FAIL(diagnostic, ITG_ERROR_IO, url,
           "%s; is the network there? ($HF_ENDPOINT chooses another hub, $https_proxy a proxy)", text);
}

static CURLcode attempt(itg_transfer *t, sink *s, const char *url, long *status) {
  char range[32];
  curl_easy_reset(t->curl);
  t->error[0] = 0;
  curl_easy_setopt(t->curl, CURLOPT_URL, url);
  curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->error);
  curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->headers);
  curl_easy_setopt(t->curl, CURLOPT_USERAGENT, "intaglio/" ITG_VERSION);
  curl_easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
  // What was asked for under encryption does not come without it.
  curl_easy_setopt(t->curl, CURLOPT_REDIR_PROTOCOLS_STR, strncasecmp(url, "https:", 6) == 0 ? "https" : "http,https");
  curl_easy_setopt(t->curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(t->curl, CURLOPT_MAXREDIRS, (long)REDIRECTIONS);
  curl_easy_setopt(t->curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
  curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES);
  curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_TIME, (long)SLOW_SECONDS);
  curl_easy_setopt(t->curl, CURLOPT_HEADERFUNCTION, read_header);
  curl_easy_setopt(t->curl, CURLOPT_HEADERDATA, s);
  curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, s->file ? write_file : write_memory);
  curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, s);
  if (s->file && s->offset > 0) {
    snprintf(range, sizeof range, "%lld-", (long long)s->offset);
    curl_easy_setopt(t->curl, CURLOPT_RANGE, range);
  }
  const CURLcode code = curl_easy_perform(t->curl);
  *status = 0;
  curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, status);
  return code;
}

static itg_status transfer(itg_transfer *t, sink *s, const char *url, itg_diagnostic *diagnostic) {
  for (int number = 0;; number++) {
    long status;
    s->begun = false;
    s->range_start = 0;
    if (!s->file) s->used = 0;
    const CURLcode code = attempt(t, s, url, &status);
    if (code == CURLE_OK && (!s->file || s->offset == s->size)) return ITG_OK;
    const bool rejected = s->file && s->offset > 0 && status == 416;
    const bool again = code == CURLE_OK || rejected || (s->status == ITG_OK && is_transient(code, status));
    if (number >= t->retries || !again) {
      if (code == CURLE_OK)
        ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, url, "the server sends %lld bytes instead of %lld", (long long)s->offset,
                 (long long)s->size);
      return explain(t, s, url, code, status, diagnostic);
    }
    // HTTP 416: the server cannot go on there.
    if (rejected && !restart(s)) ITG_FAIL(diagnostic, ITG_ERROR_IO, url, "cannot write: %s", strerror(errno));
    const int pause = 1 << number < LONGEST_PAUSE ? 1 << number : LONGEST_PAUSE;
    nanosleep(&(struct timespec){.tv_sec = rejected ? 0 : pause}, NULL);
  }
}

// ---- the calls ----

itg_status itg_transfer_create(const char *token, int retries, itg_diagnostic *diagnostic, itg_transfer **out) {
  itg_transfer *t = calloc(1, sizeof *t);
  ITG_TRY_MEMORY(t, diagnostic);
  t->retries = retries;
  t->curl = curl_easy_init();
  bool good = t->curl != NULL;
  if (good && token && *token) {
    const size_t size = strlen(token) + 32;
    char *line = malloc(size);
    if (line) snprintf(line, size, "Authorization: Bearer %s", token);
    t->headers = line ? curl_slist_append(NULL, line) : NULL;
    good = t->headers != NULL;
    free(line);
  }
  if (!good) {
    itg_transfer_destroy(t);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  *out = t;
  return ITG_OK;
}

void itg_transfer_destroy(itg_transfer *t) {
  if (!t) return;
  curl_slist_free_all(t->headers);
  curl_easy_cleanup(t->curl);
  free(t);
}

itg_status itg_transfer_get(itg_transfer *t, const char *url, size_t limit, itg_diagnostic *diagnostic, char **body,
                            size_t *size) {
  sink s = {.transfer = t, .limit = limit, .body = calloc(1, 1)};
  ITG_TRY_MEMORY(s.body, diagnostic);
  const itg_status status = transfer(t, &s, url, diagnostic);
  if (status != ITG_OK) {
    free(s.body);
    return status;
  }
  *body = s.body;
  *size = s.used;
  return ITG_OK;
}

itg_status itg_transfer_file(itg_transfer *t, const char *url, const char *path, int64_t size, const char *stage,
                             itg_progress_function progress, void *progress_context, itg_diagnostic *diagnostic) {
  sink s = {.transfer = t, .size = size, .stage = stage, .progress = progress, .progress_context = progress_context};
  s.file = fopen(path, "ab");
  if (!s.file) ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "cannot create: %s", strerror(errno));
  struct stat info;
  itg_status status = ITG_OK;
  if (fstat(fileno(s.file), &info) == 0) s.offset = info.st_size;
  if (s.offset > size && !restart(&s))
    status = itg_fail(diagnostic, ITG_ERROR_IO, path, __FILE__, __LINE__, "cannot write: %s", strerror(errno));
  if (status == ITG_OK && (s.offset < size || size == 0)) status = transfer(t, &s, url, diagnostic);
  if (fflush(s.file) != 0 && status == ITG_OK)
    status = itg_fail(diagnostic, ITG_ERROR_IO, path, __FILE__, __LINE__, "cannot write: %s", strerror(errno));
  if (status == ITG_OK && fsync(fileno(s.file)) != 0 && errno != EINVAL && errno != EROFS)
    status = itg_fail(diagnostic, ITG_ERROR_IO, path, __FILE__, __LINE__, "cannot sync: %s", strerror(errno));
  fclose(s.file);
  return status;
}
