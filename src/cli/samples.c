// See samples.h. Pictures are prepared when they are read and kept while the cache has room, because calibration reads
// every sample more than once; crops of faces are small and made once, at the beginning.
#include "cli/samples.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/status.h"
#include "cli/texts.h"
#include "tensor/dtype.h"
#include "tensor/npy.h"

static const size_t CACHE_BYTES = (size_t)64 << 20;

typedef struct picture {
  const char *path;
  const char *name;  // Below the folder given.
  const char *group; // NULL: unknown.
  uint8_t *crop;     // Faces: CLI_CROP_BYTES.
  float *values;     // Cached network input.
} picture;

struct cli_samples {
  const cli_sample_options *options;
  itg_arena arena;
  size_t count;      // After the limit.
  size_t rows;       // Of the arrays, before it.
  picture *pictures; // NULL: arrays.
  size_t capacity, cached;
  itg_npy *arrays;     // One an input.
  bool *open;          // Which of them are.
  const char **labels; // "row 12", made on demand.
  cli_texts texts;     // Count 0: no texts.
};

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), size = strlen(end);
  return length >= size && strcmp(text + length - size, end) == 0;
}

// ---- pictures ----

// Who a picture shows by its name: the folder part, or the start of the file name; NULL when the rule gives nothing.
static const char *group_of(cli_samples *samples, const char *name) {
  const char *rule = samples->options->identities;
  const char *slash = strrchr(name, '/');
  size_t length;
  if (rule && strcmp(rule, "none") == 0) return NULL;
  if (rule && strcmp(rule, "prefix") == 0) {
    name = slash ? slash + 1 : name;
    for (length = 0; name[length] && !strchr("_-.", name[length]) && !isdigit((unsigned char)name[length]);) length++;
  } else {
    length = slash ? (size_t)(slash - name) : 0;
  }
  return length ? itg_arena_string(&samples->arena, name, length) : NULL;
}

static itg_status add_picture(cli_samples *samples, const char *path, const char *name, itg_diagnostic *diagnostic) {
  if (samples->count == samples->capacity) {
    const size_t capacity = samples->capacity ? 2 * samples->capacity : 64;
    picture *grown = realloc(samples->pictures, capacity * sizeof *grown);
    ITG_TRY_MEMORY(grown, diagnostic);
    samples->pictures = grown;
    samples->capacity = capacity;
  }
  picture *added = &samples->pictures[samples->count];
  *added = (picture){.path = itg_arena_string(&samples->arena, path, strlen(path)),
                     .name = itg_arena_string(&samples->arena, name, strlen(name)),
                     .group = group_of(samples, name)};
  ITG_TRY_MEMORY(added->path && added->name, diagnostic);
  samples->count++;
  return ITG_OK;
}

static itg_status add_folder(cli_samples *samples, const char *folder, itg_diagnostic *diagnostic) {
  itg_image_list list;
  ITG_TRY(itg_image_list_folder(folder, diagnostic, &list));
  itg_status status = ITG_OK;
  if (list.count == 0)
    status = itg_fail(diagnostic, ITG_ERROR_ARGUMENT, folder, __FILE__, __LINE__,
                      "no .jpg, .png or .webp in this folder or below; for arrays give INPUT=FILE.npy");
  for (size_t i = 0; i < list.count && status == ITG_OK; i++) {
    const char *name = list.paths[i] + strlen(folder);
    status = add_picture(samples, list.paths[i], name + strspn(name, "/"), diagnostic);
  }
  itg_image_list_free(&list);
  return status;
}

static itg_status check_picture_input(const cli_samples *samples, itg_diagnostic *diagnostic) {
  const cli_sample_options *options = samples->options;
  if (options->input_count != 1)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL,
             "the network has %zu inputs, pictures fill one; give INPUT=FILE.npy for each", options->input_count);
  const itg_tensor_info *input = options->inputs[0];
  if (options->faces) {
    const itg_shape wanted = {4, {1, 3, ITG_FACE_CROP_SIDE, ITG_FACE_CROP_SIDE}};
    char shape[128];
    if (!itg_shape_equal(&input->shape, &wanted))
      ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, input->name,
               "is %s; a face embedder reads 1x3x112x112; is --kind face-recognition meant?",
               itg_shape_print(&input->shape, shape, sizeof shape));
    return ITG_OK;
  }
  if (options->preprocess || options->lines) return ITG_OK;
  char names[200] = "";
  const char *name;
  for (size_t i = 0; (name = itg_preprocess_builtin_name(i)); i++) {
    const size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "", name);
  }
  ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL,
           "pictures need a way into the network: give --preprocess with a JSON file or one of %s", names);
}

