// See predict.h. Contract: Immich's machine-learning service, routes and shapes of version 3 and 2.7.
#include "server/predict.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "server/form.h"
#include "server/log.h"

enum { CLIENT_GONE = 499, LARGE_FILE = 4 << 20 };

// Large pictures are decoded one at a time, so that their pixels are in memory once.
static pthread_mutex_t large_picture = PTHREAD_MUTEX_INITIALIZER;

typedef struct prediction {
  const itg_predict *request;
  itg_form form;
  itg_entries entries;
  itg_span text;
  bool has_image;
  itg_image image;
  itg_reply *reply;
  itg_diagnostic why;
} prediction;

static int detail(itg_reply *reply, int status, const char *text) {
  reply->size = 0;
  itg_reply_text(reply, "{\"detail\":");
  itg_reply_json_string(reply, text);
  itg_reply_text(reply, "}");
  return status;
}

static bool is_gone(const prediction *p) { return p->request->gone && p->request->gone(p->request->gone_context); }

// ---- models ----

// 0, or the status of a refusal.
static int take(prediction *p, itg_service_kind kind, itg_model_lease *lease) {
  const itg_entry *entry = &p->entries.of[kind];
  const itg_status status = itg_models_take(p->request->models, kind, entry->model, p->request->gone,
                                            p->request->gone_context, &p->why, lease);
  if (status == ITG_OK) return 0;
  if (status == ITG_ERROR_CANCELLED) return detail(p->reply, CLIENT_GONE, "nobody waits");
  char text[ITG_MODEL_NAME + 512];
  snprintf(text, sizeof text, "Failed to load model '%s': %s", entry->model, p->why.message);
  return detail(p->reply, status == ITG_ERROR_MEMORY || status == ITG_ERROR_TIMEOUT ? 503 : 500, text);
}

// Gives the model back; 0 or the status of a refusal.
static int give_back(prediction *p, itg_model_lease *lease, itg_service_kind kind, itg_status status) {
  itg_models_give_back(p->request->models, lease, status != ITG_OK && status != ITG_ERROR_CANCELLED);
  if (status == ITG_OK) return 0;
  if (status == ITG_ERROR_CANCELLED) return detail(p->reply, CLIENT_GONE, "nobody waits");
  itg_log(ITG_LOG_ERROR, "%s %s '%s' failed: %s", itg_service_task(kind), itg_service_type(kind),
          p->entries.of[kind].model, p->why.message);
  return detail(p->reply, status == ITG_ERROR_MEMORY ? 503 : 500, p->why.message);
}

// ---- numbers ----

static void write_number(itg_reply *reply, const char *name, double value) {
  itg_reply_print(reply, "\"%s\":", name);
  itg_reply_float(reply, (float)value);
}

// ---- faces ----

static void write_detection(itg_reply *reply, const itg_face *faces, size_t count) {
  itg_reply_text(reply, "{\"boxes\":[");
  for (size_t i = 0; i < count; i++) {
    for (int k = 0; k < 4; k++) {
      itg_reply_text(reply, k ? "," : i ? ",[" : "[");
      itg_reply_float(reply, (float)rint(faces[i].box[k]));
    }
    itg_reply_text(reply, "]");
  }
  itg_reply_text(reply, "],\"scores\":[");
  for (size_t i = 0; i < count; i++) {
    if (i) itg_reply_text(reply, ",");
    itg_reply_float(reply, (float)faces[i].score);
  }
  itg_reply_text(reply, "],\"landmarks\":[");
  for (size_t i = 0; i < count; i++) {
    for (int k = 0; k < 10; k++) {
      itg_reply_text(reply, k % 2 ? "," : k ? "],[" : i ? ",[[" : "[[");
      itg_reply_float(reply, (float)faces[i].points[k / 2][k % 2]);
    }
    itg_reply_text(reply, "]]");
  }
  itg_reply_text(reply, "]}");
}

