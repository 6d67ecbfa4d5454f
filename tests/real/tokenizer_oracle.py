"""Encodes lines of mixed text with the `tokenizers` package, for tests/real/test_tokenizer_oracle.c.

usage: tokenizer_oracle.py FOLDER LINES SEED NAME=tokenizer.json...

Writes FOLDER/<name>.json and FOLDER/<name>.bin for each tokenizer given and for those it trains itself. A .bin file is a
list of cases, all numbers little-endian 32 bits: bytes of the text, ids with special tokens, skip_special, bytes of the
decoded text; each list after its length. LINES of 0 writes the tokenizers alone.

For the families of search models also FOLDER/service/<name>, the text half of a model folder, and FOLDER/<name>.service.bin: for each
line the bytes of the text after their length, the number of ids that are no padding, and the ids, as many as the context is long,
of the text cleaned, encoded, cut and padded as Immich's service does it.
"""
import json
import pathlib
import pydoc_data.topics
import random
import string
import struct
import sys
import sysconfig
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

folder, count, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)

# ---- text ----
prose = [line for topic in pydoc_data.topics.topics.values() for line in topic.split("\n") if line.strip()]
sources = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
code = [line for path in draw.sample(sources, min(40, len(sources)))
        for line in path.read_text("utf-8", "replace").split("\n") if line.strip()]
# Only characters that Unicode 14 assigns: the libraries carry different versions of the tables.
assigned = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]
blocks = {}
for c in assigned:
    blocks.setdefault(ord(c) >> 7, []).append(c)
block_list = list(blocks.values())
small_blocks = [blocks[k] for k in blocks if k < 0x2000 // 128 or 0xA000 // 128 <= k < 0xAC00 // 128]
marks = [c for c in assigned if unicodedata.category(c).startswith("M")]
spaces = [" ", " ", " ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u2003", "\u3000", "\u2028", "\u200b", "\u0085", "\x0b",
          "\x0c", "\u1680", "\u180e", "\ufeff"]
emoji = ["\U0001F600", "\U0001F469\u200d\U0001F4BB", "\U0001F468\u200d\U0001F469\u200d\U0001F467\u200d\U0001F466",
         "\U0001F1E9\U0001F1EA", "\U0001F3F3\ufe0f\u200d\U0001F308", "\U0001F44D\U0001F3FD", "\u2764\ufe0f",
         "1\ufe0f\u20e3", "\U0001F9D1\U0001F3FF\u200d\U0001F91D\u200d\U0001F9D1\U0001F3FB"]
samples = ["Falsches Üben von Xylophonmusik quält jeden größeren Zwerg", "Съешь же ещё этих мягких французских булок",
           "أبجد هوز حطي كلمن", "דג סקרן שט בים", "いろはにほへと ちりぬるを ﾊﾝｶｸ", "키스의 고유조건은 입술끼리 만나야 하고",
           "天地玄黄 宇宙洪荒。日月盈昃，辰宿列张", "ऋषियों को सताने वाले दुष्ट राक्षसों", "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
           "Η γρήγορη αλεπού ΣΊΣΥΦΟΣ", "İstanbul'da ılık ﬁne ﬃ ǅ ǆ ß ẞ", "naïve café Å Å Å ①②³ ½ Ⅷ ٣٤ 𝟘𝟙", "I'll we're DON'T it'S 'Tis",
           "\u1100\u1161\u11a8\u1112\u1161\u11ab 가각힣", "e\u0301\u0323 e\u0323\u0301 \u0344 \u212b \u2126 \u1e9b\u0323"]


def piece(specials):
    kind = draw.randrange(17)
    if kind < 3:
        return draw.choice(prose)
    if kind < 6:
        return draw.choice(code)
    if kind == 6:
        return "".join(draw.choice(draw.choice(block_list)) for _ in range(draw.randint(1, 12)))
    if kind == 7:
        block = draw.choice(block_list)
        return "".join(draw.choice(block) for _ in range(draw.randint(1, 30)))
    if kind == 8:
        block = draw.choice(small_blocks)
        return "".join(draw.choice(block) + (draw.choice(marks) if draw.random() < .2 else "")
                       for _ in range(draw.randint(1, 20)))
    if kind == 9:
        return "".join(draw.choice(spaces) for _ in range(draw.randint(1, 12)))
    if kind == 10:
        return "".join(draw.choice(emoji) for _ in range(draw.randint(1, 4)))
    if kind == 11:
        return draw.choice(samples)
    if kind == 12:
        return bytes(draw.randrange(256) for _ in range(draw.randint(1, 24)))
    if kind == 13:
        return "".join(draw.choice("0123456789.,:-+eE%$") for _ in range(draw.randint(1, 16)))
    if kind == 14:
        return draw.choice(specials) if specials else ""
    if kind == 15:
        return "".join(chr(draw.randint(0xAC00, 0xD7A3)) if draw.random() < .5 else chr(draw.randint(0x4E00, 0x9FA5))
                       for _ in range(draw.randint(1, 12)))
    text = draw.choice(prose) if draw.random() < .5 else draw.choice(samples)
    return draw.choice([str.upper, str.title, str.swapcase])(text)


def sweep():
    """Every assigned character, alone and beside letters, marks and spaces; of the large uniform blocks a sample."""
    large = ("CJK UNIFIED", "HANGUL SYLLABLE", "TANGUT IDEOGRAPH", "KHITAN", "NUSHU CHARACTER", "EGYPTIAN", "CUNEIFORM")
    chosen = [c for c in assigned if not unicodedata.name(c, "").startswith(large) or ord(c) % 61 == 0]
    for start in range(0, len(chosen), 24):
        yield "".join(f"{c} a{c}\u0301b'{c} {c}{c}\u0323\u0345." for c in chosen[start:start + 24]).encode()


def line(specials):
    if draw.random() < .003:  # A very long word.
        letter = draw.choice(["a", "ab", "é", "漢字", "the", " ", "\n", "=", "-=", "\u0301"])
        return (letter * draw.randint(200, 1500)).encode()
    joined = b""
    for i in range(draw.choice([1, 1, 1, 2, 3, 5])):
        if i:
            joined += draw.choice(["", " ", " ", "  ", "\n", "\t", "."]).encode()
        part = piece(specials)
        joined += part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
    if draw.random() < .02:  # Cut within a character.
        joined = joined[:draw.randint(0, len(joined))]
    return joined


# ---- tokenizers of other families, trained here ----
def corpus():
    mixed = random.Random(7)
    return [mixed.choice(prose) if mixed.random() < .6 else mixed.choice(code) for _ in range(6000)] + samples * 20


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def byte_level(size, special, **options):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **options)


