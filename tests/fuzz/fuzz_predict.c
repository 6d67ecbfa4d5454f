// Any bytes as the body of POST /predict, in each content type: an answer with a status of ours, and nothing worse.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "server/log.h"
#include "server/predict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const types[] = {"multipart/form-data; boundary=X", "application/x-www-form-urlencoded",
                                      "multipart/form-data; boundary=\"--\"", NULL};
  static const itg_image_limits limits = {.max_pixels = 1 << 20, .max_bytes = 1 << 20};
  static itg_models *models;
  if (!models) {
    const itg_models_options options = {.folder = "/nonexistent", .poll_seconds = 3600};
    itg_log_set_level(ITG_LOG_ERROR);
    if (itg_models_create(&options, NULL, &models) != ITG_OK) abort();
  }
  if (size == 0) return 0;
  const itg_predict predict = {.models = models,
                               .version = data[0] & 4 ? ITG_IMMICH_2_7 : ITG_IMMICH_3,
                               .limits = &limits,
                               .content_type = types[data[0] % 4],
                               .body = {data + 1, size - 1}};
  itg_reply reply = {0};
  const int status = itg_predict_run(&predict, &reply);
  if (status != 200 && status != 400 && status != 413 && status != 422 && status != 500 && status != 503) abort();
  if (!reply.failed && reply.size == 0) abort();
  itg_reply_free(&reply);
  return 0;
}
