// Networks that exist in several sizes: compiled files of fixed canvases, or one float model of any size.
#ifndef ITG_PIPELINES_CANVAS_H
#define ITG_PIPELINES_CANVAS_H

#include "base/status.h"
#include "intaglio/services.h"

enum { ITG_MAX_CANVASES = 32, ITG_OPEN_CANVASES = 3 };

typedef struct itg_canvas {
  int32_t height, width;
} itg_canvas;

typedef struct itg_open_canvas {
  itg_canvas size;
  itg_network network; // run is NULL: a free place.
  uint64_t used;
} itg_open_canvas;

// Starts as zeroes. One thread at a time.
typedef struct itg_canvases {
  itg_network_source source;
  const char *folder; // Borrowed by open, copied into `path`.
  char *path;
  itg_canvas sizes[ITG_MAX_CANVASES]; // Those that there are; none: any size.
  size_t count;
  itg_open_canvas open[ITG_OPEN_CANVASES]; // The last ones used.
  uint64_t clock;
} itg_canvases;

// Finds the compiled files "model-1x3x<height>x<width>.itg" of a folder, or a model of fixed size ("model.itg", or an .onnx
// that leaves nothing open), or makes sure that there is a float model of any size. Close in any case.
// Errors: IO (neither), SHAPE (not one input [1,3,h,w]), MEMORY, those of the source.
ITG_MUST_USE itg_status itg_canvases_open(itg_canvases *canvases, const char *folder, const itg_network_source *source,
                                          itg_diagnostic *diagnostic);
void itg_canvases_close(itg_canvases *canvases);
// The network of one of the sizes (of any size when count is 0), kept open until others take its place: valid until the
// next call. Errors: those of the source, SHAPE.
ITG_MUST_USE itg_status itg_canvases_network(itg_canvases *canvases, itg_canvas size, itg_diagnostic *diagnostic,
                                             const itg_network **out);

#endif
