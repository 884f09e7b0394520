#!/usr/bin/env python3
"""Turns a GPT-2 folder (float32 safetensors) into a CTranslate2 model: ct2_convert.py FOLDER OUT

Needs numpy and ctranslate2 alone: the converter that comes with CTranslate2 wants PyTorch.
"""
import json
import struct
import sys
from pathlib import Path

import numpy as np
from ctranslate2.specs import common_spec, transformer_spec


def tensors(path):
    """name -> array of a safetensors file whose tensors are all float32."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            sys.exit(f"{path}: {name} is {entry['dtype']}, expected F32; make it with --dtype F32")
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        found[name] = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])
    return found


def main():
    folder, out = Path(sys.argv[1]), sys.argv[2]
    config = json.loads((folder / "config.json").read_text())
    weight = tensors(folder / "model.safetensors")

    def norm(spec, name):
        spec.gamma, spec.beta = weight[name + ".weight"], weight[name + ".bias"]

    def linear(spec, name):
        spec.weight = np.ascontiguousarray(weight[name + ".weight"].T)  # [in, out] -> [out, in]
        spec.bias = weight[name + ".bias"]

    model = transformer_spec.TransformerDecoderModelSpec.from_config(
        config["n_layer"], config["n_head"], pre_norm=True,
        activation=common_spec.Activation.GELUTanh)
    decoder = model.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = weight["wte.weight"]
    decoder.position_encodings.encodings = weight["wpe.weight"]
    norm(decoder.layer_norm, "ln_f")
    decoder.projection.weight = weight["wte.weight"]
    for i, layer in enumerate(decoder.layer):
        norm(layer.self_attention.layer_norm, f"h.{i}.ln_1")
        linear(layer.self_attention.linear[0], f"h.{i}.attn.c_attn")
        linear(layer.self_attention.linear[1], f"h.{i}.attn.c_proj")
        norm(layer.ffn.layer_norm, f"h.{i}.ln_2")
        linear(layer.ffn.linear_0, f"h.{i}.mlp.c_fc")
        linear(layer.ffn.linear_1, f"h.{i}.mlp.c_proj")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    model.register_vocabulary(sorted(vocabulary, key=vocabulary.get))
    end = "<|endoftext|>"
    model.config.bos_token = model.config.eos_token = model.config.unk_token = end
    model.validate()
    model.optimize()
    Path(out).mkdir(parents=True, exist_ok=True)
    model.save(out)


if __name__ == "__main__":
    main()
