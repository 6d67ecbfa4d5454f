// What only a device has, on a provider library that is not the vendor's (fake/fake_qnn.h): every call fails once with every code,
// the Nth call of all fails, functions are missing, versions are wrong, memory is shared, clocks are voted for. After each case
// nothing is open any more, no structure was wrong, the message says cause and next step, and the CPU computes as before.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "npu/qnn/codes.h"
#include "npu/qnn/dsp_path.h"
#include "qnn/fake/fake_qnn.h"
#include "server/networks.h"
#include "support/npu_net.h"

enum { INPUTS = 32, ROWS = 4, OUTPUTS = 24, TURNED_BITS = 0x5a };

static const char whole[] = ITG_BINARY_DIR "/tests/fake/whole", alone[] = ITG_BINARY_DIR "/tests/fake/alone",
                  entryless[] = ITG_BINARY_DIR "/tests/fake/entryless";
static const char *const call_texts[] = {
#define FAKE_TEXT(name, text, slot) text,
    FAKE_CALLS(FAKE_TEXT)
#undef FAKE_TEXT
};
static const unsigned code_numbers[] = {
#define ITG_QNN_CODE(number, name, next_step) number,
#include "npu/qnn/codes.def"
#undef ITG_QNN_CODE
    5999, 14000, 65535};

static fake_qnn_state *fake, *fake_alone;
static long (*rpcmem_live)(void);
static void (*rpcmem_refuse)(int refuse);
static itg_graph *legal;
static uint8_t *file;
static size_t file_size;
static itg_model *model;
static uint8_t expected[ROWS * OUTPUTS]; // The CPU's answer.

static void *symbol_of(const char *folder, const char *library, const char *name) {
  char path[700];
  snprintf(path, sizeof path, "%s/%s", folder, library);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = handle ? dlsym(handle, name) : NULL;
  if (!symbol) fail_msg("%s: %s", path, dlerror());
  return symbol;
}

static void reset(fake_qnn_state *state) {
  const uint64_t nonce = state->nonce;
  *state = (fake_qnn_state){
      .core_major = 2, .core_minor = 36, .provider_count = 1, .fail_call = -1, .fail_where = FAKE_IN_PARENT};
  state->nonce = nonce;
}

// A file with the fake library's context in it; another binary at every call.
static itg_status make_file(itg_diagnostic *why) {
  fake->nonce++;
  free(file);
  file = NULL;
  return npu_file(legal, npu_target("qcs6490"), &file, &file_size, NULL, why);
}

static void open_model(void) {
  itg_diagnostic why = {0};
  itg_model_close(model);
  model = NULL;
  if (make_file(&why) != ITG_OK) fail_msg("%s", why.message);
  if (itg_model_open_memory(file, file_size, &why, &model) != ITG_OK) fail_msg("%s", why.message);
}

static itg_session_options npu_options(const char *folder) {
  itg_session_options options;
  itg_session_options_default(&options);
  options.backend = "qnn";
  options.qnn_directory = folder;
  options.thread_count = 1;
  return options;
}

static void fill(uint8_t *codes) {
  for (size_t i = 0; i < ROWS * INPUTS; i++) codes[i] = (uint8_t)(i * 7 + 3);
}

static itg_status run(itg_session *session, uint8_t *out, itg_diagnostic *why) {
  uint8_t codes[ROWS * INPUTS];
  fill(codes);
  ITG_TRY(itg_session_set_input_codes(session, 0, codes, sizeof codes, why));
  ITG_TRY(itg_session_run(session, why));
  return itg_session_get_output_codes(session, 0, out, ROWS * OUTPUTS, why);
}

static void answers_like_the_fake(const uint8_t *out) {
  uint8_t codes[ROWS * INPUTS];
  fill(codes);
  for (size_t i = 0; i < ROWS * OUTPUTS; i++) assert_int_equal(out[i], codes[i] ^ TURNED_BITS);
}

static void cpu_works(void) {
  itg_session *session = npu_session(model, "cpu", NULL);
  uint8_t out[ROWS * OUTPUTS];
  itg_diagnostic why = {0};
  assert_int_equal(run(session, out, &why), ITG_OK);
  assert_memory_equal(out, expected, sizeof out);
  itg_session_destroy(session);
}

