// See edit_distance.h. One row of the usual table at a time.
#include "base/edit_distance.h"

#include <stdint.h>
#include <string.h>

size_t itg_edit_distance(const char *a, const char *b) {
  size_t row[64];
  const size_t rows = strlen(a), columns = strlen(b);
  if (columns + 1 > sizeof row / sizeof row[0]) return SIZE_MAX;
  for (size_t j = 0; j <= columns; j++) row[j] = j;
  for (size_t i = 1; i <= rows; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= columns; j++) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
      if (change < row[j]) row[j] = change;
    }
  }
  return row[columns];
}