static void write_face(itg_reply *reply, const itg_face *face, const float *embedding, size_t size) {
  static const char *const names[] = {"x1", "y1", "x2", "y2"};
  itg_reply_text(reply, "{\"boundingBox\":{");
  for (int k = 0; k < 4; k++) {
    if (k) itg_reply_text(reply, ",");
    write_number(reply, names[k], rint(face->box[k]));
  }
  itg_reply_text(reply, "},\"embedding\":");
  itg_reply_embedding(reply, embedding, size);
  itg_reply_text(reply, ",");
  write_number(reply, "score", face->score);
  itg_reply_text(reply, "}");
}

static itg_status embed_faces(prediction *p, itg_service *service, const itg_face *faces, size_t count) {
  const size_t size = itg_service_embedding_size(service);
  float *embedding = malloc((size ? size : 1) * sizeof *embedding);
  ITG_TRY_MEMORY(embedding, &p->why);
  itg_status status = ITG_OK;
  itg_reply_text(p->reply, "[");
  for (size_t i = 0; status == ITG_OK && i < count; i++) {
    status =
        is_gone(p) ? ITG_ERROR_CANCELLED : itg_service_embed_face(service, &p->image, &faces[i], &p->why, embedding);
    if (i) itg_reply_text(p->reply, ",");
    if (status == ITG_OK) write_face(p->reply, &faces[i], embedding, size);
  }
  itg_reply_text(p->reply, "]");
  free(embedding);
  return status;
}

static int run_faces(prediction *p) {
  const itg_entry *detection = &p->entries.of[ITG_SERVICE_FACE_DETECTION];
  itg_face *faces = NULL;
  size_t count = 0;
  itg_model_lease lease;
  int code = take(p, ITG_SERVICE_FACE_DETECTION, &lease);
  if (code) return code;
  itg_status status = itg_service_find_faces(lease.service, &p->image, detection->min_score, &p->why, &faces, &count);
  code = give_back(p, &lease, ITG_SERVICE_FACE_DETECTION, status);
  if (code) return code;
  if (!p->entries.of[ITG_SERVICE_FACE_RECOGNITION].wanted) {
    write_detection(p->reply, faces, count);
  } else if (count == 0) {
    itg_reply_text(p->reply, "[]"); // Nothing to load the recognition for.
  } else {
    code = take(p, ITG_SERVICE_FACE_RECOGNITION, &lease);
    if (!code) {
      status = embed_faces(p, lease.service, faces, count);
      code = give_back(p, &lease, ITG_SERVICE_FACE_RECOGNITION, status);
    }
  }
  free(faces);
  return code;
}

// ---- CLIP ----

static int run_clip(prediction *p, itg_service_kind kind) {
  const itg_entry *entry = &p->entries.of[kind];
  const bool textual = kind == ITG_SERVICE_CLIP_TEXTUAL;
  itg_model_lease lease;
  int code = take(p, kind, &lease);
  if (code) return code;
  const size_t size = itg_service_embedding_size(lease.service);
  float *embedding = malloc((size ? size : 1) * sizeof *embedding);
  itg_status status = ITG_ERROR_MEMORY;
  if (embedding && textual)
    status = itg_service_embed_text(lease.service, (const char *)p->text.data, p->text.size,
                                    entry->language[0] ? entry->language : NULL, &p->why, embedding);
  else if (embedding)
    status = itg_service_embed_image(lease.service, &p->image, &p->why, embedding);
  code = give_back(p, &lease, kind, status);
  if (!code) itg_reply_embedding(p->reply, embedding, size);
  free(embedding);
  return code;
}

// ---- text in pictures ----

static void write_box(prediction *p, const itg_text_box *box) {
  for (int k = 0; k < 8; k++) {
    if (k) itg_reply_text(p->reply, ",");
    itg_reply_float(p->reply, box->corners[k / 2][k % 2] / (float)(k % 2 ? p->image.height : p->image.width));
  }
}

