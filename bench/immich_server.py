#!/usr/bin/env python3
"""The Immich service beside a reference service in Python (FastAPI + ONNX Runtime): cold start, idle memory, throughput.

  bench/immich_server.py --models DIR --faces DIR --photos DIR --tools DIR [--intaglio build/release/intaglio] [--rounds 5]
                         [--seconds 8] [--clients 4] [--json]

--models: the folder of fr_detect.onnx, fr_landmark.onnx, fr_feature.onnx; --faces: photographs that calibrate (the odd ones are
left to judge); --photos: photographs that are sent; --tools: the folder of face_reference.py.

Cold start is the time from the start of the process to the first face embedding in the answer; the best of the rounds. Idle memory is
the resident set after that answer and six seconds of rest; "fresh" is before any request; "unloaded" is after the load and 75 seconds
without a request, models being closed after 60 (--model-ttl; the reference keeps its own). Throughput counts answers with all faces
embedded. Both services run alone, in turn, on the same photographs. The integer models are made first with `intaglio compile`.
With --clip also an image tower in the shape of CLIP ViT-B/32 with made weights (bench/make_clip.py): speed and memory only.
"""
import argparse
import concurrent.futures
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TTL, UNLOAD_SECONDS = ("--model-ttl", "60"), 75
HERE = os.path.dirname(os.path.abspath(__file__))
PREPROCESS = {"channels": "BGR", "resize": {"rule": "squash", "method": "opencv-linear"}, "size": [112, 112], "mean": 127, "std": 128}
CLIP_ENTRIES = '{"clip":{"visual":{"modelName":"ViT-B-32__made"}}}'
ENTRIES = ('{"facial-recognition":{"detection":{"modelName":"faceplugin","options":{"minScore":0.7}},'
           '"recognition":{"modelName":"faceplugin"}}}')
