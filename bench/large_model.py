#!/usr/bin/env python3
"""Inspects a synthetic ONNX model of 2 GiB and prints time and peak memory.

  bench/large_model.py [--intaglio build/release/intaglio] [--gigabytes 2]

The weights are a hole in a sparse file, so it takes no room on the disk.
"""
import argparse
import os
import resource
import subprocess
import tempfile
import time


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, payload):
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def value_info(name, dims):
    shape = b"".join(data(1, number(1, d)) for d in dims)
    return data(1, name) + data(2, data(1, number(1, 1) + data(2, shape)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--intaglio", default=os.path.join(os.path.dirname(__file__), "..", "build", "release", "intaglio"))
    parser.add_argument("--gigabytes", type=float, default=2.0)
    options = parser.parse_args()
    rows = int(options.gigabytes * 2**30) // (4 * 4096)
    size = rows * 4096 * 4
    node = data(1, b"x") + data(1, b"w") + data(2, b"y") + data(3, b"product") + data(4, b"MatMul")
    before = number(1, rows) + number(1, 4096) + number(2, 1) + data(8, b"w")  # dims, f32, name
    tensor_size = len(before) + len(varint(9 << 3 | 2) + varint(size)) + size
    head = data(1, node) + data(2, b"large") + varint(5 << 3 | 2) + varint(tensor_size) + before + varint(9 << 3 | 2) + varint(size)
    tail = data(11, value_info(b"x", [1, rows])) + data(12, value_info(b"y", [1, 4096]))
    graph_size = len(head) + size + len(tail)
    model = number(1, 8) + data(8, number(2, 17)) + varint(7 << 3 | 2) + varint(graph_size)
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model + head)
        file.seek(size, os.SEEK_CUR)
        file.write(tail)
        file.flush()
        start = time.time()
        process = subprocess.Popen([options.intaglio, "inspect", file.name])
        _, status, usage = os.wait4(process.pid, 0)
        print(f"{os.path.getsize(file.name) / 2**30:.2f} GiB inspected in {time.time() - start:.3f} s, "
              f"peak memory {usage.ru_maxrss / 1024:.1f} MB, status {status}")


if __name__ == "__main__":
    main()