// Keeps `limit` pictures, evenly spread.
static void thin_out(cli_samples *samples) {
  const size_t limit = samples->options->limit, count = samples->count;
  if (limit == 0 || limit >= count) return;
  for (size_t i = 0; i < limit; i++) samples->pictures[i] = samples->pictures[i * count / limit];
  samples->count = limit;
}

// One sample a crop. Several faces of one photograph share its name, but nobody says which of them it names.
static itg_status add_crops(cli_samples *samples, const picture *photograph, const uint8_t *crops, size_t count,
                            itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < count; i++) {
    ITG_TRY(add_picture(samples, photograph->path, photograph->name, diagnostic));
    picture *added = &samples->pictures[samples->count - 1];
    added->crop = itg_arena_copy(&samples->arena, crops + i * CLI_CROP_BYTES, CLI_CROP_BYTES);
    ITG_TRY_MEMORY(added->crop, diagnostic);
    if (count == 1) continue;
    char name[512];
    const int length = snprintf(name, sizeof name, "%.480s, face %zu", photograph->name, i + 1);
    added->name = itg_arena_string(&samples->arena, name, (size_t)length);
    added->group = NULL;
    ITG_TRY_MEMORY(added->name, diagnostic);
  }
  return ITG_OK;
}

static itg_status crop_photographs(cli_samples *samples, const picture *photographs, size_t seen, uint8_t *crops,
                                   itg_diagnostic *diagnostic) {
  const cli_sample_options *options = samples->options;
  for (size_t i = 0; i < seen; i++) {
    size_t count;
    cli_progress_update(options->progress, "finding faces", (long long)i, (long long)seen);
    ITG_TRY(cli_faces_crops(options->faces, photographs[i].path, options->all_faces, diagnostic, crops, &count));
    if (count == 0) cli_note(options->progress, "note: no face found, left out (%s)", photographs[i].path);
    ITG_TRY(add_crops(samples, &photographs[i], crops, count, diagnostic));
  }
  cli_progress_update(options->progress, "finding faces", (long long)seen, (long long)seen);
  if (samples->count == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "no face in any of the %zu photographs", seen);
  return ITG_OK;
}

static itg_status find_faces(cli_samples *samples, itg_diagnostic *diagnostic) {
  picture *photographs = samples->pictures;
  const size_t seen = samples->count;
  samples->pictures = NULL;
  samples->count = samples->capacity = 0;
  uint8_t *crops = malloc((size_t)CLI_MAX_FACES * CLI_CROP_BYTES);
  const itg_status status = crops ? crop_photographs(samples, photographs, seen, crops, diagnostic)
                                  : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  free(crops);
  free(photographs);
  return status;
}

// One sample a line of text; its values are made now, because the picture is needed for nothing else.
static itg_status add_lines(cli_samples *samples, const picture *photograph, const float *values, size_t count,
                            itg_diagnostic *diagnostic) {
  const size_t size = samples->options->inputs[0]->count;
  for (size_t i = 0; i < count; i++) {
    char name[512];
    const int length = snprintf(name, sizeof name, "%.480s, line %zu", photograph->name, i + 1);
    ITG_TRY(add_picture(samples, photograph->path, photograph->name, diagnostic));
    picture *added = &samples->pictures[samples->count - 1];
    added->group = NULL;
    added->name = itg_arena_string(&samples->arena, name, (size_t)length);
    added->values = malloc(size * sizeof *added->values);
    ITG_TRY_MEMORY(added->name && added->values, diagnostic);
    memcpy(added->values, values + i * size, size * sizeof *values);
  }
  return ITG_OK;
}

static itg_status read_pages(cli_samples *samples, const picture *pages, size_t seen, float *values,
                             itg_diagnostic *diagnostic) {
  const cli_sample_options *options = samples->options;
  const itg_tensor_info *input = options->inputs[0];
  for (size_t i = 0; i < seen; i++) {
    size_t count;
    cli_progress_update(options->progress, "finding text", (long long)i, (long long)seen);
    ITG_TRY(cli_lines_values(options->lines, pages[i].path, &input->shape, input->count, diagnostic, values, &count));
    if (count == 0) cli_note(options->progress, "note: no text found, left out (%s)", pages[i].path);
    ITG_TRY(add_lines(samples, &pages[i], values, count, diagnostic));
  }
  cli_progress_update(options->progress, "finding text", (long long)seen, (long long)seen);
  if (samples->count == 0) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "no text in any of the %zu pictures", seen);
  return ITG_OK;
}

