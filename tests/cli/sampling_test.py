"""Sampling from the command line: seeds, cuts, penalties, at any rank count."""
import collections
import math
import unittest

from harness import BUG, DEMO, TINY, USAGE, CliTest, ids_words, run, run_all
from models import constant_model


class Seeds(CliTest):
    STYLES = ((), ("--top-k", 40), ("--top-p", 0.9), ("--min-p", 0.05, "--temperature", 0.8),
              ("--repetition-penalty", 1.3, "--top-k", 100, "--top-p", 0.95))

    def command(self, prompts, *args):
        return ["generate", "--model", DEMO, "--max-tokens", 24, "--json", *args,
                *(word for p in prompts for word in ("--prompt", p))]

    def test_same_seed_same_ids_at_every_rank_count(self):
        for style in self.STYLES:
            jobs = [(self.command(["Once upon a time", "A"], "--seed", 7, *style), ranks)
                    for ranks in (None, 2, 3, 5)]
            alone, *others = [[s["ids"] for s in self.object_of(r)["sequences"]]
                              for r in run_all(jobs)]
            self.assertNotEqual(*alone)
            self.assertEqual(others, [alone] * 3, style)

    def test_a_sequence_does_not_depend_on_its_neighbours(self):
        first, second = "Once upon a time", "The dragon said to the little girl:"
        variants = (([first], 64, 512), ([first, second], 64, 512), ([first, first], 1, 2),
                    ([second, first], 2, 3))
        jobs = [(self.command(prompts, "--seed", 3, "--max-batch", batch, "--prefill-chunk", chunk),
                 None) for prompts, batch, chunk in variants]
        alone, pair, twins, turned = [[s["ids"] for s in self.object_of(r)["sequences"]]
                                      for r in run_all(jobs)]
        self.assertEqual(pair[0], alone[0])
        self.assertEqual(twins[0], alone[0])
        self.assertNotEqual(twins[1], alone[0])   # the same prompt, another number in the run
        self.assertNotEqual(turned[1], alone[0])

    def test_seeds_differ_and_threads_do_not_matter(self):
        jobs = [(self.command(["The"], "--seed", seed, "--threads", threads), None)
                for seed, threads in ((1, 1), (2, 1), (2 ** 64 - 1, 1), (1, 2))]
        values = [self.object_of(r) for r in run_all(jobs)]
        ids = [v["sequences"][0]["ids"] for v in values]
        self.assertEqual(len({tuple(i) for i in ids[:3]}), 3)
        self.assertEqual(ids[3], ids[0])
        self.assertEqual([v["seed"] for v in values], [1, 2, 2 ** 64 - 1, 1])

    def test_a_drawn_seed_is_printed_and_repeats_the_run(self):
        first, second = (self.object_of(r) for r in run_all([(self.command(["The"]), None)] * 2))
        self.assertNotEqual(first["seed"], second["seed"])
        again = self.object_of(run(self.command(["The"], "--seed", first["seed"])))
        self.assertEqual(again["sequences"], first["sequences"])
        plain = run(["generate", "--model", TINY, "--max-tokens", 1, *ids_words([1])])
        self.assertRegex(plain.err, r"seed \d+")

    def test_greedy_ignores_the_seed(self):
        jobs = [(self.command(["The dragon"], "--temperature", t, "--seed", seed, *cuts), None)
                for t, seed, cuts in (("0", 1, ()), ("0.0", 2, ()), ("-0.0", 3, ()),
                                      ("1e-40", 4, ()), ("1e-10", 5, ()),
                                      ("0", 6, ("--top-k", 5, "--top-p", 0.5)))]
        ids = [self.object_of(r)["sequences"][0]["ids"] for r in run_all(jobs)]
        self.assertEqual(ids[1:], ids[:1] * 5)


