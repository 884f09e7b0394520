#!/usr/bin/env python3
"""The best library GEMM of this interpreter, GFLOP/s: gemm.py f32|bf16 THREADS WIDTH ROWS REPEAT

C[rows, N] = A[rows, K] B[N, K] at the four shapes of a GPT-2 block, weighted by their operations,
by PyTorch (oneDNN, MKL) and by numpy (OpenBLAS) where they are present; the larger one counts.
Prints {"samples": [...], "library": "..."}.
"""
import json
import os
import statistics
import sys
import time


def measure(multiply, shapes, rows, repeat):
    """GFLOP/s of each repetition over all shapes."""
    rounds = 8
    flops = 2 * rows * sum(n * k for n, k in shapes) * rounds
    samples = []
    for _ in range(repeat + 1):
        begin = time.perf_counter()
        for _ in range(rounds):
            multiply()
        samples.append(flops / (time.perf_counter() - begin) / 1e9)
    return samples[1:]


def by_torch(dtype, threads, shapes, rows):
    import torch
    torch.set_num_threads(threads)
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    pairs = [(torch.rand(rows, k).to(kind), torch.rand(n, k).to(kind)) for n, k in shapes]
    return lambda: [torch.nn.functional.linear(a, b) for a, b in pairs]


def by_numpy(dtype, threads, shapes, rows):
    if dtype != "f32":
        raise ImportError("numpy has no " + dtype)
    import numpy as np
    pairs = [(np.random.rand(rows, k).astype("f"), np.random.rand(n, k).astype("f"))
             for n, k in shapes]
    return lambda: [a @ b.T for a, b in pairs]


def main():
    dtype, threads, width, rows, repeat = sys.argv[1], *map(int, sys.argv[2:])
    os.environ["OPENBLAS_NUM_THREADS"] = str(threads)  # read when numpy is loaded
    shapes = [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)]
    best = {"samples": [], "library": "none: neither torch nor numpy is present"}
    for name, make in (("torch", by_torch), ("numpy", by_numpy)):
        try:
            samples = measure(make(dtype, threads, shapes, rows), shapes, rows, repeat)
        except ImportError:
            continue
        if not best["samples"] or statistics.median(samples) > statistics.median(best["samples"]):
            best = {"samples": samples, "library": name}
    print(json.dumps(best))


if __name__ == "__main__":
    main()