static itg_status find_lines(cli_samples *samples, itg_diagnostic *diagnostic) {
  picture *pages = samples->pictures;
  const size_t seen = samples->count;
  samples->pictures = NULL;
  samples->count = samples->capacity = 0;
  float *values = malloc(CLI_MAX_LINES * samples->options->inputs[0]->count * sizeof *values);
  const itg_status status = values ? read_pages(samples, pages, seen, values, diagnostic)
                                   : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  free(values);
  free(pages);
  return status;
}

static itg_status read_picture(cli_samples *samples, picture *source, float *out, itg_diagnostic *diagnostic) {
  const itg_tensor_info *input = samples->options->inputs[0];
  if (source->crop) {
    return cli_faces_input(samples->options->faces, source->crop, diagnostic, out);
  }
  const size_t bytes = input->count * sizeof(float);
  if (source->values) {
    memcpy(out, source->values, bytes);
    return ITG_OK;
  }
  itg_image image;
  ITG_TRY(itg_image_read(source->path, NULL, diagnostic, &image));
  const itg_status status = itg_preprocess_run(samples->options->preprocess, &image, &input->shape, diagnostic, out);
  itg_image_free(&image);
  ITG_TRY(status);
  if (bytes <= CACHE_BYTES - samples->cached && (source->values = malloc(bytes))) {
    memcpy(source->values, out, bytes);
    samples->cached += bytes;
  }
  return ITG_OK;
}

// ---- arrays ----

static itg_status find_input(const cli_samples *samples, const char *spec, size_t *index, const char **path,
                             itg_diagnostic *diagnostic) {
  const cli_sample_options *options = samples->options;
  for (size_t i = 0; i < options->input_count; i++) {
    const size_t length = strlen(options->inputs[i]->name);
    if (strncmp(spec, options->inputs[i]->name, length) != 0 || spec[length] != '=') continue;
    *index = i;
    *path = spec + length + 1;
    return ITG_OK;
  }
  if (options->input_count == 1 && !strchr(spec, '=')) {
    *index = 0;
    *path = spec;
    return ITG_OK;
  }
  if (options->input_count == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, spec, "the network has no inputs, so it takes no data");
  char names[250] = "";
  for (size_t i = 0; i < options->input_count; i++) {
    const size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "", options->inputs[i]->name);
  }
  ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, spec, "names no input of the network; write INPUT=FILE.npy; inputs: %s",
           names);
}

// An array is [rows, shape of the input], where a first dimension of 1 may be left out of the input's shape.
static bool rows_of(const itg_npy *array, const itg_shape *input, int64_t *rows) {
  for (int32_t skip = 0; skip <= 1; skip++) {
    if (skip == 1 && (input->rank == 0 || input->dims[0] != 1)) break;
    if (array->shape.rank != input->rank - skip + 1) continue;
    bool same = true;
    for (int32_t d = skip; d < input->rank; d++) same &= array->shape.dims[d - skip + 1] == input->dims[d];
    if (!same) continue;
    *rows = array->shape.dims[0];
    return true;
  }
  *rows = 1;
  return itg_shape_equal(&array->shape, input);
}

static itg_status add_array(cli_samples *samples, const char *spec, itg_diagnostic *diagnostic) {
  const cli_sample_options *options = samples->options;
  size_t index;
  const char *path;
  ITG_TRY(find_input(samples, spec, &index, &path, diagnostic));
  const itg_tensor_info *input = options->inputs[index];
  if (samples->open[index]) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, spec, "input \"%s\" is given twice", input->name);
  ITG_TRY(itg_npy_open(path, diagnostic, &samples->arrays[index]));
  samples->open[index] = true;
  int64_t rows;
  char actual[128], wanted[128];
  if (!rows_of(&samples->arrays[index], &input->shape, &rows))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, path, "is %s; input \"%s\" needs rows of %s",
             itg_shape_print(&samples->arrays[index].shape, actual, sizeof actual), input->name,
             itg_shape_print(&input->shape, wanted, sizeof wanted));
  if (rows < 1) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, path, "holds no rows");
  if (samples->rows && samples->rows != (size_t)rows)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, path, "has %lld rows, another input has %zu", (long long)rows, samples->rows);
  samples->rows = (size_t)rows;
  return ITG_OK;
}

