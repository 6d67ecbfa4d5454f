// .npy files: what NumPy writes is read, what we write is what NumPy would write, and lies are refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tensor/npy.h"

static uint8_t buffer[4096];

// A file of version `major` with this header text and `size` bytes of values.
static itg_span make(int major, const char *header, const void *values, size_t size) {
  const size_t length = strlen(header), prefix = major > 1 ? 12 : 10;
  assert_true(prefix + length + size <= sizeof buffer);
  memcpy(buffer, "\x93NUMPY", 6);
  buffer[6] = (uint8_t)major;
  buffer[7] = 0;
  buffer[8] = (uint8_t)length;
  buffer[9] = (uint8_t)(length >> 8);
  buffer[10] = buffer[11] = 0;
  memcpy(buffer + prefix, header, length);
  if (size) memcpy(buffer + prefix + length, values, size);
  return (itg_span){buffer, prefix + length + size};
}

static void reads_each_version_and_type(void **state) {
  (void)state;
  itg_npy npy;
  const float floats[6] = {1, -2, 3.5f, 4, 5, 6};
  float out[6];
  for (int major = 1; major <= 3; major++) {
    const itg_span file = make(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", floats, 24);
    assert_int_equal(itg_npy_parse(file, NULL, NULL, &npy), ITG_OK);
    assert_int_equal(npy.dtype, ITG_DTYPE_F32);
    assert_int_equal(npy.shape.rank, 2);
    assert_int_equal(npy.shape.dims[1], 3);
    assert_int_equal(itg_npy_floats(&npy, 2, 4, NULL, out), ITG_OK);
    assert_memory_equal(out, floats + 2, 16);
    assert_int_equal(itg_npy_floats(&npy, 3, 4, NULL, out), ITG_ERROR_ARGUMENT);
  }
  const int64_t longs[2] = {-3, 1LL << 40};
  assert_int_equal(
      itg_npy_parse(make(1, "{\"shape\":(2,),'descr':'<i8','fortran_order':True}", longs, 16), NULL, NULL, &npy),
      ITG_OK);
  assert_int_equal(itg_npy_floats(&npy, 0, 2, NULL, out), ITG_OK);
  assert_true(out[0] == -3 && out[1] == 0x1p40f);
  const uint16_t halves[4] = {0x3c00, 0xc000, 0x0001, 0x7c00};
  assert_int_equal(
      itg_npy_parse(make(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }", halves, 8), NULL, NULL, &npy),
      ITG_OK);
  assert_int_equal(itg_npy_floats(&npy, 0, 4, NULL, out), ITG_OK);
  assert_true(out[0] == 1 && out[1] == -2 && out[2] == 0x1p-24f && isinf(out[3]));
  const uint8_t flag = 7;
  assert_int_equal(
      itg_npy_parse(make(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }", &flag, 1), NULL, NULL, &npy),
      ITG_OK);
  assert_int_equal(npy.shape.rank, 0);
  assert_int_equal(itg_npy_floats(&npy, 0, 1, NULL, out), ITG_OK);
  assert_true(out[0] == 1);
  assert_int_equal(
      itg_npy_parse(make(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 5), }", NULL, 0), NULL, NULL, &npy),
      ITG_OK);
  assert_int_equal(npy.count, 0);
}

static void refuses_what_it_cannot_read(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t values;
    itg_status status;
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9, ITG_ERROR_FORMAT},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, ITG_ERROR_UNSUPPORTED},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 8, ITG_ERROR_UNSUPPORTED},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8, ITG_ERROR_UNSUPPORTED},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", 8, ITG_ERROR_UNSUPPORTED},
      {"{'descr': '<f4', 'fortran_order': maybe, 'shape': (2,), }", 8, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", 8, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 2), }", 16, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 0, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", 0, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 4, ITG_ERROR_LIMIT},
      {"{'descr': '<f4', 'fortran_order': False, }", 4, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", 4, ITG_ERROR_FORMAT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", 4, ITG_ERROR_FORMAT},
      {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,), }", 4, ITG_ERROR_FORMAT},
      {"{'descr': '<f4", 0, ITG_ERROR_FORMAT},
      {"", 0, ITG_ERROR_FORMAT},
  };
  static const uint8_t zeros[64];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    itg_npy npy;
    itg_diagnostic why = {0};
    assert_int_equal(itg_npy_parse(make(1, cases[i].header, zeros, cases[i].values), "x.npy", &why, &npy),
                     cases[i].status);
    assert_true(why.message[0] != 0);
  }
  itg_npy npy;
  itg_span file = make(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", zeros, 4);
  for (size_t size = 0; size < file.size; size++)
    assert_int_not_equal(itg_npy_parse((itg_span){file.data, size}, NULL, NULL, &npy), ITG_OK);
  buffer[6] = 4;
  assert_int_equal(itg_npy_parse(file, NULL, NULL, &npy), ITG_ERROR_VERSION);
  buffer[6] = 2;
  buffer[11] = 1;
  assert_int_equal(itg_npy_parse(file, NULL, NULL, &npy), ITG_ERROR_LIMIT);
}

