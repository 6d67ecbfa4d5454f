// See npy.h. The header is a Python dictionary literal padded to a multiple of 64 bytes: a small strict parser reads it.
#include "tensor/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { MAX_HEADER = 65536, PREFIX = 10 };
static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

static const struct {
  const char *descr; // Without the byte order.
  itg_dtype dtype;
} types[] = {{"f4", ITG_DTYPE_F32}, {"f8", ITG_DTYPE_F64}, {"f2", ITG_DTYPE_F16}, {"u1", ITG_DTYPE_U8},
             {"i1", ITG_DTYPE_S8},  {"u2", ITG_DTYPE_U16}, {"i2", ITG_DTYPE_S16}, {"i4", ITG_DTYPE_S32},
             {"u4", ITG_DTYPE_U32}, {"i8", ITG_DTYPE_S64}, {"u8", ITG_DTYPE_U64}, {"b1", ITG_DTYPE_BOOL}};

typedef struct parser {
  const char *text;
  size_t size, position;
} parser;

static void skip_blanks(parser *p) {
  while (p->position < p->size && (p->text[p->position] == ' ' || p->text[p->position] == '\t')) p->position++;
}
static bool take(parser *p, char c) {
  skip_blanks(p);
  if (p->position >= p->size || p->text[p->position] != c) return false;
  p->position++;
  return true;
}
// A quoted string without escapes.
static bool take_string(parser *p, itg_span *out) {
  skip_blanks(p);
  if (p->position >= p->size || (p->text[p->position] != '\'' && p->text[p->position] != '"')) return false;
  const char quote = p->text[p->position++];
  const size_t start = p->position;
  while (p->position < p->size && p->text[p->position] != quote) {
    if (p->text[p->position] == '\\' || (unsigned char)p->text[p->position] < ' ') return false;
    p->position++;
  }
  if (p->position >= p->size) return false;
  *out = (itg_span){(const uint8_t *)p->text + start, p->position - start};
  p->position++;
  return true;
}
static bool take_word(parser *p, const char *word) {
  skip_blanks(p);
  const size_t length = strlen(word);
  if (p->size - p->position < length || memcmp(p->text + p->position, word, length) != 0) return false;
  p->position += length;
  return true;
}
static bool take_dimension(parser *p, int64_t *out) {
  skip_blanks(p);
  int64_t value = 0;
  const size_t start = p->position;
  while (p->position < p->size && p->text[p->position] >= '0' && p->text[p->position] <= '9') {
    if (!itg_checked_multiply_i64(value, 10, &value) || !itg_checked_add_i64(value, p->text[p->position] - '0', &value))
      return false;
    p->position++;
  }
  if (p->position == start) return false;
  if (p->position < p->size && p->text[p->position] == 'L') p->position++; // Written by Python 2.
  *out = value;
  return true;
}

static itg_status parse_descr(itg_span descr, const char *subject, itg_diagnostic *diagnostic, itg_dtype *out) {
  const size_t length = descr.size < 32 ? descr.size : 32;
  const char *text = (const char *)descr.data;
  if (descr.size == 3) {
    const bool is_byte = text[2] == '1';
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
      if (memcmp(types[i].descr, text + 1, 2) != 0) continue;
      if (text[0] == '<' || (is_byte && (text[0] == '|' || text[0] == '>' || text[0] == '='))) {
        *out = types[i].dtype;
        return ITG_OK;
      }
      if (text[0] == '>')
        ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, subject, "array is big endian ('%.*s'); save it little endian",
                 (int)length, text);
    }
  }
  ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, subject,
           "element type '%.*s' is not read; use float32, float64, float16, int8 .. int64, uint8 .. uint64 or bool",
           (int)length, text);
}

static itg_status parse_shape(parser *p, const char *subject, itg_diagnostic *diagnostic, itg_shape *out) {
  itg_shape shape = {0};
  if (!take(p, '(')) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header: shape is not a tuple");
  bool needs_comma = false, comma = false;
  while (!take(p, ')')) {
    int64_t dimension;
    if (needs_comma || !take_dimension(p, &dimension))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header: malformed shape");
    if (shape.rank == ITG_MAX_RANK)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, subject, "array has more than %d dimensions", ITG_MAX_RANK);
    shape.dims[shape.rank++] = dimension;
    comma = take(p, ',');
    needs_comma = !comma;
  }
  if (shape.rank == 1 && !comma) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header: malformed shape");
  *out = shape;
  return ITG_OK;
}

