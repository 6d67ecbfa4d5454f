// A language model opened for import: its description, its weights by role, and the texts that go with it.
#ifndef ITG_IMPORT_LANGUAGE_MODEL_H
#define ITG_IMPORT_LANGUAGE_MODEL_H

#include "import/language/checkpoint.h"
#include "text/language_config.h"

// One thread at a time (weights are marked as used).
typedef struct itg_language_model {
  itg_language_config config;
  itg_checkpoint checkpoint;
  bool paired_rotation;                 // q and k come in the order of neighbouring pairs (GGUF of the Llama family).
  const char *const *names;             // Where each role's weights are called what; see itg_weight_role.
  char *tokenizer_json, *chat_template; // malloc'ed; NULL where the source has none.
  size_t tokenizer_size;
} itg_language_model;

// Roles of weights. LAYER roles exist once a decoder layer, VISION_LAYER roles once an encoder layer.
typedef enum itg_weight_role {
  ITG_WEIGHT_EMBEDDING,
  ITG_WEIGHT_FINAL_NORM,
  ITG_WEIGHT_HEAD,
  ITG_WEIGHT_LAYER_NORM, // In front of attention.
  ITG_WEIGHT_LAYER_Q,
  ITG_WEIGHT_LAYER_K,
  ITG_WEIGHT_LAYER_V,
  ITG_WEIGHT_LAYER_OUTPUT,
  ITG_WEIGHT_LAYER_Q_NORM,
  ITG_WEIGHT_LAYER_K_NORM,
  ITG_WEIGHT_LAYER_SECOND_NORM, // In front of the MLP.
  ITG_WEIGHT_LAYER_GATE,
  ITG_WEIGHT_LAYER_UP,
  ITG_WEIGHT_LAYER_DOWN,
  ITG_WEIGHT_PATCH,
  ITG_WEIGHT_POSITION,
  ITG_WEIGHT_CLASS,
  ITG_WEIGHT_VISION_LAYER_NORM,
  ITG_WEIGHT_VISION_LAYER_Q,
  ITG_WEIGHT_VISION_LAYER_K,
  ITG_WEIGHT_VISION_LAYER_V,
  ITG_WEIGHT_VISION_LAYER_OUTPUT,
  ITG_WEIGHT_VISION_LAYER_SCALE, // LayerScale of attention.
  ITG_WEIGHT_VISION_LAYER_SECOND_NORM,
  ITG_WEIGHT_VISION_LAYER_UP,
  ITG_WEIGHT_VISION_LAYER_DOWN,
  ITG_WEIGHT_VISION_LAYER_SECOND_SCALE,
  ITG_WEIGHT_VISION_FINAL_NORM,
  ITG_WEIGHT_CONNECTOR_NORM,
  ITG_WEIGHT_CONNECTOR,
  ITG_WEIGHT_SECOND_CONNECTOR,
  ITG_WEIGHT_ROLES,
} itg_weight_role;

// True for a folder with a config.json and for a file that begins like a GGUF file: what itg_language_model_open takes.
bool itg_language_model_is(const char *path);
// Opens a Hugging Face folder or a GGUF file, checks that every weight of the architecture is there in its shape and that none
// is left over. A stored head is used even when the description says that it is tied.
// Errors: IO, FORMAT, SHAPE, LIMIT, UNSUPPORTED, MEMORY; each names the file, key or tensor.
ITG_MUST_USE itg_status itg_language_model_open(const char *path, itg_diagnostic *diagnostic, itg_language_model **out);
void itg_language_model_close(itg_language_model *model); // NULL is allowed.

// The weight (or, with `bias`, the bias) of a role in layer `layer` (0 where there are no layers). NULL when there is none.
const itg_weight *itg_language_weight(const itg_language_model *model, itg_weight_role role, int32_t layer, bool bias);

// The two sources; `model` is empty and released by the caller after an error.
ITG_MUST_USE itg_status itg_language_open_folder(const char *path, itg_diagnostic *diagnostic,
                                                 itg_language_model *model);
ITG_MUST_USE itg_status itg_language_open_gguf(const char *path, itg_diagnostic *diagnostic, itg_language_model *model);

#endif
