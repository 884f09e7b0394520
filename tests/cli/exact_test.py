"""--reduction exact: dumps of any rank counts are the same files; the bounds --comm none and
--compute none say what they are."""
import filecmp
import unittest

from harness import DEMO, OK, USAGE, CliTest, ids_words, run, run_all

RANKS = (None, 2, 3, 4, 5, 8)
IDS = [(7 * i) % 250 for i in range(40)]
SHAPE = ["bench", "--shape", "n_layer=2,n_embd=64,n_head=4,n_positions=64,vocab_size=100",
         "--prompt", 8, "--generate", 4, "--repetitions", 1, "--most", 1, "--threads", 1]


class Exact(CliTest):
    def dumps(self, *options):
        """One file for each number of ranks."""
        outs = [self.folder / f"{ranks}_{'_'.join(map(str, options))}" for ranks in RANKS]
        jobs = [(["dump", "--model", DEMO, "--threads", 1, "--out", out, *options,
                  *ids_words(IDS)], ranks) for out, ranks in zip(outs, RANKS)]
        for result in run_all(jobs):
            self.assertEqual(result.code, OK, result)
        return outs

    def equal(self, outs):
        return [filecmp.cmp(outs[0], out, shallow=False) for out in outs[1:]]

    def test_the_same_file_on_any_ranks(self):
        outs = self.dumps("--reduction", "exact")
        self.assertEqual(self.equal(outs), [True] * 5)
        chunks = self.dumps("--reduction", "exact", "--prefill-chunk", 7)
        self.assertEqual(self.equal([outs[0], *chunks]), [True] * 6)

    def test_with_int8_weights(self):
        self.assertEqual(self.equal(self.dumps("--reduction", "exact", "--dtype", "int8")),
                         [True] * 5)

    def test_sums_in_order_differ(self):
        """The tests above can fail."""
        self.assertIn(False, self.equal(self.dumps("--reduction", "ordered")))

    def test_the_same_text(self):
        command = ["--prompt-ids", "1,2,3", "--max-tokens", 30, "--reduction", "exact",
                   "--dtype", "int4", "--threads", 1]
        self.assertEqual(self.ids_of(DEMO, *command, ranks=3), self.ids_of(DEMO, *command))


class Bounds(CliTest):
    def test_no_sums_is_called_meaningless(self):
        command = ["generate", "--model", DEMO, "--prompt-ids", "1,2,3", "--max-tokens", 4,
                   "--temperature", 0, "--comm", "none", "--json"]
        result = run(command, 2)
        value = self.object_of(result)
        self.assertEqual(sum("meaningless" in w for w in result.warnings), 1, result)
        self.assertEqual(len(value["warnings"]), 1)
        self.assertIn("meaningless", value["warnings"][0])
        self.assertEqual(len(value["sequences"][0]["ids"]), 4)
        whole = self.json_of([*command[:-3]], 2)
        self.assertEqual(whole["warnings"], [])

    def test_no_arithmetic_is_a_benchmark_of_a_shape(self):
        result = run([*SHAPE, "--compute", "none", "--json"], 3)
        value = self.object_of(result)
        self.assertEqual(value["environment"]["compute"], "none")
        self.assertEqual(len(value["environment"]["warnings"]), 1)
        self.assertEqual(sum("--compute none" in w for w in result.warnings), 1, result)
        for t in value["tests"]:
            self.assertGreater(t["tokens_per_s"], 0)
            for name in ("gflop_per_s", "weight_gb_per_s", "read_gb_per_s", "share_of_read"):
                self.assertIsNone(t[name], name)
        table = run([*SHAPE, "--compute", "none", "--reduction", "exact"], 2)
        self.assertEqual(table.code, OK, table)
        self.assertIn("--compute none: nothing is computed", table.out.decode())

    def test_refused(self):
        none = ["--compute", "none"]
        self.check_refused(USAGE, [
            (["generate", "--model", DEMO, "--prompt", "a", *none], 2, ("bench with --shape",)),
            (["score", "--model", DEMO, "--prompt-ids", "1,2", *none], None, ("--shape",)),
            (["dump", "--model", DEMO, "--prompt-ids", "1", "--stats", *none], None, ("--shape",)),
            (["bench", "--model", DEMO, *none], 2, ("found bench with --model",)),
            ([*SHAPE, *none, "--backend", "cuda"], None, ("--compute none",)),
            ([*SHAPE, "--reduction", "exact", "--backend", "cuda"], 2, ("--reduction exact",)),
            ([*SHAPE, "--reduction", "exactly"], None, ("ordered, exact",)),
        ])


if __name__ == "__main__":
    unittest.main()
