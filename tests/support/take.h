// Reading what an oracle wrote, piece by piece. After <cmocka.h>.
#ifndef ITG_TESTS_TAKE_H
#define ITG_TESTS_TAKE_H

#include "base/span.h"

// The next `size` bytes, which must be there.
static inline const uint8_t *take(itg_span *rest, size_t size) {
  itg_span taken = {0};
  assert_true(itg_span_cut(*rest, 0, size, &taken));
  *rest = (itg_span){rest->data + size, rest->size - size};
  return taken.data;
}

#endif
