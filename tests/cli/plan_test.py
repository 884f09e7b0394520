"""shardlm plan: shares, bytes and collectives, from formulas and from what ranks really keep."""
import json
import re
import unittest

from harness import DATA, DEMO, OK, USAGE, CliTest, run

GPT2 = dict(model_type="gpt2", n_layer=12, n_embd=768, n_head=12, n_positions=1024,
            vocab_size=50257)
GPT2_XL = dict(GPT2, n_layer=48, n_embd=1600, n_head=25)
UNTIED = dict(model_type="gpt2", n_layer=3, n_embd=30, n_head=5, n_inner=37, n_positions=20,
              vocab_size=41, tie_word_embeddings=False)
RANKS = (1, 2, 3, 5, 8, 64)


def parameters(c):
    """(elements that every rank holds, elements that are shared out): everything but position
    table, LayerNorms and the biases that follow an all-reduce is cut."""
    d, inner = c["n_embd"], c.get("n_inner") or 4 * c["n_embd"]
    replicated = c["n_positions"] * d + c["n_layer"] * (4 * d + 2 * d) + 2 * d
    layer = 3 * d * (d + 1) + d * d + inner * (d + 1) + inner * d
    tables = 2 if c.get("tie_word_embeddings") is False else 1
    return replicated, c["n_layer"] * layer + tables * c["vocab_size"] * d