static void nothing_is_left(const char *what) {
  if (fake->problem[0]) fail_msg("%s: the library was given something wrong: %s", what, fake->problem);
  if (fake->live != 0) fail_msg("%s: %ld handles were not freed", what, fake->live);
  assert_int_equal(rpcmem_live(), 0);
}

// Opens, runs, proves, closes. The status of the first that fails.
static itg_status whole_life(const itg_session_options *options, itg_diagnostic *why) {
  itg_session *session = NULL;
  uint8_t out[ROWS * OUTPUTS];
  itg_proof proof;
  itg_status status = itg_session_create(model, options, why, &session);
  if (status == ITG_OK) status = run(session, out, why);
  if (status == ITG_OK) answers_like_the_fake(out);
  if (status == ITG_OK) status = itg_session_proof(session, why, &proof);
  itg_session_destroy(session);
  return status;
}

static void a_session_opens_runs_and_leaves_nothing(void **state) {
  (void)state;
  reset(fake);
  open_model();
  const itg_session_options options = npu_options(whole);
  itg_diagnostic why = {0};
  if (whole_life(&options, &why) != ITG_OK) fail_msg("%s", why.message);
  nothing_is_left("a whole life");
  assert_int_equal(fake->calls[FAKE_GRAPH_EXECUTE], 2); // The run and the proof.
  assert_int_equal(fake->child_runs, 1);                // The trial.
  assert_int_equal(fake->calls[FAKE_CONTEXT_CREATE_FROM_BINARY], 1);
  cpu_works();
}

// Calls that have to work; without the others a session goes on.
static bool is_needed(fake_call call) {
  switch (call) {
  case FAKE_BACKEND_CREATE:
  case FAKE_CONTEXT_CREATE_FROM_BINARY:
  case FAKE_GRAPH_RETRIEVE:
  case FAKE_GRAPH_EXECUTE:
  case FAKE_LOG_CREATE:
  case FAKE_PROFILE_CREATE:
  case FAKE_DEVICE_CREATE:
  case FAKE_POWER_CREATE:
  case FAKE_POWER_SET: return true;
  default: return false;
  }
}

static void check_message(const itg_diagnostic *why, fake_call call, unsigned number) {
  char code[32];
  snprintf(code, sizeof code, "(code %u, ", number);
  const itg_qnn_code known = itg_qnn_code_find(number);
  if (!strstr(why->message, call_texts[call]) || !strstr(why->message, code) || !strstr(why->message, known.name) ||
      !strstr(why->message, "the fake library fails in") || !strstr(why->message, known.next_step))
    fail_msg("%s, code %u: the message lacks the call, the code, the library's words or the next step: %s",
             call_texts[call], number, why->message);
}

static void every_call_fails_with_every_code(void **state) {
  (void)state;
  const itg_session_options options = npu_options(whole);
  size_t cases = 0;
  for (fake_call call = 0; call < FAKE_CALL_COUNT; call++) {
    for (size_t i = 0; i < sizeof code_numbers / sizeof code_numbers[0]; i++, cases++) {
      reset(fake);
      fake->fail_call = (int)call;
      fake->fail_code = code_numbers[i];
      itg_diagnostic why = {0};
      const itg_status status = whole_life(&options, &why);
      const itg_status wanted = !is_needed(call)             ? ITG_OK
                                : call == FAKE_GRAPH_EXECUTE ? ITG_ERROR_EXECUTION
                                                             : ITG_ERROR_DEVICE;
      if (status != wanted)
        fail_msg("%s, code %u: status %d, %s", call_texts[call], code_numbers[i], status, why.message);
      if (status != ITG_OK) check_message(&why, call, code_numbers[i]);
      nothing_is_left(call_texts[call]);
    }
    cpu_works();
  }
  print_message("%zu cases\n", cases);
}

