#!/usr/bin/env python3
"""Packs some golden cases into one flat file for scripts/gpu-check, which reads neither JSON nor
safetensors: tests/data/golden/gpu_check.pack.

Weights, prompts, expected logits and greedy continuations are those of the committed folders
(PyTorch and transformers in float64, see make_golden.py): nothing here is computed anew.

The file, little-endian; `text` is u32 bytes, then they; `ids` is u32 count, then i32 each:

  8 bytes  "SHLMPACK"
  u32      version (1), u32 number of cases; for each case
    text     name
    i64 x 6  n_layer, n_embd, n_head, n_inner, n_positions, vocab_size
    f32      layer_norm_epsilon
    text     activation_function, as in config.json
    u8 x 3   scale_attn_weights, scale_attn_by_inverse_layer_idx, tie_word_embeddings
    u32      number of tensors; for each: text name (without "transformer."),
             u32 dimensions, i64 each, f32 elements. Linear weights are [in, out].
    ids      prompt
    u32      number of logits, f32 each: [prompt, vocab_size]
    u32      number of greedy continuations; for each: ids prompt, ids continuation
  u32      CRC-32 of all before (zlib's)

Needs torch, safetensors.

    pack_golden.py            writes the file
    pack_golden.py --check    fails if the file is not what would be written
"""
import argparse
import json
import struct
import sys
import zlib
from pathlib import Path

import safetensors.torch
import torch

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "data" / "golden"
PACK = GOLDEN / "gpu_check.pack"
# Every switch of the config, two activations that cuBLASLt does not fuse, odd sizes, few heads.
CASES = ("base", "combined", "act_gelu", "inverse_layer_scale")


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def ids(values):
    return struct.pack(f"<I{len(values)}i", len(values), *values)


def floats(tensor):
    return tensor.to(torch.float32).contiguous().numpy().astype("<f4").tobytes()


def tensors(folder, tied):
    """Name -> tensor, float32, without the prefix and what no layer reads."""
    found = {}
    for name, tensor in safetensors.torch.load_file(folder / "model.safetensors").items():
        name = name.removeprefix("transformer.")
        if tied and name == "lm_head.weight":
            continue
        if name.endswith((".attn.bias", ".attn.masked_bias")):
            continue
        found[name] = tensor
    return found


def case(name):
    folder = GOLDEN / name
    config = json.loads((folder / "config.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())
    dump = safetensors.torch.load_file(folder / "expected.safetensors")
    tied = config["tie_word_embeddings"]
    out = text(name)
    out += struct.pack("<6q", config["n_layer"], config["n_embd"], config["n_head"],
                       config["n_inner"] or 4 * config["n_embd"], config["n_positions"],
                       config["vocab_size"])
    out += struct.pack("<f", config["layer_norm_epsilon"]) + text(config["activation_function"])
    out += bytes([config["scale_attn_weights"], config["scale_attn_by_inverse_layer_idx"], tied])
    weights = tensors(folder, tied)
    out += struct.pack("<I", len(weights))
    for key, tensor in sorted(weights.items()):
        out += text(key) + struct.pack(f"<I{tensor.dim()}q", tensor.dim(), *tensor.shape)
        out += floats(tensor)
    out += ids(dump["input_ids"].flatten().tolist())
    out += struct.pack("<I", dump["logits"].numel()) + floats(dump["logits"])
    out += struct.pack("<I", len(expected["greedy"]))
    for greedy in expected["greedy"]:
        out += ids(greedy["prompt_ids"]) + ids(greedy["ids"])
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    data = b"SHLMPACK" + struct.pack("<II", 1, len(CASES)) + b"".join(map(case, CASES))
    data += struct.pack("<I", zlib.crc32(data))
    if args.check:
        if not PACK.exists() or PACK.read_bytes() != data:
            sys.exit(f"{PACK} is not what the golden cases give: run {Path(__file__).name}")
        return
    PACK.write_bytes(data)
    print(f"{PACK}: {len(data)} bytes")


if __name__ == "__main__":
    main()
