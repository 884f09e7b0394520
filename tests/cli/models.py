"""Safetensors files and small GPT-2 folders in plain Python, for models whose answer is known."""
import array
import json
import math
import struct
from pathlib import Path

from harness import DATA

GPT2_BPE = DATA / "gpt2_bpe"
END_OF_TEXT = 50256  # GPT-2's


# ---- safetensors ------------------------------------------------------------

def encode(values, dtype):
    """Numbers as the bytes of a tensor."""
    if dtype == "BF16":
        return b"".join(bf16(x) for x in values)
    code = {"F64": "d", "F32": "f", "F16": "e", "I32": "i", "U8": "B"}[dtype]
    return struct.pack(f"<{len(values)}{code}", *values)


def bf16(x):
    """The upper half of a float32, rounded to the nearest even."""
    bits, = struct.unpack("<I", struct.pack("<f", x))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


class Tensor:
    """A shape and its values' bytes; `values` may be one number for all elements."""

    def __init__(self, shape, values=0.0, dtype="F32"):
        self.shape, self.dtype = list(shape), dtype
        n = math.prod(shape)
        if isinstance(values, (int, float)):
            self.data = encode([values], dtype) * n
        else:
            assert len(values) == n, f"{len(values)} values for {shape}"
            self.data = encode(values, dtype)

    @classmethod
    def rows(cls, shape, rows, dtype="F32"):
        """A matrix of zeros but for {row number: its values}; quick for large tables."""
        size = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}[dtype]
        tensor = cls([0], [], dtype)
        tensor.shape = list(shape)
        data = bytearray(shape[0] * shape[1] * size)
        for row, values in rows.items():
            part = encode(values, dtype)
            data[row * len(part):(row + 1) * len(part)] = part
        tensor.data = bytes(data)
        return tensor

    def values(self):
        return decode(self.data, self.dtype)

    def to(self, dtype):
        return Tensor(self.shape, self.values(), dtype)


def decode(data, dtype):
    if dtype == "F32":
        values = array.array("f")
        values.frombytes(data)
        return values.tolist()
    if dtype == "BF16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return list(struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I",
                                                                  *(h << 16 for h in halves))))
    code, size = {"F64": ("d", 8), "F16": ("e", 2), "I32": ("i", 4)}[dtype]
    return list(struct.unpack(f"<{len(data) // size}{code}", data))


