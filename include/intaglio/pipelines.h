// Intaglio pipelines: images in, answers out, around one or more networks. Needs only the runtime.
#ifndef INTAGLIO_PIPELINES_H
#define INTAGLIO_PIPELINES_H

#include <stdbool.h>

#include "intaglio/intaglio.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- images ----

// 8-bit RGB (or grey) pixels, interleaved, rows without gaps: [height, width, channels].
typedef struct itg_image {
  int32_t width, height, channels; // channels 1 or 3
  uint8_t *pixels;                 // malloc'ed; itg_image_free
} itg_image;

typedef struct itg_image_limits {
  int64_t max_pixels; // Checked before decoding. Default 120 million (360 MB of pixels).
  size_t max_bytes;   // Of the encoded file. Default 256 MiB.
} itg_image_limits;

// Decodes JPEG, PNG or WebP to RGB: always 3 channels, the bits that Pillow's open().convert("RGB") gives: grey repeated, alpha
// dropped, CMYK converted, colour profiles ignored, the first frame of an animation. One exception: 16-bit grey is cut to its upper byte, not clipped. An
// EXIF orientation is not applied. `limits` may be NULL.
// Errors: IO, FORMAT (none of these, corrupted, truncated), LIMIT, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_image_decode(const void *data, size_t size, const itg_image_limits *limits,
                                                 itg_diagnostic *diagnostic, itg_image *out);
ITG_API ITG_MUST_USE itg_status itg_image_read(const char *path, const itg_image_limits *limits,
                                               itg_diagnostic *diagnostic, itg_image *out);
ITG_API void itg_image_free(itg_image *image); // Leaves an empty image; freeing that again is harmless.

// Named after the library whose bits they give. OpenCV's does not antialias; Pillow's (but nearest) do.
typedef enum itg_resize_method {
  ITG_RESIZE_OPENCV_LINEAR = 0, // "opencv-linear": cv2.resize, INTER_LINEAR
  ITG_RESIZE_PILLOW_NEAREST,    // "pillow-nearest": Image.resize and so on
  ITG_RESIZE_PILLOW_BOX,
  ITG_RESIZE_PILLOW_BILINEAR,
  ITG_RESIZE_PILLOW_HAMMING,
  ITG_RESIZE_PILLOW_BICUBIC,
  ITG_RESIZE_PILLOW_LANCZOS,
  ITG_RESIZE_METHOD_COUNT,
} itg_resize_method;

// The method's name, or NULL for an unknown one.
ITG_API const char *itg_resize_method_name(itg_resize_method method);
// Errors: ARGUMENT (an image without pixels, a size below 1 or above 2^20), MEMORY. Free `out` with itg_image_free.
ITG_API ITG_MUST_USE itg_status itg_image_resize(const itg_image *image, itg_resize_method method, int32_t width,
                                                 int32_t height, itg_diagnostic *diagnostic, itg_image *out);

// The image files (.jpg, .jpeg, .png, .webp, in any case) of a folder and its sub-folders, sorted by path in byte order. Hidden
// files are left out; links to folders are not followed.
typedef struct itg_image_list {
  size_t count;
  char **paths; // Each begins with the folder's name as it was given.
} itg_image_list;

// Errors: IO (cannot open the folder), LIMIT (more than a million files, deeper than 32 folders), MEMORY. An empty list is
// no error.
ITG_API ITG_MUST_USE itg_status itg_image_list_folder(const char *folder, itg_diagnostic *diagnostic,
                                                      itg_image_list *out);
ITG_API void itg_image_list_free(itg_image_list *list);

// ---- preprocessing descriptions (docs/FORMATS.md): from a photograph to a network input ----

typedef struct itg_preprocess itg_preprocess; // Immutable; share freely.
// A built-in name ("imagenet", "clip", "arcface", "raw-255", ...) or the path of a JSON file: a description, or the
// preprocess_cfg.json of an OpenCLIP model. Errors: ARGUMENT (no such name), IO, FORMAT, UNSUPPORTED, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_preprocess_open(const char *name_or_path, itg_diagnostic *diagnostic,
                                                    itg_preprocess **out);
