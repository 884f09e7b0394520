"""Runs the shardlm binary for the tests of tests/cli, alone or under the real mpirun.

The environment that CMake gives: SHARDLM_BIN (the binary), SHARDLM_MPIRUN (mpirun and its switches,
as a shell would write them), SHARDLM_TEST_DATA (tests/data), SHARDLM_MODELS (models), and, where it is
built, SHARDLM_EMULATED_BIN (the program with the emulated GPUs of tests/gpu). Limits of time are multiplied by SHARDLM_TEST_SLOWDOWN (1 when absent): builds with sanitizers need it.
"""
import concurrent.futures
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from dataclasses import dataclass
from pathlib import Path

BIN = os.environ["SHARDLM_BIN"]
EMULATED = os.environ.get("SHARDLM_EMULATED_BIN")
MPIRUN = shlex.split(os.environ["SHARDLM_MPIRUN"])
DATA = Path(os.environ["SHARDLM_TEST_DATA"])
MODELS = Path(os.environ["SHARDLM_MODELS"])
SORT = DATA / "models" / "gpt_nano_sort"
TINY = DATA / "models" / "tiny_random_gpt2"
DEMO = MODELS / "demo"

SLOWDOWN = float(os.environ.get("SHARDLM_TEST_SLOWDOWN", 1))
SOON = 5.0  # seconds from the start to the end of a job with bad input; mpirun's clean-up counts

OK, BUG, USAGE, MODEL_FILES, PEER, RESOURCES = range(6)  # the documented exit codes

# Most of the time of a small run is mpirun waiting, so several share the cores well.
AT_ONCE = 3


@dataclass
class Result:
    """What a finished job left behind; `out` is bytes, since text may be any bytes."""
    command: list
    code: int
    out: bytes
    err: str
    seconds: float

    @property
    def errors(self):
        """The messages of standard error that say what ended the run."""
        return [line for line in self.err.splitlines() if "error: " in line]

    @property
    def warnings(self):
        return [line for line in self.err.splitlines() if "warning: " in line]

    def __str__(self):
        command = shlex.join(str(word) for word in self.command)
        if len(command) > 1500:
            command = command[:1500] + " ..."
        return (f"\n$ {command}\nexit code {self.code} after {self.seconds:.1f} s"
                f"\nstdout: {self.out[:3000]!r}\nstderr: {self.err[:6000]}")


def words_of(args, ranks=None, program=BIN):
    """The command line of one program: `ranks` None runs it without mpirun."""
    start = [] if ranks is None else [*MPIRUN, "-n", str(ranks)]
    return [*start, program, *map(as_word, args)]


def as_word(arg):
    return arg if isinstance(arg, bytes) else str(arg)


def words_mpmd(programs):
    """One job whose ranks have different command lines: [(ranks, args), ...]."""
    words = list(MPIRUN)
    for i, (ranks, args) in enumerate(programs):
        words += [":"] * (i > 0) + ["-n", str(ranks), BIN, *map(as_word, args)]
    return words


def execute(command, stdin=b"", env=None, timeout=100):
    """Runs a command to its end. One that hangs is killed, with all that it started, and fails."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True,
                               env={**os.environ, **(env or {})})
    try:
        out, err = process.communicate(stdin, timeout * SLOWDOWN)
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        out, err = process.communicate()
        raise AssertionError(f"no end after {timeout} s: {shlex.join(map(str, command))[:1500]}\n"
                             f"stdout: {out[:2000]!r}\nstderr: {err[:4000]!r}") from None
    return Result(command, process.returncode, out, err.decode("utf-8", "replace"),
                  time.monotonic() - start)


def run(args, ranks=None, program=BIN, **options):
    return execute(words_of(args, ranks, program), **options)


def run_emulated(args, ranks=None, gpus=4, env=None, **options):
    """The program with so many emulated GPUs ("driver": as without a driver)."""
    return run(args, ranks, EMULATED, env={"SHARDLM_FAKE_GPUS": str(gpus), **(env or {})}, **options)


def run_mpmd(programs, **options):
    return execute(words_mpmd(programs), **options)


def run_all(jobs):
    """Runs [(args, ranks), ...] side by side; the results in the same order."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda job: run(*job), jobs))


def parse_object(text):
    """A JSON object in which no key is doubled."""
    def pairs(items):
        names = [name for name, _ in items]
        assert len(names) == len(set(names)), f"a key is doubled: {names}"
        return dict(items)

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")
    return json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)


def children_of(pid):
    """Process ids below `pid`, from /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        below = parents.get(queue.pop(), [])
        found += below
        queue += below
    return found


def kill_tree(pid):
    """Kills a job that we started, stopped ranks included."""
    for each in [*children_of(pid), pid]:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


def ranks_of(pid):
    """{rank: process id} of the shardlm processes below an mpirun."""
    ranks = {}
    for child in children_of(pid):
        try:
            if not os.path.samefile(f"/proc/{child}/exe", BIN):
                continue
            environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for entry in environment:
            name, _, value = entry.partition(b"=")
            if name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK"):
                ranks[int(value)] = child
    return ranks


class CliTest(unittest.TestCase):
    """A test case with a folder of its own and the checks that every command line is held to."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="shardlm_cli_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def object_of(self, result):
        """The one JSON object of a --json run, and nothing beside it on standard output."""
        self.assertEqual(result.code, OK, result)
        self.assertTrue(result.out.endswith(b"\n"), result)
        value = parse_object(result.out.decode("utf-8"))
        self.assertIsInstance(value, dict, result)
        return value

    def json_of(self, args, ranks=None, **options):
        return self.object_of(run([*args, "--json"], ranks, **options))

    def generate(self, model, *args, ranks=None, **options):
        """Sequences of a greedy run, unless the arguments say otherwise."""
        greedy = [] if "--temperature" in args else ["--temperature", "0"]
        command = ["generate", "--model", model, *greedy, *args]
        return self.json_of(command, ranks, **options)["sequences"]

    def ids_of(self, *args, **options):
        return [s["ids"] for s in self.generate(*args, **options)]

    def assert_refused(self, result, code, *texts, within=None):
        """The documented exit code and one message that holds all the texts."""
        self.assertEqual(result.code, code, result)
        self.assertEqual(len(result.errors), 1, result)
        for text in texts:
            self.assertIn(text, result.errors[0], result)
        self.assertEqual(result.out, b"", result)
        if within is not None:
            self.assertLess(result.seconds, within * SLOWDOWN, result)

    def check_refused(self, code, cases, within=SOON):
        """Runs [(args, ranks, texts of the message), ...] side by side."""
        for result, (_, _, texts) in zip(run_all([case[:2] for case in cases]), cases):
            self.assert_refused(result, code, *texts, within=within)

    def assert_close(self, actual, expected, tolerance, what):
        """Element by element, within an absolute tolerance."""
        self.assertEqual(len(actual), len(expected), what)
        worst = max((abs(a - e) for a, e in zip(actual, expected)), default=0.0)
        self.assertLessEqual(worst, tolerance, what)


def ids_words(*prompts):
    """--prompt-ids for each list of ids."""
    return [word for ids in prompts for word in ("--prompt-ids", ",".join(map(str, ids)))]
