// Conversations: prompt, prefill in blocks, decoding token by token. See intaglio/language.h.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "pipelines/answer_text.h"
#include "pipelines/prompt.h"
#include "pipelines/sampler.h"
#include "text/buffers.h"

struct itg_chat {
  const itg_language *language;
  itg_session *decoder, *embedding, *vision; // vision: made when the first image comes.
  itg_session_options options;
  uint64_t *seen_keys; // [capacity]: what the caches hold; the decoder's position is how much of it counts.
  float *rows;         // [block, hidden]
  float *cosines, *sines;
  int32_t *table;  // [block, head_size/2]
  float *logits;   // [vocabulary]
  float *features; // Of the call's image tokens, [count, hidden].
  size_t feature_rows, feature_capacity;
  itg_prompt prompt;
  itg_token_ids history; // Prompt and answer, for the repetition penalty.
  itg_token_ids answer;
  itg_sampler sampler;
};

void itg_chat_settings_default(itg_chat_settings *settings) {
  *settings = (itg_chat_settings){.struct_size = sizeof *settings, .top_p = 1, .repetition_penalty = 1};
}

static itg_status prepare(itg_chat *chat, itg_diagnostic *diagnostic) {
  const itg_language *l = chat->language;
  const size_t half = (size_t)l->config.head_size / 2;
  ITG_TRY(itg_session_create(l->decoder, &chat->options, diagnostic, &chat->decoder));
  itg_session_options one = chat->options; // Looking up a row is no work for threads.
  one.thread_count = 1;
  ITG_TRY(itg_session_create(l->embedding, &one, diagnostic, &chat->embedding));
  if (itg_session_block(chat->decoder) != l->block || itg_session_capacity(chat->decoder) < l->capacity)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "language", "the decoder holds %zu positions, the description says %zu",
             itg_session_capacity(chat->decoder), l->capacity);
  chat->seen_keys = calloc(l->capacity + 1, sizeof *chat->seen_keys);
  chat->rows = calloc(l->block * (size_t)l->config.hidden, sizeof *chat->rows);
  chat->cosines = calloc(l->block * half, sizeof *chat->cosines);
  chat->sines = calloc(l->block * half, sizeof *chat->sines);
  chat->table = calloc(l->block * half, sizeof *chat->table);
  chat->logits = calloc((size_t)l->config.vocabulary, sizeof *chat->logits);
  ITG_TRY_MEMORY(chat->seen_keys && chat->rows && chat->cosines && chat->sines && chat->table && chat->logits,
                 diagnostic);
  // The prefix is in the caches already.
  for (int32_t i = 0; i < l->config.prefix_count; i++) chat->seen_keys[i] = (uint32_t)l->config.prefix[i];
  return ITG_OK;
}

itg_status itg_chat_create(const itg_language *language, const itg_session_options *options, itg_diagnostic *diagnostic,
                           itg_chat **out) {
  itg_chat *chat = calloc(1, sizeof *chat);
  ITG_TRY_MEMORY(chat, diagnostic);
  chat->language = language;
  itg_session_options_default(&chat->options);
  if (options) chat->options = *options;
  const itg_status status = prepare(chat, diagnostic);
  if (status != ITG_OK) {
    itg_chat_destroy(chat);
    return status;
  }
  *out = chat;
  return ITG_OK;
}

void itg_chat_destroy(itg_chat *chat) {
  if (!chat) return;
  itg_session_destroy(chat->decoder);
  itg_session_destroy(chat->embedding);
  itg_session_destroy(chat->vision);
  free(chat->seen_keys);
  free(chat->rows);
  free(chat->cosines);
  free(chat->sines);
  free(chat->table);
  free(chat->logits);
  free(chat->features);
  itg_prompt_free(&chat->prompt);
  itg_token_ids_free(&chat->history);
  itg_token_ids_free(&chat->answer);
  itg_sampler_free(&chat->sampler);
  free(chat);
}

const int32_t *itg_chat_answer_ids(const itg_chat *chat, size_t *count) {
  *count = chat->answer.count;
  return chat->answer.ids;
}

static double seconds_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// ---- running positions ----

static itg_status embed_token(itg_chat *chat, int32_t id, float *row, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_session_set_input_codes(chat->embedding, 0, &id, sizeof id, diagnostic));
  ITG_TRY(itg_session_run(chat->embedding, diagnostic));
  return itg_session_get_output(chat->embedding, 0, row, (size_t)chat->language->config.hidden, diagnostic);
}

