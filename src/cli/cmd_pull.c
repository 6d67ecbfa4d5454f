// intaglio pull: a model of Immich's collection from the hub into the cache that `intaglio serve --immich` reads.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/progress.h"
#include "intaglio/hub.h"

static const cli_option options[] = {
    {"models", 0, "DIR", "the cache; otherwise $MACHINE_LEARNING_CACHE_FOLDER, or else /cache"},
    {"revision", 0, "NAME", "branch, tag or commit (default: main)"},
    {"organization", 0, "NAME", "owner of the repositories (default: immich-app)"},
    {"offline", 0, NULL, "use no network: only say whether the model is complete"},
    CLI_OPTION_QUIET,
    CLI_OPTION_HELP,
};

static int run_pull(const cli_arguments *arguments) {
  cli_progress progress = {.quiet = cli_has(arguments, "quiet")};
  const char *models = cli_get(arguments, "models"), *set = getenv("MACHINE_LEARNING_CACHE_FOLDER");
  if (!models) models = set && *set ? set : "/cache";
  itg_hub_options pull;
  itg_hub_options_default(&pull);
  pull.revision = cli_get(arguments, "revision");
  pull.organization = cli_get(arguments, "organization");
  pull.offline = cli_has(arguments, "offline");
  pull.progress = cli_progress_update;
  pull.progress_context = &progress;
  for (size_t i = 0; i < arguments->positional_count; i++) {
    const char *name = arguments->positional[i];
    itg_diagnostic diagnostic = {0};
    size_t fetched, kept;
    char folder[PATH_MAX];
    itg_status status = itg_hub_folder(models, name, &diagnostic, folder, sizeof folder);
    if (status == ITG_OK) status = itg_hub_pull(models, name, &pull, &diagnostic, &fetched, &kept);
    cli_progress_end(&progress);
    if (status != ITG_OK) return cli_fail(&diagnostic);
    printf("%s: %zu files fetched, %zu were there\n", folder, fetched, kept);
  }
  return cli_finish_output();
}

const cli_command cli_pull = {
    .name = "pull",
    .arguments = "NAME..",
    .summary = "fetch a model from the Hugging Face hub into the cache that Immich uses",
    .details =
        "Names are those of Immich (ViT-B-32__openai, buffalo_l, PP-OCRv5_mobile). An interrupted download goes on "
        "where "
        "it stopped; every file is checked and appears whole or not at all. $HF_ENDPOINT names another hub, $HF_TOKEN "
        "opens private models, $HF_HUB_OFFLINE=1 forbids the network.",
    .min_positional = 1,
    .max_positional = 100,
    CLI_OPTIONS(options),
    .run = run_pull,
};
