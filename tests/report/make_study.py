#!/usr/bin/env python3
"""Makes the folder of a study that never ran, for the tests of its report.

    make_study.py FOLDER [--kind full|small|coll|weak|hostile] [--launches N]

full     ranks, batches, prompts, wire formats, collectives, a calibration and predictions; one cell each
         that is noisy, oversubscribed, failed, timed out and skipped
small    two rank counts, two launches: nothing of which an interval could be said
coll     collectives only
weak     a model that grows with the ranks
hostile  names with markup and control characters, numbers that are none, a torn last line

The numbers come from a model of a machine (below) and a fixed seed, so that what the report computes from
them can be foreseen. No number was measured.
"""
import argparse
import json
import math
import random
from pathlib import Path

WEIGHTS = 123568128          # bytes a token reads
LAYERS, WIDTH = 12, 768
CALLS = 2 * LAYERS + 1
GAMMA = 0.05e-9
SHM = {"alpha": 9e-6, "beta": 0.11e-9, "o": 1.2e-6}
NET = {"alpha": 27e-6, "beta": 0.82e-9, "o": 3e-6}
ENVIRONMENT = {
    "version": "0.1.0", "commit": "4fb88fa", "dirty": "no", "compiler": "GNU 12.2.0",
    "cxx_flags": "-O3 -DNDEBUG -ffp-contract=off", "mpi": "Open MPI 4.1.4", "host": "nodeA", "hosts": "nodeA",
    "cpu": "Example CPU @ 2.80GHz", "cores": "0-3", "numa": "1 node", "governor": "performance", "smt": "off",
    "kernel": "6.1.0-18-amd64", "virtual": "no", "huge_pages": "madvise", "binding": "core",
    "timer": "tsc, 12 ns", "clock": "one machine, CLOCK_MONOTONIC, error 0 us", "model_hash": "9f2c4be1a07d5533",
    "seed": "1"}

rng = random.Random(7)


def noise(scale):
    return math.exp(rng.gauss(0, scale))


def link_of(nodes):
    return NET if nodes > 1 else SHM


def all_reduce_s(algorithm, ranks, size, link):
    """The formulas of docs/communication.md."""
    p, a, b, o, g = ranks, link["alpha"], link["beta"], link["o"], GAMMA
    log = math.ceil(math.log2(p)) if p > 1 else 0
    part = (p - 1) / p * size
    return {
        "shm-oneshot": a + (p - 1) * o + (p - 1) * size * (b + g),
        "shm-twoshot": 2 * (a + (p - 1) * o) + 2 * part * b + part * g,
        "direct": 2.6 * a + (p - 1) * 3 * o + (p - 1) * size * (b + g),
        "recdbl": log * (2.4 * a + size * (b + g)),
        "ring": 2 * (p - 1) * 2.2 * a + 2 * part * b + part * g,
        "mpi": 1.5 * log * (2.6 * a + 1.4 * size * b),
    }[algorithm]


def read_gb(ranks):
    return 11.6 * min(ranks, 4) / (1 + 0.12 * (min(ranks, 4) - 1))


def setting(**given):
    return {"ranks": 1, "nodes": 1, "batch": 1, "prompt": 128, "allreduce": "auto", "wire": "f32", **given}


