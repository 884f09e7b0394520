#!/usr/bin/env python3
"""Train a small GPT-2 on a text file and write it as a Hugging Face folder.

1. Byte-level BPE in GPT-2's own file format (vocab.json, merges.txt), trained
   on the text: 256 bytes + N merges + <|endoftext|>.
2. A GPT-2 (pre-LayerNorm, learned positions, gelu_new, tied head), trained
   with AdamW, cosine decay, dropout; bfloat16 matrix products where the CPU
   has them, float32 parameters.
3. config.json, generation_config.json, model.safetensors (float16, Conv1D
   layout [in, out]), and a log with the loss and bits per byte on a held-out
   file.

The schedule follows the clock, so a run is not repeated to the bit; the tokenizer is.
The shipped model was made with --minutes 66 --threads 2 (see models/demo/README.md).
Needs torch (1.13 or later), numpy and regex.

    train_demo_model.py --train train.txt --valid tests/data/corpus/childrens_classics_valid.txt \\
        --out /tmp/demo --minutes 66
"""
import argparse
import collections
import heapq
import json
import math
import os
import struct
import time

import numpy as np
import regex
import torch
import torch.nn as nn
import torch.nn.functional as F

SPLIT = regex.compile(  # GPT-2's
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
END = "<|endoftext|>"


# ---- byte-level BPE ---------------------------------------------------------

def byte_alphabet():
    """The 256 printable characters that GPT-2's files use for the bytes."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {}, 0
    for b in range(256):
        if b in keep:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + extra)
            extra += 1
    return table


def merge_pair(word, pair):
    """The word (a list of strings) with every occurrence of the pair joined, left to right."""
    out, k = [], 0
    while k < len(word):
        if k + 1 < len(word) and (word[k], word[k + 1]) == pair:
            out.append(word[k] + word[k + 1])
            k += 2
        else:
            out.append(word[k])
            k += 1
    return out


def train_bpe(text, n_merges):
    """The merges (pairs of strings): most frequent adjacent pair first, ties by the pair itself.

    A heap holds (-count, pair) entries, some of them out of date; an entry counts only if
    it agrees with `pairs`. `where` names the words in which a pair may stand.
    """
    alphabet = byte_alphabet()
    counts = collections.Counter()
    for part in text.split(END):
        counts.update(SPLIT.findall(part))
    words = [[alphabet[b] for b in w.encode()] for w in counts]
    freq = list(counts.values())
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, w in enumerate(words):
        for p in zip(w, w[1:]):
            pairs[p] += freq[i]
            where[p].add(i)
    heap = [(-c, p) for p, c in pairs.items()]
    heapq.heapify(heap)
    merges = []
    while len(merges) < n_merges and heap:
        c, p = heapq.heappop(heap)
        if pairs[p] != -c:
            if pairs[p] > 0:
                heapq.heappush(heap, (-pairs[p], p))
            continue
        merges.append(p)
        touched = set()
        for i in where.pop(p):
            out = merge_pair(words[i], p)
            for q in zip(words[i], words[i][1:]):
                pairs[q] -= freq[i]
                touched.add(q)
            for q in zip(out, out[1:]):
                pairs[q] += freq[i]
                where[q].add(i)
                touched.add(q)
            words[i] = out
        pairs[p] = 0
        for q in touched:
            if pairs[q] > 0:
                heapq.heappush(heap, (-pairs[q], q))
    return merges


class Bpe:
    """256 bytes, one token a merge, then END; encodes and saves in GPT-2's file format."""

    def __init__(self, merges):
        self.alphabet = byte_alphabet()
        self.merges = merges
        self.rank = {p: i for i, p in enumerate(merges)}
        tokens = [*self.alphabet.values(), *(a + b for a, b in merges), END]
        self.ids = {t: i for i, t in enumerate(tokens)}
        assert len(self.ids) == len(tokens)
        self.cache = {}

    def word(self, w):
        """Ids of one piece of the split."""
        if w not in self.cache:
            t = [self.alphabet[b] for b in w.encode()]
            while len(t) > 1:
                best = min(zip(t, t[1:]), key=lambda p: self.rank.get(p, math.inf))
                if best not in self.rank:
                    break
                t = merge_pair(t, best)
            self.cache[w] = [self.ids[x] for x in t]
        return self.cache[w]

    def encode(self, text):
        """Ids of a text in which END is the special token."""
        ids = []
        for n, part in enumerate(text.split(END)):
            if n:
                ids.append(self.ids[END])
            for w in SPLIT.findall(part):
                ids.extend(self.word(w))
        return ids

    def save(self, folder):
        """Writes vocab.json and merges.txt."""
        with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as f:
            json.dump(self.ids, f, ensure_ascii=False)
        with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
            f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in self.merges))


# ---- the model --------------------------------------------------------------