static itg_status set_table(itg_chat *chat, size_t input, const float *values, size_t count,
                            itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < count; i++) chat->table[i] = (int32_t)lround((double)values[i] * 0x1p30);
  return itg_session_set_input_codes(chat->decoder, input, chat->table, count * sizeof chat->table[0], diagnostic);
}

// Runs the decoder over the `count` rows in chat->rows, whose keys are given.
static itg_status run_rows(itg_chat *chat, const uint64_t *keys, size_t count, itg_block_outputs outputs,
                           itg_diagnostic *diagnostic) {
  const itg_language *l = chat->language;
  const size_t position = itg_session_position(chat->decoder), angles = count * (size_t)l->config.head_size / 2;
  ITG_TRY(itg_session_set_block(chat->decoder, count, outputs, diagnostic));
  ITG_TRY(itg_rope_tables(&l->config, (int64_t)position, (int64_t)count, diagnostic, chat->cosines, chat->sines));
  ITG_TRY(itg_session_set_input(chat->decoder, l->input_embeddings, chat->rows, count * (size_t)l->config.hidden,
                                diagnostic));
  ITG_TRY(set_table(chat, l->input_cosine, chat->cosines, angles, diagnostic));
  ITG_TRY(set_table(chat, l->input_sine, chat->sines, angles, diagnostic));
  ITG_TRY(itg_session_run(chat->decoder, diagnostic));
  memcpy(chat->seen_keys + position, keys, count * sizeof keys[0]);
  return ITG_OK;
}

// ---- images ----

static itg_status encode_tile(itg_chat *chat, const itg_vision_tiles *tiles, size_t tile, float *pixels, float *out,
                              itg_diagnostic *diagnostic) {
  const itg_language *l = chat->language;
  if (!chat->vision) ITG_TRY(itg_session_create(l->vision, &chat->options, diagnostic, &chat->vision));
  itg_vision_tile_values(&l->config.vision, tiles, tile, pixels);
  ITG_TRY(itg_session_set_input(chat->vision, 0, pixels, itg_model_input(l->vision, 0)->count, diagnostic));
  ITG_TRY(itg_session_run(chat->vision, diagnostic));
  return itg_session_get_output(chat->vision, 0, out, itg_model_output(l->vision, 0)->count, diagnostic);
}

// Features of every image token; tiles whose tokens are all known (`known` image tokens are) stay unset.
static itg_status encode_images(itg_chat *chat, size_t known, itg_diagnostic *diagnostic,
                                itg_chat_statistics *statistics) {
  const itg_language *l = chat->language;
  if (!l->vision) return ITG_OK;
  const size_t tokens = (size_t)l->config.vision.tile_tokens, width = (size_t)l->config.hidden;
  size_t tiles = 0, done = 0;
  for (size_t i = 0; i < chat->prompt.picture_count; i++) tiles += chat->prompt.tiles[i].count;
  if (!itg_grow((void **)&chat->features, &chat->feature_capacity, tiles * tokens * width, sizeof chat->features[0]))
    ITG_TRY_MEMORY(NULL, diagnostic);
  float *pixels = malloc(itg_model_input(l->vision, 0)->count * sizeof *pixels);
  ITG_TRY_MEMORY(pixels, diagnostic);
  itg_status status = ITG_OK;
  for (size_t i = 0; i < chat->prompt.picture_count && status == ITG_OK; i++) {
    for (size_t t = 0; t < chat->prompt.tiles[i].count && status == ITG_OK; t++, done++) {
      if ((done + 1) * tokens <= known) continue;
      status = encode_tile(chat, &chat->prompt.tiles[i], t, pixels, chat->features + done * tokens * width, diagnostic);
      statistics->tiles++;
    }
  }
  free(pixels);
  return status;
}

// ---- prefill ----

static size_t common_beginning(const itg_chat *chat) {
  const size_t held = itg_session_position(chat->decoder), count = chat->prompt.ids.count;
  size_t common = 0;
  while (common < held && common < count && chat->seen_keys[common] == chat->prompt.keys[common]) common++;
  return common == count ? count - 1 : common; // The last token's logits are needed.
}

static bool is_image(const itg_chat *chat, size_t index) { return chat->prompt.keys[index] >> 63; }

