// Defaults of the public options.
#include "intaglio/compiler.h"

void itg_compile_options_default(itg_compile_options *options) {
  *options = (itg_compile_options){.struct_size = sizeof *options, .precision = "a8w8+s16"};
}

void itg_compare_options_default(itg_compare_options *options) {
  *options = (itg_compare_options){.struct_size = sizeof *options};
}
