#!/usr/bin/env python3
"""Pages of text, and what is read on them: by Immich's way of running PP-OCR (OpenCV, Pillow, ONNX Runtime) and by the rapidocr packages.

  ocr_oracle.py OUT_DIR MODELS_DIR PAGE...

MODELS_DIR holds rapidocr-onnxruntime/ (PP-OCRv4) and rapidocr/ (PP-OCRv6). Writes OUT_DIR/pages/NN.png, OUT_DIR/ocr/{v4,v6}/{detection,
recognition}/model.onnx (links), and OUT_DIR/{v4,v6}.{immich,slow,rapid}.bin: for every page the number of lines (int32), for each line 8
float64 (corners), box score and text score (float64; -1 where the package does not say), and the text (int32 length, UTF-8).
"""
import math
import os
import struct
import sys

import cv2
import numpy as np
import onnxruntime as ort
from PIL import Image, ImageDraw, ImageFilter, ImageFont

PAGES = {"v4": 100, "v6": 2}  # The newer models are slow.
WIDTHS = (320, 480, 640, 960, 1280, 1920, 2560)
WORDS = """The quick brown fox jumps over the lazy dog while seven wizards quietly judge boxing matches near Kyoto and Zurich in 1984 or
2026 for 3.50 EUR each; order no. 4711-0815, phone +49 30 901820, mail info@example.org, total 12,345.67 USD (incl. 19% VAT) Monday Tuesday
OPEN CLOSED Exit Platform Coffee Craft Beer Museum Library Station invoice receipt""".split()


# ---- pages ----
def make_pages(random, folder, given):
    paths = []

    def save(image):
        paths.append(os.path.join(folder, "%02d.png" % len(paths)))
        image.convert("RGB").save(paths[-1])

    # No side needs resizing: 736 is the resolution, and all sides are multiples of 32.
    for number in range(3):
        width, height = ((736, 768), (896, 736), (800, 736))[number]
        ink, paper = ((0, 250), (30, 235), (60, 200))[number]
        image = Image.new("L", (width, height), paper)
        draw, y = ImageDraw.Draw(image), 24
        while y < height - 70:
            size = int(random.integers(16, 44))
            font = ImageFont.load_default(size)
            x, line = int(random.integers(16, 80)), ""
            while True:
                word = str(random.choice(WORDS))
                if draw.textlength(line + word, font=font) > (width - x - 30) * random.uniform(0.6, 1):
                    break
                line += word + " "
            draw.text((x, y), line.strip(), fill=ink, font=font)
            y += int(size * 1.9)
        if number == 1:
            image = image.filter(ImageFilter.GaussianBlur(0.7))
        if number == 2:
            image = Image.fromarray(np.clip(np.asarray(image) + random.normal(0, 8, (height, width)), 0, 255).astype(np.uint8))
        save(image)
    for path in given:
        image = Image.open(path)
        scale = 736 / min(image.size)
        save(image.resize((round32(image.width * scale), round32(image.height * scale)), Image.LANCZOS))
    # Turned lines, and a picture that is made smaller (which rapidocr does in another way).
    image = Image.new("RGB", (900, 1300), (240, 240, 235))
    for i, angle in enumerate((0, 7, -12, 90)):
        strip = Image.new("RGB", (560, 60), (240, 240, 235))
        ImageDraw.Draw(strip).text((8, 8), " ".join(map(str, random.choice(WORDS, 4))), fill=(20, 30, 90), font=ImageFont.load_default(34))
        strip = strip.rotate(angle, expand=True, fillcolor=(240, 240, 235), resample=Image.BICUBIC)
        image.paste(strip, (60 + 20 * i, 60 + 230 * i) if angle != 90 else (780, 60))
    save(image)
    return paths


# ---- Immich's way ----
def round32(value):
    return int(round(value / 32) * 32)


def mini_box(rectangle):
    points = sorted(cv2.boxPoints(rectangle).tolist(), key=lambda p: p[0])
    left, right = (0, 1) if points[1][1] > points[0][1] else (1, 0), (2, 3) if points[3][1] > points[2][1] else (3, 2)
    return np.array([points[left[0]], points[right[0]], points[right[1]], points[left[1]]], np.float32)


def polygon_score(probs, polygon):
    h, w = probs.shape
    x0, x1 = np.clip([np.floor(polygon[:, 0].min()), np.ceil(polygon[:, 0].max())], 0, w - 1).astype(int)
    y0, y1 = np.clip([np.floor(polygon[:, 1].min()), np.ceil(polygon[:, 1].max())], 0, h - 1).astype(int)
    mask = np.zeros((y1 - y0 + 1, x1 - x0 + 1), np.uint8)
    cv2.fillPoly(mask, [(polygon - [x0, y0]).astype(np.int32)], 1)
    return cv2.mean(probs[y0:y1 + 1, x0:x1 + 1], mask)[0]


