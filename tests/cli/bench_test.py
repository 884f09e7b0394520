"""shardlm bench: what it measures, in every format, alone and under mpirun."""
import csv
import io
import itertools
import json
import os
import statistics
import unittest

from harness import DEMO, MODEL_FILES, OK, USAGE, CliTest, parse_object, run, run_all

TINY_SHAPE = "n_layer=1,n_embd=32,n_head=2,n_positions=64,vocab_size=100"
PREFILLS, STEPS, BATCHES = (5, 16), (3,), (1, 2)
QUICK = ["--repetitions", 3, "--most", 3, "--warmup", 1, "--threads", 1]
LISTS = ["--prompt", "5,16", "--generate", 3, "--batch", "1,2", *QUICK]
TABLE_COLUMNS = ["test", "batch", "dtype", "kv", "ranks", "threads", "reps", "tokens/s", "95 % CI",
                 "min..max", "ttft ms", "step ms", "comm", "wait", "GB/s", "of read", "GFLOP/s",
                 "J/token", "closes"]


def bench(*args):
    return ["bench", "--shape", TINY_SHAPE, *args]


def crossed():
    """(test, batch) of LISTS."""
    tests = [f"pp{n}" for n in PREFILLS] + [f"tg{n}" for n in STEPS]
    return sorted(itertools.product(tests, BATCHES))


def flops(test):
    """Multiply-adds times two, token by token and layer by layer."""
    layers, width, ids = 1, 32, 100
    total = 0
    decode = test["kind"] == "decode"
    for i in range(test["tokens"]):
        keys = i + 1 + decode
        for _ in range(layers):
            total += 2 * (width * 3 * width + width * width + 2 * width * 4 * width)
            total += 2 * 2 * width * keys
        if decode or i == test["tokens"] - 1:
            total += 2 * width * ids
    return total * test["batch"]