ITG_API void itg_preprocess_close(itg_preprocess *preprocess);
// The same from JSON text, for instance a model's metadata "preprocessing". `json` need not be NUL-terminated.
ITG_API ITG_MUST_USE itg_status itg_preprocess_from_json(const char *json, size_t size, itg_diagnostic *diagnostic,
                                                         itg_preprocess **out);
// Name of built-in description `index` (0, 1, ...), NULL after the last.
ITG_API const char *itg_preprocess_builtin_name(size_t index);
// Writes the network input: f32 of `shape`, which must be [1,C,H,W] or [1,H,W,C] as the description's layout says, C 3 or
// 1 (grey), H and W those of the description if it names them. Values are (pixel / divide_by - mean) / std.
// Errors: ARGUMENT (image), SHAPE, LIMIT (a picture too long and thin), MEMORY.
ITG_API ITG_MUST_USE itg_status itg_preprocess_run(const itg_preprocess *preprocess, const itg_image *image,
                                                   const itg_shape *shape, itg_diagnostic *diagnostic, float *out);
// JSON text of the description; lives as long as the object.
ITG_API const char *itg_preprocess_json(const itg_preprocess *preprocess);

// ---- networks: an integer session, or anything else that computes float outputs from float inputs ----

// A network as pipelines see it: inputs[i] and outputs[i] are dense floats of the tensors' shapes, whatever their type (ids
// are whole numbers). The struct is plain data, copied by value; `context` must outlive its users.
typedef struct itg_network {
  void *context;
  size_t input_count, output_count;
  itg_status (*run)(void *context, const float *const *inputs, float *const *outputs, itg_diagnostic *diagnostic);
  const itg_tensor_info *(*input)(void *context, size_t index);
  const itg_tensor_info *(*output)(void *context, size_t index);
  // JSON text that came with the network, by name: "preprocessing" and others of itg_model_metadata, "source" (an object of
  // the source file's free texts). Lives as long as the network. NULL: none; the function itself may be NULL.
  const char *(*text)(void *context, const char *name, size_t *size);
} itg_network;

// A session with its model, both borrowed: the context of the network below.
typedef struct itg_session_network {
  itg_session *session;
  const itg_model *model;
} itg_session_network;
// Wraps a session. `network` is borrowed as the context and must outlive the users of the result.
ITG_API itg_network itg_network_from_session(itg_session_network *network);

// ---- texts of CLIP and SigLIP ----

// How a search text becomes the input of a text encoder: cleaning, tokenizer, context length, padding; read from a model's
// folder "textual" (tokenizer.json, tokenizer_config.json, ../config.json) as Immich keeps it. Immutable; share freely.
typedef struct itg_clip_text itg_clip_text;
// A folder below one whose name begins with "nllb" gets the language's FLORES-200 code before its texts.
// Errors: IO, FORMAT, LIMIT, UNSUPPORTED (a tokenizer component), MEMORY.
ITG_API ITG_MUST_USE itg_status itg_clip_text_open(const char *folder, itg_diagnostic *diagnostic, itg_clip_text **out);
ITG_API void itg_clip_text_close(itg_clip_text *text);           // NULL is allowed.
ITG_API size_t itg_clip_text_context(const itg_clip_text *text); // Ids of every text.
// Writes itg_clip_text_context whole numbers to `ids`, padded at the end, and 1 for text, 0 for padding to `mask` (may be
// NULL). `words` is UTF-8 of `size` bytes; `language` (may be NULL) as Immich's clients name it: "de", "pt-BR".
// Errors: LIMIT, FORMAT, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_clip_text_values(const itg_clip_text *text, const char *words, size_t size,
                                                     const char *language, itg_diagnostic *diagnostic, float *ids,
                                                     float *mask);

// ---- faces ----

