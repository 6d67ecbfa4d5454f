#!/usr/bin/env python3
"""Face detectors of SCRFD's layout with made weights, and what insightface's way of running them finds in photographs.

  scrfd_oracle.py OUT_DIR PHOTOGRAPH...

Writes OUT_DIR/flat.onnx (outputs [rows, columns], scores first) and OUT_DIR/batched.onnx ([1, rows, columns], level by level), and for
each <model>.bin: for every photograph the number of faces (int32), then for each face as float64 4 box sides, the score, 10 point
coordinates, and 112*112*3 bytes: the aligned crop. Suppression counts a box's area without adding 1, as Immich's server does.
"""
import os
import struct
import sys

import cv2
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

SIDE, STRIDES, MIN_SCORE, MAX_OVERLAP = 640, (8, 16, 32), 0.5, 0.4
TEMPLATE = np.array([[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]])


def make_model(path, random, batched):
    nodes, weights, outputs = [], [], {}

    def constant(name, values):
        weights.append(numpy_helper.from_array(values, name))
        return name

    def convolution(name, source, inputs, count, side, stride, gain, bias):
        w = (random.standard_normal((count, inputs, side, side)) * gain / np.sqrt(inputs * side * side)).astype(np.float32)
        nodes.append(helper.make_node("Conv", [source, constant(name + ".w", w), constant(name + ".b", bias.astype(np.float32))], [name],
                                      kernel_shape=[side, side], strides=[stride, stride]))
        return name

    features = convolution("stem", "input.1", 3, 16, 8, 8, 2.0, random.standard_normal(16))
    nodes.append(helper.make_node("Relu", [features], ["level8"]))
    for stride in STRIDES:
        if stride > 8:
            down = convolution("down%d" % stride, "level%d" % (stride // 2), 16, 16, 2, 2, 2.0, random.standard_normal(16))
            nodes.append(helper.make_node("Relu", [down], ["level%d" % stride]))
        for part, columns, gain, bias in (("score", 1, 3.0, np.full(2, -9.0)), ("box", 4, 0.5, random.uniform(2, 4, 8)),
                                          ("points", 10, 0.5, np.tile(TEMPLATE.ravel() / 28 - 2, 2))):
            name = "%s%d" % (part, stride)
            head = convolution(name + ".conv", "level%d" % stride, 16, 2 * columns, 1, 1, gain, bias)
            nodes.append(helper.make_node("Transpose", [head], [name + ".t"], perm=[0, 2, 3, 1]))
            shape = constant(name + ".shape", np.array(([1] if batched else []) + [-1, columns], np.int64))
            flat = name + ".flat" if part == "score" else name
            nodes.append(helper.make_node("Reshape", [name + ".t", shape], [flat]))
            if part == "score":
                nodes.append(helper.make_node("Sigmoid", [flat], [name]))
            dims = ([1] if batched else []) + [None, columns]
            outputs[name] = helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
    names = [p + str(s) for s in STRIDES for p in ("score", "box", "points")] if batched else \
            [p + str(s) for p in ("score", "box", "points") for s in STRIDES]
    graph = helper.make_graph(nodes, "scrfd", [helper.make_tensor_value_info("input.1", TensorProto.FLOAT, [1, 3, None, None])],
                              [outputs[n] for n in names], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8), path)


def similarity(source):
    ms, mt = source.mean(0), TEMPLATE.mean(0)
    s, t = source - ms, TEMPLATE - mt
    u, d, vt = np.linalg.svd(t.T @ s / len(s))
    sign = np.array([1.0, np.sign(np.linalg.det(u @ vt))])
    rotation = u @ np.diag(sign) @ vt
    scale = (d * sign).sum() / s.var(0).sum()
    return np.hstack([scale * rotation, (mt - scale * rotation @ ms)[:, None]])


def detect(session, image):
    """image: RGB."""
    height, width = image.shape[:2]
    if height / width > 1:
        new_height, new_width = SIDE, int(SIDE / (height / width))
    else:
        new_width, new_height = SIDE, int(SIDE * (height / width))
    scale = new_height / height
    canvas = np.zeros((SIDE, SIDE, 3), np.uint8)
    canvas[:new_height, :new_width] = cv2.resize(image, (new_width, new_height))
    blob = cv2.dnn.blobFromImage(canvas[:, :, ::-1], 1 / 128, (SIDE, SIDE), (127.5, 127.5, 127.5), swapRB=True)
    values = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"input.1": blob})))
    boxes, scores, points = [], [], []
    for stride in STRIDES:
        score, box, kps = (values[p + str(stride)].reshape(-1, c) for p, c in (("score", 1), ("box", 4), ("points", 10)))
        cells = SIDE // stride
        centre = np.stack(np.mgrid[:cells, :cells][::-1], -1).astype(np.float32)
        centre = np.stack([(centre * stride).reshape(-1, 2)] * 2, 1).reshape(-1, 2)
        box, kps = box * stride, kps * stride
        kept = np.where(score[:, 0] >= MIN_SCORE)[0]
        boxes.append(np.hstack([centre - box[:, :2], centre + box[:, 2:]])[kept])
        points.append((np.tile(centre, 5) + kps)[kept])
        scores.append(score[kept, 0])
    boxes, points, scores = np.vstack(boxes) / scale, np.vstack(points) / scale, np.concatenate(scores)
    if not len(scores):
        return []
    rectangles = [(float(b[0]), float(b[1]), float(b[2] - b[0]), float(b[3] - b[1])) for b in boxes.astype(np.float64)]
    order = cv2.dnn.NMSBoxes(rectangles, scores.tolist(), 0.0, MAX_OVERLAP)
    return [(boxes[i], scores[i], points[i]) for i in np.array(order).ravel()]


def main(out, photographs):
    random = np.random.default_rng(3)
    for name, batched in (("flat", False), ("batched", True)):
        path = os.path.join(out, name + ".onnx")
        make_model(path, random, batched)
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        total = 0
        with open(os.path.join(out, name + ".bin"), "wb") as file:
            for photograph in photographs:
                image = cv2.cvtColor(cv2.imread(photograph, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION), cv2.COLOR_BGR2RGB)
                faces = detect(session, image)
                total += len(faces)
                file.write(struct.pack("<i", len(faces)))
                for box, score, points in faces:
                    crop = cv2.warpAffine(image, similarity(points.reshape(5, 2).astype(np.float64)), (112, 112), borderValue=0.0)
                    file.write(struct.pack("<15d", *box, score, *points) + crop.tobytes())
        print(name, total, "faces in", len(photographs), "photographs")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
