// Sessions: arguments, conversion between floats and codes, and a backend that runs. See intaglio.h.
#include <stdlib.h>
#include <string.h>

#include "plan/memory.h"
#include "run/backend.h"
#include "run/convert.h"

struct itg_session {
  const itg_model *model;
  const itg_backend *backend;
  void *state;
  bool *is_set; // By input.
  // Models with states.
  size_t rows, position;
  itg_block_outputs outputs;
};

void itg_session_options_default(itg_session_options *options) {
  *options = (itg_session_options){.struct_size = sizeof *options};
}

// All fields of this build: those the caller's header has, and defaults for the others.
static itg_status complete_options(const itg_session_options *given, itg_diagnostic *diagnostic,
                                   itg_session_options *out) {
  itg_session_options_default(out);
  if (!given) return ITG_OK;
  if (given->struct_size < sizeof given->struct_size || given->struct_size > 4096)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL,
             "options have struct_size %zu; fill them with itg_session_options_default first", given->struct_size);
  memcpy(out, given, given->struct_size < sizeof *out ? given->struct_size : sizeof *out);
  out->struct_size = sizeof *out;
  if (out->thread_count < 0 || out->thread_count > 1024)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "thread count %d is not in 0..1024", out->thread_count);
  return ITG_OK;
}

static itg_status choose_backend(const itg_session_options *options, itg_diagnostic *diagnostic,
                                 const itg_backend **out) {
  static const itg_backend *const backends[] = {&itg_backend_cpu, &itg_backend_qnn};
  for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
    if (options->backend && strcmp(options->backend, backends[i]->name) != 0) continue;
    *out = backends[i]; // The CPU when nothing was asked for.
    return ITG_OK;
  }
  ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, options->backend, "unknown backend; there are cpu and qnn");
}

itg_status itg_session_workspace_size(const itg_model *model, const itg_session_options *options,
                                      itg_diagnostic *diagnostic, size_t *out) {
  if (!model || !out) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "model and out must not be NULL");
  itg_session_options complete;
  ITG_TRY(complete_options(options, diagnostic, &complete));
  const itg_backend *backend = NULL;
  ITG_TRY(choose_backend(&complete, diagnostic, &backend));
  return backend->workspace_size(model, &complete, diagnostic, out);
}

static itg_status check_workspace(const itg_session *session, const itg_session_options *options,
                                  itg_diagnostic *diagnostic) {
  if (!options->workspace) return ITG_OK;
  size_t needed = 0;
  ITG_TRY(session->backend->workspace_size(session->model, options, diagnostic, &needed));
  if ((uintptr_t)options->workspace % ITG_MEMORY_ALIGNMENT || options->workspace_size < needed)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "the workspace must be aligned to %d and have %zu bytes, not %zu",
             ITG_MEMORY_ALIGNMENT, needed, options->workspace_size);
  return ITG_OK;
}

static itg_status prepare(itg_session *session, const itg_session_options *options, itg_diagnostic *diagnostic) {
  ITG_TRY(session->backend->query(session->model, options, diagnostic));
  ITG_TRY(check_workspace(session, options, diagnostic));
  session->is_set = calloc(itg_model_input_count(session->model) + 1, sizeof *session->is_set);
  ITG_TRY_MEMORY(session->is_set, diagnostic);
  session->rows = (size_t)session->model->block_rows;
  session->position = (size_t)session->model->prefix;
  if (session->rows && !session->backend->set_block)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, session->backend->name, "the backend has no models with caches");
  return session->backend->create(session->model, options, diagnostic, &session->state);
}

itg_status itg_session_create(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic,
                              itg_session **out) {
  if (!model || !out) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "model and out must not be NULL");
  itg_session_options complete;
  ITG_TRY(complete_options(options, diagnostic, &complete));
  const itg_backend *backend = NULL;
  ITG_TRY(choose_backend(&complete, diagnostic, &backend));
  itg_session *session = calloc(1, sizeof *session);
  ITG_TRY_MEMORY(session, diagnostic);
  session->model = model;
  session->backend = backend;
  const itg_status status = prepare(session, &complete, diagnostic);
  if (status != ITG_OK) {
    itg_session_destroy(session);
    return status;
  }
  *out = session;
  return ITG_OK;
}

void itg_session_destroy(itg_session *session) {
  if (!session) return;
  if (session->state) session->backend->destroy(session->state);
  free(session->is_set);
  free(session);
}

// [1,T,..] or [T,..]: one row a position of the block.
static bool has_rows(const itg_session *session, const itg_tensor_info *info) {
  const int64_t rows = session->model->block_rows;
  const itg_shape *shape = &info->shape;
  return (shape->rank >= 2 && shape->dims[0] == 1 && shape->dims[1] == rows) ||
         (shape->rank == 2 && shape->dims[0] == rows);
}

