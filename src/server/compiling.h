// Compiling float models when they are first used: one at a time, in a child process (this program's compile command),
// while the float model serves. The result is kept beside the model; a refusal too, so that it is not tried again.
#ifndef ITG_SERVER_COMPILING_H
#define ITG_SERVER_COMPILING_H

#include <stdbool.h>
#include <stddef.h>

#include "intaglio/services.h"

typedef struct itg_compile_service_options { // All borrowed.
  const char *program;                       // The command to run.
  const char *calibration;                   // Folder of photographs that set the ranges. They stay where they are.
  const char *precision;                     // NULL: the default.
  const char *target;                        // NULL: no NPU.
  const char *qnn_directory;                 // NULL: searched.
} itg_compile_service_options;

typedef struct itg_compile_service itg_compile_service; // Any thread.

ITG_MUST_USE itg_status itg_compile_service_create(const itg_compile_service_options *options,
                                                   itg_diagnostic *diagnostic, itg_compile_service **out);
// Ends a child that runs; nothing unfinished is left. NULL is allowed.
void itg_compile_service_destroy(itg_compile_service *service);

// Asks for <folder>/<network>.itg out of <folder>/<network>.onnx. Asking again for the same is harmless.
void itg_compile_service_request(itg_compile_service *service, itg_service_kind kind, const char *model,
                                 const char *folder, const char *network);
// True once after something in this folder was compiled: the model is to be opened again.
bool itg_compile_service_take_result(itg_compile_service *service, const char *folder);
// What goes on for a folder: whether something waits or runs, and (unless empty) what went wrong.
void itg_compile_service_status(itg_compile_service *service, const char *folder, bool *running, char *problem,
                                size_t size);

// Path of the file that says why a network was refused; its content is the reason. False when the path is too long.
bool itg_refusal_path(const char *folder, const char *network, char *path, size_t size);

#endif
