// SCRFD face detectors (Guo et al. 2021) in the layout of insightface's det_10g, det_2.5g and det_500m.
//
// Input [1,3,H,W] RGB (x - 127.5)/128, H and W multiples of 32. Nine outputs: for each stride 8, 16, 32 the scores (1
// column, already 0..1), the distances from an anchor to the box's sides (4: left, top, right, bottom) and the offsets of
// five points (10: x, y), both in strides; one row an anchor, [rows, columns] or [1, rows, columns]. Anchors lie on the
// corners of the cells, 1 or 2 of the same place a cell, cells row by row. Outputs may be in any order.
#ifndef ITG_PIPELINES_SCRFD_H
#define ITG_PIPELINES_SCRFD_H

#include <stdbool.h>

#include "base/status.h"
#include "intaglio/pipelines.h"

typedef struct itg_scrfd itg_scrfd; // One thread at a time.

// Errors: SHAPE (another layout), MEMORY.
ITG_MUST_USE itg_status itg_scrfd_create(itg_network network, itg_diagnostic *diagnostic, itg_scrfd **out);
void itg_scrfd_destroy(itg_scrfd *scrfd); // NULL is allowed.
// As itg_face_find_all, but boxes may lie anywhere and are not rounded. The picture goes into the top left corner of the
// input, as large as fits, the rest is black; the resize is OpenCV's. Equal to insightface's detector with a suppression
// that counts a box's area as width times height (so do its successors; insightface itself adds 1 to both).
ITG_MUST_USE itg_status itg_scrfd_find(itg_scrfd *scrfd, const itg_image *photograph, double min_score,
                                       double max_overlap, itg_face *faces, size_t capacity, itg_diagnostic *diagnostic,
                                       size_t *count);

#endif
