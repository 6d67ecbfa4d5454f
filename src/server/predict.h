// POST /predict: from the bytes of a form to the JSON of the answer, without HTTP around it.
#ifndef ITG_SERVER_PREDICT_H
#define ITG_SERVER_PREDICT_H

#include "base/span.h"
#include "server/immich.h"
#include "server/reply.h"

typedef struct itg_predict {
  itg_models *models;
  itg_immich_version version;
  const itg_image_limits *limits;
  const char *content_type;
  itg_span body;
  bool (*gone)(void *context); // Asked between steps: nobody waits for the answer. May be NULL.
  void *gone_context;
} itg_predict;

// Status of the answer: 200, 4xx or 5xx, or 499 when nobody waits any more. `reply` gets the body in every case.
int itg_predict_run(const itg_predict *predict, itg_reply *reply);

#endif
