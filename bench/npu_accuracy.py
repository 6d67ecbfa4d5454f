#!/usr/bin/env python3
"""Accuracy on NPUs, network by network, on the vendor's real library: Intaglio and the usual road, in one run.

  bench/npu_accuracy.py [--models face,minilm,..] [--precisions a8w8+s16,a16w8] [--targets qcs6490,sm8550,sm8750] [--judge N]
                        [--peer] [--work DIR] [--intaglio build/release/intaglio]

Each row: the cosine to the float network of the integer program on the CPU (native arithmetic, and predicted in the chip's),
and of its context run by the vendor's library (a simulator on x86-64; nothing here is silicon). Of several outputs the worst
is shown. --peer adds ONNX Runtime's quantizer with its configuration for QNN, run by its QNN provider on the same library.

Data, disjoint for calibrating and judging: the shared photographs (even numbers calibrate, odd ones judge), whole or cropped;
lines and pages of rendered text over them for the OCR networks; real sentences for MiniLM. Needs tests/requirements.txt.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import time

import numpy as np

import face_accuracy

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
MODELS = os.environ.get("ITG_MODELS", os.path.expanduser("~/.cache/intaglio/models"))
FACES = os.path.join(face_accuracy.SHARED, "data", "faces")
MEAN, STD = np.array([.485, .456, .406], np.float32), np.array([.229, .224, .225], np.float32)

# name: (file, input -> kind of data, shapes to fix)
NETWORKS = {
    "face": ("faceplugin/fr_feature.onnx", {"input": "face"}, {}),
    "preactivation": ("", {"input": "face"}, {}),  # Seed 7 of the channels' spread.
    "preactivation-8": ("", {"input": "face"}, {}),
    "preactivation-9": ("", {"input": "face"}, {}),
    "minilm": ("minilm/minilm.onnx", {"ids": "ids", "mask": "mask"}, {}),
    "ppocr4-rec": ("rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", {"x": "line"}, {"x": (1, 3, 48, 320)}),
    "ppocr4-det": ("rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", {"x": "page"}, {"x": (1, 3, 320, 320)}),
    "rfb320": ("faceplugin/fr_detect.onnx", {"input": "photo240x320"}, {}),
    "yolov8n": ("nudenet/320n.onnx", {"images": "photo320"}, {"images": (1, 3, 320, 320)}),
    "ppocr6-rec": ("rapidocr/PP-OCRv6_rec_small.onnx", {"x": "line"}, {"x": (1, 3, 48, 320)}),
    "ppocr6-det": ("rapidocr/PP-OCRv6_det_small.onnx", {"x": "page"}, {"x": (1, 3, 320, 320)}),
    "ppocr-cls": ("rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": "word"}, {"x": (1, 3, 48, 192)}),
    "landmark": ("faceplugin/fr_landmark.onnx", {"input": "grey64"}, {}),
    "expression": ("faceplugin/fr_expression.onnx", {"input": "crop224"}, {}),
    "pose": ("faceplugin/fr_pose.onnx", {"input": "crop224"}, {}),
    "age": ("faceplugin/fr_age.onnx", {"input": "crop64"}, {}),
    "gender": ("faceplugin/fr_gender.onnx", {"input": "crop64"}, {}),
    "eye": ("faceplugin/fr_eye.onnx", {"input": "eye24"}, {}),
    "liveness": ("faceplugin/fr_liveness.onnx", {"input": "crop128"}, {}),
}


def planes(picture):
    return np.ascontiguousarray(picture.astype(np.float32).transpose(2, 0, 1))


def photographs(kind):
    import cv2

    def one(path):
        whole = cv2.imread(path)[:, :, ::-1]
        face = whole[60:190, 60:190]
        if kind == "photo240x320":
            return planes((cv2.resize(whole, (320, 240)).astype(np.float32) - 127) / 128)
        if kind == "photo320":
            return planes(cv2.resize(whole, (320, 320)) / 255)
        if kind == "grey64":
            return cv2.cvtColor(cv2.resize(face, (64, 64)), cv2.COLOR_RGB2GRAY)[None].astype(np.float32) / 256
        if kind == "eye24":
            return cv2.cvtColor(cv2.resize(whole[100:140, 70:110], (24, 24)), cv2.COLOR_RGB2GRAY)[None].astype(np.float32) / 256
        if kind == "crop64":
            return planes(cv2.resize(face, (64, 64)))
        if kind == "crop128":
            return planes(cv2.resize(face, (128, 128)) / 255)
        return planes((cv2.resize(face, (224, 224)).astype(np.float32) / 255 - MEAN) / STD)

    files = sorted(glob.glob(os.path.join(FACES, "*", "*.jpg")))
    even = [int(os.path.basename(f)[:2]) % 2 == 0 for f in files]
    return [np.stack([one(f) for f, e in zip(files, even) if e == wanted]) for wanted in (True, False)]


def text_rows(kind, count=50):
    import cv2

    words = open(os.path.join(MODELS, "minilm", "sentences.txt")).read().split("\n")
    files = sorted(glob.glob(os.path.join(FACES, "*", "*.jpg")))
    fonts = (0, 2, 3, 4, 6)

    def line(i, width):
        r = np.random.default_rng(i)
        paper = np.full((48, width, 3), int(r.integers(150, 255)), np.float64) + r.normal(0, 6, (48, width, 3))
        picture = paper.clip(0, 255).astype(np.uint8)
        cv2.putText(picture, words[i % len(words)][:26], (int(r.integers(2, 12)), 34), fonts[i % 5], float(r.uniform(.8, 1.1)),
                    tuple(int(v) for v in r.integers(0, 90, 3)), int(r.integers(1, 3)), cv2.LINE_AA)
        return planes((picture.astype(np.float32) / 255 - .5) / .5)

    def page(i):
        r = np.random.default_rng(1000 + i)
        picture = (cv2.resize(cv2.imread(files[i % len(files)]), (320, 320)) * .5 + 100).clip(0, 255).astype(np.uint8)
        for k in range(5):
            cv2.putText(picture, words[(i * 5 + k) % len(words)][: int(r.integers(6, 22))], (int(r.integers(0, 60)), 40 + 60 * k),
                        fonts[(i + k) % 5], float(r.uniform(.5, 1)), tuple(int(v) for v in r.integers(0, 100, 3)),
                        int(r.integers(1, 3)), cv2.LINE_AA)
        return planes((picture.astype(np.float32) / 255 - MEAN) / STD)

    make = page if kind == "page" else lambda i: line(i, 320 if kind == "line" else 192)
    rows = np.stack([make(i) for i in range(count)])
    return rows[::2], rows[1::2]


def prepare_data(work, kind):
    """Writes KIND_calibrate.npy and KIND_judge.npy once."""
    paths = [os.path.join(work, f"{kind}_{part}.npy") for part in ("calibrate", "judge")]
    if all(os.path.exists(p) for p in paths):
        return paths
    if kind == "face":
        face_accuracy.prepare(work)
        return [os.path.join(work, "calibrate.npy"), os.path.join(work, "judge.npy")]
    if kind in ("ids", "mask"):
        rows = np.load(os.path.join(MODELS, "minilm", kind + ".npy"))
        rows = rows[:64], rows[64:]
    elif kind in ("line", "word", "page"):
        rows = text_rows(kind)
    else:
        rows = photographs(kind)
    for path, part in zip(paths, rows):
        np.save(path, part)
    return paths


def network_file(name, work):
    if not name.startswith("preactivation"):
        return os.path.join(MODELS, NETWORKS[name][0])
    path = os.path.join(work, name + ".onnx")
    if not os.path.exists(path):
        tool = os.path.join(face_accuracy.SHARED, "tools", "preactivation_face.py")
        seed = name.partition("-")[2] or "7"
        subprocess.run([sys.executable, tool, face_accuracy.MODEL, path, "1.6", seed], check=True, stdout=subprocess.DEVNULL)
    return path


def worst(outputs):
    return min(outputs, key=lambda o: o["cosine_mean"])


def text(value, digits=4):
    return "-" if value is None else f"{value:.{digits}f}"


def measure(options, name, precision, target):
    """One row of Intaglio: compile, and compare in three places."""
    model, inputs, shapes = network_file(name, options.work), NETWORKS[name][1], NETWORKS[name][2]
    fixed = [a for k, d in shapes.items() for a in ("--shape", f"{k}={'x'.join(map(str, d))}")]
    calibrate, judge = [], []
    for port, kind in inputs.items():
        paths = prepare_data(options.work, kind)
        calibrate += ["--calibration", f"{port}={paths[0]}"]
        judge += ["--data", f"{port}={paths[1]}"]
    compiled = os.path.join(options.work, f"npu_{name}_{precision}_{target}.itg")
    command = [options.intaglio, "compile", model, "-o", compiled, "-p", precision, "--target", target, "--allow-collapse",
               "--json", "--limit", "64", *fixed, *calibrate]
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if made.returncode:
        print(f"| {name} | {precision} | {target} | {made.stderr.decode().strip().splitlines()[-1]} |", flush=True)
        return
    placement = json.loads(made.stdout)["placements"][0]
    profile = "htp-v68" if target in ("qcs6490", "qcm6490", "sm8350") else "htp-v73"
    cells = []
    for place in (["--arithmetic", "native"], ["--arithmetic", profile], ["--backend", "qnn"]):
        start = time.time()
        command = [options.intaglio, "compare", compiled, "--float", model, "--json", "--limit", str(options.judge), *fixed,
                   *judge, *place]
        report = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if report.returncode:
            cells.append(report.stderr.decode().strip().splitlines()[-1])
            continue
        o = worst(json.loads(report.stdout)["accuracy"]["outputs"])
        cells.append(f"{text(o['cosine_mean'], 5)} (min {text(o['cosine_min'])}, centred {text(o['centred_cosine_mean'])}, "
                     f"spread {text(o['spread_ratio'], 3)})" if place[0] == "--backend" else text(o["cosine_mean"], 5))
        seconds = time.time() - start
    print(f"| {name} | {precision} | {target} | {' | '.join(cells)} | {placement['nodes_on_npu']} of {placement['nodes']}, "
          f"{placement['operations']} ops | {placement['prepare_seconds']:.2f} | {placement['prepare_peak_bytes'] / 2**20:.0f} | "
          f"{placement['context_bytes'] / 2**20:.2f} | {seconds / options.judge:.1f} |", flush=True)


def peer(options, name, precision, target):
    """The usual road: ONNX Runtime's quantizer for QNN and its QNN provider."""
    import onnx
    import onnx.version_converter
    import onnxruntime as ort
    import onnxruntime_qnn as qnn
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize
    from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config, qnn_preprocess_model
    from onnxruntime.tools.onnx_model_utils import make_input_shape_fixed

    soc = {"qcs6490": ("68", "35"), "qcm6490": ("68", "93"), "sm8550": ("73", "43"), "sm8750": ("79", "69")}[target]
    ort.set_default_logger_severity(3)
    model = onnx.load(network_file(name, options.work))
    if model.opset_import[0].version < 13:
        model = onnx.version_converter.convert_version(model, 17)
    for port, dims in NETWORKS[name][2].items():
        make_input_shape_fixed(model.graph, port, dims)
    fixed = os.path.join(options.work, f"peer_{name}.onnx")
    onnx.save(model, fixed)
    if qnn_preprocess_model(fixed, fixed + ".pre"):
        os.replace(fixed + ".pre", fixed)
    rows = {port: [np.load(p) for p in prepare_data(options.work, kind)] for port, kind in NETWORKS[name][1].items()}

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.at = 0

        def get_next(self):
            if self.at == min(64, len(next(iter(rows.values()))[0])):
                return None
            self.at += 1
            return {k: v[0][self.at - 1 : self.at] for k, v in rows.items()}

    made = os.path.join(options.work, f"peer_{name}_{precision}.onnx")
    kind = QuantType.QUInt16 if precision == "a16w8" else QuantType.QUInt8
    quantize(fixed, made, get_qnn_qdq_config(fixed, Reader(), activation_type=kind, weight_type=QuantType.QInt8, per_channel=True))
    if "QNN" not in options.registered:
        ort.register_execution_provider_library(qnn.EP_NAME, qnn.get_library_path())
        options.registered.append("QNN")
    device = [d for d in ort.get_ep_devices() if d.ep_name in (qnn.EP_NAME, "QNN")][:1]
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    settings.add_provider_for_devices(device, {"backend_path": qnn.get_qnn_htp_path(), "htp_arch": soc[0], "soc_model": soc[1]})
    start = time.time()
    try:
        session = ort.InferenceSession(made, settings)
    except Exception:  # Its optimizer stumbles over constants that nodes share; the provider does its own.
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        start = time.time()
        session = ort.InferenceSession(made, settings)
    seconds = time.time() - start
    exact = ort.InferenceSession(fixed, providers=["CPUExecutionProvider"])
    count = min(options.judge, len(next(iter(rows.values()))[1]))
    runs = [[s.run(None, {k: v[1][i : i + 1] for k, v in rows.items()}) for i in range(count)] for s in (session, exact)]
    results = []
    for o in range(len(runs[0][0])):
        got, want = (np.stack([r[o].reshape(-1) for r in run]).astype(np.float64) for run in runs)
        unit = lambda e: e / np.maximum(np.linalg.norm(e, axis=1, keepdims=True), 1e-30)
        cosine, mean = (unit(got) * unit(want)).sum(1), want.mean(0)
        centred = (unit(got - mean) * unit(want - mean)).sum(1).mean() if count > 2 else None
        results.append({"cosine_mean": cosine.mean(), "cosine_min": cosine.min(), "centred": centred})
    o = worst(results)
    print(f"| {name} | {precision} | {target} | usual road | - | {text(o['cosine_mean'], 5)} (min {text(o['cosine_min'])}, centred "
          f"{text(o['centred'])}) | - | {seconds:.2f} (session) | - | - | - |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="face,preactivation,minilm,ppocr4-rec,ppocr4-det,rfb320,yolov8n")
    parser.add_argument("--precisions", default="a8w8+s16,a16w8")
    parser.add_argument("--targets", default="qcs6490")
    parser.add_argument("--judge", type=int, default=10)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--intaglio", default=os.path.join(ROOT, "build", "release", "intaglio"))
    options = parser.parse_args()
    options.registered = []
    os.makedirs(options.work, exist_ok=True)
    names = list(NETWORKS) if options.models == "all" else options.models.split(",")
    print("| network | precision | target | CPU, native | CPU, predicted | vendor's library | on the NPU | prepare s | MiB | "
          "context MiB | s a sample |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in names:
        for target in options.targets.split(","):
            for precision in options.precisions.split(","):
                measure(options, name, precision, target)
                if options.peer:
                    try:
                        peer(options, name, "a16w8" if precision == "a16w8" else "a8w8", target)
                    except Exception as problem:  # What a peer cannot do is a result too.
                        reason = str(problem).strip().splitlines()
                        print(f"| {name} | {precision} | {target} | usual road: {(reason or ['failed'])[0][:160]} |", flush=True)


if __name__ == "__main__":
    main()