// The tensor behind an index, after checking that `given` elements (or bytes) are what it has.
static itg_status check_access(const itg_session *session, const itg_tensor_info *info, size_t index, const void *data,
                               size_t given, size_t element_size, size_t rows, const char *unit,
                               itg_diagnostic *diagnostic) {
  if (!info) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "the model has no input or output %zu", index);
  if (!data) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, info->name, "the data is NULL");
  size_t count = info->count;
  if (session->rows && has_rows(session, info)) count = count / itg_session_block(session) * rows;
  if (given != count * element_size) {
    char shape[96];
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, info->name, "the tensor is %s (%zu %s), not %zu",
             itg_shape_print(&info->shape, shape, sizeof shape), count * element_size, unit, given);
  }
  return ITG_OK;
}

static void *input_of(const itg_session *session, size_t index) {
  return session->backend->input(session->state, (size_t)session->model->graph_inputs[index]);
}

// Rows of the outputs that the last run left.
static size_t output_rows(const itg_session *session) {
  return session->outputs == ITG_BLOCK_ALL_ROWS ? session->rows : session->outputs == ITG_BLOCK_LAST_ROW;
}

// The first byte of an output that callers see.
static const void *output_of(const itg_session *session, const itg_tensor_info *info, size_t index) {
  const uint8_t *data = session->backend->output(session->state, index);
  if (!session->rows || !has_rows(session, info)) return data;
  const size_t row = info->count / itg_session_block(session) * itg_dtype_size(info->dtype);
  return data + (session->rows - output_rows(session)) * row;
}

// Rows of the table that an input of numbers picks from, directly or through views; INT64_MAX: it picks from none.
static int64_t rows_picked(const itg_tensor *ids) {
  int64_t rows = INT64_MAX;
  for (int32_t u = 0; u < ids->user_count; u++) {
    const itg_node *user = ids->users[u];
    int64_t limit = INT64_MAX;
    if (user->op == ITG_OP_GATHER && user->inputs[1] == ids && user->inputs[0] != ids) {
      const itg_shape *table = &user->inputs[0]->shape;
      const int64_t axis = user->attributes.axis.axis;
      limit = table->dims[axis < 0 ? axis + table->rank : axis];
    } else if (user->op == ITG_OP_Q_EMBEDDING && user->inputs[0] == ids) {
      limit = user->inputs[1]->shape.dims[0];
    } else if (user->op == ITG_OP_RESHAPE || user->op == ITG_OP_IDENTITY) {
      limit = rows_picked(user->outputs[0]);
    }
    if (limit < rows) rows = limit;
  }
  return rows;
}

// Kernels answer an id beyond the table with zeros, which nobody would notice.
static itg_status check_ids(itg_session *session, size_t index, size_t count, itg_diagnostic *diagnostic) {
  const itg_tensor_info *info = itg_model_input(session->model, index);
  if (info->dtype != ITG_DTYPE_S32 && info->dtype != ITG_DTYPE_S64) return ITG_OK;
  const int64_t rows = rows_picked(session->model->container.graph->inputs[index]);
  const void *ids = input_of(session, index);
  for (size_t i = 0; rows < INT64_MAX && i < count; i++) {
    const int64_t id = info->dtype == ITG_DTYPE_S64 ? ((const int64_t *)ids)[i] : ((const int32_t *)ids)[i];
    if (id < -rows || id >= rows)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, info->name,
               "value %zu is %lld, but the table it picks from has %lld rows", i, (long long)id, (long long)rows);
  }
  return ITG_OK;
}

itg_status itg_session_set_input(itg_session *session, size_t index, const float *values, size_t count,
                                 itg_diagnostic *diagnostic) {
  const itg_tensor_info *info = itg_model_input(session->model, index);
  ITG_TRY(check_access(session, info, index, values, count, 1, session->rows, "values", diagnostic));
  itg_encode_array(values, count, info->dtype, info->scale, info->zero_point, input_of(session, index));
  session->is_set[index] = false; // Until the values are known to be good.
  ITG_TRY(check_ids(session, index, count, diagnostic));
  session->is_set[index] = true;
  return ITG_OK;
}

itg_status itg_session_set_input_codes(itg_session *session, size_t index, const void *codes, size_t size,
                                       itg_diagnostic *diagnostic) {
  const itg_tensor_info *info = itg_model_input(session->model, index);
  ITG_TRY(check_access(session, info, index, codes, size, info ? itg_dtype_size(info->dtype) : 1, session->rows,
                       "bytes", diagnostic));
  memcpy(input_of(session, index), codes, size);
  session->is_set[index] = false;
  ITG_TRY(check_ids(session, index, size / itg_dtype_size(info->dtype), diagnostic));
  session->is_set[index] = true;
  return ITG_OK;
}

