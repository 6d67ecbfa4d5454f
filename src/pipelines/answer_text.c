// See answer_text.h.
#include "pipelines/answer_text.h"

#include <string.h>

#include "text/buffers.h"

// Passes on the first `size` bytes.
static void pass(itg_answer_text *answer, size_t size) {
  if (size && answer->on_text && !answer->on_text(answer->context, (const char *)answer->held.data, size))
    answer->cancelled = true;
  if (size) memmove(answer->held.data, answer->held.data + size, answer->held.size - size);
  answer->held.size -= size;
}

// Where the first stop text begins; the size of the text when there is none.
static size_t find_stop(const itg_answer_text *answer) {
  size_t first = answer->held.size;
  for (size_t i = 0; i < answer->stop_count; i++) {
    const uint8_t *found = memmem(answer->held.data, answer->held.size, answer->stops[i], strlen(answer->stops[i]));
    if (found && (size_t)(found - answer->held.data) < first) first = (size_t)(found - answer->held.data);
  }
  return first;
}

// Bytes at the end that could be the beginning of a stop text.
static size_t possible_beginning(const itg_answer_text *answer) {
  size_t longest = 0;
  for (size_t i = 0; i < answer->stop_count; i++) {
    const size_t length = strlen(answer->stops[i]);
    for (size_t n = length - 1 < answer->held.size ? length - 1 : answer->held.size; n > longest; n--) {
      if (memcmp(answer->held.data + answer->held.size - n, answer->stops[i], n) == 0) longest = n;
    }
  }
  return longest;
}

itg_status itg_answer_text_add(itg_answer_text *answer, itg_span text, itg_diagnostic *diagnostic) {
  if (text.size == 0 || answer->stopped || answer->cancelled) return ITG_OK;
  ITG_TRY(itg_text_append(&answer->held, text, diagnostic));
  const size_t stop = find_stop(answer);
  if (stop < answer->held.size) {
    answer->held.size = stop;
    answer->stopped = true;
    pass(answer, stop);
    return ITG_OK;
  }
  pass(answer, answer->held.size - possible_beginning(answer));
  return ITG_OK;
}

void itg_answer_text_finish(itg_answer_text *answer) {
  if (!answer->cancelled) pass(answer, answer->held.size);
}
