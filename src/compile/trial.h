// Trying a recipe: a program is built, judged on samples and thrown away. The float network runs once for all trials.
#ifndef ITG_COMPILE_TRIAL_H
#define ITG_COMPILE_TRIAL_H

#include "compile/build.h"
#include "compile/judge.h"

// Fill in the first four; the rest starts zeroed. One thread at a time; itg_trial_free when done.
typedef struct itg_trial {
  const itg_float_network *network; // The oracle.
  itg_build_options build;
  itg_samples samples; // On which programs are judged: the same for every call.
  const char *cpu;     // As in itg_session_options.
  itg_judge_reference reference;
} itg_trial;

typedef struct itg_trial_score {
  double cosine_mean, cosine_min; // Of the worst output.
  double noise;                   // Mean over the outputs (itg_output_accuracy): what trials are compared by.
  double cost;                    // itg_program_cost of the program.
} itg_trial_score;

// Errors: those of itg_build_program and itg_judge.
ITG_MUST_USE itg_status itg_trial_recipe(itg_trial *trial, const itg_calibrated *calibrated, const itg_recipe *recipe,
                                         itg_diagnostic *diagnostic, itg_trial_score *out);
void itg_trial_free(itg_trial *trial);

#endif