// In the child that tries a new context, and in the one that prepares it.
static void every_call_fails_in_the_children(void **state) {
  (void)state;
  const itg_session_options options = npu_options(whole);
  for (fake_call call = 0; call < FAKE_CALL_COUNT; call++) {
    reset(fake);
    open_model(); // A binary that was not tried yet.
    fake->fail_call = (int)call;
    fake->fail_code = 1009;
    fake->fail_where = FAKE_IN_CHILDREN;
    itg_diagnostic why = {0};
    itg_status status = whole_life(&options, &why);
    if (status != ITG_OK) check_message(&why, call, 1009);
    nothing_is_left(call_texts[call]);
    why = (itg_diagnostic){0};
    status = make_file(&why);
    const bool prepares = call == FAKE_CONTEXT_CREATE || call == FAKE_GRAPH_CREATE || call == FAKE_TENSOR_CREATE ||
                          call == FAKE_GRAPH_ADD_NODE || call == FAKE_GRAPH_FINALIZE || call == FAKE_DEVICE_CREATE ||
                          call == FAKE_CONTEXT_GET_BINARY_SIZE || call == FAKE_CONTEXT_GET_BINARY ||
                          call == FAKE_BACKEND_CREATE || call == FAKE_LOG_CREATE;
    if (prepares) {
      assert_int_equal(status, ITG_ERROR_DEVICE);
      check_message(&why, call, 1009);
    } else if (call == FAKE_BACKEND_VALIDATE) {
      assert_int_equal(status, ITG_ERROR_UNSUPPORTED); // No node is left for the NPU.
      assert_non_null(strstr(why.message, "the fake library fails in"));
    } else if (status != ITG_OK) {
      fail_msg("%s: %s", call_texts[call], why.message);
    }
    reset(fake);
    open_model();
    cpu_works();
  }
}

static void the_nth_call_fails(void **state) {
  (void)state;
  const itg_session_options options = npu_options(whole);
  reset(fake);
  open_model();
  itg_diagnostic why = {0};
  assert_int_equal(whole_life(&options, &why), ITG_OK); // The trial, which is remembered.
  int failed = 0;
  long number = 1;
  for (;; number++) {
    reset(fake);
    fake->fail_number = number;
    fake->fail_code = 1007;
    why = (itg_diagnostic){0};
    const itg_status status = whole_life(&options, &why);
    nothing_is_left("the Nth call");
    if (status != ITG_OK) {
      failed++;
      assert_non_null(strstr(why.message, "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION"));
    }
    if (fake->call_count < number) break; // There is no such call any more.
    cpu_works();
  }
  print_message("%ld calls in the life of a session, %d of them must work\n", number - 1, failed);
  assert_true(number > 20 && failed >= 8);
}

static void missing_functions_are_named(void **state) {
  (void)state;
  const itg_session_options options = npu_options(whole);
  for (fake_call call = 0; call < FAKE_POWER_CREATE; call++) {
    if (call == FAKE_DEVICE_CREATE || call == FAKE_DEVICE_FREE) continue; // The fake insists on a device.
    reset(fake);
    fake->missing[call] = true;
    itg_diagnostic why = {0};
    const itg_status status = whole_life(&options, &why);
    // Those that a session does not call, or can do without.
    const bool optional =
        call == FAKE_BACKEND_GET_BUILD_ID || call == FAKE_BACKEND_VALIDATE || call == FAKE_CONTEXT_CREATE ||
        call == FAKE_CONTEXT_GET_BINARY || call == FAKE_CONTEXT_GET_BINARY_SIZE || call == FAKE_GRAPH_CREATE ||
        call == FAKE_GRAPH_ADD_NODE || call == FAKE_GRAPH_FINALIZE || call == FAKE_TENSOR_CREATE ||
        call == FAKE_MEMORY_REGISTER || call == FAKE_MEMORY_DEREGISTER || call == FAKE_DEVICE_GET_INFRASTRUCTURE ||
        call == FAKE_DEVICE_CREATE || call == FAKE_DEVICE_FREE;
    if (optional && status != ITG_OK) fail_msg("without %s: %s", call_texts[call], why.message);
    if (!optional &&
        (status != ITG_ERROR_DEVICE || !strstr(why.message, call_texts[call]) || !strstr(why.message, "--qnn-dir")))
      fail_msg("without %s: status %d, %s", call_texts[call], status, why.message);
    nothing_is_left(call_texts[call]);
  }
  static const fake_call prepared[] = {FAKE_BACKEND_VALIDATE,        FAKE_CONTEXT_CREATE, FAKE_CONTEXT_GET_BINARY,
                                       FAKE_CONTEXT_GET_BINARY_SIZE, FAKE_GRAPH_CREATE,   FAKE_GRAPH_ADD_NODE,
                                       FAKE_GRAPH_FINALIZE,          FAKE_TENSOR_CREATE,  FAKE_CONTEXT_FREE};
  for (size_t i = 0; i < sizeof prepared / sizeof prepared[0]; i++) {
    reset(fake);
    fake->missing[prepared[i]] = true;
    itg_diagnostic why = {0};
    assert_int_equal(make_file(&why), ITG_ERROR_DEVICE);
    assert_non_null(strstr(why.message, call_texts[prepared[i]]));
  }
  reset(fake);
  open_model();
  cpu_works();
}

