// safetensors and GGUF: what they hold is read exactly; damaged, contradictory and huge files are refused by name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "import/huggingface/config.h"
#include "import/huggingface/safetensors.h"
#include "import/language/model.h"
#include "tensor/gguf.h"

static itg_diagnostic why;

typedef struct bytes {
  uint8_t data[8192];
  size_t size;
} bytes;

static void put(bytes *b, const void *data, size_t size) {
  assert_true(b->size + size <= sizeof b->data);
  memcpy(b->data + b->size, data, size);
  b->size += size;
}
static void put_u32(bytes *b, uint32_t value) { put(b, &value, sizeof value); }
static void put_u64(bytes *b, uint64_t value) { put(b, &value, sizeof value); }
static void put_text(bytes *b, const char *text) {
  put_u64(b, strlen(text));
  put(b, text, strlen(text));
}

// ---- safetensors ----

static bytes safetensors(const char *header, const void *data, size_t size) {
  bytes b = {.size = 0};
  put_text(&b, header);
  put(&b, data, size);
  return b;
}

static itg_status add(const bytes *b, itg_checkpoint *checkpoint) {
  *checkpoint = (itg_checkpoint){0};
  // A copy of exactly the size, so that reading past the end is seen.
  uint8_t *copy = malloc(b->size + 1);
  memcpy(copy, b->data, b->size);
  const itg_status status = itg_safetensors_add(checkpoint, (itg_span){copy, b->size}, "model.safetensors", &why);
  if (status != ITG_OK) {
    itg_checkpoint_free(checkpoint);
    free(copy);
    return status;
  }
  checkpoint->files = NULL;
  itg_checkpoint_free(checkpoint);
  free(copy);
  return ITG_OK;
}

static itg_status try_header(const char *header, size_t size) {
  static const uint8_t data[64];
  itg_checkpoint checkpoint;
  const bytes b = safetensors(header, data, size);
  return add(&b, &checkpoint);
}

static void safetensors_hold_floats(void **state) {
  (void)state;
  const float values[3] = {1.5f, -2, 1e-3f};
  const uint16_t halves[2] = {0x3e00, 0xc000}, brains[2] = {0x3fc0, 0xc000}; // 1.5, -2
  bytes b = {.size = 0};
  put_text(&b, "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
               "\"b\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[12,16]},"
               "\"c\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[16,20]},"
               "\"d\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[20,28]}}");
  put(&b, values, 12);
  put(&b, halves, 4);
  put(&b, brains, 4);
  put_u64(&b, 7);
  itg_checkpoint checkpoint = {0};
  assert_int_equal(itg_safetensors_add(&checkpoint, (itg_span){b.data, b.size}, "x", &why), ITG_OK);
  float out[3];
  itg_weight_read(itg_checkpoint_find(&checkpoint, "a"), 0, 1, out);
  assert_memory_equal(out, values, sizeof values);
  itg_weight_read(itg_checkpoint_find(&checkpoint, "b"), 0, 1, out);
  assert_true(out[0] == 1.5f && out[1] == -2);
  itg_weight_read(itg_checkpoint_find(&checkpoint, "c"), 1, 1, out);
  assert_true(out[0] == -2);
  const itg_weight *weight;
  const itg_shape shape = itg_shape_of(1, (const int64_t[]){1});
  assert_int_equal(itg_checkpoint_need(&checkpoint, "d", &shape, &why, &weight), ITG_ERROR_UNSUPPORTED);
  assert_int_equal(itg_checkpoint_need(&checkpoint, "a", &shape, &why, &weight), ITG_ERROR_SHAPE);
  assert_non_null(strstr(why.message, "a is 3"));
  assert_int_equal(itg_checkpoint_need(&checkpoint, "e", &shape, &why, &weight), ITG_ERROR_FORMAT);
  itg_checkpoint_free(&checkpoint);
}

