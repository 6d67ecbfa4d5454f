// Bodies of POST /v1/chat/completions.
#include "server/openai_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const itg_image_limits limits = {.max_pixels = 1 << 16, .max_bytes = 1 << 16};
  itg_openai_request request = {0};
  itg_diagnostic diagnostic;
  if (itg_openai_request_parse((itg_span){data, size}, &limits, &diagnostic, &request) == ITG_OK &&
      request.message_count == 0)
    __builtin_trap(); // A request that was taken has messages.
  itg_openai_request_free(&request);
  return 0;
}