static void wrong_libraries_are_refused(void **state) {
  (void)state;
  static const struct {
    uint32_t major, minor, providers;
    itg_status status;
    const char *words;
  } cases[] = {{1, 99, 1, ITG_ERROR_VERSION, "core API is 1.99"},
               {2, 21, 1, ITG_ERROR_VERSION, "2.22 (QAIRT 2.29)"},
               {3, 0, 1, ITG_ERROR_VERSION, "core API is 3.0"},
               {2, 36, 0, ITG_ERROR_DEVICE, "no interface"},
               {2, 22, 1, ITG_ERROR_VERSION, "--qnn-dir"}, // Older than the one that made the context.
               {2, 99, 1, ITG_OK, ""}};
  const itg_session_options options = npu_options(whole);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    reset(fake);
    fake->core_major = cases[i].major;
    fake->core_minor = cases[i].minor;
    fake->provider_count = cases[i].providers;
    itg_diagnostic why = {0};
    const itg_status status = whole_life(&options, &why);
    if (status != cases[i].status || !strstr(why.message, cases[i].words))
      fail_msg("case %zu: status %d, %s", i, status, why.message);
    nothing_is_left(cases[i].words);
    cpu_works();
  }
  const itg_session_options without_entry = npu_options(entryless), nowhere = npu_options("/nonexistent");
  itg_diagnostic why = {0};
  assert_int_equal(whole_life(&without_entry, &why), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "QnnInterface_getProviders is missing"));
  assert_int_equal(whole_life(&nowhere, &why), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "--qnn-dir"));
  cpu_works();
}

static void a_crash_or_hang_in_a_run_is_noticed_in_the_trial(void **state) {
  (void)state;
  const itg_session_options options = npu_options(whole);
  reset(fake);
  open_model();
  fake->run_in_children = FAKE_CRASHES;
  itg_diagnostic why = {0};
  assert_int_equal(whole_life(&options, &why), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "crashed"));
  nothing_is_left("a crash");
  cpu_works();
  fake->run_in_children = FAKE_HANGS; // A simulator may only be slow.
  if (whole_life(&options, &why) != ITG_OK) fail_msg("%s", why.message);
  assert_int_equal(fake->child_runs, 2);
  nothing_is_left("a hang");
}

static void buffers_are_shared_where_there_is_such_memory(void **state) {
  (void)state;
  itg_diagnostic why = {0};
  const itg_session_options options = npu_options(whole);
  reset(fake);
  fake->is_hardware = true;
  itg_session *session = NULL;
  assert_int_equal(itg_session_create(model, &options, &why, &session), ITG_OK);
  assert_int_equal(rpcmem_live(), 2); // An input and an output.
  assert_int_equal(fake->calls[FAKE_MEMORY_REGISTER], 2);
  uint8_t out[ROWS * OUTPUTS];
  assert_int_equal(run(session, out, &why), ITG_OK);
  answers_like_the_fake(out);
  assert_int_equal(fake->shared_runs, 1);
  itg_proof proof;
  assert_int_equal(itg_session_proof(session, &why, &proof), ITG_OK);
  assert_true(proof.on_device);
  assert_non_null(strstr(proof.sentence, "HTP v68"));
  assert_non_null(strstr(proof.sentence, "2 of 2 buffers shared with it, performance mode balanced"));
  itg_session_destroy(session);
  assert_int_equal(fake->calls[FAKE_MEMORY_DEREGISTER], 2);
  nothing_is_left("shared buffers");

  reset(fake);
  rpcmem_refuse(1); // The heap is empty.
  assert_int_equal(whole_life(&options, &why), ITG_OK);
  rpcmem_refuse(0);
  assert_int_equal(fake->calls[FAKE_MEMORY_REGISTER], 0);
  assert_int_equal(fake->shared_runs, 0);
  nothing_is_left("no shared memory");

  reset(fake); // The caller's memory is used as it is.
  size_t size = 0;
  itg_session_options own = options;
  assert_int_equal(itg_session_workspace_size(model, &options, &why, &size), ITG_OK);
  own.workspace = aligned_alloc(64, size);
  own.workspace_size = size;
  assert_int_equal(whole_life(&own, &why), ITG_OK);
  assert_int_equal(fake->calls[FAKE_MEMORY_REGISTER], 0);
  free(own.workspace);
  nothing_is_left("a workspace");
}

