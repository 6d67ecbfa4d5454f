#!/usr/bin/env python3
"""The reference face pipeline (OpenCV + ONNX Runtime) on every photograph below a folder.

  face_oracle.py TOOLS_DIR MODELS_DIR FACES_DIR OUT_DIR

TOOLS_DIR holds face_reference.py. Writes OUT_DIR/crops.npy u8 [N,112,112,3] RGB and OUT_DIR/embeddings.npy f32 [N,512], in the
order of the sorted paths.
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

    pipeline, crops = face_reference.Pipeline(models), []
    for path in sorted(glob.glob(os.path.join(faces, "*", "*.jpg"))):
        crops.append(pipeline.crop(cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)))
    np.save(os.path.join(out, "crops.npy"), np.stack(crops))
    np.save(os.path.join(out, "embeddings.npy"), np.stack([pipeline.embed(c) for c in crops]).astype(np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:5])
