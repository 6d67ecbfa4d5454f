// See log.h.
#include "server/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int threshold = ITG_LOG_INFO;
static char kept[ITG_LOG_KEPT][ITG_LOG_LINE]; // A ring; `kept_count` lines were ever written to it.
static size_t kept_count;

bool itg_log_parse_level(const char *word, itg_log_level *out) {
  static const struct {
    const char *word;
    itg_log_level level;
  } words[] = {{"verbose", ITG_LOG_DEBUG}, {"debug", ITG_LOG_DEBUG},  {"log", ITG_LOG_INFO},
               {"info", ITG_LOG_INFO},     {"warn", ITG_LOG_WARNING}, {"warning", ITG_LOG_WARNING},
               {"error", ITG_LOG_ERROR},   {"fatal", ITG_LOG_ERROR},  {"critical", ITG_LOG_ERROR}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strcasecmp(word, words[i].word) != 0) continue;
    *out = words[i].level;
    return true;
  }
  return false;
}

void itg_log_set_level(itg_log_level level) { atomic_store(&threshold, (int)level); }

void itg_log(itg_log_level level, const char *format, ...) {
  static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG"};
  if ((int)level > atomic_load(&threshold)) return;
  char line[ITG_LOG_LINE];
  struct tm now;
  const time_t seconds = time(NULL);
  localtime_r(&seconds, &now);
  size_t length = strftime(line, sizeof line, "%Y-%m-%d %H:%M:%S ", &now);
  length += (size_t)snprintf(line + length, sizeof line - length, "%-5s ", names[level]);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + length, sizeof line - length, format, arguments);
  va_end(arguments);
  for (char *c = line + length; *c; c++) // Names come from requests: no line may pass for another.
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
  pthread_mutex_lock(&lock);
  fprintf(stderr, "%s\n", line);
  if (level <= ITG_LOG_WARNING) memcpy(kept[kept_count++ % ITG_LOG_KEPT], line, sizeof line);
  pthread_mutex_unlock(&lock);
}

size_t itg_log_recent(char lines[][ITG_LOG_LINE], size_t capacity) {
  pthread_mutex_lock(&lock);
  size_t count = kept_count < ITG_LOG_KEPT ? kept_count : ITG_LOG_KEPT;
  if (count > capacity) count = capacity;
  for (size_t i = 0; i < count; i++) memcpy(lines[i], kept[(kept_count - 1 - i) % ITG_LOG_KEPT], ITG_LOG_LINE);
  pthread_mutex_unlock(&lock);
  return count;
}
