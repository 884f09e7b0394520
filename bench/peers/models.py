"""The random-weight GPT-2 of a comparison, in the form that each system reads, in a cache."""
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKERS = Path(__file__).resolve().parent / "workers"

# our type: the type that llama-quantize takes
GGUF_TYPES = {"f32": "F32", "bf16": "BF16", "f16": "F16", "int8": "Q8_0", "int4": "Q4_0"}
CT2_TYPES = {"f32": "float32", "int8": "int8_float32"}
# The largest shape is kept in bfloat16: 3 GB in the place of 6.
STORED = {"xl": "BF16", "large": "BF16"}


class ModelError(Exception):
    """A model that cannot be made; says what to do."""


class Models:
    """Makes each form when it is first asked for; a file that is there is taken as it is."""

    def __init__(self, cache, python, llama_bin=None):
        self.cache = Path(cache)
        self.python = python
        self.llama_bin = Path(llama_bin) if llama_bin else None
        self.cache.mkdir(parents=True, exist_ok=True)

    def folder(self, size):
        """The Hugging Face folder: what shardlm reads."""
        folder = self.cache / size
        if not (folder / "model.safetensors").exists():
            self._make(size, folder)
        return folder

    def gguf(self, size, dtype):
        """The GGUF file of one of our types."""
        target = self.cache / f"{size}-{dtype}.gguf"
        if target.exists():
            return target
        source = self.cache / f"{size}-f32.gguf"
        if not source.exists():
            self._make(size, self.cache / size, source)
        if dtype != "f32":
            quantize = (self.llama_bin or Path()) / "llama-quantize"
            if not quantize.exists():
                raise ModelError(f"{target.name} is made by llama-quantize, which is not in "
                                 f"{self.llama_bin}; build it there")
            self._run([quantize, source, self._part(target), GGUF_TYPES[dtype], "2"], target)
        return target

    def ctranslate2(self, size):
        """The CTranslate2 folder, float32; the type of a run is chosen when it is loaded."""
        target = self.cache / f"{size}-ct2"
        if not target.exists():
            self._run([self.python, WORKERS / "ct2_convert.py", self.folder(size),
                       self._part(target)], target)
        return target

    def _make(self, size, folder, gguf=None):
        command = [self.python, ROOT / "tools" / "make_gpt2.py", "--size", size, "--out", folder,
                   "--dtype", STORED.get(size, "F32"),
                   "--vocab-from", ROOT / "tests" / "data" / "gpt2_bpe"]
        if gguf is None:
            self._run(command)
        else:
            self._run(command + ["--gguf", self._part(gguf)], gguf)

    @staticmethod
    def _part(target):
        return target.with_name(target.name + ".part")

    def _run(self, command, target=None):
        """Runs a maker; its target appears under its name only when it is whole."""
        print("making " + str(target or command[-1]), file=sys.stderr)
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise ModelError(f"{Path(str(command[0])).name} ended with {done.returncode}: "
                             + "; ".join(done.stdout.strip().splitlines()[-3:])
                             + " (the makers need the Python packages numpy and gguf)")
        if target is not None:
            os.replace(self._part(target), target)


def weight_bytes(folder, dtype):
    """Bytes of the matrices that one decoding step reads: blocks and head, scales included.

    int8 is counted with one 16-bit scale for 32 weights (as Q8_0 is), int4 likewise."""
    config = json.loads((Path(folder) / "config.json").read_text())
    width, layers = config["n_embd"], config["n_layer"]
    inner = config.get("n_inner") or 4 * width
    weights = layers * (4 * width * width + 2 * width * inner) + config["vocab_size"] * width
    bits = {"f32": 32, "bf16": 16, "f16": 16, "int8": 8.5, "int4": 4.5}[dtype]
    return weights * bits / 8


def prefill_flops(folder, tokens):
    """Operations of a prompt: blocks, causal attention, the head of the last token."""
    config = json.loads((Path(folder) / "config.json").read_text())
    width, layers = config["n_embd"], config["n_layer"]
    inner = config.get("n_inner") or 4 * width
    blocks = 2 * layers * (4 * width * width + 2 * width * inner) * tokens
    attention = 2 * layers * 2 * width * tokens * (tokens + 1) // 2
    return blocks + attention + 2 * config["vocab_size"] * width
