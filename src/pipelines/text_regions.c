// See text_regions.h.
#include "pipelines/text_regions.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "pipelines/rectangle.h"

enum { MIN_SIDE = 3, MIN_GROWN_SIDE = 5, MIN_IMAGE_SIDE = 3, LINE_GAP = 10 };

// A connected part of the mask or of its background: its pixels are order[first .. end).
typedef struct part {
  size_t first, end;
  bool hole;
} part;

typedef struct regions {
  const itg_probability_map *map;
  const itg_region_options *options;
  int32_t width, height;
  uint8_t *mask;  // 1: text.
  uint8_t *seen;  // Belongs to a part already.
  int32_t *order; // Pixels, part by part.
  part *parts;
  size_t part_count, part_capacity;
  int32_t *left, *right;    // Of each row of an outline; `right` below 0: none.
  itg_raster_point *points; // 6 a row: an outline and its hull.
} regions;

// ---- the mask and its parts ----

static void make_mask(regions *r) {
  for (int32_t y = 0; y < r->height; y++) {
    const float *row = r->map->values + (size_t)y * r->map->stride;
    for (int32_t x = 0; x < r->width; x++) {
      if (!(row[x] > (float)r->options->threshold)) continue;
      const size_t at = (size_t)y * (size_t)r->width + (size_t)x;
      const bool wide = x + 1 < r->width, high = y + 1 < r->height;
      r->mask[at] = 1;
      if (wide) r->mask[at + 1] = 1;
      if (high) r->mask[at + (size_t)r->width] = 1;
      if (wide && high) r->mask[at + (size_t)r->width + 1] = 1;
    }
  }
}

// Fills the part of `start` into order[first ..), text over 8, background over 4 neighbours. Returns its end; `*border`:
// it touches the border.
static size_t flood(regions *r, int32_t start, size_t first, bool *border) {
  static const int steps[8][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {1, -1}, {-1, 1}, {-1, -1}};
  const uint8_t kind = r->mask[start];
  size_t end = first;
  r->order[end++] = start;
  r->seen[start] = 1;
  *border = false;
  for (size_t at = first; at < end; at++) {
    const int32_t x = r->order[at] % r->width, y = r->order[at] / r->width;
    *border |= x == 0 || y == 0 || x == r->width - 1 || y == r->height - 1;
    for (int k = 0; k < (kind ? 8 : 4); k++) {
      const int32_t to_x = x + steps[k][0], to_y = y + steps[k][1];
      if (to_x < 0 || to_y < 0 || to_x >= r->width || to_y >= r->height) continue;
      const int32_t to = to_y * r->width + to_x;
      if (r->seen[to] || r->mask[to] != kind) continue;
      r->seen[to] = 1;
      r->order[end++] = to;
    }
  }
  return end;
}

static itg_status find_parts(regions *r, itg_diagnostic *diagnostic) {
  const int32_t count = r->width * r->height;
  size_t used = 0;
  for (int32_t at = 0; at < count; at++) {
    if (r->seen[at]) continue;
    bool border;
    const size_t first = used;
    used = flood(r, at, first, &border);
    if (!r->mask[at] && border) continue; // The outside.
    if (r->part_count == r->part_capacity) {
      const size_t capacity = r->part_capacity ? 2 * r->part_capacity : 256;
      part *grown = realloc(r->parts, capacity * sizeof *grown);
      ITG_TRY_MEMORY(grown, diagnostic);
      r->parts = grown;
      r->part_capacity = capacity;
    }
    r->parts[r->part_count++] = (part){first, used, !r->mask[at]};
  }
  return ITG_OK;
}

// ---- one outline ----

static void widen(regions *r, int32_t x, int32_t y) {
  if (r->right[y] < 0 || x < r->left[y]) r->left[y] = x;
  if (x > r->right[y]) r->right[y] = x;
}

