// Inside of intaglio/services.h: what a pipeline fills in so that a service can call it.
#ifndef ITG_PIPELINES_SERVICE_H
#define ITG_PIPELINES_SERVICE_H

#include "base/status.h"
#include "intaglio/services.h"

// The calls of one implementation; those of other kinds stay NULL. `state` is what its opener made.
typedef struct itg_service_calls {
  void (*close)(void *state);
  itg_status (*find_faces)(void *state, const itg_image *image, double min_score, itg_diagnostic *diagnostic,
                           itg_face **faces, size_t *count);
  itg_status (*embed_face)(void *state, const itg_image *image, const itg_face *face, itg_diagnostic *diagnostic,
                           float *out);
  itg_status (*embed_image)(void *state, const itg_image *image, itg_diagnostic *diagnostic, float *out);
  itg_status (*embed_text)(void *state, const char *text, size_t size, const char *language, itg_diagnostic *diagnostic,
                           float *out);
  itg_status (*find_text)(void *state, const itg_image *image, const itg_text_options *options,
                          itg_diagnostic *diagnostic, itg_text_box **boxes, size_t *count);
  itg_status (*read_text)(void *state, const itg_image *image, const itg_text_box *boxes, size_t count,
                          double min_score, itg_diagnostic *diagnostic, itg_text_line **lines, size_t *line_count);
} itg_service_calls;

struct itg_service {
  itg_service_kind kind;
  const itg_service_calls *calls;
  size_t embedding_size;
  void *state;
};

// An opener fills `calls`, `state` and `embedding_size` of a zeroed service, or fails and leaves nothing behind.
typedef itg_status (*itg_service_opener)(const char *folder, const itg_network_source *source,
                                         itg_diagnostic *diagnostic, itg_service *service);

ITG_MUST_USE itg_status itg_open_face_detection(const char *folder, const itg_network_source *source,
                                                itg_diagnostic *diagnostic, itg_service *service);
ITG_MUST_USE itg_status itg_open_face_recognition(const char *folder, const itg_network_source *source,
                                                  itg_diagnostic *diagnostic, itg_service *service);
ITG_MUST_USE itg_status itg_open_clip_visual(const char *folder, const itg_network_source *source,
                                             itg_diagnostic *diagnostic, itg_service *service);
ITG_MUST_USE itg_status itg_open_clip_textual(const char *folder, const itg_network_source *source,
                                              itg_diagnostic *diagnostic, itg_service *service);
ITG_MUST_USE itg_status itg_open_ocr_detection(const char *folder, const itg_network_source *source,
                                               itg_diagnostic *diagnostic, itg_service *service);
ITG_MUST_USE itg_status itg_open_ocr_recognition(const char *folder, const itg_network_source *source,
                                                 itg_diagnostic *diagnostic, itg_service *service);

// "<folder>/<name>" into `path`. Errors: LIMIT (too long).
enum { ITG_SERVICE_PATH = 4096 };
ITG_MUST_USE itg_status itg_service_path(const char *folder, const char *name, itg_diagnostic *diagnostic,
                                         char path[ITG_SERVICE_PATH]);

#endif
