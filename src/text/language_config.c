// Checking, storing and reading the description of a language model, and its rotary tables.
#include "text/language_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json.h"
#include "text/json_fields.h"

void itg_language_config_init(itg_language_config *config) {
  *config = (itg_language_config){.bos = -1, .pad = -1, .image_token = -1};
}

typedef struct range {
  const char *name;
  int64_t value, low, high;
} range;

static itg_status check_ranges(const range *ranges, size_t count, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < count; i++) {
    const range *r = &ranges[i];
    if (r->value < r->low || r->value > r->high)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, r->name, "%s is %lld; it must lie between %lld and %lld", r->name,
               (long long)r->value, (long long)r->low, (long long)r->high);
  }
  return ITG_OK;
}
#define CHECK(ranges, diagnostic) ITG_TRY(check_ranges(ranges, sizeof(ranges) / sizeof(ranges)[0], diagnostic))

static itg_status check_vision(const itg_vision_config *vision, itg_diagnostic *diagnostic) {
  const range ranges[] = {{"vision layers", vision->layers, 1, ITG_LANGUAGE_MAX_LAYERS},
                          {"vision hidden size", vision->hidden, 1, ITG_LANGUAGE_MAX_WIDTH},
                          {"vision heads", vision->heads, 1, ITG_LANGUAGE_MAX_HEADS},
                          {"vision head size", vision->head_size, 1, ITG_LANGUAGE_MAX_HEAD_SIZE},
                          {"vision intermediate size", vision->intermediate, 1, ITG_LANGUAGE_MAX_WIDTH},
                          {"image size", vision->image_size, 1, 4096},
                          {"patch size", vision->patch_size, 1, vision->image_size},
                          {"pixel shuffle", vision->shuffle, 1, 64},
                          {"tokens of a tile", vision->tile_tokens, 1, 1 << 16}};
  CHECK(ranges, diagnostic);
  const int32_t side = vision->image_size / vision->patch_size;
  if (vision->image_size % vision->patch_size != 0 || side % vision->shuffle != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "image size", "%d pixels do not divide into patches of %d and groups of %d",
             (int)vision->image_size, (int)vision->patch_size, (int)vision->shuffle);
  if (side / vision->shuffle * (side / vision->shuffle) != vision->tile_tokens)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokens of a tile", "%d tokens do not fit %d patches a side in groups of %d",
             (int)vision->tile_tokens, (int)side, (int)vision->shuffle);
  if (vision->heads * vision->head_size != vision->hidden)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "vision heads", "%d heads of %d do not make %d channels", (int)vision->heads,
             (int)vision->head_size, (int)vision->hidden);
  return ITG_OK;
}

itg_status itg_language_config_check(const itg_language_config *config, itg_diagnostic *diagnostic) {
  const range ranges[] = {{"layers", config->layers, 1, ITG_LANGUAGE_MAX_LAYERS},
                          {"hidden size", config->hidden, 1, ITG_LANGUAGE_MAX_WIDTH},
                          {"intermediate size", config->intermediate, 1, ITG_LANGUAGE_MAX_WIDTH},
                          {"heads", config->heads, 1, ITG_LANGUAGE_MAX_HEADS},
                          {"key and value heads", config->kv_heads, 1, config->heads},
                          {"head size", config->head_size, 2, ITG_LANGUAGE_MAX_HEAD_SIZE},
                          {"vocabulary", config->vocabulary, 1, ITG_LANGUAGE_MAX_VOCABULARY},
                          {"positions", config->maximum_positions, 1, ITG_LANGUAGE_MAX_POSITIONS},
                          {"bos token", config->bos, -1, config->vocabulary - 1},
                          {"image token", config->image_token, -1, config->vocabulary - 1},
                          {"number of end tokens", config->eos_count, 0, ITG_LANGUAGE_MAX_EOS},
                          {"number of prefix tokens", config->prefix_count, 0, ITG_LANGUAGE_MAX_PREFIX},
                          {"context length", config->context_length, 0, ITG_LANGUAGE_MAX_POSITIONS},
                          {"prefill length", config->prefill_length, 0, ITG_LANGUAGE_MAX_POSITIONS}};
  CHECK(ranges, diagnostic);
  for (int32_t i = 0; i < config->eos_count; i++) {
    const range end[] = {{"end token", config->eos[i], 0, config->vocabulary - 1}};
    CHECK(end, diagnostic);
  }
  for (int32_t i = 0; i < config->prefix_count; i++) {
    const range prefix[] = {{"prefix token", config->prefix[i], 0, config->vocabulary - 1}};
    CHECK(prefix, diagnostic);
  }
  if (config->heads % config->kv_heads != 0 || config->head_size % 2 != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "heads", "%d heads of size %d cannot share %d key and value heads",
             (int)config->heads, (int)config->head_size, (int)config->kv_heads);
  if (!(config->norm_epsilon > 0 && config->norm_epsilon < 1) ||
      !(config->rope.theta >= 1 && config->rope.theta < 1e12))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "rope theta", "epsilon %g or theta %g is out of range", config->norm_epsilon,
             config->rope.theta);
  const bool scaled = config->rope.kind == ITG_ROPE_LINEAR || config->rope.kind == ITG_ROPE_LLAMA3;
  if (scaled && !(config->rope.factor >= 1 && config->rope.factor < 1e6))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "rope factor", "%g is out of range", config->rope.factor);
  if (config->rope.kind == ITG_ROPE_LLAMA3 &&
      (!(config->rope.high_frequency_factor > config->rope.low_frequency_factor) ||
       !(config->rope.low_frequency_factor > 0) || config->rope.original_positions < 1))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "rope scaling", "the frequency factors %g and %g are out of order",
             config->rope.low_frequency_factor, config->rope.high_frequency_factor);
  if (config->vision.family == ITG_VISION_NONE) return ITG_OK;
  if (config->image_token < 0) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "image token", "there is no image token");
  return check_vision(&config->vision, diagnostic);
}

