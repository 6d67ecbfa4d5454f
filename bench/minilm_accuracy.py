#!/usr/bin/env python3
"""Accuracy of Intaglio and its peers on the real MiniLM sentence encoder, in one run.

  bench/minilm_accuracy.py [--extremes] [--only NAME..] [--json FILE]

The first 64 sentences calibrate, the other 336 judge. --extremes: besides them three lines that are no sentences (rules of
dashes, as two of the judged ones are, but others) calibrate. Printed: cosine to float (mean, lowest), the same after subtracting the float
mean, the spread of pair cosines against float (1: kept), and how many of each sentence's ten nearest neighbours stayed.
NNCF runs in its transformer mode, which leaves Softmax and norms in float.
"""
import argparse
import os
import tempfile

import numpy as np

import peers

CALIBRATION = 64
EXTREMES = ["+----------+-----------------------------------------------+ 'd' Decimal integer.",
            "+--------------------+---------------------+----------+ type bool", "-" * 70]


def with_extremes(calibration, folder):
    from tokenizers import Tokenizer

    length = calibration["ids"].shape[1]
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=tokenizer.token_to_id("[PAD]"))
    lines = tokenizer.encode_batch(EXTREMES)
    more = {"ids": [line.ids for line in lines], "mask": [line.attention_mask for line in lines]}
    return {name: np.concatenate([values, np.array(more[name], values.dtype)]) for name, values in calibration.items()}


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
    parser.add_argument("--extremes", action="store_true")
    arguments = peers.arguments(parser)
    folder = os.path.join(peers.MODELS, "minilm")
    model = os.path.join(folder, "minilm.onnx")
    data = {name: np.load(os.path.join(folder, name + ".npy")) for name in ("ids", "mask")}
    calibration, judged = peers.rows(data, 0, CALIBRATION), peers.rows(data, CALIBRATION, None)
    if arguments.extremes:
        calibration = with_extremes(calibration, folder)
    want = peers.float_answers(model, judged)["emb"]
    table = peers.Table(["cosine", "lowest", "centred", "spread", "top-10"])
    with tempfile.TemporaryDirectory() as work:
        for name, contestant in peers.contestants(model, calibration, work, arguments.only, transformer=True):
            table.add(name, measure(peers.output_of(contestant(judged), ("emb", want.shape)), want))
    peers.write_rows(table.lines, arguments.json)


if __name__ == "__main__":
    main()
