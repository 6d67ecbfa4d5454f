// Descriptions of language and vision-language models from Hugging Face folders.
#ifndef ITG_IMPORT_HUGGINGFACE_CONFIG_H
#define ITG_IMPORT_HUGGINGFACE_CONFIG_H

#include "text/language_config.h"

enum { ITG_HUGGINGFACE_MAX_JSON = 16 << 20 }; // Bytes of config.json and the like.

// Reads the bytes of a config.json, and of a preprocessor_config.json where there is one (else an empty span).
// Architectures: llama, qwen2, qwen3; smolvlm and idefics3 around llama; internvl around qwen2, qwen3 or llama. Whether the head
// is tied is only what the file says: the weights decide. A key that this reader neither uses nor knows to be without
// consequence is refused by name, as is every value that asks for what is not implemented.
// Errors: FORMAT, UNSUPPORTED, LIMIT.
ITG_MUST_USE itg_status itg_huggingface_config(itg_span config, itg_span preprocessor, itg_diagnostic *diagnostic,
                                               itg_language_config *out);
// Adds the end tokens of a generation_config.json, which chat models have more of. Errors: FORMAT, LIMIT.
ITG_MUST_USE itg_status itg_huggingface_generation(itg_span json, itg_diagnostic *diagnostic,
                                                   itg_language_config *config);

#endif
