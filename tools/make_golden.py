#!/usr/bin/env python3
"""Makes the golden files of tests/data/golden with torch and transformers.

For each case of CASES (one config switch or file layout each) a random small
GPT2LMHeadModel is made, and a folder is written:

  config.json, model.safetensors   the model, as transformers or safetensors save it
  expected.safetensors             input_ids [T]; embed, h.N.resid_2, ln_f [T, n_embd] and
                                   logits [T, vocab] of one prompt, and for the cases with
                                   all_names every name that `shardlm dump` writes
  expected.json                    prompts, their greedy continuations, the smallest gap
                                   between the two best logits, the versions that made them

The forward pass runs in float64 on the weights as they are stored; results are
rounded to float32 at the end, so a float32 engine is compared with the truth and
not with another engine's rounding. A case whose greedy choice is nearly a tie, or
which repeats itself, is drawn again with the next seed.

Also made: hf_sampling.json (golden_sampling.py) and demo.json, the shipped model
with Hugging Face's tokenizer (golden_demo.py).

Needs torch, transformers (4.40 or later; hf_sampling 4.41), safetensors, tokenizers, numpy.

    make_golden.py                 all of it
    make_golden.py --only base relu
"""
import argparse
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
import transformers
from transformers.utils import logging

import golden_demo
import golden_sampling

ROOT = Path(__file__).resolve().parent.parent
NEW_TOKENS = 16
PROMPT_LENGTHS = (1, 5, 12)  # the last one is the prompt of expected.safetensors
SMALLEST_GAP = 1e-2          # between the best two logits at each greedy step
FEWEST_IDS = 5               # different ids in a continuation: no endless repetition
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass
class Case:
    """One golden folder: `config` over SMALL, and how the weights are written."""
    name: str
    config: dict = field(default_factory=dict)
    dtypes: tuple = ("F32",)    # tensor i is stored in dtypes[i % len(dtypes)]
    layout: str = "pretrained"  # a key of LAYOUTS
    all_names: bool = False


SMALL = dict(n_embd=20, n_head=5, n_layer=2, vocab_size=101, n_positions=32)
# Other shapes, so that no test passes because two numbers happen to be equal.
HEADS_3 = dict(n_embd=21, n_head=3, n_layer=2, vocab_size=97, n_positions=29, n_inner=30)
HEADS_7 = dict(n_embd=28, n_head=7, n_layer=2, vocab_size=53, n_positions=31)

CASES = [
    Case("base", all_names=True),
    *(Case(f"act_{act}", {**HEADS_3, "activation_function": act})
      for act in ("gelu", "gelu_pytorch_tanh", "relu", "silu", "tanh", "quick_gelu")),
    Case("n_inner", {"n_inner": 50}),
    Case("layer_norm_epsilon", {**HEADS_3, "layer_norm_epsilon": 1e-2}),
    Case("unscaled_attention", {**HEADS_3, "scale_attn_weights": False}),
    Case("inverse_layer_scale", {"scale_attn_by_inverse_layer_idx": True, "n_layer": 3}),
    Case("reorder_and_upcast", {**HEADS_3, "reorder_and_upcast_attn": True}),
    Case("untied", {**HEADS_7, "tie_word_embeddings": False}),
    Case("combined", {**HEADS_7, "n_layer": 3, "n_inner": 37, "activation_function": "silu",
                      "layer_norm_epsilon": 1e-3, "scale_attn_weights": False,
                      "scale_attn_by_inverse_layer_idx": True, "tie_word_embeddings": False},
         all_names=True),
    Case("f16", HEADS_3, dtypes=("F16",)),
    Case("bf16", HEADS_3, dtypes=("BF16",)),
    Case("f64", HEADS_3, dtypes=("F64",)),
    Case("mixed_dtypes", HEADS_3, dtypes=("F16", "F32", "BF16", "F64"), layout="plain"),
    Case("sharded", layout="sharded"),
    Case("no_prefix", HEADS_3, layout="no_prefix"),
    Case("mask_buffers", {**HEADS_3, "n_layer": 3}, layout="mask_buffers"),
    Case("linear_out_in", HEADS_3, layout="linear_out_in"),
    Case("lm_head_only", HEADS_3, layout="lm_head_only"),
]


# ---- writing the model ------------------------------------------------------

def without_prefix(tensors):
    """The names of the first GPT-2 upload."""
    return {k.removeprefix("transformer."): t for k, t in tensors.items()}


