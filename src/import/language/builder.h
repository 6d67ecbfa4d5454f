// Inside import/language: nodes of graphs whose weights come from a model.
#ifndef ITG_IMPORT_LANGUAGE_BUILDER_H
#define ITG_IMPORT_LANGUAGE_BUILDER_H

#include "import/language/build.h"

// One thread at a time. After the first failure every call returns NULL and `status` stays.
typedef struct itg_builder {
  const itg_language_model *model;
  itg_graph *graph;
  itg_diagnostic *diagnostic;
  itg_status status;
  char name[128]; // Of itg_builder_name.
} itg_builder;

// A name in the builder, valid until the next call.
ITG_PRINTF(2, 3)
const char *itg_builder_name(itg_builder *b, const char *format, ...);
itg_tensor *itg_builder_input(itg_builder *b, const char *name, itg_dtype dtype, itg_shape shape);
// A node with one output called `name`. For RESHAPE give the shape, else NULL (inferred).
itg_tensor *itg_builder_node(itg_builder *b, itg_op op, const itg_attributes *attributes, const char *name,
                             itg_tensor *const *inputs, int32_t input_count, const itg_shape *shape);
itg_tensor *itg_builder_reshape(itg_builder *b, itg_tensor *x, const char *name, itg_shape shape);
itg_tensor *itg_builder_transpose(itg_builder *b, itg_tensor *x, const char *name, const int32_t *permutation);

// How a weight is changed while it is read; zero-initialised: not at all. All exact in real arithmetic.
typedef struct itg_weight_change {
  double factor;               // Of every value; 0 stands for 1.
  itg_weight_role rows_scaled; // Row r times element r of this role's vector; 0 (the embedding) stands for none.
  int32_t pair_size;           // Rows of each head of this size come as neighbouring pairs; they become halves. 0: not.
} itg_weight_change;

// A constant of a role's weight (or bias) in its own shape, or as a vector of rank 1 when `flat`.
itg_tensor *itg_builder_weight(itg_builder *b, itg_weight_role role, int32_t layer, bool bias,
                               const itg_weight_change *change);
// FULLY_CONNECTED with the role's weight, and its bias where the model has one. The node and its output are called `name`.
itg_tensor *itg_builder_linear(itg_builder *b, itg_tensor *x, itg_weight_role role, int32_t layer,
                               const itg_weight_change *change, const char *name);
// LAYER_NORM or RMS_NORM over the last dimension.
itg_tensor *itg_builder_norm(itg_builder *b, itg_op op, itg_tensor *x, itg_weight_role role, int32_t layer,
                             double epsilon, const char *name);

#endif
