// See rectangle.h.
#include "pipelines/rectangle.h"

#include <math.h>
#include <string.h>

static int64_t turn(itg_raster_point a, itg_raster_point b, itg_raster_point c) {
  return (int64_t)(b.x - a.x) * (c.y - a.y) - (int64_t)(b.y - a.y) * (c.x - a.x);
}

// The convex hull of points of rising y, then x (Andrew 1979): down one side, up the other. `hull` has room for twice as
// many.
static size_t make_hull(const itg_raster_point *points, size_t count, itg_raster_point *hull) {
  size_t size = 0;
  for (size_t i = 0; i < count; i++) {
    while (size >= 2 && turn(hull[size - 2], hull[size - 1], points[i]) <= 0) size--;
    hull[size++] = points[i];
  }
  const size_t first = size + 1;
  for (size_t i = count - 1; i-- > 0;) {
    while (size >= first && turn(hull[size - 2], hull[size - 1], points[i]) <= 0) size--;
    hull[size++] = points[i];
  }
  return size > 1 ? size - 1 : size; // The last point is the first one again.
}

static itg_rectangle rectangle_on_edge(const itg_raster_point *hull, size_t count, double dx, double dy) {
  double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
  for (size_t i = 0; i < count; i++) {
    const double along[2] = {hull[i].x * dx + hull[i].y * dy, hull[i].y * dx - hull[i].x * dy};
    for (int k = 0; k < 2; k++) {
      low[k] = fmin(low[k], along[k]);
      high[k] = fmax(high[k], along[k]);
    }
  }
  const double middle[2] = {(low[0] + high[0]) / 2, (low[1] + high[1]) / 2};
  return (itg_rectangle){
      {middle[0] * dx - middle[1] * dy, middle[0] * dy + middle[1] * dx}, {dx, dy}, high[0] - low[0], high[1] - low[1]};
}

itg_rectangle itg_smallest_rectangle(itg_raster_point *points, size_t count) {
  itg_raster_point *hull = points + count;
  const size_t size = make_hull(points, count, hull);
  itg_rectangle best = rectangle_on_edge(hull, size, 1, 0);
  double best_area = size > 1 ? INFINITY : 0;
  for (size_t i = 0; i < size && size > 1; i++) {
    const itg_raster_point a = hull[i], b = hull[(i + 1) % size];
    const double length = hypot(b.x - a.x, b.y - a.y);
    const itg_rectangle tried = rectangle_on_edge(hull, size, (b.x - a.x) / length, (b.y - a.y) / length);
    const double area = tried.width * tried.height;
    if (area < best_area) {
      best_area = area;
      best = tried;
    }
  }
  return best;
}

void itg_rectangle_corners(const itg_rectangle *r, double corners[4][2]) {
  static const double sides[4][2] = {{-0.5, -0.5}, {0.5, -0.5}, {0.5, 0.5}, {-0.5, 0.5}};
  double points[4][2];
  for (int i = 0; i < 4; i++) {
    const double along = sides[i][0] * r->width, across = sides[i][1] * r->height;
    points[i][0] = r->centre[0] + along * r->axis[0] - across * r->axis[1];
    points[i][1] = r->centre[1] + along * r->axis[1] + across * r->axis[0];
  }
  for (int i = 1; i < 4; i++) { // By x; stable.
    double moved[2];
    memcpy(moved, points[i], sizeof moved);
    int to = i;
    for (; to > 0 && points[to - 1][0] > moved[0]; to--) memcpy(points[to], points[to - 1], sizeof moved);
    memcpy(points[to], moved, sizeof moved);
  }
  const int left = points[1][1] > points[0][1] ? 0 : 1, right = points[3][1] > points[2][1] ? 2 : 3;
  const int order[4] = {left, right, 5 - right, 1 - left};
  for (int i = 0; i < 4; i++) memcpy(corners[i], points[order[i]], sizeof points[0]);
}