// The rectangle around a part; around a hole it goes over the text pixels beside it.
static itg_rectangle rectangle_of(regions *r, const part *p) {
  int32_t top = r->height, bottom = -1;
  for (int32_t y = 0; y < r->height; y++) r->right[y] = -1;
  for (size_t i = p->first; i < p->end; i++) {
    const int32_t x = r->order[i] % r->width, y = r->order[i] / r->width;
    if (!p->hole) {
      widen(r, x, y);
    } else { // Never at the border, so all neighbours exist.
      if (r->mask[r->order[i] - 1]) widen(r, x - 1, y);
      if (r->mask[r->order[i] + 1]) widen(r, x + 1, y);
      if (r->mask[r->order[i] - r->width]) widen(r, x, y - 1);
      if (r->mask[r->order[i] + r->width]) widen(r, x, y + 1);
    }
    const int32_t spread = p->hole ? 1 : 0;
    if (y - spread < top) top = y - spread;
    if (y + spread > bottom) bottom = y + spread;
  }
  size_t count = 0;
  for (int32_t y = top; y <= bottom; y++) {
    if (r->right[y] < 0) continue;
    r->points[count++] = (itg_raster_point){r->left[y], y};
    if (r->right[y] > r->left[y]) r->points[count++] = (itg_raster_point){r->right[y], y};
  }
  return itg_smallest_rectangle(r->points, count);
}

// ---- scores ----

// Widens rows[..] by the pixels of a line, as OpenCV draws it (from its left end, 8-connected).
static void draw_line(itg_raster_point a, itg_raster_point b, int32_t top, int32_t rows, int32_t *left,
                      int32_t *right) {
  if (a.x > b.x) {
    const itg_raster_point swapped = a;
    a = b;
    b = swapped;
  }
  int64_t dx = b.x - a.x, dy = b.y > a.y ? b.y - a.y : a.y - b.y;
  const int32_t down = b.y > a.y ? 1 : -1;
  const bool steep = dy > dx;
  if (steep) {
    const int64_t swapped = dx;
    dx = dy;
    dy = swapped;
  }
  int64_t error = dx - 2 * dy;
  for (int64_t step = 0; step <= dx; step++) {
    const int32_t row = a.y - top;
    if (row >= 0 && row < rows) {
      if (a.x < left[row]) left[row] = a.x;
      if (a.x > right[row]) right[row] = a.x;
    }
    const bool diagonal = error < 0;
    error += -2 * dy + (diagonal ? 2 * dx : 0);
    if (steep || diagonal) a.y += down;
    if (!steep || diagonal) a.x++;
  }
}

static int32_t limit(double value, int32_t high) { return value < 0 ? 0 : value > high ? high : (int32_t)value; }

itg_status itg_mean_over_quad(const itg_probability_map *map, const double corners[4][2], itg_diagnostic *diagnostic,
                              double *mean) {
  double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k < 2; k++) {
      low[k] = fmin(low[k], corners[i][k]);
      high[k] = fmax(high[k], corners[i][k]);
    }
  }
  const int32_t x0 = limit(floor(low[0]), map->width - 1), x1 = limit(ceil(high[0]), map->width - 1);
  const int32_t y0 = limit(floor(low[1]), map->height - 1), y1 = limit(ceil(high[1]), map->height - 1);
  const int32_t rows = y1 - y0 + 1;
  int32_t *left = malloc((size_t)rows * 2 * sizeof *left);
  ITG_TRY_MEMORY(left, diagnostic);
  int32_t *right = left + rows;
  for (int32_t y = 0; y < rows; y++) {
    left[y] = INT32_MAX;
    right[y] = INT32_MIN;
  }
  // Whole numbers are made relative to the corner of the bounding box, by truncation.
  itg_raster_point points[4];
  for (int i = 0; i < 4; i++)
    points[i] = (itg_raster_point){x0 + (int32_t)(corners[i][0] - x0), y0 + (int32_t)(corners[i][1] - y0)};
  for (int i = 0; i < 4; i++) draw_line(points[i], points[(i + 1) % 4], y0, rows, left, right);
  double sum = 0;
  size_t count = 0;
  for (int32_t y = 0; y < rows; y++) {
    const float *row = map->values + (size_t)(y0 + y) * map->stride;
    const int32_t last = right[y] > x1 ? x1 : right[y];
    for (int32_t x = left[y] < x0 ? x0 : left[y]; x <= last; x++, count++) sum += row[x];
  }
  free(left);
  *mean = count ? sum / (double)count : 0;
  return ITG_OK;
}

