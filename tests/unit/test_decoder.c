// Graphs with states: float blocks against whole sequences, sessions over blocks of any size, rewinding, limits.
#include "support/decoder_graph.h"

#include "graph/print.h"

static itg_graph *legal;
static uint8_t *bytes;
static size_t size;
static itg_model *model;

static int compile(void **state) {
  (void)state;
  legal = decoder_compile("a16w8");
  itg_diagnostic why = {0};
  if (itg_container_encode(legal, NULL, 0, &why, &bytes, &size) != ITG_OK ||
      itg_model_open_memory(bytes, size, &why, &model) != ITG_OK) {
    print_error("%s: %s\n", why.subject, why.message);
    return 1;
  }
  return 0;
}

static int clean(void **state) {
  (void)state;
  itg_model_close(model);
  free(bytes);
  itg_graph_destroy(legal);
  return 0;
}

// ---- float ----

// Logits of positions [0, count) in blocks of `block`.
static void run_float(int64_t block, size_t count, float *logits) {
  itg_graph *graph = decoder_graph(block, DECODER_CONTEXT);
  itg_interpreter *interpreter;
  itg_interpreter_state *state;
  itg_diagnostic why = {0};
  assert_int_equal(itg_interpreter_create(graph, &why, &interpreter), ITG_OK);
  assert_int_equal(itg_interpreter_state_create(interpreter, &why, &state), ITG_OK);
  void *inputs[16] = {0};
  for (int32_t i = 0; i < graph->input_count; i++) {
    size_t needed;
    assert_true(itg_shape_bytes(&graph->inputs[i]->shape, graph->inputs[i]->dtype, &needed));
    inputs[i] = calloc(1, needed);
  }
  for (size_t first = 0; first < count; first += (size_t)block) {
    decoder_fill(7, first, (size_t)block, inputs);
    void *out = logits + first * DECODER_VOCABULARY;
    assert_int_equal(itg_interpreter_run(state, (const void *const *)inputs, &out, NULL, NULL, &why), ITG_OK);
  }
  // A block that does not fit any more is refused, not written.
  *(int32_t *)inputs[3] = DECODER_CONTEXT - (int32_t)block + 1;
  assert_int_equal(itg_interpreter_run(state, (const void *const *)inputs, NULL, NULL, NULL, &why), ITG_ERROR_ARGUMENT);
  for (int32_t i = 0; i < graph->input_count; i++) free(inputs[i]);
  itg_interpreter_state_destroy(state);
  itg_interpreter_destroy(interpreter);
  itg_graph_destroy(graph);
}

static void float_blocks_equal_the_whole_sequence(void **state) {
  (void)state;
  static float whole[64 * DECODER_VOCABULARY], blocks[64 * DECODER_VOCABULARY];
  run_float(64, 64, whole);
  const int64_t sizes[] = {1, 4, 16, 32};
  for (int s = 0; s < 4; s++) {
    run_float(sizes[s], 64, blocks);
    for (size_t i = 0; i < 64 * DECODER_VOCABULARY; i++) assert_true(fabsf(whole[i] - blocks[i]) < 1e-4f);
  }
}

// ---- integer ----

