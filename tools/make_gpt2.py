#!/usr/bin/env python3
"""Make a GPT-2 checkpoint of any size with random weights, for benchmarks.

Writes a Hugging Face style folder:

    OUT/config.json         GPT-2 config
    OUT/model.safetensors   all weights, Conv1D layout ([in, out]) as GPT-2 has it
    OUT/vocab.json          byte-level BPE vocabulary   (with --vocab-from)
    OUT/merges.txt          byte-level BPE merges       (with --vocab-from)

and, with --gguf, the same weights as one F32 GGUF file, to compare with programs
that read that format.

Weights: normal with std 0.02; residual projections (attn.c_proj, mlp.c_proj)
std 0.02/sqrt(2*n_layer); wpe std 0.01; LayerNorm weight 1 and bias 0; other
biases std 0.01. Every tensor has a random stream of its own, seeded by (seed,
tensor name), so the same seed gives the same file for the same numpy version,
whatever order the tensors are made in.

Needs numpy; --gguf, and a GGUF given to --vocab-from, need the package gguf.

    make_gpt2.py --size small --out /tmp/gpt2-small --vocab-from tests/data/gpt2_bpe
"""
import argparse
import json
import math
import os
import shutil
import struct
import sys
import zlib

import numpy as np

SIZES = {  # name: (n_layer, n_embd, n_head)
    "tiny": (2, 64, 4),
    "small": (12, 768, 12),
    "medium": (24, 1024, 16),
    "large": (36, 1280, 20),
    "xl": (48, 1600, 25),
}
ST_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


def parse_args():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", choices=SIZES, default="small",
                   help="shape of a published GPT-2 (tiny is ours; default small, 124M)")
    p.add_argument("--out", required=True, help="folder to write (made if missing)")
    p.add_argument("--dtype", choices=ST_BYTES, default="F32",
                   help="dtype in model.safetensors (default F32)")
    p.add_argument("--seed", type=int, default=1, help="default 1")
    p.add_argument("--n-layer", type=int, help="instead of the size's own")
    p.add_argument("--n-embd", type=int, help="instead of the size's own")
    p.add_argument("--n-head", type=int, help="instead of the size's own")
    p.add_argument("--n-ctx", type=int, default=1024, help="positions (default 1024)")
    p.add_argument("--vocab-size", type=int, default=50257, help="default 50257")
    p.add_argument("--prefix", default="",
                   help='put before every tensor name, e.g. "transformer." '
                        "(default none, as in the original GPT-2 upload)")
    p.add_argument("--mask-buffers", action="store_true",
                   help="also write the h.N.attn.bias causal-mask buffers that "
                        "the original GPT-2 upload contains")
    p.add_argument("--vocab-from", metavar="PATH",
                   help="GPT-2 tokenizer: a GGUF file that has it, or a folder "
                        "with vocab.json and merges.txt")
    p.add_argument("--gguf", metavar="FILE", help="also write this F32 GGUF file")
    a = p.parse_args()
    layer, embd, head = SIZES[a.size]
    a.n_layer = a.n_layer or layer
    a.n_embd = a.n_embd or embd
    a.n_head = a.n_head or head
    if a.n_embd % a.n_head:
        p.error(f"n_embd {a.n_embd} is not a multiple of n_head {a.n_head}")
    if a.gguf and not a.vocab_from:
        p.error("--gguf needs --vocab-from: a GGUF carries its tokenizer")
    return a


# ---------------------------------------------------------------- weights

