#!/usr/bin/env python3
"""The accuracy table of docs/ACCURACY.md: real models through `intaglio compile`, judged on samples that did not calibrate.

  bench/accuracy.py [--work DIR] [--only PART,PART] [--precisions a8w8,a8w8+s16,a16w8,mixed] [--ablate]

Even samples calibrate, odd ones judge (--split). Faces: the shared photographs, aligned by the product's own pipeline. The
pre-activation networks are made by the shared tools from the face embedder. Text: MiniLM on its own sentences. Everything else
gets the photographs as pictures. Prints one line a model and precision, and with --ablate what each method bought.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SHARED = os.environ.get("ITG_SHARED", os.path.join(ROOT, "..", "shared"))
MODELS = os.environ.get("ITG_MODELS", os.path.expanduser("~/.cache/intaglio/models"))
PHOTOS = os.path.join(SHARED, "data", "faces")
FACE = os.path.join(MODELS, "faceplugin")
FACE_DATA = ["--kind", "face-recognition", "--face-models", FACE, "--calibration", PHOTOS]


def pictures(preprocess):
    return ["--preprocess", preprocess, "--identities", "none", "--calibration", PHOTOS]


def preactivation(work, name, *arguments):
    """The face embedder in pre-activation form, made once."""
    path = os.path.join(work, name + ".onnx")
    if not os.path.exists(path):
        tool = os.path.join(SHARED, "tools", "preactivation_face.py")
        subprocess.run([sys.executable, tool, os.path.join(FACE, "fr_feature.onnx"), path, *arguments], check=True,
                       stdout=subprocess.DEVNULL)
    return path


def models(work):
    """Name, path and how samples are given, a model a line."""
    yield "face embedder", os.path.join(FACE, "fr_feature.onnx"), FACE_DATA
    for name, arguments in [("spread 1.6", ["1.6"]), ("spread 0.8, seed 3", ["0.8", "3"]),
                            ("spread 2.4, seed 5", ["2.4", "5"]), ("spread 1.6, seed 8", ["1.6", "8"]),
                            ("padded", ["--padded"])]:
        yield "pre-activation, " + name, preactivation(work, name.replace(" ", "_").replace(",", ""), *arguments), FACE_DATA
    text = os.path.join(MODELS, "minilm")
    yield "MiniLM", os.path.join(text, "minilm.onnx"), ["--calibration", "ids=" + os.path.join(text, "ids.npy"),
                                                        "--calibration", "mask=" + os.path.join(text, "mask.npy")]
    yield "face landmarks", os.path.join(FACE, "fr_landmark.onnx"), pictures("faceplugin-landmarks")
    yield "face detector", os.path.join(FACE, "fr_detect.onnx"), pictures("faceplugin-detector")
    yield "NudeNet (YOLOv8n)", os.path.join(MODELS, "nudenet", "320n.onnx"), pictures("yolo") + [
        "--shape", "images=1x3x320x320"]


def compile_model(binary, path, data, precision, work, ablate, seconds):
    command = [binary, "compile", path, "-o", os.path.join(work, "out.itg"), "--split", "-p", precision, "--json", "-q",
               "--allow-collapse", *data]
    if ablate:
        command.append("--ablate")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, "more than %d s" % seconds
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout), None


def number(value, digits):
    return "-" if value is None else "%.*f" % (digits, value)


def show(name, precision, report):
    worst = min(report["accuracy"]["outputs"], key=lambda o: o["cosine_mean"])
    verification = worst["integer_verification"]
    print("| %s | %s | %s | %s | %s | %s | %s | %s | %s |" % (
        name, precision, number(worst["cosine_mean"], 5), number(worst["cosine_min"], 5),
        number(worst["centred_cosine_mean"], 5), number(worst["retrieval_overlap"], 3),
        "-" if verification is None else "%.1f %%" % (100 * verification),
        number(report["mixed"]["cost"], 2) if "mixed" in report else "-", number(report["time"]["total_seconds"], 0)),
        flush=True)
    return report.get("loss", {}).get("summary", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default=None)
    parser.add_argument("--only", default="", help="parts of model names, cut by commas")
    parser.add_argument("--precisions", default="a8w8,a8w8+s16,a16w8,mixed")
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--seconds", type=int, default=600, help="limit of one compile")
    parser.add_argument("--intaglio", default=os.path.join(ROOT, "build", "release", "intaglio"))
    options = parser.parse_args()
    work = options.work or tempfile.mkdtemp(prefix="intaglio-accuracy-")
    os.makedirs(work, exist_ok=True)
    only = [part for part in options.only.split(",") if part]
    print("| model | precision | cosine mean | min | centred | neighbours | verification | cost | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    notes = []
    for name, path, data in models(work):
        if only and not any(part in name for part in only):
            continue
        for precision in options.precisions.split(","):
            report, why = compile_model(options.intaglio, path, data, precision, work, options.ablate, options.seconds)
            if report is None:
                print("| %s | %s | %s |" % (name, precision, why), flush=True)
                continue
            notes.append((name, precision, show(name, precision, report)))
            if options.ablate:
                print("\n".join("  %-22s %s  %s dB" % (row["method"], number(row["cosine_mean"], 5),
                                                       number(row["bought_db"], 2)) for row in report["ablation"]))
    print("\nWhere it was lost:")
    for name, precision, note in notes:
        print("- %s, %s: %s" % (name, precision, note))


if __name__ == "__main__":
    main()
