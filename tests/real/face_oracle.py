#!/usr/bin/env python3
"""The reference face pipeline (OpenCV + ONNX Runtime) on every photograph below a folder.

  face_oracle.py TOOLS_DIR MODELS_DIR FACES_DIR OUT_DIR

TOOLS_DIR holds face_reference.py. Writes crops.npy u8 [N,112,112,3] RGB and embeddings.npy f32 [N,512], and what its networks gave:
scores.npy [N,boxes,2], boxes.npy [N,boxes,4], landmarks.npy [N,136], all f32, in the order of the sorted paths.
"""
import glob
import os
import sys

import cv2
import numpy as np


def main(tools, models, faces, out):
    sys.path.insert(0, tools)
    sys.dont_write_bytecode = True
    import face_reference

    class Recorder:
        """A session that keeps the outputs of its runs."""

        def __init__(self, session):
            self.session, self.outputs = session, []

        def run(self, names, inputs):
            self.outputs.append(self.session.run(names, inputs))
            return self.outputs[-1]

    pipeline, crops = face_reference.Pipeline(models), []
    pipeline.detector, pipeline.landmarks = Recorder(pipeline.detector), Recorder(pipeline.landmarks)
    for path in sorted(glob.glob(os.path.join(faces, "*", "*.jpg"))):
        crops.append(pipeline.crop(cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)))
    arrays = {
        "crops": crops,
        "embeddings": [pipeline.embed(crop) for crop in crops],
        "scores": [scores[0] for scores, _ in pipeline.detector.outputs],
        "boxes": [boxes[0] for _, boxes in pipeline.detector.outputs],
        "landmarks": [outputs[0].reshape(-1) for outputs in pipeline.landmarks.outputs],
    }
    for name, rows in arrays.items():
        np.save(os.path.join(out, name + ".npy"), np.stack(rows))


if __name__ == "__main__":
    main(*sys.argv[1:5])
