#!/usr/bin/env python3
"""A CLIP image tower in the shape of ViT-B/32 with made weights, in the layout of the Immich service: for speed and memory only.

  bench/make_clip.py FOLDER [--layers 12] [--width 768]      writes FOLDER/clip/ViT-B-32__made/visual/{model.onnx,preprocess_cfg.json}
"""
import argparse
import json
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    def __init__(self, seed=1):
        self.random, self.nodes, self.weights = np.random.default_rng(seed), [], []

    def weight(self, *shape, scale=None):
        value = self.random.standard_normal(shape, dtype=np.float32) * np.float32(scale if scale else shape[0] ** -0.5)
        return self.constant(value)

    def constant(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def linear(self, x, rows, columns):
        return self.node("Add", self.node("MatMul", x, self.weight(rows, columns)), self.constant(np.zeros(columns, np.float32)))

    def norm(self, x, width):
        return self.node("LayerNormalization", x, self.constant(np.ones(width, np.float32)), self.constant(np.zeros(width, np.float32)),
                         axis=-1, epsilon=1e-5)


def visual(layers, width, side=224, patch=32, dimension=512):
    b, heads, tokens = Builder(), width // 64, (side // patch) ** 2 + 1
    x = b.node("Conv", "image", b.weight(width, 3, patch, patch, scale=0.02), kernel_shape=[patch, patch], strides=[patch, patch])
    x = b.node("Transpose", b.node("Reshape", x, b.constant(np.array([1, width, tokens - 1], np.int64))), perm=[0, 2, 1])
    x = b.node("Concat", b.weight(1, 1, width, scale=0.1), x, axis=1)
    x = b.norm(b.node("Add", x, b.weight(1, tokens, width, scale=0.1)), width)
    split, merge = b.constant(np.array([1, tokens, heads, 64], np.int64)), b.constant(np.array([1, tokens, width], np.int64))
    for _ in range(layers):
        h = b.norm(x, width)
        q, k, v = (b.node("Reshape", b.linear(h, width, width), split) for _ in range(3))
        score = b.node("MatMul", b.node("Transpose", q, perm=[0, 2, 1, 3]), b.node("Transpose", k, perm=[0, 2, 3, 1]))
        score = b.node("Softmax", b.node("Mul", score, b.constant(np.float32(0.125))), axis=-1)
        mixed = b.node("Transpose", b.node("MatMul", score, b.node("Transpose", v, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3])
        x = b.node("Add", x, b.linear(b.node("Reshape", mixed, merge), width, width))
        h = b.linear(b.norm(x, width), width, 4 * width)
        h = b.node("Mul", h, b.node("Sigmoid", b.node("Mul", h, b.constant(np.float32(1.702)))))  # QuickGELU, as OpenAI trained it
        x = b.node("Add", x, b.linear(h, 4 * width, width))
    first = b.node("Gather", b.norm(x, width), b.constant(np.array(0, np.int64)), axis=1)
    e = b.node("MatMul", first, b.weight(width, dimension))
    b.nodes.append(helper.make_node("LpNormalization", [e], ["embedding"], axis=1, p=2))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, side, side])
    out = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, dimension])
    graph = helper.make_graph(b.nodes, "visual", [image], [out], b.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def make(folder, layers=12, width=768):
    place = os.path.join(folder, "clip", "ViT-B-32__made", "visual")
    os.makedirs(place, exist_ok=True)
    onnx.save(visual(layers, width), os.path.join(place, "model.onnx"))
    with open(os.path.join(place, "preprocess_cfg.json"), "w") as out:
        json.dump({"size": 224, "mode": "RGB", "mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711],
                   "interpolation": "bicubic", "resize_mode": "shortest", "fill_color": 0}, out)
    return os.path.join(place, "model.onnx")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    options = parser.parse_args()
    print(make(options.folder, options.layers, options.width))
