// See device.h.
#include "npu/qnn/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct itg_qnn_device {
  itg_qnn_device *next;
  itg_qnn_library library;
  const itg_target *target;
  char *directory; // NULL: searched.
  int users;
  // The queue: a ticket for whoever comes, served in order.
  pthread_mutex_t lock;
  pthread_cond_t turn;
  unsigned long long next_ticket, served;
};

static struct {
  pthread_mutex_t lock;
  itg_qnn_device *first;
} devices = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static void destroy(itg_qnn_device *device) {
  itg_qnn_library_close(&device->library);
  pthread_cond_destroy(&device->turn);
  pthread_mutex_destroy(&device->lock);
  free(device->directory);
  free(device);
}

static itg_status open_device(const char *directory, const itg_target *target, itg_diagnostic *diagnostic,
                              itg_qnn_device **out) {
  itg_qnn_device *device = calloc(1, sizeof *device);
  ITG_TRY_MEMORY(device, diagnostic);
  device->directory = directory ? strdup(directory) : NULL;
  if (directory && !device->directory) {
    free(device);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  device->target = target;
  pthread_mutex_init(&device->lock, NULL);
  pthread_cond_init(&device->turn, NULL);
  const itg_status status = itg_qnn_library_open(directory, "libQnnHtp.so", target, diagnostic, &device->library);
  if (status != ITG_OK) {
    destroy(device);
    return status;
  }
  *out = device;
  return ITG_OK;
}

itg_status itg_qnn_device_acquire(const char *directory, const itg_target *target, itg_diagnostic *diagnostic,
                                  itg_qnn_device **out) {
  pthread_mutex_lock(&devices.lock);
  itg_qnn_device *device = devices.first;
  while (device && (device->target != target || !is_same(device->directory, directory))) device = device->next;
  itg_status status = ITG_OK;
  if (!device) {
    status = open_device(directory, target, diagnostic, &device);
    if (status == ITG_OK) {
      device->next = devices.first;
      devices.first = device;
    }
  }
  if (status == ITG_OK) {
    device->users++;
    *out = device;
  }
  pthread_mutex_unlock(&devices.lock);
  return status;
}

void itg_qnn_device_release(itg_qnn_device *device) {
  if (!device) return;
  pthread_mutex_lock(&devices.lock);
  if (--device->users == 0) {
    itg_qnn_device **at = &devices.first;
    while (*at != device) at = &(*at)->next;
    *at = device->next;
    destroy(device);
  }
  pthread_mutex_unlock(&devices.lock);
}

const itg_qnn_library *itg_qnn_device_enter(itg_qnn_device *device) {
  pthread_mutex_lock(&device->lock);
  const unsigned long long ticket = device->next_ticket++;
  while (device->served != ticket) pthread_cond_wait(&device->turn, &device->lock);
  pthread_mutex_unlock(&device->lock);
  return &device->library;
}

void itg_qnn_device_leave(itg_qnn_device *device) {
  pthread_mutex_lock(&device->lock);
  device->served++;
  pthread_cond_broadcast(&device->turn);
  pthread_mutex_unlock(&device->lock);
}

const itg_qnn_library *itg_qnn_device_library(const itg_qnn_device *device) { return &device->library; }

void itg_qnn_devices_hold(void) {
  pthread_mutex_lock(&devices.lock);
  for (itg_qnn_device *device = devices.first; device; device = device->next) itg_qnn_device_enter(device);
}

void itg_qnn_devices_let_go(void) {
  for (itg_qnn_device *device = devices.first; device; device = device->next) itg_qnn_device_leave(device);
  pthread_mutex_unlock(&devices.lock);
}
