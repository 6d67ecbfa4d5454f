// See http_listen.h. One IPv6 socket with IPV6_V6ONLY off takes both families (RFC 3493, 5.3).
#include "server/http_listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 511 };

static int open_socket(const struct addrinfo *address) {
  const int number = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (number < 0) return -1;
  const int on = 1, off = 0;
  setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->ai_family == AF_INET6) setsockopt(number, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(number, address->ai_addr, address->ai_addrlen) == 0 && listen(number, BACKLOG) == 0) return number;
  const int error = errno;
  close(number);
  errno = error;
  return -1;
}

static uint16_t port_of(int number) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (getsockname(number, (struct sockaddr *)&address, &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&address)->sin6_port
                                             : ((const struct sockaddr_in *)&address)->sin_port);
}

itg_status itg_http_listen(const char *host, uint16_t port, itg_diagnostic *diagnostic, int *listener,
                           uint16_t *got_port) {
  char name[256] = "::", service[8];
  if (host && *host) snprintf(name, sizeof name, "%s", host);
  const size_t length = strlen(name);
  if (name[0] == '[' && name[length - 1] == ']') { // As in a URL.
    name[length - 1] = '\0';
    memmove(name, name + 1, length - 1);
  }
  const bool any = strcmp(name, "::") == 0;
  snprintf(service, sizeof service, "%u", port);
  const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  struct addrinfo *addresses = NULL;
  int number = -1, error = 0, failed = getaddrinfo(name, service, &wanted, &addresses);
  for (const struct addrinfo *a = addresses; !failed && a && number < 0; a = a->ai_next) {
    number = open_socket(a);
    error = errno;
  }
  if (addresses) freeaddrinfo(addresses);
  if (number < 0 && any && (failed || error == EAFNOSUPPORT || error == EADDRNOTAVAIL)) { // A machine without IPv6.
    failed = 0;
    const struct sockaddr_in all = {.sin_family = AF_INET, .sin_port = htons(port)};
    const struct addrinfo plain = {
        .ai_family = AF_INET, .ai_addr = (struct sockaddr *)(uintptr_t)&all, .ai_addrlen = sizeof all};
    number = open_socket(&plain);
    error = errno;
  }
  if (failed) ITG_FAIL(diagnostic, ITG_ERROR_IO, name, "no such address to listen on: %s", gai_strerror(failed));
  if (number < 0)
    ITG_FAIL(diagnostic, ITG_ERROR_IO, name, "cannot listen on port %u: %s%s", port, strerror(error),
             error == EADDRINUSE ? "; another program has it, choose one with --port" : "");
  *listener = number;
  *got_port = port_of(number);
  return ITG_OK;
}