class Block(nn.Module):
    """One pre-LayerNorm block of GPT-2; [batch, T, d] -> the same."""

    def __init__(self, d, heads, drop):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.c_attn, self.attn_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.c_fc, self.mlp_proj = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.drop = nn.Dropout(drop)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(d, dim=2)
        q, k, v = (z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in (q, k, v))
        a = (q @ k.transpose(-1, -2)) / math.sqrt(d // self.heads)
        a = F.softmax((a + mask).float(), dim=-1).to(v.dtype)
        y = (self.drop(a) @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.drop(self.attn_proj(y))
        h = self.c_fc(self.ln_2(x))
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h * h * h)))
        return x + self.drop(self.mlp_proj(h))


class Gpt2(nn.Module):
    """GPT-2 with its head tied to wte; ids [batch, T] -> logits [batch, T, vocab]."""

    def __init__(self, vocab, d, heads, layers, context, drop):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(context, d)
        self.h = nn.ModuleList(Block(d, heads, drop) for _ in range(layers))
        self.ln_f, self.drop = nn.LayerNorm(d), nn.Dropout(drop)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if "_proj" in name else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        mask = torch.triu(torch.full((context, context), -1e9), 1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, ids):
        t = ids.shape[1]
        x = self.drop(self.wte(ids) + self.wpe.weight[:t])
        for block in self.h:
            x = block(x, self.mask[:t, :t])
        return F.linear(self.ln_f(x), self.wte.weight)


def hugging_face_tensors(model):
    """float16 arrays by Hugging Face's names, linear weights as [in, out]."""
    out = {"transformer.wte.weight": model.wte.weight, "transformer.wpe.weight": model.wpe.weight}
    for i, b in enumerate(model.h):
        p = f"transformer.h.{i}."
        for name, m in (("ln_1", b.ln_1), ("ln_2", b.ln_2)):
            out[p + name + ".weight"], out[p + name + ".bias"] = m.weight, m.bias
        for name, m in (("attn.c_attn", b.c_attn), ("attn.c_proj", b.attn_proj),
                        ("mlp.c_fc", b.c_fc), ("mlp.c_proj", b.mlp_proj)):
            out[p + name + ".weight"], out[p + name + ".bias"] = m.weight.t(), m.bias
    out["transformer.ln_f.weight"] = model.ln_f.weight
    out["transformer.ln_f.bias"] = model.ln_f.bias
    return {k: v.detach().to(torch.float16).contiguous().numpy() for k, v in out.items()}


