// The kernel test harness (after the idea of dav1d's checkasm): every kernel of the table against the reference, bit for
// bit, on buffers that end at a page that may not be touched.
//
// Activations get ITG_KERNEL_SLACK readable bytes of noise behind them, constants and outputs nothing. Every case runs in
// one go and once more cut into random ranges of units in random order. ITG_KERNEL_VECTORS sets the number of output
// vectors (pixels, rows) an operation; ITG_KERNEL_SEED the seed.
#ifndef ITG_TESTS_KERNELS_KERNEL_HARNESS_H
#define ITG_TESTS_KERNELS_KERNEL_HARNESS_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "kernels/kernels.h"
#include "tensor/multiplier.h"

enum { MAX_BUFFERS = 24, MARGIN = 256 };

// ---- random numbers (xorshift64*; the same sequence on every machine) ----
typedef struct {
  uint64_t state, seed;
  int64_t index; // The case, for messages.
} harness_random;

static inline uint64_t random_bits(harness_random *r) {
  r->state ^= r->state >> 12;
  r->state ^= r->state << 25;
  r->state ^= r->state >> 27;
  return r->state * UINT64_C(2685821657736338717);
}
// low .. high, both included.
static inline int64_t random_between(harness_random *r, int64_t low, int64_t high) {
  return (int64_t)((uint64_t)low + (random_bits(r) >> 11) % ((uint64_t)high - (uint64_t)low + 1));
}
static inline bool random_chance(harness_random *r, int one_in) { return random_between(r, 1, one_in) == 1; }

static inline uint64_t harness_seed(void) {
  const char *text = getenv("ITG_KERNEL_SEED");
  return text ? strtoull(text, NULL, 0) : 20240607;
}
static inline void random_start(harness_random *r, int64_t index) {
  r->seed = harness_seed();
  r->index = index;
  r->state = (r->seed + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ ((uint64_t)index + 1) * UINT64_C(0xD1B54A32D192ED03);
  if (!r->state) r->state = 1;
  for (int i = 0; i < 4; i++) random_bits(r);
}
static inline int64_t harness_vectors(int64_t usual) {
  const char *text = getenv("ITG_KERNEL_VECTORS");
  return text ? strtoll(text, NULL, 0) : usual;
}

// ---- guarded memory ----
typedef struct {
  uint8_t *base;
  size_t bytes;     // Without the guard page.
  uint8_t *data;    // The buffer of the current case.
  size_t data_size; // Without slack.
} guarded;

// A buffer of `size` bytes whose last readable byte is `slack` bytes behind it; contents undefined.
static inline uint8_t *guarded_place(guarded *g, size_t size, size_t slack, size_t alignment) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t needed = (size + slack + MARGIN + alignment + page - 1) / page * page;
  if (needed > g->bytes) {
    if (g->base) munmap(g->base, g->bytes + page);
    g->bytes = needed * 2;
    g->base = mmap(NULL, g->bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g->base != MAP_FAILED);
    assert_int_equal(mprotect(g->base + g->bytes, page, PROT_NONE), 0);
  }
  const uintptr_t end = (uintptr_t)(g->base + g->bytes) - size - slack;
  g->data = (uint8_t *)(end / alignment * alignment);
  g->data_size = size;
  return g->data;
}

static inline void random_fill(harness_random *r, void *data, size_t bytes) {
  uint8_t *to = data;
  for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)(random_bits(r) >> 32);
}

// ---- a case ----
typedef struct {
  itg_task task;
  int32_t input_count, output_count;
  guarded inputs[MAX_BUFFERS], constants[MAX_BUFFERS], outputs[2], packed, scratch;
  size_t output_bytes[2];
  size_t constant_count;
  // Inputs that kernels write (caches): what they are before a call, and after the reference's.
  int32_t change_count, changes[2];
  uint8_t *before[2], *after[2];
  uint8_t *expected[2];
  uint32_t isa_mask;
  int64_t tried[ITG_ISA_COUNT]; // Cases an instruction set had a kernel for.
} harness;

static inline int32_t code_bytes(int32_t type) {
  return type == ITG_TASK_U16 ? 2 : type == ITG_TASK_S32 ? 4 : type == ITG_TASK_S64 ? 8 : 1;
}
static inline int32_t code_limit(int32_t type) { return type == ITG_TASK_U16 ? 65535 : 255; }

