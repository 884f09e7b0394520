"""Batches, positions, prompt chunks and the end of the context."""
import unittest

from harness import USAGE, CliTest, ids_words, run, run_all
from models import config_of, forced_model, random_tensors, write_model


class EndOfContext(CliTest):
    """n_positions 16: row 15 of the position table is the last one (gpt-2-simple#72)."""

    def setUp(self):
        super().setUp()
        self.config = config_of(n_layer=2, n_embd=12, n_head=3, n_positions=16, vocab_size=50)
        self.model = write_model(self.folder / "m", self.config, random_tensors(self.config, 1))

    def prompt(self, n):
        return [(7 * i + n) % 50 for i in range(n)]

    def test_how_many_ids_there_is_room_for(self):
        jobs = [(n, max_tokens, ranks, ["generate", "--model", self.model, "--temperature", 0,
                                        "--max-tokens", max_tokens, "--json",
                                        *ids_words(self.prompt(n))])
                for n, max_tokens, ranks in ((15, 1, None), (15, 2, None), (15, 50, None),
                                             (15, 50, 2), (16, 1, None), (16, 2, None),
                                             (16, 50, None), (16, 50, 2), (14, 3, None))]
        results = run_all([(words, ranks) for _, _, ranks, words in jobs])
        for (n, max_tokens, _, _), result in zip(jobs, results):
            sequence, = self.object_of(result)["sequences"]
            self.assertEqual(len(sequence["ids"]), min(max_tokens, 16 - n + 1), result)
            self.assertEqual(sequence["finish_reason"], "length", result)

    def test_one_id_too_many_is_refused_with_both_numbers(self):
        for ranks in (None, 2):
            result = run(["generate", "--model", self.model, "--max-tokens", 1,
                          *ids_words([1], self.prompt(17))], ranks)
            self.assert_refused(result, USAGE, "prompt 1", "16", "17", within=10)
        result = run(["dump", "--model", self.model, "--stats", *ids_words(self.prompt(17))])
        self.assert_refused(result, USAGE, "16", "17")

    def test_the_short_entry_of_a_batch_goes_on(self):
        alone, = self.ids_of(self.model, "--max-tokens", 50, *ids_words(self.prompt(3)))
        self.assertEqual(len(alone), 14)
        for ranks in (None, 2):
            full, short = self.generate(self.model, "--max-tokens", 50, ranks=ranks,
                                        *ids_words(self.prompt(16), self.prompt(3)))
            self.assertEqual((len(full["ids"]), full["finish_reason"]), (1, "length"))
            self.assertEqual(short["ids"], alone)

    def test_positions_count_from_the_prompt(self):
        # Row p of wpe forces the id after position p: a shift by one would show.
        ids = [11, 22, 33, 44, 5, 16]
        for n_prompt in (1, 3):
            model = forced_model(self.folder / f"forced_{n_prompt}", ids, n_prompt, vocab_size=50,
                                 tokenizer=None)
            for chunk in (1, 2, 512):
                self.assertEqual(self.ids_of(model, "--max-tokens", 50, "--prefill-chunk", chunk,
                                             *ids_words([9] * n_prompt)), [ids])

    def test_a_position_table_shorter_than_the_context_is_no_context(self):
        # n_ctx differs: n_positions counts (keras-hub#1704).
        config = {**self.config, "n_positions": 32, "n_ctx": 16}
        model = write_model(self.folder / "ctx", config, random_tensors(config, 1))
        ids, = self.ids_of(model, "--max-tokens", 50, *ids_words(self.prompt(30)))
        self.assertEqual(len(ids), 3)


class Batches(CliTest):
    """Sequences of a ragged batch do not change each other (transformers#3021)."""

    PROMPTS = [[3], [1, 2, 3, 4, 5], [9, 8, 7, 6, 5, 4, 3, 2, 1], [40, 41, 42, 43] * 8 + [1]]

    def setUp(self):
        super().setUp()
        config = config_of(n_layer=2, n_embd=20, n_head=5, n_positions=64, vocab_size=61)
        self.model = write_model(self.folder / "m", config, random_tensors(config, 2))

    def command(self, prompts, *args):
        return ["generate", "--model", self.model, "--temperature", 0, "--max-tokens", 8,
                "--logprobs", 61, "--json", *args, *ids_words(*prompts)]

    def check_equal(self, found, wanted):
        self.assertEqual(found["ids"], wanted["ids"])
        for a, b in zip(found["logprobs"], wanted["logprobs"], strict=True):
            mine, theirs = ({t["id"]: t["logprob"] for t in x["top"]} for x in (a, b))
            self.assert_close([mine[i] for i in range(61)], [theirs[i] for i in range(61)], 1e-5,
                              "logprobs")

    def test_alone_together_and_in_another_order(self):
        order = [2, 0, 3, 1]
        alone = [self.object_of(r)["sequences"][0]
                 for r in run_all([(self.command([p]), None) for p in self.PROMPTS])]
        variants = [(ranks, args, turned)
                    for ranks, args in ((None, ()), (3, ()), (2, ("--prefill-chunk", 3)),
                                        (None, ("--prefill-chunk", 1)), (None, ("--max-batch", 2)),
                                        (4, ("--max-batch", 1, "--comm", "mpi")))
                    for turned in (False, True)]
        jobs = [(self.command([self.PROMPTS[i] for i in order] if turned else self.PROMPTS, *args),
                 ranks) for ranks, args, turned in variants]
        for (_, _, turned), result in zip(variants, run_all(jobs)):
            for i, found in zip(order if turned else range(4), self.object_of(result)["sequences"]):
                self.check_equal(found, alone[i])

    def test_no_choice_but_the_one_of_rank_0_is_fed(self):
        # Each rank drawing its own token would part the sequences from the first step on.
        args = ("--temperature", 1, "--seed", 1, "--max-tokens", 64)
        config = config_of(n_layer=1, n_embd=12, n_head=3, n_positions=80, vocab_size=31)
        model = write_model(self.folder / "s", config, random_tensors(config, 3))
        jobs = [(["generate", "--model", model, *args, "--json", *ids_words([1, 2])], ranks)
                for ranks in (None, 2, 3)]
        one, *others = [self.object_of(r)["sequences"] for r in run_all(jobs)]
        self.assertEqual(others, [one] * 2)


if __name__ == "__main__":
    unittest.main()
