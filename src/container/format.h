// The .itg file format, version 1.0: this header is its specification (docs/FORMATS.md tells the story around it).
//
// All numbers are little-endian. The file is a header, a section table and sections; every section starts at a multiple of
// 64 bytes, everything between sections is zero, and nothing follows the last one. Section bodies are covered by the
// checksums of the table, the table by the header's, the header by its own. Strings are named by their byte offset in the
// STRINGS section, where each ends with a NUL; offset 0 is the empty string. Records refer to each other by index.
//
// Versions: another major is refused. A higher minor is read as long as every section that this build does not know has
// ITG_SECTION_OPTIONAL set. Attribute records may only grow at their end: a shorter one is filled up with zeros, a longer
// one is refused.
#ifndef ITG_CONTAINER_FORMAT_H
#define ITG_CONTAINER_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/attributes.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are used as they are in the file");

// The first byte is not ASCII and the rest catches line-ending conversion, as in PNG.
#define ITG_FILE_MAGIC "\x89ITG\r\n\x1a\n"
enum { ITG_FILE_MAJOR = 1, ITG_FILE_MINOR = 0, ITG_FILE_ALIGNMENT = 64 };

// Stated limits; a file beyond them is refused with ITG_ERROR_LIMIT.
enum {
  ITG_FILE_MAX_SECTIONS = 4096,
  ITG_FILE_MAX_TENSORS = 1 << 21,
  ITG_FILE_MAX_NODES = 1 << 20,
  ITG_FILE_MAX_OPERANDS = 1 << 23,
  ITG_FILE_MAX_STRINGS = 1 << 28, // Bytes.
  ITG_FILE_PIECE_BYTES = 1 << 28, // A piece of the constants, except one that holds a single larger constant.
};

typedef struct itg_file_header {
  char magic[8];
  uint16_t major, minor;
  uint32_t header_size;     // sizeof(itg_file_header)
  uint64_t file_size;       // Bytes; a file of any other size is truncated or has something appended.
  uint64_t table_offset;    // Of the section table; a multiple of 64.
  uint32_t section_count;   // Entries of the table.
  uint32_t entry_size;      // sizeof(itg_file_section)
  uint64_t table_checksum;  // XXH3-64 of the table.
  uint64_t reserved;        // 0
  uint64_t header_checksum; // XXH3-64 of the bytes before this field.
} itg_file_header;
static_assert(sizeof(itg_file_header) == 64, "file format");
static_assert(offsetof(itg_file_header, file_size) == 16 && offsetof(itg_file_header, table_checksum) == 40 &&
                  offsetof(itg_file_header, header_checksum) == 56,
              "file format");

// Section types. Each occurs exactly once and in this order, except CONSTANTS (pieces 0, 1, ..), METADATA and CONTEXT (any number).
enum {
  ITG_SECTION_STRINGS = 1,         // Bytes.
  ITG_SECTION_VARIANTS = 2,        // itg_file_variant[]
  ITG_SECTION_TENSORS = 3,         // itg_file_tensor[]
  ITG_SECTION_NODES = 4,           // itg_file_node[]
  ITG_SECTION_OPERANDS = 5,        // uint32_t[]: index of a tensor within its variant + 1; 0: absent.
  ITG_SECTION_ATTRIBUTES = 6,      // Attribute structs of graph/attributes.h, each at a multiple of 8.
  ITG_SECTION_ENCODINGS = 7,       // itg_file_encoding[]
  ITG_SECTION_SCALES = 8,          // double[]
  ITG_SECTION_ZERO_POINTS = 9,     // int32_t[]
  ITG_SECTION_CONSTANTS = 10,      // Dense row-major data, each constant at a multiple of 64, at most 256 MiB a piece.
  ITG_SECTION_METADATA = 11,       // A text (JSON), named by the entry; no NUL at its end.
  ITG_SECTION_CONTEXT = 12,        // Prepared for one NPU (npu/qnn/stored.h), named by the entry. Always OPTIONAL.
  ITG_SECTION_OPTIONAL = 1u << 31, // Flag in the type: readers that do not know the section skip it.
};
enum { ITG_SECTION_TABLES = 9 }; // Types 1..9 are single sections.

typedef struct itg_file_section {
  uint32_t type;
  uint32_t ordinal;  // CONSTANTS: number of the piece. METADATA, CONTEXT: number among its kind. Others 0.
  uint32_t name;     // METADATA, CONTEXT: string. Others 0.
  uint32_t reserved; // 0
  uint64_t offset;   // From the start of the file; a multiple of 64; sections lie in the order of the table.
  uint64_t size;     // Bytes, without the zeros that follow.
  uint64_t checksum; // XXH3-64 of the body.
} itg_file_section;
static_assert(sizeof(itg_file_section) == 40 && offsetof(itg_file_section, offset) == 16, "file format");