// ---- JSON ----

// One line a field serves both directions.
typedef enum field_type { FIELD_INTEGER, FIELD_NUMBER, FIELD_BOOL } field_type;
typedef struct field {
  const char *name;
  field_type type;
  size_t offset;
} field;
#define INTEGER(owner, member) \
  { #member, FIELD_INTEGER, offsetof(owner, member) }
#define NUMBER(owner, member) \
  { #member, FIELD_NUMBER, offsetof(owner, member) }
#define BOOLEAN(owner, member) \
  { #member, FIELD_BOOL, offsetof(owner, member) }

static const field language_fields[] = {INTEGER(itg_language_config, family),
                                        INTEGER(itg_language_config, layers),
                                        INTEGER(itg_language_config, hidden),
                                        INTEGER(itg_language_config, intermediate),
                                        INTEGER(itg_language_config, heads),
                                        INTEGER(itg_language_config, kv_heads),
                                        INTEGER(itg_language_config, head_size),
                                        INTEGER(itg_language_config, vocabulary),
                                        INTEGER(itg_language_config, maximum_positions),
                                        NUMBER(itg_language_config, norm_epsilon),
                                        BOOLEAN(itg_language_config, qkv_bias),
                                        BOOLEAN(itg_language_config, output_bias),
                                        BOOLEAN(itg_language_config, mlp_bias),
                                        BOOLEAN(itg_language_config, head_norm),
                                        BOOLEAN(itg_language_config, tied),
                                        INTEGER(itg_language_config, bos),
                                        INTEGER(itg_language_config, pad),
                                        INTEGER(itg_language_config, image_token),
                                        INTEGER(itg_language_config, context_length),
                                        INTEGER(itg_language_config, prefill_length)};
static const field rope_fields[] = {INTEGER(itg_rope_config, kind),
                                    NUMBER(itg_rope_config, theta),
                                    NUMBER(itg_rope_config, factor),
                                    NUMBER(itg_rope_config, low_frequency_factor),
                                    NUMBER(itg_rope_config, high_frequency_factor),
                                    INTEGER(itg_rope_config, original_positions)};
static const field vision_fields[] = {
    INTEGER(itg_vision_config, family),         INTEGER(itg_vision_config, layers),
    INTEGER(itg_vision_config, hidden),         INTEGER(itg_vision_config, heads),
    INTEGER(itg_vision_config, head_size),      INTEGER(itg_vision_config, intermediate),
    INTEGER(itg_vision_config, image_size),     INTEGER(itg_vision_config, patch_size),
    NUMBER(itg_vision_config, norm_epsilon),    BOOLEAN(itg_vision_config, gelu_tanh),
    BOOLEAN(itg_vision_config, attention_bias), INTEGER(itg_vision_config, shuffle),
    INTEGER(itg_vision_config, tile_tokens),    INTEGER(itg_vision_config, maximum_edge),
    INTEGER(itg_vision_config, maximum_tiles),  BOOLEAN(itg_vision_config, split)};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static json_t *write_fields(const field *fields, size_t count, const void *owner) {
  json_t *object = json_object();
  bool ok = object != NULL;
  for (size_t i = 0; ok && i < count; i++) {
    const char *at = (const char *)owner + fields[i].offset;
    json_t *value = fields[i].type == FIELD_INTEGER  ? json_integer(*(const int32_t *)at)
                    : fields[i].type == FIELD_NUMBER ? json_real(*(const double *)at)
                                                     : json_boolean(*(const bool *)at);
    ok = json_object_set_new(object, fields[i].name, value) == 0;
  }
  if (ok) return object;
  json_decref(object);
  return NULL;
}

static json_t *write_rope(const itg_language_config *config) {
  json_t *rope = write_fields(rope_fields, COUNT(rope_fields), &config->rope), *factors = json_array();
  bool ok = rope && factors;
  const int32_t count = config->rope.kind == ITG_ROPE_FACTORS ? config->head_size / 2 : 0;
  for (int32_t i = 0; ok && i < count; i++)
    ok = json_array_append_new(factors, json_real((double)config->rope.factors[i])) == 0;
  ok = ok && json_object_set(rope, "factors", factors) == 0;
  json_decref(factors);
  if (ok) return rope;
  json_decref(rope);
  return NULL;
}

static json_t *write_ids(const int32_t *ids, int32_t count) {
  json_t *list = json_array();
  for (int32_t i = 0; list && i < count; i++) {
    if (json_array_append_new(list, json_integer(ids[i])) == 0) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

char *itg_language_config_to_json(const itg_language_config *config) {
  json_t *root = write_fields(language_fields, COUNT(language_fields), config);
  bool ok = root && json_object_set_new(root, "eos", write_ids(config->eos, config->eos_count)) == 0 &&
            json_object_set_new(root, "prefix", write_ids(config->prefix, config->prefix_count)) == 0 &&
            json_object_set_new(root, "rope", write_rope(config)) == 0;
  if (ok && config->vision.family != ITG_VISION_NONE)
    ok = json_object_set_new(root, "vision", write_fields(vision_fields, COUNT(vision_fields), &config->vision)) == 0;
  char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  return text;
}

static bool is_known(const field *fields, size_t count, const char *name, const char *const *more) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(fields[i].name, name) == 0) return true;
  }
  for (; *more; more++) {
    if (strcmp(*more, name) == 0) return true;
  }
  return false;
}

// Every field must be there; none beside them and `more`.
static itg_status read_fields(const json_t *object, const char *where, const field *fields, size_t count,
                              const char *const *more, itg_diagnostic *diagnostic, void *owner) {
  if (!json_is_object(object)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, where, "%s is not an object", where);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    if (!is_known(fields, count, key, more))
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, where, "%s has the unknown field \"%.80s\"", where, key);
  }
  for (size_t i = 0; i < count; i++) {
    char *at = (char *)owner + fields[i].offset;
    value = json_object_get(object, fields[i].name);
    const bool fits = fields[i].type == FIELD_INTEGER ? json_is_integer(value) && json_integer_value(value) >= -1 &&
                                                            json_integer_value(value) <= INT32_MAX
                      : fields[i].type == FIELD_NUMBER ? json_is_number(value)
                                                       : json_is_boolean(value);
    if (!fits)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, where, "\"%s\" of %s is missing or of the wrong type", fields[i].name,
               where);
    if (fields[i].type == FIELD_INTEGER)
      *(int32_t *)at = (int32_t)json_integer_value(value);
    else if (fields[i].type == FIELD_NUMBER)
      *(double *)at = json_number_value(value);
    else
      *(bool *)at = json_is_true(value);
  }
  return ITG_OK;
}