def tensor_list(a):
    """(name, shape, kind) in file order; kind is 'one', 'zero', 'mask' or a std."""
    e, f = a.n_embd, 4 * a.n_embd
    resid = 0.02 / math.sqrt(2 * a.n_layer)
    yield "wte.weight", (a.vocab_size, e), 0.02
    yield "wpe.weight", (a.n_ctx, e), 0.01
    for i in range(a.n_layer):
        h = f"h.{i}."
        yield h + "ln_1.weight", (e,), "one"
        yield h + "ln_1.bias", (e,), "zero"
        if a.mask_buffers:
            yield h + "attn.bias", (1, 1, a.n_ctx, a.n_ctx), "mask"
        yield h + "attn.c_attn.weight", (e, 3 * e), 0.02
        yield h + "attn.c_attn.bias", (3 * e,), 0.01
        yield h + "attn.c_proj.weight", (e, e), resid
        yield h + "attn.c_proj.bias", (e,), 0.01
        yield h + "ln_2.weight", (e,), "one"
        yield h + "ln_2.bias", (e,), "zero"
        yield h + "mlp.c_fc.weight", (e, f), 0.02
        yield h + "mlp.c_fc.bias", (f,), 0.01
        yield h + "mlp.c_proj.weight", (f, e), resid
        yield h + "mlp.c_proj.bias", (e,), 0.01
    yield "ln_f.weight", (e,), "one"
    yield "ln_f.bias", (e,), "zero"


def make_tensor(seed, name, shape, kind):
    """The float32 values of one tensor of tensor_list; the same for the same (seed, name)."""
    if kind == "one":
        return np.ones(shape, np.float32)
    if kind == "zero":
        return np.zeros(shape, np.float32)
    if kind == "mask":
        return np.tril(np.ones(shape[-2:], np.float32)).reshape(shape)
    rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
    x = rng.standard_normal(shape, dtype=np.float32)
    x *= np.float32(kind)
    return x


def to_dtype(x, dtype):
    """float32 array -> array whose raw bytes are x in dtype (round to nearest even)."""
    if dtype == "F32":
        return x
    if dtype == "F16":
        return x.astype(np.float16)
    u = x.view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def write_safetensors(path, a):
    """One tensor at a time: memory stays at the largest tensor."""
    header, pos, size = {"__metadata__": {"format": "pt"}}, 0, ST_BYTES[a.dtype]
    for name, shape, _ in tensor_list(a):
        n = math.prod(shape) * size
        header[a.prefix + name] = {"dtype": a.dtype, "shape": list(shape),
                                   "data_offsets": [pos, pos + n]}
        pos += n
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)))
        f.write(head)
        for name, shape, kind in tensor_list(a):
            to_dtype(make_tensor(a.seed, name, shape, kind), a.dtype).tofile(f)


def write_config(path, a):
    """config.json with the fields of the published GPT-2 models."""
    cfg = {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.1,
        "bos_token_id": a.vocab_size - 1,
        "embd_pdrop": 0.1,
        "eos_token_id": a.vocab_size - 1,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "model_type": "gpt2",
        "n_ctx": a.n_ctx,
        "n_embd": a.n_embd,
        "n_head": a.n_head,
        "n_layer": a.n_layer,
        "n_positions": a.n_ctx,
        "resid_pdrop": 0.1,
        "summary_activation": None,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "tie_word_embeddings": True,
        "torch_dtype": {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[a.dtype],
        "vocab_size": a.vocab_size,
    }
    with open(path, "w", encoding="utf-8") as f:
        json.dump(cfg, f, indent=2)
        f.write("\n")


# -------------------------------------------------------------- tokenizer

def read_vocab(a):
    """(tokens by id, merges) of the tokenizer that --vocab-from names."""
    if os.path.isdir(a.vocab_from):
        with open(os.path.join(a.vocab_from, "vocab.json"), encoding="utf-8") as f:
            ids = json.load(f)
        tokens = sorted(ids, key=ids.get)
        with open(os.path.join(a.vocab_from, "merges.txt"), encoding="utf-8") as f:
            lines = f.read().split("\n")
        merges = [m for m in lines if m and not m.startswith("#version")]
    else:
        import gguf
        reader = gguf.GGUFReader(a.vocab_from)
        tokens = reader.fields["tokenizer.ggml.tokens"].contents()
        merges = reader.fields["tokenizer.ggml.merges"].contents()
    if len(tokens) != a.vocab_size:
        sys.exit(f"{a.vocab_from}: {len(tokens)} tokens, not {a.vocab_size}")
    return tokens, merges


def write_vocab(folder, a, tokens, merges):
    """vocab.json and merges.txt, copied if they come from such files."""
    if os.path.isdir(a.vocab_from):
        for name in ("vocab.json", "merges.txt"):
            dst = os.path.join(folder, name)
            if not os.path.exists(dst) or not os.path.samefile(
                    os.path.join(a.vocab_from, name), dst):
                shutil.copyfile(os.path.join(a.vocab_from, name), dst)
        return
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as f:
        json.dump({t: i for i, t in enumerate(tokens)}, f)  # ASCII, as the original
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n")
        f.writelines(m + "\n" for m in merges)


# ------------------------------------------------------------------- GGUF

GGUF_BLOCK = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}
GGUF_TOP = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}


