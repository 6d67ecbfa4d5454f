// The methods that protect accuracy (methods.def) and which of them a recipe switched off.
#ifndef ITG_ADAPT_METHODS_H
#define ITG_ADAPT_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum itg_method {
#define ITG_METHOD(identifier, name, effect) ITG_METHOD_##identifier,
#include "adapt/methods.def"
#undef ITG_METHOD
  ITG_METHOD_COUNT,
} itg_method;
_Static_assert(ITG_METHOD_COUNT <= 32, "one bit a method");

// Bit i set: method i is off. 0: everything is on.
typedef uint32_t itg_methods_off;
static inline bool itg_method_is_on(itg_methods_off off, itg_method method) { return !(off >> method & 1); }

typedef struct itg_method_info {
  const char *name, *effect; // As a recipe writes it; what it does, in one line.
} itg_method_info;
// method < ITG_METHOD_COUNT
const itg_method_info *itg_method_get_info(itg_method method);
// The number of a name, or ITG_METHOD_COUNT.
itg_method itg_method_find(const char *name);

#endif
