"""The scripts of bench/: how they read other programs' output and what they make of samples."""
import importlib.machinery
import importlib.util
import json
import math
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.dont_write_bytecode = True
sys.path.insert(0, str(BENCH))

from peers import models, report, rows, systems  # noqa: E402


def script(name):
    """A script of bench/ without .py as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class InstructionCounts(unittest.TestCase):
    TEXT = """
1,000 (100.0%)  PROGRAM TOTALS

Ir                    file:function
600 (60.00%)  ???:void shardlm::N_AVX2::Rows<1>(shardlm::N_AVX2::Tile) [clone .isra.0] [/b/m]
 50 ( 5.00%)  ???:void shardlm::N_AVX2::Rows<1>(shardlm::N_AVX2::Tile) [/b/m]
 40 ( 4.00%)  ./malloc/./malloc/malloc.c:_int_free [/usr/lib/libc.so.6]
"""

    def setUp(self):
        self.counts = script("instruction_counts")

    def test_functions_are_read_and_clones_are_one(self):
        self.assertEqual(self.counts.parse_annotation(self.TEXT),
                         {"total": 1000, "N_AVX2::Rows<1>": 650, "_int_free": 40})

    def test_a_step_is_the_difference(self):
        step = self.counts.per_step({"total": 100, "f": 10}, {"total": 500, "f": 50, "g": 8}, 4)
        self.assertEqual(step, {"total": 100, "f": 10, "g": 2})


class PredictionGate(unittest.TestCase):
    """With a program that answers what it is told to."""
    def setUp(self):
        self.gate = script("prediction_gate")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.calls = []
        times = {1: (10.0, 200.0), 2: (6.0, 110.0)}

        def run(args, ranks=None):
            self.calls.append((args[0], ranks or 1))
            if args[0] == "bench":
                step, prompt = times[ranks or 1]
                lines = [{"kind": "decode", "tokens": 4, "batch": 1, "tokens_per_s": 1e3 / step},
                         {"kind": "prefill", "tokens": 128, "batch": 1,
                          "tokens_per_s": 128e3 / prompt}]
                return "\n".join(map(json.dumps, lines))
            total = 5.4 if "decode" in args else 121
            return json.dumps({"points": [{}, {"ms": {"compute": total - 1, "head": 0.5,
                                                      "all_reduce": 0.5, "total": total}}]})
        options = type("Options", (), {"generate": 4, "repetitions": 1, "others": 1e9})()
        self.tool = self.gate.Tool(options, Path(self.folder.name))
        self.tool.run = run

    def test_errors_are_of_what_was_predicted_before(self):
        rows = {r["phase"]: r for r in self.gate.of_model(self.tool, "demo", ["none"], "c.json")}
        self.assertAlmostEqual(rows["decode"]["error"], 5.4 / 6 - 1)
        self.assertAlmostEqual(rows["prefill"]["error"], 121 / 110 - 1)
        self.assertAlmostEqual(rows["decode"]["drift"], 0)
        self.assertEqual(self.calls, [("bench", 1), ("predict", 1), ("predict", 1), ("bench", 2),
                                      ("bench", 1)])

    def test_the_least_disturbed_run_counts(self):
        self.tool.o.others = 0.0
        busy = iter([0, 5, 5, 6, 6, 9])  # others took 5, 1 and 3 seconds of a core
        self.gate.busy_s = lambda: next(busy)
        self.gate.own_s = lambda: 0
        clock = iter(range(6))
        self.gate.time = type("Time", (), {"monotonic": staticmethod(lambda: next(clock))})
        texts = iter("abc")
        self.tool.run = lambda args, ranks: next(texts)
        self.assertEqual(self.tool.quiet_run([]), ("b", 1))


class Rows(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        Path(self.folder.name, "config.json").write_text(json.dumps(
            {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_inner": None}))

    def evaluate(self, name, values, **extra):
        row = next(row for row in rows.all_rows(2) if row.name == name)
        results = report.Results()
        for run in row.runs():
            for value in values.get(run.system, []):
                results.add(run, {"value": value, **extra})
        return row, report.evaluate(row, results, self.folder.name, 28.0), results

    def test_bytes_of_a_step(self):
        # 12 layers of 12 x 768^2 weights and the head, 4 bytes each: 494.1 MB.
        for dtype, megabytes in (("f32", 494.12), ("int8", 131.25)):
            size = models.weight_bytes(self.folder.name, dtype)
            self.assertAlmostEqual(size / 1e6, megabytes, places=1)

    def test_operations_of_a_prompt(self):
        # 0.1728 GFLOP a token at 128 tokens, 0.1795 at 512.
        for tokens, flops in ((128, 0.1728), (512, 0.1795)):
            all_of_them = models.prefill_flops(self.folder.name, tokens)
            self.assertAlmostEqual(all_of_them / tokens / 1e9, flops, places=3)

    def test_the_ratio_is_taken_within_rounds(self):
        # The machine slows down to a tenth; the ratio of medians would be 20 / 10.
        row, entry, results = self.evaluate(
            "decode-f32", {"shardlm": [30, 20, 3], "llama": [20, 10, 2]})
        llama = next(peer for peer in entry["peers"] if peer["name"] == "llama")
        self.assertAlmostEqual(llama["ratio"], 1.5)
        self.assertTrue(llama["met"])
        self.assertAlmostEqual(entry["limit"], 28e9 / 494.12e6, places=1)
        self.assertIn("1.50 (1.50-2.00) | >= 1.35 yes", report.markdown([row], [entry], results))

    def test_a_time_is_met_from_below(self):
        _, entry, _ = self.evaluate("first-token", {"shardlm": [60.0], "llama": [100.0]})
        self.assertFalse(entry["peers"][0]["met"])

    def test_what_is_absent_says_why(self):
        row, entry, results = self.evaluate("decode-bf16", {"llama": [50.0]})
        results.absent[row.ours] = "no --shardlm"
        self.assertIsNone(entry["peers"][0]["ratio"])
        self.assertIn("(no --shardlm)", report.markdown([row], [entry], results))

    def test_bench_report(self):
        test = {"kind": "decode", "tokens": 64, "batch": 1, "tokens_per_s": 50.5,
                "weight_bytes": 494, "read_gb_per_s": 28.0, "load_s": 0.2}
        run = systems.Run("shardlm", "decode")
        self.assertEqual(systems.read_bench({"tests": [test]}, run)["value"], 50.5)
        with self.assertRaises(models.ModelError):
            systems.read_bench({"tests": [dict(test, batch=2)]}, run)


    def test_completion_report(self):
        text = """