static itg_session *open_session(const char *cpu, int threads) {
  itg_session_options options;
  itg_session_options_default(&options);
  options.cpu = cpu;
  options.thread_count = threads;
  itg_session *session = NULL;
  itg_diagnostic why = {0};
  if (itg_session_create(model, &options, &why, &session) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  return session;
}

// Runs `rows` positions of sample `seed` from where the session is.
static void run_rows(itg_session *session, uint64_t seed, size_t rows, itg_block_outputs outputs, uint16_t *logits) {
  float embeddings[DECODER_BLOCK * DECODER_HIDDEN];
  int32_t tables[2][DECODER_BLOCK * DECODER_DIM / 2];
  const size_t first = itg_session_position(session);
  itg_diagnostic why = {0};
  assert_int_equal(itg_session_set_block(session, rows, outputs, &why), ITG_OK);
  for (size_t r = 0; r < rows; r++) {
    float angles[2][DECODER_DIM / 2];
    decoder_embedding(seed, first + r, embeddings + r * DECODER_HIDDEN);
    decoder_angles(first + r, angles[0], angles[1]);
    for (int t = 0; t < 2; t++) {
      for (size_t i = 0; i < DECODER_DIM / 2; i++)
        tables[t][r * DECODER_DIM / 2 + i] = (int32_t)lround((double)angles[t][i] * 0x1p30);
    }
  }
  if (itg_session_set_input(session, 0, embeddings, rows * DECODER_HIDDEN, &why) != ITG_OK) fail_msg("%s", why.message);
  for (size_t t = 0; t < 2; t++)
    assert_int_equal(itg_session_set_input_codes(session, 1 + t, tables[t], rows * DECODER_DIM / 2 * 4, &why), ITG_OK);
  if (itg_session_run(session, &why) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  assert_int_equal(itg_session_position(session), first + rows);
  const size_t kept = outputs == ITG_BLOCK_ALL_ROWS ? rows : outputs == ITG_BLOCK_LAST_ROW;
  if (kept)
    assert_int_equal(itg_session_get_output_codes(session, 0, logits, kept * DECODER_VOCABULARY * 2, &why), ITG_OK);
}

static void run_all(itg_session *session, uint64_t seed, const size_t *rows, uint16_t *logits) {
  for (size_t i = 0; rows[i]; i++) {
    run_rows(session, seed, rows[i], ITG_BLOCK_ALL_ROWS, logits);
    logits += rows[i] * DECODER_VOCABULARY;
  }
}

static void blocks_of_any_size_give_the_same_codes(void **state) {
  (void)state;
  static uint16_t whole[64 * DECODER_VOCABULARY], parts[64 * DECODER_VOCABULARY];
  static const size_t sixteens[] = {16, 16, 16, 16, 0}, mixed[] = {5, 16, 1, 1, 9, 3, 16, 2, 11, 0};
  itg_session *session = open_session("reference", 1);
  assert_int_equal(itg_session_block(session), DECODER_BLOCK);
  assert_int_equal(itg_session_capacity(session), DECODER_CONTEXT);
  run_all(session, 3, sixteens, whole);
  itg_session_destroy(session);
  static const char *const cpus[] = {"reference", "avx2", "avxvnni", "avx512vnni", NULL};
  for (int cpu = 0; cpu < 5; cpu++) {
    for (int threads = 1; threads < 4; threads += 2) {
      session = open_session(cpus[cpu], threads);
      run_all(session, 3, mixed, parts);
      assert_memory_equal(whole, parts, sizeof whole);
      assert_int_equal(itg_session_rewind(session, 0, NULL), ITG_OK);
      run_all(session, 3, sixteens, parts);
      assert_memory_equal(whole, parts, sizeof whole);
      itg_session_destroy(session);
    }
  }
}

static void the_last_row_alone_is_the_same(void **state) {
  (void)state;
  uint16_t all[16 * DECODER_VOCABULARY], last[DECODER_VOCABULARY];
  itg_session *session = open_session(NULL, 1);
  run_rows(session, 5, 16, ITG_BLOCK_NO_OUTPUTS, NULL);
  run_rows(session, 5, 13, ITG_BLOCK_ALL_ROWS, all);
  assert_int_equal(itg_session_rewind(session, 16, NULL), ITG_OK);
  run_rows(session, 5, 13, ITG_BLOCK_LAST_ROW, last);
  assert_memory_equal(all + 12 * DECODER_VOCABULARY, last, sizeof last);
  itg_session_destroy(session);
}

static void rewinding_forgets(void **state) {
  (void)state;
  uint16_t first[DECODER_VOCABULARY], again[DECODER_VOCABULARY];
  itg_session *session = open_session(NULL, 1);
  run_rows(session, 8, 10, ITG_BLOCK_NO_OUTPUTS, NULL);
  run_rows(session, 8, 1, ITG_BLOCK_LAST_ROW, first);
  assert_int_equal(itg_session_rewind(session, 10, NULL), ITG_OK);
  run_rows(session, 9, 12, ITG_BLOCK_NO_OUTPUTS, NULL); // Another continuation.
  assert_int_equal(itg_session_rewind(session, 10, NULL), ITG_OK);
  run_rows(session, 8, 1, ITG_BLOCK_LAST_ROW, again);
  assert_memory_equal(first, again, sizeof first);
  assert_int_equal(itg_session_rewind(session, 12, NULL), ITG_ERROR_ARGUMENT);
  itg_session_destroy(session);
}

static void limits_are_errors(void **state) {
  (void)state;
  itg_session *session = open_session(NULL, 1);
  assert_int_equal(itg_session_set_block(session, 0, ITG_BLOCK_ALL_ROWS, NULL), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_session_set_block(session, 17, ITG_BLOCK_ALL_ROWS, NULL), ITG_ERROR_ARGUMENT);
  for (int i = 0; i < 3; i++) run_rows(session, 1, 16, ITG_BLOCK_NO_OUTPUTS, NULL);
  run_rows(session, 1, 10, ITG_BLOCK_NO_OUTPUTS, NULL);
  assert_int_equal(itg_session_set_block(session, 7, ITG_BLOCK_ALL_ROWS, NULL), ITG_ERROR_LIMIT);
  run_rows(session, 1, 6, ITG_BLOCK_NO_OUTPUTS, NULL);
  assert_int_equal(itg_session_set_block(session, 1, ITG_BLOCK_ALL_ROWS, NULL), ITG_ERROR_LIMIT);
  itg_session_destroy(session);
}

static void integers_follow_the_float_decoder(void **state) {
  (void)state;
  static float real[64 * DECODER_VOCABULARY];
  static uint16_t codes[64 * DECODER_VOCABULARY];
  static const size_t sixteens[] = {16, 16, 16, 16, 0};
  run_float(16, 64, real);
  itg_session *session = open_session(NULL, 2);
  run_all(session, 7, sixteens, codes);
  itg_session_destroy(session);
  const itg_tensor_info *info = itg_model_output(model, 0);
  double signal = 0, noise = 0;
  for (size_t i = 0; i < 64 * DECODER_VOCABULARY; i++) {
    const double value = info->scale * (codes[i] - info->zero_point), error = value - (double)real[i];
    signal += (double)real[i] * (double)real[i];
    noise += error * error;
  }
  print_message("SQNR of the logits %.1f dB\n", 10 * log10(signal / noise));
  assert_true(signal > 1500 * noise); // 31.8 dB; keys and values have 8 bits.
}

static void caches_belong_to_attention_alone(void **state) {
  (void)state;
  itg_graph *graph = decoder_graph(4, 16);
  assert_int_equal(itg_graph_verify(graph, ITG_STAGE_CANONICAL, NULL), ITG_OK);
  itg_tensor *cache = itg_graph_find(graph, "k_cache.0");
  assert_true(itg_tensor_is_state(cache));
  assert_false(itg_tensor_is_state(graph->inputs[0]));
  itg_tensor *copy = NET_NODE(graph, ITG_OP_IDENTITY, net_no_attributes, NULL, cache);
  assert_true(itg_graph_add_output(graph, copy));
  assert_int_equal(itg_graph_verify(graph, ITG_STAGE_CANONICAL, NULL), ITG_ERROR_FORMAT);
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(float_blocks_equal_the_whole_sequence),
      cmocka_unit_test(blocks_of_any_size_give_the_same_codes),
      cmocka_unit_test(the_last_row_alone_is_the_same),
      cmocka_unit_test(rewinding_forgets),
      cmocka_unit_test(limits_are_errors),
      cmocka_unit_test(integers_follow_the_float_decoder),
      cmocka_unit_test(caches_belong_to_attention_alone),
  };
  return cmocka_run_group_tests(tests, compile, clean);
}
