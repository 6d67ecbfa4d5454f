// `intaglio compile` of language and vision-language models: options in, a table out.
#include "cli/language.h"

#include <math.h>
#include <stdlib.h>

#include "cli/progress.h"
#include "intaglio/compiler.h"

static void print_number(const char *format, double value) {
  if (isnan(value))
    printf("n/a");
  else
    printf(format, value);
}

static void print_result(const itg_language_result *result, const char *output) {
  const double mb = 1e6;
  const itg_language_accuracy *a = &result->accuracy;
  for (size_t i = 0; i < result->part_count; i++)
    printf("%-10s %8.2f MB, %.1f s\n", result->parts[i].role, (double)result->parts[i].constant_bytes / mb,
           result->parts[i].compile_seconds);
  printf("file       %8.2f MB\n", (double)result->file_bytes / mb);
  printf("judged on %zu tokens of %zu %s samples, calibrated with %zu tokens of %zu\n", a->tokens, result->judge_count,
         result->judged_on_calibration ? "calibration" : "other", result->calibration_tokens,
         result->calibration_count);
  printf("perplexity float ");
  print_number("%.3f", a->float_perplexity);
  printf(", integer ");
  print_number("%.3f", a->integer_perplexity);
  printf(" (x");
  print_number("%.4f", a->perplexity_ratio);
  printf(")\nKL mean ");
  print_number("%.5f", a->divergence_mean);
  printf(", 99.9 %% ");
  print_number("%.4f", a->divergence_999);
  printf("; same top token ");
  print_number("%.4f", a->top1_agreement);
  printf("\n");
  if (a->image_tokens)
    printf("image tokens: cosine %.5f, lowest hundredth %.5f (of %zu)\n", a->image_cosine_mean, a->image_cosine_low,
           a->image_tokens);
  printf("compile %.1f s (judging %.1f), peak memory %.0f MiB\n", result->total_seconds, result->judge_seconds,
         (double)result->peak_memory_bytes / (1 << 20));
  printf("next    intaglio chat %s\n", output);
}

static bool read_integers(const cli_arguments *arguments, itg_language_options *options) {
  return cli_get_integer(arguments, "threads", 1, 1024, &options->thread_count) &&
         cli_get_integer(arguments, "weight-block", 0, 64, &options->weight_block) &&
         cli_get_integer(arguments, "cache-bits", 8, 16, &options->cache_bits) &&
         cli_get_integer(arguments, "context", 16, 1 << 20, &options->context_length) &&
         cli_get_integer(arguments, "sample-length", 16, 1 << 20, &options->sample_length) &&
         cli_get_integer(arguments, "limit", 1, 1 << 20, &options->calibration_limit) &&
         cli_get_integer(arguments, "judge-limit", 1, 1 << 20, &options->judge_limit);
}

// Options that this version does for other networks only: ignoring one would let the user believe it was followed.
static const char *find_inapplicable(const cli_arguments *arguments) {
  static const char *const names[] = {"target",     "qnn-dir", "kind",       "preprocess", "face-models",
                                      "all-faces",  "shape",   "identities", "budget",     "recipe-out",
                                      "dump-after", "report",  "ablate",     "split",      "text-models"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (cli_has(arguments, names[i])) return names[i];
  }
  return NULL;
}

int cli_compile_language(const cli_arguments *arguments) {
  const char *inapplicable = find_inapplicable(arguments);
  if (inapplicable)
    return cli_usage_error("--%s is not available for language models; see intaglio compile --help", inapplicable);
  itg_language_options options;
  itg_language_options_default(&options);
  size_t calibration, judge;
  cli_progress progress = {.quiet = cli_has(arguments, "quiet")};
  const char **texts = cli_get_all(arguments, "calibration", &calibration);
  const char **held_out = cli_get_all(arguments, "judge", &judge);
  options.calibration = calibration == 1 ? texts[0] : NULL;
  options.judge = judge == 1 ? held_out[0] : NULL;
  free(texts);
  free(held_out);
  if (calibration != 1 || judge > 1)
    return cli_usage_error("a language model takes one --calibration and at most one --judge: a text file or a .json "
                           "list of conversations");
  if (!read_integers(arguments, &options)) return CLI_USAGE;
  options.precision = cli_get(arguments, "precision");
  options.recipe = cli_get(arguments, "recipe");
  options.allow_collapse = cli_has(arguments, "allow-collapse");
  options.progress = cli_progress_update;
  options.progress_context = &progress;
  const char *output = cli_get(arguments, "output");
  itg_diagnostic diagnostic;
  itg_language_result result = {0};
  const itg_status status = itg_language_compile(arguments->positional[0], &options, output, &diagnostic, &result);
  cli_progress_end(&progress);
  if (status != ITG_OK) return cli_fail(&diagnostic);
  if (cli_has(arguments, "json"))
    printf("%s\n", result.json);
  else if (!cli_has(arguments, "quiet"))
    print_result(&result, output);
  itg_language_result_free(&result);
  return cli_finish_output();
}
