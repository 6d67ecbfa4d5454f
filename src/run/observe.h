// Watching a session step by step. Internal to the project: for reports on where accuracy is lost.
#ifndef ITG_RUN_OBSERVE_H
#define ITG_RUN_OBSERVE_H

#include "graph/graph.h"
#include "intaglio/intaglio.h"

// Called after each step with the codes of its outputs (dense, of node->outputs[i]->dtype), which may be changed: later steps
// read what is left there. Steps are numbered as in itg_session_step.
typedef void (*itg_step_observer)(void *context, size_t step, const itg_node *node, void *const *outputs);

// As itg_session_run. Errors: UNSUPPORTED when the backend does not run step by step.
ITG_MUST_USE itg_status itg_session_run_observed(itg_session *session, itg_step_observer observer, void *context,
                                                 itg_diagnostic *diagnostic);

#endif
