// What a language or vision-language model is: the numbers of its architecture, as one plain struct.
//
// Read from config.json or GGUF metadata by import/, stored as JSON in the compiled file (metadata section "language") and
// read back by the pipelines. Everything a runtime must know about the decoder beside its graphs is here.
#ifndef ITG_TEXT_LANGUAGE_CONFIG_H
#define ITG_TEXT_LANGUAGE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"

// Limits on what a file may ask for.
enum {
  ITG_LANGUAGE_MAX_LAYERS = 512,
  ITG_LANGUAGE_MAX_WIDTH = 1 << 17, // Hidden and intermediate sizes.
  ITG_LANGUAGE_MAX_HEADS = 1024,
  ITG_LANGUAGE_MAX_HEAD_SIZE = 512,
  ITG_LANGUAGE_MAX_VOCABULARY = 2000000,
  ITG_LANGUAGE_MAX_POSITIONS = 1 << 24,
  ITG_LANGUAGE_MAX_EOS = 8,
  ITG_LANGUAGE_MAX_PREFIX = 8,
};

typedef enum itg_language_family {
  ITG_LANGUAGE_LLAMA = 1, // Llama, SmolLM2, and the text half of SmolVLM and Idefics3.
  ITG_LANGUAGE_QWEN2 = 2, // Qwen2, Qwen2.5 and the text half of InternVL3: biases on q, k and v.
  ITG_LANGUAGE_QWEN3 = 3, // RMSNorm on each head of q and k.
} itg_language_family;

typedef enum itg_vision_family {
  ITG_VISION_NONE = 0,
  ITG_VISION_IDEFICS3 = 1, // SmolVLM, Idefics3: SigLIP encoder, pixel shuffle, one Linear.
  ITG_VISION_INTERNVL = 2, // InternVL3: InternViT encoder, pixel shuffle, LayerNorm and two Linears.
} itg_vision_family;

typedef enum itg_rope_kind {
  ITG_ROPE_PLAIN = 0,
  ITG_ROPE_LINEAR = 1,  // Positions divided by `factor`.
  ITG_ROPE_LLAMA3 = 2,  // Low frequencies divided by `factor`, a smooth ramp between (Llama 3.1 and later).
  ITG_ROPE_FACTORS = 3, // Each frequency divided by its own factor (GGUF stores the ramp of Llama 3 that way).
} itg_rope_kind;

// Pairs are (i, i + head_size/2): weights that come with neighbouring pairs are permuted by the importer.
typedef struct itg_rope_config {
  itg_rope_kind kind;
  double theta;
  double factor, low_frequency_factor, high_frequency_factor;
  int32_t original_positions;
  float factors[ITG_LANGUAGE_MAX_HEAD_SIZE / 2]; // FACTORS: head_size/2 of them.
} itg_rope_config;

typedef struct itg_vision_config {
  itg_vision_family family;
  int32_t layers, hidden, heads, head_size, intermediate;
  int32_t image_size, patch_size; // Pixels of a side; a tile has (image_size/patch_size)^2 patches.
  double norm_epsilon;
  bool gelu_tanh;        // Else the exact GELU.
  bool attention_bias;   // q, k and v; the output projection always has one.
  int32_t shuffle;       // Patches of a side that become one token.
  int32_t tile_tokens;   // Tokens a tile takes in the prompt.
  int32_t maximum_edge;  // IDEFICS3: the longest edge before cutting into tiles.
  int32_t maximum_tiles; // INTERNVL: most tiles besides the thumbnail.
  bool split;            // Cut pictures into tiles; else each becomes a single one.
} itg_vision_config;

typedef struct itg_language_config {
  itg_language_family family;
  int32_t layers, hidden, intermediate;
  int32_t heads, kv_heads, head_size; // heads is a multiple of kv_heads; heads*head_size may differ from hidden.
  int32_t vocabulary;                 // Rows of the token embedding and of the head.
  int32_t maximum_positions;
  double norm_epsilon;
  itg_rope_config rope;
  bool qkv_bias, output_bias, mlp_bias, head_norm;
  bool tied;                         // The head is the token embedding.
  int32_t bos, pad;                  // Token ids; -1: none.
  int32_t eos[ITG_LANGUAGE_MAX_EOS]; // Any of them ends an answer.
  int32_t eos_count;
  // What every sequence begins with. The compiled decoder has these tokens' keys and values in its caches from the beginning
  // (itg_session_position of a new session is prefix_count): whoever runs it leaves them out. They draw the massive
  // activations of a sequence's first token, which integers could not hold beside the others.
  int32_t prefix[ITG_LANGUAGE_MAX_PREFIX];
  int32_t prefix_count;
  int32_t image_token;                    // Stands for one row of image features; -1 without vision.
  itg_vision_config vision;               // family NONE for text alone.
  int32_t context_length, prefill_length; // Of the compiled graphs: C and T; 0 before compiling.
} itg_language_config;

// Values to start from: everything zero, ids -1.
void itg_language_config_init(itg_language_config *config);
// Checks ranges and that the numbers fit each other. Errors: UNSUPPORTED, FORMAT (names the field).
ITG_MUST_USE itg_status itg_language_config_check(const itg_language_config *config, itg_diagnostic *diagnostic);
// malloc'ed compact JSON text (docs/FORMATS.md, "language"), or NULL without memory.
char *itg_language_config_to_json(const itg_language_config *config);
// Reads what itg_language_config_to_json wrote; unknown fields are refused. Errors: FORMAT, UNSUPPORTED, MEMORY.
ITG_MUST_USE itg_status itg_language_config_parse(itg_span json, itg_diagnostic *diagnostic, itg_language_config *out);

// Angles of one position step, one a pair: head_size/2 values.
void itg_rope_frequencies(const itg_language_config *config, double *out);
// Tables of `count` positions from `first` on: cosines and sines [count, head_size/2], as every decoder graph takes them.
// An angle is the float product of a frequency and a position, as the models were trained with. Errors: MEMORY.
ITG_MUST_USE itg_status itg_rope_tables(const itg_language_config *config, int64_t first, int64_t count,
                                        itg_diagnostic *diagnostic, float *cosines, float *sines);

#endif
