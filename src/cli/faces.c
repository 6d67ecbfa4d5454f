// See faces.h.
#include "cli/faces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/files.h"
#include "server/networks.h"

// Detector scores: a face below the first is taken for none. Where every box counts, false ones are likelier.
static const double MIN_SCORE = 0.5, MIN_SCORE_AMONG_MANY = 0.7, MAX_OVERLAP = 0.3;

struct cli_faces {
  itg_service *service; // Of a model folder; otherwise the three below.
  itg_networks networks;
  itg_preprocess *preprocess; // From crop to embedder, with the service.
  bool arcface;
  itg_float_network *detector, *landmarks;
  itg_face_pipeline *pipeline;
};

static itg_status open_model(const char *folder, const char *model, const char *name, itg_diagnostic *diagnostic,
                             itg_float_network **out) {
  const char *slash = strrchr(model, '/');
  const int length = folder ? (int)strlen(folder) : slash ? (int)(slash - model) : 1;
  char path[4096];
  if ((size_t)snprintf(path, sizeof path, "%.*s/%s", length,
                       folder  ? folder
                       : slash ? model
                               : ".",
                       name) >= sizeof path)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name, "the path of the face models is too long");
  if (access(path, R_OK) != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_IO, path,
             "cannot read this model, which finds the faces; give its folder with --face-models DIR");
  return itg_float_network_open(path, NULL, diagnostic, out);
}

// A model folder of the Immich service ("model.onnx" in it): any detector that the service knows.
static itg_status open_service(const char *folder, const char *model, itg_diagnostic *diagnostic, cli_faces *faces) {
  static const itg_network_options options = {.thread_count = 1};
  faces->networks.options = &options;
  const itg_network_source source = itg_networks_source(&faces->networks);
  ITG_TRY(itg_service_open(ITG_SERVICE_FACE_DETECTION, folder, &source, diagnostic, &faces->service));
  char path[4096];
  ITG_TRY(cli_beside(model, "preprocess.json", diagnostic, path, sizeof path));
  faces->arcface = access(path, R_OK) != 0;
  return itg_preprocess_open(faces->arcface ? "arcface" : path, diagnostic, &faces->preprocess);
}

static itg_status open_pair(const char *folder, const char *model, itg_diagnostic *diagnostic, cli_faces *faces) {
  ITG_TRY(open_model(folder, model, "fr_detect.onnx", diagnostic, &faces->detector));
  ITG_TRY(open_model(folder, model, "fr_landmark.onnx", diagnostic, &faces->landmarks));
  return itg_face_pipeline_create(itg_network_from_float(faces->detector), itg_network_from_float(faces->landmarks),
                                  (itg_network){0}, diagnostic, &faces->pipeline);
}

itg_status cli_faces_open(const char *folder, const char *model, itg_diagnostic *diagnostic, cli_faces **out) {
  char path[4096];
  cli_faces *faces = calloc(1, sizeof *faces);
  ITG_TRY_MEMORY(faces, diagnostic);
  const bool is_service =
      folder && (size_t)snprintf(path, sizeof path, "%s/model.onnx", folder) < sizeof path && access(path, R_OK) == 0;
  const itg_status status =
      is_service ? open_service(folder, model, diagnostic, faces) : open_pair(folder, model, diagnostic, faces);
  if (status != ITG_OK) {
    cli_faces_close(faces);
    return status;
  }
  *out = faces;
  return ITG_OK;
}

void cli_faces_close(cli_faces *faces) {
  if (!faces) return;
  itg_service_close(faces->service);
  itg_preprocess_close(faces->preprocess);
  itg_face_pipeline_destroy(faces->pipeline);
  itg_float_network_close(faces->detector);
  itg_float_network_close(faces->landmarks);
  free(faces);
}

// The best faces by the service, at most `most`.
static itg_status crop_by_service(cli_faces *faces, const itg_image *image, double min_score, size_t most,
                                  itg_diagnostic *diagnostic, uint8_t *crops, size_t *count) {
  itg_face *found = NULL;
  itg_status status = itg_service_find_faces(faces->service, image, min_score, diagnostic, &found, count);
  if (status != ITG_OK) *count = 0;
  if (*count > most) *count = most;
  for (size_t i = 0; status == ITG_OK && i < *count; i++)
    status = itg_face_crop(image, &found[i], diagnostic, crops + i * CLI_CROP_BYTES);
  free(found);
  return status;
}

static itg_status crop_best(cli_faces *faces, const itg_image *image, itg_diagnostic *diagnostic, uint8_t *crops,
                            size_t *count) {
  itg_face face;
  if (faces->service) return crop_by_service(faces, image, MIN_SCORE, 1, diagnostic, crops, count);
  const itg_status found = itg_face_find(faces->pipeline, image, diagnostic, &face);
  *count = 0;
  if (found == ITG_ERROR_SHAPE) return ITG_OK; // The best box is empty: nobody there.
  ITG_TRY(found);
  if (face.score < MIN_SCORE) return ITG_OK;
  *count = 1;
  return itg_face_crop(image, &face, diagnostic, crops);
}

static itg_status crop_all(cli_faces *faces, const itg_image *image, itg_diagnostic *diagnostic, uint8_t *crops,
                           size_t *count) {
  itg_face found[CLI_MAX_FACES];
  if (faces->service)
    return crop_by_service(faces, image, MIN_SCORE_AMONG_MANY, CLI_MAX_FACES, diagnostic, crops, count);
  ITG_TRY(itg_face_find_all(faces->pipeline, image, MIN_SCORE_AMONG_MANY, MAX_OVERLAP, found, CLI_MAX_FACES, diagnostic,
                            count));
  for (size_t i = 0; i < *count; i++) ITG_TRY(itg_face_crop(image, &found[i], diagnostic, crops + i * CLI_CROP_BYTES));
  return ITG_OK;
}

itg_status cli_faces_crops(cli_faces *faces, const char *path, bool all, itg_diagnostic *diagnostic, uint8_t *crops,
                           size_t *count) {
  itg_image image;
  ITG_TRY(itg_image_read(path, NULL, diagnostic, &image));
  const itg_status status = (all ? crop_all : crop_best)(faces, &image, diagnostic, crops, count);
  itg_image_free(&image);
  return status;
}

itg_status cli_faces_input(const cli_faces *faces, const uint8_t *crop, itg_diagnostic *diagnostic, float *out) {
  static const itg_shape shape = {4, {1, 3, ITG_FACE_CROP_SIDE, ITG_FACE_CROP_SIDE}};
  const itg_image image = {ITG_FACE_CROP_SIDE, ITG_FACE_CROP_SIDE, 3, (uint8_t *)crop};
  if (faces->preprocess) return itg_preprocess_run(faces->preprocess, &image, &shape, diagnostic, out);
  itg_face_embedder_input(crop, out);
  return ITG_OK;
}

const char *cli_faces_preprocessing(const cli_faces *faces) {
  return faces->arcface ? "{\"pipeline\":\"face-recognition\",\"crop\":[112,112],\"channels\":\"RGB\",\"mean\":127.5,"
                          "\"divide_by\":127.5}"
                        : "{\"pipeline\":\"face-recognition\",\"crop\":[112,112],\"channels\":\"BGR\",\"mean\":127,"
                          "\"divide_by\":128}";
}