static void write_lines(prediction *p, const itg_text_box *boxes, const itg_text_line *lines, size_t count) {
  itg_reply *reply = p->reply;
  itg_reply_text(reply, "{\"text\":[");
  for (size_t i = 0; i < count; i++) {
    if (i) itg_reply_text(reply, ",");
    itg_reply_json_string(reply, lines[i].text);
  }
  itg_reply_text(reply, "],\"box\":[");
  for (size_t i = 0; i < count; i++) {
    if (i) itg_reply_text(reply, ",");
    write_box(p, &boxes[lines[i].box]);
  }
  itg_reply_text(reply, "],\"boxScore\":[");
  for (size_t i = 0; i < count; i++) {
    if (i) itg_reply_text(reply, ",");
    itg_reply_float(reply, boxes[lines[i].box].score);
  }
  itg_reply_text(reply, "],\"textScore\":[");
  for (size_t i = 0; i < count; i++) {
    if (i) itg_reply_text(reply, ",");
    itg_reply_float(reply, lines[i].score);
  }
  itg_reply_text(reply, "]}");
}

// Detection alone: boxes as nested lists of pixels.
static void write_boxes(itg_reply *reply, const itg_text_box *boxes, size_t count) {
  itg_reply_text(reply, "{\"boxes\":[");
  for (size_t i = 0; i < count; i++) {
    for (int k = 0; k < 8; k++) {
      itg_reply_text(reply, k % 2 ? "," : k ? "],[" : i ? ",[[" : "[[");
      itg_reply_float(reply, boxes[i].corners[k / 2][k % 2]);
    }
    itg_reply_text(reply, "]]");
  }
  itg_reply_text(reply, "],\"scores\":[");
  for (size_t i = 0; i < count; i++) {
    if (i) itg_reply_text(reply, ",");
    itg_reply_float(reply, boxes[i].score);
  }
  itg_reply_text(reply, "]}");
}

static int run_ocr(prediction *p) {
  const itg_entry *detection = &p->entries.of[ITG_SERVICE_OCR_DETECTION];
  const itg_entry *recognition = &p->entries.of[ITG_SERVICE_OCR_RECOGNITION];
  const itg_text_options options = {detection->min_score, detection->max_resolution, detection->slow_score};
  itg_text_box *boxes = NULL;
  itg_text_line *lines = NULL;
  size_t count = 0, line_count = 0;
  itg_model_lease lease;
  int code = take(p, ITG_SERVICE_OCR_DETECTION, &lease);
  if (code) return code;
  itg_status status = itg_service_find_text(lease.service, &p->image, &options, &p->why, &boxes, &count);
  code = give_back(p, &lease, ITG_SERVICE_OCR_DETECTION, status);
  if (code) return code;
  if (!recognition->wanted) {
    write_boxes(p->reply, boxes, count);
  } else if (count == 0) {
    write_lines(p, NULL, NULL, 0);
  } else {
    code = take(p, ITG_SERVICE_OCR_RECOGNITION, &lease);
    if (!code) {
      status = itg_service_read_text(lease.service, &p->image, boxes, count, recognition->min_score, &p->why, &lines,
                                     &line_count);
      code = give_back(p, &lease, ITG_SERVICE_OCR_RECOGNITION, status);
    }
    if (!code) write_lines(p, boxes, lines, line_count);
  }
  itg_text_lines_free(lines, line_count);
  free(boxes);
  return code;
}

// ---- the request ----

static int decode_image(prediction *p, itg_span bytes) {
  const bool large = bytes.size > LARGE_FILE;
  if (large) pthread_mutex_lock(&large_picture);
  const itg_status status = itg_image_decode(bytes.data, bytes.size, p->request->limits, &p->why, &p->image);
  if (large) pthread_mutex_unlock(&large_picture);
  if (status == ITG_OK) {
    p->has_image = true;
    return 0;
  }
  itg_log(ITG_LOG_WARNING, "a picture of %zu bytes cannot be read: %s", bytes.size, p->why.message);
  char text[512];
  snprintf(text, sizeof text, "The image cannot be read: %s", p->why.message);
  return detail(p->reply, status == ITG_ERROR_LIMIT ? 413 : status == ITG_ERROR_MEMORY ? 503 : 400, text);
}