static itg_status read_rope(const json_t *object, itg_language_config *config, itg_diagnostic *diagnostic) {
  static const char *const more[] = {"factors", NULL};
  ITG_TRY(read_fields(object, "rope", rope_fields, COUNT(rope_fields), more, diagnostic, &config->rope));
  const json_t *factors = json_object_get(object, "factors");
  const size_t count = config->rope.kind == ITG_ROPE_FACTORS ? (size_t)config->head_size / 2 : 0;
  if (config->head_size < 0 || count > ITG_LANGUAGE_MAX_HEAD_SIZE / 2 || json_array_size(factors) != count)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "rope", "\"factors\" of rope must have %zu numbers", count);
  for (size_t i = 0; i < count; i++) {
    const double factor = json_number_value(json_array_get(factors, i));
    if (!(factor > 0 && factor < 1e9)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "rope", "factor %zu is %g", i, factor);
    config->rope.factors[i] = (float)factor;
  }
  return ITG_OK;
}

// Ids that are none become -1, which the check refuses.
static itg_status read_ids(const json_t *root, const char *name, int32_t most, int32_t *ids, int32_t *count,
                           itg_diagnostic *diagnostic) {
  const json_t *list = json_object_get(root, name);
  if (!json_is_array(list) || json_array_size(list) > (size_t)most)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name, "\"%s\" must be a list of at most %d ids", name, (int)most);
  *count = (int32_t)json_array_size(list);
  for (int32_t i = 0; i < *count; i++) {
    const json_t *item = json_array_get(list, (size_t)i);
    const json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
    ids[i] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
  }
  return ITG_OK;
}