class Distribution(CliTest):
    """Models with known probabilities: many sequences of one run are the draws."""

    def model(self, probabilities, **fields):
        return constant_model(self.folder / "m", [math.log(p) for p in probabilities],
                              n_positions=64, **fields)

    def draws(self, model, *variants):
        """For each (arguments, ranks) the Counter of 40 · 64 drawn ids."""
        jobs = [(["generate", "--model", model, "--max-tokens", 64, "--seed", 1, "--json", *args,
                  *ids_words(*[[0]] * 40)], ranks) for args, ranks in variants]
        return [collections.Counter(i for s in self.object_of(r)["sequences"] for i in s["ids"])
                for r in run_all(jobs)]

    def check_kept(self, model, flag, kept):
        """kept: {value of the flag: how many of the likeliest ids are drawn}."""
        counts = self.draws(model, *(((flag, value), None) for value in kept))
        for (value, n), drawn in zip(kept.items(), counts):
            self.assertEqual(set(drawn), set(range(n)), f"{flag} {value}")

    def check_shares(self, counts, probabilities):
        """Each count within 5 standard deviations of its binomial mean."""
        n = sum(counts.values())
        for id_, p in enumerate(probabilities):
            spread = 5 * math.sqrt(n * p * (1 - p))
            self.assertAlmostEqual(counts[id_], n * p, delta=spread, msg=f"id {id_}")

    def test_shares(self):
        model = self.model((.5, .3, .2))
        plain, at_2, at_5, hot, hottest, top_2 = self.draws(
            model, ((), None), ((), 2), ((), 5), (("--temperature", 2), None),
            (("--temperature", 1e30), None), (("--top-k", 2), None))
        for counts in (plain, at_2, at_5):
            self.check_shares(counts, (.5, .3, .2))
        roots = [math.sqrt(p) for p in (.5, .3, .2)]
        self.check_shares(hot, [p / sum(roots) for p in roots])
        self.check_shares(hottest, [1 / 3] * 3)
        self.check_shares(top_2, (.625, .375, 0))

    def test_top_p_edges(self):  # FasterTransformer#234
        model = self.model((.5, .3, .2))
        self.check_kept(model, "--top-p", {0: 1, 1e-9: 1, .49: 1, .51: 2, .79: 2, .81: 3, 1: 3})
        counts = self.draws(model, (("--top-p", .51), 2), (("--top-p", .81), 2))
        self.assertEqual([len(c) for c in counts], [2, 3])
        result = run(["generate", "--model", model, "--top-p", 1.5, *ids_words([0])])
        self.assert_refused(result, USAGE, "--top-p", "1.5")

    def test_min_p(self):
        model = self.model((.5, .3, .2))
        self.check_kept(model, "--min-p", {0: 3, .39: 3, .41: 2, .61: 1, 1: 1})
        self.check_refused(USAGE, [(["generate", "--model", model, f"--min-p={min_p}",
                                     *ids_words([0])], None, ("--min-p",)) for min_p in (-.1, 1.1)])

    def test_top_k_beyond_the_vocabulary_is_no_cut(self):  # CTranslate2#586
        model = self.model((.4, .3, .15, .1, .05))
        no_cut = (0, 5, 6, 50, 9999999, 2 ** 31, -1)
        plain, one, *others = self.draws(
            model, ((), None), (("--top-k", 1), None), (("--top-k", 50), 3),
            *((("--top-k", top_k), None) for top_k in no_cut))
        self.check_shares(plain, (.4, .3, .15, .1, .05))
        self.assertEqual(others, [plain] * 8)
        self.assertEqual(set(one), {0})
        result = run(["generate", "--model", model, "--top-k", -2, *ids_words([0])])
        self.assert_refused(result, USAGE, "--top-k", "-2")

    def test_temperature_edges(self):  # nanoGPT#738
        model = self.model((.2, .4, .4))
        for counts in self.draws(model, *(
                (("--temperature", t, "--top-k", 2, "--top-p", .9), None)
                for t in ("0", "0.0", "-0.0", "1e-40"))):
            self.assertEqual(set(counts), {1})  # of a tie the lowest id
        self.check_refused(USAGE, [(["generate", "--model", model, "--temperature", t,
                                     *ids_words([0])], None, ("--temperature",))
                                   for t in ("-1", "nan", "inf")])


