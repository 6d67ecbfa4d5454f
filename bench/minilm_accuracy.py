#!/usr/bin/env python3
"""Accuracy of Intaglio and its peers on the real MiniLM sentence encoder, in one run.

  bench/minilm_accuracy.py [--only NAME..] [--json FILE]

The first 64 sentences calibrate, the other 336 judge. Printed: cosine to float (mean, lowest), the same after subtracting the float
mean, the spread of pair cosines against float (1: kept), and how many of each sentence's ten nearest neighbours stayed.
NNCF runs in its transformer mode, which leaves Softmax and norms in float.
"""
import argparse
import os
import tempfile

import numpy as np

import peers

CALIBRATION = 64


def unit(values):
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def measure(got, want):
    mean = want.mean(0)
    cosine, centred = (unit(got) * unit(want)).sum(1), (unit(got - mean) * unit(want - mean)).sum(1)
    pairs = [unit(values) @ unit(values).T for values in (got, want)]
    i, j = np.triu_indices(len(got), 1)
    spread = pairs[0][i, j].std() / pairs[1][i, j].std()
    for similarity in pairs:
        np.fill_diagonal(similarity, -2)
    nearest = [np.argsort(-similarity, axis=1)[:, :10] for similarity in pairs]
    overlap = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*nearest)])
    return cosine.mean(), cosine.min(), centred.mean(), spread, overlap


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments = peers.arguments(parser)
    folder = os.path.join(peers.MODELS, "minilm")
    model = os.path.join(folder, "minilm.onnx")
    data = {name: np.load(os.path.join(folder, name + ".npy")) for name in ("ids", "mask")}
    calibration, judged = peers.rows(data, 0, CALIBRATION), peers.rows(data, CALIBRATION, None)
    want = peers.float_answers(model, judged)["emb"]
    table = peers.Table(["cosine", "lowest", "centred", "spread", "top-10"])
    with tempfile.TemporaryDirectory() as work:
        for name, contestant in peers.contestants(model, calibration, work, arguments.only, transformer=True):
            table.add(name, measure(peers.output_of(contestant(judged), ("emb", want.shape)), want))
    peers.write_rows(table.lines, arguments.json)


if __name__ == "__main__":
    main()
