#!/usr/bin/env python3
"""Do integer PP-OCR models read what the float ones read? Intaglio and its peers on rendered lines and pages, in one run.

  bench/ocr_accuracy.py [--models v4-rec v6-rec v4-det v6-det] [--lines 240] [--only NAME..] [--json FILE]

Latin and Chinese lines in several fonts and sizes, dark on light and light on dark, with and without noise (packages
fonts-dejavu-core, fonts-liberation, fonts-wqy-microhei, fonts-arphic-ukai, fonts-arphic-uming). A third as many other lines,
or as many other pages, calibrate.

Recognition: a line counts when its text is the same as float's (the CTC rule). Float hesitates on a line where the second
best character of some step, which would change the text, is more than half as probable as the best; such lines count in
the first column, and are left out of the second.
Detection: pages of such lines. A float box (threshold .3) counts as found when one of the integer's has an IoU of .9; a line
counts when the float recognizer (PP-OCRv4) reads the same text in the integer's box as in float's. Extra boxes count against.
"""
import argparse
import difflib
import glob
import os
import random
import tempfile

import cv2
import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFont
from pydoc_data.topics import topics

import peers

COMMON = ("的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还"
          "进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或"
          "新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量")
MODELS = {"v4-rec": "rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", "v6-rec": "rapidocr/PP-OCRv6_rec_small.onnx",
          "v4-det": "rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", "v6-det": "rapidocr/PP-OCRv6_det_small.onnx"}
FONTS = "/usr/share/fonts/truetype"
# A line takes the narrowest width the service opens that holds it; these are lines for this one.
LINE, PAGE = (48, 480), (320, 640)
HESITATES = 0.5


def find_fonts():
    both = sorted(glob.glob(FONTS + "/wqy/*.ttc") + glob.glob(FONTS + "/arphic/*.ttc"))
    latin = sorted(glob.glob(FONTS + "/dejavu/*.ttf") + glob.glob(FONTS + "/liberation/*.ttf"))
    if len(both) < 3 or not latin:
        raise SystemExit("fonts are missing; install fonts-dejavu-core, fonts-liberation, fonts-wqy-microhei, "
                         "fonts-arphic-ukai and fonts-arphic-uming")
    return [font for font in latin if "Math" not in font], both


class Renderer:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.words = " ".join(topics.values()).split()
        self.latin, self.both = find_fonts()

    def style(self):
        light = self.rng.random() < 0.7
        paper, ink = (self.rng.randint(190, 255), self.rng.randint(0, 80))
        return (paper, ink) if light else (ink, paper)

    def text(self, chinese):
        if chinese:
            return "".join(self.rng.choice(COMMON) for _ in range(self.rng.randint(3, 9)))
        start = self.rng.randrange(len(self.words) - 6)
        return " ".join(self.words[start:start + self.rng.randint(2, 5)])[:24]

    def draw(self, canvas, position, size, ink):
        chinese = self.rng.random() < 0.5
        font = ImageFont.truetype(self.rng.choice(self.both if chinese else self.latin), size)
        text = self.text(chinese)
        canvas.text(position, text, font=font, fill=tuple(max(0, min(255, ink + self.rng.randint(-20, 20))) for _ in range(3)))
        return canvas.textbbox(position, text, font=font)

    def noisy(self, image):
        noise = np.random.RandomState(self.rng.randrange(1 << 30)).normal(0, self.rng.choice([0, 2, 4]), image.shape)
        return np.clip(image + noise, 0, 255)

    def line(self):
        while True:
            paper, ink = self.style()
            image = Image.new("RGB", (2000, 120), (paper,) * 3)
            left, top, right, bottom = self.draw(ImageDraw.Draw(image), (10, 10), self.rng.choice([20, 24, 28, 32, 40, 48]), ink)
            image = image.crop((max(0, left - 4), max(0, top - 3), right + 4, bottom + 3))
            if image.width * LINE[0] <= image.height * LINE[1]:
                return line_values(self.noisy(np.asarray(image, np.float32)))

    def page(self):
        paper, ink = self.style()
        image = Image.new("RGB", (PAGE[1], PAGE[0]), (paper,) * 3)
        y = self.rng.randint(4, 30)
        while y < PAGE[0] - 40:
            size = self.rng.choice([12, 16, 20, 28, 36])
            self.draw(ImageDraw.Draw(image), (self.rng.randint(5, 120), y), size, ink)
            y += size + self.rng.randint(10, 30)
        pixels = self.noisy(np.asarray(image, np.float32)) / 255
        return ((pixels - PAGE_MEAN) / PAGE_STD).transpose(2, 0, 1).astype(np.float32)