static itg_status check_arrays(cli_samples *samples, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < samples->options->input_count; i++) {
    if (!samples->open[i])
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, samples->options->inputs[i]->name,
               "no values for this input; add INPUT=FILE.npy");
  }
  const size_t limit = samples->options->limit;
  samples->count = limit && limit < samples->rows ? limit : samples->rows;
  samples->labels = itg_arena_array(&samples->arena, samples->count, sizeof *samples->labels);
  ITG_TRY_MEMORY(samples->labels, diagnostic);
  return ITG_OK;
}

static void store_integer(itg_dtype dtype, void *out, size_t index, int64_t value) {
  switch (itg_dtype_size(dtype)) {
  case 1: ((uint8_t *)out)[index] = (uint8_t)value; break;
  case 2: ((uint16_t *)out)[index] = (uint16_t)value; break;
  case 4: ((uint32_t *)out)[index] = (uint32_t)value; break;
  default: ((uint64_t *)out)[index] = (uint64_t)value;
  }
}

static itg_status read_array(const itg_npy *array, const itg_tensor_info *input, size_t row, void *out,
                             itg_diagnostic *diagnostic) {
  const size_t first = row * input->count;
  if (itg_dtype_is_float(input->dtype)) return itg_npy_floats(array, first, input->count, diagnostic, out);
  const size_t size = itg_dtype_size(input->dtype);
  if (array->dtype == input->dtype) {
    memcpy(out, array->values + first * size, input->count * size);
    return ITG_OK;
  }
  for (size_t i = 0; i < input->count; i++) { // Another integer type, or whole numbers written as floats.
    float value;
    ITG_TRY(itg_npy_floats(array, first + i, 1, diagnostic, &value));
    if (!(fabsf(value) < 0x1p24f) || value != floorf(value))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, input->name,
               "the input takes %s; save the array as that type (a value of %g in %s does not convert safely)",
               itg_dtype_name(input->dtype), (double)value, itg_dtype_name(array->dtype));
    store_integer(input->dtype, out, i, (int64_t)value);
  }
  return ITG_OK;
}

// ---- both ----

// ---- texts ----

static itg_status read_texts(cli_samples *samples, const char *const *specs, size_t count, itg_diagnostic *diagnostic) {
  const cli_sample_options *options = samples->options;
  const size_t context = itg_clip_text_context(options->texts);
  for (size_t i = 0; i < options->input_count; i++) {
    if (options->inputs[i]->count != context || options->input_count > 2)
      ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, options->inputs[i]->name, "a text encoder reads %zu ids of each text",
               context);
  }
  for (size_t i = 0; i < count; i++) ITG_TRY(cli_texts_read(&samples->texts, options->texts, specs[i], diagnostic));
  if (samples->texts.count == 0) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, specs[0], "holds no text");
  samples->rows = samples->texts.count;
  samples->count = options->limit && options->limit < samples->rows ? options->limit : samples->rows;
  samples->labels = itg_arena_array(&samples->arena, samples->count, sizeof *samples->labels);
  ITG_TRY_MEMORY(samples->labels, diagnostic);
  return ITG_OK;
}

static void read_text(const cli_samples *samples, size_t row, void *const *inputs) {
  for (size_t i = 0; i < samples->options->input_count; i++) {
    const itg_tensor_info *input = samples->options->inputs[i];
    const bool mask = samples->options->input_count == 2 && strcmp(input->name, "attention_mask") == 0;
    const float *values = (mask ? samples->texts.masks : samples->texts.ids) + row * samples->texts.context;
    if (itg_dtype_is_float(input->dtype))
      memcpy(inputs[i], values, input->count * sizeof *values);
    else
      for (size_t k = 0; k < input->count; k++) store_integer(input->dtype, inputs[i], k, (int64_t)values[k]);
  }
}

static bool are_texts(const char *const *specs, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (ends_with(specs[i], ".npy") || strchr(specs[i], '=') || is_folder(specs[i])) return false;
  return true;
}