static inline void harness_start(harness *h) {
  h->input_count = h->output_count = h->change_count = 0;
  h->constant_count = 0;
  memset(&h->task, 0, sizeof h->task);
  assert_true(itg_isa_detect(NULL, &h->isa_mask));
}

// A constant of `bytes` bytes, ending exactly at the guard page.
static inline void *harness_constant(harness *h, size_t bytes, size_t alignment) {
  assert_true(h->constant_count < MAX_BUFFERS);
  return guarded_place(&h->constants[h->constant_count++], bytes, 0, alignment);
}

// Codes: noise, all lowest, all highest, all the zero point, or noise of extremes.
static inline void random_codes(harness_random *r, void *data, size_t count, int32_t type, int32_t zero) {
  const int64_t kind = random_between(r, 0, 9);
  for (size_t i = 0; i < count; i++) {
    int64_t code = random_between(r, 0, code_limit(type));
    if (kind == 0) code = 0;
    if (kind == 1) code = code_limit(type);
    if (kind == 2) code = zero;
    if (kind == 3) code = code & 1 ? 0 : code_limit(type);
    if (type == ITG_TASK_U16) {
      ((uint16_t *)data)[i] = (uint16_t)code;
    } else {
      ((uint8_t *)data)[i] = (uint8_t)code;
    }
  }
}

// An activation with slack of noise.
static inline void *harness_input(harness *h, harness_random *r, size_t count, int32_t type, int32_t zero) {
  const size_t bytes = count * (size_t)code_bytes(type);
  uint8_t *data = guarded_place(&h->inputs[h->input_count++], bytes, ITG_KERNEL_SLACK, (size_t)code_bytes(type));
  random_codes(r, data, count, type, zero);
  random_fill(r, data + bytes, ITG_KERNEL_SLACK);
  return data;
}

// Input `index` is a state: kernels change it, all in the same way.
static inline void harness_changes(harness *h, int32_t index) {
  const guarded *g = &h->inputs[index];
  const int32_t i = h->change_count++;
  h->changes[i] = index;
  h->before[i] = malloc(g->data_size);
  h->after[i] = malloc(g->data_size);
  assert_true(h->before[i] && h->after[i]);
  memcpy(h->before[i], g->data, g->data_size);
}

static inline void harness_output(harness *h, size_t count, int32_t type) {
  h->output_bytes[h->output_count++] = count * (size_t)code_bytes(type);
}

static inline int32_t random_zero(harness_random *r, int32_t type) {
  const int64_t kind = random_between(r, 0, 5);
  const int32_t limit = code_limit(type);
  return kind == 0 ? 0 : kind == 1 ? limit : kind == 2 ? (limit + 1) / 2 : (int32_t)random_between(r, 0, limit);
}

static inline void random_range(harness_random *r, int32_t type, int32_t *low, int32_t *high) {
  *low = 0;
  *high = code_limit(type);
  if (random_chance(r, 3)) {
    *low = (int32_t)random_between(r, 0, *high);
    *high = (int32_t)random_between(r, *low, *high);
  }
}

// A multiplier by the rules (normalised, or 0) and a shift: around `usual`, anything, or an end of the range.
static inline void random_factor(harness_random *r, int32_t usual, int32_t lowest, bool negative, int32_t *multiplier,
                                 int32_t *shift) {
  const int64_t magnitude = random_chance(r, 8) ? (random_chance(r, 2) ? INT64_C(1) << 30 : INT32_MAX)
                                                : random_between(r, INT64_C(1) << 30, INT32_MAX);
  *multiplier = (int32_t)(negative && random_chance(r, 3) ? -magnitude : magnitude);
  int64_t s = usual + random_between(r, -2, 2);
  if (random_chance(r, 8)) s = random_between(r, 1, 62);
  if (random_chance(r, 16)) s = random_chance(r, 2) ? 1 : 62;
  *shift = (int32_t)(s < lowest ? lowest : s > 62 ? 62 : s);
  if (random_chance(r, 30)) {
    *multiplier = 0;
    *shift = 62;
  }
}

static inline size_t task_units(const itg_kernel *k, const itg_task *task) { return k->units ? k->units(task) : 1; }