def gguf_name(name):
    """h.3.attn.c_attn.weight -> blk.3.attn_qkv.weight."""
    if name.startswith("h."):
        _, i, rest = name.split(".", 2)
        part, end = rest.rsplit(".", 1)
        return f"blk.{i}.{GGUF_BLOCK[part]}.{end}"
    part, end = name.rsplit(".", 1)
    return f"{GGUF_TOP[part]}.{end}"


def gguf_tensors(a):
    """(name, is Conv1D weight, shape as GGUF has it, kind, HF name)"""
    for name, shape, kind in tensor_list(a):
        if kind == "mask":
            continue
        conv = ".c_" in name and name.endswith(".weight")
        yield gguf_name(name), conv, shape[::-1] if conv else shape, kind, name, shape


def write_gguf(a, tokens, merges):
    """All weights and the tokenizer as one F32 GGUF file."""
    import gguf
    w = gguf.GGUFWriter(a.gguf, "gpt2")
    w.add_name(f"gpt2-{a.size}-random")
    w.add_block_count(a.n_layer)
    w.add_context_length(a.n_ctx)
    w.add_embedding_length(a.n_embd)
    w.add_feed_forward_length(4 * a.n_embd)
    w.add_head_count(a.n_head)
    w.add_layer_norm_eps(1e-5)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    kinds = [gguf.TokenType.NORMAL] * len(tokens)
    kinds[-1] = gguf.TokenType.CONTROL
    w.add_token_types(kinds)
    w.add_token_merges(merges)
    w.add_bos_token_id(len(tokens) - 1)
    w.add_eos_token_id(len(tokens) - 1)
    for name, _, shape, *_ in gguf_tensors(a):
        w.add_tensor_info(name, shape, np.dtype(np.float32), math.prod(shape) * 4)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    for _, conv, _, kind, hf, hf_shape in gguf_tensors(a):
        x = make_tensor(a.seed, hf, hf_shape, kind)
        if a.dtype != "F32":  # the weights that the safetensors file holds
            y = to_dtype(x, a.dtype)
            x = (y.astype(np.float32) if a.dtype == "F16"
                 else (y.astype(np.uint32) << 16).view(np.float32))
        w.write_tensor_data(np.ascontiguousarray(x.T) if conv else x)
    w.close()


def main():
    a = parse_args()
    os.makedirs(a.out, exist_ok=True)
    if a.vocab_from:
        tokens, merges = read_vocab(a)
        write_vocab(a.out, a, tokens, merges)
    write_config(os.path.join(a.out, "config.json"), a)
    write_safetensors(os.path.join(a.out, "model.safetensors"), a)
    if a.gguf:
        write_gguf(a, tokens, merges)
    params = sum(math.prod(s) for _, s, k in tensor_list(a) if k != "mask")
    print(f"{a.size}: {a.n_layer} layers, {a.n_embd} wide, {a.n_head} heads, "
          f"{params / 1e6:.1f} M parameters, {a.dtype} -> {a.out}"
          + (f" and {a.gguf}" if a.gguf else ""))


if __name__ == "__main__":
    main()
