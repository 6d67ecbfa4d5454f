// See lines.h.
#include "cli/lines.h"

#include <stdlib.h>

#include "base/status.h"
#include "cli/files.h"
#include "server/networks.h"

// As Immich's server asks.
static const itg_text_options text_options = {.min_score = 0.5, .max_resolution = 736};

struct cli_lines {
  itg_service *service;
  itg_networks networks;
};

itg_status cli_lines_open(const char *folder, const char *model, itg_diagnostic *diagnostic, cli_lines **out) {
  static const itg_network_options options = {.thread_count = 1};
  char path[4096];
  if (!folder) {
    ITG_TRY(cli_beside(model, "../detection", diagnostic, path, sizeof path));
    folder = path;
  }
  cli_lines *lines = calloc(1, sizeof *lines);
  ITG_TRY_MEMORY(lines, diagnostic);
  lines->networks.options = &options;
  const itg_network_source source = itg_networks_source(&lines->networks);
  const itg_status status = itg_service_open(ITG_SERVICE_OCR_DETECTION, folder, &source, diagnostic, &lines->service);
  if (status != ITG_OK) {
    free(lines);
    return status;
  }
  *out = lines;
  return ITG_OK;
}

void cli_lines_close(cli_lines *lines) {
  if (!lines) return;
  itg_service_close(lines->service);
  free(lines);
}

itg_status cli_lines_values(cli_lines *lines, const char *path, const itg_shape *shape, size_t value_count,
                            itg_diagnostic *diagnostic, float *values, size_t *count) {
  itg_image image;
  itg_text_box *boxes = NULL;
  size_t found = 0;
  ITG_TRY(itg_image_read(path, NULL, diagnostic, &image));
  itg_status status = itg_service_find_text(lines->service, &image, &text_options, diagnostic, &boxes, &found);
  const size_t most = found < CLI_MAX_LINES ? found : CLI_MAX_LINES;
  for (size_t i = 0; i < most && status == ITG_OK; i++)
    status = itg_text_line_values(&image, &boxes[i * found / most], shape, diagnostic, values + i * value_count);
  free(boxes);
  itg_image_free(&image);
  *count = status == ITG_OK ? most : 0;
  return status;
}
