#!/usr/bin/env python3
"""Makes tests/data/tokenizers: small byte-level BPE tokenizers in every spelling that shardlm
reads, and the ids that the Hugging Face `tokenizers` library gives with them.

  make_tokenizer_fixtures.py OUT_DIR        (needs the Python package tokenizers; made with 0.23)

One folder a tokenizer; expected.json lists {"folders", "text", "ids", "plain_ids"}, where plain_ids
are those without any added token, and the folders are those that agree. Running it again gives the
same files.
"""
import copy
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

LINES = [
    "The rabbit-hole went straight on like a tunnel for some way, and then dipped suddenly down.",
    "  Alice had not a moment to think about stopping herself before she found herself falling.",
    "She'll say: \"I've tried 12 times, I'm sure it's 1850 steps; they're right.\"\n\n\tWell!",
    "München naïve café — 你好，世界 😀👋🏽 안녕 Привет мир العربية",
    "aaaaaaaa bbbbbbbb abababab the the the then there they",
]


def token(content, **flags):
    """An entry of added_tokens with every flag written out."""
    entry = dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False,
                 special=True)
    entry.update(flags)
    return entry


def number(tokens, first):
    return [dict(id=first + i, **t) for i, t in enumerate(tokens)]


ADDED = [
    token("<|endoftext|>"),
    token("<|end"),  # begins as the one before does: the longest wins
    token("<mask>", lstrip=True),
    token("<eol>", rstrip=True),
    token("<both>", lstrip=True, rstrip=True),
    token("rabbit", special=False, normalized=True, single_word=True),
    token("bit-hole", special=False, normalized=True),
    token("你好", special=False, normalized=True),
    token("<|e", special=False, normalized=True),  # shorter, and looked for in a second pass
]

TEXTS = [
    "", " ", "a", "The rabbit-hole", "the rabbit went",
    "rabbits, rabbit; a_rabbit rabbit_ 3rabbit é rabbit",
    "Ⓐrabbit", "rabbit\u0301", "rabbit\u200d", "\u203frabbit", "²rabbit", "Ⅷrabbit", "rabbit",
    "a<|endoftext|>b", "<|endoftext|>", "<|endoftext|><|endoftext|> ", "x <|end y", "x <|e y",
    "<|en",
    "one  <mask>  two", "<mask>", "   <mask>", "\u3000\u00a0\n<mask>.", "one <eol>  \n two",
    "<eol>\u2028",
    "one \t<both>\n two<both><both> <both>", "<mask> <both> <eol> <mask>", "你好，世界", "你你好好",
    "She'll say: I've tried 12 times", "it's 'tis 's 'S DON'T 'lll 'ves", "1850 steps;  right",
    "\n\n\tWell!\n", "tab\tand  two   three    four", "trailing   ", "  \n \n  ",
    "a \u0085b\u0085\u0085c",
    "\ufeffhi", "\u1680\u2003x", "München naïve café", "😀 👋🏽", "e\u0301", "½ ² Ⅷ ٣٤ 〇", "𝒜𝟘𐍈",
    "a\x00b\x1c\x1d \x7f", "aaaaaaaaaaaaaaa", "abababababab", "bbbbb aaaaa", "\u00a0\u00a0a",
]


def random_texts(count):
    """Texts that put the split pattern and the added tokens to the test."""
    rng = random.Random(7)
    parts = ["a", "the", "B", "é", "你", "1", "²", "'", "'s", "'re", " ", "  ", "\n", "\t", "\u00a0",
             ".", "-", "😀", "\u0301", "<", "|", "<|e", "<|end", "<|endoftext|>", "<mask>", "<eol>",
             "<both>",
             "rabbit", "rab", "bit-hole", "你好", "好", "_"]
    return ["".join(rng.choices(parts, k=rng.randint(1, 12))) for _ in range(count)]


def train(merges):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(LINES * 2, trainer)
    return json.loads(made.to_str())


def spelled_as_strings(spec):
    spec = copy.deepcopy(spec)
    spec["model"]["merges"] = [" ".join(m) for m in spec["model"]["merges"]]
    return spec


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False) + "\n", encoding="utf-8")


def write_cases(path, cases):
    lines = [json.dumps(case, ensure_ascii=False) for case in cases]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def write_vocab_and_merges(folder, spec):
    write(folder / "vocab.json", spec["model"]["vocab"])
    lines = ["#version: 0.2"] + [" ".join(m) for m in spec["model"]["merges"]]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def expected(folders, spec, texts):
    plain = copy.deepcopy(spec)
    plain["added_tokens"] = []
    with_added = Tokenizer.from_str(json.dumps(spec))
    without = Tokenizer.from_str(json.dumps(plain))
    return [
        {
            "folders": folders,
            "text": text,
            "ids": with_added.encode(text, add_special_tokens=False).ids,
            "plain_ids": without.encode(text, add_special_tokens=False).ids,
        }
        for text in texts
    ]


def unknown_spec():
    """A vocabulary without most bytes, and a token that has a space in it (pair spelling only)."""
    vocab = ["<unk>", "a", "b", "c", "Ġ", "ab", "Ġab", "x y", "x yab"]
    merges = [["a", "b"], ["Ġ", "ab"], ["x y", "ab"]]
    spec = train(0)
    spec["model"].update(
        vocab={t: i for i, t in enumerate(vocab)}, merges=merges, unk_token="<unk>"
    )
    spec["added_tokens"] = [dict(id=0, **token("<unk>"))]
    return spec


def main(out):
    spec = train(160)
    first = len(spec["model"]["vocab"])
    spec["added_tokens"] = number(ADDED, first)
    texts = TEXTS + random_texts(200)
    cases = []

    write_vocab_and_merges(out / "folder", spec)
    write(out / "folder" / "tokenizer_config.json", {
        "added_tokens_decoder": {str(t["id"]): {k: v for k, v in t.items() if k != "id"}
                                 for t in spec["added_tokens"]},
        "eos_token": "<|endoftext|>", "bos_token": None, "model_max_length": 64,
        "tokenizer_class": "GPT2Tokenizer",
    })

    write(out / "json_pairs" / "tokenizer.json", spec)
    write(out / "json_strings" / "tokenizer.json", spelled_as_strings(spec))
    cases += expected(["folder", "json_pairs", "json_strings"], spec, texts)

    other = spelled_as_strings(spec)
    other["pre_tokenizer"].update(add_prefix_space=True, use_regex=False)
    write(out / "one_piece" / "tokenizer.json", other)
    cases += expected(["one_piece"], other, texts[:120])

    prefix = copy.deepcopy(spec)
    prefix["pre_tokenizer"].update(add_prefix_space=True)
    prefix["added_tokens"] = prefix["added_tokens"][:1]
    write_vocab_and_merges(out / "prefix_space", prefix)
    write(out / "prefix_space" / "added_tokens.json", {"<|endoftext|>": first})
    write(out / "prefix_space" / "tokenizer_config.json", {"add_prefix_space": True})
    write(out / "prefix_space" / "special_tokens_map.json", {"eos_token": "<|endoftext|>"})
    cases += expected(["prefix_space"], prefix, texts[:120])

    unknown = unknown_spec()
    write(out / "unknown" / "tokenizer.json", unknown)
    some = ["ab ab", "abc d", "é<unk>", "x yab", "cab  ab", "zzab"]
    cases += expected(["unknown"], unknown, some)

    write_cases(out / "expected.json", cases)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
