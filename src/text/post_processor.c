// The post-processor of a tokenizer.json.
#include "text/post_processor.h"

enum { MAX_NESTING = 32, MAX_LAYOUT = 4096 };

// Puts the present layout in place of the text in `outer`.
static itg_status wrap(const itg_token_ids *outer, itg_diagnostic *diagnostic, itg_post_processor *out) {
  itg_token_ids layout = {0};
  itg_status status = ITG_OK;
  if (outer->count + out->layout.count > MAX_LAYOUT)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "post_processor: more than %d special tokens", MAX_LAYOUT);
  for (size_t i = 0; status == ITG_OK && i < outer->count; i++) {
    if (outer->ids[i] != ITG_TEMPLATE_TEXT) {
      status = itg_token_ids_append(&layout, outer->ids[i], diagnostic);
      continue;
    }
    for (size_t j = 0; status == ITG_OK && j < out->layout.count; j++)
      status = itg_token_ids_append(&layout, out->layout.ids[j], diagnostic);
  }
  if (status != ITG_OK) {
    itg_token_ids_free(&layout);
    return status;
  }
  itg_token_ids_free(&out->layout);
  out->layout = layout;
  return ITG_OK;
}

static itg_status check_id(const json_t *id, const char *where, itg_diagnostic *diagnostic) {
  if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= ITG_TOKENIZER_MAX_VOCABULARY)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: a special token's id is not one", where);
  return ITG_OK;
}

// BertProcessing and RobertaProcessing: "cls" and "sep" are [token, id].
static itg_status read_pair(const json_t *json, const char *where, itg_diagnostic *diagnostic, itg_token_ids *layout) {
  const json_t *cls = json_array_get(json_object_get(json, "cls"), 1);
  const json_t *sep = json_array_get(json_object_get(json, "sep"), 1);
  ITG_TRY(check_id(cls, where, diagnostic));
  ITG_TRY(check_id(sep, where, diagnostic));
  ITG_TRY(itg_token_ids_append(layout, (int32_t)json_integer_value(cls), diagnostic));
  ITG_TRY(itg_token_ids_append(layout, ITG_TEMPLATE_TEXT, diagnostic));
  return itg_token_ids_append(layout, (int32_t)json_integer_value(sep), diagnostic);
}

static itg_status read_template(const json_t *json, itg_diagnostic *diagnostic, itg_token_ids *layout) {
  static const char where[] = "post_processor TemplateProcessing";
  const json_t *single, *part, *id;
  size_t i, j, texts = 0;
  ITG_TRY(itg_json_allow(json, where, "type single pair special_tokens", diagnostic));
  ITG_TRY(itg_json_need_array(json, where, "single", diagnostic, &single));
  json_array_foreach(single, i, part) {
    const json_t *special = json_object_get(part, "SpecialToken"), *sequence = json_object_get(part, "Sequence");
    itg_span name;
    ITG_TRY(itg_json_allow(part, where, "SpecialToken Sequence", diagnostic));
    if (layout->count > MAX_LAYOUT)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "%s: more than %d special tokens", where, MAX_LAYOUT);
    if (!special) {
      ITG_TRY(itg_json_need_string(sequence, where, "id", diagnostic, &name));
      if (!itg_span_equals(name, "A"))
        ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: \"single\" has the text %.20s", where,
                 (const char *)name.data);
      ITG_TRY(itg_token_ids_append(layout, ITG_TEMPLATE_TEXT, diagnostic));
      texts++;
      continue;
    }
    ITG_TRY(itg_json_need_string(special, where, "id", diagnostic, &name));
    const json_t *ids =
        json_object_get(json_object_get(json_object_get(json, "special_tokens"), (const char *)name.data), "ids");
    if (!json_is_array(ids))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: special_tokens lacks \"%.80s\"", where,
               (const char *)name.data);
    json_array_foreach(ids, j, id) {
      ITG_TRY(check_id(id, where, diagnostic));
      if (layout->count > MAX_LAYOUT)
        ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "%s: more than %d special tokens", where, MAX_LAYOUT);
      ITG_TRY(itg_token_ids_append(layout, (int32_t)json_integer_value(id), diagnostic));
    }
  }
  if (texts != 1)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", "%s: \"single\" has the text %zu times", where,
             texts);
  return ITG_OK;
}

static itg_status read_one(const json_t *json, int depth, itg_diagnostic *diagnostic, itg_post_processor *out) {
  const char *type;
  itg_token_ids layout = {0};
  if (depth > MAX_NESTING)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "post_processors are nested deeper than %d", MAX_NESTING);
  ITG_TRY(itg_json_type(json, "post_processor", diagnostic, &type));
  if (strcmp(type, "Sequence") == 0) {
    const json_t *all, *one;
    size_t i;
    ITG_TRY(itg_json_allow(json, "post_processor Sequence", "type processors", diagnostic));
    ITG_TRY(itg_json_need_array(json, "post_processor Sequence", "processors", diagnostic, &all));
    json_array_foreach(all, i, one) ITG_TRY(read_one(one, depth + 1, diagnostic, out));
    return ITG_OK;
  }
  // Only offsets are its concern, and there are none here.
  if (strcmp(type, "ByteLevel") == 0)
    return itg_json_allow(json, "post_processor ByteLevel", "type add_prefix_space trim_offsets use_regex", diagnostic);
  itg_status status;
  if (strcmp(type, "BertProcessing") == 0) {
    status = itg_json_allow(json, "post_processor BertProcessing", "type sep cls", diagnostic);
    if (status == ITG_OK) status = read_pair(json, "post_processor BertProcessing", diagnostic, &layout);
  } else if (strcmp(type, "RobertaProcessing") == 0) {
    status = itg_json_allow(json, "post_processor RobertaProcessing", "type sep cls trim_offsets add_prefix_space",
                            diagnostic);
    if (status == ITG_OK) status = read_pair(json, "post_processor RobertaProcessing", diagnostic, &layout);
  } else if (strcmp(type, "TemplateProcessing") == 0) {
    status = read_template(json, diagnostic, &layout);
  } else {
    status = itg_fail(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", __FILE__, __LINE__,
                      "the post_processor \"%.80s\" is not supported", type);
  }
  if (status == ITG_OK) status = wrap(&layout, diagnostic, out);
  itg_token_ids_free(&layout);
  return status;
}

itg_status itg_post_processor_read(const json_t *json, itg_diagnostic *diagnostic, itg_post_processor *out) {
  ITG_TRY(itg_token_ids_append(&out->layout, ITG_TEMPLATE_TEXT, diagnostic));
  return json && !json_is_null(json) ? read_one(json, 0, diagnostic, out) : ITG_OK;
}

void itg_post_processor_free(itg_post_processor *processor) { itg_token_ids_free(&processor->layout); }
