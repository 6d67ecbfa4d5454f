// From a text detector's probability map to boxes: the post-processing of differentiable binarization (Liao et al. 2020) as
// PP-OCR and Immich do it.
#ifndef ITG_PIPELINES_TEXT_REGIONS_H
#define ITG_PIPELINES_TEXT_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "intaglio/services.h"

typedef struct itg_region_options {
  double threshold;    // Of a pixel: 0.3.
  double min_score;    // Of a region's mean.
  bool slow_score;     // Mean over the region and its holes instead of over its rectangle.
  double unclip_ratio; // Growth: area * ratio / perimeter at each side; 1.6.
  size_t max_regions;  // Outlines that are looked at, from the bottom up; 1000.
} itg_region_options;

typedef struct itg_probability_map {
  const float *values;
  int32_t width, height;
  size_t stride; // Floats from row to row.
} itg_probability_map;

// Pixels above the threshold, each spread to its right and lower neighbours (OpenCV's dilation by 2 x 2); outer outlines of
// the 8-connected parts and of the holes in them (OpenCV's RETR_LIST); the smallest rectangle around each, left out when
// its shorter side is below 3; its score, left out below min_score; grown, left out when the shorter side is below 5 then;
// scaled to `image_width` x `image_height`, rounded half to even, clipped to the picture; left out with a side of at most 3.
// `boxes` is malloc'ed (NULL when empty), in the order of the outlines. Errors: MEMORY.
ITG_MUST_USE itg_status itg_text_regions(const itg_probability_map *map, const itg_region_options *options,
                                         int32_t image_width, int32_t image_height, itg_diagnostic *diagnostic,
                                         itg_text_box **boxes, size_t *count);

// Top to bottom, then left to right: by the y of the first corner, a new line where it grows by 10 or more, by x within.
// Stable. Errors: MEMORY.
ITG_MUST_USE itg_status itg_text_reading_order(itg_text_box *boxes, size_t count, itg_diagnostic *diagnostic);

// Mean of the map over a polygon of four whole-numbered corners with its border, as cv2.fillPoly fills a convex one.
// Errors: MEMORY.
ITG_MUST_USE itg_status itg_mean_over_quad(const itg_probability_map *map, const double corners[4][2],
                                           itg_diagnostic *diagnostic, double *mean);

#endif
