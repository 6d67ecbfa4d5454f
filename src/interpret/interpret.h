// The float executor: the oracle of everything. Executes every operation of the float section of ops.def, in both layouts.
//
// Values are computed in the tensors' own dtypes (f32 arithmetic for f32, f64 for f64, integers exactly); f16 and bf16 are
// widened to f32 on read. A run uses one thread; parallelism comes from running samples side by side. Results depend on
// nothing but the inputs and the kind of processor. While a graph runs, also inside of observers, subnormals count as zero.
#ifndef ITG_INTERPRET_INTERPRET_H
#define ITG_INTERPRET_INTERPRET_H

#include "graph/graph.h"

// A prepared graph. Immutable after create; share freely. The graph must outlive it and not be edited meanwhile.
typedef struct itg_interpreter itg_interpreter;
// Buffers of one running sample. One thread at a time.
typedef struct itg_interpreter_state itg_interpreter_state;

// Called after each node with its outputs still in memory; return false to stop (the run fails with CANCELLED).
// value(context, tensor, data): `data` is dense row-major of tensor->dtype and valid during the call only.
typedef bool (*itg_interpreter_observer)(void *context, const itg_tensor *tensor, const void *data);

// Checks that every node can be executed (UNSUPPORTED names the first that cannot), plans memory (buffers are reused as soon
// as their last reader ran) and prepares weights.
ITG_MUST_USE itg_status itg_interpreter_create(const itg_graph *graph, itg_diagnostic *diagnostic,
                                               itg_interpreter **out);
// The same with a buffer of its own for every tensor that is still needed (no views), so that itg_interpreter_run_edited may
// change one without changing another.
ITG_MUST_USE itg_status itg_interpreter_create_editable(const itg_graph *graph, itg_diagnostic *diagnostic,
                                                        itg_interpreter **out);
void itg_interpreter_destroy(itg_interpreter *interpreter);
// Bytes of activations and scratch that one state holds.
size_t itg_interpreter_state_size(const itg_interpreter *interpreter);
ITG_MUST_USE itg_status itg_interpreter_state_create(const itg_interpreter *interpreter, itg_diagnostic *diagnostic,
                                                     itg_interpreter_state **out);
void itg_interpreter_state_destroy(itg_interpreter_state *state);

// Runs one sample. inputs[i]: dense data of graph->inputs[i] (its dtype and shape). outputs[i], when not NULL, receives
// graph->outputs[i]. inputs[i] of a state (itg_tensor_is_state) is read and written, or NULL: there is no past and nothing is
// kept, whatever the position says. The observer (may be NULL) also sees the graph inputs, before the first node.
ITG_MUST_USE itg_status itg_interpreter_run(itg_interpreter_state *state, const void *const *inputs,
                                            void *const *outputs, itg_interpreter_observer observer, void *context,
                                            itg_diagnostic *diagnostic);

// Runs one sample and lets the editor change the outputs of every node before anything reads them; graph inputs are not shown.
// The interpreter must be editable. editor(context, tensor, data): as an observer, but `data` may be written.
typedef bool (*itg_interpreter_editor)(void *context, const itg_tensor *tensor, void *data);
ITG_MUST_USE itg_status itg_interpreter_run_edited(itg_interpreter_state *state, const void *const *inputs,
                                                   void *const *outputs, itg_interpreter_editor editor, void *context,
                                                   itg_diagnostic *diagnostic);

// Executes a single node whose inputs are all constants; writes dense data into outputs[i] (sized by the outputs' shapes).
// Used to fold constants. Errors: UNSUPPORTED, MEMORY.
ITG_MUST_USE itg_status itg_interpret_node(const itg_node *node, void *const *outputs, itg_diagnostic *diagnostic);

#endif