static void damaged_safetensors_are_refused(void **state) {
  (void)state;
  assert_int_equal(try_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16), ITG_OK);
  static const struct {
    const char *header;
    size_t size;
    itg_status status;
  } cases[] = {
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 15, ITG_ERROR_FORMAT}, // Truncated.
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 17, ITG_ERROR_FORMAT}, // Something behind.
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,16]}}", 16, ITG_ERROR_FORMAT},
      {"{\"a\":{\"dtype\":\"F99\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16, ITG_ERROR_UNSUPPORTED},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", 16, ITG_ERROR_FORMAT},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", 16, ITG_ERROR_FORMAT},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0]}}", 16, ITG_ERROR_FORMAT},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", 16, ITG_ERROR_FORMAT},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,16]}}", 16, ITG_ERROR_FORMAT},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},\"b\":{\"dtype\":\"F32\",\"shape\":[4],"
       "\"data_offsets\":[0,16]}}",
       16, ITG_ERROR_FORMAT}, // Two tensors share bytes.
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", 16, ITG_ERROR_FORMAT}, // A gap.
      {"{\"a\":[1,2]}", 0, ITG_ERROR_FORMAT},
      {"{\"a\":{},\"a\":{}}", 0, ITG_ERROR_FORMAT},
      {"[]", 0, ITG_ERROR_FORMAT},
      {"{", 0, ITG_ERROR_FORMAT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_int_equal(try_header(cases[i].header, cases[i].size), cases[i].status);
  itg_checkpoint checkpoint;
  bytes b = {.size = 0};
  put_u64(&b, UINT64_C(1) << 40); // A header that asks for a terabyte.
  assert_int_equal(add(&b, &checkpoint), ITG_ERROR_LIMIT);
  b.size = 0;
  put_u64(&b, 1000);
  assert_int_equal(add(&b, &checkpoint), ITG_ERROR_FORMAT);
  b.size = 3;
  assert_int_equal(add(&b, &checkpoint), ITG_ERROR_FORMAT);
  // Deep nesting must not use up the stack.
  bytes deep = {.size = 8};
  memset(deep.data + 8, '[', 8000);
  deep.size = 8008;
  const uint64_t size = 8000;
  memcpy(deep.data, &size, 8);
  assert_int_equal(add(&deep, &checkpoint), ITG_ERROR_FORMAT);
}

// ---- folders ----

static char folder[64];
static void write_file(const char *name, const void *data, size_t size) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
}

static itg_status open_folder(void) {
  itg_checkpoint checkpoint = {0};
  const itg_status status = itg_safetensors_add_folder(&checkpoint, folder, &why);
  itg_checkpoint_free(&checkpoint);
  return status;
}