static void clocks_are_voted_for_while_a_session_is_open(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t corner, scaling;
    long polling;
  } modes[] = {{NULL, 0x70, 1, -1},       {"burst", 0xa0, 0, 9999},     {"high", 0x80, 0, 9999},
               {"balanced", 0x70, 1, -1}, {"power-saver", 0x40, 1, -1}, {"low-power", 0x30, 1, -1}};
  itg_diagnostic why = {0};
  itg_session *session = NULL;
  itg_session_options options = npu_options(whole);
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    reset(fake);
    options.npu_performance = modes[i].name;
    assert_int_equal(itg_session_create(model, &options, &why, &session), ITG_OK);
    assert_int_equal(fake->vote.corner, modes[i].corner);
    assert_int_equal(fake->vote.scaling, modes[i].scaling);
    assert_int_equal(fake->vote.polling, modes[i].polling);
    assert_int_equal(fake->calls[FAKE_POWER_CREATE], 1);
    itg_session_destroy(session);
    assert_int_equal(fake->calls[FAKE_POWER_DESTROY], 1);
    nothing_is_left("a vote");
  }
  reset(fake);
  options.npu_performance = "default";
  assert_int_equal(whole_life(&options, &why), ITG_OK);
  assert_int_equal(fake->calls[FAKE_POWER_CREATE], 0);
  options.npu_performance = "warp";
  assert_int_equal(whole_life(&options, &why), ITG_ERROR_ARGUMENT);
  assert_non_null(strstr(why.message, "power-saver"));
}

typedef struct worker {
  pthread_t thread;
  bool good;
} worker;

static void *work(void *context) {
  worker *self = context;
  const itg_session_options options = npu_options(whole);
  self->good = true;
  for (int life = 0; life < 5; life++) {
    itg_session *session = NULL;
    uint8_t out[ROWS * OUTPUTS];
    self->good = self->good && itg_session_create(model, &options, NULL, &session) == ITG_OK;
    for (int i = 0; i < 20 && session; i++) self->good = self->good && run(session, out, NULL) == ITG_OK;
    itg_session_destroy(session);
  }
  return NULL;
}

// The fake complains when it is called while another call is in progress.
static void sessions_of_many_threads_share_a_device(void **state) {
  (void)state;
  enum { THREADS = 4 };
  reset(fake);
  worker workers[THREADS];
  itg_session *keeper = NULL;
  itg_diagnostic why = {0};
  const itg_session_options options = npu_options(whole);
  assert_int_equal(itg_session_create(model, &options, &why, &keeper), ITG_OK);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_true(workers[i].good);
  }
  itg_session_destroy(keeper);
  assert_int_equal(fake->calls[FAKE_BACKEND_CREATE], 1);
  assert_int_equal(fake->calls[FAKE_GRAPH_EXECUTE], THREADS * 5 * 20);
  nothing_is_left("many threads");
}

