#!/usr/bin/env python3
"""Prepares picture encoders of the sizes people use, with made-up weights, for NPUs: time, memory, operations.

  bench/npu_encoders.py [--models vit-b-32,siglip-so400m] [--targets qcs6490,sm8750] [--precision a8w8+s16] [--work DIR]

The networks are written as ONNX (external data) the way exporters do: patch convolution, LayerNorm, attention, GELU. One
made-up picture calibrates: shapes, operations and sizes are those of the real encoders, the weights are not.
"""
import argparse
import json
import os
import resource
import subprocess
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# pixels, patch, width, layers, heads, hidden, class token, GELU
SHAPES = {
    "vit-b-32": (224, 32, 768, 12, 12, 3072, True, "quick"),
    "siglip-so400m": (378, 14, 1152, 27, 16, 4304, False, "tanh"),
    "small": (64, 16, 64, 2, 4, 128, True, "quick"),
}


class Writer:
    def __init__(self, folder):
        self.nodes, self.initializers, self.random, self.folder, self.offset = [], [], np.random.default_rng(1), folder, 0
        self.file = open(os.path.join(folder, "weights.bin"), "wb")

    def weight(self, name, *shape, scale=None, centre=0.0):
        scale = scale if scale is not None else 1 / np.sqrt(shape[0] if len(shape) == 2 else np.prod(shape[1:]))
        values = (centre + scale * self.random.standard_normal(shape, dtype=np.float32)).astype(np.float32)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "weights.bin"), ("offset", self.offset), ("length", values.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self.file.write(values.tobytes())
        self.offset += values.nbytes
        self.initializers.append(tensor)
        return name

    def constant(self, name, values):
        self.initializers.append(onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def linear(self, x, name, inputs, outputs):
        product = self.node("MatMul", [x, self.weight(name + ".w", inputs, outputs)], name + ".product")
        return self.node("Add", [product, self.weight(name + ".b", outputs, scale=.02)], name)

    def norm(self, x, name, width):
        return self.node("LayerNormalization", [x, self.weight(name + ".g", width, scale=.1, centre=1),
                                                self.weight(name + ".b", width, scale=.1)], name, axis=-1, epsilon=1e-5)


def write(name, folder):
    pixels, patch, width, layers, heads, hidden, has_class, activation = SHAPES[name]
    w = Writer(folder)
    side = pixels // patch
    tokens = side * side + has_class
    x = w.node("Conv", ["pixels", w.weight("patch.w", width, 3, patch, patch), w.weight("patch.b", width, scale=.02)], "patch",
               kernel_shape=[patch, patch], strides=[patch, patch])
    x = w.node("Reshape", [x, w.constant("flat", np.array([1, width, side * side]))], "rows")
    x = w.node("Transpose", [x], "tokens", perm=[0, 2, 1])
    if has_class:
        x = w.node("Concat", [w.weight("class", 1, 1, width, scale=.5), x], "with_class", axis=1)
    x = w.node("Add", [x, w.weight("positions", 1, tokens, width, scale=.2)], "positioned")
    if has_class:
        x = w.norm(x, "first_norm", width)
    w.constant("split", np.array([1, tokens, heads, width // heads]))
    w.constant("join", np.array([1, tokens, width]))
    w.constant("scale", np.float32((width // heads) ** -.5))
    for i in range(layers):
        p = f"layer{i}."
        n = w.norm(x, p + "norm1", width)
        parts = []
        for part, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            y = w.linear(n, p + part, width, width)
            y = w.node("Reshape", [y, "split"], p + part + ".heads")
            parts.append(w.node("Transpose", [y], p + part + ".moved", perm=perm))
        q = w.node("Mul", [parts[0], "scale"], p + "scaled")
        scores = w.node("MatMul", [q, parts[1]], p + "scores")
        mixed = w.node("MatMul", [w.node("Softmax", [scores], p + "softmax", axis=-1), parts[2]], p + "mixed")
        mixed = w.node("Reshape", [w.node("Transpose", [mixed], p + "back", perm=[0, 2, 1, 3]), "join"], p + "joined")
        x = w.node("Add", [x, w.linear(mixed, p + "out", width, width)], p + "sum1")
        y = w.linear(w.norm(x, p + "norm2", width), p + "up", width, hidden)
        if activation == "quick":
            w.constant(p + "factor", np.float32(1.702))
            y = w.node("Mul", [y, w.node("Sigmoid", [w.node("Mul", [y, p + "factor"], p + "times")], p + "gate")], p + "gelu")
        else:
            y = w.node("Gelu", [y], p + "gelu", approximate="tanh")
        x = w.node("Add", [x, w.linear(y, p + "down", hidden, width)], p + "sum2")
    x = w.norm(x, "last_norm", width)
    x = w.node("ReduceMean", [x, w.constant("axes", np.array([1]))], "features", keepdims=0)
    graph = helper.make_graph(w.nodes, name, [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [1, 3, pixels, pixels])],
                              [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, width])], w.initializers)
    w.file.close()
    path = os.path.join(folder, "model.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    np.save(os.path.join(folder, "pixels.npy"), w.random.uniform(-1, 1, (1, 3, pixels, pixels)).astype(np.float32))
    return path, w.offset


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="vit-b-32,siglip-so400m")
    parser.add_argument("--targets", default="qcs6490,sm8750")
    parser.add_argument("--precision", default="a8w8+s16")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--intaglio", default=os.path.join(ROOT, "build", "release", "intaglio"))
    options = parser.parse_args()
    print("| network | precision | float MB | target | on the NPU | operations | context MB | VTCM MB | prepare s | prepare peak MB | "
          "compile s | compile peak MB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name in options.models.split(","):
        folder = os.path.join(options.work, "encoder_" + name)
        os.makedirs(folder, exist_ok=True)
        model, size = write(name, folder)
        command = [options.intaglio, "compile", model, "-o", os.path.join(folder, "model.itg"), "-p", options.precision, "--target",
                   options.targets, "-c", "pixels=" + os.path.join(folder, "pixels.npy"), "--allow-collapse", "--json", "-q"]
        start = time.time()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate()
        seconds = time.time() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        if process.returncode:
            print(f"| {name} | {options.precision} | {size / 1e6:.0f} | {err.decode().strip().splitlines()[-1]} |", flush=True)
            continue
        for p in json.loads(out)["placements"]:
            vtcm = 2 if p["target"] in ("qcs6490", "qcm6490", "sm7325") else 8
            print(f"| {name} | {options.precision} | {size / 1e6:.0f} | {p['target']} | {p['nodes_on_npu']} of {p['nodes']} | "
                  f"{p['operations']} | {p['context_bytes'] / 1e6:.0f} | {vtcm} | {p['prepare_seconds']:.1f} | "
                  f"{p['prepare_peak_bytes'] / 1e6:.0f} | {seconds:.0f} | {peak:.0f} |", flush=True)
            for node in p["on_cpu"]:
                print(f"  on the CPU: {node['name']} ({node['op']}): {node['reason']}", flush=True)


if __name__ == "__main__":
    main()