static void shards_must_be_there(void **state) {
  (void)state;
  strcpy(folder, "/tmp/itg-shards-XXXXXX");
  assert_non_null(mkdtemp(folder));
  const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  const bytes shard = safetensors(header, "\0\0\0\0", 4);
  write_file("one.safetensors", shard.data, shard.size);
  const char *good = "{\"weight_map\":{\"a\":\"one.safetensors\"}}";
  write_file("model.safetensors.index.json", good, strlen(good));
  assert_int_equal(open_folder(), ITG_OK);
  const char *missing = "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}";
  write_file("model.safetensors.index.json", missing, strlen(missing));
  assert_int_equal(open_folder(), ITG_ERROR_IO);
  assert_non_null(strstr(why.subject, "two.safetensors"));
  const char *elsewhere = "{\"weight_map\":{\"a\":\"../one.safetensors\"}}";
  write_file("model.safetensors.index.json", elsewhere, strlen(elsewhere));
  assert_int_equal(open_folder(), ITG_ERROR_FORMAT);
  const char *absent = "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"one.safetensors\"}}";
  write_file("model.safetensors.index.json", absent, strlen(absent));
  assert_int_equal(open_folder(), ITG_ERROR_FORMAT);
  assert_non_null(strstr(why.message, "tensor b"));
  write_file("model.safetensors.index.json", "{}", 2);
  assert_int_equal(open_folder(), ITG_ERROR_FORMAT);
  static const char *const names[] = {"model.safetensors.index.json", "one.safetensors"};
  for (int i = 0; i < 2; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  assert_int_equal(open_folder(), ITG_ERROR_IO); // Neither an index nor model.safetensors.
  rmdir(folder);
}

// ---- config.json ----

static const char llama[] = "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"vocab_size\":100,"
                            "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                            "\"eos_token_id\":[1,2],\"torch_dtype\":\"bfloat16\"%s}";

static itg_status config_with(const char *more, itg_language_config *out) {
  char text[2048];
  snprintf(text, sizeof text, llama, more);
  return itg_huggingface_config((itg_span){(uint8_t *)text, strlen(text)}, (itg_span){0}, &why, out);
}

static void descriptions_are_read_or_refused_by_name(void **state) {
  (void)state;
  itg_language_config config;
  assert_int_equal(config_with("", &config), ITG_OK);
  assert_true(config.head_size == 16 && config.eos_count == 2 && config.eos[1] == 2 && config.rope.theta == 10000);
  assert_int_equal(config_with(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":32.0,\"low_freq_factor\":1.0,"
                               "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192}",
                               &config),
                   ITG_OK);
  assert_int_equal(config.rope.kind, ITG_ROPE_LLAMA3);
  static const struct {
    const char *more, *named;
    itg_status status;
  } cases[] = {
      {",\"attention_multiplier\":2.0", "attention_multiplier", ITG_ERROR_UNSUPPORTED},
      {",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2.0}", "yarn", ITG_ERROR_UNSUPPORTED},
      {",\"hidden_act\":\"gelu\"", "gelu", ITG_ERROR_UNSUPPORTED},
      {",\"use_sliding_window\":true", "use_sliding_window", ITG_ERROR_UNSUPPORTED},
      {",\"quantization_config\":{}", "quantized", ITG_ERROR_UNSUPPORTED},
      {",\"layer_types\":[\"full_attention\",\"sliding_attention\"]", "sliding_attention", ITG_ERROR_UNSUPPORTED},
      {",\"head_dim\":\"16\"", "head_dim", ITG_ERROR_FORMAT},
      {",\"vocab_size\":-1", "vocab_size", ITG_ERROR_FORMAT},
      {",\"vocab_size\":99999999999", "vocab_size", ITG_ERROR_FORMAT},
      {",\"num_key_value_heads\":3", "heads", ITG_ERROR_UNSUPPORTED},
      {",\"bos_token_id\":100", "bos", ITG_ERROR_FORMAT}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(config_with(cases[i].more, &config), cases[i].status);
    assert_non_null(strstr(why.message, cases[i].named));
  }
  const char *other = "{\"model_type\":\"mamba\"}";
  assert_int_equal(
      itg_huggingface_config((itg_span){(const uint8_t *)other, strlen(other)}, (itg_span){0}, &why, &config),
      ITG_ERROR_UNSUPPORTED);
  assert_non_null(strstr(why.message, "mamba"));
}

// ---- GGUF ----

static bytes gguf_start(uint64_t tensors, uint64_t entries) {
  bytes b = {.size = 0};
  put(&b, "GGUF", 4);
  put_u32(&b, 3);
  put_u64(&b, tensors);
  put_u64(&b, entries);
  return b;
}

static itg_status read_gguf(const bytes *b) {
  uint8_t *copy = malloc(b->size + 1);
  memcpy(copy, b->data, b->size);
  itg_gguf gguf;
  const itg_status status = itg_gguf_read((itg_span){copy, b->size}, &why, &gguf);
  if (status == ITG_OK) itg_gguf_free(&gguf);
  free(copy);
  return status;
}

static bytes small_gguf(void) {
  bytes b = gguf_start(1, 3);
  put_text(&b, "general.architecture");
  put_u32(&b, ITG_GGUF_TEXT);
  put_text(&b, "llama");
  put_text(&b, "words");
  put_u32(&b, ITG_GGUF_ARRAY);
  put_u32(&b, ITG_GGUF_TEXT);
  put_u64(&b, 2);
  put_text(&b, "one");
  put_text(&b, "");
  put_text(&b, "numbers");
  put_u32(&b, ITG_GGUF_ARRAY);
  put_u32(&b, ITG_GGUF_S32);
  put_u64(&b, 2);
  put_u32(&b, 5);
  put_u32(&b, (uint32_t)-3);
  put_text(&b, "w");
  put_u32(&b, 2);
  put_u64(&b, 3);
  put_u64(&b, 2);
  put_u32(&b, ITG_BLOCK_F32);
  put_u64(&b, 0);
  while (b.size % 32) put(&b, "", 1);
  const float values[6] = {1, 2, 3, 4, 5, 6};
  put(&b, values, sizeof values);
  return b;
}

static void gguf_tables_are_read(void **state) {
  (void)state;
  const bytes b = small_gguf();
  itg_gguf gguf;
  assert_int_equal(itg_gguf_read((itg_span){b.data, b.size}, &why, &gguf), ITG_OK);
  itg_span text;
  assert_true(itg_gguf_text(itg_gguf_find(&gguf, "general.architecture"), &text) && itg_span_equals(text, "llama"));
  const itg_gguf_value *words = itg_gguf_find(&gguf, "words"), *numbers = itg_gguf_find(&gguf, "numbers");
  assert_true(words->count == 2 && itg_span_equals(words->texts[0], "one") && words->texts[1].size == 0);
  int64_t number;
  assert_true(itg_gguf_integer(numbers, 1, &number) && number == -3);
  assert_false(itg_gguf_integer(numbers, 2, &number));
  assert_null(itg_gguf_find(&gguf, "none"));
  assert_true(gguf.tensor_count == 1 && gguf.tensors[0].shape.dims[0] == 2 && gguf.tensors[0].shape.dims[1] == 3);
  assert_int_equal(gguf.data.size, 24);
  itg_gguf_free(&gguf);
}

static void damaged_gguf_is_refused(void **state) {
  (void)state;
  const bytes whole = small_gguf();
  for (size_t size = 0; size < whole.size - 24 - 32; size++) { // Any truncation within the tables.
    bytes cut = whole;
    cut.size = size;
    assert_int_equal(read_gguf(&cut), ITG_ERROR_FORMAT);
  }
  bytes b = whole;
  b.data[4] = 9;
  assert_int_equal(read_gguf(&b), ITG_ERROR_VERSION);
  b = whole;
  memcpy(b.data + 4, "\0\0\0\3", 4);
  assert_int_equal(read_gguf(&b), ITG_ERROR_UNSUPPORTED);
  b = gguf_start(UINT64_MAX, 0);
  assert_int_equal(read_gguf(&b), ITG_ERROR_LIMIT);
  b = gguf_start(1 << 17, 0); // More tensors than the file has bytes for.
  assert_int_equal(read_gguf(&b), ITG_ERROR_FORMAT);
  b = gguf_start(0, 1); // Lists of lists: the only way to go round in circles.
  put_text(&b, "a");
  put_u32(&b, ITG_GGUF_ARRAY);
  put_u32(&b, ITG_GGUF_ARRAY);
  put_u64(&b, 1);
  assert_int_equal(read_gguf(&b), ITG_ERROR_UNSUPPORTED);
  b = gguf_start(0, 1);
  put_text(&b, "a");
  put_u32(&b, ITG_GGUF_ARRAY);
  put_u32(&b, ITG_GGUF_TEXT);
  put_u64(&b, UINT64_MAX);
  assert_int_equal(read_gguf(&b), ITG_ERROR_LIMIT);
  b = gguf_start(0, 1);
  put_text(&b, "a");
  put_u32(&b, ITG_GGUF_ARRAY);
  put_u32(&b, ITG_GGUF_TEXT);
  put_u64(&b, 3000000); // Allowed, but not in so short a file.
  assert_int_equal(read_gguf(&b), ITG_ERROR_FORMAT);
  b = gguf_start(0, 1);
  put_text(&b, "a");
  put_u32(&b, ITG_GGUF_ARRAY);
  put_u32(&b, ITG_GGUF_F64);
  put_u64(&b, 4000000);
  assert_int_equal(read_gguf(&b), ITG_ERROR_FORMAT);
  b = gguf_start(0, 2); // A key twice.
  for (int i = 0; i < 2; i++) {
    put_text(&b, "a");
    put_u32(&b, ITG_GGUF_U8);
    put(&b, "x", 1);
  }
  assert_int_equal(read_gguf(&b), ITG_ERROR_FORMAT);
  b = gguf_start(0, 1);
  put_text(&b, "a");
  put_u32(&b, 13);
  assert_int_equal(read_gguf(&b), ITG_ERROR_FORMAT);
}

// ---- blocks: values written down by the formats' description ----

static void blocks_decode_to_their_values(void **state) {
  (void)state;
  float out[256];
  uint8_t q4_0[18] = {0x00, 0x38}; // 0.5
  for (int i = 0; i < 16; i++) q4_0[2 + i] = (uint8_t)(i | (15 - i) << 4);
  itg_block_decode_row(ITG_BLOCK_Q4_0, q4_0, 32, out);
  for (int i = 0; i < 16; i++) assert_true(out[i] == 0.5f * (float)(i - 8) && out[i + 16] == 0.5f * (float)(7 - i));
  uint8_t q4_1[20] = {0x00, 0x38, 0x00, 0xc0}; // 0.5, -2
  q4_1[4 + 3] = 0xa5;
  itg_block_decode_row(ITG_BLOCK_Q4_1, q4_1, 32, out);
  assert_true(out[0] == -2 && out[3] == 0.5f && out[19] == 3);
  uint8_t q8_0[34] = {0x00, 0x38};
  q8_0[2] = 0x80;
  q8_0[33] = 127;
  itg_block_decode_row(ITG_BLOCK_Q8_0, q8_0, 32, out);
  assert_true(out[0] == -64 && out[31] == 63.5f);
  // Q4_K: group 1 has scale 63 and minimum 1; group 5 has scale 0x2f and minimum 0x3e, whose upper bits lie elsewhere.
  uint8_t q4_k[144] = {0x00, 0x3c, 0x00, 0x38};
  q4_k[4 + 1] = 63 | (0x2f >> 4) << 6;
  q4_k[4 + 5] = 1 | (0x3e >> 4) << 6;
  q4_k[4 + 9] = (0x2f & 15) | (0x3e & 15) << 4;
  q4_k[16] = 0x70;      // Group 1, value 0: 7.
  q4_k[16 + 64] = 0x20; // Group 5, value 0: 2.
  itg_block_decode_row(ITG_BLOCK_Q4_K, q4_k, 256, out);
  assert_true(out[0] == 0 && out[32] == 63 * 7 - 0.5f && out[33] == -0.5f);
  assert_true(out[160] == 0x2f * 2 - 0x3e * 0.5f);
  // Q6_K: the second half's part 3 (high nibbles, bits 6 and 7), values 16..31, has scale -2.
  uint8_t q6_k[210] = {0};
  q6_k[208] = 0x00;
  q6_k[209] = 0x3c;
  q6_k[192 + 8 + 6 + 1] = (uint8_t)-2;
  q6_k[64 + 32 + 20] = 0x90;  // Nibble 9
  q6_k[128 + 32 + 20] = 0x80; // Upper bits 2
  itg_block_decode_row(ITG_BLOCK_Q6_K, q6_k, 256, out);
  assert_true(out[128 + 96 + 20] == -2.0f * (9 + 32 - 32) && out[128 + 96 + 21] == -2.0f * -32 && out[0] == 0);
  size_t size;
  assert_false(itg_block_row_bytes(ITG_BLOCK_Q4_K, 255, &size));
  assert_false(itg_block_row_bytes(ITG_BLOCK_UNKNOWN, 256, &size));
  assert_true(itg_block_row_bytes(ITG_BLOCK_Q6_K, 512, &size) && size == 420);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(safetensors_hold_floats),      cmocka_unit_test(damaged_safetensors_are_refused),
      cmocka_unit_test(shards_must_be_there),         cmocka_unit_test(descriptions_are_read_or_refused_by_name),
      cmocka_unit_test(gguf_tables_are_read),         cmocka_unit_test(damaged_gguf_is_refused),
      cmocka_unit_test(blocks_decode_to_their_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
