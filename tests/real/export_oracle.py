"""Runs an exported ONNX model in ONNX Runtime and writes its outputs.

usage: export_oracle.py MODEL.onnx cpu|qnn OUTPUT_PREFIX INPUT.npy ..   -> OUTPUT_PREFIX0.npy, ..
"""
import sys

import numpy as np
import onnxruntime as ort

model, provider, prefix = sys.argv[1:4]
options = ort.SessionOptions()
options.log_severity_level = 3
if provider == "qnn":
    import onnxruntime_qnn as qnn

    ort.register_execution_provider_library(qnn.EP_NAME, qnn.get_library_path())
    device = [d for d in ort.get_ep_devices() if d.ep_name in (qnn.EP_NAME, "QNN")][:1]
    options.add_provider_for_devices(device, {"backend_path": qnn.get_qnn_htp_path(), "htp_arch": "68", "soc_model": "35"})
    session = ort.InferenceSession(model, options)
else:
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
feed = {i.name: np.load(path) for i, path in zip(session.get_inputs(), sys.argv[4:])}
for index, output in enumerate(session.run(None, feed)):
    np.save(f"{prefix}{index}.npy", output)
