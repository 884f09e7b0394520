#!/usr/bin/env python3
"""Looks at what nvcc makes of the CUDA kernels, without a GPU.

    ptx_check.py [--nvcc NVCC] [--architectures 80,90]
    ptx_check.py --self-test

Every .cu of the back end is compiled for each architecture. Fails on: registers spilled to memory,
a kernel above its budget of registers, and a source whose PTX lacks the instructions that its speed
rests on (loads of 16 bytes, tensor cores, asynchronous copies, acquire and release). Ends with 77
(skipped) where there is no nvcc.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Kernel (part of its demangled name) -> most registers a thread, so that enough blocks of the size
# it is launched with fit a multiprocessor (65,536 registers). The first that matches counts.
BUDGETS = [
    ("tensor_prefill", 168),  # 128 threads: three blocks
    ("prefill", 128),         # 128 or 256 threads
    ("decode", 128),          # 128 threads: four blocks
    ("", 64),                 # all others run with up to 1024 threads
]

# Source -> what its PTX must hold.
WIDE_LOAD = r"ld\.global(\.nc)?\.v4\.(f32|u32|b32)|ld\.global(\.nc)?\.v2\.(f64|u64|b64)"
INSTRUCTIONS = {
    "backend/cuda/kernels/residual.cu": [WIDE_LOAD, r"st\.global\.v4\."],
    "backend/cuda/kernels/gather.cu": [WIDE_LOAD],
    "backend/cuda/kernels/attention_decode.cu": [WIDE_LOAD, r"shfl\.sync\.bfly"],
    "backend/cuda/kernels/attention_tensor.cu": [
        r"cp\.async\.cg\.shared\.global", r"ldmatrix\.sync\.aligned",
        r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32",
        r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32"],
    "backend/cuda/kernels/query_logits.cu": [WIDE_LOAD],
    "comm/cuda/ipc_all_reduce.cu": [WIDE_LOAD, r"ld\.acquire\.sys", r"st\.release\.sys"],
}

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")


def demangled(names):
    tool = shutil.which("c++filt")
    if tool is None or not names:
        return dict(zip(names, names))
    text = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout
    return dict(zip(names, text.splitlines()))


def kernels_of(log):
    """(name, architecture, registers, bytes spilled) of each kernel in ptxas's report."""
    found, entry, spilled = [], None, 0
    for line in log.splitlines():
        if match := ENTRY.search(line):
            entry, spilled = match.groups(), 0
        elif match := SPILLS.search(line):
            spilled += int(match[1]) + int(match[2])
        elif (match := REGISTERS.search(line)) and entry:
            found.append((*entry, int(match[1]), spilled))
            entry = None
    return found


def problems_of(kernels):
    names = demangled([k[0] for k in kernels])
    problems = []
    for mangled, architecture, registers, spilled in kernels:
        name = names[mangled]
        budget = next(most for part, most in BUDGETS if part in name)
        if spilled:
            problems.append(f"{name} ({architecture}): {spilled} bytes of registers spilled")
        if registers > budget:
            problems.append(f"{name} ({architecture}): {registers} registers, budget {budget}")
    return problems


def compile_one(nvcc, source, architecture, folder):
    """(ptxas's report, PTX) of one source for one architecture."""
    base = Path(folder) / f"{Path(source).stem}-{architecture}"
    command = [nvcc, "-std=c++20", "-O3", f"-I{ROOT}", f"-arch=sm_{architecture}", "-Xptxas=-v",
               "-keep", f"-keep-dir={folder}/{architecture}", "-cubin", "-o", f"{base}.cubin",
               str(ROOT / source)]
    (Path(folder) / architecture).mkdir(exist_ok=True)
    env = {k: v for k, v in os.environ.items() if k != "LIBRARY_PATH"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)}\n{done.stdout}{done.stderr}")
    ptx = Path(folder) / architecture / f"{Path(source).stem}.ptx"
    return done.stdout + done.stderr, ptx.read_text()


def check(nvcc, architectures):
    sources = sorted(p.relative_to(ROOT).as_posix() for folder in ("backend/cuda", "comm/cuda")
                     for p in (ROOT / folder).rglob("*.cu"))
    problems = [f"{s}: no such source; its list of instructions is stale"
                for s in INSTRUCTIONS if s not in sources]
    n_kernels, most = 0, ("", 0)
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {(s, a): pool.submit(compile_one, nvcc, s, a, folder)
                for s in sources for a in architectures}
        for (source, architecture), job in jobs.items():
            log, ptx = job.result()
            kernels = kernels_of(log)
            if "__global__" in (ROOT / source).read_text() and not kernels:
                problems.append(f"{source}: ptxas reported no kernel")
            n_kernels += len(kernels)
            problems += problems_of(kernels)
            most = max([most] + [(k[0], k[2]) for k in kernels], key=lambda k: k[1])
            for pattern in INSTRUCTIONS.get(source, []):
                if not re.search(pattern, ptx):
                    problems.append(f"{source} (sm_{architecture}): no {pattern} in its PTX")
    for problem in problems:
        print(f"error: {problem}")
    print(f"{len(sources)} sources, {n_kernels} kernels for sm_{', sm_'.join(architectures)}; most "
          f"registers: {most[1]} in {demangled([most[0]])[most[0]]}; {len(problems)} problems")
    return 1 if problems else 0


def self_test():
    log = ("ptxas info : Compiling entry function 'decode' for 'sm_80'\n"
           " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
           "ptxas info : Used 40 registers\n"
           "ptxas info : Compiling entry function 'gather' for 'sm_80'\n"
           " 8 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
           "ptxas info : Used 255 registers\n")
    kernels = kernels_of(log)
    assert kernels == [("decode", "sm_80", 40, 0), ("gather", "sm_80", 255, 12)], kernels
    assert len(problems_of(kernels)) == 2, problems_of(kernels)
    print("spills and budgets are noticed")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--architectures", default="80,90")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if shutil.which(arguments.nvcc) is None:
        print(f"skipped: no {arguments.nvcc} here")
        return 77
    return check(arguments.nvcc, arguments.architectures.split(","))


if __name__ == "__main__":
    sys.exit(main())
