#!/usr/bin/env python3
"""Writes tests/unit/image_files.inc: small JPEG, PNG and WebP files of every kind, with checksums of what Pillow reads in them.

  make_image_files.py > image_files.inc
"""
import io

import cv2
import numpy as np
from PIL import Image

from make_image_golden import checksum

W, H = 19, 13
RANDOM = np.random.default_rng(5)
PICTURE = Image.fromarray(cv2.resize(RANDOM.integers(0, 256, (5, 6, 3), dtype=np.uint8), (W, H)))


def entry(name, data):
    if name == "png grey 16":  # Pillow clips it; the project takes the upper byte.
        pixels = np.repeat((cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) >> 8).astype(np.uint8)[:, :, None], 3, 2)
    else:
        pixels = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
    print('    {"%s", %d, %d, 0x%016xu,' % (name, pixels.shape[1], pixels.shape[0], checksum(pixels)))
    text = data.hex()
    for i in range(0, len(text), 110):
        print('     "%s"%s' % (text[i:i + 110], "}," if i + 110 >= len(text) else ""))


def save(name, picture, **options):
    file = io.BytesIO()
    picture.save(file, {"png": "PNG", "jpeg": "JPEG", "webp": "WEBP"}[name.split()[0]], **options)
    entry(name, file.getvalue())


def save_opencv(name, pixels, *options):
    entry(name, cv2.imencode(".png" if name.startswith("png") else ".jpg", pixels, options)[1].tobytes())


if __name__ == "__main__":
    print("// Written by make_image_files.py with OpenCV", cv2.__version__, "and Pillow", Image.__version__)
    print("static const struct { const char *name; int width, height; uint64_t checksum; const char *hex; } files[] = {")
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        save("jpeg " + sampling, PICTURE, quality=40, subsampling=sampling, optimize=True)
    save("jpeg progressive", PICTURE, quality=40, progressive=True, optimize=True)
    save("jpeg grey", PICTURE.convert("L"), quality=40, optimize=True)
    save("jpeg CMYK", PICTURE.convert("CMYK"), quality=40, optimize=True)
    save("jpeg restart", PICTURE, quality=40, restart_marker_blocks=1)
    save_opencv("jpeg 4:4:0", np.array(PICTURE), cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440)
    exif = Image.Exif()
    exif[0x112] = 6  # Orientation: not applied.
    save("jpeg EXIF", PICTURE, quality=40, exif=exif)
    save("png RGB", PICTURE)
    save("png RGBA", PICTURE.convert("RGBA"))
    save("png grey", PICTURE.convert("L"))
    save("png grey alpha", PICTURE.convert("LA"))
    save("png bits", PICTURE.convert("1"))
    save("png palette", PICTURE.quantize(16))
    save("png palette transparent", PICTURE.quantize(6), transparency=2, bits=4)
    save("png transparent colour", PICTURE, transparency=(1, 2, 3))
    for name, channels in (("png grey 16", 1), ("png RGB 16", 3), ("png RGBA 16", 4)):
        save_opencv(name, RANDOM.integers(0, 65536, (5, 4, channels), dtype=np.uint16))
    faded = PICTURE.copy()
    faded.putalpha(Image.fromarray(RANDOM.integers(0, 256, (H, W), dtype=np.uint8)))
    save("webp", PICTURE, quality=50)
    save("webp lossless", PICTURE, lossless=True)
    save("webp alpha", faded, quality=50)
    save("webp lossless alpha", faded, lossless=True, exact=True)
    save("webp animated", faded, quality=50, save_all=True, append_images=[faded.rotate(90), PICTURE.rotate(180)], duration=50)
    print("};")
