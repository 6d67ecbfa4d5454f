#!/usr/bin/env python3
"""Writes tests/unit/image_golden.inc: what OpenCV 5 and Pillow 13 make of small pseudo-random pictures, as checksums.

  make_image_golden.py > image_golden.inc

The pictures come from the generator in test_image_resize.c, so that the C test needs no files.
"""
import cv2
import numpy as np
from PIL import Image


def picture(width, height, channels, seed):
    state, out = seed, np.empty(width * height * channels, np.uint8)
    for i in range(out.size):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = state >> 24
    return out.reshape((height, width, channels) if channels > 1 else (height, width))


def checksum(pixels):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in np.ascontiguousarray(pixels).tobytes():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


PILLOW = [Image.NEAREST, Image.BOX, Image.BILINEAR, Image.HAMMING, Image.BICUBIC, Image.LANCZOS]
SIZES = [(1, 1, 3, 2), (5, 3, 5, 3), (40, 30, 20, 15), (33, 47, 64, 17), (50, 20, 23, 31), (12, 48, 15, 17), (7, 90, 7, 5), (90, 7, 4, 7),
         (61, 59, 112, 112)]


def main():
    print("// Written by make_image_golden.py with OpenCV", cv2.__version__, "and Pillow", Image.__version__)
    print("static const struct { int method, channels, width, height, to_width, to_height; uint64_t checksum; } resized[] = {")
    for method in range(7):
        for i, (w, h, tw, th) in enumerate(SIZES):
            for channels in (1, 3):
                source = picture(w, h, channels, 1 + i)
                target = cv2.resize(source, (tw, th)) if method == 0 else np.array(Image.fromarray(source).resize((tw, th), PILLOW[method - 1]))
                print("    {%d, %d, %d, %d, %d, %d, 0x%016xu}," % (method, channels, w, h, tw, th, checksum(target)))
    print("};")
    print("static const struct { int channels, width, height, to_width, to_height; double matrix[6]; uint64_t checksum; } warped[] = {")
    MATRICES = [[1, 0, 0, 0, 1, 0], [.83, -.21, 14.5, .21, .83, -3.25], [-1.5, .7, 90, -.7, -1.5, 80], [0, 0, 0, 0, 0, 0], [2.25, 0, -8, 0, 2.25, -8],
                [1e-3, 0, 0, 0, 1e-3, 0]]
    for i, matrix in enumerate(MATRICES):
        for channels in (1, 3):
            for tw, th in ((112, 112), (37, 20)):
                source = picture(60, 50, channels, 100 + i)
                target = cv2.warpAffine(source, np.array(matrix, np.float64).reshape(2, 3), (tw, th))
                print("    {%d, 60, 50, %d, %d, {%s}, 0x%016xu}," % (channels, tw, th, ", ".join("%.17g" % m for m in matrix), checksum(target)))
    print("};")
    source = picture(64, 64, 3, 7)
    print("static const uint64_t grey_opencv = 0x%016xu;" % checksum(cv2.cvtColor(source, cv2.COLOR_RGB2GRAY)))
    print("static const uint64_t grey_pillow = 0x%016xu;" % checksum(np.array(Image.fromarray(source).convert("L"))))


if __name__ == "__main__":
    main()
