// Records of a compiled file (accuracy, provenance, preprocessing: JSON of our own) as lines for people.
#ifndef ITG_CLI_RECORD_H
#define ITG_CLI_RECORD_H

#include <stddef.h>
#include <stdio.h>

// Writes `name` and, indented below it, the members of the JSON object in text[0..size): "key value" pairs in lines of at
// most 140 columns, nested objects below their key. Text that is no JSON object is written as it is, cut to one line.
void cli_print_record(FILE *stream, const char *name, const char *text, size_t size);

#endif
