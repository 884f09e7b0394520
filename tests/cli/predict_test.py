"""shardlm calibrate and predict: files, numbers, refusals. No time is held to anything."""
import json
import tempfile
import unittest
from pathlib import Path

from harness import DEMO, OK, RESOURCES, USAGE, CliTest, parse_object, run

SHAPE = "n_layer=2,n_embd=80,n_head=5,n_inner=256,n_positions=64,vocab_size=100"
QUICK = ["--seconds", 0.02, "--threads", 1]


class Calibrated(CliTest):
    @classmethod
    def setUpClass(cls):
        cls.made_in = tempfile.TemporaryDirectory()
        cls.path = Path(cls.made_in.name) / "calibration.json"
        cls.made = run(["calibrate", *QUICK, "--out", cls.path, "--json"], ranks=2)

    @classmethod
    def tearDownClass(cls):
        cls.made_in.cleanup()

    def predict(self, *args):
        result = run(["predict", "--json", *args])
        self.assertEqual(result.code, OK, result)
        return parse_object(result.out)


class Calibrate(Calibrated):
    def test_the_file_is_what_was_written(self):
        self.assertEqual(self.made.code, OK, self.made)
        self.assertEqual(self.made.out, self.path.read_bytes())
        c = parse_object(self.made.out)
        self.assertEqual((c["format"], c["ranks"], c["nodes"]), ("shardlm calibration 1", 2, 1))
        self.assertRegex(c["hash"], "^[0-9a-f]{16}$")
        self.assertEqual([x["name"] for x in c["classes"]], ["shm", "node"])
        for link in c["classes"]:
            self.assertTrue(link["hosts"] and link["points"])
            sizes = [p["bytes"] for p in link["points"]]
            self.assertEqual(sizes, sorted(set(sizes)))
            self.assertEqual(sizes[-1], 1 << (18 if link["name"] == "shm" else 22))
            for point in link["points"]:
                self.assertTrue(0 < point["low_s"] <= point["median_s"], point)
            ends = [s["to"] for s in link["segments"]]
            self.assertTrue(1 <= len(ends) <= 3 and ends == sorted(ends), ends)
        self.assertTrue(all(g["s_per_byte"] > 0 for g in c["gamma"]))
        compute = c["compute"]
        self.assertEqual((compute["threads"], compute["ranks_at_once"], compute["dtype"]),
                         (1, 2, "f32"))
        self.assertGreater(compute["meetings_s"], 0)
        self.assertGreater(compute["node_memory_bytes"], 0)

    def test_an_emulated_class_is_marked(self):
        out = Path(self.made_in.name) / "emulated.json"
        result = run(["calibrate", *QUICK, "--out", out, "--emulate", "latency_us=200"], ranks=2)
        self.assertEqual(result.code, OK, result)
        self.assertTrue(any("emulated network" in w for w in result.warnings), result)
        c = parse_object(out.read_bytes())
        self.assertEqual(c["emulate"], "latency_us=200")
        link = [x for x in c["classes"] if x["name"] == "emulated"][0]
        self.assertTrue(all(p["low_s"] > 200e-6 for p in link["points"]))
        p = self.predict("--shape", SHAPE, "--calibration", out, "--ranks", "2")
        self.assertGreater(p["points"][0]["ms"]["all_reduce"], 5 * 0.2)
        self.assertTrue(any("emulated" in note for note in p["notes"]))
        # Asked for by its numbers, a network is not counted twice.
        again = self.predict("--shape", SHAPE, "--calibration", out, "--ranks", "2",
                             "--emulate", "latency_us=1000")
        self.assertLess(again["points"][0]["ms"]["all_reduce"], 5 * 1.15)

    def test_one_rank_measures_computing_alone(self):
        out = Path(self.made_in.name) / "alone.json"
        result = run(["calibrate", *QUICK, "--out", out])
        self.assertEqual(result.code, OK, result)
        self.assertTrue(any("links are not" in w for w in result.warnings), result)
        c = parse_object(out.read_bytes())
        self.assertEqual(c["classes"], [])
        refused = run(["predict", "--shape", SHAPE, "--calibration", out, "--ranks", 2])
        self.assertEqual(refused.code, USAGE, refused)
        p = self.predict("--shape", SHAPE, "--calibration", out, "--link", "10gbe", "--ranks", 2)
        self.assertGreater(p["points"][0]["ms"]["all_reduce"], 5 * 0.025)

    def test_a_place_that_cannot_be_written(self):
        result = run(["calibrate", *QUICK, "--out", "/dev/null/c.json"], ranks=2)
        self.assertEqual(result.code, RESOURCES, result)


