#!/usr/bin/env python3
"""Accuracy, compile time and memory of Intaglio and its peers on the real face embedder, in one run.

  bench/face_accuracy.py [--work DIR] [--seconds 60]

Data: the shared photographs, aligned by the reference pipeline; even ones calibrate, odd ones judge. Peers: ONNX Runtime's
static quantizer (QDQ, min-max, run on its CPU provider) and NNCF (post-training, run on OpenVINO). Needs the packages of
tests/requirements.txt and, for the NNCF row, bench/requirements.txt.
"""
import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SHARED = os.environ.get("ITG_SHARED", os.path.join(ROOT, "..", "shared"))
MODELS = os.path.join(os.environ.get("ITG_MODELS", os.path.expanduser("~/.cache/intaglio/models")), "faceplugin")
MODEL = os.path.join(MODELS, "fr_feature.onnx")


def reference():
    spec = importlib.util.spec_from_file_location("face_reference", os.path.join(SHARED, "tools", "face_reference.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def embedder_inputs(crops):
    return np.ascontiguousarray(((crops[..., ::-1].astype(np.float32) - 127) / 128).transpose(0, 3, 1, 2))


def prepare(work):
    """Writes calibrate.npy, judge.npy, person.npy and float.npy once."""
    if os.path.exists(os.path.join(work, "float.npy")):
        return
    face = reference()
    archive = os.path.join(work, "faces.npz")
    face.main(MODELS, os.path.join(SHARED, "data", "faces"), archive)
    data = np.load(archive)
    x, number = embedder_inputs(data["crops"]), np.arange(len(data["crops"])) % 10 + 1
    np.save(os.path.join(work, "calibrate.npy"), x[number % 2 == 0])
    np.save(os.path.join(work, "judge.npy"), x[number % 2 == 1])
    np.save(os.path.join(work, "person.npy"), data["person"][number % 2 == 1])
    np.save(os.path.join(work, "float.npy"), data["embedding"][number % 2 == 1])


def margin(embeddings, person):
    e = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    i, j = np.triu_indices(len(e), 1)
    score, same = (e @ e.T)[i, j], person[i] == person[j]
    return score[same].min() - score[~same].max()


def row(name, got, want, person, seconds, megabytes, face):
    cosine = face.cosine(got, want)
    verified = face.verification(got, person)["balanced_accuracy"]
    print(f"| {name} | {cosine.mean():.5f} | {cosine.min():.5f} | {100 * verified:.1f} % | {margin(got, person):+.3f} "
          f"(float {margin(want, person):+.3f}) | {seconds:.1f} | {megabytes:.0f} |", flush=True)


def child(function, *arguments):
    """Runs a peer in its own process, so that its peak memory is its own."""
    start = time.time()
    process = subprocess.run([sys.executable, __file__, "--child", function, *arguments], check=True, stdout=subprocess.PIPE)
    return time.time() - start, json.loads(process.stdout.decode().splitlines()[-1])["megabytes"]


def child_main(function, work, *rest):
    calibrate, judge = np.load(os.path.join(work, "calibrate.npy")), np.load(os.path.join(work, "judge.npy"))
    if function == "onnxruntime":
        import onnx
        import onnx.version_converter
        import onnxruntime as ort
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        class Reader(CalibrationDataReader):
            def __init__(self):
                self.rows = iter(calibrate)

            def get_next(self):
                row = next(self.rows, None)
                return None if row is None else {"input": row[None]}

        kind = QuantType.QUInt16 if rest[0] == "a16w8" else QuantType.QUInt8
        prepared, out = os.path.join(work, "prepared.onnx"), os.path.join(work, f"onnxruntime_{rest[0]}.onnx")
        onnx.save(onnx.version_converter.convert_version(onnx.load(MODEL), 17), prepared)  # per-channel needs opset 13
        quant_pre_process(prepared, prepared)
        quantize_static(prepared, out, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=kind,
                        weight_type=QuantType.QInt8)
        session = ort.InferenceSession(out, providers=["CPUExecutionProvider"])
        got = np.stack([session.run(None, {"input": x[None]})[0][0] for x in judge])
    else:
        import nncf
        import openvino

        core = openvino.Core()
        model = nncf.quantize(core.read_model(MODEL), nncf.Dataset([x[None] for x in calibrate]), subset_size=len(calibrate))
        openvino.save_model(model, os.path.join(work, "nncf.xml"), compress_to_fp16=False)
        compiled = core.compile_model(model, "CPU")
        got = np.stack([compiled(x[None])[0][0] for x in judge])
    np.save(os.path.join(work, "peer.npy"), got)
    print(json.dumps({"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--intaglio", default=os.path.join(ROOT, "build", "release", "intaglio"))
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    prepare(options.work)
    face = reference()
    load = lambda name: np.load(os.path.join(options.work, name))
    want, person = load("float.npy"), load("person.npy")
    print("| what | cosine mean | min | verification | same-different margin | compile s | peak MB |")
    print("|---|---|---|---|---|---|---|")
    for name, recipe in (("a8w8", {"precision": "a8w8"}), ("a8w8+s16", {"precision": "a8w8+s16"}),
                         ("a8w8+s16, rounded", {"precision": "a8w8+s16", "weight_method": "nearest"}),
                         ("a16w8", {"precision": "a16w8"}),
                         ("a16w4, rounded", {"precision": "a16w4", "weight_method": "nearest"}),
                         ("a16w4, SeqMSE", {"precision": "a16w4", "weight_method": "seqmse"}),
                         ("a16w4", {"precision": "a16w4", "weight_method": "gptq"})):
        out, got = os.path.join(options.work, "face.itg"), os.path.join(options.work, "ours.npy")
        recipe_file = os.path.join(options.work, "recipe.json")
        with open(recipe_file, "w") as file:
            json.dump(recipe, file)
        # A recipe is followed to the letter; a precision alone takes the weight method that compile chooses.
        chosen = ["--recipe", recipe_file] if "weight_method" in recipe else ["-p", recipe["precision"]]
        command = [options.intaglio, "compile", MODEL, "-o", out, *chosen, "--quiet",
                   "--calibration", "input=" + os.path.join(options.work, "calibrate.npy")]
        start = time.time()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.time() - start
        if status:
            sys.exit(f"intaglio compile failed ({status})")
        subprocess.run([options.intaglio, "run", out, "--samples", "--input", "input=" + os.path.join(options.work, "judge.npy"),
                        "--output", "output=" + got], check=True, stdout=subprocess.DEVNULL)
        row("Intaglio " + name, np.load(got).reshape(want.shape), want, person, seconds, usage.ru_maxrss / 1024, face)
    if options.no_peers:
        return
    for name, arguments in (("ONNX Runtime a8w8", ("onnxruntime", options.work, "a8w8")),
                            ("ONNX Runtime a16w8", ("onnxruntime", options.work, "a16w8")),
                            ("NNCF on OpenVINO", ("nncf", options.work))):
        try:
            seconds, megabytes = child(*arguments)
        except subprocess.CalledProcessError:
            print(f"| {name} | not installed or failed |")
            continue
        row(name, load("peer.npy"), want, person, seconds, megabytes, face)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        child_main(*sys.argv[2:])
    else:
        main()
