"""shardlm bench coll: what it measures, in every format; what it refuses."""
import csv
import io
import statistics
import unittest

from harness import OK, USAGE, CliTest, parse_object, run

QUICK = ["--repetitions", 10, "--most", 10, "--max-seconds", 0.2]
FIELDS = {"schema", "method_version", "op", "algorithm", "bytes", "count", "type", "ranks", "nodes",
          "ranks_of_nodes", "emulate", "mode", "buffers", "t_min_us", "t_p50_us", "low_us",
          "high_us", "t_p99_us", "cv", "algbw_gb_s", "busbw_gb_s", "wire_tx", "model_us",
          "efficiency", "wrong", "calls", "samples_us", "oversubscribed", "noisy", "environment"}


def coll(*args):
    return ["bench", "coll", *QUICK, *args]


class Coll(CliTest):
    def lines_of(self, *args, ranks=2):
        result = run(coll(*args, "--format", "jsonl"), ranks)
        self.assertEqual(result.code, OK, result)
        return [parse_object(line) for line in result.out.decode().splitlines()]

    def check_line(self, t, ranks):
        self.assertLessEqual(FIELDS, set(t))
        self.assertEqual((t["schema"], t["method_version"]), ("shardlm coll 1", 2))
        self.assertEqual((t["ranks"], t["nodes"], t["wrong"]), (ranks, 1, 0))
        burst = 20 if t["mode"] == "back-to-back" else 1
        self.assertEqual(t["calls"], burst * len(t["samples_us"]))
        self.assertEqual(t["t_min_us"], min(t["samples_us"]))
        self.assertAlmostEqual(t["t_p50_us"] / statistics.median(t["samples_us"]), 1, delta=1e-9)
        self.assertTrue(t["low_us"] <= t["t_p50_us"] <= t["high_us"], t)
        self.assertIsNone(t["t_p99_us"])  # of ten calls nobody can say it
        self.assertTrue(t["environment"]["binding"])

    def test_all_reduces_beside_the_library(self):
        lines = self.lines_of("--bytes", "64,8192", "--mode", "isolated,back-to-back")
        names = [t["algorithm"] for t in lines if (t["bytes"], t["mode"]) == (64, "isolated")]
        self.assertEqual(names, ["shm-oneshot", "shm-twoshot", "direct", "recdbl", "rabenseifner",
                                 "ring", "star", "tree", "mpi"])
        self.assertEqual(len(lines), 4 * len(names))
        for t in lines:
            self.check_line(t, 2)
            n = t["bytes"]
            self.assertEqual((t["op"], t["type"], t["count"]), ("all_reduce", "f32", n / 4))
            self.assertAlmostEqual(t["algbw_gb_s"], n / t["t_p50_us"] / 1e3)
            self.assertAlmostEqual(t["busbw_gb_s"], t["algbw_gb_s"])  # of two ranks
            sent = {"shm-oneshot": n, "shm-twoshot": 1.5 * n, "direct": n, "recdbl": n,
                    "rabenseifner": n, "ring": n, "star": n, "tree": n}
            if t["algorithm"] == "mpi":
                self.assertIsNone(t["model_us"])
                continue
            self.assertEqual(t["wire_tx"], sent[t["algorithm"]])
            self.assertAlmostEqual(t["efficiency"], t["model_us"] / t["t_p50_us"])
            self.assertIn("fit", t["model_source"])

    def test_chosen_algorithms_and_other_operations_on_three_ranks(self):
        lines = self.lines_of("--op", "all_reduce,broadcast,gather,barrier", "--bytes", 64,
                              "--algorithms", "ring", "--emulate", "latency_us=1", "--buffers",
                              "cold", ranks=3)
        self.assertEqual([(t["op"], t["algorithm"], t["bytes"]) for t in lines],
                         [("all_reduce", "ring", 64), ("all_reduce", "mpi", 64)] +
                         [(op, how, 0 if op == "barrier" else 64)
                          for op in ("broadcast", "gather", "barrier")
                          for how in ("shared-memory", "messages")])
        for t in lines:
            self.check_line(t, 3)
            self.assertEqual((t["emulate"], t["buffers"]), ("latency_us=1", "cold"))

    def test_a_calibration_is_the_model(self):
        file = self.folder / "c.json"
        result = run(["calibrate", "--seconds", 0.05, "--out", file], 2)
        self.assertEqual(result.code, OK, result)
        for t in self.lines_of("--bytes", 3072, "--algorithms", "shm-oneshot", "--calibration", file):
            known = t["algorithm"] != "mpi"
            self.assertEqual(t["model_source"], f"calibration {file}" if known else None)
            self.assertEqual(t["model_us"] is not None and t["model_us"] > 0, known)
        self.check_refused(USAGE, [
            (coll("--calibration", file, "--emulate", "latency_us=9"), 2, ("as it was measured",)),
            (coll("--calibration", self.folder / "none"), 2, ("none",)),
        ])

    def test_tables(self):
        rows = list(csv.DictReader(io.StringIO(
            run(coll("--bytes", 64, "--algorithms", "direct", "--format", "csv"), 2).out.decode())))
        self.assertEqual([(r["algorithm"], r["wrong"]) for r in rows],
                         [("direct", "0"), ("mpi", "0")])
        table = run(coll("--bytes", 64, "--algorithms", "direct"), 2).out.decode()
        rows = [line for line in table.splitlines() if line.startswith("|")]
        self.assertEqual((len(rows), len(set(map(len, rows)))), (4, 1))
        self.assertIn("#wrong", rows[0])

    def test_refused(self):
        self.check_refused(USAGE, [
            (coll(), None, ("bench coll", "2 ranks or more")),
            (coll("--op", "all_to_all"), 2, ("all_reduce, broadcast",)),
            (coll("--algorithms", "ring:bf16"), 2, ("without a wire format", "ring:bf16")),
            (["bench", "col"], None, ("col",)),
        ])


if __name__ == "__main__":
    unittest.main()
