// Speed of llama.cpp on one GGUF file, for bench/language_speed.py: prefill of a prompt, then single tokens.
// usage: llama_peer MODEL.gguf LIBRARIES THREADS PROMPT_TOKENS ANSWER_TOKENS ROUNDS; prints JSON with the best of each.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ggml-backend.h"
#include "llama.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void quiet(enum ggml_log_level level, const char *text, void *context) {
  (void)context;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char **argv) {
  if (argc != 7) return 2;
  const int prompt = atoi(argv[4]), answer = atoi(argv[5]), rounds = atoi(argv[6]);
  llama_log_set(quiet, NULL);
  ggml_backend_load_all_from_path(argv[2]);
  llama_backend_init();
  struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
  struct llama_context_params parameters = llama_context_default_params();
  parameters.n_ctx = (unsigned)(prompt + answer + 64);
  parameters.n_batch = parameters.n_ubatch = (unsigned)prompt;
  parameters.n_threads = parameters.n_threads_batch = atoi(argv[3]);
  struct llama_context *context = model ? llama_init_from_model(model, parameters) : NULL;
  llama_token *tokens = malloc((size_t)(prompt + answer) * sizeof *tokens);
  if (!context || !tokens) return 1;
  for (int i = 0; i < prompt + answer; i++) tokens[i] = 100 + i * 37 % 40000;
  double prefill = 1e9, decode = 1e9;
  for (int r = 0; r < rounds; r++) {
    llama_memory_clear(llama_get_memory(context), true);
    double start = now();
    if (llama_decode(context, llama_batch_get_one(tokens, prompt)) != 0 || !llama_get_logits_ith(context, -1)) return 1;
    const double first = now() - start;
    start = now();
    for (int i = 0; i < answer; i++) {
      if (llama_decode(context, llama_batch_get_one(tokens + prompt + i, 1)) != 0) return 1;
      llama_get_logits_ith(context, -1);
    }
    const double rest = now() - start;
    prefill = first < prefill ? first : prefill;
    decode = rest < decode ? rest : decode;
  }
  printf("{\"prefill\": %.1f, \"decode\": %.1f}\n", prompt / prefill, answer / decode);
  return 0;
}
