// Plans and packed weights shared by the sessions of a model. See model.h.
#include <pthread.h>
#include <stdlib.h>

#include "base/checked.h"
#include "plan/memory.h"
#include "run/model.h"

struct itg_program_list {
  pthread_mutex_t mutex;
  itg_program *first;
};

itg_status itg_program_list_create(itg_diagnostic *diagnostic, struct itg_program_list **out) {
  struct itg_program_list *list = calloc(1, sizeof *list);
  ITG_TRY_MEMORY(list, diagnostic);
  if (pthread_mutex_init(&list->mutex, NULL) != 0) {
    free(list);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "cannot create a lock");
  }
  *out = list;
  return ITG_OK;
}

void itg_program_list_destroy(struct itg_program_list *list) {
  if (!list) return;
  for (itg_program *program = list->first, *next; program; program = next) {
    next = program->next;
    itg_plan_destroy(program->plan);
    free(program->allocation);
    free(program);
  }
  pthread_mutex_destroy(&list->mutex);
  free(list);
}

// The program of a mask, planned if it is new. The mutex is held.
static itg_status find_program(const itg_model *model, uint32_t isa_mask, itg_diagnostic *diagnostic,
                               itg_program **out) {
  struct itg_program_list *list = model->programs;
  for (itg_program *program = list->first; program; program = program->next) {
    if (program->isa_mask == isa_mask) {
      *out = program;
      return ITG_OK;
    }
  }
  itg_program *program = calloc(1, sizeof *program);
  ITG_TRY_MEMORY(program, diagnostic);
  program->isa_mask = isa_mask;
  const itg_status status = itg_plan_create(model->container.graph, isa_mask, diagnostic, &program->plan);
  if (status != ITG_OK) {
    free(program);
    return status;
  }
  program->next = list->first;
  list->first = program;
  *out = program;
  return ITG_OK;
}

// Zeroed memory, so that what a kernel leaves between its weights is always the same.
static itg_status pack(itg_program *program, itg_diagnostic *diagnostic) {
  size_t size;
  if (!itg_checked_add(program->plan->packed_bytes, ITG_MEMORY_ALIGNMENT, &size))
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "the weights do not fit the address space");
  program->allocation = calloc(1, size);
  ITG_TRY_MEMORY(program->allocation, diagnostic);
  void *aligned = (void *)itg_align_up((uintptr_t)program->allocation, ITG_MEMORY_ALIGNMENT);
  itg_plan_pack(program->plan, aligned);
  program->packed = aligned;
  return ITG_OK;
}

itg_status itg_program_plan(const itg_model *model, uint32_t isa_mask, itg_diagnostic *diagnostic,
                            const itg_plan **out) {
  itg_program *program = NULL;
  pthread_mutex_lock(&model->programs->mutex);
  const itg_status status = find_program(model, isa_mask, diagnostic, &program);
  pthread_mutex_unlock(&model->programs->mutex);
  if (status == ITG_OK) *out = program->plan;
  return status;
}

itg_status itg_program_acquire(const itg_model *model, uint32_t isa_mask, itg_diagnostic *diagnostic,
                               const itg_program **out) {
  itg_program *program = NULL;
  pthread_mutex_lock(&model->programs->mutex);
  itg_status status = find_program(model, isa_mask, diagnostic, &program);
  if (status == ITG_OK && program->users == 0) status = pack(program, diagnostic);
  if (status == ITG_OK) {
    program->users++;
    *out = program;
  }
  pthread_mutex_unlock(&model->programs->mutex);
  return status;
}

void itg_program_release(const itg_model *model, const itg_program *held) {
  pthread_mutex_lock(&model->programs->mutex);
  for (itg_program *program = model->programs->first; program; program = program->next) {
    if (program != held || --program->users > 0) continue;
    free(program->allocation);
    program->allocation = NULL;
    program->packed = NULL;
  }
  pthread_mutex_unlock(&model->programs->mutex);
}
