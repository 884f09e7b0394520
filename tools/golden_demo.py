"""Golden values of the shipped model, by transformers (part of make_golden.py)."""
import math
from pathlib import Path

import tokenizers
import torch
from transformers import AutoModelForCausalLM

PROMPTS = ("Once upon a time", "The dragon", "\"Who is there?\" said the old king.")
NEW_TOKENS = 32
TEXT = "childrens_classics_valid.txt"


def greedy(model, ids):
    """(continuation, smallest gap between the best two logits), float64."""
    start, gap = len(ids), float("inf")
    for _ in range(NEW_TOKENS):
        best = torch.topk(model(torch.tensor([ids])).logits[0, -1], 2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        ids = ids + [best.indices[0].item()]
    return ids[start:], gap


def score(model, ids, window):
    """Sum of nats over windows of `window` predictions: every id but the first, once."""
    total = 0.0
    for start in range(0, len(ids) - 1, window):
        part = torch.tensor(ids[start:start + window + 1])
        logits = model(part[None, :-1]).logits[0]
        total += torch.nn.functional.cross_entropy(logits, part[1:], reduction="sum").item()
    return total


def load_tokenizer(folder):
    """Byte-level BPE of the tokenizers library, from vocab.json and merges.txt."""
    bpe = tokenizers.models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = tokenizers.Tokenizer(bpe)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


@torch.no_grad()
def make(model_folder: Path, corpus: Path):
    """The members of demo.json: greedy continuations, and the score of the held-out text."""
    model = AutoModelForCausalLM.from_pretrained(model_folder, attn_implementation="eager")
    model = model.double().eval()  # exact, from whatever dtype it was loaded in
    tokenizer = load_tokenizer(model_folder)
    runs = []
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt).ids
        continuation, gap = greedy(model, ids)
        runs.append({"prompt": prompt, "prompt_ids": ids, "ids": continuation,
                     "text": tokenizer.decode(continuation), "smallest_gap": gap})
    text = (corpus / TEXT).read_bytes()
    ids = tokenizer.encode(text.decode()).ids
    window = model.config.n_positions
    nats = score(model, ids, window)
    tokens = len(ids) - 1
    return {"greedy": runs, "score": {
        "text": f"corpus/{TEXT}", "bytes": len(text), "ids": len(ids), "tokens": tokens,
        "window": window, "stride": window, "nats": nats, "perplexity": math.exp(nats / tokens),
        "bits_per_byte": nats / math.log(2) / len(text)}}
