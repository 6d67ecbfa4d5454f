// Services: the table of kinds, and the checks that all implementations share.
#include "pipelines/service.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "image/image.h"

typedef struct kind_entry {
  const char *task, *type;
  itg_service_opener open; // NULL: no pipeline of this kind in this build.
} kind_entry;

static const kind_entry kinds[ITG_SERVICE_KIND_COUNT] = {
    [ITG_SERVICE_FACE_DETECTION] = {"facial-recognition", "detection", itg_open_face_detection},
    [ITG_SERVICE_FACE_RECOGNITION] = {"facial-recognition", "recognition", itg_open_face_recognition},
    [ITG_SERVICE_CLIP_VISUAL] = {"clip", "visual", itg_open_clip_visual},
    [ITG_SERVICE_CLIP_TEXTUAL] = {"clip", "textual", itg_open_clip_textual},
    [ITG_SERVICE_OCR_DETECTION] = {"ocr", "detection", itg_open_ocr_detection},
    [ITG_SERVICE_OCR_RECOGNITION] = {"ocr", "recognition", itg_open_ocr_recognition},
};

static bool known(itg_service_kind kind) { return (unsigned)kind < ITG_SERVICE_KIND_COUNT; }

const char *itg_service_task(itg_service_kind kind) { return known(kind) ? kinds[kind].task : NULL; }

const char *itg_service_type(itg_service_kind kind) { return known(kind) ? kinds[kind].type : NULL; }

itg_status itg_service_path(const char *folder, const char *name, itg_diagnostic *diagnostic,
                            char path[ITG_SERVICE_PATH]) {
  const int length = snprintf(path, ITG_SERVICE_PATH, "%s/%s", folder, name);
  if (length < 0 || length >= ITG_SERVICE_PATH)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, name, "the path of the model's folder is too long");
  return ITG_OK;
}

itg_status itg_service_open(itg_service_kind kind, const char *folder, const itg_network_source *source,
                            itg_diagnostic *diagnostic, itg_service **out) {
  if (!known(kind) || !kinds[kind].open)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, folder, "this build has no pipeline for %s, %s",
             known(kind) ? kinds[kind].task : "?", known(kind) ? kinds[kind].type : "?");
  struct stat info;
  if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
    ITG_FAIL(diagnostic, ITG_ERROR_IO, folder, "there is no such model folder");
  itg_service *service = calloc(1, sizeof *service);
  ITG_TRY_MEMORY(service, diagnostic);
  service->kind = kind;
  const itg_status status = kinds[kind].open(folder, source, diagnostic, service);
  if (status != ITG_OK) {
    free(service);
    return status;
  }
  *out = service;
  return ITG_OK;
}

void itg_service_close(itg_service *service) {
  if (!service) return;
  service->calls->close(service->state);
  free(service);
}

itg_service_kind itg_service_kind_of(const itg_service *service) { return service->kind; }

size_t itg_service_embedding_size(const itg_service *service) { return service->embedding_size; }

// Refuses a call that the service's kind does not have.
#define NEED_CALL(service, call, diagnostic)                                                 \
  do {                                                                                       \
    if (!(service)->calls->call)                                                             \
      ITG_FAIL((diagnostic), ITG_ERROR_ARGUMENT, NULL, "a service for %s, %s has no " #call, \
               kinds[(service)->kind].task, kinds[(service)->kind].type);                    \
  } while (0)

// A database refuses NaN, and infinity makes every distance meaningless.
static itg_status check_finite(const float *values, size_t count, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < count; i++)
    if (!isfinite(values[i]))
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, NULL, "number %zu of %zu of the embedding is not finite", i, count);
  return ITG_OK;
}

itg_status itg_service_find_faces(itg_service *service, const itg_image *image, double min_score,
                                  itg_diagnostic *diagnostic, itg_face **faces, size_t *count) {
  NEED_CALL(service, find_faces, diagnostic);
  ITG_TRY(itg_image_check(image, diagnostic));
  return service->calls->find_faces(service->state, image, min_score, diagnostic, faces, count);
}

itg_status itg_service_embed_face(itg_service *service, const itg_image *image, const itg_face *face,
                                  itg_diagnostic *diagnostic, float *out) {
  NEED_CALL(service, embed_face, diagnostic);
  ITG_TRY(itg_image_check(image, diagnostic));
  ITG_TRY(service->calls->embed_face(service->state, image, face, diagnostic, out));
  return check_finite(out, service->embedding_size, diagnostic);
}

itg_status itg_service_embed_image(itg_service *service, const itg_image *image, itg_diagnostic *diagnostic,
                                   float *out) {
  NEED_CALL(service, embed_image, diagnostic);
  ITG_TRY(itg_image_check(image, diagnostic));
  ITG_TRY(service->calls->embed_image(service->state, image, diagnostic, out));
  return check_finite(out, service->embedding_size, diagnostic);
}

itg_status itg_service_embed_text(itg_service *service, const char *text, size_t size, const char *language,
                                  itg_diagnostic *diagnostic, float *out) {
  NEED_CALL(service, embed_text, diagnostic);
  ITG_TRY(service->calls->embed_text(service->state, text, size, language, diagnostic, out));
  return check_finite(out, service->embedding_size, diagnostic);
}

itg_status itg_service_find_text(itg_service *service, const itg_image *image, const itg_text_options *options,
                                 itg_diagnostic *diagnostic, itg_text_box **boxes, size_t *count) {
  NEED_CALL(service, find_text, diagnostic);
  ITG_TRY(itg_image_check(image, diagnostic));
  return service->calls->find_text(service->state, image, options, diagnostic, boxes, count);
}

itg_status itg_service_read_text(itg_service *service, const itg_image *image, const itg_text_box *boxes, size_t count,
                                 double min_score, itg_diagnostic *diagnostic, itg_text_line **lines,
                                 size_t *line_count) {
  NEED_CALL(service, read_text, diagnostic);
  ITG_TRY(itg_image_check(image, diagnostic));
  return service->calls->read_text(service->state, image, boxes, count, min_score, diagnostic, lines, line_count);
}

void itg_text_lines_free(itg_text_line *lines, size_t count) {
  for (size_t i = 0; lines && i < count; i++) free(lines[i].text);
  free(lines);
}
