// NumPy's .npy files, format versions 1.0, 2.0 and 3.0: dense arrays in C order.
//
// Source of the format: NumPy's documentation, "numpy.lib.format". The header (a Python dictionary literal) is parsed
// strictly: exactly the keys descr, fortran_order and shape, once each. Read: f4 f8 u1 u2 i1 i2 i4 i8 b1 and f2, u4, u8,
// little endian (or endian-free). Refused: Fortran order of more than one dimension, big endian, structured and object
// arrays, more than ITG_MAX_RANK dimensions, headers over 64 KiB.
#ifndef ITG_TENSOR_NPY_H
#define ITG_TENSOR_NPY_H

#include "base/file.h"
#include "base/span.h"
#include "base/status.h"
#include "tensor/dtype.h"

// An array inside bytes or a mapped file. Immutable; share freely.
typedef struct itg_npy {
  itg_dtype dtype;
  itg_shape shape;
  size_t count;          // Elements.
  const uint8_t *values; // `count` elements, little endian; borrowed from the bytes. Aligned to the element in files
                         // that NumPy wrote, but not in every valid file: read with memcpy or itg_npy_floats.
  itg_mapped_file file;  // Empty after itg_npy_parse.
} itg_npy;

// Reads an array from bytes, which are borrowed. Trailing bytes are an error. `subject` names the source in messages
// and may be NULL. Errors: FORMAT, VERSION, UNSUPPORTED (dtype or order), LIMIT (rank).
ITG_MUST_USE itg_status itg_npy_parse(itg_span bytes, const char *subject, itg_diagnostic *diagnostic, itg_npy *out);
// Maps a file. Errors: those above and IO.
ITG_MUST_USE itg_status itg_npy_open(const char *path, itg_diagnostic *diagnostic, itg_npy *out);
void itg_npy_close(itg_npy *npy);

// Elements [first, first + count) as f32: integers and f64 are rounded to the nearest float, bool gives 0 and 1.
// Errors: ARGUMENT (range).
ITG_MUST_USE itg_status itg_npy_floats(const itg_npy *npy, size_t first, size_t count, itg_diagnostic *diagnostic,
                                       float *out);

// Writes a version 1.0 file, whole or not at all. `values` are dense, in C order. dtype: any of the above but bf16 and
// s4. Errors: ARGUMENT (dtype), LIMIT (size), IO, MEMORY.
ITG_MUST_USE itg_status itg_npy_write(const char *path, itg_dtype dtype, const itg_shape *shape, const void *values,
                                      itg_diagnostic *diagnostic);

// Writing row after row, for results that do not fit in memory: the number of rows is known beforehand, `row` is the
// shape of one. One thread at a time.
typedef struct itg_npy_writer itg_npy_writer;
ITG_MUST_USE itg_status itg_npy_writer_create(const char *path, itg_dtype dtype, int64_t rows, const itg_shape *row,
                                              itg_diagnostic *diagnostic, itg_npy_writer **out);
ITG_MUST_USE itg_status itg_npy_writer_append(itg_npy_writer *writer, const void *row, itg_diagnostic *diagnostic);
// Finishes and frees. Fails with ARGUMENT when rows are missing; on any failure no file appears.
ITG_MUST_USE itg_status itg_npy_writer_commit(itg_npy_writer *writer, itg_diagnostic *diagnostic);
void itg_npy_writer_discard(itg_npy_writer *writer); // NULL is allowed.

#endif
