"""How ranks sum: algorithms, wire formats, exact sums, overlap, emulation and tuning."""
import filecmp
import os
import shutil
import tempfile
import unittest
from pathlib import Path

from communication_report import hidden_ms, ranks_of
from harness import DEMO, OK, USAGE, CliTest, ids_words, run, run_all

# Not what was measured for this machine's user.
CACHE = Path(tempfile.mkdtemp(prefix="shardlm_cache_"))
unittest.addModuleCleanup(shutil.rmtree, CACHE, ignore_errors=True)
os.environ["XDG_CACHE_HOME"] = str(CACHE)

SUMS = 9  # of a pass of the demo model: two in each of 4 layers, one after the embedding
MESSAGES = ["direct", "recdbl", "rabenseifner", "ring", "star", "tree"]
RULES = "embed=star,attn_out.prefill<=4096=tree,decode<=2000=shm-twoshot,direct"
TOKENS = 4
GREEDY = ["generate", "--model", DEMO, "--temperature", 0, "--max-tokens", TOKENS, "--threads", 1,
          *ids_words([1, 2, 3]), "--json"]
PASS_IDS = ids_words([(11 * i) % 4000 for i in range(96)])


class Sums(CliTest):
    def test_the_same_text_by_every_algorithm(self):
        ways = ["shm-oneshot", "shm-twoshot", *MESSAGES, "two-level", "two-level/ring", "mpi", RULES]
        # One rank has a communicator that sums only where one is asked for.
        jobs = [(["--allreduce", way, "--comm", "shm"], ranks)
                for way in ways for ranks in (None, 2, 3)]
        jobs += [(["--comm", "mpi"], 3), (["--comm", "mpi", "--allreduce", "ring"], 2)]
        expected = self.object_of(run(GREEDY))["sequences"][0]["ids"]
        for result in run_all([([*GREEDY, *options], ranks) for options, ranks in jobs]):
            self.assertEqual(self.object_of(result)["sequences"][0]["ids"], expected, result)

    def test_refused(self):
        def case(options, *texts):
            return [*GREEDY, *options], 2, texts

        def rules(text, *texts):
            return case(["--allreduce", text], *texts)
        exact = ["--reduction", "exact"]
        self.check_refused(USAGE, [
            rules("rign", "--allreduce", "'rign'", "rabenseifner, ring"),
            rules("lm_head=ring,star", "'lm_head'", "mlp_out"),
            rules("decode<=many=ring", "'<='", "'many'"),
            rules("ring/tree", "'/'", "two-level"),
            rules("two-level/shm-oneshot", "between nodes", "'shm-oneshot'"),
            rules("mpi:bf16", "MPI library", "'bf16'"),
            rules("shm-oneshot:int8", "shm-twoshot", "'int8'"),
            case(["--allreduce", "shm-oneshot", "--comm", "mpi"], "shm-oneshot", "messages only"),
            case(["--allreduce", "two-level", "--comm", "mpi"], "two-level", "messages only"),
            case(["--allreduce", "table", "--comm", "mpi"], "--allreduce table", "--comm mpi"),
            case(["--wire", "f8"], "f32, bf16, f16, int8", "f8"),
            case(["--wire", "int8", *exact], "--reduction exact", "--wire int8"),
            case(["--allreduce", "ring:bf16", *exact], "--reduction exact", "ring:bf16"),
            case(["--overlap", "yes"], "none, poll, thread"),
            case(["--emulate", "latency=3"], "latency_us", "'latency'"),
            case(["--emulate", "slow_rank=1"], "slow_us together"),
        ])

    def test_exact_sums_by_every_algorithm(self):
        by_mpi = ["--comm", "mpi", "--allreduce"]
        jobs = [([], None), ([*by_mpi, "ring"], 3), ([*by_mpi, "tree"], 3), ([*by_mpi, "direct"], 2),
                (["--allreduce", "rabenseifner"], 3), (["--allreduce", "recdbl"], 2),
                (["--allreduce", "two-level"], 3), (["--allreduce", "shm-twoshot"], 3),
                (["--allreduce", "mpi"], 3)]
        outs = [self.folder / f"dump_{i}" for i in range(len(jobs))]
        prompt = ids_words([(7 * i) % 250 for i in range(24)])
        results = run_all([(["dump", "--model", DEMO, "--threads", 1, "--reduction", "exact",
                             "--out", out, *prompt, *options], ranks)
                           for (options, ranks), out in zip(jobs, outs)])
        for result, out in zip(results, outs):
            self.assertEqual(result.code, OK, result)
            self.assertTrue(filecmp.cmp(outs[0], out, shallow=False), result)


