// Rectangles that may be turned, around points of a picture's raster.
#ifndef ITG_PIPELINES_RECTANGLE_H
#define ITG_PIPELINES_RECTANGLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct itg_raster_point {
  int32_t x, y;
} itg_raster_point;

typedef struct itg_rectangle {
  double centre[2];
  double axis[2];       // Unit vector along the width.
  double width, height; // At right angles to each other; may be 0.
} itg_rectangle;

// The smallest rectangle around a row-wise outline: points[i] of rising y, at most two a row (Graham's scan over rows, then
// a rectangle on each edge of the hull: Freeman and Shapira 1975). `count` is 1 or more;
// behind them `points` has room for twice as many, which is overwritten.
itg_rectangle itg_smallest_rectangle(itg_raster_point *points, size_t count);
// Corners top left, top right, bottom right, bottom left, told apart as PP-OCR does: the two of smaller x are the left ones,
// of each pair the one of smaller y is the upper one.
void itg_rectangle_corners(const itg_rectangle *rectangle, double corners[4][2]);

#endif