// The service's part: the run that fails is answered by the CPU, as are those after it, and the report says why.
static void a_network_moves_to_the_cpu_when_a_run_fails(void **state) {
  (void)state;
  char folder[] = "/tmp/itg-fake-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  reset(fake);
  open_model();
  snprintf(path, sizeof path, "%s/model.itg", folder);
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  assert_int_equal(fwrite(file, 1, file_size, out), file_size);
  assert_int_equal(fclose(out), 0);
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  const itg_network_options options = {
      .backend = "qnn", .qnn_directory = whole, .npu_performance = "burst", .thread_count = 1};
  itg_networks networks = {.options = &options, .lock = &lock};
  const itg_network_source source = itg_networks_source(&networks);
  itg_network network;
  itg_diagnostic why = {0};
  if (source.open(source.context, folder, "model", NULL, 0, &why, &network) != ITG_OK) fail_msg("%s", why.message);
  assert_int_equal(networks.reports[0].place, ITG_PLACE_SIMULATED);
  assert_int_equal(fake->vote.corner, 0xa0);

  itg_session *session = npu_session(model, "cpu", NULL);
  float in[ROWS * INPUTS], wanted[ROWS * OUTPUTS], got[ROWS * OUTPUTS];
  const float *ins[] = {in};
  float *outs[] = {got};
  for (size_t i = 0; i < ROWS * INPUTS; i++) in[i] = (float)(i % 11) / 4 - 1;
  assert_int_equal(itg_session_set_input(session, 0, in, ROWS * INPUTS, &why), ITG_OK);
  assert_int_equal(itg_session_run(session, &why), ITG_OK);
  assert_int_equal(itg_session_get_output(session, 0, wanted, ROWS * OUTPUTS, &why), ITG_OK);
  itg_session_destroy(session);

  assert_int_equal(network.run(network.context, ins, outs, &why),
                   ITG_OK); // On the fake, which computes something else.
  assert_memory_not_equal(got, wanted, sizeof got);
  fake->fail_call = FAKE_GRAPH_EXECUTE;
  fake->fail_code = 1011;
  for (int i = 0; i < 2; i++) {
    memset(got, 0, sizeof got);
    if (network.run(network.context, ins, outs, &why) != ITG_OK) fail_msg("%s", why.message);
    assert_memory_equal(got, wanted, sizeof got);
  }
  assert_int_equal(networks.reports[0].place, ITG_PLACE_CPU);
  assert_non_null(strstr(networks.reports[0].reason, "moved from the NPU after a failed run"));
  assert_non_null(strstr(networks.reports[0].reason, "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL"));
  nothing_is_left("a network that moved"); // The NPU's session was closed.
  source.close(source.context, &network);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(folder), 0);
}

