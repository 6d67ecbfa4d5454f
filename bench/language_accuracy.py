#!/usr/bin/env python3
"""Accuracy of compiled language models on documentation that this machine has: perplexity ratio, KL, same top token.

  bench/language_accuracy.py [--model FILE|DIR] [--work DIR] [--windows 44] [--length 512] [--calibration 16] [NAME ...]

Text: the help pages of CMake (which building the project needs anyway): commands calibrate, manuals judge, so the two are
disjoint; 44 windows of 512 tokens are 22,400 judged tokens. NAMES choose rows of the table (default: all). Prints one line a
recipe; the figures are those of `intaglio compile --json`.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
MODELS = os.environ.get("ITG_MODELS", os.path.expanduser("~/.cache/intaglio/models"))
RECIPES = {
    "a16w8": ["--precision", "a16w8"],
    "a16w8-kv16": ["--precision", "a16w8", "--cache-bits", "16"],
    "a16w4-block32": ["--precision", "a16w4", "--weight-block", "32"],
    "a16w4-block16": ["--precision", "a16w4", "--weight-block", "16"],
    "a16w4-channel": ["--precision", "a16w4", "--weight-block", "0"],
}


def text(folder, pattern, path):
    files = sorted(glob.glob(os.path.join(folder, pattern)))
    if not files:
        sys.exit(f"no {pattern} in {folder}")
    with open(path, "wb") as out:
        for name in files:
            with open(name, "rb") as f:
                out.write(f.read() + b"\n")
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=os.path.join(MODELS, "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--work", default="/tmp/intaglio-language")
    parser.add_argument("--windows", type=int, default=44)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--calibration", type=int, default=16)
    parser.add_argument("--command", default=os.path.join(ROOT, "build", "release", "intaglio"))
    parser.add_argument("names", nargs="*", default=[])
    arguments = parser.parse_args()
    folders = sorted(glob.glob("/usr/share/cmake*/Help"))
    if not folders:
        sys.exit("CMake's help pages are not installed (package cmake-data)")
    os.makedirs(arguments.work, exist_ok=True)
    calibration = text(folders[-1], "command/*.rst", os.path.join(arguments.work, "calibration.txt"))
    judge = text(folders[-1], "manual/*.rst", os.path.join(arguments.work, "judge.txt"))
    print(f"{'recipe':16}{'bytes':>12}{'perplexity':>12}{'float':>9}{'ratio':>9}{'KL mean':>10}{'KL 99.9':>9}{'top-1':>8}"
          f"{'tokens':>8}{'seconds':>9}{'MiB':>7}")
    for name in arguments.names or RECIPES:
        output = os.path.join(arguments.work, name + ".itg")
        done = subprocess.run(
            [arguments.command, "compile", arguments.model, "-o", output, "--calibration", calibration, "--judge", judge,
             "--limit", str(arguments.calibration), "--judge-limit", str(arguments.windows), "--sample-length",
             str(arguments.length), "--allow-collapse", "--quiet", "--json", *RECIPES[name]],
            capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        report = json.loads(done.stdout)
        a = report["accuracy"]
        print(f"{name:16}{report['file_bytes']:12,}{a['integer_perplexity']:12.3f}{a['float_perplexity']:9.3f}"
              f"{a['perplexity_ratio']:9.4f}{a['divergence_mean']:10.5f}{a['divergence_999']:9.4f}{a['top1_agreement']:8.4f}"
              f"{a['tokens']:8}{report['total_seconds']:9.1f}{report['peak_memory_bytes'] / 2**20:7.0f}", flush=True)


if __name__ == "__main__":
    main()