static inline void harness_describe(const harness *h, const harness_random *r, const itg_kernel *k) {
  print_error("%s: case %" PRId64 ", ITG_KERNEL_SEED=%" PRIu64 "\n", k->name, r->index, r->seed);
  const itg_conv_task *c = &h->task.conv;
  if (h->task.op == ITG_OP_Q_CONV || h->task.op == ITG_OP_Q_CONV_TRANSPOSE || h->task.op == ITG_OP_Q_FULLY_CONNECTED)
    print_error(
        "  [%d,%d,%d,%d] -> [%d,%d,%d] kernel %dx%d stride %dx%d dilation %dx%d pad %d,%d group %d types %d -> %d "
        "zero %d -> %d clamp %d..%d wide %d pre_shift %d bound %" PRId64 " two-sided %d\n",
        c->batch, c->in_h, c->in_w, c->in_c, c->out_h, c->out_w, c->out_c, c->kernel_h, c->kernel_w, c->stride_h,
        c->stride_w, c->dilation_h, c->dilation_w, c->pad_top, c->pad_left, c->group, c->in_type, c->out_type,
        c->in_zero, c->out_zero, c->low, c->high, c->wide, c->pre_shift, c->bound, c->negative_multiplier != NULL);
}

// Runs kernel `k` over all units: in one go (`split` false) or in random ranges in random order.
static inline void harness_run(harness *h, harness_random *r, const itg_kernel *k, const itg_kernel_call *call,
                               bool split) {
  const size_t units = task_units(k, &h->task);
  if (!split) {
    k->run(&h->task, call, 0, units);
    return;
  }
  enum { MAX_RANGES = 16 };
  size_t cut[MAX_RANGES + 1], order[MAX_RANGES] = {0};
  const size_t ranges = units < 2 ? 1 : (size_t)random_between(r, 2, units < MAX_RANGES ? (int64_t)units : MAX_RANGES);
  for (size_t i = 0; i <= ranges; i++) cut[i] = i * units / ranges;
  for (size_t i = 1; i < ranges; i++) cut[i] = (size_t)random_between(r, (int64_t)cut[i - 1], (int64_t)cut[i + 1]);
  for (size_t i = 0; i < ranges; i++) {
    const size_t j = (size_t)random_between(r, 0, (int64_t)i);
    order[i] = order[j];
    order[j] = i;
  }
  for (size_t i = 0; i < ranges; i++) k->run(&h->task, call, cut[order[i]], cut[order[i] + 1]);
}

static inline void harness_compare(const harness *h, const harness_random *r, const itg_kernel *k, size_t o) {
  const uint8_t *got = h->outputs[o].data, *want = h->expected[o];
  for (size_t i = 0; i < h->output_bytes[o]; i++) {
    if (got[i] == want[i]) continue;
    harness_describe(h, r, k);
    print_error("  output %zu differs first at byte %zu of %zu: %u, expected %u\n", o, i, h->output_bytes[o], got[i],
                want[i]);
    fail();
  }
  for (size_t i = 1; i <= MARGIN; i++) {
    if (got[-(ptrdiff_t)i] == 0xC3) continue;
    harness_describe(h, r, k);
    print_error("  wrote %zu bytes before output %zu\n", i, o);
    fail();
  }
}

static inline void harness_call(harness *h, harness_random *r, const itg_kernel *k, bool split) {
  itg_kernel_call call = {0};
  const void *inputs[MAX_BUFFERS];
  void *outputs[2];
  for (int32_t i = 0; i < h->input_count; i++) inputs[i] = h->inputs[i].data;
  for (int32_t o = 0; o < h->output_count; o++) {
    outputs[o] = guarded_place(&h->outputs[o], h->output_bytes[o], 0, 1);
    memset(outputs[o], split ? 0x5A : 0xA5, h->output_bytes[o]);
    memset((uint8_t *)outputs[o] - MARGIN, 0xC3, MARGIN);
  }
  call.inputs = inputs;
  call.outputs = outputs;
  if (k->packed_size) {
    const size_t bytes = k->packed_size(&h->task);
    uint8_t *packed = guarded_place(&h->packed, bytes, 0, 64);
    memset(packed, 0xEE, bytes);
    if (k->pack) k->pack(&h->task, packed);
    call.packed = packed;
  }
  if (k->scratch_size) {
    const size_t bytes = k->scratch_size(&h->task);
    call.scratch = guarded_place(&h->scratch, bytes, 0, 64);
    memset(call.scratch, 0xEE, bytes);
  }
  for (int32_t i = 0; i < h->change_count; i++)
    memcpy(h->inputs[h->changes[i]].data, h->before[i], h->inputs[h->changes[i]].data_size);
  harness_run(h, r, k, &call, split);
}

