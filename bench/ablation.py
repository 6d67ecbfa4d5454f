#!/usr/bin/env python3
"""The ablation table of docs/ACCURACY.md: what each method that protects accuracy buys, on every real model here.

  bench/ablation.py [--only PART,PART] [--lines 40] [--json FILE]

A column is a model and precision, a row a method: the decibels of noise at the outputs that it buys (noise of the program
without it over noise of the program). "with .. weights": what the weights of the program buy over those. Samples that
calibrate and judge are disjoint. The column with a chip follows its rules and is judged by its arithmetic.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import accuracy
import ocr_accuracy
import peers

# Model, arguments beside its data, recipe (what is not said is the default of the precision).
COLUMNS = [("face embedder", [], {"precision": "a8w8"}),
           ("face embedder", [], {"precision": "a8w8+s16"}),
           ("face embedder", [], {"precision": "a16w4"}),
           ("face embedder", ["--target", "qcs6490"], {"precision": "a8w8+s16"}),
           ("pre-activation, spread 1.6", [], {"precision": "a8w8+s16"}),
           ("pre-activation, spread 2.4, seed 5", ["--target", "qcs6490"], {"precision": "a8w8+s16"}),
           ("MiniLM", [], {"precision": "a8w8+s16"}),
           ("MiniLM", [], {"precision": "a16w8"}),
           ("PP-OCRv4 recognition", [], {"precision": "a8w8+s16"}),
           ("face detector", [], {"precision": "a8w8+s16"}),
           ("NudeNet (YOLOv8n)", [], {"precision": "a8w8+s16"})]


def ocr_model(work, lines):
    """PP-OCRv4's recognizer with rendered lines."""
    model = peers.fixed_model(os.path.join(peers.MODELS, ocr_accuracy.MODELS["v4-rec"]), {"x": (3, *ocr_accuracy.LINE)}, work)
    data = []
    for option, seed in (("--calibration", 10000), ("--judge", 50000)):
        path = os.path.join(work, f"lines{seed}.npy")
        np.save(path, np.stack([ocr_accuracy.Renderer(seed + i).line() for i in range(lines)]))
        data += [option, "x=" + path]
    return model, data


def ablate(path, data, options, recipe, work, seconds):
    recipe_file = os.path.join(work, "recipe.json")
    with open(recipe_file, "w") as file:
        json.dump(recipe, file)
    split = [] if "--judge" in data else ["--split"]
    command = [peers.INTAGLIO, "compile", path, "-o", os.path.join(work, "out.itg"), "--recipe", recipe_file, "--ablate", "--json",
               "-q", "--allow-collapse", *split, *data, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)["ablation"]


def show(columns):
    methods = list(dict.fromkeys(row["method"] for column in columns.values() for row in column[1:]))
    print("| | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
    for method in methods:
        values = [next((row["bought_db"] for row in column if row["method"] == method), None) for column in columns.values()]
        print(f"| {method} | " + " | ".join("" if value is None else "0" if value == 0 else f"{value:+.2f}" for value in values) + " |")
    print("| cosine with all | " + " | ".join(f"{column[0]['cosine_mean']:.4f}" for column in columns.values()) + " |")
    print("| cosine without any | " + " | ".join(f"{column[-1]['cosine_mean']:.4f}" for column in columns.values()) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of column names, cut by commas")
    parser.add_argument("--lines", type=int, default=40, help="rendered lines that calibrate, and as many that judge")
    parser.add_argument("--seconds", type=int, default=1200, help="limit of one column")
    parser.add_argument("--json", help="also write the rows here")
    arguments = parser.parse_args()
    columns = {}
    with tempfile.TemporaryDirectory() as work:
        models = {name: (path, data) for name, path, data in accuracy.models(work)}
        models["PP-OCRv4 recognition"] = ocr_model(work, arguments.lines)
        for name, options, recipe in COLUMNS:
            title = " ".join([name, *options[1:], recipe["precision"]])
            if arguments.only and not any(part in title for part in arguments.only.split(",")):
                continue
            try:
                columns[title] = ablate(*models[name], options, recipe, work, arguments.seconds)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{title}: {error}", file=sys.stderr, flush=True)
                continue
            print(f"{title}: {columns[title][0]['cosine_mean']:.5f}", file=sys.stderr, flush=True)
            if arguments.json:
                with open(arguments.json, "w") as file:
                    json.dump(columns, file, indent=1)
    show(columns)


if __name__ == "__main__":
    main()
