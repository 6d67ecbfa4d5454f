// See health.h.
#include "server/health.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int connect_within(const struct sockaddr *address, socklen_t size, int seconds) {
  const struct timeval limit = {.tv_sec = seconds};
  const int number = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (number < 0) return -1;
  setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(number, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (connect(number, address, size) == 0) return number;
  close(number);
  return -1;
}

static int connect_to_this_machine(uint16_t port, int seconds) {
  const struct sockaddr_in four = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const struct sockaddr_in6 six = {
      .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  const int number = connect_within((const struct sockaddr *)&four, sizeof four, seconds);
  return number >= 0 ? number : connect_within((const struct sockaddr *)&six, sizeof six, seconds);
}

static int connect_to_host(const char *host, uint16_t port, int seconds) {
  char name[256], service[8];
  const size_t length = strlen(host), brackets = host[0] == '[' && host[length - 1] == ']';
  snprintf(name, sizeof name, "%.*s", (int)(length - 2 * brackets), host + brackets); // As in a URL.
  snprintf(service, sizeof service, "%u", port);
  const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *addresses = NULL;
  int number = -1;
  if (getaddrinfo(name, service, &wanted, &addresses) != 0) return -1;
  for (const struct addrinfo *a = addresses; a && number < 0; a = a->ai_next)
    number = connect_within(a->ai_addr, a->ai_addrlen, seconds);
  freeaddrinfo(addresses);
  return number;
}

static bool is_every_address(const char *host) {
  static const char *const names[] = {"", "::", "[::]", "0.0.0.0"};
  for (size_t i = 0; host && i < sizeof names / sizeof names[0]; i++)
    if (strcmp(host, names[i]) == 0) return true;
  return !host;
}

itg_status itg_health_check(const char *host, uint16_t port, int seconds, itg_diagnostic *diagnostic) {
  static const char request[] = "GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  char answer[1024];
  size_t size = 0;
  const bool here = is_every_address(host);
  const int number = here ? connect_to_this_machine(port, seconds) : connect_to_host(host, port, seconds);
  if (number < 0)
    ITG_FAIL(diagnostic, ITG_ERROR_IO, NULL, "nothing listens on port %u of %s", port, here ? "this machine" : host);
  ssize_t got = send(number, request, sizeof request - 1, MSG_NOSIGNAL);
  while (got > 0 && size < sizeof answer - 1) {
    got = recv(number, answer + size, sizeof answer - 1 - size, 0);
    if (got > 0) size += (size_t)got;
  }
  const bool late = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  close(number);
  answer[size] = '\0';
  if (late) ITG_FAIL(diagnostic, ITG_ERROR_TIMEOUT, NULL, "no answer on port %u within %d s", port, seconds);
  if (strncmp(answer, "HTTP/1.1 200", 12) != 0 || !strstr(answer, "\r\n\r\npong"))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "what answers on port %u is not the service, or it is not well", port);
  return ITG_OK;
}
