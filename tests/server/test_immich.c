// The contract, replayed: what Immich's own tests of its endpoints expect, refusals by code, limits, models that come and go,
// clients that leave, malformed requests (ITG_MALFORMED of them), the status page.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/compiling.h"
#include "server/health.h"
#include "server/page/page.h"
#include "server/service.h"

static char *photograph; // With six faces.
static size_t photograph_size;

// A PNG of one colour, by zlib's stored blocks: any width and height.
static uint32_t crc(const uint8_t *data, size_t size) {
  uint32_t value = 0xffffffffu;
  for (size_t i = 0; i < size; i++) {
    value ^= data[i];
    for (int k = 0; k < 8; k++) value = value & 1 ? 0xedb88320u ^ value >> 1 : value >> 1;
  }
  return ~value;
}

static void put32(body *b, uint32_t value) {
  const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
  body_add(b, bytes, 4);
}

static void chunk(body *png, const char *type, const body *data) {
  body c = {0};
  body_add(&c, type, 4);
  if (data->size) body_add(&c, data->data, data->size);
  put32(png, (uint32_t)data->size);
  body_add(png, c.data, c.size);
  put32(png, crc((const uint8_t *)c.data, c.size));
  free(c.data);
}

static body black_png(uint32_t width, uint32_t height) {
  body png = {0}, header = {0}, pixels = {0};
  body_add(&png, "\x89PNG\r\n\x1a\n", 8);
  put32(&header, width);
  put32(&header, height);
  body_add(&header, "\x08\0\0\0\0", 5);
  chunk(&png, "IHDR", &header);
  body_add(&pixels, "\x78\x01", 2);
  uint32_t a = 1, sum = 0;
  for (uint32_t y = 0; y < height; y++) { // A stored block a row: the filter byte and the pixels.
    const uint16_t length = (uint16_t)(width + 1), complement = (uint16_t)~length;
    const uint8_t head[5] = {y + 1 == height, (uint8_t)length, (uint8_t)(length >> 8), (uint8_t)complement,
                             (uint8_t)(complement >> 8)};
    body_add(&pixels, head, 5);
    char *row = calloc(1, length);
    body_add(&pixels, row, length);
    free(row);
    sum = (sum + length) % 65521; // Adler-32 of zeroes: a stays 1.
  }
  put32(&pixels, sum << 16 | a);
  chunk(&png, "IDAT", &pixels);
  chunk(&png, "IEND", &(body){0});
  free(header.data);
  free(pixels.data);
  return png;
}

static int post(const service *s, const char *entries, const void *image, size_t size, const char *text, char *answer,
                size_t room) {
  const body b = body_of(entries, image, size, text);
  http_reply reply = body_post(s->port, &b);
  snprintf(answer, room, "%s", reply.body ? reply.body : "");
  const int status = reply.status;
  http_free(&reply);
  free(b.data);
  return status;
}

static int start(void **state) {
  service *s = calloc(1, sizeof *s);
  service_start(s, (itg_models_options){0},
                (itg_immich_options){.http = {.stall_seconds = 1, .max_connections = 1000},
                                     .image_limits = {.max_pixels = 2000000, .max_bytes = 1 << 24}});
  *state = s;
  return 0;
}

static int stop(void **state) {
  service_stop(*state);
  free(*state);
  return 0;
}

static void answers_root_and_ping(void **state) {
  const service *s = *state;
  http_reply reply = http_call(s->port, "GET", "/", "Accept: */*\r\n", "", 0);
  assert_int_equal(reply.status, 200);
  assert_string_equal(reply.body, "{\"message\":\"Immich ML\"}");
  assert_string_equal(http_find_header(&reply, "content-type"), "application/json");
  http_free(&reply);
  reply = http_call(s->port, "GET", "/ping", NULL, "", 0);
  assert_int_equal(reply.status, 200);
  assert_string_equal(reply.body, "pong");
  assert_non_null(strstr(http_find_header(&reply, "content-type"), "text/plain"));
  http_free(&reply);
}

