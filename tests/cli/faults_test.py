"""Ranks that die, throw, stop or leave: the job ends in bounded time and names the rank."""
import concurrent.futures
import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
import unittest
import uuid
from pathlib import Path

from harness import (BIN, BUG, DEMO, OK, PEER, SLOWDOWN, TINY, USAGE, CliTest, Result, execute,
                     ids_words, kill_tree, ranks_of, words_of)

LIMIT = 10.0    # seconds from the fault to the end of the job
PATIENCE = 3.0  # --timeout of the runs in which a rank stops without dying
MARK = "SHARDLM_TEST_JOB"
# What the others say of a silent rank: who, where, since when, and where it was seen before.
SINCE = r"within [358] s, since \d\d:\d\d:\d\d UTC"
SILENT = rf"error: ranks? [\d, -]+ did not come to \w+ at \w+(\[\d+\])? \(call \d+\) {SINCE} " \
    r"\(rank \d+ was (last seen in \w+ at |never seen)"
SILENT_END = rf"error: the end of the job \(MPI_Finalize\) has not ended {SINCE}"


def processes_with(mark):
    """Process ids of shardlm ranks whose environment holds the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.path.samefile(entry / "exe", BIN) and \
                    f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


class FaultTest(CliTest):
    def setUp(self):
        super().setUp()
        self.mark = uuid.uuid4().hex
        self.addCleanup(self.kill_leftovers)

    def kill_leftovers(self):
        for pid in processes_with(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def assert_nobody_left(self, result):
        """mpirun may need a moment to reap what it has killed."""
        end = time.monotonic() + 5
        while processes_with(self.mark) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(processes_with(self.mark), [], result)

    def assert_names(self, rank, result):
        """Our own words, or Open MPI's ("process rank 2", "Process name: [[1234,1],2]")."""
        told = re.search(rf"\branks? {rank}\b|\],{rank}\]", result.err)
        self.assertTrue(told, f"rank {rank} is not named: {result}")


class Injected(FaultTest):
    """SHARDLM_FAULT (launcher/fault.h)."""

    def job(self, case):
        ranks, comm, rank, stage, action = case
        command = ["generate", "--model", TINY, "--max-tokens", 40, "--temperature", 0, "--comm",
                   comm, "--timeout", PATIENCE, "--load-timeout", PATIENCE, *ids_words([1])]
        env = {"SHARDLM_FAULT": f"rank={rank},stage={stage},action={action}", MARK: self.mark}
        return execute(words_of(command, ranks), env=env, timeout=60)

    def check(self, cases):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # most of it is waiting
            results = list(pool.map(self.job, cases))
        for case, result in zip(cases, results):
            _, _, rank, _, action = case
            with self.subTest(case=case):
                self.assertNotEqual(result.code, OK, result)
                limit = (LIMIT + (PATIENCE if action in ("stop", "hang") else 0)) * SLOWDOWN
                self.assertLess(result.seconds, limit, result)
                self.assert_names(rank, result)
                if action in ("stop", "hang"):
                    self.assertEqual(result.code, PEER, result)
                    self.assertRegex(result.err, SILENT, result)
                if action == "throw":
                    self.assertEqual(result.code, BUG, result)
                    self.assertIn("fault injected", result.err, result)
        self.assert_nobody_left(results[-1])

    def cases(self, action):
        return [(4, "shm", 2, "load", action), (4, "mpi", 3, "load", action),
                (2, "shm", 0, "load", action), (2, "mpi", 1, "load", action),
                (4, "shm", 3, "forward", action), (4, "mpi", 1, "forward", action),
                (2, "shm", 1, "forward", action), (2, "mpi", 0, "forward", action),
                (4, "shm", 2, "token:10", action), (4, "mpi", 2, "token:10", action),
                (2, "shm", 1, "token:10", action), (2, "mpi", 1, "token:10", action),
                (4, "shm", 0, "token:10", action)]

    def test_throw(self):
        self.check(self.cases("throw"))

    def test_kill(self):
        self.check(self.cases("kill"))

    def test_exit(self):
        self.check(self.cases("exit"))

    def test_stop(self):
        self.check(self.cases("stop"))

    def test_hang(self):
        self.check([(2, "shm", 1, "token:10", "hang"), (3, "mpi", 0, "token:10", "hang"),
                    (2, "mpi", 1, "load", "hang")])

    def test_a_rank_that_never_leaves(self):
        """All work is done: the MPI library waits for the last rank, which we cannot name."""
        cases = [(2, "shm", 1, "end", "stop"), (3, "mpi", 0, "end", "stop"),
                 (2, "mpi", 1, "end", "hang")]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            results = list(pool.map(self.job, cases))
        for case, result in zip(cases, results):
            with self.subTest(case=case):
                self.assertEqual(result.code, PEER, result)
                self.assertRegex(result.err, SILENT_END, result)
                self.assertLess(result.seconds, (LIMIT + PATIENCE) * SLOWDOWN, result)
        self.assert_nobody_left(results[-1])

    def test_one_rank_alone(self):
        for action in ("throw", "exit"):
            result = self.job((1, "auto", 0, "token:10", action))
            self.assertEqual(result.code, BUG, result)

    def test_a_fault_that_is_none_is_refused(self):
        result = execute(words_of(["generate", "--model", TINY, *ids_words([1])], 2),
                         env={"SHARDLM_FAULT": "rank=1,stage=never,action=throw"})
        self.assert_refused(result, USAGE, "SHARDLM_FAULT", "stage=never")


class FromOutside(FaultTest):
    """A long generation whose processes get real signals."""

    def start(self, ranks, comm):
        many = [word for _ in range(500) for word in ("--prompt", "Once upon a time")]
        words = words_of(["generate", "--model", DEMO, "--max-tokens", 250, "--max-batch", 1,
                          "--ignore-eos", "--stream", "--comm", comm, *many], ranks)
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True,
                                        env={**os.environ, MARK: self.mark})
        self.addCleanup(self.end)
        ready, _, _ = select.select([self.process.stdout], [], [], 60)
        self.assertTrue(ready and os.read(self.process.stdout.fileno(), 1), "no text came")

    def end(self):
        kill_tree(self.process.pid)
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait()

    def finish(self, since):
        _, err = self.process.communicate(timeout=60)
        result = Result(self.process.args[:20], self.process.returncode, b"",
                        err.decode("utf-8", "replace"), time.monotonic() - since)
        self.assertNotEqual(result.code, OK, result)
        self.assertLess(result.seconds, LIMIT * SLOWDOWN, result)
        self.assert_nobody_left(result)
        return result

    def test_a_rank_is_killed(self):
        for ranks, rank, comm in ((2, 1, "shm"), (3, 0, "shm"), (3, 2, "mpi")):
            with self.subTest(ranks=ranks, rank=rank, comm=comm):
                self.start(ranks, comm)
                pids = ranks_of(self.process.pid)
                self.assertEqual(sorted(pids), list(range(ranks)))
                since = time.monotonic()
                os.kill(pids[rank], signal.SIGKILL)
                self.assert_names(rank, self.finish(since))

    def test_mpirun_is_asked_to_end(self):
        self.start(2, "auto")
        since = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.finish(since)


if __name__ == "__main__":
    assert sys.platform == "linux", "reads /proc"
    unittest.main()