// Mean over a part with whatever it encloses: all of its bounding box that the outside does not reach over 4 neighbours.
static itg_status mean_over_part(regions *r, const part *p, itg_diagnostic *diagnostic, double *mean) {
  int32_t x0 = r->width, x1 = -1, y0 = r->height, y1 = -1;
  for (size_t i = p->first; i < p->end; i++) {
    const int32_t x = r->order[i] % r->width, y = r->order[i] / r->width;
    x0 = x < x0 ? x : x0;
    x1 = x > x1 ? x : x1;
    y0 = y < y0 ? y : y0;
    y1 = y > y1 ? y : y1;
  }
  const int32_t ring = p->hole ? 2 : 1; // Around a hole lies its border of text.
  const int32_t width = x1 - x0 + 1 + 2 * ring, height = y1 - y0 + 1 + 2 * ring;
  const size_t size = (size_t)width * (size_t)height;
  uint8_t *kind = calloc(size, 1); // 1: the part's own, 2: outside.
  int32_t *queue = malloc(size * sizeof *queue);
  if (!kind || !queue) {
    free(kind);
    free(queue);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  for (size_t i = p->first; i < p->end; i++) {
    const int32_t x = r->order[i] % r->width, y = r->order[i] / r->width;
    uint8_t *own = &kind[(size_t)(y - y0 + ring) * (size_t)width + (size_t)(x - x0 + ring)];
    *own = 1;
    if (!p->hole) continue;
    own[-1] = own[1] = own[-width] = own[width] = 1;
  }
  size_t count = 1;
  queue[0] = 0;
  kind[0] = 2;
  for (size_t at = 0; at < count; at++) {
    const int32_t x = queue[at] % width, y = queue[at] / width;
    const int32_t next[4] = {x > 0 ? queue[at] - 1 : -1, x + 1 < width ? queue[at] + 1 : -1,
                             y > 0 ? queue[at] - width : -1, y + 1 < height ? queue[at] + width : -1};
    for (int k = 0; k < 4; k++) {
      if (next[k] < 0 || kind[next[k]]) continue;
      kind[next[k]] = 2;
      queue[count++] = next[k];
    }
  }
  double sum = 0;
  size_t inside = 0;
  for (int32_t y = 0; y < height; y++) {
    for (int32_t x = 0; x < width; x++) {
      if (kind[(size_t)y * (size_t)width + (size_t)x] == 2) continue;
      sum += r->map->values[(size_t)(y + y0 - ring) * r->map->stride + (size_t)(x + x0 - ring)];
      inside++;
    }
  }
  free(kind);
  free(queue);
  *mean = sum / (double)inside;
  return ITG_OK;
}

// ---- boxes ----

static double side(const float a[2], const float b[2]) { return floor(hypot(a[0] - b[0], a[1] - b[1])); }

// The grown rectangle in the picture's pixels; false when it is too small there.
static bool place_box(const regions *r, itg_rectangle rectangle, int32_t image_width, int32_t image_height,
                      itg_text_box *box) {
  const double growth =
      rectangle.width * rectangle.height * r->options->unclip_ratio / (rectangle.width + rectangle.height);
  rectangle.width += growth;
  rectangle.height += growth;
  if (fmin(rectangle.width, rectangle.height) < MIN_GROWN_SIDE) return false;
  double corners[4][2];
  itg_rectangle_corners(&rectangle, corners);
  for (int i = 0; i < 4; i++) {
    const double x = rint(corners[i][0] / r->width * image_width), y = rint(corners[i][1] / r->height * image_height);
    box->corners[i][0] = (float)fmin(fmax(x, 0), image_width - 1);
    box->corners[i][1] = (float)fmin(fmax(y, 0), image_height - 1);
  }
  return side(box->corners[0], box->corners[1]) > MIN_IMAGE_SIDE &&
         side(box->corners[0], box->corners[3]) > MIN_IMAGE_SIDE;
}

static itg_status collect(regions *r, int32_t image_width, int32_t image_height, itg_diagnostic *diagnostic,
                          itg_text_box *boxes, size_t *count) {
  const size_t most = r->options->max_regions < r->part_count ? r->options->max_regions : r->part_count;
  for (size_t i = 0; i < most; i++) { // OpenCV lists the last outline first.
    const part *p = &r->parts[r->part_count - 1 - i];
    const itg_rectangle rectangle = rectangle_of(r, p);
    if (fmin(rectangle.width, rectangle.height) < MIN_SIDE) continue;
    double score, corners[4][2];
    itg_rectangle_corners(&rectangle, corners);
    if (r->options->slow_score)
      ITG_TRY(mean_over_part(r, p, diagnostic, &score));
    else
      ITG_TRY(itg_mean_over_quad(r->map, (const double(*)[2])corners, diagnostic, &score));
    if (isnan(score)) ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, NULL, "the detector's map is not finite");
    if (score < r->options->min_score) continue;
    boxes[*count].score = (float)score;
    *count += place_box(r, rectangle, image_width, image_height, &boxes[*count]);
  }
  return ITG_OK;
}