// One graph over the shared constants, with the key it is chosen by: 1 to 16 of them, no two with one role.
typedef struct itg_file_variant {
  uint32_t name;   // Of the graph.
  uint32_t target; // "" for any CPU; else the name of an accelerator whose encodings this graph has.
  uint32_t role;   // "" for the only graph of a model; else "vision", "decoder", ..
  uint32_t shape;  // "" or a key such as "ar128": which of several input sizes.
  uint32_t first_tensor, tensor_count; // Records of TENSORS.
  uint32_t first_node, node_count;     // Records of NODES, in topological order.
  uint32_t first_input, input_count;   // Operands: graph inputs and outputs in the source's order.
  uint32_t first_output, output_count;
  uint32_t arithmetic; // Arithmetic profile the accuracy was judged with: 0 native (docs/ARITHMETIC.md section 6).
  uint32_t reserved;   // 0
} itg_file_variant;
static_assert(sizeof(itg_file_variant) == 56, "file format");

enum { ITG_FILE_NO_PIECE = 0xffffffffu }; // `piece` of a tensor that is no constant.
typedef struct itg_file_tensor {
  uint32_t name;     // Unique within the variant, not empty.
  uint8_t dtype;     // itg_dtype
  uint8_t rank;      // 0..8
  uint16_t reserved; // 0
  uint32_t encoding; // Index + 1 of ENCODINGS; 0: none.
  uint32_t piece;    // Constants: ordinal of the piece.
  uint64_t offset;   // Constants: byte offset within the piece, a multiple of 64. Equal constants share their data.
  int64_t dims[ITG_MAX_RANK]; // Unused ones are 0.
} itg_file_tensor;
static_assert(sizeof(itg_file_tensor) == 88 && offsetof(itg_file_tensor, offset) == 16, "file format");

typedef struct itg_file_node {
  uint32_t op;                       // Number of graph/ops.def.
  uint32_t name;                     // Of the node; may repeat.
  uint32_t first_input, input_count; // Operands.
  uint32_t first_output, output_count;
  uint32_t attribute_offset, attribute_size; // In ATTRIBUTES; size 0 for none (offset 0).
} itg_file_node;
static_assert(sizeof(itg_file_node) == 32, "file format");

typedef struct itg_file_encoding {
  uint32_t storage;          // itg_dtype
  int32_t axis;              // -1: one scale a tensor.
  int64_t block;             // 0: none.
  uint64_t count;            // Number of scales.
  uint64_t first_scale;      // Of SCALES.
  uint64_t first_zero_point; // Of ZERO_POINTS; all ones: every zero point is 0.
} itg_file_encoding;
static_assert(sizeof(itg_file_encoding) == 40 && offsetof(itg_file_encoding, first_scale) == 24, "file format");

// Attribute structs of the operations that a LEGAL graph may hold, pinned: size and the offset of the last field. None has
// padding, so equal attributes are equal bytes.
#define ITG_PIN(type, last, offset, size) \
  static_assert(offsetof(type, last) == (offset) && sizeof(type) == (size), "file format: " #type)
ITG_PIN(itg_window, pad_end, 52, 64);
ITG_PIN(itg_pool_attributes, p, 84, 88);
ITG_PIN(itg_axis_attributes, flag, 4, 8);
ITG_PIN(itg_permutation_attributes, permutation, 0, 32);
ITG_PIN(itg_slice_attributes, step, 64, 128);
ITG_PIN(itg_pad_attributes, value, 136, 144);
ITG_PIN(itg_block_attributes, reserved, 12, 16);
ITG_PIN(itg_requantize_attributes, axes, 28, 32);
ITG_PIN(itg_q_conv_attributes, bound, 96, 104);
ITG_PIN(itg_q_add_attributes, high2, 24, 28);
ITG_PIN(itg_q_div_attributes, high, 16, 20);
ITG_PIN(itg_q_pool_attributes, high, 92, 96);
ITG_PIN(itg_q_table_attributes, error, 32, 40);
ITG_PIN(itg_q_softmax_attributes, high, 20, 24);
ITG_PIN(itg_q_norm_attributes, high, 20, 24);
ITG_PIN(itg_q_attention_attributes, score_scale, 56, 64);
#undef ITG_PIN

#endif