// RFB-320 detector + 68-point landmarks + ArcFace embedder, the layout of the public faceplugin models:
// detector [1,3,h,w] RGB (x - 127)/128 -> scores [1,n,2], boxes [1,n,4] (corners in 0..1); landmarks [1,1,h,w] grey x/256
// -> 136 numbers (x, y of 68 points in 0..1 of the box); embedder [1,3,112,112] BGR (x - 127)/128 -> embedding.
// Or an SCRFD detector of insightface's packs (buffalo_l, _m, _s, antelopev2), which gives the five points itself:
// [1,3,h,w] RGB (x - 127.5)/128 -> scores, boxes and points at strides 8, 16 and 32. Of such a pack only the detector
// goes in here; its embedder reads RGB (x - 127.5)/127.5 (preprocessing "arcface").
enum { ITG_FACE_CROP_SIDE = 112 };

typedef struct itg_face {
  double box[4];       // x1, y1, x2, y2 in pixels of the photograph; may reach beyond it.
  double score;        // 0..1
  double points[5][2]; // Left eye, right eye, nose, left and right mouth corner (ArcFace order), x and y in pixels.
} itg_face;

typedef struct itg_face_pipeline itg_face_pipeline; // One thread at a time.

// Whether a detector gives the five points itself (SCRFD), so that no landmark network is needed.
ITG_API bool itg_face_detector_has_points(itg_network detector);
// The networks' contexts must outlive the pipeline. `embedder` may have a NULL run function when only crops are wanted,
// `landmarks` with a detector that gives the points.
// Errors: SHAPE (a network of another layout: which, and what was expected), MEMORY.
ITG_API ITG_MUST_USE itg_status itg_face_pipeline_create(itg_network detector, itg_network landmarks,
                                                         itg_network embedder, itg_diagnostic *diagnostic,
                                                         itg_face_pipeline **out);
ITG_API void itg_face_pipeline_destroy(itg_face_pipeline *pipeline); // NULL is allowed.
// The most certain face of a photograph (RGB or grey), whatever its score. Errors: ARGUMENT (image), SHAPE (the best box is
// empty: there is no face), MEMORY, those of the networks.
ITG_API ITG_MUST_USE itg_status itg_face_find(itg_face_pipeline *pipeline, const itg_image *photograph,
                                              itg_diagnostic *diagnostic, itg_face *out);
// All faces with at least `min_score`, best first, after non-maximum suppression at `max_overlap` (intersection over
// union); without SCRFD, boxes that are empty inside the photograph are left out. Writes at most `capacity` faces, their
// number to `count`; none is no error. 0.7 and 0.3 are good values; for SCRFD 0.5 and 0.4 are usual.
ITG_API ITG_MUST_USE itg_status itg_face_find_all(itg_face_pipeline *pipeline, const itg_image *photograph,
                                                  double min_score, double max_overlap, itg_face *faces,
                                                  size_t capacity, itg_diagnostic *diagnostic, size_t *count);
// Aligned RGB crop by the five points: 112x112x3 bytes, black where the photograph ends. Method: least-squares similarity
// transform (Umeyama 1991) to ArcFace's reference points, OpenCV's bilinear warp.
// Errors: ARGUMENT (image), SHAPE (points that coincide or are not finite).
ITG_API ITG_MUST_USE itg_status itg_face_crop(const itg_image *photograph, const itg_face *face,
                                              itg_diagnostic *diagnostic, uint8_t *out);
// The embedder's input of a crop: [1,3,112,112] BGR, (x - 127)/128.
ITG_API void itg_face_embedder_input(const uint8_t *crop, float *out);
// Length of the embedding; 0 without an embedder.
ITG_API size_t itg_face_embedding_size(const itg_face_pipeline *pipeline);
// Embedding of a crop: itg_face_embedding_size numbers, as the network gives them (not normalised). Errors: ARGUMENT
// (no embedder, another count), those of the network.
ITG_API ITG_MUST_USE itg_status itg_face_embed(itg_face_pipeline *pipeline, const uint8_t *crop,
                                               itg_diagnostic *diagnostic, float *out, size_t count);

#ifdef __cplusplus
}
#endif
#endif
