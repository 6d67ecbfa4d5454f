#!/usr/bin/env python3
"""A local server that speaks the model hub's protocol, with faults on demand. Needs the standard library only.

  hub_server.py PORT_FILE LOG_FILE [FOLDER]

FOLDER holds further repositories, FOLDER/<model>/..; their bodies come slowly.

Writes its port to PORT_FILE, one line a request to LOG_FILE (method, path, Range or "-", "token" or "-"). Repositories:
  immich-app/ViT-B-32__openai  a model; immich-app/buffalo_l  one that needs the token "secret"
Faults, by the revision that is asked for (the first one also by its commit): cut = every large body ends early on the first request
of a file; norange = no ranges; corrupt = another byte in model.onnx; escape, huge, nojson, nochecksum = a listing that must be refused;
busy = HTTP 503 twice; long = a body longer than stated; redirect = files live on another host name; loop = files are redirected for
ever; local = they are redirected to a file of the client's machine; elsewhere = a part from another place than asked for;
endless = a listing of 20 MiB; odd = a listing with hidden and strangely named files that nobody needs; name-N = a listing with BAD_NAMES[N].
"""
import hashlib
import http.server
import json
import os
import random
import sys
import threading
import time
import urllib.parse

draw = random.Random(1)
FILES = {
    "config.json": b'{"embed_dim": 512}',
    "README.md": b"# not fetched",
    ".gitattributes": b"*.onnx filter=lfs",
    "visual/model.onnx": bytes(draw.randrange(256) for _ in range(300000)),
    "visual/model.armnn": b"not fetched",
    "visual/rknpu/rk3588/model.rknn": b"not fetched",
    "visual/preprocess_cfg.json": b'{"size": 224}',
    "visual/empty.txt": b"",
    "textual/model.onnx": bytes(draw.randrange(256) for _ in range(70000)),
    "textual/tokenizer.json": b'{"version": "1.0"}',
}
BAD_NAMES = ["/etc/intaglio-escaped.txt", "visual/../../../escaped.txt", "visual/..", "..", "a//b.onnx", "a/./b.onnx", "visual/", "", "a\\..\\b.onnx",
             "c:evil.onnx", "visual/model.onnx\u202e", "line\nbreak.onnx", "x" * 600 + ".onnx", " leading.onnx", "~/b.onnx", "$(touch x).onnx"]
COMMITS = {name: hashlib.sha1(name.encode()).hexdigest() for name in
           ("main", "cut", "norange", "corrupt", "escape", "huge", "nojson", "nochecksum", "busy", "long", "redirect", "loop", "local",
            "elsewhere", "endless", "odd", *("name-%d" % i for i in range(len(BAD_NAMES))))}
REPOSITORIES = {}
if len(sys.argv) > 3:
    for place, _, names in os.walk(sys.argv[3], followlinks=True):
        for name in names:
            path = os.path.join(place, name)
            model, rest = os.path.relpath(path, sys.argv[3]).split(os.sep, 1)
            REPOSITORIES.setdefault(model, {})[rest] = open(path, "rb").read()
seen, lock = {}, threading.Lock()


def listing(revision, files):
    siblings = []
    for path, data in files.items():
        entry = {"rfilename": path, "size": len(data), "blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
        if path.endswith(".onnx"):
            entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        if revision == "nochecksum":
            entry.pop("blobId")
        siblings.append(entry)
    if revision == "escape":
        siblings.append({"rfilename": "../escaped.txt", "size": 1, "blobId": "0" * 40})
    if revision.startswith("name-"):
        siblings.append({"rfilename": BAD_NAMES[int(revision[5:])], "size": 1, "blobId": "0" * 40})
    if revision == "odd":
        siblings += [{"rfilename": name, "size": 1, "blobId": "0" * 40} for name in
                     ("visual/.gitkeep", ".cache/x.json", "\u00fcber (1).md", "images/../README.md")]
    if revision == "huge":
        siblings = [{"rfilename": "%d.json" % i, "size": 1, "blobId": "0" * 40} for i in range(5000)]
    return {"id": "immich-app/x", "sha": COMMITS[revision], "siblings": siblings}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # A client that has seen enough.

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        if length is not None and length > len(body):
            self.close_connection = True

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        token = self.headers.get("Authorization")
        with lock, open(sys.argv[2], "a") as log:
            count = seen[self.path] = seen.get(self.path, 0) + 1
            log.write("GET %s %s %s\n" % (self.path, self.headers.get("Range", "-"), "token" if token else "-"))
        parts = urllib.parse.unquote(url.path).strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) == 6 and parts[4] == "revision":
            self.api(parts[3], parts[5], token, count)
        elif len(parts) >= 5 and parts[2] == "resolve":
            self.file(parts[1], parts[3], "/".join(parts[4:]), token, count)
        else:
            self.answer(404)

    def refused(self, model, token):
        if model == "buffalo_l" and token != "Bearer secret":
            self.answer(401)
            return True
        if model not in ("buffalo_l", "ViT-B-32__openai", *REPOSITORIES):
            self.answer(404)
            return True
        return False

    def api(self, model, revision, token, count):
        if self.refused(model, token):
            return
        if revision not in COMMITS:
            self.answer(404)
        elif revision == "busy" and count <= 2:
            self.answer(503)
        elif revision == "nojson":
            self.answer(200, b"<html>")
        elif revision == "endless":
            self.answer(200, b"[" * (20 << 20))
        else:
            self.answer(200, json.dumps(listing(revision, REPOSITORIES.get(model, FILES))).encode(), [("Content-Type", "application/json")])

    def file(self, model, commit, path, token, count):
        revision = next((n for n, c in COMMITS.items() if c == commit), None)
        if revision == "redirect" and not path.startswith("moved/"):
            host = "localhost" if self.headers["Host"].startswith("127.") else "127.0.0.1"
            target = "http://%s:%d/immich-app/%s/resolve/%s/moved/%s" % (host, self.server.server_port, model, commit, path)
            self.answer(302, headers=[("Location", target)])
            return
        if revision in ("loop", "local"):
            self.answer(302, headers=[("Location", self.path + "x" if revision == "loop" else "file:///etc/hostname")])
            return
        path = path.removeprefix("moved/") if revision == "redirect" else path
        files = REPOSITORIES.get(model, FILES)
        if revision is None or path not in files:
            self.answer(404)
            return
        if revision != "redirect" and self.refused(model, token):
            return
        data, start, status, headers = files[path], 0, 200, []
        if revision == "corrupt" and path == "visual/model.onnx":
            data = data[:1000] + bytes([data[1000] ^ 1]) + data[1001:]
        if revision == "long":
            data += b"more"
        wanted = self.headers.get("Range")
        if wanted and revision != "norange":
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(data):
                self.answer(416)
                return
            stated = start - 1 if revision == "elsewhere" else start
            status, headers = 206, [("Content-Range", "bytes %d-%d/%d" % (stated, len(data) - 1, len(data)))]
        body = data[start:]
        if model in REPOSITORIES:
            time.sleep(len(body) / 4e6)
        if revision in ("cut", "norange", "elsewhere") and count == 1 and len(body) > 1000:
            self.answer(status, body[:len(body) // 3], headers, len(body))
        else:
            self.answer(status, body, headers)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".tmp", "w") as file:
    file.write(str(server.server_port))
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
server.serve_forever()