static itg_status fill(cli_samples *samples, const char *const *specs, size_t count, itg_diagnostic *diagnostic) {
  const size_t inputs = samples->options->input_count;
  samples->arrays = itg_arena_array(&samples->arena, inputs, sizeof *samples->arrays);
  samples->open = itg_arena_array(&samples->arena, inputs, sizeof *samples->open);
  ITG_TRY_MEMORY(samples->arrays && samples->open, diagnostic);
  if (samples->options->texts && are_texts(specs, count)) return read_texts(samples, specs, count, diagnostic);
  bool arrays = false;
  for (size_t i = 0; i < count; i++) {
    const bool folder = is_folder(specs[i]);
    if (!strchr(specs[i], '=') && access(specs[i], F_OK) != 0)
      ITG_FAIL(diagnostic, ITG_ERROR_IO, specs[i], "cannot open: %s", strerror(errno));
    const bool array = !folder && (ends_with(specs[i], ".npy") || strchr(specs[i], '='));
    if (i > 0 && array != arrays)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, specs[i], "pictures and arrays cannot be mixed");
    arrays = array;
    if (folder)
      ITG_TRY(add_folder(samples, specs[i], diagnostic));
    else if (array)
      ITG_TRY(add_array(samples, specs[i], diagnostic));
    else {
      const char *slash = strrchr(specs[i], '/');
      ITG_TRY(add_picture(samples, specs[i], slash ? slash + 1 : specs[i], diagnostic));
    }
  }
  if (arrays) return check_arrays(samples, diagnostic);
  ITG_TRY(check_picture_input(samples, diagnostic));
  thin_out(samples);
  if (samples->options->lines) return find_lines(samples, diagnostic);
  return samples->options->faces ? find_faces(samples, diagnostic) : ITG_OK;
}

itg_status cli_samples_open(const char *const *specs, size_t count, const cli_sample_options *options,
                            itg_diagnostic *diagnostic, cli_samples **out) {
  if (count == 0) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "no data given");
  cli_samples *samples = calloc(1, sizeof *samples);
  ITG_TRY_MEMORY(samples, diagnostic);
  samples->options = options;
  const itg_status status = fill(samples, specs, count, diagnostic);
  if (status != ITG_OK) {
    cli_samples_close(samples);
    return status;
  }
  *out = samples;
  return ITG_OK;
}

void cli_samples_close(cli_samples *samples) {
  if (!samples) return;
  for (size_t i = 0; samples->pictures && i < samples->count; i++) free(samples->pictures[i].values);
  for (size_t i = 0; samples->open && i < samples->options->input_count; i++) {
    if (samples->open[i]) itg_npy_close(&samples->arrays[i]);
  }
  free(samples->pictures);
  cli_texts_free(&samples->texts);
  itg_arena_free(&samples->arena);
  free(samples);
}

static itg_status read_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  const cli_sample_view *view = context;
  cli_samples *samples = view->samples;
  const size_t at = view->first + index * view->step;
  if (samples->pictures) return read_picture(samples, &samples->pictures[at], inputs[0], diagnostic);
  if (samples->texts.count) {
    read_text(samples, at * samples->rows / samples->count, inputs);
    return ITG_OK;
  }
  for (size_t i = 0; i < samples->options->input_count; i++)
    ITG_TRY(read_array(&samples->arrays[i], samples->options->inputs[i], at * samples->rows / samples->count, inputs[i],
                       diagnostic));
  return ITG_OK;
}

static const char *sample_name(void *context, size_t index) {
  const cli_sample_view *view = context;
  cli_samples *samples = view->samples;
  const size_t at = view->first + index * view->step;
  if (samples->pictures) return samples->pictures[at].name;
  if (!samples->labels[at]) {
    char text[32];
    const int length = snprintf(text, sizeof text, "row %zu", at * samples->rows / samples->count);
    samples->labels[at] = itg_arena_string(&samples->arena, text, (size_t)length);
  }
  return samples->labels[at];
}

static const char *sample_group(void *context, size_t index) {
  const cli_sample_view *view = context;
  return view->samples->pictures ? view->samples->pictures[view->first + index * view->step].group : NULL;
}

itg_samples cli_samples_view(cli_samples *samples, size_t first, size_t step, cli_sample_view *view) {
  *view = (cli_sample_view){samples, first, step};
  const size_t count = first < samples->count ? (samples->count - first + step - 1) / step : 0;
  return (itg_samples){view, count, read_sample, sample_name, sample_group};
}