itg_status itg_text_regions(const itg_probability_map *map, const itg_region_options *options, int32_t image_width,
                            int32_t image_height, itg_diagnostic *diagnostic, itg_text_box **boxes, size_t *count) {
  regions r = {.map = map, .options = options, .width = map->width, .height = map->height};
  const size_t pixels = (size_t)map->width * (size_t)map->height, rows = (size_t)map->height;
  r.mask = calloc(pixels, 1);
  r.seen = calloc(pixels, 1);
  r.order = malloc(pixels * sizeof *r.order);
  r.left = malloc(rows * sizeof *r.left);
  r.right = malloc(rows * sizeof *r.right);
  r.points = malloc(rows * 6 * sizeof *r.points);
  itg_text_box *found = malloc((options->max_regions + 1) * sizeof *found);
  size_t found_count = 0;
  itg_status status = ITG_OK;
  if (!r.mask || !r.seen || !r.order || !r.left || !r.right || !r.points || !found)
    status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  if (status == ITG_OK) make_mask(&r);
  if (status == ITG_OK) status = find_parts(&r, diagnostic);
  if (status == ITG_OK) status = collect(&r, image_width, image_height, diagnostic, found, &found_count);
  free(r.mask);
  free(r.seen);
  free(r.order);
  free(r.parts);
  free(r.left);
  free(r.right);
  free(r.points);
  if (status != ITG_OK || found_count == 0) {
    free(found);
    found = NULL;
  }
  ITG_TRY(status);
  *boxes = found;
  *count = found_count;
  return ITG_OK;
}

// ---- order ----

typedef struct placed {
  itg_text_box box;
  size_t line, index;
} placed;

static int by_height(const void *a, const void *b) {
  const placed *p = a, *q = b;
  if (p->box.corners[0][1] != q->box.corners[0][1]) return p->box.corners[0][1] < q->box.corners[0][1] ? -1 : 1;
  return p->index < q->index ? -1 : 1;
}
static int by_line(const void *a, const void *b) {
  const placed *p = a, *q = b;
  if (p->line != q->line) return p->line < q->line ? -1 : 1;
  if (p->box.corners[0][0] != q->box.corners[0][0]) return p->box.corners[0][0] < q->box.corners[0][0] ? -1 : 1;
  return p->index < q->index ? -1 : 1;
}

itg_status itg_text_reading_order(itg_text_box *boxes, size_t count, itg_diagnostic *diagnostic) {
  if (count < 2) return ITG_OK;
  placed *all = malloc(count * sizeof *all);
  ITG_TRY_MEMORY(all, diagnostic);
  for (size_t i = 0; i < count; i++) all[i] = (placed){boxes[i], 0, i};
  qsort(all, count, sizeof *all, by_height);
  for (size_t i = 0; i < count; i++) {
    const bool new_line = i > 0 && all[i].box.corners[0][1] - all[i - 1].box.corners[0][1] >= LINE_GAP;
    all[i].line = i > 0 ? all[i - 1].line + new_line : 0;
    all[i].index = i;
  }
  qsort(all, count, sizeof *all, by_line);
  for (size_t i = 0; i < count; i++) boxes[i] = all[i].box;
  free(all);
  return ITG_OK;
}
