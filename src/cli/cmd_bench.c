// intaglio bench: time and memory of a compiled file, or of a float model in the interpreter.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/network.h"

static const cli_option options[] = {
    {"runs", 'n', "N", "timed runs (default: as many as fit in two seconds, at least 10)"},
    {"layers", 'l', NULL, "time each step of a compiled file (best over the runs)"},
    {"proof", 0, NULL, "say where it ran, by the events of the vendor's library (--backend qnn)"},
    CLI_OPTION_SHAPE,
    CLI_OPTION_CPU,
    CLI_OPTION_ARITHMETIC,
    CLI_OPTION_BACKEND,
    CLI_OPTION_CONTEXT,
    CLI_OPTION_QNN_DIR,
    CLI_OPTION_NPU_PERFORMANCE,
    CLI_OPTION_THREADS,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
};

enum { MAX_RUNS = 10000, MIN_RUNS = 10, WARM_UP = 2 };
static const double TIME_LIMIT = 2;

typedef struct bench_state {
  const cli_arguments *arguments;
  itg_diagnostic diagnostic;
  cli_network network;
  double *seconds; // Sorted after the runs.
  size_t runs;
  itg_proof proof;   // Of the last run; its sentence is NULL without --proof.
  double *step_best; // Microseconds.
  size_t step_count;
} bench_state;

