// The table of methods.def. See methods.h.
#include "adapt/methods.h"

#include <string.h>

static const itg_method_info methods[] = {
#define ITG_METHOD(identifier, name, effect) {name, effect},
#include "adapt/methods.def"
#undef ITG_METHOD
};

const itg_method_info *itg_method_get_info(itg_method method) { return &methods[method]; }

itg_method itg_method_find(const char *name) {
  int method = 0;
  while (method < ITG_METHOD_COUNT && strcmp(methods[method].name, name) != 0) method++;
  return (itg_method)method;
}
