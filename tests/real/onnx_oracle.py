#!/usr/bin/env python3
"""Writes a model's inputs and ONNX Runtime's outputs as .npy files, for tests that compare with them.

usage: onnx_oracle.py MODEL FOLDER KIND [SEED] [NAME=DxDxD ...]

KIND says what realistic inputs are:
  signed   smooth image-like noise in [-1, 1] (models that take (x - 127)/128 or mean/std-normalised pixels)
  unit     the same in [0, 1]
  page     black text on white in [-1, 1] (text detection and recognition)
  text     token ids (inputs whose name holds "ids" or "input") and an all-ones mask
  any      standard normal numbers; integers in 0..9; booleans
FOLDER receives input_<i>.npy, output_<i>.npy (in the model's order) and time.txt: the least time of several runs with
one thread, in milliseconds.
"""
import os
import sys
import time

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFont


def smooth(shape, generator):
    """Noise with structure at several scales, in [-1, 1]: activations then look like those of a photograph."""
    total = np.zeros(shape)
    height, width = shape[-2:]
    for cells in (2, 5, 11, 31):
        coarse = generator.standard_normal(shape[:-2] + (cells, cells))
        rows = np.linspace(0, cells - 1, height).round().astype(int)
        columns = np.linspace(0, cells - 1, width).round().astype(int)
        total += coarse[..., rows, :][..., columns]
    return np.tanh(total / 2)


def page(shape, generator):
    """Lines of text that fill the picture; one line when it is low."""
    height, width = shape[-2:]
    image = Image.new("RGB", (width, height), "white")
    size = 28
    for top in range(6, max(7, height - size), 56):
        text = "".join(generator.choice(list("INTEGER only networks 0123456789")) for _ in range(width // 14))
        ImageDraw.Draw(image).text((8, top), text, fill="black", font=ImageFont.load_default(size))
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1) / 127.5 - 1
    return np.broadcast_to(pixels, shape)


def make_input(info, shape, kind, generator):
    name, kind_of_type = info.name, info.type
    if "float" in kind_of_type or "double" in kind_of_type:
        dtype = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}[kind_of_type]
        if kind == "page":
            return page(shape, generator).astype(dtype)
        if kind in ("signed", "unit") and len(shape) >= 3:
            values = smooth(shape, generator)
            return ((values + 1) / 2 if kind == "unit" else values).astype(dtype)
        return generator.standard_normal(shape).astype(dtype)
    if kind_of_type == "tensor(bool)":
        return generator.integers(0, 2, shape).astype(bool)
    dtype = np.dtype(kind_of_type[7:-1])
    if kind == "text":
        return np.ones(shape, dtype) if "mask" in name else generator.integers(1000, 20000, shape).astype(dtype)
    return generator.integers(0, 10, shape).astype(dtype)


def main():
    model, folder, kind = sys.argv[1:4]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    given = dict(argument.split("=") for argument in sys.argv[5:])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Some models hold thousands of subnormal weights, which would dominate the time.
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(seed)
    feed = {}
    os.makedirs(folder, exist_ok=True)
    for i, info in enumerate(session.get_inputs()):
        if info.name in given:
            shape = tuple(int(d) for d in given[info.name].split("x"))
        else:
            shape = tuple(d if isinstance(d, int) and d > 0 else 1 for d in info.shape)
        feed[info.name] = make_input(info, shape, kind, generator)
        np.save(os.path.join(folder, f"input_{i}.npy"), np.ascontiguousarray(feed[info.name]))
    for i, value in enumerate(session.run(None, feed)):
        np.save(os.path.join(folder, f"output_{i}.npy"), np.ascontiguousarray(value))
    best = float("inf")
    begin = time.perf_counter()
    while time.perf_counter() - begin < 1.0:
        start = time.perf_counter()
        session.run(None, feed)
        best = min(best, time.perf_counter() - start)
    with open(os.path.join(folder, "time.txt"), "w") as file:
        file.write(f"{best * 1000:.4f}\n")


if __name__ == "__main__":
    main()
