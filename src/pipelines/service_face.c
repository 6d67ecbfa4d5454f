// Face services: detection with SCRFD ("model") or the faceplugin set ("model" and "landmarks"), recognition by any 112x112 embedder.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipelines/service.h"

// Boxes that share more than this with a better one are the same face: what each family of detectors is used with.
static const double MAX_OVERLAP = 0.3, MAX_OVERLAP_SCRFD = 0.4;
// Detectors of unknown size run at this one, as insightface runs them.
static const char *const scrfd_shapes[] = {"1x3x640x640"};

// ---- detection ----

typedef struct face_detection {
  itg_network_source source;
  itg_network detector, landmarks;
  itg_face_pipeline *pipeline;
  double max_overlap;
} face_detection;

static void close_detection(void *state) {
  face_detection *detection = state;
  itg_face_pipeline_destroy(detection->pipeline);
  if (detection->detector.run) detection->source.close(detection->source.context, &detection->detector);
  if (detection->landmarks.run) detection->source.close(detection->source.context, &detection->landmarks);
  free(detection);
}

static itg_status find_faces(void *state, const itg_image *image, double min_score, itg_diagnostic *diagnostic,
                             itg_face **faces, size_t *count) {
  face_detection *detection = state;
  itg_face *found = malloc(ITG_SERVICE_MAX_FACES * sizeof *found);
  ITG_TRY_MEMORY(found, diagnostic);
  size_t found_count = 0;
  const itg_status status = itg_face_find_all(detection->pipeline, image, min_score, detection->max_overlap, found,
                                              ITG_SERVICE_MAX_FACES, diagnostic, &found_count);
  if (status != ITG_OK || found_count == 0) {
    free(found);
    found = NULL;
  }
  ITG_TRY(status);
  *faces = found;
  *count = found_count;
  return ITG_OK;
}

static const itg_service_calls detection_calls = {.close = close_detection, .find_faces = find_faces};

itg_status itg_open_face_detection(const char *folder, const itg_network_source *source, itg_diagnostic *diagnostic,
                                   itg_service *service) {
  face_detection *detection = calloc(1, sizeof *detection);
  ITG_TRY_MEMORY(detection, diagnostic);
  detection->source = *source;
  itg_status status = source->open(source->context, folder, "model", NULL, 0, diagnostic, &detection->detector);
  if (status == ITG_ERROR_SHAPE)
    status = source->open(source->context, folder, "model", scrfd_shapes, 1, diagnostic, &detection->detector);
  const bool scrfd = status == ITG_OK && itg_face_detector_has_points(detection->detector);
  detection->max_overlap = scrfd ? MAX_OVERLAP_SCRFD : MAX_OVERLAP;
  if (status == ITG_OK && !scrfd)
    status = source->open(source->context, folder, "landmarks", NULL, 0, diagnostic, &detection->landmarks);
  if (status == ITG_OK)
    status = itg_face_pipeline_create(detection->detector, detection->landmarks, (itg_network){0}, diagnostic,
                                      &detection->pipeline);
  if (status != ITG_OK) {
    close_detection(detection);
    return status;
  }
  service->calls = &detection_calls;
  service->state = detection;
  return ITG_OK;
}

// ---- recognition ----

typedef struct face_recognition {
  itg_network_source source;
  itg_network embedder;
  itg_preprocess *preprocess; // From the crop to the embedder's input.
  float *input;
} face_recognition;

static void close_recognition(void *state) {
  face_recognition *recognition = state;
  if (recognition->embedder.run) recognition->source.close(recognition->source.context, &recognition->embedder);
  itg_preprocess_close(recognition->preprocess);
  free(recognition->input);
  free(recognition);
}

static itg_status embed_face(void *state, const itg_image *image, const itg_face *face, itg_diagnostic *diagnostic,
                             float *out) {
  face_recognition *recognition = state;
  const itg_network *embedder = &recognition->embedder;
  uint8_t pixels[ITG_FACE_CROP_SIDE * ITG_FACE_CROP_SIDE * 3];
  ITG_TRY(itg_face_crop(image, face, diagnostic, pixels));
  const itg_image crop = {ITG_FACE_CROP_SIDE, ITG_FACE_CROP_SIDE, 3, pixels};
  const itg_shape *shape = &embedder->input(embedder->context, 0)->shape;
  ITG_TRY(itg_preprocess_run(recognition->preprocess, &crop, shape, diagnostic, recognition->input));
  const float *input = recognition->input;
  return embedder->run(embedder->context, &input, &out, diagnostic);
}

static const itg_service_calls recognition_calls = {.close = close_recognition, .embed_face = embed_face};

static itg_status prepare_recognition(face_recognition *recognition, const char *folder, itg_diagnostic *diagnostic) {
  const itg_network *embedder = &recognition->embedder;
  const itg_shape *shape = embedder->input_count == 1 ? &embedder->input(embedder->context, 0)->shape : NULL;
  if (!shape || embedder->output_count != 1 || shape->rank != 4 || shape->dims[0] != 1 || shape->dims[1] != 3 ||
      shape->dims[2] != ITG_FACE_CROP_SIDE || shape->dims[3] != ITG_FACE_CROP_SIDE ||
      embedder->output(embedder->context, 0)->count < 1)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, folder, "not a face embedder: [1,3,%d,%d] -> embedding was expected",
             ITG_FACE_CROP_SIDE, ITG_FACE_CROP_SIDE);
  char path[ITG_SERVICE_PATH];
  ITG_TRY(itg_service_path(folder, "preprocess.json", diagnostic, path));
  const char *description = access(path, F_OK) == 0 ? path : "arcface";
  ITG_TRY(itg_preprocess_open(description, diagnostic, &recognition->preprocess));
  recognition->input = calloc(embedder->input(embedder->context, 0)->count, sizeof *recognition->input);
  ITG_TRY_MEMORY(recognition->input, diagnostic);
  return ITG_OK;
}

itg_status itg_open_face_recognition(const char *folder, const itg_network_source *source, itg_diagnostic *diagnostic,
                                     itg_service *service) {
  face_recognition *recognition = calloc(1, sizeof *recognition);
  ITG_TRY_MEMORY(recognition, diagnostic);
  recognition->source = *source;
  itg_status status = source->open(source->context, folder, "model", NULL, 0, diagnostic, &recognition->embedder);
  if (status == ITG_OK) status = prepare_recognition(recognition, folder, diagnostic);
  if (status != ITG_OK) {
    close_recognition(recognition);
    return status;
  }
  service->calls = &recognition_calls;
  service->state = recognition;
  service->embedding_size = recognition->embedder.output(recognition->embedder.context, 0)->count;
  return ITG_OK;
}
