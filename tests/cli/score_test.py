"""shardlm score: the held-out file, windows, what is counted."""
import json
import math
import re
import unittest

from harness import DATA, DEMO, USAGE, CliTest, ids_words, run, run_all
from models import constant_model

HELD_OUT = DATA / "corpus" / "childrens_classics_valid.txt"


class HeldOut(CliTest):
    def test_agrees_with_pytorch_at_1_and_2_ranks(self):
        golden = json.loads((DATA / "golden" / "demo.json").read_text())["score"]
        command = ["score", "--model", DEMO, "--text-file", HELD_OUT, "--json"]
        scores = [self.object_of(run(command, ranks, timeout=150)) for ranks in (None, 2)]
        for score in scores:
            self.assertEqual(score["bytes"], golden["bytes"])
            self.assertEqual(score["tokens"], golden["tokens"])
            self.assertEqual(score["window"], golden["window"])
            self.assertEqual(score["stride"], golden["stride"])
            self.assertAlmostEqual(score["bits_per_byte"], golden["bits_per_byte"], delta=1e-3)
            self.assertAlmostEqual(score["bits_per_byte"], 1.5771, delta=1e-3)
            bits = score["nats"] / math.log(2) / score["bytes"]
            self.assertAlmostEqual(score["bits_per_byte"], bits, delta=1e-9)
            self.assertAlmostEqual(score["perplexity"],
                                   math.exp(score["nats"] / score["tokens"]), delta=1e-6)
        one, two = (score["nats"] for score in scores)
        self.assertAlmostEqual(two / one, 1, delta=1e-6)


class RoundedSums(CliTest):
    """Never without a word: a warning, or with a report the quality itself."""

    COMMANDS = (["generate", "--model", DEMO, "--prompt", "Once", "--max-tokens", 40,
                 "--temperature", 0, "--json"],
                ["score", "--model", DEMO, "--json", *ids_words(range(5, 40))])

    def test_a_result_says_that_it_is_approximate(self):
        for command in self.COMMANDS:
            result = run([*command, "--wire", "int8"], 2)
            value = self.object_of(result)
            warned = [w for w in result.warnings if "approximate" in w]
            self.assertEqual(len(warned), 1, result)
            self.assertRegex(warned[0], "--wire int8: .*--comm-report")
            self.assertIn("approximate", value["warnings"][-1])
            plain = run(command, 2)
            self.assertNotIn("approximate", plain.err)
            self.assertEqual(self.object_of(plain)["warnings"], [])

    def test_a_report_has_the_quality(self):
        for command in self.COMMANDS:
            result = run([*command, "--allreduce", "decode=ring:bf16,ring", "--comm-report"], 2)
            self.object_of(result)
            err = result.err
            self.assertIn("sums: approximate", err)
            row = re.search(r"quality of --allreduce decode=ring:bf16,ring: max .dlogit. ([0-9.e-]+)"
                            r", top-1 ([0-9.]+) %, KL ([0-9.e-]+), perplexity [-+][0-9.e-]+ % "
                            r"\(([0-9]+) tokens of the fixed text, the last 16 one by one\)", err)
            self.assertTrue(row, err)
            difference, top1, kl, tokens = map(float, row.groups())
            self.assertTrue(0 < difference < 1 and top1 > 90 and 0 < kl < 0.01, err)
            self.assertEqual(tokens % 32, 0)  # all of the cache's blocks
            self.assertEqual(result.warnings, [])


class Counts(CliTest):
    """A model whose probabilities are 1/2, 1/4, 1/8, 1/8 everywhere: nats by hand."""

    def setUp(self):
        super().setUp()
        self.model = constant_model(self.folder / "m", [math.log(p) for p in (.5, .25, .125, .125)],
                                    eos_token_id=3)

    def score(self, *args, ranks=None):
        return self.json_of(["score", "--model", self.model, *args], ranks)

    def test_the_first_id_is_not_predicted(self):
        s = self.score(*ids_words([3, 0, 1, 2]))
        self.assertEqual(s["tokens"], 3)
        self.assertAlmostEqual(s["nats"], 6 * math.log(2), places=6)  # 1 + 2 + 3 bits
        self.assertAlmostEqual(s["perplexity"], 4, places=5)
        self.assertIsNone(s["bytes"])  # ids without a tokenizer have none
        self.assertIsNone(s["bits_per_byte"])

    def test_bos_predicts_it_too(self):
        s = self.score("--bos", *ids_words([2, 0]))
        self.assertEqual(s["tokens"], 2)
        self.assertAlmostEqual(s["nats"], 4 * math.log(2), places=6)
        self.assertEqual(self.score("--bos", *ids_words([2]))["tokens"], 1)

    def test_windows_predict_each_id_once(self):
        ids = [i % 4 for i in range(50)]  # context 16
        bits = sum((1, 2, 3, 3)[i] for i in ids[1:])
        jobs = [(["score", "--model", self.model, "--json", *ids_words(ids), "--window", window,
                  "--stride", stride], ranks)
                for ranks in (None, 3) for window, stride in ((16, 16), (16, 5), (7, 1), (1, 1))]
        for result in run_all(jobs):
            s = self.object_of(result)
            self.assertEqual(s["tokens"], 49, result)
            self.assertAlmostEqual(s["nats"], bits * math.log(2), places=4)
        default = self.score(*ids_words(ids))
        self.assertEqual((default["window"], default["stride"]), (16, 16))

    def test_refusals(self):
        for args, texts in (((*ids_words([1]),), ("2 tokens", "--bos")),
                            ((*ids_words([1, 4]),), ("4", "vocab_size 4")),
                            ((*ids_words([1, 2]), "--window", 17), ("--window", "16", "17")),
                            ((*ids_words([1, 2]), "--window", 4, "--stride", 5),
                             ("--stride", "4", "5"))):
            result = run(["score", "--model", self.model, *args])
            self.assert_refused(result, USAGE, *texts)

    def test_more_context_predicts_better(self):
        text = self.folder / "text"
        text.write_bytes(HELD_OUT.read_bytes()[2000:6000])
        command = ["score", "--model", DEMO, "--text-file", text, "--window", 64]
        side_by_side = self.json_of([*command, "--stride", 64])
        overlapping = self.json_of([*command, "--stride", 16])
        self.assertEqual(side_by_side["tokens"], overlapping["tokens"])
        self.assertLess(overlapping["nats"], side_by_side["nats"])


if __name__ == "__main__":
    unittest.main()