static itg_status prefill(itg_chat *chat, itg_chat_text_function on_text, void *context, itg_diagnostic *diagnostic,
                          itg_chat_statistics *statistics) {
  const itg_language *l = chat->language;
  const size_t count = chat->prompt.ids.count, width = (size_t)l->config.hidden, first = common_beginning(chat);
  size_t image_row = 0;
  for (size_t i = 0; i < first; i++) image_row += is_image(chat, i);
  statistics->prompt_tokens = count;
  statistics->cached_tokens = first;
  ITG_TRY(itg_session_rewind(chat->decoder, first, diagnostic));
  double start = seconds_now();
  ITG_TRY(encode_images(chat, image_row, diagnostic, statistics));
  statistics->image_seconds = seconds_now() - start;
  start = seconds_now();
  for (size_t at = first; at < count;) {
    const size_t rows = count - at < l->block ? count - at : l->block;
    for (size_t r = 0; r < rows; r++) {
      if (is_image(chat, at + r)) {
        memcpy(chat->rows + r * width, chat->features + image_row++ * width, width * sizeof chat->rows[0]);
      } else {
        ITG_TRY(embed_token(chat, chat->prompt.ids.ids[at + r], chat->rows + r * width, diagnostic));
      }
    }
    const itg_block_outputs outputs = at + rows == count ? ITG_BLOCK_LAST_ROW : ITG_BLOCK_NO_OUTPUTS;
    ITG_TRY(run_rows(chat, chat->prompt.keys + at, rows, outputs, diagnostic));
    at += rows;
    if (at < count && on_text && !on_text(context, "", 0)) {
      statistics->end = ITG_CHAT_CANCELLED;
      break;
    }
  }
  statistics->prefill_seconds = seconds_now() - start;
  return ITG_OK;
}

// ---- decoding ----

static bool ends(const itg_language *l, int32_t id) {
  for (size_t i = 0; i < l->end_count; i++) {
    if (l->ends[i] == id) return true;
  }
  return false;
}

static itg_status choose(itg_chat *chat, const itg_chat_settings *settings, itg_diagnostic *diagnostic, int32_t *id) {
  const size_t count = (size_t)chat->language->config.vocabulary;
  ITG_TRY(itg_session_get_output(chat->decoder, 0, chat->logits, count, diagnostic));
  return itg_sampler_choose(&chat->sampler, settings, chat->history.ids, chat->history.count, chat->logits, count,
                            diagnostic, id);
}

static itg_status decode(itg_chat *chat, const itg_chat_settings *settings, itg_stream_decoder *spelling,
                         itg_answer_text *answer, double start, itg_diagnostic *diagnostic,
                         itg_chat_statistics *statistics) {
  const itg_language *l = chat->language;
  itg_text text = {0};
  itg_status status = ITG_OK;
  double first = 0;
  statistics->end = ITG_CHAT_LENGTH;
  while (status == ITG_OK) {
    int32_t id = 0;
    status = choose(chat, settings, diagnostic, &id);
    if (status != ITG_OK) break;
    if (first == 0) {
      first = seconds_now();
      statistics->first_token_seconds = first - start;
    }
    if (ends(l, id)) {
      statistics->end = ITG_CHAT_STOPPED;
      break;
    }
    text.size = 0;
    status = itg_token_ids_append(&chat->answer, id, diagnostic);
    if (status == ITG_OK) status = itg_token_ids_append(&chat->history, id, diagnostic);
    if (status == ITG_OK) status = itg_stream_decoder_push(spelling, id, diagnostic, &text);
    if (status == ITG_OK) status = itg_answer_text_add(answer, itg_text_span(&text), diagnostic);
    statistics->answer_tokens++;
    if (answer->stopped || answer->cancelled) {
      statistics->end = answer->stopped ? ITG_CHAT_STOPPED : ITG_CHAT_CANCELLED;
      break;
    }
    if (statistics->answer_tokens == settings->max_tokens || itg_session_position(chat->decoder) == l->capacity) break;
    const uint64_t key = (uint32_t)id;
    if (status == ITG_OK) status = embed_token(chat, id, chat->rows, diagnostic);
    if (status == ITG_OK) status = run_rows(chat, &key, 1, ITG_BLOCK_LAST_ROW, diagnostic);
  }
  statistics->decode_seconds = first > 0 ? seconds_now() - first : 0;
  if (status == ITG_OK && !answer->stopped) {
    text.size = 0;
    status = itg_stream_decoder_finish(spelling, diagnostic, &text);
    if (status == ITG_OK) status = itg_answer_text_add(answer, itg_text_span(&text), diagnostic);
    if (status == ITG_OK && !answer->stopped) itg_answer_text_finish(answer);
  }
  itg_text_free(&text);
  return status;
}