def step_parts(s, tokens):
    """compute, wait, transfer, other in ms of a step of `tokens` new tokens a sequence."""
    p, rows = s["ranks"], s["batch"] * tokens
    share = math.ceil(12 / p) / 12  # heads of the busiest rank
    cores = min(p, 4)
    bandwidth = 11e9 * cores / (1 + 0.13 * (cores - 1))  # shared, so it does not grow with the ranks
    busiest = max(WEIGHTS * share / (bandwidth / cores), rows * 0.25e9 * share / (36e9 / (1 + p // 5)))
    mean = busiest * (1 / p) / share * (0.985 if p > 1 else 1)
    if p > 4:
        mean, busiest = mean * p / 4, busiest * p / 4
    wire = {"f32": 4, "bf16": 2, "int8": 1.125}[s["wire"]]
    algorithm = s["allreduce"] if s["allreduce"] != "auto" else ("shm-oneshot" if s["nodes"] == 1 else "direct")
    size = rows * WIDTH * wire
    transfer = 0 if p == 1 else CALLS * all_reduce_s(algorithm, p, size, link_of(s["nodes"]))
    if wire < 4:
        transfer += CALLS * 0.4e-6
    return [1e3 * x for x in (mean, busiest - mean, transfer, 0.00031 + 0.00002 * p)], algorithm, size


def bench_result(s, kind, launches_noise, environment):
    tokens = s["prompt"] if kind == "prefill" else 1
    steps = 64 if kind == "decode" else 1
    (compute, wait, transfer, other), algorithm, size = step_parts(s, tokens)
    p, over = s["ranks"], s["ranks"] > 4
    noisy = s.get("noisy", False)
    drift = launches_noise * (noise(0.05) if noisy or over else 1)
    seconds = []
    for _ in range(12):
        per_step = (compute + wait + transfer + other) / 1e3 * drift * noise(0.004 if not noisy else 0.06)
        seconds.append(per_step * steps)
    rates = sorted(s["batch"] * (64 if kind == "decode" else tokens) / x for x in seconds)
    median = (rates[5] + rates[6]) / 2
    total = sum(seconds) / len(seconds) / steps * 1e3
    scale = total / (compute + wait + transfer + other)
    compute, wait, transfer, other = (x * scale for x in (compute, wait, transfer, other))
    ranks = []
    for r in range(p):
        own = (12 // p + (r < 12 % p)) / 12
        mine = compute * own * p
        ranks.append({"rank": r, "host": "nodeA" if s["nodes"] == 1 or r < (p + 1) // 2 else "nodeB", "core": r % 4,
                      "compute": mine, "wait": max(0.0, compute + wait - mine), "transfer": transfer, "other": other})
    gaps = []
    if kind == "decode":
        for _ in range(480):
            gap = total * noise(0.012 if not noisy else 0.08)
            if rng.random() < (0.02 if not over else 0.08):
                gap *= 1 + rng.expovariate(1 / (0.25 if not over else 2))
            gaps.append(round(gap, 4))
    mean_c = compute
    max_c = max(x["compute"] for x in ranks)
    ordered = sorted(gaps)
    itl = None
    if gaps:
        itl = {"n": len(gaps), "p50": ordered[240], "p95": ordered[456], "p99": None, "max": ordered[-1]}
    payload = CALLS * s["batch"] * tokens * WIDTH * 4
    sent = {"shm-oneshot": p, "direct": p * (p - 1), "ring": 2 * (p - 1)}.get(algorithm)
    approximate = s["wire"] != "f32"
    quality = {"bf16": (0.031, 0.9921, 3.1e-6, 0.00004), "int8": (0.41, 0.9764, 5.2e-4, 0.0021)}.get(s["wire"])
    step = {"compute": compute, "wait": wait, "transfer": transfer, "other": other, "total": total,
            "wall": total * 1.0006}
    return {
        "schema": "shardlm bench 2", "method_version": 2,
        "test": f"tg64" if kind == "decode" else f"pp{tokens}", "kind": kind,
        "tokens": 64 if kind == "decode" else tokens, "batch": s["batch"], "prompt": 1 if kind == "decode" else tokens,
        "dtype": "f32", "kv_dtype": "f32", "ranks": p, "nodes": s["nodes"],
        "ranks_of_nodes": [p] if s["nodes"] == 1 else [(p + 1) // 2, p // 2], "threads": 1,
        "allreduce": s["allreduce"], "wire": s["wire"], "overlap": "none",
        "emulate": s.get("emulate", ""), "repetitions": 12, "stopped": "precise",
        "tokens_per_s": median, "tokens_per_s_low": rates[2], "tokens_per_s_high": rates[9],
        "tokens_per_s_min": rates[0], "tokens_per_s_max": rates[-1],
        "ttft_ms": total if kind == "prefill" else None, "tpot_ms": total if kind == "decode" else None, "itl_ms": itl,
        "ms_per_step": total if kind == "decode" else None, "steps_per_repetition": steps, "step_ms": step,
        "closes": True, "closing_error": 0.0006, "comm_share": (wait + transfer) / total, "wait_share": wait / total,
        "load_balance": mean_c / max_c, "serialisation": max_c / (compute + wait) if p > 1 else 1.0,
        "transfer_efficiency": (compute + wait) / total, "parallel_efficiency": mean_c / total, "rank_ms": ranks,
        "all_reduce": {"calls_per_step": CALLS if p > 1 else 0, "bytes_per_call": s["batch"] * tokens * WIDTH * 4,
                       "sent_bytes_per_step": CALLS * size * sent if sent and not approximate and p > 1 else None,
                       "expected_calls": CALLS if p > 1 else 0, "expected_bytes_per_step": payload if p > 1 else 0,
                       "counted_bytes_per_step": payload if p > 1 else 0,
                       "transfer_us_p50": transfer * 1e3 / CALLS, "algorithms": algorithm if p > 1 else "none"},
        "itl_samples_ms": gaps, "seconds": [round(x, 6) for x in seconds], "weight_bytes": WEIGHTS,
        "weight_gb_per_s": WEIGHTS / total / 1e6 if kind == "decode" else None, "read_gb_per_s": read_gb(p),
        "share_of_read": WEIGHTS / total / 1e6 / read_gb(p) if kind == "decode" else None,
        "gflop_per_s": 13.4, "joules": None, "joules_per_token": None, "joules_source": None,
        "oversubscribed": over, "noisy": noisy, "canary_p99_over_p50": 1.9 if noisy else 1.06,
        "exactness": "approximate" if approximate else "exact", "quality_tokens": 127 if quality else None,
        "quality_text": "fixed" if quality else None, "max_logit_difference": quality[0] if quality else None,
        "top1_agreement": quality[1] if quality else None, "kl": quality[2] if quality else None,
        "perplexity_change": quality[3] if quality else None, "environment": environment,
        "model": {"source": "gpt2", "fake_weights": True, "n_layer": LAYERS, "n_embd": WIDTH, "n_head": 12,
                  "n_inner": 3072, "n_positions": 1024, "vocab_size": 50257, "parameters": 124439808}}


def coll_results(s, environment):
    link = link_of(s["nodes"])
    out = []
    for size in [64, 512, 3072, 6144, 16384, 65536, 262144, 1048576]:
        for algorithm in ["shm-oneshot", "shm-twoshot", "direct", "recdbl", "ring", "mpi"]:
            model = all_reduce_s(algorithm, s["ranks"], size, link) * 1e6
            middle = model * noise(0.09) * 1.04
            samples = [round(middle * noise(0.06) * (1 if rng.random() > 0.02 else 3), 4) for _ in range(80)]
            ordered = sorted(samples)
            t = ordered[40]
            out.append({
                "schema": "shardlm coll 1", "method_version": 2, "op": "all_reduce", "algorithm": algorithm, "bytes": size,
                "count": size // 4, "type": "f32", "ranks": s["ranks"], "nodes": s["nodes"],
                "ranks_of_nodes": [s["ranks"]], "emulate": "", "mode": "isolated", "buffers": "warm",
                "t_min_us": ordered[0], "t_p50_us": t, "low_us": ordered[31], "high_us": ordered[48], "t_p99_us": None,
                "cv": 0.12, "algbw_gb_s": size / t / 1e3, "busbw_gb_s": size / t / 1e3 * 2 * (s["ranks"] - 1) / s["ranks"],
                "wire_tx": None if algorithm == "mpi" else size, "model_us": None if algorithm == "mpi" else model,
                "efficiency": None if algorithm == "mpi" else model / t, "wrong": 0, "calls": 2000, "samples_us": samples,
                "oversubscribed": s["ranks"] > 4, "noisy": False, "environment": environment})
    return out


def calibration():
    def points(link):
        return [{"bytes": n, "low_s": link["alpha"] + n * link["beta"],
                 "median_s": (link["alpha"] + n * link["beta"]) * noise(0.05) * 1.06, "n": 400}
                for n in [0, 64, 512, 4096, 32768, 262144, 2097152]]
    return {"format": "shardlm calibration 1", "hash": "5f0c9a6e21d4b873", "environment": ENVIRONMENT, "ranks": 4, "nodes": 2,
            "classes": [
                {"name": "shm", "transport": "shm", "pairs": 6, "hosts": ["nodeA"], "per_message_s": SHM["o"],
                 "fit_error": 0.031, "points": points(SHM),
                 "segments": [{"from": 0, "to": 8192, "alpha_s": SHM["alpha"], "beta_s_per_byte": SHM["beta"]},
                              {"from": 8192, "to": 4194304, "alpha_s": 1.1e-6, "beta_s_per_byte": 0.085e-9}]},
                {"name": "emulated", "transport": "mpi", "pairs": 3, "hosts": ["nodeA", "nodeB"], "per_message_s": NET["o"],
                 "fit_error": 0.058, "points": points(NET),
                 "segments": [{"from": 0, "to": 4194304, "alpha_s": NET["alpha"], "beta_s_per_byte": NET["beta"]}]}],
            "gamma": [{"to_bytes": 32768, "s_per_byte": 0.03e-9, "level": "L1"},
                      {"to_bytes": 33554432, "s_per_byte": GAMMA, "level": "L3"}],
            "compute": {"read_gb_per_s_alone": 11.4, "read_gb_per_s_all": 37.4}}


def prediction(s, cell, kind):
    points = []
    for p in sorted({1, 2, 3, 4, 6, 8, 12, 16, s["ranks"]}):
        (compute, wait, transfer, other), algorithm, _ = step_parts({**s, "ranks": p}, 1 if kind == "decode" else s["prompt"])
        total = (compute + wait + other) * 0.985 + transfer * 1.08
        rows = s["batch"] * (1 if kind == "decode" else s["prompt"])
        points.append({"ranks": p, "nodes": s["nodes"], "tokens_per_s": rows / total * 1e3, "algorithm": algorithm,
                       "ms": {"compute": (compute + wait) * 0.985, "all_reduce": transfer * 1.08, "head": 0.02,
                              "other": other * 0.985, "total": total},
                       "speedup": None, "efficiency": None, "fits_memory": True})
    for x in points:
        x["speedup"] = x["tokens_per_s"] / points[0]["tokens_per_s"]
        x["efficiency"] = x["speedup"] / x["ranks"]
    return {"schema": "shardlm prediction 1", "source": "calibration calibration.json", "cell": cell,
            "model": {"source": "gpt2", "n_layer": LAYERS, "n_embd": WIDTH},
            "link": {"alpha_s": link_of(s["nodes"])["alpha"], "beta_s_per_byte": link_of(s["nodes"])["beta"],
                     "per_message_s": link_of(s["nodes"])["o"]},
            "batch": s["batch"], "phase": kind, "tokens": 1 if kind == "decode" else s["prompt"], "points": points,
            "best_ranks": max(points, key=lambda x: x["tokens_per_s"])["ranks"],
            "break_even": [{"ranks": 2, "alpha_us": 740.0}, {"ranks": 4, "alpha_us": 410.0}], "notes": []}


class Study:
    def __init__(self, name, launches, environment=ENVIRONMENT):
        self.name, self.launches, self.environment = name, launches, environment
        self.cells, self.lines, self.predictions = [], [], []

    def add(self, factors, kind="bench", skipped=None, status="ok", messages="", **more):
        s = setting(**{k: v for k, v in factors.items() if k in setting()}, **more)
        cell = f"c{len(self.cells):03d}"
        words = {k: str(v) for k, v in factors.items()}
        command = ["mpirun", "-n", str(s["ranks"]), "shardlm", "bench", "--shape", "gpt2", "--prompt", str(s["prompt"]),
                   "--batch", str(s["batch"]), "--allreduce", s["allreduce"], "--wire", s["wire"], "--format", "jsonl"]
        if kind == "coll":
            command = ["mpirun", "-n", str(s["ranks"]), "shardlm", "bench", "coll", "--format", "jsonl"]
        self.cells.append({"id": cell, "factors": words, "kind": kind, "command": command, "skipped": skipped})
        if skipped:
            return
        for launch in range(self.launches if status == "ok" else 1):
            results = []
            if status == "ok" and kind == "coll":
                results = coll_results(s, self.environment)
            elif status == "ok":
                wobble = noise(0.006)
                results = [bench_result({**s, "noisy": s.get("noisy", False) and launch % 2 == 0}, k, wobble,
                                        self.environment) for k in ("prefill", "decode")]
            self.lines.append({"cell": cell, "launch": launch, "factors": words, "kind": kind, "status": status,
                               "exit_code": 0 if status == "ok" else (124 if status == "timeout" else 5), "signal": None,
                               "started": f"2026-11-30T1{launch}:{len(self.lines) % 60:02d}:07Z", "wall_s": 3.2,
                               "command": command, "messages": messages, "results": results})
        if kind == "bench" and s["ranks"] > 1 and s["wire"] == "f32" and status == "ok":
            for phase in ("decode", "prefill"):
                self.predictions.append(prediction(s, cell, phase))

    def write(self, folder, with_calibration=True, torn=False):
        folder.mkdir(parents=True, exist_ok=True)
        factors = {}
        for cell in self.cells:
            for name, value in cell["factors"].items():
                factors.setdefault(name, [])
                if value not in factors[name]:
                    factors[name].append(value)
        order = [[c["id"], n] for n in range(self.launches) for c in self.cells if not c["skipped"]]
        rng.shuffle(order)
        plan = {"schema": "shardlm plan 1", "study": self.name, "seed": 42, "method_version": 2, "factors": factors,
                "repeat": {"launches": self.launches, "order": "random"}, "cells": self.cells, "order": order,
                "budget": {"minutes": 30, "estimated_minutes": 11.5}}
        yaml = f"study: {self.name}\nmodel: {{shape: gpt2}}\nfactors:\n"
        yaml += "".join(f"  {k}: [{', '.join(v)}]\n" for k, v in factors.items())
        yaml += f"repeat: {{launches: {self.launches}, seed: 42}}\nbudget: {{minutes: 30}}\n"
        (folder / "study.yaml").write_text(yaml, encoding="utf-8")
        (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        lines = [json.dumps(x) + "\n" for x in self.lines]
        rng.shuffle(lines)
        text = "".join(lines) + (lines[0][:200] if torn else "")
        (folder / "cells.jsonl").write_text(text, encoding="utf-8")
        if with_calibration:
            (folder / "calibration.json").write_text(json.dumps(calibration()), encoding="utf-8")
            (folder / "predictions.jsonl").write_text("".join(json.dumps(x) + "\n" for x in self.predictions),
                                                      encoding="utf-8")


def full(folder, launches):
    study = Study("gpt2-tp-scaling", launches)
    base = {"ranks": 1, "nodes": 1, "batch": 1, "prompt": 128, "allreduce": "auto", "wire": "f32"}
    for ranks in (1, 2, 3, 4, 6):
        study.add({**base, "ranks": ranks, "nodes": 2 if ranks > 4 else 1})
    for ranks in (1, 2, 4):
        for batch in (2, 4, 8):
            study.add({**base, "ranks": ranks, "batch": batch}, noisy=(ranks, batch) == (4, 8))
    for prompt in (16, 512):
        study.add({**base, "ranks": 4, "prompt": prompt})
    for wire in ("bf16", "int8"):
        study.add({**base, "ranks": 4, "wire": wire})
    study.add({**base, "ranks": 4, "allreduce": "ring"})
    study.add({**base, "ranks": 5}, skipped="12 heads are not divisible by 5 ranks, and uneven is false")
    study.add({**base, "ranks": 12}, status="failed",
              messages="error: rank 7: memory of the key-value cache: expected 1.2 GB, found 0.4 GB; use a smaller --batch")
    study.add({**base, "ranks": 8}, status="timeout", messages="ended after 120 s")
    for ranks in (2, 3, 4):
        study.add({"ranks": ranks}, kind="coll")
    study.write(folder, torn=True)


def small(folder, launches):
    study = Study("two-ranks", min(launches, 2))
    for ranks in (1, 2):
        study.add({"ranks": ranks})
    study.write(folder, with_calibration=False)


def coll(folder, launches):
    study = Study("all-reduce-algorithms", min(launches, 3))
    for ranks in (2, 4):
        study.add({"ranks": ranks}, kind="coll")
    study.write(folder, with_calibration=False)


def weak(folder, launches):
    study = Study("weak-scaling", launches)
    for ranks, width in ((1, 384), (2, 512), (4, 768)):
        study.add({"ranks": ranks, "shape": f"n_layer=6,n_embd={width}"})
    for line in study.lines:
        for result in line["results"]:
            scale = result["ranks"] / 4
            result["weight_bytes"] = int(WEIGHTS * scale)
            result["model"]["parameters"] = int(124439808 * scale)
            result["model"]["source"] = line["factors"]["shape"]
            slow = 1.0 + 0.12 * (result["ranks"] - 1)
            for key in ("tokens_per_s", "tokens_per_s_low", "tokens_per_s_high", "tokens_per_s_min", "tokens_per_s_max"):
                result[key] = 88.0 * noise(0.004) / slow
            for key in ("ms_per_step", "ttft_ms", "tpot_ms"):
                result[key] = result[key] and 1e3 / (88.0 * noise(0.004) / slow)
    study.write(folder, with_calibration=False)


EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">&\"'\u202e\x07"


def hostile(folder, _):
    study = Study(EVIL, 2, {**ENVIRONMENT, "host": EVIL, EVIL: EVIL})
    for ranks in (1, 2, 3):
        study.add({"ranks": ranks, EVIL: EVIL})
    study.add({"ranks": 4}, status="failed", messages=EVIL)
    study.add({"ranks": 5}, skipped=EVIL)
    for i, line in enumerate(study.lines):
        for result in line["results"]:
            result["test"] = result["test"] if i % 2 else EVIL
            result["rank_ms"][0]["host"] = EVIL
            result["all_reduce"]["algorithms"] = EVIL
            if i == 1:
                result.update({"tokens_per_s": None, "step_ms": "none", "itl_samples_ms": ["a", None, {}], "ranks": -3})
            if i == 2:
                result.update({"tokens_per_s": 1e308, "ms_per_step": 1e-308, "batch": 1e300, "ranks": 2})
    study.lines += [{}, {"cell": 7, "results": {}}, {"cell": "c000", "status": "ok", "results": [1, None, "x", []]}]
    study.write(folder, torn=True)
    with open(folder / "cells.jsonl", "ab") as file:
        file.write(b"\n[]\n\"\xff\xfe\"\nnull\n{\"cell\": \"c0")
    (folder / "predictions.jsonl").write_text('{"points": 3, "cell": []}\n{"points": [null, {"ranks": "x"}]}\n{"', encoding="utf-8")
    (folder / "calibration.json").write_text('{"classes": [{"segments": 3, "name": 5}, 7], "hash": {}}', encoding="utf-8")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--kind", choices=("full", "small", "coll", "weak", "hostile"), default="full")
    p.add_argument("--launches", type=int, default=6)
    o = p.parse_args()
    {"full": full, "small": small, "coll": coll, "weak": weak, "hostile": hostile}[o.kind](o.folder, o.launches)


if __name__ == "__main__":
    main()
