// Photographs to aligned faces: the detector and landmark models in the float interpreter.
#ifndef ITG_CLI_FACES_H
#define ITG_CLI_FACES_H

#include <stdbool.h>

#include "intaglio/compiler.h"
#include "intaglio/pipelines.h"

enum { CLI_CROP_BYTES = ITG_FACE_CROP_SIDE * ITG_FACE_CROP_SIDE * 3, CLI_MAX_FACES = 64 };

// Stored as the "preprocessing" section of a face embedder.
#define CLI_FACE_PREPROCESSING \
  "{\"pipeline\":\"face-recognition\",\"crop\":[112,112],\"channels\":\"BGR\",\"mean\":127,\"divide_by\":128}"

typedef struct cli_faces cli_faces; // One thread at a time.

// Opens fr_detect.onnx and fr_landmark.onnx in `folder`, or, when it holds model.onnx, what the Immich service finds faces
// with there. NULL: the folder of `model`.
ITG_MUST_USE itg_status cli_faces_open(const char *folder, const char *model, itg_diagnostic *diagnostic,
                                       cli_faces **out);
void cli_faces_close(cli_faces *faces); // NULL is allowed.
// Aligned RGB crops of CLI_CROP_BYTES each: of the most certain face of a picture, or of all its faces, best first, at most
// CLI_MAX_FACES. No face is no error: the count is 0.
ITG_MUST_USE itg_status cli_faces_crops(cli_faces *faces, const char *path, bool all, itg_diagnostic *diagnostic,
                                        uint8_t *crops, size_t *count);
#endif
