// See health.h.
#include "server/health.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int open_connection(uint16_t port, int seconds) {
  const struct timeval limit = {.tv_sec = seconds};
  const struct sockaddr_in four = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const struct sockaddr_in6 six = {
      .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  const struct {
    const struct sockaddr *address;
    socklen_t size;
  } addresses[] = {{(const struct sockaddr *)&four, sizeof four}, {(const struct sockaddr *)&six, sizeof six}};
  for (int i = 0; i < 2; i++) {
    const int number = socket(addresses[i].address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (number < 0) continue;
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(number, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(number, addresses[i].address, addresses[i].size) == 0) return number;
    close(number);
  }
  return -1;
}

itg_status itg_health_check(uint16_t port, int seconds, itg_diagnostic *diagnostic) {
  static const char request[] = "GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  char answer[1024];
  size_t size = 0;
  const int number = open_connection(port, seconds);
  if (number < 0) ITG_FAIL(diagnostic, ITG_ERROR_IO, NULL, "nothing listens on port %u of this machine", port);
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