def safetensors_bytes(tensors):
    header, data = {}, []
    at = 0
    for name, t in tensors.items():
        header[name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": [at, at + len(t.data)]}
        data.append(t.data)
        at += len(t.data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def write_safetensors(path, tensors):
    Path(path).write_bytes(safetensors_bytes(tensors))


def read_safetensors(path):
    data = Path(path).read_bytes()
    n, = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        t = tensors[name] = Tensor([0], [], entry["dtype"])
        t.shape, t.data = entry["shape"], data[8 + n + begin:8 + n + end]
    return tensors


# ---- GPT-2 folders ----------------------------------------------------------

def config_of(**fields):
    config = {"model_type": "gpt2", "n_layer": 1, "n_embd": 4, "n_head": 1, "n_positions": 16,
              "vocab_size": 8, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
    config.update(fields)
    return {name: value for name, value in config.items() if value is not None}


def zero_tensors(config):
    """A GPT-2 of zeros with neutral LayerNorms: each block adds nothing to the residual stream."""
    d = config["n_embd"]
    inner = config.get("n_inner") or 4 * d
    tensors = {"wte.weight": Tensor([config["vocab_size"], d]),
               "wpe.weight": Tensor([config["n_positions"], d])}
    for i in range(config["n_layer"]):
        name = f"h.{i}."
        for norm in ("ln_1", "ln_2"):
            tensors[name + norm + ".weight"] = Tensor([d], 1.0)
            tensors[name + norm + ".bias"] = Tensor([d])
        for linear, shape in (("attn.c_attn", [d, 3 * d]), ("attn.c_proj", [d, d]),
                              ("mlp.c_fc", [d, inner]), ("mlp.c_proj", [inner, d])):
            tensors[f"{name}{linear}.weight"] = Tensor(shape)
            tensors[f"{name}{linear}.bias"] = Tensor([shape[1]])
    tensors["ln_f.weight"] = Tensor([d], 1.0)
    tensors["ln_f.bias"] = Tensor([d])
    if config.get("tie_word_embeddings") is False:
        tensors["lm_head.weight"] = Tensor([config["vocab_size"], d])
    return tensors


def with_prefix(tensors, prefix="transformer."):
    return {name if name == "lm_head.weight" else prefix + name: t for name, t in tensors.items()}


def write_model(folder, config, tensors, tokenizer=None):
    """Writes a model folder; `tokenizer` is a folder whose vocab.json and merges.txt it takes."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tensors)
    for name in ("vocab.json", "merges.txt") if tokenizer else ():
        (folder / name).symlink_to(Path(tokenizer) / name)
    return folder


def constant_model(folder, logits, n_positions=16, tokenizer=None, **fields):
    """A model whose logits are `logits` (a list, or {id: logit} over zeros) at every position:
    ln_f yields its bias e_0 whatever comes in, and column 0 of the head holds the logits."""
    n = fields.pop("vocab_size", None) or len(logits)
    config = config_of(n_positions=n_positions, vocab_size=n, tie_word_embeddings=False, **fields)
    d = config["n_embd"]
    tensors = zero_tensors(config)
    tensors["ln_f.weight"] = Tensor([d], 0.0)
    tensors["ln_f.bias"] = Tensor([d], [1.0] + [0.0] * (d - 1))
    by_id = logits if isinstance(logits, dict) else dict(enumerate(logits))
    rows = {i: [x] + [0.0] * (d - 1) for i, x in by_id.items()}
    tensors["lm_head.weight"] = Tensor.rows([n, d], rows)
    return write_model(folder, config, tensors, tokenizer)


def forced_model(folder, ids, n_prompt=1, vocab_size=50257, tokenizer=GPT2_BPE, **fields):
    """A model that continues any prompt of n_prompt ids with `ids` and has no position for more:
    blocks are zero, row p of wpe points along the axis of the id wanted next, and the head's row
    of that id has that axis alone."""
    distinct = sorted(set(ids))
    d = max(4, len(distinct) + 1)
    config = config_of(n_embd=d, n_positions=n_prompt + len(ids) - 1, vocab_size=vocab_size,
                       tie_word_embeddings=False, **fields)
    axis = {id_: [8.0 if i == k else 0.0 for i in range(d)] for k, id_ in enumerate(distinct)}
    tensors = zero_tensors(config)
    wanted = [ids[0]] * (n_prompt - 1) + list(ids)
    tensors["wpe.weight"] = Tensor([config["n_positions"], d],
                                   [x for id_ in wanted for x in axis[id_]])
    tensors["lm_head.weight"] = Tensor.rows([vocab_size, d], axis)
    return write_model(folder, config, tensors, tokenizer)


def random_tensors(config, seed):
    """Like zero_tensors, but every value is drawn; each tensor from its own stream."""
    import random
    tensors = {}
    for name, t in zero_tensors(config).items():
        draw = random.Random(f"{seed} {name}")
        around = 1.0 if ".ln_" in "." + name and name.endswith("weight") else 0.0
        spread = 0.2 if name.endswith("bias") or around else 0.4
        n = math.prod(t.shape)
        tensors[name] = Tensor(t.shape, [draw.gauss(around, spread) for _ in range(n)])
    return tensors


# The 256 characters that stand for bytes in GPT-2's vocabulary files.
def byte_characters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def write_byte_tokenizer(folder, extra=()):
    """A tokenizer whose ids are the bytes, and ids from 256 on for the `extra` special tokens."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    vocab = {c: b for b, c in byte_characters().items()}
    vocab.update({token: 256 + i for i, token in enumerate(extra)})
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return folder
