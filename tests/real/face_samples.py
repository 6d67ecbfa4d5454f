#!/usr/bin/env python3
"""Aligned crops of every photograph below a folder as inputs of the face embedder.

  face_samples.py TOOLS_DIR MODELS_DIR FACES_DIR OUT_DIR

TOOLS_DIR holds face_reference.py. Writes inputs.npy f32 [N,3,112,112] (BGR, (x-127)/128) and person.npy s32 [N], in the order of the
sorted paths.
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

    pipeline = face_reference.Pipeline(models)
    paths = sorted(glob.glob(os.path.join(faces, "*", "*.jpg")))
    crops = np.stack([pipeline.crop(cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)) for path in paths])
    inputs = (crops[:, :, :, ::-1].astype(np.float32) - 127) / 128
    np.save(os.path.join(out, "inputs.npy"), np.ascontiguousarray(inputs.transpose(0, 3, 1, 2)))
    people = [os.path.basename(os.path.dirname(path)) for path in paths]
    np.save(os.path.join(out, "person.npy"), np.array([sorted(set(people)).index(p) for p in people], np.int32))


if __name__ == "__main__":
    main(*sys.argv[1:5])
