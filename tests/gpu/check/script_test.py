#!/usr/bin/env python3
"""Runs scripts/gpu-check itself.

    script_test.py SCRIPT steps PROGRAM   every step, with the emulated program: what the report
                                          says, what a failure and a missing GPU come to
    script_test.py SCRIPT builds          builds with nvcc; where there is no GPU, that it says so
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

STATUSES = {"ok", "failed", "skipped"}


def run(script, *options, **environment):
    """(exit status, the JSON report by step name, all of the report, its table)."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run([script, "--json", str(report), *options],
                              env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        if not report.exists():
            return done.returncode, {}, {}, done.stdout + done.stderr
        whole = json.loads(report.read_text(encoding="utf-8"))
    steps = {step["name"]: step for step in whole["steps"]}
    assert len(steps) == len(whole["steps"]), "two steps of one name"
    for step in whole["steps"]:
        assert step["status"] in STATUSES and step["seconds"] >= 0, step
        assert step["name"] in done.stdout, done.stdout
    for status in STATUSES:
        counted = sum(step["status"] == status and not (status == "failed" and
                                                        step.get("experimental"))
                      for step in whole["steps"])
        assert whole[status] == counted, (status, whole)
    return done.returncode, steps, whole, done.stdout


def check(ok, *shown):
    if not ok:
        raise AssertionError(*shown)


def check_steps(script, program):
    options = ("--program", program, "--sizes", "tiny", "--repeats", "3", "--dtypes", "f32",
               "--quick")
    status, steps, whole, _ = run(script, *options, SHARDLM_FAKE_GPUS="2")
    check(status == 0 and whole["failed"] == 0, whole)
    for name in ("device", "kernels", "golden, 1 rank, nccl, own GPU",
                 "golden, 2 ranks, ipc, shared GPUs", "golden, 2 ranks, staged, shared GPUs",
                 "golden, 2 ranks, nccl, pretend GPUs", "golden, 2 ranks, ipc, own GPUs",
                 "golden, 2 ranks, nccl, own GPUs", "a rank dies, ipc, shared GPUs",
                 "a rank dies, auto, own GPUs", "bench, tiny, bf16, 1 GPU",
                 "bench, tiny, f32, 1 GPU", "bench, tiny, bf16, 2 GPU"):
        check(steps[name]["status"] == "ok" and steps[name]["figures"], name, steps)
    check(steps["sanitizer, memcheck"]["status"] == "skipped", steps)
    check(steps["kernels"]["figures"]["comparisons"] > 100, steps)
    check(steps["bench, tiny, f32, 1 GPU"]["figures"]["decode_1"]["ms"] > 0, steps)

    # One device: nothing is run on several. A step that fails is told and the others still run.
    status, steps, whole, table = run(script, *options, SHARDLM_FAKE_GPUS="1",
                                      SHARDLM_FAKE_GPU_FAULT="cudaGraphInstantiate:1:2")
    check(status == 1 and whole["failed"] > 0, whole)
    check(steps["several GPUs"]["status"] == "skipped", steps)
    check(steps["kernels"]["status"] == "ok", steps)
    failed = steps["golden, 1 rank, nccl, own GPU"]
    check(failed["status"] == "failed" and "recorded pass" in failed["says"], failed)
    check("failed" in table, table)

    # No device, no time, no sense.
    status, steps, _, _ = run(script, *options, SHARDLM_FAKE_GPUS="0")
    check(status == 77 and list(steps) == ["device"], status, steps)
    check(steps["device"]["says"] == "no CUDA device is present", steps)
    status, steps, _, _ = run(script, *options, "--budget", "0")
    check(status == 1 and "--budget" in steps["device"]["says"], status, steps)
    for wrong in (("--nonsense",), ("--json",), ("--budget", "soon"), ("--arch", "x;y$")):
        check(run(script, *wrong)[0] == 2, wrong)


def check_builds(script):
    status, steps, _, table = run(script, "--build-only", "--arch", "90")
    check(status == 0 and steps["build"]["status"] == "ok", table)
    status, steps, _, table = run(script, "--arch", "90", CUDA_VISIBLE_DEVICES="")
    check(status == 77, status, table)
    check(steps["build"]["status"] == "ok" and steps["device"]["status"] == "skipped", table)
    check(steps["device"]["says"] != "", table)


def main():
    script, what, *rest = sys.argv[1:]
    if what == "steps":
        check_steps(script, *rest)
    else:
        check_builds(script)


if __name__ == "__main__":
    main()
