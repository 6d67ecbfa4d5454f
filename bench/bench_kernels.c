// Times the convolution kernels of every instruction set on the layers of a 112x112 MobileFaceNet, one thread.
//
//   bench_kernels [seconds a layer and kernel, default 0.05]
//
// Prints for each layer and instruction set the best time of a call and the multiply-adds a nanosecond (GMAC/s), and their
// sum over the whole network (each layer times how often it occurs).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/graph.h"
#include "kernels/kernels.h"

typedef struct {
  int times, size, in_c, out_c, kernel, stride, depthwise, words_in, words_out, prelu;
} layer;

static const layer layers[] = {
    {1, 112, 3, 64, 3, 2, 0, 0, 0, 1},   {1, 56, 64, 64, 3, 1, 1, 0, 0, 1},   {1, 56, 64, 128, 1, 1, 0, 0, 0, 1},
    {1, 56, 128, 128, 3, 2, 1, 0, 0, 1}, {4, 28, 128, 64, 1, 1, 0, 0, 1, 0},  {3, 28, 64, 128, 1, 1, 0, 0, 0, 1},
    {3, 28, 128, 128, 3, 1, 1, 0, 0, 1}, {1, 28, 64, 256, 1, 1, 0, 0, 0, 1},  {1, 28, 256, 256, 3, 2, 1, 0, 0, 1},
    {7, 14, 256, 128, 1, 1, 0, 0, 1, 0}, {6, 14, 128, 256, 1, 1, 0, 0, 0, 1}, {6, 14, 256, 256, 3, 1, 1, 0, 0, 1},
    {1, 14, 128, 512, 1, 1, 0, 0, 0, 1}, {1, 14, 512, 512, 3, 2, 1, 0, 0, 1}, {1, 7, 512, 128, 1, 1, 0, 0, 1, 0},
    {2, 7, 128, 256, 1, 1, 0, 0, 0, 1},  {2, 7, 256, 256, 3, 1, 1, 0, 0, 1},  {2, 7, 256, 128, 1, 1, 0, 0, 1, 0},
    {1, 7, 128, 512, 1, 1, 0, 0, 0, 1},  {1, 7, 512, 512, 7, 1, 1, 0, 1, 0},  {1, 1, 512, 512, 1, 1, 0, 1, 1, 0},
};
enum { LAYERS = sizeof layers / sizeof layers[0] };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!p) exit(1);
  memset(p, 0, bytes);
  return p;
}

// A task with random constants; the caller never frees them: the program ends soon.
static itg_task make_task(const layer *l) {
  itg_task task = {.op = ITG_OP_Q_CONV};
  itg_conv_task *c = &task.conv;
  c->batch = 1;
  c->in_h = c->in_w = l->size;
  c->in_c = l->in_c;
  c->out_c = l->out_c;
  c->kernel_h = c->kernel_w = l->kernel;
  c->stride_h = c->stride_w = l->stride;
  c->dilation_h = c->dilation_w = 1;
  c->pad_top = c->pad_left = l->kernel == 3 ? 1 : 0;
  c->out_h = c->out_w = l->kernel == 7 ? 1 : (l->size - 1) / l->stride + 1;
  c->group = l->depthwise ? l->in_c : 1;
  c->in_type = l->words_in ? ITG_TASK_U16 : ITG_TASK_U8;
  c->out_type = l->words_out ? ITG_TASK_U16 : ITG_TASK_U8;
  c->in_zero = l->words_in ? 30000 : 117;
  c->out_zero = l->words_out ? 32000 : 99;
  c->high = l->words_out ? 65535 : 255;
  const size_t k = (size_t)(l->kernel * l->kernel) * (size_t)(l->in_c / c->group), count = k * (size_t)l->out_c;
  int8_t *weight = allocate(count);
  for (size_t i = 0; i < count; i++) weight[i] = (int8_t)(rand() % 255 - 127);
  int32_t *values[5];
  for (int v = 0; v < 5; v++) {
    values[v] = allocate((size_t)l->out_c * 4);
    for (int o = 0; o < l->out_c; o++)
      values[v][o] = v == 0  ? rand() % 2000 - 1000
                     : v % 2 ? (1 << 30) + rand() % (1 << 30)
                             : 31 + (l->words_out ? 2 : 10);
  }
  c->weight = weight;
  c->bias = values[0];
  c->multiplier = values[1];
  c->shift = values[2];
  if (l->prelu) {
    c->negative_multiplier = values[3];
    c->negative_shift = values[4];
  }
  return task;
}

static double best_time(const itg_task *task, const itg_kernel *k, double seconds) {
  const itg_conv_task *c = &task->conv;
  const size_t in = (size_t)c->in_h * (size_t)c->in_w * (size_t)c->in_c * 2;
  const size_t out = (size_t)c->out_h * (size_t)c->out_w * (size_t)c->out_c * 2;
  uint8_t *input = allocate(in + ITG_KERNEL_SLACK), *output = allocate(out);
  for (size_t i = 0; i < in; i++) input[i] = (uint8_t)rand();
  void *packed = k->packed_size ? allocate(k->packed_size(task)) : NULL;
  void *scratch = k->scratch_size ? allocate(k->scratch_size(task)) : NULL;
  if (k->pack) k->pack(task, packed);
  const void *inputs[] = {input};
  void *outputs[] = {output};
  const itg_kernel_call call = {.inputs = inputs, .outputs = outputs, .packed = packed, .scratch = scratch};
  const size_t units = k->units ? k->units(task) : 1;
  double best = 1e9;
  const double start = now();
  for (double t = start; t < start + seconds;) {
    k->run(task, &call, 0, units);
    const double end = now();
    if (end - t < best) best = end - t;
    t = end;
  }
  free(input);
  free(output);
  free(packed);
  free(scratch);
  return best;
}

int main(int argc, char **argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 0.05;
  uint32_t mask;
  itg_isa_detect(NULL, &mask);
  double total[ITG_ISA_COUNT] = {0};
  printf("%-34s", "layer (x times)");
  for (int isa = 1; isa < ITG_ISA_HTP_V68; isa++) {
    if (mask >> isa & 1) printf(" %11s us  GMAC/s", itg_isa_name((itg_isa)isa));
  }
  printf("\n");
  for (int i = 0; i < LAYERS; i++) {
    const layer *l = &layers[i];
    const itg_task task = make_task(l);
    const itg_conv_task *c = &task.conv;
    const double macs = (double)c->out_h * c->out_w * c->out_c * l->kernel * l->kernel * (c->in_c / c->group);
    char name[64];
    snprintf(name, sizeof name, "%dx %s %dx%d/%d %dx%dx%d -> %d%s", l->times, l->depthwise ? "dw" : "conv", l->kernel,
             l->kernel, l->stride, l->size, l->size, l->in_c, l->out_c, l->words_out ? " u16" : "");
    printf("%-34s", name);
    for (int isa = 1; isa < ITG_ISA_HTP_V68; isa++) {
      if (!(mask >> isa & 1)) continue;
      const double t = best_time(&task, itg_kernel_find(&task, (2u << isa) - 1), seconds);
      total[isa] += t * l->times;
      printf(" %14.1f %7.1f", t * 1e6, macs / t * 1e-9);
    }
    printf("\n");
  }
  printf("%-34s", "all");
  for (int isa = 1; isa < ITG_ISA_HTP_V68; isa++) {
    if (mask >> isa & 1) printf(" %14.1f        ", total[isa] * 1e6);
  }
  printf("\n");
  return 0;
}