// ---- a call ----

static itg_status check_settings(const itg_chat_settings *s, itg_diagnostic *diagnostic) {
  if (s->struct_size != sizeof *s)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "settings: fill them with itg_chat_settings_default first");
  if (!(s->temperature >= 0 && s->temperature <= 100))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "temperature", "%g is not in 0..100", s->temperature);
  if (s->top_k < 0) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "top_k", "%d is negative", (int)s->top_k);
  if (!(s->top_p > 0 && s->top_p <= 1))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "top_p", "%g is not in 0..1", s->top_p);
  if (!(s->min_p >= 0 && s->min_p <= 1))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "min_p", "%g is not in 0..1", s->min_p);
  if (!(s->repetition_penalty > 0 && s->repetition_penalty <= 100))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "repetition_penalty", "%g is not in 0..100", s->repetition_penalty);
  if (s->stop_count > ITG_CHAT_MAX_STOPS)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "stop", "%zu stop texts; at most %d", s->stop_count, ITG_CHAT_MAX_STOPS);
  for (size_t i = 0; i < s->stop_count; i++) {
    const size_t length = strlen(s->stops[i]);
    if (length == 0 || length > ITG_CHAT_MAX_STOP_BYTES || ((uint8_t)s->stops[i][0] & 0xC0) == 0x80)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "stop", "a stop text must have 1 to %d bytes of UTF-8",
               ITG_CHAT_MAX_STOP_BYTES);
  }
  return ITG_OK;
}

static itg_status generate(itg_chat *chat, const itg_chat_message *messages, size_t message_count,
                           const itg_chat_settings *settings, itg_chat_text_function on_text, void *context,
                           itg_diagnostic *diagnostic, itg_chat_statistics *statistics) {
  const itg_language *l = chat->language;
  const double start = seconds_now();
  ITG_TRY(check_settings(settings, diagnostic));
  ITG_TRY(itg_prompt_make(l, messages, message_count, settings, diagnostic, &chat->prompt));
  if (chat->prompt.ids.count > l->capacity)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "messages",
             "the prompt has %zu tokens; the model's context holds %zu: shorten it, or compile with a longer context",
             chat->prompt.ids.count, l->capacity);
  chat->history.count = 0;
  for (size_t i = 0; i < chat->prompt.ids.count; i++)
    ITG_TRY(itg_token_ids_append(&chat->history, chat->prompt.ids.ids[i], diagnostic));
  itg_sampler_seed(&chat->sampler, settings->seed);
  ITG_TRY(prefill(chat, on_text, context, diagnostic, statistics));
  if (statistics->end == ITG_CHAT_CANCELLED) return ITG_OK;
  itg_stream_decoder *spelling = NULL;
  ITG_TRY(itg_stream_decoder_create(l->tokenizer, true, diagnostic, &spelling));
  itg_answer_text answer = {
      .stops = settings->stops, .stop_count = settings->stop_count, .on_text = on_text, .context = context};
  const itg_status status = decode(chat, settings, spelling, &answer, start, diagnostic, statistics);
  itg_stream_decoder_destroy(spelling);
  itg_text_free(&answer.held);
  return status;
}

itg_status itg_chat_generate(itg_chat *chat, const itg_chat_message *messages, size_t message_count,
                             const itg_chat_settings *settings, itg_chat_text_function on_text, void *context,
                             itg_diagnostic *diagnostic, itg_chat_statistics *statistics) {
  itg_chat_statistics own;
  itg_chat_settings defaults;
  itg_chat_settings_default(&defaults);
  if (!statistics) statistics = &own;
  *statistics = (itg_chat_statistics){0};
  chat->answer.count = 0;
  const itg_status status = generate(chat, messages, message_count, settings ? settings : &defaults, on_text, context,
                                     diagnostic, statistics);
  itg_prompt_clear(&chat->prompt);
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) statistics->peak_resident_bytes = (size_t)usage.ru_maxrss * 1024;
  return status;
}
