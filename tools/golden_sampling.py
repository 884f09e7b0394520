"""Golden vectors of transformers' logits processors (part of make_golden.py).

Order: repetition penalty, temperature, top-k, top-p, min-p. Random rows are free of
ties and near-ties, so that the kept set does not hang on rounding: a row whose cut
would change if its parameters moved by MARGIN is drawn again.
"""
import itertools

import numpy as np
import torch
from transformers.generation import logits_process as hf  # min-p came with 4.41

MARGIN = 1e-3
NEUTRAL = {"repetition_penalty": 1.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


def processors(p):
    """The processors that these parameters ask for; raises ValueError if transformers refuses."""
    out = []
    if p["repetition_penalty"] != 1.0:
        out.append(hf.RepetitionPenaltyLogitsProcessor(penalty=p["repetition_penalty"]))
    if p["temperature"] != 1.0:
        out.append(hf.TemperatureLogitsWarper(p["temperature"]))
    if p["top_k"] != 0:  # transformers has no processor for "no cut"
        out.append(hf.TopKLogitsWarper(p["top_k"]))
    if p["top_p"] != 1.0:
        out.append(hf.TopPLogitsWarper(p["top_p"]))
    if p["min_p"] != 0.0:
        out.append(hf.MinPLogitsWarper(p["min_p"]))
    return out


def kept(logits, seen, p):
    """(kept ids ascending, their probabilities) of one row of logits."""
    scores = torch.tensor([logits], dtype=torch.float64)
    for process in processors(p):
        scores = process(torch.tensor([seen], dtype=torch.long), scores)
    ids = torch.nonzero(scores[0] > -float("inf"))[:, 0].tolist()
    return ids, torch.softmax(scores[0], 0)[ids].tolist()


def is_stable(logits, seen, p):
    """True if no cut changes when top-p and min-p move by MARGIN of themselves."""
    want = kept(logits, seen, p)[0]
    for a, b in itertools.product((1 - MARGIN, 1 + MARGIN), repeat=2):
        moved = {**p, "top_p": min(1.0, p["top_p"] * a), "min_p": p["min_p"] * b}
        if p["top_p"] < 1.0 and kept(logits, seen, moved)[0] != want:
            return False
        if p["min_p"] > 0.0 and kept(logits, seen, {**moved, "top_p": p["top_p"]})[0] != want:
            return False
    return True


def case(name, logits, seen=(), **changes):
    """One entry: inputs with the kept ids and probabilities, or "refused"."""
    p = {**NEUTRAL, **changes}
    entry = {"name": name, "logits": logits, "seen_ids": list(seen), **p}
    try:
        entry["kept_ids"], entry["probabilities"] = kept(logits, list(seen), p)
    except ValueError as error:
        entry["refused"] = str(error)
    return entry


def random_cases(rng):
    """Rows of 20-50 float32 logits, each parameter alone and several together."""
    grid = [
        {"temperature": 0.5}, {"temperature": 1.7}, {"top_k": 1}, {"top_k": 7}, {"top_k": 100},
        {"top_p": 0.05}, {"top_p": 0.6}, {"top_p": 0.95}, {"min_p": 0.02}, {"min_p": 0.3},
        {"repetition_penalty": 1.3}, {"repetition_penalty": 0.7},
        {"temperature": 0.8, "top_k": 10}, {"temperature": 1.5, "top_p": 0.8},
        {"top_k": 8, "top_p": 0.7}, {"top_p": 0.9, "min_p": 0.2}, {"top_k": 12, "min_p": 0.1},
        {"temperature": 0.7, "top_k": 15, "top_p": 0.85, "min_p": 0.05},
        {"temperature": 2.5, "top_k": 20, "top_p": 0.9, "min_p": 0.25},
        {"repetition_penalty": 1.2, "temperature": 0.9, "top_k": 12, "top_p": 0.8, "min_p": 0.08},
    ]
    for i, changes in enumerate(grid):
        while True:
            n = int(rng.integers(20, 51))
            logits = (2.5 * rng.standard_normal(n)).astype(np.float32).tolist()
            seen = []
            if "repetition_penalty" in changes:  # some ids twice: the penalty counts once
                seen = rng.integers(0, n, 12).tolist()
                seen += seen[:3]
            if is_stable(logits, seen, {**NEUTRAL, **changes}):
                break
        yield case(f"random_{i}", logits, seen, **changes)


def make():
    """The members of hf_sampling.json."""
    cases = list(random_cases(np.random.default_rng(7)))
    row = [2.0, -2.0, 0.0, 1.0]  # a negative logit must become less likely, not more
    for penalty in (2.0, 1.0, 0.0, -1.0):
        cases.append(case(f"negative_logit_penalty_{penalty:g}", row, (0, 1),
                          repetition_penalty=penalty))
    three = np.log([0.5, 0.3, 0.2]).astype(np.float32).tolist()
    for top_p in (0.0, 1e-9, 0.49, 0.51, 0.79, 0.81, 1.0, 1.5):
        cases.append(case(f"top_p_edge_{top_p:g}", three, top_p=top_p))
    return {"order": "repetition_penalty, temperature, top_k, top_p, min_p",
            "cases": cases}
