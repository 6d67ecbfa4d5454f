// How far a mistyped word is from the words that are known.
#ifndef ITG_BASE_EDIT_DISTANCE_H
#define ITG_BASE_EDIT_DISTANCE_H

#include <stddef.h>

// Levenshtein distance: insertions, deletions and changes of one character that turn `a` into `b`. SIZE_MAX when `b` has more
// than 63 characters: no word is near such a one.
size_t itg_edit_distance(const char *a, const char *b);

#endif
