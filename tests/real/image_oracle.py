#!/usr/bin/env python3
"""Random resizes, warps and decodings by OpenCV and Pillow, for test_image_oracle.c to repeat.

  image_oracle.py OUT_DIR COUNT SEED

Writes OUT_DIR/pixels.bin: records of six 32-bit integers (operation, channels, width, height, target width, target height), for a
warp six doubles, the source pixels and the target pixels. Operations: 0 to 6 are itg_resize_method, 7 a warp, 8 Pillow's perspective transform (eight doubles instead of six).
OUT_DIR/N.jpg, N.png, N.webp and N.bin: encoded pictures and their RGB pixels.
"""
import io
import os
import struct
import sys
import zlib

import cv2
import numpy as np
from PIL import Image

PILLOW = [Image.NEAREST, Image.BOX, Image.BILINEAR, Image.HAMMING, Image.BICUBIC, Image.LANCZOS]


def pixels(random, count, file):
    for i in range(count):
        operation, channels = i % 9, 1 if random.random() < 0.4 else 3
        width, height, to_width, to_height = (int(v) for v in random.integers(1, 300 if i % 45 < 9 else 70, 4))
        if random.random() < 0.1:
            to_width, to_height = width * 2, height * 2
        if random.random() < 0.1:
            width, height = to_width * 2, to_height * 2
        if random.random() < 0.1:
            to_width = width
        if random.random() < 0.1:
            to_height = height
        source = random.integers(0, 256, (height, width) if channels == 1 else (height, width, 3), dtype=np.uint8)
        extra = b""
        if operation == 7:
            if random.random() < 0.7:
                to_width, to_height = 112, 112
            angle, scale = random.uniform(-np.pi, np.pi), 2 ** random.uniform(-2, 2)
            c, s = scale * np.cos(angle), scale * np.sin(angle)
            matrix = np.array([[c, -s, random.uniform(-60, 160)], [s, c, random.uniform(-60, 160)]])
            target = cv2.warpAffine(source, matrix, (to_width, to_height))
            extra = matrix.tobytes()
        elif operation == 8:
            # Corners of the target lie near those of a part of the source.
            u = random.uniform(-0.3, 1.3, (4, 2)) * 0.4 + [[0, 0], [1, 0], [1, 1], [0, 1]] * np.array([0.7, 0.7])
            u *= [width, height]
            corners = [(0, 0), (to_width, 0), (to_width, to_height), (0, to_height)]
            rows = []
            for (x, y), (a, b) in zip(corners, u):
                rows += [[x, y, 1, 0, 0, 0, -a * x, -a * y], [0, 0, 0, x, y, 1, -b * x, -b * y]]
            matrix = np.linalg.lstsq(np.array(rows, float), u.reshape(-1), rcond=None)[0]
            target = np.array(Image.fromarray(source).transform((to_width, to_height), Image.Transform.PERSPECTIVE, matrix.tolist(),
                                                                Image.Resampling.BICUBIC))
            extra = matrix.tobytes()
        elif operation == 0:
            target = cv2.resize(source, (to_width, to_height))
        else:
            target = np.array(Image.fromarray(source).resize((to_width, to_height), PILLOW[operation - 1]))
        file.write(struct.pack("<6i", operation, channels, width, height, to_width, to_height) + extra + source.tobytes() + target.tobytes())


def interlaced_png(pixels):
    """Adam7, which Pillow reads but does not write. pixels: u8 [H,W,3]."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b""
    for x, y, step_x, step_y in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        part = pixels[y::step_y, x::step_x]
        if part.size:
            rows += b"".join(b"\0" + row.tobytes() for row in part)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def files(random, out):
    number = 0
    for kind in ("RGB", "L", "CMYK", "progressive", "png RGB", "png RGBA", "png LA", "png P", "png interlaced", "webp RGB", "webp RGBA", "webp lossless", "webp animated"):
        for subsampling in (0, 1, 2) if kind in ("RGB", "progressive") else (0,):
            width, height = (int(v) for v in random.integers(1, 200, 2))
            picture = Image.fromarray(cv2.resize(random.integers(0, 256, (9, 9, 3), dtype=np.uint8), (width, height)))
            data, png = io.BytesIO(), kind.startswith("png")
            webp = kind.startswith("webp")
            if kind in ("L", "CMYK") or (png and kind not in ("png P", "png interlaced")):
                picture = picture.convert(kind.split()[-1])
            if kind == "png P":
                picture = picture.quantize(50)
            if webp and kind != "webp RGB":
                picture.putalpha(Image.fromarray(random.integers(0, 256, (height, width), dtype=np.uint8)))
            if webp:
                more = [picture.transpose(Image.ROTATE_180), picture] if kind == "webp animated" else []
                picture.save(data, "WEBP", quality=int(random.integers(20, 98)), lossless=kind == "webp lossless",
                             exact=bool(random.integers(2)), save_all=bool(more), append_images=more)
            elif kind == "png interlaced":
                data.write(interlaced_png(np.array(picture)))
            elif png:
                picture.save(data, "PNG")
            else:
                picture.save(data, "JPEG", quality=int(random.integers(20, 98)), subsampling=subsampling, progressive=kind == "progressive")
            name = os.path.join(out, "%d" % number)
            with open(name + (".png" if png else ".webp" if webp else ".jpg"), "wb") as file:
                file.write(data.getvalue())
            with open(name + ".bin", "wb") as file:
                file.write(np.array(Image.open(data).convert("RGB")).tobytes())
            number += 1


def main(out, count, seed):
    random = np.random.default_rng(int(seed))
    with open(os.path.join(out, "pixels.bin"), "wb") as file:
        pixels(random, int(count), file)
    files(random, out)


if __name__ == "__main__":
    main(*sys.argv[1:4])