static void writes_what_numpy_writes(void **state) {
  (void)state;
  const char *path = "test_npy_written.npy";
  const int64_t dims[2] = {2, 3};
  const itg_shape shape = itg_shape_of(2, dims), row = itg_shape_of(1, dims + 1);
  const float values[6] = {0, 1, 2, 3, 4, 5};
  // numpy.save of the same array, 128 bytes of header.
  char expected[128 + 24];
  memset(expected, ' ', 128);
  memcpy(expected, "\x93NUMPY\x01\x00\x76\x00", 10);
  memcpy(expected + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 59);
  expected[127] = '\n';
  memcpy(expected + 128, values, 24);
  for (int by_row = 0; by_row < 2; by_row++) {
    if (by_row) {
      itg_npy_writer *writer = NULL;
      assert_int_equal(itg_npy_writer_create(path, ITG_DTYPE_F32, 2, &row, NULL, &writer), ITG_OK);
      assert_int_equal(itg_npy_writer_append(writer, values, NULL), ITG_OK);
      assert_int_equal(itg_npy_writer_append(writer, values + 3, NULL), ITG_OK);
      assert_int_equal(itg_npy_writer_append(writer, values, NULL), ITG_ERROR_ARGUMENT);
      assert_int_equal(itg_npy_writer_commit(writer, NULL), ITG_OK);
    } else {
      assert_int_equal(itg_npy_write(path, ITG_DTYPE_F32, &shape, values, NULL), ITG_OK);
    }
    itg_npy npy;
    assert_int_equal(itg_npy_open(path, NULL, &npy), ITG_OK);
    assert_int_equal(npy.file.bytes.size, sizeof expected);
    assert_memory_equal(npy.file.bytes.data, expected, sizeof expected);
    assert_memory_equal(npy.values, values, sizeof values);
    itg_npy_close(&npy);
    unlink(path);
  }
  itg_npy_writer *writer = NULL;
  assert_int_equal(itg_npy_writer_create(path, ITG_DTYPE_F32, 2, &row, NULL, &writer), ITG_OK);
  assert_int_equal(itg_npy_writer_commit(writer, NULL), ITG_ERROR_ARGUMENT);
  assert_int_not_equal(access(path, F_OK), 0);
  assert_int_equal(itg_npy_write(path, ITG_DTYPE_BF16, &shape, values, NULL), ITG_ERROR_ARGUMENT);
  assert_int_not_equal(access(path, F_OK), 0);
  itg_npy npy;
  assert_int_equal(itg_npy_open("no-such-file.npy", NULL, &npy), ITG_ERROR_IO);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reads_each_version_and_type),
                                     cmocka_unit_test(refuses_what_it_cannot_read),
                                     cmocka_unit_test(writes_what_numpy_writes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