def clip():
    made = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    made.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                            normalizers.Lowercase()])
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(words), "removed", invert=True),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    train(made, byte_level(3000, ["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>"))
    made.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False,
                                                       add_prefix_space=False)
    return made


BYTES = [f"<0x{i:02X}>" for i in range(256)]


def gemma():
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    train(made, trainers.BpeTrainer(vocab_size=2500, special_tokens=["<pad>", "<eos>", "<bos>", "<unk>"] + BYTES,
                                    show_progress=False, max_token_length=12))
    made.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos> $B",
                                                        special_tokens=[("<bos>", 2)])
    made.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("<start_of_turn>", special=True)])
    return made


def llama():
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True, ignore_merges=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(" ", 1, 0)])
    train(made, trainers.BpeTrainer(vocab_size=2000, special_tokens=["<unk>", "<s>", "</s>"] + BYTES,
                                    show_progress=False, max_token_length=10))
    made.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A $B", special_tokens=[("<s>", 1), ("</s>", 2)])])
    return made


def llama3():
    made = Tokenizer(models.BPE(ignore_merges=True))
    words = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+")
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(words), "isolated"),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    train(made, byte_level(3000, ["<|begin_of_text|>"]))
    made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])])
    return made


def roberta():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = decoders.ByteLevel()
    train(made, byte_level(2000, ["<s>", "<pad>", "</s>"]))
    made.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made


def nllb(mapped):
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Precompiled(mapped) if mapped else normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.decoder = decoders.Metaspace()
    train(made, trainers.BpeTrainer(vocab_size=2000, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "deu_Latn"],
                                    show_progress=False))
    made.post_processor = processors.TemplateProcessing(single="deu_Latn $A </s>",
                                                        special_tokens=[("deu_Latn", 4), ("</s>", 2)])
    return made


def unknown():  # BPE that lacks characters: unknown tokens, one by one and fused.
    made = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(),
                                            normalizers.Strip(left=True, right=True)])
    train(made, trainers.BpeTrainer(vocab_size=1500, special_tokens=["[UNK]"], show_progress=False, limit_alphabet=60,
                                    continuing_subword_prefix="##"))
    made.add_tokens([AddedToken("def", single_word=True), AddedToken("Return", lstrip=True, rstrip=True),
                     AddedToken("ﬁne", normalized=True), AddedToken("self", normalized=False, single_word=True,
                                                                     lstrip=True)])
    return made


def bert_cased():
    made = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=60))
    made.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=False)
    train(made, trainers.WordPieceTrainer(vocab_size=3000, special_tokens=["[UNK]", "[CLS]", "[SEP]"],
                                          show_progress=False))
    made.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return made


def charsmap():
    """The character map of a SentencePiece model (field 3.2 of its protocol buffer)."""
    try:
        import io
        import sentencepiece
    except ImportError:
        return None
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=model, vocab_size=1000,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2)

    def fields(data):
        at = 0

        def number():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = number()
            if key & 7 == 2:
                size = number()
                yield key >> 3, data[at:at + size]
                at += size
            elif key & 7 == 0:
                yield key >> 3, number()
            else:
                at += 4 if key & 7 == 5 else 8
    return dict(fields(dict(fields(model.getvalue()))[3]))[2]


def xlm_roberta(mapped):
    made = Tokenizer(models.Unigram())
    first = [normalizers.Precompiled(mapped)] if mapped else [normalizers.Nmt(), normalizers.NFKC()]
    made.normalizer = normalizers.Sequence(first + [normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    made.decoder = decoders.Metaspace()
    train(made, trainers.UnigramTrainer(vocab_size=2500, unk_token="<unk>", show_progress=False,
                                        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]))
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                                        special_tokens=[("<s>", 0), ("</s>", 2)])
    return made


