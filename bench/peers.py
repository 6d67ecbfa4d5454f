"""What the accuracy benchmarks share: Intaglio and its peers (ONNX Runtime's static quantizer, NNCF on OpenVINO) behind one
call each. A contestant takes inputs {name: array with one sample a row} and answers {output: array}.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SHARED = os.environ.get("ITG_SHARED", os.path.join(ROOT, "..", "shared"))
MODELS = os.environ.get("ITG_MODELS", os.path.expanduser("~/.cache/intaglio/models"))
INTAGLIO = os.environ.get("INTAGLIO", os.path.join(ROOT, "build", "release", "intaglio"))


def rows(data, begin, end):
    return {name: values[begin:end] for name, values in data.items()}


def count(data):
    return len(next(iter(data.values())))


def fixed_model(model, shapes, work):
    """A copy of the model with static input shapes and opset 13 or newer (the quantizers need both)."""
    import onnx
    import onnx.version_converter
    from onnxruntime.tools.onnx_model_utils import make_input_shape_fixed

    path = os.path.join(work, os.path.basename(model)[:-5] + "_fixed.onnx")
    graph = onnx.load(model)
    if graph.opset_import[0].version < 13:
        graph = onnx.version_converter.convert_version(graph, 13)
    constants = {tensor.name for tensor in graph.graph.initializer}
    for value in [value for value in graph.graph.input if value.name not in constants]:
        make_input_shape_fixed(graph.graph, value.name, [1, *shapes[value.name]])
    onnx.save(graph, path)
    return path


def _session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Exact 8-bit products also on processors without VNNI, where the fast ones saturate.
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _run_session(session, data):
    names = [output.name for output in session.get_outputs()]
    answers = [session.run(None, rows(data, i, i + 1)) for i in range(count(data))]
    return {name: np.concatenate([answer[k] for answer in answers]) for k, name in enumerate(names)}


def float_answers(path, data):
    return _run_session(_session(path), data)


class OnnxRuntime:
    def __init__(self, path, calibration, bits, work):
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        class Reader(CalibrationDataReader):
            def __init__(self):
                self.samples = iter([rows(calibration, i, i + 1) for i in range(count(calibration))])

            def get_next(self):
                return next(self.samples, None)

        prepared, quantized = (os.path.join(work, f"ort_{name}.onnx") for name in ("prepared", f"a{bits}"))
        quant_pre_process(path, prepared)
        quantize_static(prepared, quantized, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt16 if bits == 16 else QuantType.QUInt8, weight_type=QuantType.QInt8,
                        extra_options={"UseQDQContribOps": bits == 16})
        self.session = _session(quantized)

    def __call__(self, data):
        return _run_session(self.session, data)


class Nncf:
    def __init__(self, path, calibration, transformer=False):
        import nncf
        import openvino

        model = openvino.Core().read_model(path)
        names = [value.any_name for value in model.inputs]
        samples = [[calibration[name][i:i + 1] for name in names] for i in range(count(calibration))]
        options = {"model_type": nncf.ModelType.TRANSFORMER} if transformer else {}
        quantized = nncf.quantize(model, nncf.Dataset(samples), subset_size=len(samples), **options)
        self.names = names
        self.outputs = [value.any_name for value in quantized.outputs]
        self.model = openvino.Core().compile_model(quantized, "CPU")

    def __call__(self, data):
        answers = [self.model([data[name][i:i + 1] for name in self.names]) for i in range(count(data))]
        return {name: np.concatenate([answer[k] for answer in answers]) for k, name in enumerate(self.outputs)}


class Intaglio:
    def __init__(self, path, calibration, precision):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "model.itg")
        command = [INTAGLIO, "compile", path, "-o", self.file, "-p", precision, "-q", "--allow-collapse"]
        for name, values in calibration.items():
            np.save(self._name(name), values)
            command += ["-c", f"{name}={self._name(name)}"]
        start = time.time()
        subprocess.run(command, check=True)
        self.seconds = time.time() - start

    def _name(self, name):
        return os.path.join(self.folder.name, name + ".npy")

    def __call__(self, data, chunk=64):
        parts = []
        for begin in range(0, count(data), chunk):
            answers = os.path.join(self.folder.name, "answers")
            os.makedirs(answers, exist_ok=True)
            command = [INTAGLIO, "run", self.file, "--samples", "--output-dir", answers, "-q"]
            for name, values in rows(data, begin, begin + chunk).items():
                np.save(self._name(name), values)
                command += ["--input", f"{name}={self._name(name)}"]
            subprocess.run(command, check=True)
            parts.append({file[:-4]: np.load(os.path.join(answers, file)) for file in sorted(os.listdir(answers))})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def contestants(path, calibration, work, names, transformer=False):
    """Yields (name, contestant); those that are not installed or refuse the model are named and left out."""
    makers = {"intaglio a8w8+s16": lambda: Intaglio(path, calibration, "a8w8+s16"),
              "intaglio a16w8": lambda: Intaglio(path, calibration, "a16w8"),
              "onnxruntime a8w8": lambda: OnnxRuntime(path, calibration, 8, work),
              "onnxruntime a16w8": lambda: OnnxRuntime(path, calibration, 16, work),
              "nncf": lambda: Nncf(path, calibration, transformer)}
    for name, maker in makers.items():
        if names and not any(wanted in name for wanted in names):
            continue
        try:
            yield name, maker()
        except Exception as error:  # A peer's failure is a result, not the end of the benchmark.
            print(f"{name}: left out, {str(error).splitlines()[0][:120]}", file=sys.stderr, flush=True)


def output_of(answers, like):
    """The answer of the same name, or, where a peer renames outputs, the only one of the same size."""
    name, shape = like
    if name in answers:
        return answers[name].reshape(shape)
    same = [value for value in answers.values() if value.size == int(np.prod(shape))]
    return same[0].reshape(shape)


class Table:
    def __init__(self, columns):
        self.columns, self.lines = columns, []
        print("| " + " | ".join(["contestant", *columns]) + " |\n|" + "---|" * (len(columns) + 1), flush=True)

    def add(self, name, values):
        self.lines.append({"contestant": name, **dict(zip(self.columns, map(float, values)))})
        print("| " + " | ".join([name, *(f"{value:.5g}" for value in values)]) + " |", flush=True)


def write_rows(rows, path):
    if path:
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)


def arguments(parser):
    parser.add_argument("--only", nargs="*", default=[], help="contestants whose names hold one of these")
    parser.add_argument("--json", help="also write the rows here")
    return parser.parse_args()
