#!/usr/bin/env python3
"""What Immich's service answers with the built-in face models, computed with ONNX Runtime, OpenCV and Pillow.

  immich_reference.py MODELS_DIR TOOLS_DIR FOLDER

MODELS_DIR holds fr_detect.onnx, fr_landmark.onnx, fr_feature.onnx; TOOLS_DIR face_reference.py. For every NAME.body in FOLDER (a
multipart body; NAME.type holds its Content-Type) the expected answer is written to NAME.json, with the boxes before rounding as
"exactBox" and the raw numbers of the embedding as a list. Scores saturate near 1, so that two boxes of one face may tie but for
rounding: "twins" lists what else may stand in a face's place. As a module: Reference(models, tools).predict(entries, image).
"""
import email
import email.policy
import glob
import io
import json
import os
import sys

import cv2
import numpy as np
from PIL import Image

MAX_OVERLAP = 0.3
TIE = 1e-5


class Reference:
    def __init__(self, models, tools):
        sys.path.insert(0, tools)
        sys.dont_write_bytecode = True
        import face_reference

        self.tools = face_reference
        self.pipeline = face_reference.Pipeline(models)

    def detect(self, image, min_score):
        height, width = image.shape[:2]
        x = (cv2.resize(image, (320, 240)).astype(np.float32) - 127) / 128
        scores, boxes = self.pipeline.detector.run(None, {"input": x.transpose(2, 0, 1)[None]})
        score = scores[0, :, 1]
        box = boxes[0].astype(np.float64) * [width, height, width, height]
        order = [i for i in np.argsort(-score, kind="stable") if score[i] >= min_score and self.pixels(box[i], width, height)]
        kept = []
        for i in order:
            if all(self.overlap(box[i], box[k]) <= MAX_OVERLAP for k in kept):
                kept.append(i)
        twins = [[j for j in order if j != i and score[j] >= score[i] - TIE and self.overlap(box[i], box[j]) > MAX_OVERLAP] for i in kept]
        return [(float(score[i]), box[i], [(float(score[j]), box[j]) for j in t[:4]]) for i, t in zip(kept, twins)]

    @staticmethod
    def pixels(box, width, height):
        x1, y1, x2, y2 = max(0, int(box[0])), max(0, int(box[1])), min(width - 1, int(box[2])), min(height - 1, int(box[3]))
        return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None

    @staticmethod
    def overlap(a, b):
        w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
        if w <= 0 or h <= 0:
            return 0.0
        return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h)

    def embed(self, image, box):
        height, width = image.shape[:2]
        x1, y1, x2, y2 = self.pixels(box, width, height)
        grey = cv2.cvtColor(cv2.resize(image[y1:y2, x1:x2], (64, 64)), cv2.COLOR_RGB2GRAY).astype(np.float32) / 256
        p = self.pipeline.landmarks.run(None, {"input": grey[None, None]})[0].reshape(68, 2).astype(np.float64)
        p = p * [x2 - x1, y2 - y1] + [x1, y1]
        five = np.stack([p[36:42].mean(0), p[42:48].mean(0), p[30], p[48], p[54]])
        crop = cv2.warpAffine(image, self.tools.similarity_transform(five, self.tools.TEMPLATE), (112, 112))
        return self.pipeline.embed(crop)

    def face_of(self, image, score, box):
        return {"boundingBox": dict(zip(("x1", "y1", "x2", "y2"), np.round(box).tolist())), "exactBox": box.tolist(),
                "embedding": self.embed(image, box).tolist(), "score": score}

    def predict(self, entries, data):
        image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        options = entries["facial-recognition"]["detection"].get("options", {})
        found = self.detect(image, options.get("minScore", 0.7))
        faces = [dict(self.face_of(image, score, box), twins=[self.face_of(image, *twin) for twin in twins])
                 for score, box, twins in found]
        return {"facial-recognition": faces, "imageHeight": image.shape[0], "imageWidth": image.shape[1]}


def fields(content_type, body):
    message = email.message_from_bytes(b"Content-Type: " + content_type + b"\r\n\r\n" + body, policy=email.policy.HTTP)
    return {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in message.iter_parts()}


def main(models, tools, folder):
    reference = Reference(models, tools)
    for path in sorted(glob.glob(os.path.join(folder, "*.body"))):
        base = path[: -len(".body")]
        form = fields(open(base + ".type", "rb").read(), open(path, "rb").read())
        with open(base + ".json", "w") as out:
            json.dump(reference.predict(json.loads(form["entries"]), form["image"]), out)


if __name__ == "__main__":
    main(*sys.argv[1:4])