def save_safetensors(tensors, path):
    """Writes float16 arrays; a reader never sees half a file."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F16", "shape": list(t.shape),
                        "data_offsets": [offset, offset + t.nbytes]}
        offset += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.tobytes())
    os.replace(path + ".part", path)


# ---- training ---------------------------------------------------------------

@torch.no_grad()
def validate(model, ids, context, n_bytes, limit=None):
    """(mean nats a token, bits a byte) of the first `limit` windows of `context` predictions.

    Windows do not overlap: each id but the first is predicted once, from the ids before it
    in its window. Bits a byte are the mean times all ids over all bytes.
    """
    model.eval()
    total, count = 0.0, 0
    for s in list(range(0, len(ids) - 1, context))[:limit]:
        x = torch.from_numpy(ids[s:s + context + 1].astype(np.int64))
        logits = model(x[None, :-1])[0]
        total += F.cross_entropy(logits.float(), x[1:], reduction="sum").item()
        count += len(x) - 1
    model.train()
    return total / count, total / count * len(ids) / n_bytes / math.log(2)


def write_configs(o, vocab, end):
    """config.json and generation_config.json as Hugging Face has them."""
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
              "activation_function": "gelu_new", "vocab_size": vocab, "n_positions": o.context,
              "n_ctx": o.context, "n_embd": o.n_embd, "n_layer": o.n_layer, "n_head": o.n_head,
              "n_inner": None, "layer_norm_epsilon": 1e-5, "attn_pdrop": o.dropout,
              "embd_pdrop": o.dropout, "resid_pdrop": o.dropout, "initializer_range": 0.02,
              "bos_token_id": end, "eos_token_id": end, "torch_dtype": "float16"}
    for name, value in (("config.json", config),
                        ("generation_config.json", {"bos_token_id": end, "eos_token_id": end})):
        with open(os.path.join(o.out, name), "w", encoding="utf-8") as f:
            json.dump(value, f, indent=2)
            f.write("\n")


def learning_rate(o, step, done):
    """Linear warm-up over 200 steps, cosine decay to 2 % over the time; done in [0, 1)."""
    return o.lr * min(1, (step + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))


def make_optimizer(o, model):
    """AdamW; weight decay on matrices only."""
    decay = [p for p in model.parameters() if p.dim() == 2]
    other = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                              {"params": other, "weight_decay": 0.0}], lr=o.lr, betas=(0.9, 0.95))


def train_step(o, model, optimizer, ids, rng, lr):
    """One batch of random windows; returns (loss, predictions made)."""
    for g in optimizer.param_groups:
        g["lr"] = lr
    at = rng.integers(0, len(ids) - o.context - 1, o.batch)
    x = torch.from_numpy(np.stack([ids[i:i + o.context + 1] for i in at]).astype(np.int64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x[:, :-1])
    loss = F.cross_entropy(logits.float().view(-1, logits.shape[-1]), x[:, 1:].reshape(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), x[:, 1:].numel()


def train(o, model, ids, quick_validation):
    """Trains until the minutes are over; a checkpoint each 500 steps. Returns (steps, seen)."""
    optimizer, rng = make_optimizer(o, model), np.random.default_rng(o.seed)
    start, step, seen, mean = time.time(), 0, 0, None
    while (done := (time.time() - start) / (60 * o.minutes)) < 1:
        lr = learning_rate(o, step, done)
        loss, predictions = train_step(o, model, optimizer, ids, rng, lr)
        step, seen = step + 1, seen + predictions
        mean = loss if mean is None else 0.98 * mean + 0.02 * loss
        if step % 100 == 0:
            line = (f"step {step} epoch {seen / len(ids):.2f} {seen / (time.time() - start):.0f} "
                    f"tok/s lr {lr:.2e} train {mean:.4f}")
            if step % 500 == 0:
                line += quick_validation(model)
                save_model(o, model)
            print(line, flush=True)
    return step, seen


def save_model(o, model):
    """Writes the weights as they stand."""
    save_safetensors(hugging_face_tensors(model), os.path.join(o.out, "model.safetensors"))


def parse_args():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--train", required=True,
                   help=f"UTF-8 text; documents are separated by {END}")
    a.add_argument("--valid", required=True, help="held-out UTF-8 text")
    a.add_argument("--out", required=True, help="folder to write (made if missing)")
    a.add_argument("--merges", type=int, default=3840, help="BPE merges (default 3840: 4097 ids)")
    a.add_argument("--n-embd", type=int, default=320, help="default 320")
    a.add_argument("--n-head", type=int, default=5,
                   help="default 5: no even number of ranks divides it")
    a.add_argument("--n-layer", type=int, default=4, help="default 4")
    a.add_argument("--context", type=int, default=256, help="positions (default 256)")
    a.add_argument("--batch", type=int, default=16, help="windows a step (default 16)")
    a.add_argument("--dropout", type=float, default=0.1, help="default 0.1")
    a.add_argument("--lr", type=float, default=1.5e-3, help="highest learning rate (1.5e-3)")
    a.add_argument("--minutes", type=float, default=60,
                   help="training time; the schedule follows the clock (default 60)")
    a.add_argument("--threads", type=int, default=os.cpu_count(), help="default: all processors")
    a.add_argument("--seed", type=int, default=1, help="default 1")
    o = a.parse_args()
    if o.n_embd % o.n_head:
        a.error(f"--n-embd {o.n_embd} is not a multiple of --n-head {o.n_head}")
    if o.merges + 257 > 65536:
        a.error(f"--merges {o.merges}: ids are kept in 16 bits, at most 65279")
    return o


def read_text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def main():
    o = parse_args()
    torch.manual_seed(o.seed)
    torch.set_num_threads(o.threads)
    os.makedirs(o.out, exist_ok=True)
    text, held = read_text(o.train), read_text(o.valid)

    start = time.time()
    bpe = Bpe(train_bpe(text, o.merges))
    bpe.save(o.out)
    ids, held_ids = (np.array(bpe.encode(t), np.uint16) for t in (text, held))
    print(f"{len(bpe.ids)} tokens, {len(ids)} ids in train, {len(held_ids)} in valid, "
          f"{len(text.encode()) / len(ids):.3f} bytes a token, {time.time() - start:.0f} s",
          flush=True)
    if len(ids) < o.context + 2:
        raise SystemExit(f"{o.train}: {len(ids)} ids, fewer than a window of {o.context} needs")

    model = Gpt2(len(bpe.ids), o.n_embd, o.n_head, o.n_layer, o.context, o.dropout)
    write_configs(o, len(bpe.ids), bpe.ids[END])
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)

    held_bytes = len(held.encode())

    def quick_validation(m):
        nats, bits = validate(m, held_ids, o.context, held_bytes, limit=60)
        return f" valid {nats:.4f} ({bits:.4f} bits/byte, first 60 windows)"

    step, seen = train(o, model, ids, quick_validation)
    save_model(o, model)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(torch.float16).float())  # measure what was written
    nats, bits = validate(model, held_ids, o.context, held_bytes)
    print(f"final: {step} steps, {seen / len(ids):.2f} epochs, valid {nats:.4f} nats/token, "
          f"perplexity {math.exp(nats):.3f}, {bits:.4f} bits/byte")


if __name__ == "__main__":
    main()
