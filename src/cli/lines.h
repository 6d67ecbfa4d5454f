// Photographs of text to the inputs of a text recognizer: the detector in the float interpreter finds the lines.
#ifndef ITG_CLI_LINES_H
#define ITG_CLI_LINES_H

#include "intaglio/services.h"

enum { CLI_MAX_LINES = 8 }; // Of one picture, spread evenly over those that were found.

typedef struct cli_lines cli_lines; // One thread at a time.

// `folder` holds the detector's model.onnx; NULL: the folder "../detection" of the model. Errors: IO, those of the service.
ITG_MUST_USE itg_status cli_lines_open(const char *folder, const char *model, itg_diagnostic *diagnostic,
                                       cli_lines **out);
void cli_lines_close(cli_lines *lines); // NULL is allowed.
// Inputs of `shape` ([1,3,48,w]) one behind the other in `values`, which has room for CLI_MAX_LINES; lines that are wider
// than the shape are squeezed, as the service does. No text is no error. `value_count`: floats of one input.
ITG_MUST_USE itg_status cli_lines_values(cli_lines *lines, const char *path, const itg_shape *shape, size_t value_count,
                                         itg_diagnostic *diagnostic, float *values, size_t *count);

#endif