def with_mask_buffers(tensors):
    """Old files hold the causal mask too: in F32, U8 or BOOL, with a scalar masked_bias."""
    out = dict(tensors)
    positions = out["transformer.wpe.weight"].shape[0]
    for layer, dtype in enumerate((torch.float32, torch.uint8, torch.bool)):
        mask = torch.tril(torch.ones(positions, positions)).to(dtype)
        out[f"transformer.h.{layer}.attn.bias"] = mask.view(1, 1, positions, positions)
        out[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    return out


def with_linear_weights(tensors):
    """Linear weights as nn.Linear has them, [out, in], not Conv1D's [in, out]."""
    return {k: t.T.contiguous() if ".c_" in k and t.dim() == 2 else t
            for k, t in tensors.items()}


def with_lm_head_only(tensors):
    """A tied table under its other name."""
    out = dict(tensors)
    out["lm_head.weight"] = out.pop("transformer.wte.weight")
    return out


LAYOUTS = {"plain": dict, "no_prefix": without_prefix, "mask_buffers": with_mask_buffers,
           "linear_out_in": with_linear_weights, "lm_head_only": with_lm_head_only}


def stored_dtypes(case, model):
    """Parameter name -> dtype in the file. A tied head is no parameter of its own."""
    return {name: DTYPES[case.dtypes[i % len(case.dtypes)]]
            for i, (name, _) in enumerate(model.named_parameters())}


def write_model(case, model, folder):
    """Writes config.json and the weights; `pretrained` and `sharded` leave it to transformers."""
    dtypes = stored_dtypes(case, model)
    if len(case.dtypes) == 1:
        model.to(DTYPES[case.dtypes[0]])
    if case.layout in ("pretrained", "sharded"):
        limit = "16KB" if case.layout == "sharded" else "1GB"
        model.save_pretrained(folder, max_shard_size=limit)
        return
    model.config.architectures = ["GPT2LMHeadModel"]
    model.config.save_pretrained(folder)
    tensors = {name: p.detach().to(dtypes[name]) for name, p in model.named_parameters()}
    tensors = {name: t.clone() for name, t in LAYOUTS[case.layout](tensors).items()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


# ---- making and running the model -------------------------------------------

def make_model(case, seed):
    """A float64 model whose weights are exactly what its file will hold."""
    values = {**SMALL, **case.config}
    last = values["vocab_size"] - 1
    config = transformers.GPT2Config(**values, bos_token_id=last, eos_token_id=last,
                                     attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model = model.double().eval()
    rng, dtypes = np.random.default_rng(seed), stored_dtypes(case, model)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.from_numpy(rng.standard_normal(tuple(p.shape)))
            if name.endswith("bias"):
                p.copy_(0.2 * noise)
            elif ".ln_" in name:
                p.copy_(1 + 0.3 * noise)
            else:
                p.copy_(0.4 * noise)
            p.copy_(p.to(dtypes[name]).double())
    return model


def logits_of(model, ids):
    """[T, vocab], float64."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def greedy(model, prompt):
    """(continuation, the smallest gap between its best two logits)."""
    ids, gap = list(prompt), float("inf")
    for _ in range(NEW_TOKENS):
        best = torch.topk(logits_of(model, ids)[-1], 2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        ids.append(best.indices[0].item())
    return ids[len(prompt):], gap


def activations(model, ids, all_names):
    """The tensors of expected.safetensors, float64, by the names of `shardlm dump`."""
    out, hooks = {}, []

    def keep(name, tensor):
        out[name] = tensor[0].detach().clone()

    def on_output(module, name):
        hooks.append(module.register_forward_hook(lambda m, a, y, n=name: keep(n, y)))

    def on_input(module, name):
        hooks.append(module.register_forward_pre_hook(lambda m, a, n=name: keep(n, a[0])))

    body = model.transformer
    on_output(body.drop, "embed")
    for i, block in enumerate(body.h):
        if all_names:
            on_output(block.ln_1, f"h.{i}.ln_1")
            on_output(block.attn.c_attn, f"h.{i}.attn.qkv")
            on_input(block.attn.c_proj, f"h.{i}.attn.heads")
            on_output(block.attn.c_proj, f"h.{i}.attn.c_proj")
            on_input(block.ln_2, f"h.{i}.resid_1")
            on_output(block.ln_2, f"h.{i}.ln_2")
            on_output(block.mlp.c_fc, f"h.{i}.mlp.c_fc")
            on_output(block.mlp.act, f"h.{i}.mlp.act")
            on_output(block.mlp.c_proj, f"h.{i}.mlp.c_proj")
        on_input(body.h[i + 1].ln_1 if i + 1 < len(body.h) else body.ln_f, f"h.{i}.resid_2")
    on_output(body.ln_f, "ln_f")
    out["logits"] = logits_of(model, ids)
    for hook in hooks:
        hook.remove()
    for name in [n for n in out if n.endswith(".qkv")]:
        q, k, v = out.pop(name).chunk(3, dim=-1)
        out.update(zip((name[:-3] + part for part in "qkv"), (q, k, v)))
    return out


def check_upcast(case, model, ids, expected):
    """reorder_and_upcast_attn changes only where transformers rounds: check that in float32."""
    single = make_model(case, model.golden_seed).float()
    error = (logits_of(single, ids).double() - expected).abs().max().item()
    if error > 1e-4 * expected.abs().max().item():
        raise SystemExit(f"{case.name}: transformers' float32 logits differ by {error}")


def make_case(case, folder):
    """Draws seeds until the continuations are clear and lively, then writes the folder."""
    for seed in range(1, 1000):
        model = make_model(case, seed)
        model.golden_seed = seed
        if case.config.get("reorder_and_upcast_attn"):
            for block in model.transformer.h:  # its float32 step would refuse float64
                block.attn.reorder_and_upcast_attn = False
        vocab = model.config.vocab_size
        rng = np.random.default_rng(1000 + seed)
        prompts = [rng.integers(0, vocab, n).tolist() for n in PROMPT_LENGTHS]
        runs = [greedy(model, p) for p in prompts]
        gap = min(g for _, g in runs)
        if gap > SMALLEST_GAP and all(len(set(ids)) >= FEWEST_IDS and vocab - 1 not in ids
                                      for ids, _ in runs):
            break
    else:
        raise SystemExit(f"{case.name}: no seed below 1000 gives clear greedy choices")

    tensors = activations(model, prompts[-1], case.all_names)
    if case.config.get("reorder_and_upcast_attn"):
        check_upcast(case, model, prompts[-1], tensors["logits"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    expected = {k: t.float().contiguous() for k, t in tensors.items()}
    expected["input_ids"] = torch.tensor(prompts[-1], dtype=torch.int32)
    safetensors.torch.save_file(expected, folder / "expected.safetensors")
    write_json(folder / "expected.json", {
        "case": case.name, "seed": seed, "generator": versions(),
        "greedy": [{"prompt_ids": p, "ids": ids} for p, (ids, _) in zip(prompts, runs)],
        "smallest_gap": gap, "largest_logit": tensors["logits"].abs().max().item()})
    write_model(case, model, folder)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{case.name}: seed {seed}, smallest gap {gap:.4f}, {size / 1e3:.0f} KB", flush=True)


def versions():
    """What the expected values were made with."""
    return {"script": "tools/make_golden.py", "torch": torch.__version__.split("+")[0],
            "transformers": transformers.__version__, "safetensors": safetensors.__version__}


def write_json(path, value):
    """One readable file: an object's members, and a list's elements, a line each."""
    def members(v):
        if isinstance(v, dict):
            return "{", "}", [f"{json.dumps(k)}: {json.dumps(x)}" for k, x in v.items()]
        return "[", "]", [json.dumps(x) for x in v]

    lines = []
    for key, v in value.items():
        if isinstance(v, (list, dict)) and len(json.dumps(v)) > 90:
            first, last, parts = members(v)
            lines.append(f"{json.dumps(key)}: {first}\n  " + ",\n  ".join(parts) + f"\n {last}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(v)}")
    path.write_text("{\n " + ",\n ".join(lines) + "\n}\n", encoding="utf-8")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=ROOT / "tests" / "data" / "golden",
                   help="folder to write (default: tests/data/golden)")
    p.add_argument("--only", nargs="+", metavar="CASE",
                   help="these cases only; also: hf_sampling, demo")
    o = p.parse_args()
    known = [c.name for c in CASES] + ["hf_sampling", "demo"]
    for name in o.only or []:
        if name not in known:
            p.error(f"unknown case {name}; known: {', '.join(known)}")
    wanted = o.only or known
    logging.disable_progress_bar()
    o.out.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if case.name in wanted:
            make_case(case, o.out / case.name)
    if "hf_sampling" in wanted:
        write_json(o.out / "hf_sampling.json",
                   {"generator": versions(), **golden_sampling.make()})
    if "demo" in wanted:
        write_json(o.out / "demo.json", {"generator": versions(), **golden_demo.make(
            ROOT / "models" / "demo", ROOT / "tests" / "data" / "corpus")})


if __name__ == "__main__":
    main()
