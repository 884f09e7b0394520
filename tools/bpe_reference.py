#!/usr/bin/env python3
"""Slow, plain reference encoder/decoder for the GPT-2 byte-level BPE.

An oracle for tests, written for clarity, not speed. Needs the `regex` module
(Debian: python3-regex), because `re` has no \\p{L}.

    bpe_reference.py encode [--special] < text     ids, one line
    bpe_reference.py decode 15496 995              raw bytes
    bpe_reference.py check                         all vectors of tests/data
"""
import argparse
import json
import sys
from pathlib import Path

import regex

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"

# The published GPT-2 split pattern.  Order of alternatives matters:
#  1. the seven lower-case English contractions, tried at every position;
#  2-4. an optional single U+0020, then a run of letters, of numbers, or of
#       anything that is neither white space, letter nor number;
#  5. a run of white space that leaves its last character for the next word
#     (or takes all of it at the end of the text);
#  6. what is then left of white space.
SPLIT = regex.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)


def byte_alphabet():
    """byte value -> the printable character that stands for it in the files."""
    keep = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    table = {b: chr(b) for b in keep}
    nxt = 256
    for b in range(256):
        if b not in table:
            table[b] = chr(nxt)
            nxt += 1
    return table


class Bpe:
    """The vocabulary and merges of a folder; texts are str, tokens bytes."""

    def __init__(self, folder):
        with open(folder / "vocab.json", encoding="utf-8") as f:
            vocab = json.load(f)
        to_char = byte_alphabet()
        to_byte = {c: b for b, c in to_char.items()}
        self.special = {}
        self.id_of = {}
        for text, i in vocab.items():
            if all(c in to_byte for c in text) and text != "<|endoftext|>":
                self.id_of[bytes(to_byte[c] for c in text)] = i
            else:
                self.special[text] = i
        self.bytes_of = {i: t for t, i in self.id_of.items()}
        self.bytes_of.update({i: t.encode() for t, i in self.special.items()})
        self.rank = {}
        with open(folder / "merges.txt", encoding="utf-8") as f:
            lines = f.read().split("\n")
        for line in lines:
            # Only the first line may be a comment: "# #" style merges are real.
            if line == "" or (line is lines[0] and line.startswith("#version")):
                continue
            left, right = line.split(" ")
            pair = (bytes(to_byte[c] for c in left), bytes(to_byte[c] for c in right))
            assert pair not in self.rank, line
            self.rank[pair] = len(self.rank)

    def merge(self, word):
        """bytes of one split piece -> list of token byte strings."""
        parts = [bytes([b]) for b in word]
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda p: self.rank.get(p, 1 << 30))
            if best not in self.rank:
                break
            out, i = [], 0
            while i < len(parts):  # every occurrence, left to right
                if i + 1 < len(parts) and (parts[i], parts[i + 1]) == best:
                    out.append(parts[i] + parts[i + 1])
                    i += 2
                else:
                    out.append(parts[i])
                    i += 1
            parts = out
        return parts

    def encode_ordinary(self, text):
        """Ids of a text in which special tokens are plain text."""
        ids = []
        pos = 0
        for m in SPLIT.finditer(text):
            assert m.start() == pos, "the pattern must cover the whole text"
            pos = m.end()
            for t in self.merge(m.group().encode("utf-8")):
                ids.append(self.id_of[t])
        assert pos == len(text)
        return ids

    def encode(self, text, allow_special=False):
        """Ids; with allow_special the longest special token at a place becomes its id."""
        if not allow_special or not self.special:
            return self.encode_ordinary(text)
        names = sorted(self.special, key=len, reverse=True)
        cut = regex.compile("|".join(regex.escape(n) for n in names))
        ids, pos = [], 0
        for m in cut.finditer(text):
            ids += self.encode_ordinary(text[pos:m.start()])
            ids.append(self.special[m.group()])
            pos = m.end()
        return ids + self.encode_ordinary(text[pos:])

    def decode_bytes(self, ids):
        """The bytes of these ids, perhaps not valid UTF-8."""
        return b"".join(self.bytes_of[i] for i in ids)


def check(bpe, path):
    """Prints each vector that disagrees and a table by source; returns how many disagree."""
    with open(path, encoding="utf-8") as f:
        table = json.load(f)
    bad = 0
    per = {}
    for case in table["cases"]:
        src = case["source"]
        n = per.setdefault(src, [0, 0])
        n[0] += 1
        got = bpe.encode(case["text"], case["allow_special"])
        back = bpe.decode_bytes(case["ids"]).decode("utf-8", "replace")
        if got != case["ids"] or (back != case["text"] and not case.get("lossy")):
            n[1] += 1
            bad += 1
            print("DISAGREE", case["name"], src, json.dumps(case["text"]))
            print("  table    ", case["ids"])
            print("  reference", got)
            print("  decoded  ", json.dumps(back))
    for src, (n, b) in sorted(per.items()):
        print(f"{src}: {n} cases, {b} disagreements")
    print(f"{sum(n for n, _ in per.values()) - bad} passed, {bad} failed")
    return bad


def parse_args():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dir", type=Path, default=DATA / "gpt2_bpe",
                   help="folder with vocab.json and merges.txt (default: tests/data/gpt2_bpe)")
    commands = p.add_subparsers(dest="command", required=True)
    encode = commands.add_parser("encode", help="UTF-8 text on standard input -> ids, one line")
    encode.add_argument("--special", action="store_true",
                        help="recognise special tokens in the text")
    decode = commands.add_parser("decode", help="ids -> raw bytes on standard output")
    decode.add_argument("ids", type=int, nargs="*")
    vectors = commands.add_parser("check", help="compare with a file of test vectors")
    vectors.add_argument("file", type=Path, nargs="?", default=DATA / "gpt2_tokenizer_vectors.json",
                         help="default: tests/data/gpt2_tokenizer_vectors.json")
    return p.parse_args()


def main():
    o = parse_args()
    bpe = Bpe(o.dir)
    if o.command == "encode":
        text = sys.stdin.buffer.read().decode("utf-8")
        print(" ".join(map(str, bpe.encode(text, o.special))))
    elif o.command == "decode":
        sys.stdout.buffer.write(bpe.decode_bytes(o.ids))
    elif check(bpe, o.file):
        sys.exit(1)


if __name__ == "__main__":
    main()