static void a_board_without_fastrpc_memory_works(void **state) {
  (void)state;
  reset(fake_alone);
  reset(fake);
  itg_diagnostic why = {0};
  const itg_session_options options = npu_options(alone);
  // In a child: once libcdsprpc is open it stays, and this process has it.
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    itg_session *session = NULL;
    uint8_t out[ROWS * OUTPUTS];
    const bool good = itg_session_create(model, &options, &why, &session) == ITG_OK &&
                      run(session, out, &why) == ITG_OK && fake_alone->shared_runs == 0 && !fake_alone->problem[0];
    _exit(good ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void a_closed_node_is_told_from_other_causes(void **state) {
  (void)state;
  char root[] = "/tmp/itg-node-XXXXXX", path[128], found[64] = "";
  assert_non_null(mkdtemp(root));
  assert_int_equal(chmod(root, 0755), 0);
  assert_false(itg_qnn_closed_node(root, found, sizeof found));
  snprintf(path, sizeof path, "%s/dev", root);
  assert_int_equal(mkdir(path, 0755), 0);
  snprintf(path, sizeof path, "%s/dev/fastrpc-cdsp", root);
  FILE *node = fopen(path, "w");
  assert_non_null(node);
  fclose(node);
  assert_int_equal(chmod(path, 0600), 0);
  fflush(NULL);
  const pid_t child = fork(); // Whoever may do anything may open it.
  if (child == 0) {
    enum { NOBODY = 65534 };
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) _exit(2);
    if (geteuid() != NOBODY && chmod(path, 0) != 0) _exit(3);
    _exit(itg_qnn_closed_node(root, found, sizeof found) && strcmp(found, "/dev/fastrpc-cdsp") == 0 ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  snprintf(path, sizeof path, "rm -rf '%s'", root);
  assert_int_equal(system(path), 0);
}

static void the_dsp_finds_its_skeleton(void **state) {
  (void)state;
  char root[] = "/tmp/itg-dsp-XXXXXX", command[512], library[128], text[1024], wanted[512];
  assert_non_null(mkdtemp(root));
  snprintf(library, sizeof library, "%s/qnn/libQnnHtp.so", root);
  assert_false(itg_qnn_dsp_path(root, library, text, sizeof text));
  snprintf(command, sizeof command,
           "mkdir -p %s/qnn %s/usr/lib/dsp/cdsp %s/usr/share/qcom/qcs6490/radxa/q6a/dsp/cdsp && touch "
           "%s/qnn/libQnnHtpV68Skel.so",
           root, root, root, root);
  assert_int_equal(system(command), 0);
  assert_true(itg_qnn_dsp_path(root, library, text, sizeof text));
  snprintf(wanted, sizeof wanted,
           "%s/qnn;%s/usr/lib/dsp/cdsp;%s/usr/lib/dsp;%s/usr/share/qcom/qcs6490/radxa/q6a/dsp/cdsp", root, root, root,
           root);
  assert_string_equal(text, wanted);

  unsetenv("ADSP_LIBRARY_PATH");
  itg_qnn_set_dsp_path(library);
  assert_int_equal(strncmp(getenv("ADSP_LIBRARY_PATH"), root, strlen(root)), 0);
  setenv("ADSP_LIBRARY_PATH", "mine", 1); // The user's own stays.
  itg_qnn_set_dsp_path(library);
  assert_string_equal(getenv("ADSP_LIBRARY_PATH"), "mine");
  unsetenv("ADSP_LIBRARY_PATH");
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  assert_int_equal(system(command), 0);
}

int main(void) {
  setenv("INTAGLIO_QNN_DIR", whole, 1);
  fake_qnn_function get;
  void *symbols[] = {symbol_of(whole, "libQnnHtp.so", "fake_qnn"), symbol_of(alone, "libQnnHtp.so", "fake_qnn"),
                     symbol_of(whole, "libcdsprpc.so", "fake_rpcmem_live"),
                     symbol_of(whole, "libcdsprpc.so", "fake_rpcmem_refuse")};
  memcpy(&get, &symbols[0], sizeof get);
  fake = get();
  memcpy(&get, &symbols[1], sizeof get);
  fake_alone = get();
  memcpy(&rpcmem_live, &symbols[2], sizeof rpcmem_live);
  memcpy(&rpcmem_refuse, &symbols[3], sizeof rpcmem_refuse);

  legal = npu_linear(ROWS, INPUTS, OUTPUTS);
  open_model();
  itg_session *session = npu_session(model, "cpu", NULL);
  itg_diagnostic why = {0};
  assert_int_equal(run(session, expected, &why), ITG_OK);
  itg_session_destroy(session);

  const struct CMUnitTest tests[] = {cmocka_unit_test(a_session_opens_runs_and_leaves_nothing),
                                     cmocka_unit_test(every_call_fails_with_every_code),
                                     cmocka_unit_test(every_call_fails_in_the_children),
                                     cmocka_unit_test(the_nth_call_fails),
                                     cmocka_unit_test(missing_functions_are_named),
                                     cmocka_unit_test(wrong_libraries_are_refused),
                                     cmocka_unit_test(a_crash_or_hang_in_a_run_is_noticed_in_the_trial),
                                     cmocka_unit_test(buffers_are_shared_where_there_is_such_memory),
                                     cmocka_unit_test(clocks_are_voted_for_while_a_session_is_open),
                                     cmocka_unit_test(sessions_of_many_threads_share_a_device),
                                     cmocka_unit_test(a_network_moves_to_the_cpu_when_a_run_fails),
                                     cmocka_unit_test(a_board_without_fastrpc_memory_works),
                                     cmocka_unit_test(a_closed_node_is_told_from_other_causes),
                                     cmocka_unit_test(the_dsp_finds_its_skeleton)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  itg_model_close(model);
  itg_graph_destroy(legal);
  free(file);
  return failed;
}
