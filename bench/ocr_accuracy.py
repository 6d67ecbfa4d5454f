#!/usr/bin/env python3
"""Do integer PP-OCR models read what the float ones read? Intaglio and its peers on rendered lines and pages, in one run.

  bench/ocr_accuracy.py [--models v4-rec v6-rec v4-det v6-det] [--lines 240] [--only NAME..] [--json FILE]

Recognition: Latin and Chinese lines in several fonts and sizes (packages fonts-dejavu-core, fonts-dejavu-extra,
fonts-liberation, fonts-wqy-microhei); counted are lines with the same text as float (the same characters after the CTC
rule). Detection: pages of such lines; counted are float boxes (threshold .3) that are found again with an IoU of .9.
A third as many other lines and pages calibrate.
"""
import argparse
import glob
import os
import random
import tempfile

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from pydoc_data.topics import topics

import peers

COMMON = ("的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还"
          "进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或"
          "新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量")
MODELS = {"v4-rec": "rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", "v6-rec": "rapidocr/PP-OCRv6_rec_small.onnx",
          "v4-det": "rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", "v6-det": "rapidocr/PP-OCRv6_det_small.onnx"}
LINE, PAGE = (48, 320), (320, 640)


def find_fonts():
    both = sorted(glob.glob("/usr/share/fonts/truetype/wqy/*.ttc"))
    latin = sorted(glob.glob("/usr/share/fonts/truetype/dejavu/*.ttf") + glob.glob("/usr/share/fonts/truetype/liberation/*.ttf"))
    if not both or not latin:
        raise SystemExit("fonts are missing; install fonts-dejavu-core, fonts-liberation and fonts-wqy-microhei")
    return [font for font in latin if "Math" not in font], both


def text_line(rng, words, chinese):
    if chinese:
        return "".join(rng.choice(COMMON) for _ in range(rng.randint(3, 9)))
    start = rng.randrange(len(words) - 6)
    return " ".join(words[start:start + rng.randint(2, 5)])[:24]


class Renderer:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.words = " ".join(topics.values()).split()
        self.latin, self.both = find_fonts()

    def style(self):
        light = self.rng.random() < 0.7
        paper, ink = (self.rng.randint(190, 255), self.rng.randint(0, 80))
        return (paper, ink) if light else (ink, paper)

    def draw(self, canvas, position, size, ink):
        chinese = self.rng.random() < 0.5
        font = ImageFont.truetype(self.rng.choice(self.both if chinese else self.latin), size)
        text = text_line(self.rng, self.words, chinese)
        canvas.text(position, text, font=font, fill=tuple(max(0, min(255, ink + self.rng.randint(-20, 20))) for _ in range(3)))
        return canvas.textbbox(position, text, font=font)

    def finish(self, image):
        noise = np.random.RandomState(self.rng.randrange(1 << 30)).normal(0, self.rng.choice([0, 2, 4]), image.shape)
        return np.clip(image + noise, 0, 255)

    def line(self):
        paper, ink = self.style()
        image = Image.new("RGB", (2000, 120), (paper,) * 3)
        left, top, right, bottom = self.draw(ImageDraw.Draw(image), (10, 10), self.rng.choice([20, 24, 28, 32, 40, 48]), ink)
        image = image.crop((max(0, left - 4), max(0, top - 3), right + 4, bottom + 3))
        height, width = LINE
        scaled = min(width, max(1, round(image.width * height / image.height)))
        pixels = np.asarray(image.resize((scaled, height), Image.BILINEAR), np.float32)
        row = np.zeros((3, height, width), np.float32)
        row[:, :, :scaled] = (self.finish(pixels).transpose(2, 0, 1) / 255 - 0.5) / 0.5
        return row

    def page(self):
        paper, ink = self.style()
        image = Image.new("RGB", (PAGE[1], PAGE[0]), (paper,) * 3)
        y = self.rng.randint(4, 30)
        while y < PAGE[0] - 40:
            size = self.rng.choice([12, 16, 20, 28, 36])
            self.draw(ImageDraw.Draw(image), (self.rng.randint(5, 120), y), size, ink)
            y += size + self.rng.randint(10, 30)
        pixels = self.finish(np.asarray(image, np.float32)) / 255
        return ((pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).transpose(2, 0, 1).astype(np.float32)


def texts(scores):
    """The CTC rule on [lines, steps, classes]: repeated classes once, class 0 is blank."""
    best = scores.reshape(-1, *scores.shape[-2:]).argmax(-1)
    return [tuple(int(c) for i, c in enumerate(line) if c != 0 and (i == 0 or c != line[i - 1])) for line in best]


def same_characters(got, want):
    import difflib

    matched = sum(sum(b.size for b in difflib.SequenceMatcher(None, a, b, False).get_matching_blocks()) for a, b in zip(got, want))
    return matched / max(1, sum(len(line) for line in want))


def boxes(probability):
    contours, _ = cv2.findContours((probability > 0.3).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    return [box for box in map(cv2.boundingRect, contours) if min(box[2:]) >= 4]


def overlap(a, b):
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    common = max(0, width) * max(0, height)
    return common / (a[2] * a[3] + b[2] * b[3] - common)


def found_again(got, want):
    found = total = 0
    for a, b in zip(got, want):
        candidates, wanted = boxes(a.reshape(PAGE)), boxes(b.reshape(PAGE))
        total += len(wanted)
        found += sum(max((overlap(box, other) for other in candidates), default=0) >= 0.9 for box in wanted)
    return found / max(1, total)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--lines", type=int, default=240)
    arguments = peers.arguments(parser)
    table = peers.Table(["same %", "also: characters % or cosine %"])
    for key in arguments.models:
        model, reads = os.path.join(peers.MODELS, MODELS[key]), key.endswith("rec")
        amount = arguments.lines if reads else arguments.lines // 8
        make = lambda seed, size: {"x": np.stack([getattr(Renderer(seed + i), "line" if reads else "page")() for i in range(size)])}
        calibration, judged = make(10000, amount // 3 if reads else amount), make(50000, amount)
        with tempfile.TemporaryDirectory() as work:
            fixed = peers.fixed_model(model, {"x": (3, *(LINE if reads else PAGE))}, work)
            (output, want), = peers.float_answers(fixed, judged).items()
            for name, contestant in peers.contestants(fixed, calibration, work, arguments.only):
                got = peers.output_of(contestant(judged), (output, want.shape))
                if reads:
                    mine, theirs = texts(got), texts(want)
                    result = np.mean([a == b for a, b in zip(mine, theirs)]), same_characters(mine, theirs)
                else:
                    flat = [values.reshape(len(values), -1) for values in (got, want)]
                    cosine = (flat[0] * flat[1]).sum(1) / np.linalg.norm(flat[0], axis=1) / np.linalg.norm(flat[1], axis=1)
                    result = found_again(got, want), cosine.mean()
                table.add(f"{key} {name}", [100 * value for value in result])
    table.write(arguments.json)


if __name__ == "__main__":
    main()