class Predict(Calibrated):
    def test_from_a_run_of_one_rank(self):
        timings = Path(self.made_in.name) / "one.jsonl"
        made = run(["bench", "--shape", SHAPE, "--prompt", 16, "--generate", 8, "--threads", 1,
                    "--repetitions", 3, "--format", "jsonl"])
        self.assertEqual(made.code, OK, made)
        timings.write_bytes(made.out)
        lines = {x["kind"]: x for x in map(json.loads, made.out.splitlines())}
        for phase, key in (("decode", "ms_per_step"), ("prefill", "ttft_ms")):
            p = self.predict("--shape", SHAPE, "--calibration", self.path, "--from", timings,
                             "--phase", phase, "--prompt", 16, "--ranks", "1,2")
            one, two = p["points"]
            self.assertAlmostEqual(one["ms"]["total"] / lines[phase][key], 1, delta=0.02)
            self.assertEqual(two["algorithm"].split("-")[0], "shm")
            for point in p["points"]:
                parts = sum(v for k, v in point["ms"].items() if k != "total")
                self.assertAlmostEqual(parts, point["ms"]["total"], places=9)
                self.assertIs(point["fits_memory"], True)
            self.assertEqual([b["ranks"] for b in p["break_even"]], [2])
        other = run(["predict", "--shape", "gpt2", "--calibration", self.path, "--from", timings])
        self.assertEqual(other.code, USAGE, other)
        self.assertIn("80 wide", other.err)

    def test_a_cluster_before_it_is_bought(self):
        p = self.predict("--shape", "gpt3-175b", "--link", "ib-ndr", "--ranks", "1..1024",
                         "--ranks-per-node", 8, "--dtype", "bf16", "--read-gbps", 300,
                         "--memory-gb", 64)
        self.assertEqual([x["ranks"] for x in p["points"]], [2**i for i in range(11)])
        self.assertEqual([x["nodes"] for x in p["points"][:5]], [1, 1, 1, 1, 2])
        self.assertIs(p["points"][0]["fits_memory"], False)  # 350 GB
        self.assertIs(p["points"][4]["fits_memory"], True)
        self.assertGreaterEqual(p["best_ranks"], 8)
        text = run(["predict", "--shape", "gpt3-175b", "--link", "ib-ndr", "--read-gbps", 300])
        self.assertEqual(text.code, OK, text)
        self.assertIn(b"break-even", text.out)
        for note in p["notes"]:
            self.assertNotIn("\n", note)

    def test_a_model_in_a_folder(self):
        p = self.predict("--model", DEMO, "--link", "10gbe", "--read-gbps", 10, "--ranks", "1-5")
        self.assertEqual(len(p["points"]), 5)
        # 5 heads: as long as a rank has two of them, it decides.
        self.assertLess(p["points"][4]["ms"]["compute"], p["points"][3]["ms"]["compute"])

    def test_refusals(self):
        base = ["predict", "--shape", SHAPE]
        known = [*base, "--link", "10gbe", "--read-gbps", 10]
        for args, word in ((base, "--link"), ([*base, "--link", "10gbe"], "--from"),
                           ([*base, "--link", "token-ring"], "10gbe"),
                           ([*known, "--allreduce", "mpi"], "mpi"),
                           ([*known, "--ranks", "0"], "--ranks"),
                           ([*known, "--phase", "prefill"], "n_positions"),
                           ([*base, "--calibration", DEMO / "config.json"], "calibration"),
                           ([*base, "--calibration", "/none"], "/none"),
                           ([*known, "--from", "/none"], "/none")):
            result = run(args)
            self.assertEqual((result.code, len(result.errors)), (USAGE, 1), result)
            self.assertIn(word, result.err)

    def test_under_mpirun_one_rank_speaks(self):
        result = run(["predict", "--shape", SHAPE, "--link", "shm", "--read-gbps", 10, "--json"],
                     ranks=2)
        self.assertEqual(result.code, OK, result)
        parse_object(result.out)


if __name__ == "__main__":
    unittest.main()