0.03 I common_perf_print:    sampling time =      10.00 ms
0.03 I common_perf_print: prompt eval time =      63.44 ms /    16 tokens (3.97 ms per token)
0.03 I common_perf_print:        eval time =     630.00 ms /    64 runs   (45.25 ms per token)
"""
        self.assertAlmostEqual(systems.read_completion(text), 100.0)
        with self.assertRaises(systems.Absent):
            systems.read_completion("error")


class Quality(unittest.TestCase):
    def setUp(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not present")
        self.numpy, self.quality = numpy, script("quality")

    def test_logits_are_compared(self):
        # p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4): KL = ln 2 / 2 - ln 2 / 4.
        # A constant added to all logits is no change.
        p = self.numpy.log([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]])
        q = self.numpy.log([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]]) + [[0.0], [3.0]]
        found = self.quality.compare(p, q)
        self.assertAlmostEqual(found["kl"], math.log(2) / 4)
        self.assertAlmostEqual(found["max_logit_difference"], 3.0)
        self.assertEqual((found["top1"], found["positions"]), (1, 2))

    def test_limits(self):
        entry = {"weights": "int8", "kv": "f32", "perplexity_change": 0.004,
                 "perplexity_change_stepwise": -0.006}
        refused = {"weights": "int4", "kv": "f32", "refused": "no"}
        wrong = self.quality.violations("m", [entry, refused])
        self.assertEqual(len(wrong), 1)
        self.assertIn("-0.60 %", wrong[0])

    def test_a_type_of_keys_that_changes_nothing_is_not_in_use(self):
        entry = {"weights": "f32", "kv": "int8", "max_logit_difference": 0.0}
        self.assertIn("not in use", self.quality.violations("m", [entry])[0])

    def test_so_is_a_type_of_sums(self):
        entry = {"weights": "f32", "kv": "f32", "wire": "bf16", "max_logit_difference": 0.0}
        self.assertIn("sums in bf16", self.quality.violations("m", [entry])[0])
        self.assertEqual(self.quality.reference_of(("f32", "f32", "bf16")), ("f32",) * 3)


if __name__ == "__main__":
    unittest.main()
