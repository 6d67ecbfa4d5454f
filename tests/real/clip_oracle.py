#!/usr/bin/env python3
"""CLIP folders as Immich keeps them, with made weights, and what Immich's way of running them gives.

  clip_oracle.py OUT_DIR TOKENIZERS_DIR PHOTOGRAPH...

TOKENIZERS_DIR holds <family>.json (tokenizer_oracle.py). Writes OUT_DIR/clip/<model>/{config.json, visual, textual} and for each model
OUT_DIR/<model>.visual.bin (float32 embeddings, one a photograph) and .textual.bin: for every text the bytes of its language (int32 length,
-1: none) and of the text (int32 length), the number of ids, the ids (int32) and the embedding (float32). EMBEDDING numbers each.
"""
import json
import os
import string
import struct
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from tokenizers import Tokenizer

EMBEDDING = 24
BICUBIC = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
# name, tokenizer, pad token, context, canonicalize, mask input, preprocess_cfg
MODELS = [
    ("ViT-test__openai", "clip", "<|endoftext|>", 77, False, False,
     {"size": 64, "mode": "RGB", "mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711],
      "interpolation": "bicubic", "resize_mode": "shortest", "fill_color": 0}),
    ("ViT-test-SigLIP__webli", "siglip", "</s>", 64, True, False,
     {"size": [48, 48], "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "squash"}),
    ("ViT-test-SigLIP2__webli", "gemma", "<pad>", 64, True, False,
     {"size": 63, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bilinear", "resize_mode": "squash"}),
    ("nllb-clip-test__v1", "nllb", "<pad>", 40, False, False,
     {"size": 65, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bilinear", "resize_mode": "shortest"}),
    ("XLM-Roberta-test", "xlm-roberta", "<pad>", 77, False, True,
     {"size": 64, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic"}),
]
TEXTS = ["a photo of a forest", "  two\tred \u00a0 cars\n", "\u039f \u039f\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2 \u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3! \u03a3\u0391\u03a3 \u03a3",
         "\u0130stanbul, SPRING'S (night)", "", "...", "Stra\u00dfe im Regen \u4e2d\u6587 \U0001F600\u200d\U0001F469", "word " * 200, "a\x1cb\x1fc \u200b d",
         "\u041f\u0415\u0421 \u0438 \u043a\u043e\u0442", "\ufb01ne \u24b6\u24d0 \u2160 \u01c5 A\u03a3\u0301 \u03b1\u03a3.\u03b1"]
LANGUAGES = [None, "en", "de", "pt-BR", "de-AT", "xx", "sr-Cyrl", "zh-Hans"]


def model(nodes, inputs, weights):
    graph = helper.make_graph(nodes + [
        helper.make_node("MatMul", ["features", "w"], ["raw"]),
        helper.make_node("LpNormalization", ["raw"], ["embedding"], axis=-1, p=2)], "clip", inputs,
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [None, EMBEDDING])],
        [numpy_helper.from_array(v, n) for n, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def visual_model(size, random, pixels):
    weights = {"conv": random.standard_normal((32, 3, 8, 8)).astype(np.float32) / 8,
               "w": random.standard_normal((32, EMBEDDING)).astype(np.float32)}
    shape = ["batch", size, size, 3] if pixels else ["batch", 3, "height", "width"]
    nodes, source = [], "image"
    if pixels:
        weights.update({"one": np.float32(127.5).reshape(1), "perm": np.zeros(0, np.float32)})
        del weights["perm"]
        nodes = [helper.make_node("Cast", ["image"], ["floats"], to=TensorProto.FLOAT),
                 helper.make_node("Sub", ["floats", "one"], ["centred"]), helper.make_node("Div", ["centred", "one"], ["scaled"]),
                 helper.make_node("Transpose", ["scaled"], ["planes"], perm=[0, 3, 1, 2])]
        source = "planes"
    nodes += [helper.make_node("Conv", [source, "conv"], ["patches"], kernel_shape=[8, 8], strides=[8, 8]),
              helper.make_node("Relu", ["patches"], ["relu"]), helper.make_node("GlobalAveragePool", ["relu"], ["mean"]),
              helper.make_node("Flatten", ["mean"], ["features"])]
    kind = TensorProto.UINT8 if pixels else TensorProto.FLOAT
    return model(nodes, [helper.make_tensor_value_info("image", kind, shape)], weights)


def textual_model(vocabulary, context, masked, random):
    weights = {"table": random.standard_normal((vocabulary, 32)).astype(np.float32),
               "place": random.uniform(0, 1, (context, 1)).astype(np.float32),
               "w": random.standard_normal((32, EMBEDDING)).astype(np.float32)}
    name = "input_ids" if masked else "text"
    nodes = [helper.make_node("Gather", ["table", name], ["rows"]), helper.make_node("Mul", ["rows", "place"], ["placed"])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", context])]
    last = "placed"
    if masked:
        weights["axis"] = np.array([2], np.int64)
        nodes += [helper.make_node("Cast", ["attention_mask"], ["fmask"], to=TensorProto.FLOAT),
                  helper.make_node("Unsqueeze", ["fmask", "axis"], ["column"]), helper.make_node("Mul", ["placed", "column"], ["masked"])]
        inputs.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT32, ["batch", context]))
        last = "masked"
    nodes.append(helper.make_node("ReduceMean", [last], ["features"], axes=[1], keepdims=0))
    return model(nodes, inputs, weights)


def transform(image, cfg):
    size = cfg["size"] if isinstance(cfg["size"], int) else cfg["size"][0]
    method = BICUBIC[cfg["interpolation"]]
    width, height = image.size
    if cfg.get("resize_mode", "shortest") == "squash":
        image = image.resize((size, size), method)
    else:
        if width < height:
            image = image.resize((size, int((height / width) * size)), method)
        else:
            image = image.resize((int((width / height) * size), size), method)
        left, top = int((image.width / 2) - (size / 2)), int((image.height / 2) - (size / 2))
        image = image.crop((left, top, left + size, top + size))
    return np.asarray(image)


def clean(text, canonicalize):
    text = " ".join(text.split())
    return text.translate(str.maketrans("", "", string.punctuation)).lower() if canonicalize else text


FLORES = {"en": "eng_Latn", "de": "deu_Latn", "pt-BR": "por_Latn", "sr-Cyrl": "srp_Cyrl", "zh-Hans": "zho_Hans"}


def main(out, tokenizers, photographs):
    random = np.random.default_rng(8)
    for number, (name, family, pad, context, canonicalize, masked, cfg) in enumerate(MODELS):
        folder = os.path.join(out, "clip", name)
        for part in ("visual", "textual"):
            os.makedirs(os.path.join(folder, part))
        json.dump({"embed_dim": EMBEDDING, "text_cfg": {"context_length": context, **({"tokenizer_kwargs": {"clean": "canonicalize"}} if canonicalize else {})}},
                  open(os.path.join(folder, "config.json"), "w"))
        json.dump(cfg, open(os.path.join(folder, "visual/preprocess_cfg.json"), "w"))
        tokenizer = Tokenizer.from_file(os.path.join(tokenizers, family + ".json"))
        tokenizer.save(os.path.join(folder, "textual/tokenizer.json"))
        json.dump({"pad_token": pad if number % 2 else {"content": pad}}, open(os.path.join(folder, "textual/tokenizer_config.json"), "w"))
        size, pixels = cfg["size"] if isinstance(cfg["size"], int) else cfg["size"][0], number == 2
        onnx.save(visual_model(size, random, pixels), os.path.join(folder, "visual/model.onnx"))
        onnx.save(textual_model(tokenizer.get_vocab_size() + 16, context, masked, random), os.path.join(folder, "textual/model.onnx"))
        session = ort.InferenceSession(os.path.join(folder, "visual/model.onnx"), providers=["CPUExecutionProvider"])
        with open(os.path.join(out, name + ".visual.bin"), "wb") as file:
            for photograph in photographs:
                array = transform(Image.open(photograph).convert("RGB"), cfg)
                if not pixels:
                    array = (array.astype(np.float32) / 255.0 - np.array(cfg["mean"], np.float32)) / np.array(cfg["std"], np.float32)
                    array = array.transpose(2, 0, 1)
                file.write(session.run(None, {"image": array[None]})[0][0].tobytes())
        session = ort.InferenceSession(os.path.join(folder, "textual/model.onnx"), providers=["CPUExecutionProvider"])
        tokenizer.enable_padding(length=context, pad_token=pad, pad_id=tokenizer.token_to_id(pad))
        tokenizer.enable_truncation(max_length=context)
        with open(os.path.join(out, name + ".textual.bin"), "wb") as file:
            for i, text in enumerate(TEXTS * 2):
                language = LANGUAGES[i % len(LANGUAGES)]
                cleaned = clean(text, canonicalize)
                if name.startswith("nllb") and language is not None:
                    cleaned = (FLORES.get(language) or FLORES.get(language.split("-")[0]) or "eng_Latn") + cleaned
                encoding = tokenizer.encode(cleaned)
                ids = np.array([encoding.ids], np.int32)
                feed = {"input_ids": ids, "attention_mask": np.array([encoding.attention_mask], np.int32)} if masked else {"text": ids}
                code = language.encode() if language else b""
                file.write(struct.pack("<i", len(code) if language else -1) + code + struct.pack("<i", len(text.encode())) + text.encode())
                file.write(struct.pack("<i", ids.size) + ids.tobytes() + session.run(None, feed)[0][0].tobytes())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