static itg_status parse_header(parser *p, const char *subject, itg_diagnostic *diagnostic, itg_npy *npy) {
  enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
  int seen = 0;
  bool fortran = false, first = true;
  if (!take(p, '{')) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header is not a dictionary");
  while (!take(p, '}')) {
    itg_span key, descr;
    if (!first && !take(p, ',')) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header: ',' expected");
    if (!first && take(p, '}')) break;
    first = false;
    if (!take_string(p, &key) || !take(p, ':'))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header: key expected");
    int bit = 0;
    if (itg_span_equals(key, "descr")) {
      bit = DESCR;
      if (take(p, '[') || take(p, '('))
        ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, subject, "structured arrays are not read; save a plain array");
      if (!take_string(p, &descr)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header: malformed descr");
      ITG_TRY(parse_descr(descr, subject, diagnostic, &npy->dtype));
    } else if (itg_span_equals(key, "fortran_order")) {
      bit = ORDER;
      fortran = take_word(p, "True");
      if (!fortran && !take_word(p, "False"))
        ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header: fortran_order is neither True nor False");
    } else if (itg_span_equals(key, "shape")) {
      bit = SHAPE;
      ITG_TRY(parse_shape(p, subject, diagnostic, &npy->shape));
    }
    if (!bit || seen & bit) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header: unknown or repeated key");
    seen |= bit;
  }
  skip_blanks(p);
  if (p->position < p->size && p->text[p->position] == '\n') p->position++;
  skip_blanks(p);
  if (p->position != p->size) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header: text after the dictionary");
  if (seen != ALL) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy header lacks descr, fortran_order or shape");
  if (fortran && npy->shape.rank > 1)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, subject,
             "array is in Fortran order; save numpy.ascontiguousarray(array)");
  return ITG_OK;
}

itg_status itg_npy_parse(itg_span bytes, const char *subject, itg_diagnostic *diagnostic, itg_npy *out) {
  itg_npy npy = {0};
  if (bytes.size < PREFIX || memcmp(bytes.data, magic, sizeof magic) != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "not a .npy file (its first bytes are wrong)");
  const int major = bytes.data[6], minor = bytes.data[7];
  if (major < 1 || major > 3 || minor != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_VERSION, subject, ".npy format version %d.%d; 1.0 to 3.0 are read", major, minor);
  size_t header = bytes.data[8] | (size_t)bytes.data[9] << 8, prefix = PREFIX;
  if (major > 1) {
    prefix += 2;
    if (bytes.size < prefix) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy file is cut off in its header");
    header |= (size_t)bytes.data[10] << 16 | (size_t)bytes.data[11] << 24;
  }
  if (header > MAX_HEADER)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, subject, ".npy header of %zu bytes; at most %d are read", header, MAX_HEADER);
  itg_span text, values;
  if (!itg_span_cut(bytes, prefix, header, &text))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy file is cut off in its header");
  parser p = {(const char *)text.data, text.size, 0};
  ITG_TRY(parse_header(&p, subject, diagnostic, &npy));
  size_t size;
  if (!itg_shape_count(&npy.shape, &npy.count) || !itg_shape_bytes(&npy.shape, npy.dtype, &size))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "array size overflows");
  if (!itg_span_cut(bytes, prefix + header, size, &values))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, ".npy file is cut off: %zu bytes of values, %zu expected",
             bytes.size - prefix - header, size);
  if (values.size != bytes.size - prefix - header)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "%zu bytes follow the array's values",
             bytes.size - prefix - header - size);
  npy.values = values.data;
  *out = npy;
  return ITG_OK;
}

itg_status itg_npy_open(const char *path, itg_diagnostic *diagnostic, itg_npy *out) {
  itg_mapped_file file;
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  itg_npy npy;
  const itg_status status = itg_npy_parse(file.bytes, path, diagnostic, &npy);
  if (status != ITG_OK) {
    itg_mapped_file_close(&file);
    return status;
  }
  npy.file = file;
  *out = npy;
  return ITG_OK;
}

void itg_npy_close(itg_npy *npy) {
  itg_mapped_file_close(&npy->file);
  *npy = (itg_npy){0};
}

static float float_of_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
  uint32_t bits;
  if (exponent == 31) {
    bits = 0x7f800000 | fraction << 13;
  } else if (exponent) {
    bits = (exponent + 112) << 23 | fraction << 13;
  } else {
    const float value = (float)fraction * 0x1p-24f;
    memcpy(&bits, &value, sizeof bits);
  }
  bits |= sign;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

itg_status itg_npy_floats(const itg_npy *npy, size_t first, size_t count, itg_diagnostic *diagnostic, float *out) {
  if (first > npy->count || count > npy->count - first)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "elements %zu .. %zu of an array of %zu", first, first + count,
             npy->count);
  if (!count) return ITG_OK;
  const uint8_t *values = npy->values + first * itg_dtype_size(npy->dtype);
  if (npy->dtype == ITG_DTYPE_F32) {
    memcpy(out, values, count * sizeof *out);
    return ITG_OK;
  }
#define CONVERT(tag, type, expression)                         \
  case tag:                                                    \
    for (size_t i = 0; i < count; i++) {                       \
      type value;                                              \
      memcpy(&value, values + i * sizeof value, sizeof value); \
      out[i] = (float)(expression);                            \
    }                                                          \
    return ITG_OK
  switch (npy->dtype) {
    CONVERT(ITG_DTYPE_F64, double, value);
    CONVERT(ITG_DTYPE_F16, uint16_t, float_of_half(value));
    CONVERT(ITG_DTYPE_U8, uint8_t, value);
    CONVERT(ITG_DTYPE_S8, int8_t, value);
    CONVERT(ITG_DTYPE_U16, uint16_t, value);
    CONVERT(ITG_DTYPE_S16, int16_t, value);
    CONVERT(ITG_DTYPE_S32, int32_t, value);
    CONVERT(ITG_DTYPE_U32, uint32_t, value);
    CONVERT(ITG_DTYPE_S64, int64_t, value);
    CONVERT(ITG_DTYPE_U64, uint64_t, value);
    CONVERT(ITG_DTYPE_BOOL, uint8_t, value != 0);
  default: break;
  }
