#!/usr/bin/env python3
"""Do integer detectors find what the float ones find? Intaglio and its peers on photographs, in one run.

  bench/detectors_accuracy.py [--models yolo rfb landmarks] [--only NAME..] [--json FILE]

yolo: nudenet's 320n (YOLOv8n type); rfb: the RFB-320 face detector; landmarks: 68 points of the faces that it finds.
Photographs: the shared faces and those of the cache; even ones calibrate, odd ones judge, as they are and mirrored. Counted are
float detections of score .5 that are found again with the same class and an IoU of .9; for landmarks the
root mean square error in % of the face's size (mean and largest of the faces).
"""
import argparse
import glob
import os
import tempfile

import numpy as np
from PIL import Image, ImageOps

import peers

MODELS = {"yolo": ("nudenet/320n.onnx", "images", (3, 320, 320)), "rfb": ("faceplugin/fr_detect.onnx", "input", (3, 240, 320)),
          "landmarks": ("faceplugin/fr_landmark.onnx", "input", (1, 64, 64))}
SCORE, IOU, SUPPRESS = 0.5, 0.9, 0.45


def photographs():
    cache = os.path.dirname(peers.MODELS)
    found = [glob.glob(os.path.join(folder, "**", "*." + kind), recursive=True)
             for folder in (os.path.join(peers.SHARED, "data", "faces"), cache) for kind in ("jpg", "png")]
    paths = [path for path in sorted(sum(found, [])) if f"{os.sep}python{os.sep}" not in path]
    images = [Image.open(path).convert("RGB") for path in paths]
    return [view for image in images if min(image.size) >= 100 for view in (image, ImageOps.mirror(image))]


def squash(image, width, height):
    return np.asarray(image.resize((width, height), Image.BILINEAR), np.float32).transpose(2, 0, 1)


def letterbox(image, side):
    ratio = side / max(image.size)
    canvas = Image.new("RGB", (side, side))
    canvas.paste(image.resize((max(1, round(image.width * ratio)), max(1, round(image.height * ratio))), Image.BILINEAR))
    return np.asarray(canvas, np.float32).transpose(2, 0, 1) / 255


def iou(a, b):
    size = np.maximum(0, np.minimum(a[2:], b[:, 2:]) - np.maximum(a[:2], b[:, :2]))
    common = size.prod(1)
    return common / ((a[2:] - a[:2]).prod() + (b[:, 2:] - b[:, :2]).prod(1) - common + 1e-12)


def suppress(boxes, scores, classes):
    kept = []
    for i in np.argsort(-scores):
        same = [k for k in kept if classes[k] == classes[i]]
        if not same or iou(boxes[i], boxes[same]).max() < SUPPRESS:
            kept.append(i)
    return boxes[kept], scores[kept], classes[kept]


def decode_yolo(answers, least):
    result = []
    for grid in answers["output0"]:
        scores, classes = grid[4:].max(0), grid[4:].argmax(0)
        wanted = scores >= least
        x, y, w, h = grid[:4, wanted]
        result.append(suppress(np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1), scores[wanted], classes[wanted]))
    return result


def decode_rfb(answers, least):
    result = []
    for scores, boxes in zip(answers["scores"][..., 1], answers["boxes"]):
        wanted = scores >= least
        result.append(suppress(boxes[wanted], scores[wanted], np.zeros(wanted.sum(), int)))
    return result


def found_again(got, want):
    """Detections of the integer model count from a slightly lower score on: the threshold itself is not what is judged."""
    found = total = 0
    for (boxes, _, classes), (wanted, _, wanted_classes) in zip(got, want):
        for box, kind in zip(wanted, wanted_classes):
            same = boxes[classes == kind]
            total += 1
            found += len(same) > 0 and iou(box, same).max() >= IOU
    return found / max(1, total), total


def face_crops(images):
    model, name, shape = MODELS["rfb"]
    data = {name: np.stack([(squash(image, shape[2], shape[1]) - 127) / 128 for image in images])}
    crops = []
    for image, (boxes, _, _) in zip(images, decode_rfb(peers.float_answers(os.path.join(peers.MODELS, model), data), 0.7)):
        for box in boxes:
            corners = [int(v * size) for v, size in zip(box, (image.width, image.height) * 2)]
            grey = image.crop(corners).convert("L").resize((64, 64), Image.BILINEAR)
            crops.append(np.asarray(grey, np.float32)[None] / 256)
    return np.stack(crops)


def samples(key, images):
    _, name, shape = MODELS[key]
    if key == "landmarks":
        return {name: face_crops(images)}
    if key == "yolo":
        return {name: np.stack([letterbox(image, shape[1]) for image in images])}
    return {name: np.stack([(squash(image, shape[2], shape[1]) - 127) / 128 for image in images])}


def judge(key, got, want):
    if key == "landmarks":
        # Points lie in 0..1 of the crop, which is the face.
        errors = np.sqrt(((got["output"] - want["output"]) ** 2).reshape(len(got["output"]), -1).mean(1))
        return 100 * errors.mean(), 100 * errors.max()
    decode = decode_yolo if key == "yolo" else decode_rfb
    share, total = found_again(decode(got, SCORE - 0.1), decode(want, SCORE))
    return 100 * share, total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    arguments = peers.arguments(parser)
    images = photographs()
    pairs = [images[i:i + 2] for i in range(0, len(images), 2)]
    calibrating, judging = sum(pairs[0::2], []), sum(pairs[1::2], [])
    table = peers.Table(["found % (error %)", "of boxes (largest %)"])
    for key in arguments.models:
        file, name, shape = MODELS[key]
        calibration, judged = samples(key, calibrating), samples(key, judging)
        with tempfile.TemporaryDirectory() as work:
            fixed = peers.fixed_model(os.path.join(peers.MODELS, file), {name: shape}, work)
            want = peers.float_answers(fixed, judged)
            for contestant, run in peers.contestants(fixed, calibration, work, arguments.only):
                answers = run(judged)
                got = {output: peers.output_of(answers, (output, values.shape)) for output, values in want.items()}
                table.add(f"{key} {contestant}", judge(key, got, want))
    peers.write_rows(table.lines, arguments.json)


if __name__ == "__main__":
    main()
