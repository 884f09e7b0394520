"""shardlm study and launch: a study from its file to its results, and whatever may end it."""
import collections
import json
import os
import shlex
import signal
import subprocess
import time
import unittest
from pathlib import Path

from harness import BIN, MPIRUN, OK, PEER, SLOWDOWN, USAGE, CliTest, children_of, run

TINY = "n_layer=1,n_embd=32,n_head=2,n_positions=64,vocab_size=100"

# In the place of a job: what it does depends on the number of ranks.
FAKE = """#!/bin/sh
case $1 in
  3) echo 'shardlm: error: it broke' >&2; exit 4;;
  4) kill -9 $$;;
  5) sleep 100;;
  6) exit 0;;
esac
sleep $DELAY
echo "{\\"test\\": \\"tg4\\", \\"method_version\\": 2, \\"tokens_per_s\\": 5}"
"""


class Study(CliTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"

    def write(self, text):
        path = self.folder / "study.yaml"
        path.write_text(text)
        return path

    def fake_study(self, ranks, launches=1, delay=0.0, more=""):
        (self.folder / "fake.sh").write_text(FAKE)
        return self.write(f"""
study: fake
model: {{shape: "{TINY}"}}
factors: {{ranks: {ranks}, prompt: 0, generate: 4}}
repeat: {{launches: {launches}}}
output: {{report: false}}
launch:
  by: command
  command: sh {self.folder}/fake.sh {{ranks}} {{program}}
  timeout_s: {0.5 * SLOWDOWN}
  env: {{DELAY: "{delay}"}}
{more}
""")

    def study(self, command, *args, **options):
        return run(["study", command, *args], **options)

    def run_study(self, path, *args):
        return self.study("run", path, "--out", self.out, *args)

    def launches(self):
        return [json.loads(line) for line in (self.out / "cells.jsonl").read_text().splitlines()]

    def start(self, *args):
        process = subprocess.Popen([BIN, "study", *map(str, args)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def wait_for_launches(self, process, n):
        limit = time.monotonic() + 20 * SLOWDOWN
        while time.monotonic() < limit and process.poll() is None:
            path = self.out / "cells.jsonl"
            if path.exists() and path.read_bytes().count(b"\n") >= n:
                return
            time.sleep(0.02)
        raise AssertionError(f"no {n} launches: {process.poll()}")

    def test_from_the_file_to_the_results(self):
        path = self.write(f"""
study: tiny
model: {{shape: "{TINY}"}}
factors: {{ranks: [1, 2], threads: 1, prompt: 0, generate: 2, allreduce: [ring, shm-oneshot]}}
repeat: {{launches: 2, repetitions: 2, seed: 5}}
launch: {{by: command, command: "{shlex.join(MPIRUN)} -n {{ranks}}"}}
""")
        result = self.run_study(path)
        self.assertEqual(result.code, OK, result)
        self.assertIn(b"study tiny: 6 of 6 jobs done, 0 failed", result.out)
        self.assertIn("skips c002 (ranks=1 threads=1 prompt=0 generate=2 allreduce=shm-oneshot): "
                      "the same as c001", result.err)
        self.assertIn("6/6 ", result.err)
        self.assertEqual((self.out / "study.yaml").read_text(), path.read_text())
        plan = json.loads((self.out / "plan.json").read_text())
        self.assertEqual((plan["schema"], plan["study"], plan["seed"]),
                         ("shardlm plan 1", "tiny", 5))
        self.assertEqual(plan["factors"]["ranks"], ["1", "2"])
        self.assertEqual([cell["kind"] for cell in plan["cells"]], ["bench"] * 4)
        launches = self.launches()
        self.assertEqual([[x["cell"], x["launch"]] for x in launches], plan["order"])
        self.assertEqual({x["launch"] for x in launches[:3]}, {0})  # rounds
        for x in launches:
            self.assertEqual((x["status"], x["exit_code"], x["signal"], x["kind"]),
                             ("ok", 0, None, "bench"), x)
            self.assertGreater(x["wall_s"], 0)
            self.assertEqual(x["command"][0], MPIRUN[0])
            test, = x["results"]
            self.assertEqual((test["test"], str(test["ranks"])), ("tg2", x["factors"]["ranks"]))
        # Nothing is run twice.
        again = self.study("resume", self.out)
        self.assertEqual(again.code, OK, again)
        self.assertEqual(self.launches(), launches)
        refused = self.run_study(path)
        self.assert_refused(refused, USAGE, "holds a study already", "study resume")
        # A study is as quick as itself.
        same = self.object_of(self.study("compare", self.out, self.out, "--json"))
        self.assertEqual([t["verdict"] for t in same["tests"]], ["no difference"] * 3)
        self.assertEqual(same["tests"][0]["a"]["launches"], 2)
        table = self.study("compare", self.out, self.out)
        self.assertIn(b"min..max", table.out)
        self.assertIn(b"0 faster, 0 slower, 3 no difference", table.out)

    def test_predictions_are_made_before_they_are_measured(self):
        path = self.write(f"""
study: ahead
model: {{shape: "{TINY}"}}
factors: {{ranks: [2, 1], threads: 1, prompt: 8, generate: 4}}
coll: {{bytes: [64], algorithms: [ring], max_seconds: 0.05}}
calibrate: {{seconds: 0.05}}
predict: true
repeat: {{launches: 1, repetitions: 2, max_seconds: 0.1}}
launch: {{by: command, command: "{shlex.join(MPIRUN)} -n {{ranks}}"}}
""")
        result = self.run_study(path)
        self.assertEqual(result.code, OK, result)
        self.assertIn(b"4 of 4 jobs done, 0 failed", result.out)
        self.assertEqual([x["kind"] for x in self.launches()][:2], ["calibrate", "bench"])
        self.assertEqual(self.launches()[1]["factors"]["ranks"], "1")
        calibration = json.loads((self.out / "calibration.json").read_text())
        lines = [json.loads(x) for x in (self.out / "predictions.jsonl").read_text().splitlines()]
        self.assertEqual([x["phase"] for x in lines], ["decode", "prefill"], lines)
        for line in lines:
            self.assertNotIn("unpredicted", line)
            self.assertEqual([p["ranks"] for p in line["points"]], [2])
            self.assertGreater(line["points"][0]["tokens_per_s"], 0)
        self.assertEqual(calibration["ranks"], 2)
        page = (self.out / "report.html").read_text()
        self.assertIn("ahead", page)

    def test_plan_runs_nothing(self):
        path = self.fake_study([1, 2], launches=3)
        result = self.study("plan", path, "--out", self.out)
        self.assertEqual(result.code, OK, result)
        self.assertIn(b"2 cells, 3 launches each", result.out)
        self.assertIn(f"sh {self.folder}/fake.sh 2 {BIN} bench".encode(), result.out)
        self.assertFalse(self.out.exists())
        plan = self.object_of(self.study("plan", path, "--json"))
        self.assertEqual(len(plan["order"]), 6)

    def test_failed_cells_are_recorded_and_stop_nothing(self):
        path = self.fake_study([1, 3, 4, 5, 6])
        result = self.run_study(path)
        self.assertEqual(result.code, OK, result)
        self.assertIn(b"5 of 5 jobs done, 4 failed", result.out)
        self.assertRegex(result.err, "failed, [0-9.]+ s, exit code 4: shardlm: error: it broke; ")
        end = {x["factors"]["ranks"]: (x["status"], x["exit_code"], x["signal"])
               for x in self.launches()}
        self.assertEqual(end["1"], ("ok", 0, None))
        self.assertEqual(end["3"], ("failed", 4, None))
        self.assertEqual(end["4"], ("failed", None, signal.SIGKILL))
        self.assertEqual(end["5"][0], "timeout")
        self.assertEqual(end["6"], ("failed", 0, None))  # no result
        messages = {x["factors"]["ranks"]: x["messages"] for x in self.launches()}
        self.assertIn("it broke", messages["3"])
        self.assertIn("no result", messages["6"])

    def test_stop_on_failure(self):
        result = self.run_study(self.fake_study([3, 4], launches=3), "--stop-on-failure")
        self.assertEqual(result.code, PEER, result)
        self.assertEqual(len(self.launches()), 1)
        self.assertIn(b"--stop-on-failure", result.out)

    def test_killed_and_resumed(self):
        path = self.fake_study([1, 2], launches=6, delay=0.15)
        process = self.start("run", path, "--out", self.out)
        self.wait_for_launches(process, 3)
        left = children_of(process.pid)
        process.kill()  # kill -9
        process.communicate()
        cells = self.out / "cells.jsonl"
        whole = cells.read_bytes()
        cells.write_bytes(whole + b'{"cell": "c001", "launch": 4, "sta')
        result = self.study("resume", self.out)
        self.assertEqual(result.code, OK, result)
        self.assertIn("was not finished when the study was killed, and is dropped", result.err)
        self.assertTrue(cells.read_bytes().startswith(whole))
        count = collections.Counter((x["cell"], x["launch"]) for x in self.launches())
        self.assertEqual(len(count), 12)
        self.assertEqual(set(count.values()), {1})
        for pid in left:  # no job of the killed run is beside those of the new one
            self.assertFalse(Path(f"/proc/{pid}").exists(), pid)

    def test_resumed_only_as_it_was_begun(self):
        path = self.fake_study([1])
        self.assertEqual(self.run_study(path).code, OK)
        (self.out / "study.yaml").write_text(path.read_text() + "# more\n")
        self.assert_refused(self.study("resume", self.out), USAGE, "was changed since")
        (self.out / "study.yaml").write_text(path.read_text())
        path.write_text(path.read_text() + "# more\n")
        self.assert_refused(self.study("resume", path, "--out", self.out), USAGE, "has changed")
        plan = self.out / "plan.json"
        plan.write_text(plan.read_text().replace('"fake"', '"other"'))
        self.assertNotEqual(self.study("resume", self.out).code, OK)
        self.assert_refused(self.study("resume", self.folder), USAGE, "no study's folder")

    def test_a_signal_ends_the_job_and_the_study_can_be_resumed(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                self.out = self.folder / str(number)
                path = self.fake_study([1, 2], launches=2, delay=0.2)
                process = self.start("run", path, "--out", self.out)
                self.wait_for_launches(process, 1)
                jobs = children_of(process.pid)
                process.send_signal(number)
                out, err = process.communicate(timeout=20 * SLOWDOWN)
                self.assertEqual(process.returncode, -number, err)
                self.assertIn(b"a signal ended the run", out)
                self.assertIn(b"study resume", out)
                for pid in jobs:
                    self.assertFalse(Path(f"/proc/{pid}").exists(), pid)
                self.assertEqual(self.study("resume", self.out).code, OK)
                self.assertEqual(len(self.launches()), 4)

    def test_two_runners_in_one_folder(self):
        path = self.fake_study([1], launches=9, delay=0.4)
        process = self.start("run", path, "--out", self.out)
        self.wait_for_launches(process, 1)
        self.assert_refused(self.study("resume", self.out), USAGE, "another shardlm study")
        process.send_signal(signal.SIGTERM)
        process.communicate()

    def test_a_budget_drops_whole_rounds(self):
        path = self.fake_study([1, 2], launches=50, delay=0.1, more="budget: {minutes: 0.015}")
        result = self.run_study(path)  # 0.9 s
        self.assertEqual(result.code, OK, result)
        self.assertIn(b"jobs were not run: the budget is used up", result.out)
        n = len(self.launches())
        self.assertTrue(2 <= n < 30, n)
        more = self.study("resume", self.out, "--minutes", 0.01)
        self.assertEqual(more.code, OK, more)
        self.assertGreater(len(self.launches()), n)

    def test_not_under_mpirun(self):
        path = self.fake_study([1])
        result = run(["study", "plan", path], 2)
        self.assertEqual(len(result.errors), 1, result)
        self.assertIn("without mpirun", result.errors[0])
        self.assertEqual(result.code, USAGE, result)

    def test_refused(self):
        path = self.write("study: x\nmodel: {shape: gpt2}\nfactors: {rank: 1}\n")
        self.check_refused(USAGE, [
            (["study", "run", path], None, ["study.yaml:3", "did you mean ranks?"]),
            (["study", "plan"], None, ["a study's YAML file"]),
            (["study", "go"], None, ["study plan", "study run"]),
            (["study", "compare", self.folder], None, ["two folders"]),
            (["study", "compare", self.folder, self.folder], None, ["no study's folder"]),
            (["launch", path], None, ["--print"]),
            (["launch", "--print", "pbs", path], None, ["slurm"])])

    def test_launch_files(self):
        path = self.fake_study([2, 1])
        result = run(["launch", "--print", "hostfile", path])
        self.assertEqual(result.code, OK, result)
        self.assertEqual(result.out.decode().splitlines()[-1], "localhost slots=2")
        script = run(["launch", "--print", "slurm", path]).out.decode()
        self.assertIn("#SBATCH --ntasks=2\n", script)
        self.assertIn(f"shardlm study run {path} --by srun\n", script)
        self.assertEqual(subprocess.run(["bash", "-n"], input=script.encode()).returncode, 0)


if __name__ == "__main__":
    unittest.main()
