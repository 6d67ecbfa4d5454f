// See source.h.
#include "compile/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static itg_status bad_shape(const char *text, itg_diagnostic *diagnostic) {
  ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, text,
           "not a shape: write the input's name and its dimensions, "
           "for example input=1x3x640x640");
}

// "input=1x3x640x640": dimensions from 1, at most ITG_MAX_RANK of them; "input=scalar" has none. Without a name the shape
// is for all inputs of its rank with unknown dimensions. The name is copied.
static itg_status parse_shape(const char *text, itg_arena *arena, itg_diagnostic *diagnostic, itg_import_shape *out) {
  const char *equals = strrchr(text, '=');
  if (equals == text) return bad_shape(text, diagnostic);
  itg_import_shape shape = {itg_arena_string(arena, text, equals ? (size_t)(equals - text) : 0), {0}};
  ITG_TRY_MEMORY(shape.input, diagnostic);
  const char *cursor = equals ? equals + 1 : text;
  if (strcmp(cursor, "scalar") != 0) {
    for (;;) {
      char *end;
      errno = 0;
      const long long value = *cursor >= '0' && *cursor <= '9' ? strtoll(cursor, &end, 10) : 0;
      if (value < 1 || errno || shape.shape.rank == ITG_MAX_RANK) return bad_shape(text, diagnostic);
      shape.shape.dims[shape.shape.rank++] = value;
      if (*end == '\0') break;
      if (*end != 'x' && *end != ',') return bad_shape(text, diagnostic);
      cursor = end + 1;
    }
  }
  *out = shape;
  return ITG_OK;
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static itg_status check_kind(const char *path, itg_diagnostic *diagnostic) {
  struct stat info;
  if (stat(path, &info) != 0) ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "cannot open: %s", strerror(errno));
  if (S_ISDIR(info.st_mode))
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, path, "is a folder; give the path of an .onnx file");
  if (ends_with(path, ".itg"))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, path, "is already compiled; a float model (.onnx) is needed here");
  return ITG_OK;
}

itg_status itg_source_import(const char *path, const itg_source_options *options, itg_import_problems *problems,
                             itg_diagnostic *diagnostic, itg_graph **out) {
  ITG_TRY(check_kind(path, diagnostic));
  const size_t count = options ? options->shape_count : 0;
  itg_arena arena = {0};
  itg_import_shape *shapes = itg_arena_array(&arena, count, sizeof *shapes);
  itg_status status = ITG_OK;
  if (!shapes) status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  for (size_t i = 0; i < count && status == ITG_OK; i++)
    status = parse_shape(options->shapes[i], &arena, diagnostic, &shapes[i]);
  for (size_t i = 1; i < count && status == ITG_OK; i++) {
    for (size_t k = 0; k < i && status == ITG_OK; k++) {
      if (strcmp(shapes[i].input, shapes[k].input) == 0)
        status = itg_fail(diagnostic, ITG_ERROR_ARGUMENT, shapes[i].input, __FILE__, __LINE__,
                          "the shape of this input is given twice");
    }
  }
  if (status == ITG_OK) {
    const itg_import_options import = {.shapes = shapes, .shape_count = count, .batch_is_one = true};
    status = itg_import_onnx(path, &import, problems, diagnostic, out);
  }
  itg_arena_free(&arena);
  return status;
}

itg_status itg_source_infos(itg_graph *graph, itg_tensor *const *tensors, int32_t count, itg_diagnostic *diagnostic,
                            itg_tensor_info **out) {
  itg_tensor_info *infos = itg_arena_array(&graph->arena, (size_t)count, sizeof *infos);
  ITG_TRY_MEMORY(infos, diagnostic);
  for (int32_t i = 0; i < count; i++) {
    infos[i] =
        (itg_tensor_info){.name = tensors[i]->name, .shape = tensors[i]->shape, .dtype = tensors[i]->dtype, .scale = 1};
    if (!itg_shape_count(&infos[i].shape, &infos[i].count))
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, tensors[i]->name, "has too many elements");
  }
  *out = infos;
  return ITG_OK;
}

const char *itg_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

double itg_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
