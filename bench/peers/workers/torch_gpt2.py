#!/usr/bin/env python3
"""One measurement of PyTorch, in tokens/s:
    torch_gpt2.py FOLDER f32|bf16 THREADS prefill|decode N BATCH REPEAT

A plain GPT-2 forward pass with a preallocated KV cache, weights [out, in], the last token's logits
only; weights and activations of one type. Prints {"samples": [...]}.
"""
import json
import struct
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F


def load(folder, dtype):
    path = Path(folder) / "model.safetensors"
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    stored = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
    weights = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        t = torch.frombuffer(data[begin:end], dtype=stored[entry["dtype"]]).reshape(entry["shape"])
        if ".c_" in name and name.endswith(".weight"):
            t = t.t()  # [in, out] -> [out, in]
        weights[name] = t.to(dtype).contiguous().clone()
    return weights


class Gpt2:
    def __init__(self, folder, dtype, batch):
        config = json.loads((Path(folder) / "config.json").read_text())
        self.layers, self.heads, width = config["n_layer"], config["n_head"], config["n_embd"]
        self.weight = load(folder, dtype)
        shape = (self.layers, batch, self.heads, config["n_positions"], width // self.heads)
        self.keys, self.values = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)

    def forward(self, ids, past):
        """ids [batch, tokens] at positions from `past`; returns the last token's logits."""
        w, (batch, tokens) = self.weight, ids.shape
        now = past + tokens
        x = w["wte.weight"][ids] + w["wpe.weight"][past:now]
        width = x.shape[-1]

        def norm(y, name):
            return F.layer_norm(y, (width,), w[name + ".weight"], w[name + ".bias"])

        def linear(y, name):
            return F.linear(y, w[name + ".weight"], w[name + ".bias"])

        for i in range(self.layers):
            q, k, v = linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(width, dim=-1)
            q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2) for t in (q, k, v))
            self.keys[i][:, :, past:now] = k
            self.values[i][:, :, past:now] = v
            heads = F.scaled_dot_product_attention(q, self.keys[i][:, :, :now],
                                                   self.values[i][:, :, :now], is_causal=tokens > 1)
            heads = heads.transpose(1, 2).reshape(batch, tokens, width)
            x = x + linear(heads, f"h.{i}.attn.c_proj")
            inner = F.gelu(linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
            x = x + linear(inner, f"h.{i}.mlp.c_proj")
        return F.linear(norm(x[:, -1:], "ln_f"), w["wte.weight"])


def main():
    folder, dtype, threads, kind, n, batch, repeat = sys.argv[1:]
    n, batch = int(n), int(batch)
    torch.set_num_threads(int(threads))
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    model = Gpt2(folder, dtype, batch)
    ids = (torch.arange(n)[None] * 7919 + torch.arange(batch)[:, None] * 104729) % 50000
    samples = []
    with torch.inference_mode():
        for _ in range(int(repeat) + 1):
            begin = time.perf_counter()
            if kind == "prefill":
                model.forward(ids, 0)
            else:
                for i in range(n):
                    model.forward(ids[:, i:i + 1], i)
            samples.append(n * batch / (time.perf_counter() - begin))
    print(json.dumps({"samples": samples[1:]}))  # the first is the warm-up


if __name__ == "__main__":
    main()