class Scores(CliTest):
    """The log-probabilities of a text hang on all its logits, to the last bit."""

    def scores(self, jobs):
        results = run_all([(["score", "--model", DEMO, "--threads", 1, "--json", *PASS_IDS,
                             *options], ranks) for options, ranks in jobs])
        return [(self.object_of(result)["nats"], result) for result in results]

    def test_overlap_changes_no_bit(self):
        """It halves messages, so a ring of three adds an element's addends in another order; exact
        sums do not mind."""
        for way, ranks, exact in (("auto", 2, False), ("shm-twoshot", 3, False), ("ring", 2, False),
                                  ("tree", 3, False), ("ring", 3, True)):
            options = ["--allreduce", way, "--reduction", "exact" if exact else "ordered",
                       "--comm-report", "--overlap"]
            (expected, none), *others = self.scores([([*options, overlap], ranks)
                                                     for overlap in ("none", "poll", "thread")])
            self.assertEqual(hidden_ms(none.err), 0, none)
            for nats, result in others:
                self.assertEqual(nats, expected, result)
                self.assertGreater(hidden_ms(result.err), 0, result)
                self.assertIn(" 0 violations of causality", result.err, result)
                self.assertIn(f" 1 of 1 passes have the {SUMS} all-reduces", result.err, result)

    def test_rounded_messages_are_close(self):
        wires = ["f32", "bf16", "f16", "int8"]
        jobs = [(["--wire", wire], 3) for wire in wires]
        jobs += [(["--allreduce", f"ring:{wire}"], 3) for wire in wires]
        values = [nats for nats, _ in self.scores(jobs)]
        for value, (options, _) in zip(values, jobs):
            self.assertAlmostEqual(value, values[0], delta=0.02 * values[0], msg=options)
        self.assertEqual([len(set(values[:4])), len(set(values[4:]))], [4, 4], values)


class Emulated(CliTest):
    def test_a_slow_network(self):
        """A pass waits at least for the rounds of its sums (2 of shm-twoshot, 2 (P - 1) of ring)."""
        for way, ranks, rounds in (("shm-oneshot", 2, 1), ("shm-twoshot", 2, 2), ("ring", 3, 4)):
            result = run([*GREEDY, "--allreduce", way, "--emulate", "latency_us=2000"], ranks)
            value = self.object_of(result)
            self.assertGreater(value["timing"]["tpot_ms"], SUMS * rounds * 2, result)
            self.assertEqual([w for w in value["warnings"] if "emulated" in w],
                             value["warnings"], result)
            self.assertEqual(len(value["warnings"]), 1, result)
            self.assertEqual(sum("times are emulated" in w for w in result.warnings), 1, result)

    def test_others_wait_for_a_slow_rank(self):
        result = run([*GREEDY, "--emulate", "slow_rank=1,slow_us=10000", "--comm-report"], 2)
        self.assertIn("emulated", self.object_of(result)["warnings"][0])
        quick, slow = ranks_of(result.err)
        late_s = TOKENS * SUMS * 0.01
        self.assertGreater(quick["wait"], 0.9 * late_s, result)
        self.assertLess(slow["wait"], 0.5 * quick["wait"], result)


class Tune(CliTest):
    def test_a_table_is_measured_and_taken(self):
        # Elsewhere than the other tests look.
        here = {"env": {"XDG_CACHE_HOME": str(self.folder)}}
        tune = ["tune", "--bytes", "64,4096", "--seconds", 0.05]
        result = run([*tune, "--json"], 2, **here)
        value = self.object_of(result)
        table = self.folder / "shardlm" / f"allreduce-{value['hash']}.json"
        self.assertEqual(result.out, table.read_bytes(), result)
        self.assertEqual({(m["bytes"], m["wrong"]) for m in value["measured"]},
                         {(64, 0), (4096, 0)})
        ways = {m["algorithm"] for m in value["measured"]}
        self.assertGreater(ways, {"shm-oneshot", "shm-twoshot", "mpi", *MESSAGES} - {"mpi"})
        self.assertEqual(value["environment"]["ranks_of_nodes"], "2")
        for m in value["measured"]:
            self.assertLessEqual(m["low_us"], m["median_us"])
            self.assertLessEqual(m["median_us"], m["high_us"])

        for options in ([], ["--allreduce", "table"]):
            taken = run([*GREEDY, *options], 2, **here)
            self.assertEqual(taken.code, OK, taken)
            self.assertIn(f"{value['rules']} (measured ({table}))", taken.err, taken)
        other = run(GREEDY, 3, **here)
        self.assertIn("(defaults (nothing measured: shardlm tune))", other.err, other)
        other = run([*GREEDY, "--allreduce-table", table], 3, **here)
        self.assertIn(f"(defaults ({table} is of another environment))", other.err, other)
        by_table = [*GREEDY, "--allreduce", "table", "--allreduce-table"]
        garbage = [self.folder / "garbage", self.folder / "other.json", self.folder / "rules.json"]
        garbage[0].write_bytes(b"\x00garbage")
        garbage[1].write_text('{"format": "another"}')
        garbage[2].write_bytes(result.out.replace(value["rules"].encode(), b"rign"))
        self.check_refused(USAGE, [
            ([*by_table, table], 3, (str(table), "another environment", "shardlm tune")),
            ([*by_table, garbage[0]], 2, (str(garbage[0]), "a file of shardlm tune")),
            ([*by_table, garbage[1]], 2, (str(garbage[1]), "another", "shardlm tune")),
            ([*by_table, garbage[2]], 2, (str(garbage[2]), "rign")),
            ([*by_table, self.folder / "none"], 2, ("No such file",)),
            (tune, None, ("2 ranks or more", "mpirun")),
        ])


if __name__ == "__main__":
    unittest.main()
