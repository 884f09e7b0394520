"""Hosts joined by a network that is emulated on this machine (scripts/netns-cluster): two ranks on
each of two hosts, a link that is cut during a run. Skipped (77) where that cannot be done."""
import os
import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

from harness import (BIN, BUG, DEMO, OK, PEER, SLOWDOWN, USAGE, CliTest, children_of, execute, run)

CLUSTER = os.environ["SHARDLM_CLUSTER"]  # the script
PATIENCE = 3    # --timeout of the runs whose link is cut
TCP_ENDS = 7    # seconds until TCP gives up a cut link with --tcp-retries 4
GREEDY = ["generate", "--model", DEMO, "--temperature", 0, "--max-tokens", 40]
CANNOT = 77


def on_hosts(options, args, **more):
    words = [CLUSTER, *options, "--", BIN, *args]
    return execute([str(word) for word in words], timeout=90, **more)


class Cluster(CliTest):
    def test_the_same_text_as_one_process(self):
        prompt = ["--prompt", "Once upon a time", "--prompt", "The dragon"]
        args = [*GREEDY, *prompt, "--json"]
        expected = self.object_of(run(args))["sequences"]
        for options in (["--ranks-per-host", "2"], ["--hosts", 3, "--ranks-per-host", "1,3,1",
                                                    "--delay-us", 0, "--rate-mbit", 0]):
            result = on_hosts(options, args)
            tokens = [s["ids"] for s in self.object_of(result)["sequences"]]
            self.assertEqual(tokens, [s["ids"] for s in expected], result)
            self.assertIn("all times are emulated", result.err)

    def test_ranks_know_their_hosts(self):
        result = on_hosts(["--hosts", 2, "--ranks-per-host", "3,1"], ["doctor", "--json"])
        ranks = self.object_of(result)["ranks"]
        self.assertEqual([rank["host"] for rank in ranks], ["node0"] * 3 + ["node1"], result)
        # Shared memory reaches the ranks of one host only: "on 3 of 4 ranks" is node0.
        result = on_hosts(["--ranks-per-host", "3,1"], [*GREEDY, "--prompt", "a", "--comm", "shm"])
        self.assertEqual(result.code, USAGE, result)
        self.assertIn("3 of 4 ranks on node0", result.err, result)

    def test_the_links_are_slow(self):
        """A hop takes at least the delay, and a broadcast, four sums and a gather are 6 a token."""
        def ms_per_token(delay_us):
            result = on_hosts(["--delay-us", delay_us], [*GREEDY, "--prompt", "a", "--json"])
            return self.object_of(result)["timing"]["tpot_ms"]
        self.assertGreater(ms_per_token(4000), 6 * 4)

    def cut(self, host, extra=()):
        many = [word for _ in range(50) for word in ("--prompt", "Once upon a time")]
        result = on_hosts(
            ["--ranks-per-host", 2, "--cut", f"{host}:output+0.2", "--tcp-retries", 4, *extra],
            [*GREEDY[:-1], 250, "--max-batch", 1, "--ignore-eos", "--stream",
             "--timeout", PATIENCE, *many])
        self.assertIn(f"the link of node{host} is cut", result.err, result)
        return result

    def test_a_cut_link_ends_the_job(self):
        result = self.cut(1)
        # Open MPI 5's mpirun forgets the ranks' code for its own, that a daemon is gone.
        self.assertEqual(result.code, BUG if mpi_version() >= 5 else PEER, result)
        # 0.2 s, the deadline, then mpirun waits for the host that it cannot reach.
        self.assertLess(result.seconds, (PATIENCE + TCP_ENDS + 10) * SLOWDOWN, result)
        # Who: one or both of node1's ranks, for the other's addend may have come just in time.
        # Where: a site and a call. Since when: a time of day.
        told = [line for line in result.errors
                if re.search(r"error: ranks? (2|3|2-3) did not come to \w+ at \w+(\[\d+\])? "
                             r"\(call \d+\) within 3 s, since \d\d:\d\d:\d\d UTC "
                          r"\(rank [23] was last seen in \w+ at ", line)]
        self.assertTrue(told, result)

    def test_a_short_cut_is_survived(self):
        """TCP sends again what was lost, and the text is what it would have been."""
        prompts = [word for _ in range(4) for word in ("--prompt", "Once upon a time")]
        args = [*GREEDY, "--max-batch", 1, "--ignore-eos", "--stream", *prompts]
        expected = run(args)
        result = on_hosts(["--ranks-per-host", 2, "--delay-us", 2000, "--cut", "1:output+0",
                           "--heal-after", 0.5], args)
        self.assertEqual(result.code, OK, result)
        self.assertIn("is whole again", result.err, result)
        self.assertEqual(result.out, expected.out, result)


class Script(CliTest):
    def test_wrong_usage(self):
        for words, text in ((["--hosts", "x", "--", "true"], "--hosts needs a number, found 'x'"),
                            (["--cut", "2:1", "--", "true"], "--cut names host 2"),
                            (["--hosts", "3", "--ranks-per-host", "1,1", "--", "true"], "names 2 hosts"),
                            (["--heal-after", "1", "--", "true"], "--heal-after needs --cut"),
                            (["--bogus", "--", "true"], "unknown option '--bogus'"),
                            (["--hosts", "2"], "no command")):
            result = execute([CLUSTER, *words])
            self.assertEqual(result.code, USAGE, result)
            self.assertIn(text, result.err, result)

    def test_says_what_is_missing(self):
        """Without iproute2: a PATH of its own that lacks `ip`."""
        for tool in ("bash", "dirname", "unshare", "nsenter", "setpriv", "taskset"):
            os.symlink(shutil.which(tool), self.folder / tool)
        result = execute([CLUSTER, "--", "true"], env={"PATH": str(self.folder)})
        self.assertEqual(result.code, CANNOT, result)
        self.assertIn("no ip here", result.err, result)

    def test_exit_code_and_input_are_the_commands(self):
        result = execute([CLUSTER, "--", "sh", "-c", "cat; exit 9"], stdin=b"text")
        self.assertEqual((result.code, result.out), (9, b"text"), result)

    def test_nothing_is_left_when_it_is_killed(self):
        """Killed itself, it takes the hosts and the job with it."""
        process = subprocess.Popen([CLUSTER, "--", "sh", "-c", "echo up; exec sleep 1000"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with process.stdout:
            self.assertEqual(process.stdout.readline(), b"up\n")
            below = children_of(process.pid)
            self.assertGreater(len(below), 5)
            process.kill()
            process.wait()
            # The pipe ends with the last process that holds it; the hosts end with it.
            process.stdout.read()
        for pid in below:
            state = Path(f"/proc/{pid}/stat")
            self.assertTrue(self.gone(state), pid)

    def gone(self, stat):
        """Killed with the others by the kernel, which may take a moment; reaped or a zombie."""
        end = time.monotonic() + 10 * SLOWDOWN
        while time.monotonic() < end:
            try:
                if stat.read_text().rpartition(")")[2].split()[0] in "ZX":
                    return True
            except OSError:
                return True
            time.sleep(0.01)
        return False


def mpi_version():
    text = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    return int(re.search(r"\(Open MPI\) (\d+)", text)[1])


def why_not():
    """Why this machine cannot emulate a cluster; nothing if it can."""
    result = execute([CLUSTER, "--", "true"])
    return result.err if result.code == CANNOT else ""


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(reason)
        sys.exit(CANNOT)
    unittest.main()