#undef CONVERT
  ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "an array of %s has no float values", itg_dtype_name(npy->dtype));
}

struct itg_npy_writer {
  itg_output_file *file;
  size_t row_bytes;
  int64_t rows, written;
};

static itg_status write_header(itg_output_file *file, itg_dtype dtype, const itg_shape *shape,
                               itg_diagnostic *diagnostic) {
  const char *descr = NULL;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (types[i].dtype == dtype) descr = types[i].descr;
  if (!descr) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "%s cannot be written as .npy", itg_dtype_name(dtype));
  char dimensions[ITG_MAX_RANK * 24] = "", text[512];
  size_t used = 0;
  for (int i = 0; i < shape->rank; i++)
    used += (size_t)snprintf(dimensions + used, sizeof dimensions - used, "%s%lld%s", i ? ", " : "",
                             (long long)shape->dims[i], shape->rank == 1 ? "," : "");
  // NumPy pads with spaces and ends with a newline, so that the values start at a multiple of 64 bytes.
  const int length =
      snprintf(text + PREFIX, sizeof text - PREFIX, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }",
               itg_dtype_size(dtype) == 1 ? '|' : '<', descr, dimensions);
  const size_t total = itg_align_up(PREFIX + (size_t)length + 1, 64), header = total - PREFIX;
  memset(text + PREFIX + length, ' ', header - (size_t)length - 1);
  text[total - 1] = '\n';
  memcpy(text, magic, sizeof magic);
  text[6] = 1;
  text[7] = 0;
  text[8] = (char)(header & 255);
  text[9] = (char)(header >> 8);
  return itg_output_file_write(file, text, total, diagnostic);
}

itg_status itg_npy_write(const char *path, itg_dtype dtype, const itg_shape *shape, const void *values,
                         itg_diagnostic *diagnostic) {
  size_t size;
  if (!itg_shape_bytes(shape, dtype, &size)) ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, path, "array size overflows");
  itg_output_file *file = NULL;
  ITG_TRY(itg_output_file_create(path, diagnostic, &file));
  itg_status status = write_header(file, dtype, shape, diagnostic);
  if (status == ITG_OK) status = itg_output_file_write(file, values, size, diagnostic);
  if (status == ITG_OK) return itg_output_file_commit(file, diagnostic);
  itg_output_file_discard(file);
  return status;
}

itg_status itg_npy_writer_create(const char *path, itg_dtype dtype, int64_t rows, const itg_shape *row,
                                 itg_diagnostic *diagnostic, itg_npy_writer **out) {
  if (row->rank >= ITG_MAX_RANK || row->rank < 0 || rows < 0)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, path, "rows of %d dimensions", row->rank);
  itg_shape shape = {.rank = row->rank + 1, .dims = {rows}};
  memcpy(shape.dims + 1, row->dims, (size_t)row->rank * sizeof row->dims[0]);
  size_t total, row_bytes;
  if (!itg_shape_bytes(row, dtype, &row_bytes) || !itg_shape_bytes(&shape, dtype, &total))
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, path, "array size overflows");
  itg_npy_writer *writer = calloc(1, sizeof *writer);
  ITG_TRY_MEMORY(writer, diagnostic);
  writer->rows = rows;
  writer->row_bytes = row_bytes;
  itg_status status = itg_output_file_create(path, diagnostic, &writer->file);
  if (status == ITG_OK) status = write_header(writer->file, dtype, &shape, diagnostic);
  if (status != ITG_OK) {
    itg_npy_writer_discard(writer);
    return status;
  }
  *out = writer;
  return ITG_OK;
}

itg_status itg_npy_writer_append(itg_npy_writer *writer, const void *row, itg_diagnostic *diagnostic) {
  if (writer->written == writer->rows)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "more than the announced %lld rows", (long long)writer->rows);
  ITG_TRY(itg_output_file_write(writer->file, row, writer->row_bytes, diagnostic));
  writer->written++;
  return ITG_OK;
}

itg_status itg_npy_writer_commit(itg_npy_writer *writer, itg_diagnostic *diagnostic) {
  if (writer->written != writer->rows) {
    const long long written = writer->written, rows = writer->rows;
    itg_npy_writer_discard(writer);
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "%lld rows written, %lld announced", written, rows);
  }
  itg_output_file *file = writer->file;
  free(writer);
  return itg_output_file_commit(file, diagnostic);
}

void itg_npy_writer_discard(itg_npy_writer *writer) {
  if (!writer) return;
  itg_output_file_discard(writer->file);
  free(writer);
}
