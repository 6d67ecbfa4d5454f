"""Prefill and decode of intaglio and llama.cpp on one language model, side by side in one run.

usage: language_speed.py MODEL.itg PEER.gguf --headers DIR --libraries DIR [--intaglio PROGRAM] [--threads N] [--rounds N]

PEER.gguf is the same model at equal bits a weight (Q8_0 for a16w8, Q4_0 for a16w4). --libraries is a folder with
libllama and libggml (the npm package @node-llama-cpp/linux-x64 carries them in bins/linux-x64), --headers one with
llama.h and ggml's headers (llama.cpp's include and ggml/include). Each figure is the best of all rounds, in tokens a
second; the rounds alternate, so that what else the machine does meets both.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("peer")
parser.add_argument("--headers", required=True, nargs="+")
parser.add_argument("--libraries", required=True)
parser.add_argument("--intaglio", default="build/release/intaglio")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--answer", type=int, default=64)
options = parser.parse_args()

source = pathlib.Path(__file__).with_name("llama_peer.c")
libraries = pathlib.Path(options.libraries).resolve()
words = " ".join(f"{w} {i}" for i, w in enumerate(["fox", "river", "stone", "garden", "engine", "letter"] * 25))


def ours():
    command = [options.intaglio, "chat", options.model, "--raw", "--json", "--prompt", words, "--max-tokens",
               str(options.answer), "--threads", str(options.threads)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    steps = max(answer["answer_tokens"] - 1, 1)
    return answer["prompt_tokens"], {"prefill": answer["prompt_tokens"] / answer["prefill_seconds"],
                                     "decode": steps / answer["decode_seconds"],
                                     "first_token_seconds": answer["first_token_seconds"],
                                     "resident_megabytes": answer["peak_resident_bytes"] / 1e6}


with tempfile.TemporaryDirectory() as folder:
    program = pathlib.Path(folder) / "llama_peer"
    wanted = [sorted(libraries.glob(name + "*"))[0] for name in ("libllama.", "libggml.", "libggml-base.")]
    subprocess.run(["cc", "-O2", *[f"-I{d}" for d in options.headers], str(source), "-o", str(program),
                    *map(str, wanted), f"-Wl,-rpath,{libraries}", f"-Wl,-rpath-link,{libraries}"], check=True)
    best, theirs = {}, {}
    for _ in range(options.rounds):
        prompt, figures = ours()
        for name, value in figures.items():
            better = min if name in ("first_token_seconds", "resident_megabytes") else max
            best[name] = better(best.get(name, value), value)
        output = subprocess.run([str(program), options.peer, str(libraries), str(options.threads), str(prompt),
                                 str(options.answer), "1"], check=True, capture_output=True, text=True).stdout
        for name, value in json.loads(output).items():
            theirs[name] = max(theirs.get(name, 0), value)
print(f"{options.threads} threads, a prompt of {prompt} tokens")
for name in ("prefill", "decode"):
    print(f"{name}: intaglio {best[name]:.1f}, llama.cpp {theirs[name]:.1f} tokens/s: {best[name] / theirs[name]:.2f}x")
print(f"intaglio: first token after {best['first_token_seconds']:.2f} s, {best['resident_megabytes']:.0f} MB resident")