class Bench(CliTest):
    def check_test(self, t, ranks, repetitions=3):
        """One result: its numbers against those that its raw samples give."""
        decode = t["kind"] == "decode"
        self.assertEqual(t["test"], f"{'tg' if decode else 'pp'}{t['tokens']}")
        self.assertEqual((t["ranks"], t["threads"], t["dtype"], t["kv_dtype"], t["backend"]),
                         (ranks, 1, "f32", "f32", "cpu"))
        self.assertEqual((t["repetitions"], len(t["seconds"])), (repetitions, repetitions))
        self.assertTrue(all(s > 0 for s in t["seconds"]), t)
        speeds = [t["tokens"] * t["batch"] / s for s in t["seconds"]]
        middle = statistics.median(t["seconds"])
        close = lambda a, b: self.assertAlmostEqual(a / b, 1, delta=1e-9)
        close(t["tokens_per_s"], statistics.median(speeds))
        close(t["tokens_per_s_min"], min(speeds))
        close(t["tokens_per_s_max"], max(speeds))
        close(t["gflop_per_s"], flops(t) / middle / 1e9)
        self.assertGreater(t["read_gb_per_s"], 0)
        self.assertGreater(t["load_s"], 0)
        # Blocks and output table of the shape, and what a layout pads.
        matrices = 4 * (12 * 32 * 32 + 100 * 32)
        self.assertTrue(matrices <= t["weight_bytes"] <= 16 * matrices, t)
        self.assertEqual((t["schema"], t["method_version"]), ("shardlm bench 2", 2))
        self.assertEqual((t["stopped"], t["allreduce"], t["wire"], t["overlap"], t["emulate"]),
                         ("most", "auto", "f32", "none", ""))
        self.assertEqual((t["nodes"], t["ranks_of_nodes"]), (1, [ranks]))
        self.assertEqual((t["tokens_per_s_low"], t["tokens_per_s_high"]), (None, None))
        self.assertIsInstance(t["noisy"], bool)
        self.assertGreaterEqual(t["canary_p99_over_p50"], 1)
        self.assertTrue(t["joules_source"])
        self.check_split(t, ranks)
        if decode:
            self.assertEqual(t["itl_ms"]["n"], len(t["itl_samples_ms"]))
            self.assertEqual(t["itl_ms"]["n"], t["tokens"] * repetitions)
            self.assertAlmostEqual(sum(t["itl_samples_ms"]) / 1e3 / sum(t["seconds"]), 1, delta=1e-6)
            self.assertEqual(t["itl_ms"]["max"], max(t["itl_samples_ms"]))
            self.assertIsNone(t["ttft_ms"])
            self.assertEqual(t["tpot_ms"], t["ms_per_step"])
            close(t["ms_per_step"], 1e3 * middle / t["tokens"])
            close(t["weight_gb_per_s"], t["weight_bytes"] * t["tokens"] / middle / 1e9)
            close(t["share_of_read"], t["weight_gb_per_s"] / t["read_gb_per_s"])
        else:
            close(t["ttft_ms"], 1e3 * middle)
            self.assertEqual([t[k] for k in ("ms_per_step", "weight_gb_per_s", "share_of_read")],
                             [None] * 3)

    def check_split(self, t, ranks):
        """Where the time went, and the bytes that were sent, against the formulas."""
        step, sums = t["step_ms"], t["all_reduce"]
        parts = ["compute", "wait", "transfer", "other"]
        close = lambda a, b: self.assertAlmostEqual(a, b, delta=1e-9 * max(abs(a), abs(b)) + 1e-12)
        close(step["total"], sum(step[p] for p in parts))
        self.assertLessEqual(abs(step["total"] - step["wall"]), 0.01 * step["wall"])
        self.assertTrue(t["closes"], t)
        self.assertEqual((t["records_lost"], t["causality_violations"]), (0, 0))
        self.assertTrue(all(step[p] >= 0 for p in parts) and step["compute"] > 0, step)
        self.assertEqual([r["rank"] for r in t["rank_ms"]], list(range(ranks)))
        for p in parts:
            close(step[p], statistics.mean(r[p] for r in t["rank_ms"]))
        # The records' wall time is what the repetitions took by the clock of the benchmark.
        passes = t["steps_per_repetition"]
        self.assertAlmostEqual(step["wall"] * passes / (1e3 * statistics.mean(t["seconds"])), 1,
                               delta=1e-4)
        close(t["comm_share"], (step["wait"] + step["transfer"]) / step["total"])
        close(t["wait_share"], step["wait"] / step["total"])
        factors = [t[k] for k in ("load_balance", "serialisation", "transfer_efficiency")]
        self.assertTrue(all(0 < f <= 1 + 1e-9 for f in factors), t)
        close(t["parallel_efficiency"], factors[0] * factors[1] * factors[2])
        if ranks == 1:
            self.assertEqual((step["wait"], step["transfer"], factors), (0, 0, [1, 1, 1]))
        self.assertTrue(sums["as_expected"], sums)
        layers, width = 1, 32
        calls = 2 * layers + 1 if ranks > 1 else 0
        rows = t["batch"] if t["kind"] == "decode" else t["tokens"] * t["batch"] / passes
        self.assertEqual((sums["calls_per_step"], sums["expected_calls"]), (calls, calls))
        close(sums["counted_bytes_per_step"], calls * rows * width * 4)
        close(sums["expected_bytes_per_step"], calls * rows * width * 4)
        if ranks == 2:  # shm-oneshot: each rank writes its addend
            close(sums["sent_bytes_per_step"], 2 * sums["counted_bytes_per_step"])

    def check_context(self, value, ranks):
        environment, model = value["environment"], value["model"]
        for name in ("version", "commit", "compiler", "mpi", "simd", "build_type", "host", "cpu",
                     "cores"):
            self.assertTrue(environment[name], name)
        for name in ("dirty", "cxx_flags", "numa_nodes", "governor", "smt", "kernel", "container",
                     "virtual_machine", "huge_pages", "hosts", "ranks_of_nodes", "binding",
                     "variables", "start_time", "timer", "timer_cost_ns", "timer_resolution_ns",
                     "canary", "method_version", "allreduce_table", "clock", "dtypes", "seed",
                     "joules_source", "model_hash", "gpu", "link"):
            self.assertTrue(environment[name], name)
            self.assertIsInstance(environment[name], str)
        self.assertRegex(environment["start_time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(len(environment["binding"].split("; ")), ranks)
        self.assertEqual(environment["ranks"], ranks)
        self.assertEqual([model[k] for k in ("n_layer", "n_embd", "n_head", "n_inner",
                                             "n_positions", "vocab_size")],
                         [1, 32, 2, 128, 64, 100])
        layer = 3 * 32 * 33 + 32 * 33 + 128 * 33 + 32 * 129 + 4 * 32
        self.assertEqual(model["parameters"], layer + 2 * 32 + (64 + 100) * 32)
        self.assertEqual((model["source"], model["fake_weights"]), (TINY_SHAPE, True))

    def test_json(self):
        for ranks, switch in ((None, ["--json"]), (2, ["--format", "json"]), (3, ["--json"])):
            value = self.object_of(run(bench(*LISTS, *switch), ranks))
            self.check_context(value, ranks or 1)
            tests = value["tests"]
            self.assertEqual(sorted((t["test"], t["batch"]) for t in tests), crossed())
            for t in tests:
                self.check_test(t, ranks or 1)

    def test_json_lines(self):
        result = run(bench(*LISTS, "--format", "jsonl"), 2)
        self.assertEqual(result.code, OK, result)
        lines = [parse_object(line) for line in result.out.decode().splitlines()]
        self.assertEqual(sorted((t["test"], t["batch"]) for t in lines), crossed())
        for line in lines:
            self.check_context(line, 2)
            self.check_test(line, 2)

    def test_repetitions_stop_when_the_median_is_known_or_the_time_is_over(self):
        quick = ["--prompt", 0, "--generate", 3, "--threads", 1, "--format", "jsonl"]
        cases = [(["--repetitions", 2, "--ci-width", 1, "--most", 500], "precise"),
                 (["--repetitions", 4, "--most", 100000, "--ci-width", 0,
                   "--max-seconds", 0.01], "time"),
                 (["--repetitions", 7, "--ci-width", 0, "--most", 7], "most")]
        for more, why in cases:
            t = parse_object(run(bench(*quick, *more)).out)
            self.assertEqual((t["stopped"], t["repetitions"]), (why, len(t["seconds"])))
            self.assertGreaterEqual(t["repetitions"], {"precise": 6, "time": 4, "most": 7}[why])
            if t["repetitions"] >= 6:
                self.assertLessEqual(t["tokens_per_s_low"], t["tokens_per_s"])
                self.assertLessEqual(t["tokens_per_s"], t["tokens_per_s_high"])

    def test_all_reduces_are_crossed(self):
        result = run(bench("--prompt", 4, "--generate", 2, *QUICK, "--allreduce",
                           "auto;decode=ring,direct", "--format", "jsonl"), 2)
        lines = [parse_object(line) for line in result.out.decode().splitlines()]
        self.assertEqual([(t["allreduce"], t["test"], t["all_reduce"]["algorithms"]) for t in lines],
                         [("auto", "pp4", "shm-oneshot"), ("auto", "tg2", "shm-oneshot"),
                          ("decode=ring,direct", "pp4", "direct"),
                          ("decode=ring,direct", "tg2", "ring")])

    def test_halves_and_exact_sums_have_the_bytes_of_their_formula(self):
        quick = ["--prompt", 16, "--generate", 2, *QUICK, "--format", "jsonl"]
        # The embedding's sum is of floats always.
        for more, calls, size in ((["--overlap", "poll"], 6, 3 * 4),
                                  (["--reduction", "exact"], 3, 4 + 2 * 8)):
            for line in run(bench(*quick, *more), 2).out.decode().splitlines():
                t = parse_object(line)
                sums = t["all_reduce"]
                self.assertTrue(sums["as_expected"] and t["closes"], t)
                if t["kind"] == "prefill":
                    self.assertEqual(sums["calls_per_step"], calls)
                    self.assertEqual(sums["counted_bytes_per_step"], 16 * 32 * size)

    def test_more_threads_than_cores_are_marked(self):
        result = run(bench("--prompt", 4, "--generate", 0, "--repetitions", 1, "--most", 1,
                           "--threads", os.cpu_count() + 1, "--format", "md"))
        self.assertIn("\noversubscribed: ", result.out.decode())

    def test_rounded_sums_have_their_quality_beside_them(self):
        quick = ["--prompt", 40, "--generate", 0, *QUICK]
        for wire, ranks in (("int8", 2), ("bf16", 3)):
            result = run(bench(*quick, "--wire", wire, "--json"), ranks)
            for t in self.object_of(result)["tests"]:
                self.assertEqual((t["exactness"], t["quality_text"]), ("approximate", "random"))
                self.assertEqual(t["quality_tokens"], 64)  # the context of the shape
                self.assertTrue(0 < t["max_logit_difference"] < 1, t)
                self.assertTrue(0 < t["kl"] < 0.01, t)
                self.assertTrue(0.5 < t["top1_agreement"] <= 1, t)
                self.assertTrue(abs(t["perplexity_change"]) < 0.05, t)
        for more, ranks in (([], 2), (["--wire", "int8"], None)):  # nothing is rounded
            for t in self.object_of(run(bench(*quick, *more, "--json"), ranks))["tests"]:
                self.assertEqual((t["exactness"], t["kl"], t["quality_tokens"]),
                                 ("exact", None, None))
        table = run(bench(*quick, "--wire", "int8"), 2).out.decode()
        self.assertRegex(table, r"\nquality of --wire int8: max \|dlogit\| [0-9.e-]+, top-1 ")
        rows = list(csv.DictReader(io.StringIO(
            run(bench(*quick, "--wire", "int8", "--format", "csv"), 2).out.decode())))
        self.assertTrue(float(rows[0]["kl"]) > 0 and rows[0]["exactness"] == "approximate")

    def test_csv(self):
        result = run(bench(*LISTS, "--format", "csv"), 2)
        self.assertEqual(result.code, OK, result)
        rows = list(csv.DictReader(io.StringIO(result.out.decode())))
        self.assertEqual(sorted((r["test"], int(r["batch"])) for r in rows), crossed())
        for r in rows:
            self.assertNotIn(None, r)  # no row has more values than columns
            seconds = (float(r["ttft_ms"]) if r["kind"] == "prefill" else
                       float(r["ms_per_step"]) * int(r["tokens"])) / 1e3
            tokens = int(r["tokens"]) * int(r["batch"])
            self.assertAlmostEqual(float(r["tokens_per_s"]) * seconds / tokens, 1, delta=1e-9)
            self.assertLessEqual(float(r["tokens_per_s_min"]), float(r["tokens_per_s"]))
            self.assertLessEqual(float(r["tokens_per_s"]), float(r["tokens_per_s_max"]))
            self.assertEqual(r["weight_gb_per_s"] == "", r["kind"] == "prefill")

    def test_table(self):
        for ranks in (None, 3):
            result = run(bench(*LISTS), ranks)
            self.assertEqual(result.code, OK, result)
            rows = [[cell.strip() for cell in line.strip("|").split("|")]
                    for line in result.out.decode().splitlines() if line.startswith("|")]
            self.assertEqual(rows[0], TABLE_COLUMNS)
            self.assertTrue(all(set(cell) <= set("-:") for cell in rows[1]), rows[1])
            found = [dict(zip(TABLE_COLUMNS, row)) for row in rows[2:]]
            self.assertEqual(sorted((r["test"], int(r["batch"])) for r in found), crossed())
            for r in found:
                least, most = map(float, r["min..max"].split(".."))
                self.assertTrue(0 < least <= float(r["tokens/s"]) <= most, r)
                self.assertEqual(r["ranks"], str(ranks or 1))
                self.assertEqual((r["ttft ms"] == "-", r["step ms"] == "-"),
                                 (r["test"][:2] == "tg", r["test"][:2] == "pp"))

    def test_threads_are_crossed_too(self):
        value = self.object_of(run(bench("--prompt", 4, "--generate", 0, "--repetitions", 1,
                                         "--most", 1, "--threads", "2,1", "--json")))
        self.assertEqual([(t["test"], t["threads"]) for t in value["tests"]],
                         [("pp4", 2), ("pp4", 1)])

    def test_more_ranks_than_heads_and_chunks_of_a_prompt(self):
        value = self.object_of(run(bench("--prompt", "64", "--generate", 63, "--batch", 3,
                                         "--prefill-chunk", 7, *QUICK, "--json"), 5))
        self.assertEqual([t["test"] for t in value["tests"]], ["pp64", "tg63"])
        for t in value["tests"]:
            self.check_test(t, 5)

    def test_a_model_of_a_folder(self):
        config = json.loads((DEMO / "config.json").read_text())
        for ranks in (None, 2):
            value = self.object_of(run(["bench", "--model", DEMO, "--prompt", 8, "--generate", 4,
                                        *QUICK, "--json"], ranks))
            self.assertEqual((value["model"]["source"], value["model"]["fake_weights"]),
                             (str(DEMO), False))
            self.assertEqual(value["model"]["n_layer"], config["n_layer"])
            self.assertEqual(value["model"]["parameters"], 6325440)
            self.assertEqual([t["test"] for t in value["tests"]], ["pp8", "tg4"])

    def test_refused(self):
        context = "n_positions 64"
        cases = [
            (["bench"], 2, ("--model DIR or --shape SHAPE",)),
            (["bench", "--model", DEMO, "--shape", "gpt2"], 2, ("--shape", "--model")),
            (["bench", "--shape", "n_layr=2"], 2, ("n_layr", "did you mean n_layer")),
            (["bench", "--shape", "n_embd=100,n_head=3"], 2, ("n_head", "divisor of n_embd 100")),
            (["bench", "--shape", "gpt2", "--prompt", "1,a"], 2, ("--prompt", '"a"')),
            (["bench", "--shape", "gpt2", "--batch", "1,,2"], 2, ("--batch", "commas")),
            (["bench", "--shape", "gpt2", "--dtype", "f32,f31"], 2, ("--dtype", '"f31"')),
            (["bench", "--shape", "gpt2", "--json", "--format", "csv"], 2, ("--json", "--format")),
            (bench("--prompt", 65), 2, ("--prompt", "at most 64", "found 65", context)),
            (bench("--prompt", 0, "--generate", 64), 2, ("--generate", "at most 63", "found 64", context)),
            (bench("--prompt", 0, "--generate", 0), 2, ("something to measure",)),
        ]
        self.check_refused(USAGE, cases)
        for result in run_all([(["bench", "--model", self.folder / "none"], r) for r in (None, 2)]):
            self.assert_refused(result, MODEL_FILES, "no such folder")


if __name__ == "__main__":
    unittest.main()
