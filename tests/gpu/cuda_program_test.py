#!/usr/bin/env python3
"""The program as it is built for GPUs (SHARDLM_CUDA_BIN), on a machine that may have none.

    cuda_program_test.py PLAIN_PROGRAM MODEL

It has to start, say what it found, and give the tokens of the plain program on the CPU; with a GPU,
on the GPU too. Prints the size and the start-up time of both. Ends with 77 (skipped) if the program
for GPUs is not built.
"""
import json
import os
import statistics
import subprocess
import sys
import time

OK, RESOURCES = 0, 5


def run(program, *words):
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def ids(program, model, backend):
    code, out, err = run(program, "generate", "--model", model, "--backend", backend, "--prompt-ids",
                         "7,11,13", "--temperature", "0", "--max-tokens", "8", "--json")
    expect(code == OK, f"generate --backend {backend}: exit code {code}: {err}")
    return json.loads(out)["sequences"][0]["ids"], err


def figures(name, program):
    times = []
    for _ in range(9):
        start = time.monotonic()
        run(program, "version")
        times.append(time.monotonic() - start)
    print(f"{name}: {os.path.getsize(program) / 1e6:.1f} MB, 'version' takes "
          f"{statistics.median(times) * 1e3:.0f} ms (median of {len(times)})")


def main():
    program = os.environ.get("SHARDLM_CUDA_BIN")
    if not program or not os.path.exists(program):
        print("skipped: SHARDLM_CUDA_BIN names no program (scripts/test builds it where nvcc is)")
        return 77
    plain, model = sys.argv[1:]
    code, out, err = run(program, "doctor", "--json")
    expect(code == OK, f"doctor: exit code {code}: {err}")
    expected, _ = ids(plain, model, "cpu")
    found, _ = ids(program, model, "cpu")
    expect(found == expected, f"on the CPU: expected {expected}, found {found}")
    found, err = ids(program, model, "auto")
    expect(found == expected, f"with auto: expected {expected}, found {found}")
    expect(err.count("backend: ") == 1, f"auto says in one line what it took: {err}")
    print("auto:", next(line for line in err.splitlines() if "backend: " in line))
    if "backend: cpu" in err:
        code, _, err = run(program, "generate", "--model", model, "--backend", "cuda", "--prompt-ids",
                           "7")
        expect(code == RESOURCES, f"--backend cuda without a GPU: exit code {code}: {err}")
        expect("built without CUDA" not in err, f"it has CUDA: {err}")
    figures("with CUDA", program)
    figures("without", plain)
    return 0


if __name__ == "__main__":
    sys.exit(main())
