// Graphs (stage IMPORTED) of the parts of a language model. Any run of layers can be built alone, so that a large model is
// compiled and checked layer by layer with one layer's weights in memory; names are the same whatever is built and for
// every block and context length, so encodings found for one belong to all.
#ifndef ITG_IMPORT_LANGUAGE_BUILD_H
#define ITG_IMPORT_LANGUAGE_BUILD_H

#include "graph/graph.h"
#include "import/language/model.h"

typedef struct itg_decoder_part {
  int32_t first, end;     // Layers [first, end); none when equal.
  bool head;              // Then the final norm and the head.
  int64_t block, context; // Rows of a run, and positions that the caches hold: T <= C.
} itg_decoder_part;

// Inputs: "embeddings" [1,T,hidden] (or "layers.N.output" of the layer in front), "cosine" and "sine" [T,head_size/2],
// "position" s32 [1], and a layer "k_cache.N" and "v_cache.N" [kv_heads,C,head_size]; a part without layers has the first
// alone. Output: "layers.N.output" [1,T,hidden] of the last layer, or "logits" [1,T,vocabulary]. The graph owns its
// constants. Errors: ARGUMENT (the part), QUANTIZATION never, MEMORY, SHAPE.
ITG_MUST_USE itg_status itg_build_decoder(const itg_language_model *model, const itg_decoder_part *part,
                                          itg_diagnostic *diagnostic, itg_graph **out);

typedef struct itg_vision_part {
  int32_t first, end; // Layers [first, end).
  bool patches;       // In front of them: pixels to patches.
  bool connector;     // Behind them: final norm, pixel shuffle and projection.
} itg_vision_part;

// Input: "pixels" [1,3,S,S] (normalised), or "vision.layers.N.output" [1,patches,channels] of the layer in front, or
// "vision.patches". Output: "vision.patches", "vision.layers.N.output" or "features" [1,tile tokens,hidden]. Likewise.
ITG_MUST_USE itg_status itg_build_vision(const itg_language_model *model, const itg_vision_part *part,
                                         itg_diagnostic *diagnostic, itg_graph **out);

// Rows of the token embedding, [count, hidden]. Errors: ARGUMENT (an id outside the vocabulary).
ITG_MUST_USE itg_status itg_language_embed(const itg_language_model *model, const int32_t *ids, size_t count,
                                           itg_diagnostic *diagnostic, float *out);

#endif
