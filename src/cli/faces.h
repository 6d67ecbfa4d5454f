// Photographs to aligned faces: the detector and landmark models in the float interpreter.
#ifndef ITG_CLI_FACES_H
#define ITG_CLI_FACES_H

#include <stdbool.h>

#include "intaglio/compiler.h"
#include "intaglio/pipelines.h"

enum { CLI_CROP_BYTES = ITG_FACE_CROP_SIDE * ITG_FACE_CROP_SIDE * 3, CLI_MAX_FACES = 64 };

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
// A crop as the embedder reads it ([1,3,112,112]): as the service does by preprocess.json beside the embedder (default:
// ArcFace's) where a model folder finds the faces, else as the faceplugin set wants it.
ITG_MUST_USE itg_status cli_faces_input(const cli_faces *faces, const uint8_t *crop, itg_diagnostic *diagnostic,
                                        float *out);
// What to store in the compiled file about it.
const char *cli_faces_preprocessing(const cli_faces *faces);
#endif