size_t itg_session_block(const itg_session *session) { return (size_t)session->model->block_rows; }
size_t itg_session_capacity(const itg_session *session) { return (size_t)session->model->capacity; }
size_t itg_session_position(const itg_session *session) { return session->position; }

itg_status itg_session_set_block(itg_session *session, size_t rows, itg_block_outputs outputs,
                                 itg_diagnostic *diagnostic) {
  const size_t block = itg_session_block(session), capacity = itg_session_capacity(session);
  if (rows < 1 || rows > block || outputs < ITG_BLOCK_ALL_ROWS || outputs > ITG_BLOCK_NO_OUTPUTS)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "a block of %zu rows; the model takes 1 to %zu", rows, block);
  if (rows > capacity - session->position)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "%zu positions after %zu do not fit the context of %zu", rows,
             session->position, capacity);
  session->rows = rows;
  session->outputs = outputs;
  for (size_t i = 0; i < itg_model_input_count(session->model); i++) session->is_set[i] = false;
  return ITG_OK;
}

itg_status itg_session_rewind(itg_session *session, size_t position, itg_diagnostic *diagnostic) {
  if (!session->rows || position > session->position)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "cannot go back to position %zu from %zu", position,
             session->position);
  const size_t prefix = (size_t)session->model->prefix;
  session->position = position > prefix ? position : prefix;
  return ITG_OK;
}

// Every input was set; a block fits, and the backend knows it.
static itg_status begin_run(itg_session *session, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < itg_model_input_count(session->model); i++) {
    if (!session->is_set[i])
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, session->model->inputs[i].name, "input %zu was never set", i);
  }
  if (!session->rows) return ITG_OK;
  if (session->rows > itg_session_capacity(session) - session->position)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "%zu positions after %zu do not fit the context of %zu", session->rows,
             session->position, itg_session_capacity(session));
  return session->backend->set_block(session->state, session->rows, session->outputs, session->position, diagnostic);
}

itg_status itg_session_run(itg_session *session, itg_diagnostic *diagnostic) {
  ITG_TRY(begin_run(session, diagnostic));
  ITG_TRY(session->backend->run(session->state, diagnostic));
  session->position += session->rows;
  return ITG_OK;
}

itg_status itg_session_run_observed(itg_session *session, itg_step_observer observer, void *context,
                                    itg_diagnostic *diagnostic) {
  ITG_TRY(begin_run(session, diagnostic));
  if (!session->backend->run_observed)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, NULL, "the backend %s does not run step by step",
             session->backend->name);
  session->backend->run_observed(session->state, observer, context);
  session->position += session->rows;
  return ITG_OK;
}

itg_status itg_session_get_output(const itg_session *session, size_t index, float *values, size_t count,
                                  itg_diagnostic *diagnostic) {
  const itg_tensor_info *info = itg_model_output(session->model, index);
  ITG_TRY(check_access(session, info, index, values, count, 1, output_rows(session), "values", diagnostic));
  itg_decode_array(output_of(session, info, index), count, info->dtype, info->scale, info->zero_point, values);
  return ITG_OK;
}

itg_status itg_session_get_output_codes(const itg_session *session, size_t index, void *codes, size_t size,
                                        itg_diagnostic *diagnostic) {
  const itg_tensor_info *info = itg_model_output(session->model, index);
  ITG_TRY(check_access(session, info, index, codes, size, info ? itg_dtype_size(info->dtype) : 1, output_rows(session),
                       "bytes", diagnostic));
  memcpy(codes, output_of(session, info, index), size);
  return ITG_OK;
}

size_t itg_session_step_count(const itg_session *session) { return session->backend->step_count(session->state); }

itg_status itg_session_step(const itg_session *session, size_t index, itg_step_info *out) {
  if (index >= itg_session_step_count(session)) return ITG_ERROR_ARGUMENT;
  session->backend->step(session->state, index, out);
  return ITG_OK;
}

itg_status itg_session_proof(itg_session *session, itg_diagnostic *diagnostic, itg_proof *out) {
  *out = (itg_proof){.sentence = "computed by the CPU"};
  if (!session->backend->proof) return ITG_OK;
  ITG_TRY(begin_run(session, diagnostic));
  return session->backend->proof(session->state, diagnostic, out);
}

const char *itg_session_cpu(const itg_session *session) { return session->backend->processor(session->state); }