static inline void harness_compare_changes(const harness *h, const harness_random *r, const itg_kernel *k) {
  for (int32_t i = 0; i < h->change_count; i++) {
    const guarded *g = &h->inputs[h->changes[i]];
    if (memcmp(g->data, h->after[i], g->data_size) == 0) continue;
    harness_describe(h, r, k);
    print_error("  state %d differs\n", h->changes[i]);
    fail();
  }
}

// Computes the expected outputs with the reference, then tries every other kernel that takes the task.
static inline void harness_check(harness *h, harness_random *r) {
  const itg_kernel *reference = itg_kernel_find(&h->task, 0);
  assert_non_null(reference);
  assert_int_equal(reference->isa, ITG_ISA_REFERENCE);
  harness_call(h, r, reference, false);
  for (int32_t o = 0; o < h->output_count; o++) {
    h->expected[o] = malloc(h->output_bytes[o]);
    assert_non_null(h->expected[o]);
    memcpy(h->expected[o], h->outputs[o].data, h->output_bytes[o]);
  }
  for (int32_t i = 0; i < h->change_count; i++)
    memcpy(h->after[i], h->inputs[h->changes[i]].data, h->inputs[h->changes[i]].data_size);
  size_t count;
  const itg_kernel *const *list = itg_kernel_list(&count);
  for (size_t i = 0; i < count; i++) {
    const itg_kernel *k = list[i];
    if (k->op != h->task.op || k->isa == ITG_ISA_REFERENCE || !(h->isa_mask >> k->isa & 1)) continue;
    if (k->supports && !k->supports(&h->task)) continue;
    h->tried[k->isa]++;
    for (int split = 0; split < 2; split++) {
      harness_call(h, r, k, split != 0);
      for (int32_t o = 0; o < h->output_count; o++) harness_compare(h, r, k, (size_t)o);
      harness_compare_changes(h, r, k);
    }
  }
  for (int32_t i = 0; i < h->change_count; i++) {
    free(h->before[i]);
    free(h->after[i]);
  }
  for (int32_t o = 0; o < h->output_count; o++) free(h->expected[o]);
}

// Says what was tried, and which instruction sets with kernels for the op this machine lacks.
static inline void harness_report(const harness *h, const char *name, int64_t cases, int64_t vectors) {
  print_message("%s: %" PRId64 " cases, %" PRId64 " vectors;", name, cases, vectors);
  size_t count;
  const itg_kernel *const *list = itg_kernel_list(&count);
  for (int isa = 1; isa < ITG_ISA_HTP_V68; isa++) { // The NPU's profiles round differently on purpose.
    bool exists = false;
    for (size_t i = 0; i < count; i++) exists |= list[i]->isa == (itg_isa)isa && list[i]->op == h->task.op;
    if (!exists) continue;
    if (h->isa_mask >> isa & 1) {
      print_message(" %s %" PRId64, itg_isa_name((itg_isa)isa), h->tried[isa]);
    } else {
      print_message(" %s skipped: this machine lacks it", itg_isa_name((itg_isa)isa));
    }
  }
  print_message("\n");
}

static inline void harness_free(harness *h) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  guarded *all[2 * MAX_BUFFERS + 4];
  size_t count = 0;
  for (int i = 0; i < MAX_BUFFERS; i++) {
    all[count++] = &h->inputs[i];
    all[count++] = &h->constants[i];
  }
  all[count++] = &h->outputs[0];
  all[count++] = &h->outputs[1];
  all[count++] = &h->packed;
  all[count++] = &h->scratch;
  for (size_t i = 0; i < count; i++) {
    if (all[i]->base) munmap(all[i]->base, all[i]->bytes + page);
  }
  free(h);
}

// One random case, made and checked; returns its number of vectors.
typedef int64_t (*try_function)(harness *, harness_random *);

static inline void harness_try_many(try_function try, const char *name, int64_t usual) {
  harness *h = calloc(1, sizeof *h);
  assert_non_null(h);
  int64_t vectors = 0, cases = 0;
  const int64_t wanted = harness_vectors(usual);
  while (vectors < wanted) {
    harness_random r;
    random_start(&r, cases++);
    harness_start(h);
    vectors += try(h, &r);
  }
  harness_report(h, name, cases, vectors);
  harness_free(h);
}

// A cmocka test that tries cases until `usual` vectors (or ITG_KERNEL_VECTORS) were compared.
#define TRY_MANY(name, function, text, usual) \
  static void name(void **state) {            \
    (void)state;                              \
    harness_try_many(function, text, usual);  \
  }

#endif