def siglip():  # Unigram with byte fallback, the text as one piece but for the first space.
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(Regex(r"[!\"#$%&'()*+,]"), ""),
                                            normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    made.decoder = decoders.Metaspace(prepend_scheme="first")
    train(made, trainers.UnigramTrainer(vocab_size=1500, unk_token="<unk>", show_progress=False,
                                        special_tokens=["<pad>", "</s>", "<unk>"]))
    made.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A $B </s>",
                                                        special_tokens=[("</s>", 1)])
    return made


def splits():  # Every way to split.
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFD()
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("_", "merged_with_next"), pre_tokenizers.Split(Regex("[.:]"), "contiguous"),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Punctuation("merged_with_previous"),
        pre_tokenizers.Split(Regex(r"\p{Lu}"), "merged_with_next"), pre_tokenizers.Split("e", "removed"),
        pre_tokenizers.CharDelimiterSplit("x"), pre_tokenizers.ByteLevel(add_prefix_space=True)])
    made.decoder = decoders.ByteLevel()
    train(made, byte_level(1200, []))
    return made


# name: pad token, context, whether the text is canonicalized; as in models that Immich offers.
SERVICES = {"clip": ("<|endoftext|>", 77, False), "siglip": ("</s>", 64, True), "gemma": ("<pad>", 64, True),
            "xlm-roberta": ("<pad>", 77, False), "nllb": ("<pad>", 77, False), "minilm": ("[PAD]", 77, False)}


def clean(text, canonicalize):
    text = " ".join(text.split())
    return text.translate(str.maketrans("", "", string.punctuation)).lower() if canonicalize else text


class Service:
    def __init__(self, name):
        pad, self.context, self.canonicalize = SERVICES[name]
        place = folder / "service" / name / "textual"
        place.mkdir(parents=True)
        self.tokenizer = Tokenizer.from_file(str(folder / f"{name}.json"))
        (place / "tokenizer.json").write_text((folder / f"{name}.json").read_text("utf-8"), "utf-8")
        (place / "tokenizer_config.json").write_text(json.dumps({"pad_token": pad}))
        kwargs = {"tokenizer_kwargs": {"clean": "canonicalize"}} if self.canonicalize else {}
        (place.parent / "config.json").write_text(json.dumps({"text_cfg": {"context_length": self.context, **kwargs}}))
        self.tokenizer.enable_truncation(max_length=self.context)
        self.tokenizer.enable_padding(length=self.context, pad_token=pad, pad_id=self.tokenizer.token_to_id(pad))
        self.out = open(folder / f"{name}.service.bin", "wb")

    def write(self, lines, texts):
        for line, result in zip(lines, self.tokenizer.encode_batch([clean(text, self.canonicalize) for text in texts])):
            assert len(result.ids) == self.context
            self.out.write(struct.pack("<I", len(line)) + line + struct.pack("<I", sum(result.attention_mask)))
            self.out.write(struct.pack(f"<{self.context}I", *result.ids))


given = dict(argument.split("=", 1) for argument in sys.argv[4:])
made = {name: Tokenizer.from_file(path) for name, path in given.items()}
mapped = charsmap()
print("the precompiled character map of sentencepiece" if mapped else "no sentencepiece: no precompiled character map")
for name, make in {"clip": clip, "gemma": gemma, "llama": llama, "llama3": llama3,
                   "roberta": roberta, "nllb": lambda: nllb(mapped), "unknown": unknown, "bert-cased": bert_cased,
                   "xlm-roberta": lambda: xlm_roberta(mapped), "siglip": siglip, "splits": splits}.items():
    made[name] = make()

for name, tokenizer in made.items():
    (folder / f"{name}.json").write_text(pathlib.Path(given[name]).read_text("utf-8") if name in given
                                         else tokenizer.to_str(), "utf-8")
    tokenizer = Tokenizer.from_file(str(folder / f"{name}.json"))  # Reading rounds scores: the trained one splits otherwise.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    specials = [t.content for t in tokenizer.get_added_tokens_decoder().values()][:60]
    service = Service(name) if name in SERVICES and count else None
    with open(folder / f"{name}.bin", "wb") as out:
        swept = list(sweep()) if count else []
        for start in range(0, count + len(swept), 1000):
            lines = [swept[i] if i < len(swept) else line(specials)
                     for i in range(start, min(start + 1000, count + len(swept)))]
            texts = [text.decode("utf-8", "replace") for text in lines]
            if service:
                service.write(lines, texts)
            encoded = tokenizer.encode_batch(texts)
            for text, result in zip(lines, encoded):
                skip = draw.random() < .5
                decoded = tokenizer.decode(result.ids, skip_special_tokens=skip).encode()
                out.write(struct.pack("<I", len(text)) + text + struct.pack(f"<I{len(result.ids)}I", len(result.ids),
                                                                           *result.ids))
                out.write(struct.pack("<II", skip, len(decoded)) + decoded)
