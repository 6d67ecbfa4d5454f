// The server's log: one line an event on standard error, with time and level. Any thread.
#ifndef ITG_SERVER_LOG_H
#define ITG_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "intaglio/status.h"

typedef enum itg_log_level { ITG_LOG_ERROR = 0, ITG_LOG_WARNING, ITG_LOG_INFO, ITG_LOG_DEBUG } itg_log_level;

// "debug", "verbose", "log", "info", "warn", "warning", "error", "fatal", "critical" in any case, as Immich's IMMICH_LOG_LEVEL
// knows them; false for another word.
bool itg_log_parse_level(const char *word, itg_log_level *out);
void itg_log_set_level(itg_log_level level);
void itg_log(itg_log_level level, const char *format, ...) ITG_PRINTF(2, 3);

// The newest errors and warnings, for the status page: copies at most `capacity` lines, newest first, and returns how many.
enum { ITG_LOG_LINE = 512, ITG_LOG_KEPT = 16 };
size_t itg_log_recent(char lines[][ITG_LOG_LINE], size_t capacity);

#endif