class Penalties(CliTest):
    def ids(self, logits, prompt, *args, n=1, ranks=None):
        model = constant_model(self.folder / str(len(list(self.folder.iterdir()))), logits)
        ids, = self.ids_of(model, "--max-tokens", n, *args, *ids_words(prompt), ranks=ranks)
        return ids

    def test_repetition(self):  # transformers#2302
        for ranks in (None, 2):
            # [2, -2, 0, 1] with {0, 1} seen and 2: [1, -4, 0, 1], a tie that the lowest id wins.
            self.assertEqual(self.ids([2, -2, 0, 1], [0, 1], "--repetition-penalty", 2,
                                      ranks=ranks), [0])
            self.assertEqual(self.ids([2, -2, 0, 1], [0, 1], "--repetition-penalty", 2.5,
                                      ranks=ranks), [3])
            # A negative logit becomes less likely: -1 · 2.5 < -1.5.
            self.assertEqual(self.ids([-1, -2, -3, -1.5], [0], "--repetition-penalty", 2.5,
                                      ranks=ranks), [3])
        self.assertEqual(self.ids([2, 1.9, 0, 0], [0, 0, 0], "--repetition-penalty", 1), [0])
        # Each id once, however often it was seen: 2 / 1.1 > 1.7 > 2 / 1.1³.
        self.assertEqual(self.ids([2, 1.7, 0, 0], [0, 0, 0], "--repetition-penalty", 1.1), [0])
        self.check_refused(USAGE, [(["generate", "--model", TINY, "--repetition-penalty", penalty,
                                     *ids_words([1])], None, ("--repetition-penalty",))
                                   for penalty in (0, -1, "nan")])

    def test_presence_and_frequency_count_the_continuation_only(self):
        logits = [2, 1.5, 1, 0]
        # Presence .7: 2 → 1.3 and 1.5 → .8, once each.
        self.assertEqual(self.ids(logits, [0, 0], "--presence-penalty", .7, n=4), [0, 1, 0, 0])
        # Frequency .7, by hand: [2 1.5 1 0] [1.3 1.5 1 0] [1.3 .8 1 0] [.6 .8 1 0] [.6 .8 .3 0]
        # [.6 .1 .3 0].
        for ranks in (None, 3):
            self.assertEqual(self.ids(logits, [0, 0], "--frequency-penalty", .7, n=6, ranks=ranks),
                             [0, 1, 0, 2, 1, 0])

    def test_logprobs_are_of_the_raw_logits(self):
        model = constant_model(self.folder / "m", [math.log(p) for p in (.5, .3, .2)])
        jobs = [(["generate", "--model", model, "--logprobs", 2, "--max-tokens", 3, "--json",
                  "--seed", 1, *args, *ids_words([0])], ranks)
                for ranks in (None, 2)
                for args in ((), ("--temperature", 3), ("--repetition-penalty", 5, "--top-k", 1),
                             ("--frequency-penalty", 4, "--temperature", 0))]
        for result in run_all(jobs):
            for x in self.object_of(result)["sequences"][0]["logprobs"]:
                self.assertAlmostEqual(math.exp(x["logprob"]), (.5, .3, .2)[x["id"]], places=5)
                self.assertEqual([t["id"] for t in x["top"]], [0, 1])
                self.assertAlmostEqual(math.exp(x["top"][1]["logprob"]), .3, places=5)


class NotFinite(CliTest):
    def test_names_sequence_position_and_first_id(self):
        cases = []
        for name, value in (("inf", math.inf), ("nan", math.nan), ("-inf", -math.inf)):
            logits = [0.0] * 9
            logits[4] = logits[7] = value
            model = constant_model(self.folder / name, logits)
            cases += [(["generate", "--model", model, *style, *ids_words([1, 2, 3])], ranks,
                       ("sequence 0", "position 3", "id 4"))
                      for ranks, style in ((None, ("--temperature", 0)), (4, ("--top-k", 2)))]
        self.check_refused(BUG, cases, within=10)
        result = run(["score", "--model", model, *ids_words([1, 2, 3])])
        self.assert_refused(result, BUG, "id 4")


if __name__ == "__main__":
    unittest.main()
