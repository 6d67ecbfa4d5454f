#!/usr/bin/env python3
"""Inference time of the face embedder: Intaglio, ONNX Runtime int8 and OpenVINO int8, in turn, in one run.

  bench/face_peers.py [MODEL.itg] [--work DIR] [--runs 60] [--intaglio build/release/intaglio]

The peers are made once in DIR from the same photographs: ONNX Runtime's static quantizer (QDQ, u8 activations, s8 weights per
channel) run by its CPU provider, and NNCF post-training quantization run by OpenVINO's CPU plugin (latency hint). Each
round times one inference of every contestant; the median and the minimum of the rounds and their ratios are printed, for
one thread and for all. Without MODEL.itg only the peers run. Contestants that are not installed are named and left out.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

import face_accuracy

HERE = os.path.dirname(os.path.abspath(__file__))


def onnxruntime_model(work, calibration):
    import onnx
    import onnx.version_converter
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    path = os.path.join(work, "face_qdq.onnx")
    if os.path.exists(path):
        return path

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.rows = iter(calibration)

        def get_next(self):
            row = next(self.rows, None)
            return None if row is None else {"input": row[None]}

    prepared = os.path.join(work, "face_prepared.onnx")
    onnx.save(onnx.version_converter.convert_version(onnx.load(face_accuracy.MODEL), 17), prepared)  # per-channel: 13
    quant_pre_process(prepared, prepared)
    quantize_static(prepared, path, Reader(), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8, per_channel=True)
    return path


def openvino_model(work, calibration):
    import nncf
    import openvino

    path = os.path.join(work, "face_nncf.xml")
    if not os.path.exists(path):
        model = openvino.Core().read_model(face_accuracy.MODEL)
        quantized = nncf.quantize(model, nncf.Dataset([row[None] for row in calibration]), subset_size=len(calibration))
        openvino.save_model(quantized, path)
    return path


def onnxruntime_runner(path, threads, sample):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: sample}

    def run():
        start = time.perf_counter()
        session.run(None, feed)
        return time.perf_counter() - start

    return run


def openvino_runner(path, threads, sample):
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()

    def run():
        start = time.perf_counter()
        request.infer([sample])
        return time.perf_counter() - start

    return run


def intaglio_times(command, model, threads, runs):
    """`intaglio bench` times many inferences in one process; the caller alternates processes with the peers' rounds."""
    out = subprocess.run([command, "bench", model, "--threads", str(threads), "--runs", str(runs), "--json"], check=True,
                         capture_output=True, text=True).stdout
    result = json.loads(out)["milliseconds"]
    return result["min"], result["median"]


def measure(arguments, threads, sample, paths):
    runners = {}
    for name, maker, path in (("onnxruntime", onnxruntime_runner, paths.get("onnxruntime")),
                              ("openvino", openvino_runner, paths.get("openvino"))):
        if path:
            runners[name] = maker(path, threads, sample)
    times, own = {name: [] for name in runners}, []
    for run in runners.values():
        for _ in range(5):
            run()
    chunks = 6
    for _ in range(chunks):
        for name, run in runners.items():
            for _ in range(max(1, arguments.runs // chunks)):
                times[name].append(1e3 * run())
        if arguments.model:
            own.append(intaglio_times(arguments.intaglio, arguments.model, threads, max(5, arguments.runs // chunks)))
    rows = {name: (min(t), float(np.median(t))) for name, t in times.items()}
    if own:
        rows["intaglio"] = (min(t[0] for t in own), float(np.median([t[1] for t in own])))
    for name, (best, median) in rows.items():
        ratio = f"  intaglio takes {rows['intaglio'][0] / best:.2f}x (min) {rows['intaglio'][1] / median:.2f}x (median)" \
            if "intaglio" in rows and name != "intaglio" else ""
        print(f"{threads} thread{'s' if threads > 1 else ' '}  {name:12s} min {best:7.3f} ms  median {median:7.3f} ms{ratio}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--work", default=os.path.join(HERE, "..", "build", "face_peers"))
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--intaglio", default=os.path.join(HERE, "..", "build", "release", "intaglio"))
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    face_accuracy.prepare(arguments.work)
    calibration = np.load(os.path.join(arguments.work, "calibrate.npy"))
    paths = {}
    for name, maker in (("onnxruntime", onnxruntime_model), ("openvino", openvino_model)):
        try:
            paths[name] = maker(arguments.work, calibration)
        except ImportError as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
    for threads in sorted({1, os.cpu_count()}):
        measure(arguments, threads, np.ascontiguousarray(calibration[:1]), paths)


if __name__ == "__main__":
    main()