REFERENCE = """
import sys, json, asyncio
sys.path.insert(0, sys.argv[1])
import orjson, uvicorn
from fastapi import FastAPI, File, Form
from fastapi.responses import Response, PlainTextResponse
import immich_reference
app, reference = FastAPI(), None
@app.get("/ping")
async def ping(): return PlainTextResponse("pong")
def clip(image):
    global reference
    import io, numpy as np, onnxruntime as ort
    from PIL import Image
    if reference is None: reference = ort.InferenceSession(sys.argv[2], providers=["CPUExecutionProvider"])
    image = Image.open(io.BytesIO(image)).convert("RGB")
    scale = 224 / min(image.size)
    image = image.resize([max(224, int(side * scale)) for side in image.size], Image.BICUBIC)
    left, top = int(image.width / 2 - 112), int(image.height / 2 - 112)
    x = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32) / 255
    x = (x - np.float32([.48145466, .4578275, .40821073])) / np.float32([.26862954, .26130258, .27577711])
    return orjson.dumps({"clip": orjson.dumps(reference.run(None, {"image": x.transpose(2, 0, 1)[None]})[0][0].tolist()).decode()})
def run(entries, image):
    global reference
    if "clip" in json.loads(entries): return clip(image)
    if reference is None: reference = immich_reference.Reference(sys.argv[2], sys.argv[3])
    answer = reference.predict(json.loads(entries), image)
    for face in answer["facial-recognition"]:
        face.pop("exactBox"), face.pop("twins")
        face["embedding"] = orjson.dumps(face["embedding"]).decode()
    return orjson.dumps(answer)
@app.post("/predict")
async def predict(entries: str = Form(), image: bytes = File()):
    return Response(await asyncio.get_running_loop().run_in_executor(None, run, entries, image), media_type="application/json")
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[4]), log_level="error")
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def body(image, entries=ENTRIES):
    boundary = b"----bench"
    parts = [(b'name="entries"', entries.encode()), (b'name="image"; filename="blob"', image)]
    return b"".join(b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (boundary, n, v) for n, v in parts) + b"--%s--\r\n" % boundary


def post(connection, data):
    connection.request("POST", "/predict", data, {"Content-Type": "multipart/form-data; boundary=----bench"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}: {text[:200]}")
    return json.loads(text)


def memory(pid):
    """Resident MiB of a process and its children."""
    total = 0
    for status in glob.glob("/proc/[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in open(status).read().splitlines() if ":" in line)
        except OSError:
            continue
        if fields["Pid"].strip() == str(pid) or fields["PPid"].strip() == str(pid):
            total += int(fields.get("VmRSS", "0 kB").split()[0])
    return total / 1024


class Service:
    def __init__(self, command):
        self.port = free_port()
        self.start = time.perf_counter()
        self.process = subprocess.Popen([str(self.port) if c == "PORT" else c for c in command], stderr=subprocess.DEVNULL)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.002)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def measure(command, bodies, rounds, seconds, clients):
    cold, result = [], {}
    for round in range(rounds):
        service = Service(command)
        if round == 0:
            time.sleep(1)
            result["fresh_mib"] = memory(service.process.pid)
            service.stop()
            service = Service(command)
        answer = post(service.connect(), bodies[0])
        cold.append(time.perf_counter() - service.start)
        if not answer.get("facial-recognition", True):
            raise RuntimeError("no face in the first photograph")
        if round < rounds - 1:
            service.stop()
    time.sleep(6)
    result["cold_ms"], result["idle_mib"] = 1e3 * min(cold), memory(service.process.pid)
    end = time.perf_counter() + seconds

    def use(index):
        connection, faces, answers, latencies = service.connect(), 0, 0, []
        while time.perf_counter() < end:
            start = time.perf_counter()
            try:
                answer = post(connection, bodies[(index + answers) % len(bodies)])
            except (http.client.RemoteDisconnected, ConnectionError):
                connection = service.connect()
                continue
            latencies.append(time.perf_counter() - start)
            faces, answers = faces + len(answer.get("facial-recognition", [])), answers + 1
        return faces, answers, latencies

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        done = list(pool.map(use, range(clients)))
    latencies = sorted(l for d in done for l in d[2])
    result["answers_per_second"] = sum(d[1] for d in done) / seconds
    result["faces_per_second"] = sum(d[0] for d in done) / seconds
    result["p50_ms"], result["p99_ms"] = 1e3 * latencies[len(latencies) // 2], 1e3 * latencies[int(len(latencies) * 0.99)]
    result["busy_mib"] = memory(service.process.pid)
    if "--model-ttl" in command:
        time.sleep(UNLOAD_SECONDS)
        result["unloaded_mib"] = memory(service.process.pid)
    service.stop()
    return result


def model_folder(work, models, compiled, options):
    base = os.path.join(work, "integer" if compiled else "float", "facial-recognition", "faceplugin")
    for part in ("detection", "recognition"):
        os.makedirs(os.path.join(base, part))
    for name, place in (("fr_detect", "detection/model"), ("fr_landmark", "detection/landmarks"), ("fr_feature", "recognition/model")):
        shutil.copy(os.path.join(models, name + ".onnx"), os.path.join(base, place + ".onnx"))
    with open(os.path.join(base, "recognition/preprocess.json"), "w") as out:
        json.dump(PREPROCESS, out)
    if compiled:
        common = ["--calibration", options.faces, "--split", "--quiet"]
        for arguments in (["detection/model", "--preprocess", "faceplugin-detector"],
                          ["recognition/model", "--kind", "face-recognition", "--face-models", models]):
            place = os.path.join(base, arguments[0])
            subprocess.run([options.intaglio, "compile", place + ".onnx", "-o", place + ".itg", *arguments[1:], *common], check=True)
            os.remove(place + ".onnx")
    return os.path.join(work, "integer" if compiled else "float")


def measure_clip(options, work, reference, bodies, table):
    import make_clip

    model = make_clip.make(os.path.join(work, "clip"))
    arguments = (bodies, 2, options.seconds, 2)
    command = [options.intaglio, "serve", "--immich", "--offline", "--models", os.path.join(work, "clip"), "--host", "127.0.0.1", "--port", "PORT", *TTL]
    table["CLIP, ONNX Runtime"] = measure([*reference[:3], model, *reference[4:]], *arguments)
    table["CLIP, Intaglio float"] = measure(command, *arguments)
    subprocess.run([options.intaglio, "compile", model, "-o", model[:-5] + ".itg", "--calibration", options.photos, "--limit", "8",
                    "--preprocess", "clip", "--quiet"], check=True)
    table["CLIP, Intaglio integers"] = measure(command, *arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--models", "--faces", "--photos", "--tools"):
        parser.add_argument(name, required=True)
    parser.add_argument("--intaglio", default=os.path.join(HERE, "../build/release/intaglio"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--clip", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    photos = sorted(p for p in glob.glob(os.path.join(options.photos, "**"), recursive=True) if p.lower().endswith((".jpg", ".png")))
    bodies = [body(open(p, "rb").read()) for p in photos]
    table = {}
    with tempfile.TemporaryDirectory() as work:
        script = os.path.join(work, "reference.py")
        with open(script, "w") as out:
            out.write(REFERENCE)
        reference = [sys.executable, script, os.path.join(HERE, "../tests/server"), options.models, options.tools, "PORT"]
        arguments = (bodies, options.rounds, options.seconds, options.clients)
        for name, compiled in (("Intaglio, integers", True), ("Intaglio, float", False)):
            folder = model_folder(work, options.models, compiled, options)
            command = [options.intaglio, "serve", "--immich", "--offline", "--models", folder, "--host", "127.0.0.1", "--port", "PORT", *TTL]
            table[name] = measure(command, *arguments)
        table["FastAPI + ONNX Runtime"] = measure(reference, *arguments)
        if options.clip:
            measure_clip(options, work, reference, [body(open(p, "rb").read(), CLIP_ENTRIES) for p in photos], table)
    if options.json:
        print(json.dumps(table))
        return
    print(f"{len(bodies)} photographs, {options.clients} clients, {os.cpu_count()} processors")
    print(f"{'':24}{'cold ms':>9}{'fresh MiB':>11}{'idle MiB':>10}{'busy MiB':>10}{'unloaded MiB':>14}{'answers/s':>11}{'faces/s':>9}{'p50 ms':>8}{'p99 ms':>8}")
    for name, r in table.items():
        print(f"{name:24}{r['cold_ms']:9.0f}{r['fresh_mib']:11.0f}{r['idle_mib']:10.0f}{r['busy_mib']:10.0f}{r.get('unloaded_mib', float('nan')):14.0f}{r['answers_per_second']:11.1f}"
              f"{r['faces_per_second']:9.1f}{r['p50_ms']:8.0f}{r['p99_ms']:8.0f}")


if __name__ == "__main__":
    main()
