// A blocking HTTP client for tests: one connection a call, or one that is kept; raw bytes on request.
#ifndef ITG_TESTS_SERVER_HTTP_CLIENT_H
#define ITG_TESTS_SERVER_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

typedef struct http_reply {
  int status; // 0: the connection ended before an answer.
  char headers[8192];
  char *body; // NUL-terminated, malloc'ed; http_free.
  size_t size;
  bool closes; // The server will close the connection.
} http_reply;

static inline void http_free(http_reply *reply) {
  free(reply->body);
  reply->body = NULL;
}

static inline int http_connect(uint16_t port) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const struct timeval limit = {.tv_sec = 300}; // Sanitizers on a busy machine are slow.
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (client >= 0 && connect(client, (const struct sockaddr *)&address, sizeof address) == 0) return client;
  if (client >= 0) close(client);
  return -1;
}

// A signal (another thread starts a process) is no end.
static inline ssize_t http_receive(int client, void *data, size_t size) {
  ssize_t got;
  do got = recv(client, data, size, 0);
  while (got < 0 && errno == EINTR);
  return got;
}

static inline bool http_send(int client, const void *data, size_t size) {
  const char *at = data;
  while (size > 0) {
    const ssize_t sent = send(client, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= (size_t)sent;
  }
  return true;
}

static inline const char *http_find_header(const http_reply *reply, const char *name) {
  static __thread char value[1024];
  const size_t length = strlen(name);
  for (const char *line = strchr(reply->headers, '\n'); line; line = strchr(line + 1, '\n')) {
    if (strncasecmp(line + 1, name, length) != 0 || line[1 + length] != ':') continue;
    const char *start = line + 2 + length + strspn(line + 2 + length, " ");
    snprintf(value, sizeof value, "%.*s", (int)strcspn(start, "\r\n"), start);
    return value;
  }
  return NULL;
}

// Reads until `needed` bytes are there; false when the connection ends before.
static inline bool http_fill(int client, char **data, size_t *size, size_t needed) {
  char *grown = realloc(*data, needed + 1);
  if (!grown) abort();
  *data = grown;
  while (*size < needed) {
    const ssize_t got = http_receive(client, *data + *size, needed - *size);
    if (got <= 0) return false;
    *size += (size_t)got;
  }
  (*data)[*size] = '\0';
  return true;
}

static inline bool http_read_chunks(int client, http_reply *reply) {
  for (;;) {
    char line[32];
    size_t length = 0;
    while (length < sizeof line - 1 && http_receive(client, line + length, 1) == 1)
      if (line[length++] == '\n') break;
    line[length] = '\0';
    if (length == 0) return false;
    const size_t chunk = strtoul(line, NULL, 16), before = reply->size;
    if (!http_fill(client, &reply->body, &reply->size, before + chunk + 2)) return false;
    reply->size = before + chunk;
    reply->body[reply->size] = '\0';
    if (chunk == 0) return true;
  }
}

// Reads one answer. False (status 0) when there is none.
static inline bool http_read(int client, http_reply *reply) {
  memset(reply, 0, sizeof *reply);
  size_t length = 0;
  while (length < sizeof reply->headers - 1 && http_receive(client, reply->headers + length, 1) == 1) {
    length++;
    if (length >= 4 && memcmp(reply->headers + length - 4, "\r\n\r\n", 4) == 0) break;
  }
  reply->headers[length] = '\0';
  if (sscanf(reply->headers, "HTTP/1.%*d %d", &reply->status) != 1) return false;
  const char *connection = http_find_header(reply, "Connection");
  reply->closes = connection && strcasecmp(connection, "close") == 0;
  const char *coding = http_find_header(reply, "Transfer-Encoding"), *size = http_find_header(reply, "Content-Length");
  if (size) return http_fill(client, &reply->body, &reply->size, strtoul(size, NULL, 10));
  if (coding && strcasecmp(coding, "chunked") == 0) return http_read_chunks(client, reply);
  return http_fill(client, &reply->body, &reply->size, 0);
}

static inline bool http_send_request(int client, const char *method, const char *path, const char *headers,
                                     const void *body, size_t size) {
  char head[4096];
  const int length = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n",
                              method, path, headers ? headers : "", size);
  return http_send(client, head, (size_t)length) && http_send(client, body, size);
}

// One request over its own connection.
static inline http_reply http_call(uint16_t port, const char *method, const char *path, const char *headers,
                                   const void *body, size_t size) {
  http_reply reply = {0};
  const int client = http_connect(port);
  if (client < 0) return reply;
  // The server may answer, and close, before it has read everything.
  http_send_request(client, method, path, headers, body, size);
  http_read(client, &reply);
  close(client);
  return reply;
}

#endif