// Values of a fixed pseudo-random sequence in [-1, 1): time may depend on values only where zeros are special.
static void fill_inputs(cli_network *network) {
  uint32_t state = 1;
  for (size_t i = 0; i < network->input_count; i++) {
    if (network->inputs[i].dtype != ITG_DTYPE_F32) continue; // Zeros are valid for indices, masks and counts.
    float *values = network->input_values[i];
    const bool codes = network->model && itg_model_input(network->model, i)->dtype != ITG_DTYPE_U8 &&
                       itg_model_input(network->model, i)->dtype != ITG_DTYPE_U16;
    for (size_t k = 0; k < network->inputs[i].count && !codes; k++) {
      state = state * 1664525u + 1013904223u;
      values[k] = (float)(state >> 8) * 0x1p-23f - 1;
    }
  }
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static itg_status note_steps(bench_state *bench) {
  for (size_t i = 0; i < bench->step_count; i++) {
    itg_step_info step;
    const itg_status status = itg_session_step(bench->network.session, i, &step);
    if (status != ITG_OK) return status;
    if (bench->step_best[i] == 0 || step.microseconds < bench->step_best[i]) bench->step_best[i] = step.microseconds;
  }
  return ITG_OK;
}

static itg_status run_all(bench_state *bench, int wanted) {
  fill_inputs(&bench->network);
  itg_status status = cli_network_set(&bench->network, &bench->diagnostic);
  for (int i = 0; i < WARM_UP && status == ITG_OK; i++) status = cli_network_run(&bench->network, &bench->diagnostic);
  const double begin = cli_now();
  while (status == ITG_OK && bench->runs < MAX_RUNS) {
    if (wanted > 0 && bench->runs == (size_t)wanted) break;
    if (wanted == 0 && bench->runs >= MIN_RUNS && cli_now() - begin > TIME_LIMIT) break;
    const double start = cli_now();
    status = cli_network_run(&bench->network, &bench->diagnostic);
    bench->seconds[bench->runs++] = cli_now() - start;
    if (status == ITG_OK) status = note_steps(bench);
  }
  qsort(bench->seconds, bench->runs, sizeof *bench->seconds, by_value);
  return status;
}

static size_t resident_bytes(void) {
  unsigned long total = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file) return 0;
  const int read = fscanf(file, "%lu %lu", &total, &resident);
  fclose(file);
  return read == 2 ? (size_t)resident * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static double at_share(const bench_state *bench, double share) {
  return 1e3 * bench->seconds[(size_t)(share * (double)(bench->runs - 1) + 0.5)];
}

static int thread_count(const bench_state *bench) {
  int threads = 0;
  if (!bench->network.session) return 1;
  if (!cli_get_integer(bench->arguments, "threads", 1, 1024, &threads)) return 0;
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  return threads ? threads : processors > 0 ? (int)processors : 1;
}

static void print_text(const bench_state *bench) {
  const char *cpu = bench->network.session ? itg_session_cpu(bench->network.session) : "float interpreter";
  struct rusage usage = {0};
  const bool known = getrusage(RUSAGE_SELF, &usage) == 0;
  printf("min %.3f ms   median %.3f ms   p90 %.3f ms   (%zu runs, %d thread%s, %s)\n", at_share(bench, 0),
         at_share(bench, 0.5), at_share(bench, 0.9), bench->runs, thread_count(bench),
         thread_count(bench) == 1 ? "" : "s", cpu);
  printf("opened in %.2f ms; resident %.1f MiB", 1e3 * bench->network.open_seconds,
         (double)resident_bytes() / (1 << 20));
  if (known) printf(", at most %.1f MiB", (double)usage.ru_maxrss / 1024);
  printf("\n");
  if (bench->proof.sentence) {
    printf("proof   %s\n", bench->proof.sentence);
    if (bench->proof.cycles)
      printf("        %llu cycles; host RPC %llu us, accelerator RPC %llu us, accelerator %llu us\n",
             (unsigned long long)bench->proof.cycles, (unsigned long long)bench->proof.host_rpc_microseconds,
             (unsigned long long)bench->proof.accelerator_rpc_microseconds,
             (unsigned long long)bench->proof.accelerator_microseconds);
  }
  if (!cli_has(bench->arguments, "layers")) return;
  double total = 0;
  for (size_t i = 0; i < bench->step_count; i++) total += bench->step_best[i];
  printf("%9s %6s %9s %9s  %-16s %-28s %s\n", "us", "share", "M MAC", "GMAC/s", "op", "kernel", "name");
  for (size_t i = 0; i < bench->step_count; i++) {
    itg_step_info step;
    if (itg_session_step(bench->network.session, i, &step) != ITG_OK) continue;
    const double microseconds = bench->step_best[i], macs = (double)step.multiply_accumulates;
    printf("%9.1f %5.1f%% %9.3f %9.2f  %-16s %-28s %s\n", microseconds, total > 0 ? 100 * microseconds / total : 0,
           macs / 1e6, microseconds > 0 ? macs / microseconds / 1e3 : 0, step.op, step.kernel, step.name);
  }
}

static void print_json_string(const char *text) {
  putchar('"');
  for (; *text; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      printf("\\%c", c);
    else if (c < 0x20)
      printf("\\u%04x", c);
    else
      putchar(c);
  }
  putchar('"');
}

static void print_json(const bench_state *bench) {
  printf("{\"milliseconds\": {\"min\": %.4f, \"median\": %.4f, \"p90\": %.4f}, \"runs\": %zu, \"threads\": %d, "
         "\"cpu\": ",
         at_share(bench, 0), at_share(bench, 0.5), at_share(bench, 0.9), bench->runs, thread_count(bench));
  print_json_string(bench->network.session ? itg_session_cpu(bench->network.session) : "interpreter");
  if (bench->proof.sentence) {
    printf(", \"proof\": {\"sentence\": ");
    print_json_string(bench->proof.sentence);
    printf(", \"on_device\": %s, \"ops_on_npu\": %zu, \"ops_total\": %zu, \"cycles\": %llu}",
           bench->proof.on_device ? "true" : "false", bench->proof.ops_on_npu, bench->proof.ops_total,
           (unsigned long long)bench->proof.cycles);
  }
  printf(", \"open_milliseconds\": %.4f, \"resident_bytes\": %zu", 1e3 * bench->network.open_seconds, resident_bytes());
  if (cli_has(bench->arguments, "layers")) {
    printf(", \"layers\": [");
    for (size_t i = 0; i < bench->step_count; i++) {
      itg_step_info step;
      if (itg_session_step(bench->network.session, i, &step) != ITG_OK) continue;
      printf("%s\n {\"name\": ", i ? "," : "");
      print_json_string(step.name);
      printf(", \"op\": ");
      print_json_string(step.op);
      printf(", \"kernel\": ");
      print_json_string(step.kernel);
      printf(", \"multiply_accumulates\": %lld, \"microseconds\": %.3f}", (long long)step.multiply_accumulates,
             bench->step_best[i]);
    }
    printf("]");
  }
  printf("}\n");
}

static itg_status prove(bench_state *bench) {
  return itg_session_proof(bench->network.session, &bench->diagnostic, &bench->proof);
}

static int measure(bench_state *bench) {
  const bool layers = cli_has(bench->arguments, "layers");
  int wanted = 0;
  if (!cli_get_integer(bench->arguments, "runs", 1, MAX_RUNS, &wanted)) return CLI_USAGE;
  const int opened =
      cli_network_open(bench->arguments, bench->arguments->positional[0], layers, &bench->diagnostic, &bench->network);
  if (opened != CLI_OK) return opened;
  if (cli_has(bench->arguments, "proof") && !bench->network.session)
    return cli_usage_error("--proof needs a compiled file");
  if (layers && !bench->network.session) return cli_usage_error("--layers needs a compiled file");
  bench->step_count = layers ? itg_session_step_count(bench->network.session) : 0;
  bench->seconds = calloc(MAX_RUNS, sizeof *bench->seconds);
  bench->step_best = calloc(bench->step_count + 1, sizeof *bench->step_best);
  if (!bench->seconds || !bench->step_best) {
    fprintf(stderr, "intaglio: out of memory\n");
    return CLI_MEMORY;
  }
  if (run_all(bench, wanted) != ITG_OK) return cli_fail(&bench->diagnostic);
  if (cli_has(bench->arguments, "proof") && prove(bench) != ITG_OK) return cli_fail(&bench->diagnostic);
  if (cli_has(bench->arguments, "json"))
    print_json(bench);
  else
    print_text(bench);
  return cli_finish_output();
}

static int run_bench(const cli_arguments *arguments) {
  bench_state bench = {.arguments = arguments};
  const int code = measure(&bench);
  free(bench.seconds);
  free(bench.step_best);
  cli_network_close(&bench.network);
  return code;
}

const cli_command cli_bench = {
    .name = "bench",
    .arguments = "FILE.itg|MODEL.onnx [options]",
    .summary = "measure time and memory",
    .details = "Runs on fixed pseudo-random inputs. A float model runs in the interpreter, on one thread.",
    .min_positional = 1,
    .max_positional = 1,
    CLI_OPTIONS(options),
    .run = run_bench,
};
