"""How each system is started for one measurement, and how its figure is read."""
import json
import os
import re
import shlex
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from .models import CT2_TYPES, WORKERS, ModelError

# Sixteen tokens of GPT-2's vocabulary.
PROMPT = "Once upon a time there was a king who had three sons, and one day"


class Absent(Exception):
    """The system is not given, or does not have what the run needs; says why."""


@dataclass(frozen=True)
class Run:
    """One measurement: a system, what it does, and on what."""
    system: str        # shardlm llama ctranslate2 torch, and for limits gemm copy
    kind: str          # decode prefill generate first-token load gemm copy
    dtype: str = "f32"
    tokens: int = 64
    size: str = "small"
    batch: int = 1
    threads: int = 2
    ranks: int = 1

    def __str__(self):
        parts = [self.system, self.kind, self.size, self.dtype, f"n={self.tokens}"]
        if self.batch > 1:
            parts.append(f"batch={self.batch}")
        return " ".join(parts + [f"{self.ranks}x{self.threads}t"])


class Systems:
    """Runs a Run in a process of its own; returns {"value": …} and what else the system says."""

    def __init__(self, options, models):
        self.options, self.models = options, models
        self.missing = {}  # Python package: whether it is missing, once asked
        self.ct2_mkl = {}  # Run: the value of CT2_USE_MKL that was faster

    def measure(self, run):
        return getattr(self, "_" + run.system)(run)

    # ------------------------------------------------------------ shardlm

    def _shardlm(self, run):
        if not self.options.shardlm:
            raise Absent("no --shardlm")
        if run.kind in ("decode", "prefill"):
            return self._shardlm_bench(run)
        command = self._ranks(run) + [
            self.options.shardlm, "generate", "--model", self.models.folder(run.size), "--dtype",
            run.dtype, "--threads", run.threads, "--ignore-eos", "--prompt", PROMPT]
        if run.kind == "first-token":
            return {"value": self._first_byte(command + ["--temperature", 0, "--max-tokens", 1,
                                                         "--stream", "--quiet"])}
        sampled = ["--max-tokens", run.tokens, "--top-k", 40, "--top-p", 0.95, "--temperature",
                   0.8, "--seed", 1, "--json"]
        timing = json.loads(self._output(command + sampled))["timing"]
        if run.kind == "load":
            size = (self.models.folder(run.size) / "model.safetensors").stat().st_size
            return {"value": size / timing["load_s"] / 1e9}
        return {"value": timing["tokens_per_s"]}

    def _shardlm_bench(self, run):
        prompt, generate = (run.tokens, 0) if run.kind == "prefill" else (0, run.tokens)
        text = self._output(self._ranks(run) + [
            self.options.shardlm, "bench", "--model", self.models.folder(run.size), "--prompt",
            prompt, "--generate", generate, "--batch", run.batch, "--dtype", run.dtype,
            "--threads", run.threads, "--repetitions", self.options.repetitions,
            "--most", self.options.repetitions, "--format", "json"])
        return read_bench(json.loads(text), run)

    def _ranks(self, run):
        return [] if run.ranks == 1 else shlex.split(self.options.mpirun) + ["-n", str(run.ranks)]

    # ---------------------------------------------------------- llama.cpp

    def _llama(self, run):
        if not self.options.llama_bin:
            raise Absent("no --llama-bin")
        model = self.models.gguf(run.size, run.dtype)
        if run.kind == "first-token":
            return {"value": self._first_byte(self._completion(model, run) + [
                "-n", 1, "--temp", 0, "--no-warmup", "--no-display-prompt"])}
        if run.kind == "generate":
            done = self._run(self._completion(model, run) + [
                "-n", run.tokens + 1, "--ignore-eos", "--top-k", 40, "--top-p", 0.95, "--temp", 0.8,
                "--seed", 1, "--perf"])
            return {"value": read_completion(done.stderr)}
        if run.batch > 1:
            return self._llama_batched(model, run)
        prompt, generate = (run.tokens, 0) if run.kind == "prefill" else (0, run.tokens)
        text = self._output([self._llama_tool("llama-bench"), "-m", model, "-t", run.threads,
                             "-p", prompt, "-n", generate, "-r", self.options.repetitions, "-o",
                             "json"] + shlex.split(self.options.llama_bench_args))
        samples = json.loads(text)[0]["samples_ts"]
        return {"value": statistics.median(samples), "samples": samples}

    def _llama_batched(self, model, run):
        context = run.batch * (run.tokens + 16)
        text = self._output([self._llama_tool("llama-batched-bench"), "-m", model, "-t",
                             run.threads, "-c", context, "-npp", 1, "-ntg", run.tokens, "-npl",
                             ",".join([str(run.batch)] * self.options.repetitions),
                             "--output-format", "jsonl"])
        rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        samples = [row["speed_tg"] for row in rows]
        return {"value": statistics.median(samples), "samples": samples}

    def _completion(self, model, run):
        return [self._llama_tool("llama-completion"), "-m", model, "-t", run.threads, "-no-cnv",
                "--simple-io", "-p", PROMPT]

    def _llama_tool(self, name):
        path = Path(self.options.llama_bin) / name
        if not path.exists():
            raise Absent(f"{name} is not in {self.options.llama_bin}")
        return path

    # ---------------------------------------- Python packages and the limit

    def _ctranslate2(self, run):
        self._need("ctranslate2")
        if run.dtype not in CT2_TYPES:
            raise Absent(f"CTranslate2 has no {run.dtype} on a CPU")
        folder = self.models.ctranslate2(run.size)

        def measure(mkl):
            found = self._worker("ct2.py", folder, CT2_TYPES[run.dtype], run,
                                 {"CT2_USE_MKL": mkl})
            return {**found, "setting": "CT2_USE_MKL=" + mkl}

        # Its default, MKL, decodes slower than oneDNN on some machines: the faster one is the peer.
        if run not in self.ct2_mkl:
            found = max((measure(mkl) for mkl in "01"), key=lambda f: f["value"])
            self.ct2_mkl[run] = found["setting"][-1]
            return found
        return measure(self.ct2_mkl[run])

    def _torch(self, run):
        self._need("torch")
        return self._worker("torch_gpt2.py", self.models.folder(run.size), run.dtype, run)

    def _worker(self, script, folder, dtype, run, environment=None):
        found = json.loads(self._output([
            self.options.python, WORKERS / script, folder, dtype, run.threads, run.kind,
            run.tokens, run.batch, self.options.repetitions], environment))
        return {"value": statistics.median(found["samples"]), **found}

    def _gemm(self, run):
        width = json.loads((self.models.folder(run.size) / "config.json").read_text())["n_embd"]
        found = json.loads(self._output([
            self.options.python, WORKERS / "gemm.py", run.dtype, run.threads, width, run.tokens,
            self.options.repetitions]))
        if not found["samples"]:
            raise Absent(found["library"])
        return {"value": statistics.median(found["samples"]), **found}

    def _copy(self, run):
        size = (self.models.folder(run.size) / "model.safetensors").stat().st_size
        found = json.loads(self._output([self.options.python, WORKERS / "memory_copy.py", size,
                                         run.threads, self.options.repetitions]))
        return {"value": statistics.median(found["samples"]), **found}

    def _need(self, package):
        if package not in self.missing:
            done = subprocess.run([self.options.python, "-c", f"import {package}"],
                                  capture_output=True, text=True)
            self.missing[package] = done.returncode != 0
        if self.missing[package]:
            raise Absent(f"{self.options.python} has no package {package}")

    # ------------------------------------------------------------ processes

    def _command(self, command):
        return [str(word) for word in shlex.split(self.options.wrap) + command]

    def _run(self, command, environment=None):
        done = subprocess.run(self._command(command), capture_output=True, text=True,
                              errors="replace", stdin=subprocess.DEVNULL,
                              env={**os.environ, **(environment or {})},
                              timeout=self.options.timeout)
        if done.returncode != 0:
            last = [line for line in done.stderr.strip().splitlines() if "error" in line][-1:]
            raise Absent(f"{Path(str(command[0])).name} ended with {done.returncode}: "
                         + "".join(last or done.stderr.strip().splitlines()[-1:]))
        return done

    def _output(self, command, environment=None):
        return self._run(command, environment).stdout

    def _first_byte(self, command):
        """Milliseconds from the start of the process to its first byte of output, or to its end."""
        begin = time.perf_counter()
        with subprocess.Popen(self._command(command), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as process:
            os.read(process.stdout.fileno(), 1)
            elapsed = time.perf_counter() - begin
            process.stdout.read()
        if process.returncode != 0:
            raise Absent(f"{Path(str(command[0])).name} ended with {process.returncode}")
        return 1e3 * elapsed


def read_bench(report, run):
    """The figures of the one test in the JSON of `shardlm bench`, and its limit."""
    tests = [test for test in report["tests"]
             if (test["kind"], test["tokens"], test["batch"]) == (run.kind, run.tokens, run.batch)]
    if len(tests) != 1:
        raise ModelError(f"shardlm bench reports {len(tests)} tests for {run}, expected 1")
    test = tests[0]
    return {"value": test["tokens_per_s"], "weight_bytes": test["weight_bytes"],
            "bandwidth_gb_s": test["read_gb_per_s"], "load_s": test["load_s"]}


def read_completion(text):
    """Tokens/s of decoding with its sampling, from what llama-completion --perf prints."""
    sampling = re.search(r"sampling time = *([\d.]+) ms", text)
    decoding = re.search(r"(?<!prompt) eval time = *([\d.]+) ms / *(\d+) runs", text)
    if not sampling or not decoding:
        raise Absent("llama-completion printed no sampling time and eval time")
    return 1e3 * int(decoding.group(2)) / (float(decoding.group(1)) + float(sampling.group(1)))
