// Intaglio services: one object for each (task, kind, model) that a machine-learning server answers with. A picture or a
// text in, plain structs out; the files, the tokenizer and the preprocessing behind it belong to the object.
//
// A service opens a folder of the cache that Immich uses (docs/FORMATS.md, "Model folders"):
//   facial-recognition/<model>/detection     facial-recognition/<model>/recognition
//   clip/<model>/visual                      clip/<model>/textual
//   ocr/<model>/detection                    ocr/<model>/recognition
// It reads its own small files there (preprocess_cfg.json, tokenizer.json, charset.txt, ../config.json), and asks an
// itg_network_source for its networks: whoever runs the service decides whether that is a compiled file on the CPU or an
// NPU, or the float model in the interpreter. So services need the runtime only.
//
// Thread rule of every service: one call at a time; it may come from any thread. Services are independent of each other.
// Nothing of a call stays in the object: options travel with the call.
#ifndef INTAGLIO_SERVICES_H
#define INTAGLIO_SERVICES_H

#include "intaglio/pipelines.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum itg_service_kind {
  ITG_SERVICE_FACE_DETECTION = 0,
  ITG_SERVICE_FACE_RECOGNITION = 1,
  ITG_SERVICE_CLIP_VISUAL = 2,
  ITG_SERVICE_CLIP_TEXTUAL = 3,
  ITG_SERVICE_OCR_DETECTION = 4,
  ITG_SERVICE_OCR_RECOGNITION = 5,
  ITG_SERVICE_KIND_COUNT = 6,
} itg_service_kind;

// Task and type as Immich spells them: "facial-recognition" and "detection", "clip" and "visual", ... NULL for an unknown
// kind.
ITG_API const char *itg_service_task(itg_service_kind kind);
ITG_API const char *itg_service_type(itg_service_kind kind);

// ---- where networks come from ----

typedef struct itg_network_source {
  void *context;
  // Opens the network `name` ("model", "landmarks"; no suffix) of `folder`, a service's folder. `shapes` (may be NULL)
  // fixes unknown dimensions as itg_source_options does ("1x3x736x736"); a compiled file for these shapes is named
  // <name>-<shape of the first>.itg ("model-1x3x736x736.itg"). The network is used by one thread at a time, and
  // given back to `close`. Errors: IO when there is no such file, in no form; those of opening.
  itg_status (*open)(void *context, const char *folder, const char *name, const char *const *shapes, size_t shape_count,
                     itg_diagnostic *diagnostic, itg_network *out);
  void (*close)(void *context, itg_network *network);
} itg_network_source;

// ---- opening ----

typedef struct itg_service itg_service;

// Opens what is in `folder`; the layout of the networks decides which pipeline it is (SCRFD or the faceplugin set, ...).
// `source` is copied; its context must outlive the service.
// Errors: IO (no folder, missing file: which), FORMAT, SHAPE (networks of an unknown layout: what was expected),
// UNSUPPORTED, MEMORY, those of the source.
ITG_API ITG_MUST_USE itg_status itg_service_open(itg_service_kind kind, const char *folder,
                                                 const itg_network_source *source, itg_diagnostic *diagnostic,
                                                 itg_service **out);
ITG_API void itg_service_close(itg_service *service); // NULL is allowed.
ITG_API itg_service_kind itg_service_kind_of(const itg_service *service);
// Numbers of an embedding (face recognition, both CLIP kinds); 0 for the others.
ITG_API size_t itg_service_embedding_size(const itg_service *service);

// ---- calls; each fails with ARGUMENT on a service of another kind ----

// Detection: all faces with at least `min_score` (0 is allowed), best first; at most ITG_SERVICE_MAX_FACES. The list is
// malloc'ed (NULL when empty): free() it. No face is no error.
enum { ITG_SERVICE_MAX_FACES = 1024 };
ITG_API ITG_MUST_USE itg_status itg_service_find_faces(itg_service *service, const itg_image *image, double min_score,
                                                       itg_diagnostic *diagnostic, itg_face **faces, size_t *count);
// Recognition: aligns by the five points and embeds. `out` gets itg_service_embedding_size numbers, as the network gives
// them, finite. Errors: SHAPE (points that coincide), QUANTIZATION (a number that is not finite).
ITG_API ITG_MUST_USE itg_status itg_service_embed_face(itg_service *service, const itg_image *image,
                                                       const itg_face *face, itg_diagnostic *diagnostic, float *out);

// CLIP visual and textual: `out` gets itg_service_embedding_size finite numbers. `text` is UTF-8 and need not be
// NUL-terminated; `language` is a BCP-47 code as Immich sends it, or NULL.
ITG_API ITG_MUST_USE itg_status itg_service_embed_image(itg_service *service, const itg_image *image,
                                                        itg_diagnostic *diagnostic, float *out);
ITG_API ITG_MUST_USE itg_status itg_service_embed_text(itg_service *service, const char *text, size_t size,
                                                       const char *language, itg_diagnostic *diagnostic, float *out);

// A line of text in a picture: corners top left, top right, bottom right, bottom left, in pixels; may be turned.
typedef struct itg_text_box {
  float corners[4][2];
  float score; // 0..1
} itg_text_box;

typedef struct itg_text_options {
  double min_score;       // Of a box; 0.5 is usual.
  int32_t max_resolution; // The shorter side is brought down to this many pixels before detection; 736 is usual.
  int slow_score;         // 1: mean over the outline and what it encloses; 0 ("fast"): over its rectangle.
} itg_text_options;

// OCR detection: boxes in reading order, at most 1000, malloc'ed (NULL when empty): free() them. No text is no error, and a
// picture with a side below 32 pixels has none.
ITG_API ITG_MUST_USE itg_status itg_service_find_text(itg_service *service, const itg_image *image,
                                                      const itg_text_options *options, itg_diagnostic *diagnostic,
                                                      itg_text_box **boxes, size_t *count);

typedef struct itg_text_line {
  size_t box; // Index into the boxes that were given.
  char *text; // UTF-8, NUL-terminated.
  float score;
} itg_text_line;

// OCR recognition of `count` boxes: the lines that are more certain than `min_score`, in the order of their boxes (NULL
// when empty). Free with itg_text_lines_free. Errors: LIMIT (more than 10000 boxes, or one of more than 100 million pixels).
ITG_API ITG_MUST_USE itg_status itg_service_read_text(itg_service *service, const itg_image *image,
                                                      const itg_text_box *boxes, size_t count, double min_score,
                                                      itg_diagnostic *diagnostic, itg_text_line **lines,
                                                      size_t *line_count);
// The input of a recognizer of `shape` [1,3,height,width] for one box, as itg_service_read_text makes it: for calibration.
// Errors: SHAPE (no such input, a box without area), LIMIT, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_text_line_values(const itg_image *image, const itg_text_box *box,
                                                     const itg_shape *shape, itg_diagnostic *diagnostic, float *out);
ITG_API void itg_text_lines_free(itg_text_line *lines, size_t count); // NULL is allowed.

#ifdef __cplusplus
}
#endif
#endif