static itg_status read_config(const json_t *root, itg_language_config *config, itg_diagnostic *diagnostic) {
  static const char *const more[] = {"eos", "prefix", "rope", "vision", NULL}, *const none[] = {NULL};
  ITG_TRY(
      read_fields(root, "the language description", language_fields, COUNT(language_fields), more, diagnostic, config));
  ITG_TRY(read_rope(json_object_get(root, "rope"), config, diagnostic));
  const json_t *vision = json_object_get(root, "vision");
  ITG_TRY(read_ids(root, "eos", ITG_LANGUAGE_MAX_EOS, config->eos, &config->eos_count, diagnostic));
  ITG_TRY(read_ids(root, "prefix", ITG_LANGUAGE_MAX_PREFIX, config->prefix, &config->prefix_count, diagnostic));
  if (vision)
    ITG_TRY(read_fields(vision, "vision", vision_fields, COUNT(vision_fields), none, diagnostic, &config->vision));
  if (config->family < ITG_LANGUAGE_LLAMA || config->family > ITG_LANGUAGE_QWEN3 ||
      config->vision.family > ITG_VISION_INTERNVL || config->rope.kind > ITG_ROPE_FACTORS)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "family", "the model is of a family that this build does not know");
  return itg_language_config_check(config, diagnostic);
}

itg_status itg_language_config_parse(itg_span json, itg_diagnostic *diagnostic, itg_language_config *out) {
  json_error_t error;
  json_t *root = itg_json_parse(json, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    ITG_FAIL(diagnostic, itg_json_status(&error), "language", "the language description is not JSON: %s", error.text);
  itg_language_config config;
  itg_language_config_init(&config);
  const itg_status status = read_config(root, &config, diagnostic);
  json_decref(root);
  if (status == ITG_OK) *out = config;
  return status;
}

// ---- rotary tables ----

// The ramp published with the Llama 3.1 models: wavelengths above original/low are stretched by `factor`, those below
// original/high stay, linear in between.
static double llama3(const itg_rope_config *rope, double frequency) {
  const double turns = rope->original_positions * frequency / (2 * M_PI); // Of the original context.
  if (turns > rope->high_frequency_factor) return frequency;
  if (turns < rope->low_frequency_factor) return frequency / rope->factor;
  const double keep = (turns - rope->low_frequency_factor) / (rope->high_frequency_factor - rope->low_frequency_factor);
  return frequency / rope->factor * (1 - keep) + frequency * keep;
}

void itg_rope_frequencies(const itg_language_config *config, double *out) {
  const itg_rope_config *rope = &config->rope;
  for (int32_t i = 0; i < config->head_size / 2; i++) {
    const double frequency = pow(rope->theta, -2.0 * i / config->head_size);
    switch (rope->kind) {
    case ITG_ROPE_LINEAR: out[i] = frequency / rope->factor; break;
    case ITG_ROPE_LLAMA3: out[i] = llama3(rope, frequency); break;
    case ITG_ROPE_FACTORS: out[i] = frequency / (double)rope->factors[i]; break;
    default: out[i] = frequency; break;
    }
  }
}

itg_status itg_rope_tables(const itg_language_config *config, int64_t first, int64_t count, itg_diagnostic *diagnostic,
                           float *cosines, float *sines) {
  const int32_t pairs = config->head_size / 2;
  double *frequencies = calloc((size_t)pairs + 1, sizeof *frequencies);
  ITG_TRY_MEMORY(frequencies, diagnostic);
  itg_rope_frequencies(config, frequencies);
  for (int64_t t = 0; t < count; t++) {
    for (int32_t i = 0; i < pairs; i++) {
      const float angle = (float)frequencies[i] * (float)(first + t);
      cosines[t * pairs + i] = (float)cos((double)angle);
      sines[t * pairs + i] = (float)sin((double)angle);
    }
  }
  free(frequencies);
  return ITG_OK;
}