class Plan(CliTest):
    def models(self):
        folders = {}
        for name, config in (("gpt2", GPT2), ("gpt2-xl", GPT2_XL), ("untied", UNTIED)):
            folders[name] = (self.folder / name, config)
            (self.folder / name).mkdir()
            (self.folder / name / "config.json").write_text(json.dumps(config))
        return {**folders, "demo": (DEMO, json.loads((DEMO / "config.json").read_text()))}

    def check_shares(self, ranges, total):
        """Contiguous, in rank order, everything once, sizes that differ by one at most."""
        self.assertEqual((ranges[0][0], ranges[-1][1]), (0, total))
        for one, next_one in zip(ranges, ranges[1:]):
            self.assertEqual(one[1], next_one[0])
        sizes = [end - begin for begin, end in ranges]
        self.assertTrue(0 <= min(sizes) and max(sizes) - min(sizes) <= 1, sizes)

    def test_published_parameter_counts(self):
        self.assertEqual([sum(parameters(c)) for c in (GPT2, GPT2_XL)], [124439808, 1557611200])
        self.assertEqual(sum(parameters(self.models()["demo"][1])), 6325440)

    def test_shares_and_bytes(self):
        for name, (folder, config) in self.models().items():
            replicated, shared = parameters(config)
            for ranks in RANKS:
                with self.subTest(model=name, ranks=ranks):
                    plan = self.json_of(["plan", "--model", folder, "--ranks", ranks])
                    per_rank = plan["per_rank"]
                    self.assertEqual([r["rank"] for r in per_rank], list(range(ranks)))
                    inner = config.get("n_inner") or 4 * config["n_embd"]
                    for part, total in (("heads", config["n_head"]), ("mlp_columns", inner),
                                        ("vocab_rows", config["vocab_size"])):
                        self.check_shares([r[part] for r in per_rank], total)
                    self.assertEqual(sum(r["weight_bytes"] for r in per_rank),
                                     4 * (shared + ranks * replicated))
                    kv = 2 * config["n_layer"] * config["n_embd"] * 4
                    self.assertEqual(sum(r["kv_bytes_per_token"] for r in per_rank), kv)
                    for r in per_rank:
                        heads = r["heads"][1] - r["heads"][0]
                        self.assertEqual(r["kv_bytes_per_token"] * config["n_head"], kv * heads)

    def test_smaller_types(self):
        for name, (folder, config) in self.models().items():
            replicated, shared = parameters(config)
            for ranks, dtype, kv in ((1, "bf16", "auto"), (3, "f16", "f32"), (2, "f32", "bf16")):
                with self.subTest(model=name, ranks=ranks, dtype=dtype, kv=kv):
                    plan = self.json_of(["plan", "--model", folder, "--ranks", ranks,
                                         "--dtype", dtype, "--kv-dtype", kv])
                    kv = dtype if kv == "auto" else kv
                    self.assertEqual((plan["dtype"], plan["kv_dtype"]), (dtype, kv))
                    size = {"f32": 4, "bf16": 2, "f16": 2}
                    self.assertEqual(sum(r["weight_bytes"] for r in plan["per_rank"]),
                                     size[dtype] * shared + 4 * ranks * replicated)
                    self.assertEqual(sum(r["kv_bytes_per_token"] for r in plan["per_rank"]),
                                     2 * config["n_layer"] * config["n_embd"] * size[kv])

    def test_collectives(self):
        """2 L + 1 all-reduces of n_embd float32 a token, with the vocabulary-parallel embedding."""
        for name, (folder, config) in self.models().items():
            for ranks in RANKS:
                with self.subTest(model=name, ranks=ranks):
                    plan = self.json_of(["plan", "--model", folder, "--ranks", ranks,
                                         "--prompt-tokens", 128])
                    for part, tokens in (("per_token", 1), ("per_prompt", 128)):
                        every = plan[part]["collectives"]
                        reduces = [c for c in every if c["kind"] == "all_reduce"]
                        count = 2 * config["n_layer"] + 1 if ranks > 1 else 0
                        self.assertEqual(sum(c["count"] for c in reduces), count)
                        self.assertEqual({c["bytes_each"] for c in reduces},
                                         {4 * config["n_embd"] * tokens} if count else set())
                        self.assertEqual({c["site"]: c["count"] for c in reduces},
                                         {"embed": 1, "attn_out": config["n_layer"],
                                          "mlp_out": config["n_layer"]} if count else {})
                        self.assertEqual(sum(c["count"] for c in every),
                                         plan[part]["total_count"])
                        self.assertEqual(sum(c["count"] * c["bytes_each"] for c in every),
                                         plan[part]["total_bytes"])

    def test_gpt2_by_hand(self):
        # comm_study: 24 all-reduces of 3072 bytes and one more for the embedding.
        folder = self.models()["gpt2"][0]
        plan = self.json_of(["plan", "--model", folder, "--ranks", 5])
        self.assertEqual([r["heads"] for r in plan["per_rank"]],
                         [[0, 3], [3, 6], [6, 8], [8, 10], [10, 12]])
        reduces = [c for c in plan["per_token"]["collectives"] if c["kind"] == "all_reduce"]
        self.assertEqual(sum(c["count"] * c["bytes_each"] for c in reduces), 25 * 3072)

    def test_text(self):
        result = run(["plan", "--model", DEMO, "--ranks", 2])
        self.assertEqual(result.code, OK, result)
        self.assertIn(b"0-2", result.out)  # heads of rank 0
        self.assertIn(b"3-4", result.out)
        result = run(["plan", "--model", DEMO, "--ranks", 0])
        self.assert_refused(result, USAGE, "--ranks")

    def test_ranks_keep_what_the_plan_says(self):
        for folder, prompt in ((DEMO, "1"), (DATA / "golden" / "combined", "1"),
                               (DATA / "golden" / "f64", "1")):
            for ranks in (1, 2, 3, 5, 8):
                if ranks == 8 and folder != DEMO:
                    continue
                plan = self.json_of(["plan", "--model", folder, "--ranks", ranks])["per_rank"]
                result = run(["generate", "--model", folder, "--verbose", "--max-tokens", 1,
                              "--prompt-ids", prompt], ranks if ranks > 1 else None)
                self.assertEqual(result.code, OK, result)
                kept = {int(rank or 0): int(n) for rank, n in re.findall(
                    r"(?:\[rank (\d+)\] )?weights: .* (\d+) bytes kept", result.err)}
                self.assertEqual(kept, {r["rank"]: r["weight_bytes"] for r in plan}, result)


if __name__ == "__main__":
    unittest.main()
