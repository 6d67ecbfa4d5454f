// The field "entries" of POST /predict: what Immich's server wants of one picture or text.
//   {"facial-recognition": {"detection": {"modelName": "buffalo_l", "options": {"minScore": 0.7}},
//                           "recognition": {"modelName": "buffalo_l"}}}
#ifndef ITG_SERVER_ENTRIES_H
#define ITG_SERVER_ENTRIES_H

#include <stdbool.h>

#include "base/span.h"
#include "intaglio/services.h"

enum { ITG_MODEL_NAME = 128, ITG_LANGUAGE = 32 };

// Which of Immich's contracts holds where the two differ.
typedef enum itg_immich_version { ITG_IMMICH_3 = 0, ITG_IMMICH_2_7 } itg_immich_version;

typedef struct itg_entry {
  bool wanted;
  char model[ITG_MODEL_NAME];
  double min_score;
  int32_t max_resolution;
  bool slow_score;
  char language[ITG_LANGUAGE]; // Empty: none.
} itg_entry;

typedef struct itg_entries {
  itg_entry of[ITG_SERVICE_KIND_COUNT];
  itg_service_kind task_order[ITG_SERVICE_KIND_COUNT]; // First kind of each task, in the order of the request.
  size_t task_count;
} itg_entries;

// Status of the HTTP answer: 0 when the entries are good, or 422 (503: no memory) with `detail` filled.
// Unknown options are left alone; unknown tasks, types and wrong types of values are refused.
enum { ITG_DETAIL = 256 };
int itg_entries_parse(itg_span json, itg_immich_version version, char detail[ITG_DETAIL], itg_entries *out);

// The kind whose output a kind needs (recognition: its detection), or ITG_SERVICE_KIND_COUNT.
itg_service_kind itg_entry_needs(itg_service_kind kind);

#endif