// Every wanted kind must have what it reads.
static int check_inputs(prediction *p) {
  char text[256];
  for (itg_service_kind kind = 0; kind < ITG_SERVICE_KIND_COUNT; kind++) {
    if (!p->entries.of[kind].wanted) continue;
    const itg_service_kind needs = itg_entry_needs(kind);
    const bool reads_text = kind == ITG_SERVICE_CLIP_TEXTUAL;
    if (needs != ITG_SERVICE_KIND_COUNT && !p->entries.of[needs].wanted) {
      snprintf(text, sizeof text, "Task %s of type %s depends on output of (%s, %s)", itg_service_task(kind),
               itg_service_type(kind), itg_service_type(needs), itg_service_task(needs));
      return detail(p->reply, 400, text);
    }
    if (reads_text == p->has_image) {
      snprintf(text, sizeof text, "Task %s of type %s needs %s", itg_service_task(kind), itg_service_type(kind),
               reads_text ? "a text" : "an image");
      return detail(p->reply, 400, text);
    }
  }
  return 0;
}

static int run_tasks(prediction *p) {
  itg_reply_text(p->reply, "{");
  for (size_t i = 0; i < p->entries.task_count; i++) {
    itg_service_kind kind = p->entries.task_order[i];
    if (is_gone(p)) return detail(p->reply, CLIENT_GONE, "nobody waits");
    if (i) itg_reply_text(p->reply, ",");
    itg_reply_print(p->reply, "\"%s\":", itg_service_task(kind));
    int code;
    if (kind == ITG_SERVICE_FACE_DETECTION || kind == ITG_SERVICE_FACE_RECOGNITION)
      code = run_faces(p);
    else if (kind == ITG_SERVICE_OCR_DETECTION || kind == ITG_SERVICE_OCR_RECOGNITION)
      code = run_ocr(p);
    else
      code = run_clip(p, p->has_image ? ITG_SERVICE_CLIP_VISUAL : ITG_SERVICE_CLIP_TEXTUAL);
    if (code) return code;
  }
  if (p->has_image)
    itg_reply_print(p->reply, "%s\"imageHeight\":%d,\"imageWidth\":%d", p->entries.task_count ? "," : "",
                    p->image.height, p->image.width);
  itg_reply_text(p->reply, "}");
  return 200;
}

static int run_form(prediction *p) {
  const itg_form_field *entries = itg_form_find(&p->form, "entries"), *image = itg_form_find(&p->form, "image");
  const itg_form_field *text = itg_form_find(&p->form, "text");
  if (!entries) {
    p->reply->size = 0;
    itg_reply_text(p->reply, "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"body\",\"entries\"],"
                             "\"msg\":\"Field required\",\"input\":null}]}");
    return 422;
  }
  char refusal[ITG_DETAIL];
  int code = itg_entries_parse(entries->value, p->request->version, refusal, &p->entries);
  if (code) return detail(p->reply, code, refusal);
  if (!image && !text) return detail(p->reply, 400, "Either image or text must be provided");
  if (text) p->text = text->value;
  if (image) code = decode_image(p, image->value);
  if (!code) code = check_inputs(p);
  return code ? code : run_tasks(p);
}

int itg_predict_run(const itg_predict *predict, itg_reply *reply) {
  prediction p = {.request = predict, .reply = reply};
  int code = 0;
  const itg_status status = itg_form_parse(predict->content_type, predict->body, &p.why, &p.form);
  if (status == ITG_OK) {
    code = run_form(&p);
    itg_form_free(&p.form);
  } else {
    code = detail(reply, status == ITG_ERROR_MEMORY ? 503 : 400, p.why.message);
  }
  itg_image_free(&p.image);
  return code;
}
