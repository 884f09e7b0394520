#!/usr/bin/env python3
"""Tests the tests of the CUDA back end: what orders memory there is removed, one place at a time,
and a test has to fail.

    mutation_check.py barriers --build DIR   every barrier of the kernels
    mutation_check.py waits --build DIR      every wait of the host for the device
    mutation_check.py --self-test            the search for places, on a planted source

DIR is a build with ThreadSanitizer, which reports a missing order as a data race. A barrier is
removed while the tests run: the emulation is told its line. A wait is removed from a copy of the
source, which is compiled and linked in the place of the original. Ends with 1 if all tests passed
without some place, or failed before anything was removed.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Source (the start of its name) -> the program and the tests that run it. A source that is not
# here is an error.
BARRIER_TESTS = [
    ("backend/cuda/kernels/row_norm.h", "unit_gpu_kernels", "*LayerNorm*:*UpdateResidual*"),
    ("backend/cuda/kernels/attention_decode", "unit_gpu_kernels", "*Decode*"),
    ("backend/cuda/kernels/attention_", "unit_gpu_kernels", "*Prefill*"),
    ("backend/cuda/kernels/query_logits", "unit_gpu_kernels", "*Logit*"),
    ("backend/cuda/kernels/logit_", "unit_gpu_kernels", "*Logit*"),
    ("comm/cuda/", "gpu_comm", "*Sums*"),
]
WAIT_TESTS = [
    ("backend/cuda/", "unit_gpu_backend", "-*Every*"),
    ("comm/cuda/", "gpu_comm", "*"),
]
BARRIER = re.compile(r"^\s*(__syncthreads\(\);|(?!//).*__syncthreads_(or|and|count)\()")
WAIT = re.compile(r"^(?P<before>\s*)(return )?[\w.>-]*(stream_?|stream\(\))(\.|->)wait\(.*\);|"
                  r"^\s*check_cuda\(cudaStreamWaitEvent\(.*\);")


def places(root, folders, suffixes, pattern):
    """(file from the root, line number) of each line that the pattern matches."""
    found = []
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in suffixes:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if pattern.match(line):
                    found.append((path.relative_to(root).as_posix(), number))
    return found


def tests_of(source, table):
    for start, program, tests in table:
        if source.startswith(start):
            return program, tests
    sys.exit(f"error: no tests are named for {source}: add it to {Path(__file__).name}")


def run(program, tests, **environment):
    """True if all tests pass."""
    env = dict(os.environ, TSAN_OPTIONS="halt_on_error=1:exitcode=66", **environment)
    command = [str(program), f"--gtest_filter={tests}", "--gtest_fail_fast", "--gtest_brief=1"]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=600, check=False)
    return done.returncode == 0


def check_barriers(build):
    survivors = []
    all_places = places(ROOT, ["backend/cuda", "comm/cuda"], {".cu", ".h"}, BARRIER)
    for program, tests in sorted({tests_of(s, BARRIER_TESTS) for s, _ in all_places}):
        if not run(build / "tests/gpu" / program, tests):
            sys.exit(f"error: {program} {tests} fails as it is")
    for source, line in all_places:
        program, tests = tests_of(source, BARRIER_TESTS)
        start = time.monotonic()
        survived = run(build / "tests/gpu" / program, tests,
                       SHARDLM_EMU_REMOVE_BARRIER=f"{source}:{line}")
        report(source, line, survived, time.monotonic() - start, survivors)
    return finish("barrier", all_places, survivors)


def commands(build, target):
    """Every command that makes the target, in order."""
    text = subprocess.run(["ninja", "-C", str(build), "-t", "commands", target], check=True,
                          capture_output=True, text=True).stdout
    return text.splitlines()


def without_line(source, line):
    """The source's text with that line (a whole statement) emptied."""
    lines = (ROOT / source).read_text().splitlines(keepends=True)
    returns = re.match(r"\s*return ", lines[line - 1])
    lines[line - 1] = "return;\n" if returns else "\n"
    return "".join(lines)


def build_without(build, source, line, program, folder):
    """Links the program with a copy of the source that lacks the line."""
    all_commands = commands(build, f"tests/gpu/{program}")
    copy = Path(folder) / Path(source).name
    copy.write_text(without_line(source, line))
    made = Path(folder) / "mutant.o"
    compiling = next(c for c in all_commands if c.endswith(f"-c {ROOT / source}"))
    words = shlex.split(compiling)
    words[words.index("-o") + 1] = str(made)
    words[words.index("-c") + 1] = str(copy)
    words += ["-Wno-error", "-w"]
    subprocess.run(words, cwd=build, check=True)
    words = shlex.split(all_commands[-1].removeprefix(": && "))
    if "&&" in words:  # what CMake runs once the program is linked
        words = words[:words.index("&&")]
    words[words.index("-o") + 1] = str(Path(folder) / program)
    first_object = next(i for i, w in enumerate(words) if w.endswith(".o"))
    words.insert(first_object, str(made))
    subprocess.run(words, cwd=build, check=True)
    return Path(folder) / program


def check_waits(build):
    survivors = []
    all_places = places(ROOT, ["backend/cuda", "comm/cuda"], {".cc"}, WAIT)
    for source, line in all_places:
        program, tests = tests_of(source, WAIT_TESTS)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            mutant = build_without(build, source, line, program, folder)
            survived = run(mutant, tests)
        report(source, line, survived, time.monotonic() - start, survivors)
    return finish("wait", all_places, survivors)


def report(source, line, survived, seconds, survivors):
    print(f"{source}:{line}: {'NOT NOTICED' if survived else 'noticed'} ({seconds:.1f} s)",
          flush=True)
    if survived:
        survivors.append(f"{source}:{line}")


def finish(what, all_places, survivors):
    if not all_places:
        print(f"error: no {what} found: the search is broken")
        return 1
    print(f"{len(all_places)} places with a {what}, {len(survivors)} not noticed by any test")
    return 1 if survivors else 0


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "k").mkdir()
        (root / "k/a.cu").write_text("  __syncthreads();\n// __syncthreads();\nf();\n"
                                     "if (__syncthreads_or(a)) return;\n// __syncthreads_or(a)\n")
        (root / "k/b.cc").write_text("  stream_.wait(piece.copied);\n  stream.wait();  // why\n"
                                     "return stream_.wait();\nvoid Stream::wait() const {\n"
                                     "  backend.stream().wait();\n")
        assert places(root, ["k"], {".cu"}, BARRIER) == [("k/a.cu", 1), ("k/a.cu", 4)]
        assert places(root, ["k"], {".cc"}, WAIT) == [("k/b.cc", n) for n in (1, 2, 3, 5)]
    print("the search finds what it should")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["barriers", "waits"])
    parser.add_argument("--build", type=Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.what is None or arguments.build is None:
        parser.error("what to remove, and --build")
    check = check_barriers if arguments.what == "barriers" else check_waits
    return check(arguments.build.resolve())


if __name__ == "__main__":
    sys.exit(main())