def boxes_of(probs, size, min_score, slow):
    mask = cv2.dilate((probs > 0.3).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[-2][:1000]
    result = []
    for contour in contours:
        centre, (w, h), angle = cv2.minAreaRect(contour)
        if min(w, h) < 3:
            continue
        score = polygon_score(probs, contour.reshape(-1, 2).astype(np.float32) if slow else mini_box((centre, (w, h), angle)))
        if score < min_score:
            continue
        grow = w * h * 1.6 / (w + h)
        if min(w, h) + grow < 5:
            continue
        box = mini_box((centre, (w + grow, h + grow), angle))
        box = np.round(box / [probs.shape[1], probs.shape[0]] * [size[0], size[1]]).clip(0, [size[0] - 1, size[1] - 1])
        if int(np.linalg.norm(box[0] - box[1])) <= 3 or int(np.linalg.norm(box[0] - box[3])) <= 3:
            continue
        result.append((box.astype(np.float32), score))
    if not result:
        return []
    tops = np.array([b[0, 1] for b, _ in result])
    order = np.argsort(tops, kind="stable")
    lines = np.concatenate([[0], np.cumsum(np.diff(tops[order]) >= 10)])
    order = order[np.argsort(lines * 1e6 + np.array([result[i][0][0, 0] for i in order]), kind="stable")]
    return [result[i] for i in order]


def probabilities(session, image):
    ratio = min(736 / min(image.size), 1.0)
    size = max(round32(image.width * ratio), 32), max(round32(image.height * ratio), 32)
    array = np.asarray(image.resize(size, Image.LANCZOS))[:, :, ::-1].astype(np.float32) * np.float32(1 / 127.5) - 1
    return session.run(None, {session.get_inputs()[0].name: np.ascontiguousarray(array.transpose(2, 0, 1))[None]})[0].reshape(size[1], size[0])


def read(session, characters, image, box):
    w = int(max(np.linalg.norm(box[1] - box[0]), np.linalg.norm(box[2] - box[3])))
    h = int(max(np.linalg.norm(box[0] - box[3]), np.linalg.norm(box[1] - box[2])))
    rows = []
    for (x, y), (u, v) in zip([(0, 0), (w, 0), (w, h), (0, h)], box.astype(np.float64)):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    coefficients = np.linalg.solve(np.array(rows, float), box.astype(np.float64).reshape(-1))
    crop = image.transform((w, h), Image.Transform.PERSPECTIVE, coefficients.tolist(), Image.Resampling.BICUBIC)
    upright = h * 2 >= w * 3
    if upright:
        crop = crop.rotate(90, expand=True)
    proportion = h / w if upright else w / h
    width = next((c for c in WIDTHS if c >= int(48 * proportion)), WIDTHS[-1])
    resized = cv2.resize(np.asarray(crop), (max(1, min(width, math.ceil(48 * proportion))), 48))
    array = np.zeros((1, 3, 48, width), np.float32)
    array[0, :, :, :resized.shape[1]] = (resized[:, :, ::-1].astype(np.float32) * np.float32(1 / 127.5) - 1).transpose(2, 0, 1)
    probs = session.run(None, {session.get_inputs()[0].name: array})[0][0]
    best = probs.argmax(1)
    kept = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
    return "".join(characters[i] for i in best[kept]), float(probs.max(1)[kept].mean()) if kept.any() else 0.0


# ---- files ----
def write_page(file, lines):
    file.write(struct.pack("<i", len(lines)))
    for box, box_score, text, score in lines:
        data = text.encode()
        file.write(struct.pack("<10d", *np.asarray(box, float).reshape(-1), box_score, score) + struct.pack("<i", len(data)) + data)


def main(out, models, given):
    os.makedirs(os.path.join(out, "pages"))
    pages = make_pages(np.random.default_rng(6), os.path.join(out, "pages"), given)
    families = {"v4": ("rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", "rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx"),
                "v6": ("rapidocr/PP-OCRv6_det_small.onnx", "rapidocr/PP-OCRv6_rec_small.onnx")}
    for name, files in families.items():
        sessions = []
        for part, model in zip(("detection", "recognition"), files):
            os.makedirs(os.path.join(out, "ocr", name, part))
            os.symlink(os.path.join(models, model), os.path.join(out, "ocr", name, part, "model.onnx"))
            sessions.append(ort.InferenceSession(os.path.join(models, model), providers=["CPUExecutionProvider"]))
        lines = sessions[1].get_modelmeta().custom_metadata_map["character"].splitlines()
        characters = [""] + lines + [" "]
        with open(os.path.join(out, name + ".immich.bin"), "wb") as file, open(os.path.join(out, name + ".slow.bin"), "wb") as slow:
            for path in pages[:PAGES[name]]:
                image = Image.open(path).convert("RGB")
                probs = probabilities(sessions[0], image)
                found = boxes_of(probs, image.size, 0.5, False)
                write_page(file, [(box, score) + read(sessions[1], characters, image, box) for box, score in found])
                write_page(slow, [(box, score, "", -1) for box, score in boxes_of(probs, image.size, 0.5, True)])
    from rapidocr_onnxruntime import RapidOCR as Rapid4
    engine = Rapid4(det_use_cuda=False, unclip_ratio=1.6, box_thresh=0.5, text_score=0.0)
    with open(os.path.join(out, "v4.rapid.bin"), "wb") as file:
        for path in pages[:PAGES["v4"]]:
            result, _ = engine(path, use_cls=False)
            write_page(file, [(box, -1, text, float(score)) for box, text, score in result or []])
    import logging

    from rapidocr import RapidOCR as Rapid6
    logging.disable(logging.INFO)
    engine = Rapid6(params={"Global.use_cls": False, "Global.text_score": 0.0, "Det.unclip_ratio": 1.6, "Det.box_thresh": 0.5})
    with open(os.path.join(out, "v6.rapid.bin"), "wb") as file:
        for path in pages[:PAGES["v6"]]:
            result = engine(path)
            rows = zip(result.boxes, result.txts, result.scores) if result.boxes is not None else []
            write_page(file, [(box, -1, text, float(score)) for box, text, score in rows])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