PAGE_MEAN, PAGE_STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def line_values(pixels):
    """A picture of a line as the recognizer's input: as high as it wants, zeros at the right."""
    height, width = LINE
    scaled = min(width, max(1, round(pixels.shape[1] * height / pixels.shape[0])))
    row = np.zeros((3, height, width), np.float32)
    row[:, :, :scaled] = cv2.resize(pixels, (scaled, height), interpolation=cv2.INTER_LINEAR).transpose(2, 0, 1) / 127.5 - 1
    return row


# ---- recognition ----


def collapse(best):
    """The CTC rule: repeated classes once, class 0 is blank."""
    return tuple(int(c) for i, c in enumerate(best) if c != 0 and (i == 0 or c != best[i - 1]))


def texts(scores):
    return [collapse(line) for line in scores.reshape(-1, *scores.shape[-2:]).argmax(-1)]


def hesitates(line):
    """Whether the second best class of a step is near the best and would change the text."""
    order = np.argpartition(line, -2, axis=-1)[:, -2:]
    steps = np.arange(len(line))
    best = line.argmax(-1)
    second = np.where(order[:, 1] == best, order[:, 0], order[:, 1])
    text = collapse(best)
    for step in np.flatnonzero(line[steps, second] > HESITATES * line[steps, best]):
        other = best.copy()
        other[step] = second[step]
        if collapse(other) != text:
            return True
    return False


def same_characters(got, want):
    matched = sum(sum(b.size for b in difflib.SequenceMatcher(None, a, b, False).get_matching_blocks()) for a, b in zip(got, want))
    return matched / max(1, sum(len(line) for line in want))


def read_lines(got, want):
    same = np.array([a == b for a, b in zip(texts(got), texts(want))])
    unsure = np.array([hesitates(line) for line in want.reshape(-1, *want.shape[-2:])])
    return [100 * same.mean(), 100 * same[~unsure].mean(), unsure.sum(), 100 * same_characters(texts(got), texts(want))]


# ---- detection ----


def boxes(probability):
    contours, _ = cv2.findContours((probability > 0.3).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    return [box for box in map(cv2.boundingRect, contours) if min(box[2:]) >= 4]


def overlap(a, b):
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    common = max(0, width) * max(0, height)
    return common / (a[2] * a[3] + b[2] * b[3] - common)


class Reader:
    """Text in a box of a page, by the float recognizer."""

    def __init__(self):
        self.session = onnxruntime.InferenceSession(os.path.join(peers.MODELS, MODELS["v4-rec"]), providers=["CPUExecutionProvider"])

    def __call__(self, page, box):
        x, y, width, height = box
        margin = round(1.5 * width * height / (2 * (width + height)))  # The detector's boxes are shrunken by this rule.
        pixels = (page.transpose(1, 2, 0) * PAGE_STD + PAGE_MEAN) * 255
        crop = pixels[max(0, y - margin):y + height + margin, max(0, x - margin):x + width + margin]
        scores, = self.session.run(None, {self.session.get_inputs()[0].name: line_values(crop.astype(np.float32))[None]})
        return texts(scores)[0]


def find_lines(got, want, pages):
    read, total, found, same = Reader(), 0, 0, 0
    for a, b, page in zip(got, want, pages):
        candidates, wanted = boxes(a.reshape(PAGE)), boxes(b.reshape(PAGE))
        total += max(len(wanted), len(candidates))
        for box in wanted:
            nearest = max(candidates, key=lambda other: overlap(box, other), default=(0, 0, 1, 1))
            found += overlap(box, nearest) >= 0.9
            same += nearest == box or read(page, nearest) == read(page, box)
    return [100 * same / total, 100 * found / total, total]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--lines", type=int, default=240)
    arguments = peers.arguments(parser)
    rows = []
    for reads in (True, False):
        keys = [key for key in arguments.models if key.endswith("rec") == reads]
        if not keys:
            continue
        table = peers.Table(["same lines %", "without hesitation %", "float hesitates", "characters %"] if reads else
                            ["same lines %", "boxes found %", "boxes"])
        amount = arguments.lines if reads else arguments.lines // 8
        make = lambda seed, size: {"x": np.stack([getattr(Renderer(seed + i), "line" if reads else "page")() for i in range(size)])}
        calibration, judged = make(10000, amount // 3 if reads else amount), make(50000, amount)
        for key in keys:
            with tempfile.TemporaryDirectory() as work:
                fixed = peers.fixed_model(os.path.join(peers.MODELS, MODELS[key]), {"x": (3, *(LINE if reads else PAGE))}, work)
                (output, want), = peers.float_answers(fixed, judged).items()
                for name, contestant in peers.contestants(fixed, calibration, work, arguments.only):
                    got = peers.output_of(contestant(judged), (output, want.shape))
                    table.add(f"{key} {name}", read_lines(got, want) if reads else find_lines(got, want, judged["x"]))
        rows += table.lines
    peers.write_rows(rows, arguments.json)


if __name__ == "__main__":
    main()