static void tells_whether_it_is_well(void **state) {
  const service *s = *state;
  itg_diagnostic why = {0};
  static const char *const hosts[] = {NULL, "[::]", "0.0.0.0", "127.0.0.1"};
  for (int i = 0; i < 4; i++) assert_int_equal(itg_health_check(hosts[i], s->port, 2, &why), ITG_OK);
  assert_int_equal(itg_health_check("127.0.0.2", s->port, 2, &why), ITG_ERROR_IO); // It listens on one address.
  assert_non_null(strstr(why.message, "127.0.0.2"));
  // Who takes connections and says nothing, or something else, is not well.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
  assert_int_equal(listen(listener, 4), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
  assert_int_equal(itg_health_check(NULL, ntohs(address.sin_port), 1, &why), ITG_ERROR_TIMEOUT);
  close(listener);
}

static void finds_faces(void **state) {
  const service *s = *state;
  char entries[512], answer[65536];
  snprintf(entries, sizeof entries, FACES_ENTRIES, 0.7);
  assert_int_equal(post(s, entries, photograph, photograph_size, "an image wins", answer, sizeof answer), 200);
  const char *start_of =
      "{\"facial-recognition\":[{\"boundingBox\":{\"x1\":742.0,\"y1\":341.0,\"x2\":846.0,\"y2\":475.0},"
      "\"embedding\":\"[";
  assert_memory_equal(answer, start_of, strlen(start_of));
  const char *end_of = "}],\"imageHeight\":886,\"imageWidth\":1280}";
  assert_string_equal(answer + strlen(answer) - strlen(end_of), end_of);
  json_t *root = json_loads(answer, 0, NULL);
  assert_int_equal(json_array_size(json_object_get(root, "facial-recognition")), 6);
  json_decref(root);
  const body black = black_png(600, 800);
  assert_int_equal(post(s, entries, black.data, black.size, NULL, answer, sizeof answer), 200);
  assert_string_equal(answer, "{\"facial-recognition\":[],\"imageHeight\":800,\"imageWidth\":600}");
  free(black.data);
}

static void detects_alone(void **state) {
  const service *s = *state;
  static char answer[1 << 20];
#if defined(__SANITIZE_THREAD__) // The points of a thousand boxes would take minutes.
#define LOWEST "0.1"
#else
#define LOWEST "0"
#endif
  const char *entries =
      "{\"facial-recognition\":{\"detection\":{\"modelName\":\"faceplugin\",\"options\":{\"minScore\":" LOWEST "}}}}";
  assert_int_equal(post(s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
  json_t *root = json_loads(answer, 0, NULL);
  const json_t *faces = json_object_get(root, "facial-recognition");
  const size_t count = json_array_size(json_object_get(faces, "boxes"));
  assert_true(count > 6 && count <= ITG_SERVICE_MAX_FACES);
  assert_int_equal(json_array_size(json_object_get(faces, "scores")), count);
  assert_int_equal(json_array_size(json_object_get(faces, "landmarks")), count);
  assert_int_equal(json_array_size(json_array_get(json_object_get(faces, "landmarks"), 0)), 5);
  json_decref(root);
}

static void takes_odd_pictures(void **state) {
  const service *s = *state;
  char entries[512], answer[1024];
  snprintf(entries, sizeof entries, FACES_ENTRIES, 0.7);
  static const uint32_t sizes[][2] = {{1, 1}, {31, 31}, {1, 20000}, {20000, 1}, {999, 1001}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const body png = black_png(sizes[i][0], sizes[i][1]);
    assert_int_equal(post(s, entries, png.data, png.size, NULL, answer, sizeof answer), 200);
    free(png.data);
  }
  const body large = black_png(2001, 1000); // Beyond the limit of this server.
  assert_int_equal(post(s, entries, large.data, large.size, NULL, answer, sizeof answer), 413);
  assert_non_null(strstr(answer, "The image cannot be read"));
  free(large.data);
}

typedef struct refusal {
  const char *entries, *image, *text;
  int status;
  const char *answer;
} refusal;

static void refuses_by_code(void **state) {
  const service *s = *state;
  static const refusal refusals[] = {
      {NULL, NULL, "x", 422,
       "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"body\",\"entries\"],\"msg\":\"Field required\","
       "\"input\":null}]}"},
      {"{\"clip\":{\"textual\":{\"modelName\":\"m\"}}}", NULL, NULL, 400,
       "{\"detail\":\"Either image or text must be provided\"}"},
      {"{", NULL, "x", 422, "{\"detail\":\"Invalid request format.\"}"},
      {"{\"clip\":{\"textual\":{}}}", NULL, "x", 422, "{\"detail\":\"Invalid request format.\"}"},
      {"{\"pets\":{\"textual\":{\"modelName\":\"m\"}}}", NULL, "x", 422, "{\"detail\":\"Invalid request format.\"}"},
      {"{}", NULL, "x", 422, "{\"detail\":\"No model task requested.\"}"},
      {"{\"facial-recognition\":{\"recognition\":{\"modelName\":\"faceplugin\"}}}", "PNG", NULL, 400,
       "{\"detail\":\"Task facial-recognition of type recognition depends on output of (detection, "
       "facial-recognition)\"}"},
      {"{\"clip\":{\"visual\":{\"modelName\":\"m\"}}}", NULL, "x", 400,
       "{\"detail\":\"Task clip of type visual needs an image\"}"},
      {"{\"clip\":{\"visual\":{\"modelName\":\"m\"}}}", "", NULL, 400, NULL},
      {"{\"clip\":{\"visual\":{\"modelName\":\"m\"}}}", "no picture", NULL, 400, NULL},
      {"{\"clip\":{\"visual\":{\"modelName\":\"m\"}}}", "PNG", NULL, 500, NULL},
      {"{\"facial-recognition\":{\"detection\":{\"modelName\":\"../../etc\"}}}", "PNG", NULL, 500, NULL},
      {"{\"facial-recognition\":{\"detection\":{\"modelName\":\"..\"}}}", "PNG", NULL, 500, NULL},
      {"{\"clip\":{\"textual\":{\"modelName\":\"m\"}}}", NULL, "x", 500, NULL},
  };
  const body png = black_png(8, 8);
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    const refusal *r = &refusals[i];
    char answer[2048];
    const bool real = r->image && strcmp(r->image, "PNG") == 0;
    const int status = post(s, r->entries, real ? png.data : r->image,
                            real       ? png.size
                            : r->image ? strlen(r->image)
                                       : 0,
                            r->text, answer, sizeof answer);
    if (status != r->status) fail_msg("refusal %zu: %d, not %d: %s", i, status, r->status, answer);
    if (r->answer) assert_string_equal(answer, r->answer);
    assert_memory_equal(answer, "{\"detail\":", 10);
  }
  free(png.data);
  http_reply reply = http_call(s->port, "POST", "/predict", "Content-Type: multipart/form-data\r\n", "x", 1);
  assert_int_equal(reply.status, 400);
  assert_string_equal(reply.body, "{\"detail\":\"Missing boundary in multipart.\"}");
  http_free(&reply);
  const char *encoded =
      "text=a+forest&entries=%7B%22clip%22%3A%7B%22textual%22%3A%7B%22modelName%22%3A%22none%22%7D%7D%7D";
  reply = http_call(s->port, "POST", "/predict", "Content-Type: application/x-www-form-urlencoded\r\n", encoded,
                    strlen(encoded));
  assert_int_equal(reply.status, 500); // Read: what is missing is the model.
  assert_memory_equal(reply.body, "{\"detail\":\"Failed to load model 'none': ", 40);
  http_free(&reply);
}

static void keeps_to_the_older_contract(void **state) {
  (void)state;
  service s = {0};
  service_start(&s, (itg_models_options){0}, (itg_immich_options){.version = ITG_IMMICH_2_7});
  char answer[1024];
  const body png = black_png(3, 2);
  assert_int_equal(post(&s, "{}", png.data, png.size, NULL, answer, sizeof answer), 200);
  assert_string_equal(answer, "{\"imageHeight\":2,\"imageWidth\":3}");
  assert_int_equal(post(&s, "{}", NULL, 0, "x", answer, sizeof answer), 200);
  assert_string_equal(answer, "{}");
  free(png.data);
  service_stop(&s);
}

static void serves_aliases(void **state) {
  (void)state;
  service s = {0};
  const itg_model_alias alias = {"buffalo_l", "faceplugin"};
  service_start(&s, (itg_models_options){.aliases = &alias, .alias_count = 1}, (itg_immich_options){0});
  char answer[65536];
  const char *entries = "{\"facial-recognition\":{\"detection\":{\"modelName\":\"buffalo_l\"},"
                        "\"recognition\":{\"modelName\":\"buffalo_l\"}}}";
  assert_int_equal(post(&s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
  service_stop(&s);
}

static itg_model_state state_of(service *s, itg_service_kind kind, unsigned long long *runs) {
  itg_model_status *status = calloc(1, sizeof *status);
  itg_model_state state = ITG_MODEL_ABSENT;
  for (size_t i = 0; itg_models_status(s->models, i, status); i++) {
    if (status->kind != kind) continue;
    state = status->state;
    if (runs) *runs = status->runs;
  }
  free(status);
  return state;
}

static void closes_idle_models(void **state) {
  (void)state;
  service s = {0};
  char entries[512], answer[65536];
  snprintf(entries, sizeof entries, FACES_ENTRIES, 0.7);
  service_start(&s, (itg_models_options){.idle_seconds = 1}, (itg_immich_options){0});
  itg_models_preload(s.models, ITG_SERVICE_FACE_RECOGNITION, "faceplugin");
  for (int cycle = 0; cycle < 2; cycle++) {
    assert_int_equal(post(&s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
    int waited = 0;
    while (state_of(&s, ITG_SERVICE_FACE_DETECTION, NULL) == ITG_MODEL_LOADED && waited++ < 500) service_sleep(10);
    assert_int_equal(state_of(&s, ITG_SERVICE_FACE_DETECTION, NULL), ITG_MODEL_ABSENT);
    assert_int_equal(state_of(&s, ITG_SERVICE_FACE_RECOGNITION, NULL), ITG_MODEL_LOADED); // Preloaded: it stays.
  }
  service_stop(&s);
}

static void refuses_when_the_queue_is_full(void **state) {
  (void)state;
  service s = {0};
  char entries[512];
  snprintf(entries, sizeof entries, FACES_ENTRIES, 0.3);
  service_start(&s, (itg_models_options){0}, (itg_immich_options){.worker_count = 1, .queue_capacity = 2});
  const body b = body_of(entries, photograph, photograph_size, NULL);
  enum { CLIENTS = 8 };
  int clients[CLIENTS], good = 0, refused = 0;
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = http_connect(s.port);
    assert_true(http_send_request(clients[i], "POST", "/predict", "Content-Type: " BODY_TYPE "\r\n", b.data, b.size));
  }
  for (int i = 0; i < CLIENTS; i++) {
    http_reply reply;
    assert_true(http_read(clients[i], &reply));
    good += reply.status == 200;
    if (reply.status == 503) {
      refused++;
      assert_string_equal(http_find_header(&reply, "retry-after"), "1");
    }
    http_free(&reply);
    close(clients[i]);
  }
  assert_true(good >= 2);
  assert_true(refused >= 1);
  assert_int_equal(good + refused, CLIENTS);
  free(b.data);
  service_stop(&s);
}

static void does_not_work_for_clients_that_left(void **state) {
  (void)state;
  service s = {0};
  char entries[512], answer[65536];
  unsigned long long before = 0, after = 0;
  snprintf(entries, sizeof entries, FACES_ENTRIES, 0.7);
  service_start(&s, (itg_models_options){0}, (itg_immich_options){.worker_count = 1});
  assert_int_equal(post(&s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
  state_of(&s, ITG_SERVICE_FACE_DETECTION, &before);
  const body b = body_of(entries, photograph, photograph_size, NULL);
  int clients[9];
  for (int i = 0; i < 9; i++) {
    clients[i] = http_connect(s.port);
    assert_true(http_send_request(clients[i], "POST", "/predict", "Content-Type: " BODY_TYPE "\r\n", b.data, b.size));
  }
  for (int i = 0; i < 9; i++) close(clients[i]);
  assert_int_equal(post(&s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
  state_of(&s, ITG_SERVICE_FACE_DETECTION, &after);
  assert_true(after - before <= 4); // Not 10: those that waited in the queue were dropped.
  free(b.data);
  service_stop(&s);
}

// ---- compiling on first use ----

static void wait_for_jobs(itg_compile_service *compiling, const char *folder, char *problem, size_t size) {
  bool running = true;
  for (int waited = 0; running && waited < 60000; waited++) {
    running = false;
    itg_compile_service_status(compiling, folder, &running, problem, size);
    service_sleep(10);
  }
  assert_false(running);
}

static void copy_faces_as(const char *name) {
  char command[1024];
  snprintf(command, sizeof command, "cp -r %s/models/facial-recognition/faceplugin %s/models/facial-recognition/%s",
           service_folder, service_folder, name);
  assert_int_equal(system(command), 0);
}

static void keeps_the_float_model_when_the_result_is_bad(void **state) {
  (void)state;
  char program[256], folder[512], problem[ITG_NETWORK_TEXT] = "", answer[65536], entries[512];
  copy_faces_as("refused");
  service_write("compiler", "#!/bin/sh\necho 'centred cosine .1: the result collapsed' >&2\nexit 1\n");
  snprintf(program, sizeof program, "%s/compiler", service_folder);
  assert_int_equal(chmod(program, 0755), 0);
  snprintf(folder, sizeof folder, "%s/models/facial-recognition/refused/recognition", service_folder);
  snprintf(entries, sizeof entries,
           "{\"facial-recognition\":{\"detection\":{\"modelName\":\"faceplugin\"},"
           "\"recognition\":{\"modelName\":\"refused\"}}}");
  for (int round = 0; round < 2; round++) { // The second service finds what the first one kept.
    service s = {0};
    itg_compile_service *compiling = NULL;
    const itg_compile_service_options options = {.program = program, .calibration = "/nonexistent"};
    assert_int_equal(itg_compile_service_create(&options, NULL, &compiling), ITG_OK);
    service_start(&s, (itg_models_options){.compiling = compiling}, (itg_immich_options){0});
    assert_int_equal(post(&s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
    wait_for_jobs(compiling, folder, problem, sizeof problem);
    assert_int_equal(post(&s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
    itg_model_status *status = calloc(1, sizeof *status);
    assert_true(itg_models_status(s.models, 1, status));
    assert_int_equal(status->networks[0].place, ITG_PLACE_FLOAT);
    assert_non_null(strstr(round ? status->networks[0].reason : status->problem, "collapsed"));
    assert_int_equal(status->networks[0].refused, round);
    free(status);
    service_stop(&s);
    itg_compile_service_destroy(compiling);
  }
}

static void compiles_on_first_use(void **state) {
  (void)state;
  char photographs[4096], answer[65536];
  snprintf(photographs, sizeof photographs, "%s/data/faces", oracle_shared());
  if (!oracle_exists(photographs)) skip();
  service s = {0};
  itg_compile_service *compiling = NULL;
  copy_faces_as("compiled");
  const itg_compile_service_options options = {.program = ITG_BINARY_DIR "/intaglio", .calibration = photographs};
  assert_int_equal(itg_compile_service_create(&options, NULL, &compiling), ITG_OK);
  service_start(&s, (itg_models_options){.compiling = compiling}, (itg_immich_options){0});
  const char *entries = "{\"facial-recognition\":{\"detection\":{\"modelName\":\"compiled\"},"
                        "\"recognition\":{\"modelName\":\"compiled\"}}}";
  assert_int_equal(post(&s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
  itg_model_status *status = calloc(1, sizeof *status);
  assert_true(itg_models_status(s.models, 1, status));
  assert_int_equal(status->networks[0].place, ITG_PLACE_FLOAT);
  assert_true(status->compiling);
  char folder[4200], problem[ITG_NETWORK_TEXT] = "";
  snprintf(folder, sizeof folder, "%s/models/facial-recognition/compiled/recognition", service_folder);
  wait_for_jobs(compiling, folder, problem, sizeof problem);
  assert_string_equal(problem, "");
  assert_int_equal(post(&s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
  assert_true(itg_models_status(s.models, 1, status));
  assert_int_equal(status->networks[0].place, ITG_PLACE_CPU);
  free(status);
  json_t *root = json_loads(answer, 0, NULL);
  assert_int_equal(json_array_size(json_object_get(root, "facial-recognition")), 6);
  json_decref(root);
  service_stop(&s);
  itg_compile_service_destroy(compiling);
}

// ---- malformed requests ----

static uint32_t random_state = 12345;
static uint32_t next_random(uint32_t below) {
  random_state = random_state * 1664525 + 1013904223;
  return (uint32_t)(((uint64_t)(random_state ^ random_state >> 13) * below) >> 32);
}

static void damage(body *b) {
  const uint32_t ways = 1 + next_random(4);
  for (uint32_t i = 0; i < ways && b->size > 2; i++) {
    const size_t at = next_random((uint32_t)b->size), length = 1 + next_random(64);
    const size_t rest = b->size - at, cut = length < rest ? length : rest;
    switch (next_random(5)) {
    case 0: b->data[at] = (char)next_random(256); break;
    case 1: b->size = at; break;                                                          // Cut off.
    case 2: memmove(b->data + at, b->data + at + cut, rest - cut), b->size -= cut; break; // Taken out.
    case 3:
      for (size_t k = 0; k < cut; k++) b->data[at + k] = (char)next_random(256);
      break;
    default: b->data[at] ^= (char)(1u << next_random(8));
    }
  }
}

static int send_damaged(uint16_t port, const body *whole, uint32_t kind) {
  static const char *const types[] = {"Content-Type: " BODY_TYPE "\r\n",
                                      "Content-Type: application/x-www-form-urlencoded\r\n",
                                      "Content-Type: multipart/form-data; boundary=\r\n",
                                      "Content-Type: multipart/form-data; boundary=\"a\r\n",
                                      "Content-Type: text/plain\r\n",
                                      ""};
  static const char *const paths[] = {"/predict", "/predict", "/predict", "/predict", "/",
                                      "/ping",    "/%00",     "/../x",    "/predict?"};
  static const char *const methods[] = {"POST", "POST", "POST", "GET", "PUT", "P O", ""};
  body b = {0};
  body_add(&b, whole->data, whole->size);
  damage(&b);
  http_reply reply = {0};
  if (kind % 4 < 3) {
    reply = http_call(port, methods[kind % 16 < 13 ? 0 : next_random(7)], paths[next_random(9)],
                      types[kind % 8 < 6 ? 0 : next_random(6)], b.data, b.size);
  } else { // Not even HTTP, or a length that is not the body's; who promised more than there is hangs up.
    const int client = http_connect(port), length = (int)next_random(4000) - 100;
    const size_t size = b.size < 3000 ? b.size : 3000;
    const bool has_head = kind % 8 < 5, hangs_up = has_head ? length > (int)size : kind % 64 != 63;
    char head[256];
    snprintf(head, sizeof head, "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n", length, types[0]);
    if (has_head) http_send(client, head, strlen(head));
    http_send(client, b.data, size);
    if (!hangs_up) shutdown(client, SHUT_WR);
    if (!hangs_up) http_read(client, &reply);
    close(client);
  }
  http_free(&reply);
  free(b.data);
  return reply.status;
}

static void survives_malformed_requests(void **state) {
  const service *s = *state;
  const char *asked = getenv("ITG_MALFORMED");
  const uint32_t count = asked ? (uint32_t)atol(asked) : 10000;
  const body png = black_png(16, 16);
  char entries[512];
  snprintf(entries, sizeof entries, FACES_ENTRIES, 0.7);
  const body wholes[] = {body_of(entries, png.data, png.size, NULL), body_of(entries, NULL, 0, "text"),
                         body_of("{\"ocr\":{\"detection\":{\"modelName\":\"x\"}}}", png.data, png.size, "y")};
  // 499: the client had closed its side.
  static const int allowed[] = {0, 200, 400, 404, 405, 413, 414, 422, 431, 499, 500, 501, 503, 505};
  int by_status[600] = {0};
  size_t before = 0;
  for (uint32_t i = 0; i < count; i++) {
    const int status = send_damaged(s->port, &wholes[i % 3], i);
    bool known = false;
    for (size_t k = 0; k < sizeof allowed / sizeof allowed[0]; k++) known = known || allowed[k] == status;
    if (!known) fail_msg("request %u: status %d", i, status);
    by_status[status]++;
    if (i == count / 4) before = itg_memory_now().process;
  }
  const size_t after = itg_memory_now().process;
  print_message(
      "%u malformed: %d x 400, %d x 422, %d x 404/405, %d x 500, %d x 200, %d without an answer; memory %+.1f MiB\n",
      count, by_status[400], by_status[422], by_status[404] + by_status[405], by_status[500], by_status[200],
      by_status[0], ((double)after - (double)before) / (1 << 20));
  assert_true(by_status[400] > 0 && by_status[422] > 0 && by_status[404] > 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // They keep freed memory.
  assert_true(after < before + (8 << 20));
#endif
  char answer[65536];
  assert_int_equal(post(s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
  for (int i = 0; i < 3; i++) free(wholes[i].data);
  free(png.data);
}

// ---- the status page ----

static void shows_its_status(void **state) {
  const service *s = *state;
  char answer[65536], entries[512];
  snprintf(entries, sizeof entries, FACES_ENTRIES, 0.7);
  assert_int_equal(post(s, entries, photograph, photograph_size, NULL, answer, sizeof answer), 200);
  itg_log(ITG_LOG_ERROR, "an error with <script>alert(1)</script>");
  http_reply reply = http_call(s->port, "GET", "/", "Accept: text/html,application/xhtml+xml\r\n", "", 0);
  assert_int_equal(reply.status, 200);
  assert_string_equal(http_find_header(&reply, "content-type"), "text/html; charset=utf-8");
  assert_non_null(strstr(reply.body, "<!DOCTYPE html>"));
  assert_non_null(strstr(reply.body, "faceplugin"));
  assert_non_null(strstr(reply.body, "CPU, float model"));
  assert_non_null(strstr(reply.body, "there is no compiled file"));
  assert_non_null(strstr(reply.body, "&lt;script&gt;"));
  assert_null(strstr(reply.body, "<script"));
  assert_null(strstr(reply.body, "http://")); // Nothing from elsewhere.
  assert_null(strstr(reply.body, "https://"));
  http_free(&reply);
  reply = http_call(s->port, "GET", "/status", NULL, "", 0);
  json_t *root = json_loadb(reply.body, reply.size, 0, NULL);
  assert_int_equal(json_array_size(json_object_get(root, "models")), 2);
  const json_t *model = json_array_get(json_object_get(root, "models"), 0);
  assert_string_equal(json_string_value(json_object_get(model, "state")), "loaded");
  assert_true(json_integer_value(json_object_get(json_object_get(root, "memory"), "process")) > 0);
  json_decref(root);
  http_free(&reply);
  reply = http_call(s->port, "GET", "/metrics", NULL, "", 0);
  assert_non_null(strstr(reply.body, "intaglio_answers_total{class=\"2xx\"}"));
  http_free(&reply);
}

static void shows_its_status_in_a_browser(void **state) {
  const service *s = *state;
  char command[512], dom[65536] = "";
  if (system("command -v chromium >/dev/null 2>&1") != 0) {
    print_message("no chromium here\n");
    skip();
  }
  snprintf(command, sizeof command,
           "timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir=%s/browser --dump-dom "
           "http://127.0.0.1:%u/ 2>/dev/null",
           service_folder, s->port);
  FILE *pipe = popen(command, "r");
  const size_t size = pipe ? fread(dom, 1, sizeof dom - 1, pipe) : 0;
  assert_int_equal(pclose(pipe), 0);
  dom[size] = '\0';
  assert_non_null(strstr(dom, "Intaglio for Immich</h1>"));
  assert_non_null(strstr(dom, "<table id=\"latency\"><tbody>")); // Parsed by the browser, not echoed.
  assert_non_null(strstr(dom, "id=\"npu\""));
}

#define RUN(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/../photos/judge/group/t1.jpg", oracle_models());
  if (!oracle_exists(path) || !service_prepare()) {
    printf("skipped: needs the face models and photographs (./setup)\n");
    return 77;
  }
  photograph = service_read_file(path, &photograph_size);
  const struct CMUnitTest tests[] = {
      RUN(answers_root_and_ping),
      RUN(tells_whether_it_is_well),
      RUN(finds_faces),
      RUN(detects_alone),
      RUN(takes_odd_pictures),
      RUN(refuses_by_code),
      cmocka_unit_test(keeps_to_the_older_contract),
      cmocka_unit_test(serves_aliases),
      cmocka_unit_test(closes_idle_models),
      cmocka_unit_test(refuses_when_the_queue_is_full),
      cmocka_unit_test(does_not_work_for_clients_that_left),
      cmocka_unit_test(keeps_the_float_model_when_the_result_is_bad),
      cmocka_unit_test(compiles_on_first_use),
      RUN(survives_malformed_requests),
      RUN(shows_its_status),
      RUN(shows_its_status_in_a_browser),
  };
  const char *only = getenv("ITG_TEST"); // For long runs of one of them.
  if (only) cmocka_set_test_filter(only);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  free(photograph);
  service_remove();
  return failed;
}
