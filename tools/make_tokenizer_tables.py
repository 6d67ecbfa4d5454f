#!/usr/bin/env python3
"""Writes src/text/reference_tables.inc: the characters whose properties in the `tokenizers` package (whose tables are of
several old Unicode versions) are not those of utf8proc.

usage: make_tokenizer_tables.py > src/text/reference_tables.inc     (needs the tokenizers package and libutf8proc)
"""
import ctypes
import ctypes.util

from tokenizers import normalizers, pre_tokenizers

utf8proc = ctypes.CDLL(ctypes.util.find_library("utf8proc") or "libutf8proc.so.2")
CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()
codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
category = {c: CATEGORIES[utf8proc.utf8proc_category(c)] for c in codes}


def decomposed(code, compatibility):
    buffer = (ctypes.c_int32 * 32)()
    last = ctypes.c_int(0)
    count = utf8proc.utf8proc_decompose_char(code, buffer, 32, 1 << 4 | (1 << 2 if compatibility else 0),
                                             ctypes.byref(last))
    return "".join(map(chr, buffer[:count]))


def combining_class(code):  # The second field of utf8proc_property_t.
    utf8proc.utf8proc_get_property.restype = ctypes.POINTER(ctypes.c_int16)
    return utf8proc.utf8proc_get_property(code)[1]


def table(name, comment, differ):
    ranges = []
    for code in differ:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    print(f"// {comment}\nstatic const itg_code_range {name}[] = {{")
    line = "   "
    for first, last in ranges:
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += item
    print(f"{line}\n}};")


def bert(**on):
    return normalizers.BertNormalizer(**{"clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
                                         "lowercase": False, **on})


def gone(normalizer, code):
    return normalizer.normalize_str("a" + chr(code) + "a") == "aa"


print("// Made by tools/make_tokenizer_tables.py: characters whose properties in the reference, whose tables are older, are")
print("// not those of utf8proc. Of the tables other_... the reference has the opposite.")
nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
accents, nonspacing, clean = normalizers.StripAccents(), bert(strip_accents=True), bert(clean_text=True)
table("other_marks", "General category M.", [c for c in codes if gone(accents, c) != (category[c][0] == "M")])
simple = [c for c in codes if decomposed(c, False) == chr(c)]
table("other_nonspacing_marks", "General category Mn.",
      [c for c in simple if gone(nonspacing, c) != (category[c] == "Mn")])
table("other_others", "Control, format and private use.",
      [c for c in codes if c not in (0, 9, 10, 13, 0xFFFD) and gone(clean, c) != (category[c] in ("Cc", "Cf", "Co"))])
punctuation = pre_tokenizers.Punctuation()
table("other_punctuation", "General category P.",
      [c for c in codes if c > 127 and (len(punctuation.pre_tokenize_str("a" + chr(c))) == 2)
       != (category[c][0] == "P")])
digits = pre_tokenizers.Digits(individual_digits=True)
table("newer_numbers", "General category N in the reference, whose table of these is newer than utf8proc's.",
      [c for c in codes if (len(digits.pre_tokenize_str("a" + chr(c))) == 2) != (category[c][0] == "N")])
table("starters", "The reference has combining class 0 for these.",
      [c for c in simple if combining_class(c) and all(
          nfd.normalize_str("a" + s) == "a" + s for m in "\u0334\u0345\u0301\u0327" for s in (chr(c) + m, m + chr(c)))])
table("undecomposed", "The reference has no decomposition for these.",
      [c for c in codes if decomposed(c, True) != chr(c) and nfkd.normalize_str(chr(c)) == chr(c)])
