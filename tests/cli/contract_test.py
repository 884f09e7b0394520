"""The JSON of every command, exactly: names, types, one object on standard output, nothing else."""
import math
import unittest

from harness import DATA, DEMO, SORT, TINY, CliTest, ids_words, run
from models import GPT2_BPE, forced_model

NUMBER = (int, float)
NULL = type(None)


class Contract(CliTest):
    def check_shape(self, value, shape, where="top"):
        """`shape`: a type, a tuple of types, [shape of all elements], or {name: shape}."""
        if isinstance(shape, dict):
            self.assertIsInstance(value, dict, where)
            self.assertEqual(set(value), set(shape), where)
            for name, inner in shape.items():
                self.check_shape(value[name], inner, f"{where}.{name}")
        elif isinstance(shape, list):
            self.assertIsInstance(value, list, where)
            for i, element in enumerate(value):
                self.check_shape(element, shape[0], f"{where}[{i}]")
        else:
            self.assertNotIsInstance(value, bool if shape is not bool else NULL, where)
            self.assertIsInstance(value, shape, where)

    def generate_shape(self, logprobs):
        return {"sequences": [{"prompt_ids": [int], "ids": [int], "text": str,
                               "finish_reason": str, "logprobs": logprobs}],
                "seed": int, "ranks": int, "backend": str, "shared_gpu": bool,
                "warnings": [str],
                "timing": {"load_s": NUMBER, "ttft_ms": (*NUMBER, NULL), "tpot_ms": (*NUMBER, NULL),
                           "tokens_per_s": (*NUMBER, NULL)}}

    def test_generate(self):
        for ranks in (None, 3):
            value = self.json_of(["generate", "--model", TINY, "--seed", 5, "--max-tokens", 4,
                                  *ids_words([1], [2, 3])], ranks)
            self.check_shape(value, self.generate_shape(NULL))
            self.assertEqual((value["seed"], value["ranks"]), (5, ranks or 1))
            self.assertIs(value["shared_gpu"], False)
            self.assertIn(value["backend"], ("cpu", "cuda"))
            self.assertEqual([s["prompt_ids"] for s in value["sequences"]], [[1], [2, 3]])
            for s in value["sequences"]:
                self.assertEqual((len(s["ids"]), s["finish_reason"], s["text"]), (4, "length", ""))

    def test_generate_logprobs(self):
        value = self.json_of(["generate", "--model", TINY, "--logprobs", 3, "--max-tokens", 4,
                              "--temperature", 0, *ids_words([1])])
        self.check_shape(value, self.generate_shape(
            [{"id": int, "logprob": NUMBER, "top": [{"id": int, "logprob": NUMBER}]}]))
        sequence, = value["sequences"]
        self.assertEqual([x["id"] for x in sequence["logprobs"]], sequence["ids"])
        for x in sequence["logprobs"]:
            self.assertEqual(len(x["top"]), 3)
            self.assertEqual(x["top"][0], {"id": x["id"], "logprob": x["logprob"]})  # greedy
            self.assertLess(x["logprob"], 0)

    def test_generate_timing(self):
        def timing(n, *more):
            return self.json_of(["generate", "--model", DEMO, "--max-tokens", n, "--seed", 1,
                                 "--prompt", "Once", *more])["timing"]
        none, one, many = timing(0), timing(1), timing(20)
        self.assertEqual([none[k] for k in ("ttft_ms", "tpot_ms", "tokens_per_s")], [None] * 3)
        self.assertGreater(one["ttft_ms"], 0)
        self.assertEqual([one[k] for k in ("tpot_ms", "tokens_per_s")], [None] * 2)
        # One sequence: both say the same of the 19 gaps.
        self.assertAlmostEqual(many["tokens_per_s"] * many["tpot_ms"], 1000, delta=1e-3)
        self.assertGreater(many["load_s"], 0)
        batch = timing(1, "--prompt", "Twice")
        self.assertEqual([batch[k] for k in ("tpot_ms", "tokens_per_s")], [None] * 2)

    def test_score(self):
        shape = {"tokens": int, "nats": NUMBER, "perplexity": NUMBER, "bytes": int,
                 "bits_per_byte": NUMBER, "window": int, "stride": int, "backend": str,
                 "shared_gpu": bool, "warnings": [str]}
        text = self.folder / "text"
        text.write_text("The dragon was asleep.")
        for ranks in (None, 2):
            value = self.json_of(["score", "--model", DEMO, "--text-file", text], ranks)
            self.check_shape(value, shape)
            self.assertEqual(value["bytes"], 22)
        from_stdin = self.json_of(["score", "--model", DEMO, "-"], stdin=text.read_bytes())
        self.assertAlmostEqual(from_stdin["nats"], value["nats"], delta=1e-4)

    def test_tokenize_and_detokenize(self):
        value = self.json_of(["tokenize", "--model", GPT2_BPE, "--text", "Hello, world!"])
        self.assertEqual(value["ids"], [15496, 11, 995, 0])
        value = self.json_of(["detokenize", "--model", GPT2_BPE, "--ids", "15496,11,995,0"])
        self.assertEqual(value, {"text": "Hello, world!"})

    def test_plan(self):
        # bytes_each and count are what scripts add up; kind says which collective it is.
        collectives = {"collectives": [{"site": str, "kind": str, "count": int, "bytes_each": int}],
                       "total_count": int, "total_bytes": int}
        value = self.json_of(["plan", "--model", DEMO, "--ranks", 3, "--prompt-tokens", 7])
        self.check_shape(value, {
            "model": str, "ranks": int, "dtype": str, "kv_dtype": str, "reduction": str,
            "per_rank": [{"rank": int, "heads": [int], "mlp_columns": [int], "vocab_rows": [int],
                          "weight_bytes": int, "kv_bytes_per_token": int}],
            "per_token": collectives, "per_prompt": {**collectives, "tokens": int}})
        self.assertEqual(value["per_prompt"]["tokens"], 7)

    def test_dump(self):
        shape = {"tensors": [{"name": str, "shape": [int], "mean": NUMBER, "variance": NUMBER,
                              "min": NUMBER, "max": NUMBER, "first": [NUMBER]}]}
        out = self.folder / "a.safetensors"
        for ranks in (None, 2):
            value = self.json_of(["dump", "--model", SORT, "--stats", "--out", out,
                                  *ids_words([0, 2, 1])], ranks)
            self.check_shape(value, shape)
        self.assertEqual(value["tensors"][0]["name"], "embed")
        value = self.json_of(["dump", "--diff", out, out])
        self.check_shape(value, {"equal": bool, "first_difference": str})

    def test_version(self):
        value = self.json_of(["version"])
        for name in ("version", "commit", "compiler", "mpi", "simd"):
            self.assertTrue(value[name], name)
        self.assertTrue(all(isinstance(x, str) for x in value.values()))

    def test_text_is_json_whatever_the_bytes(self):
        # Half a character at the end, a byte that is never UTF-8, quotes and control characters.
        vocab = self.json_of(["tokenize", "--model", GPT2_BPE, "--text", '"\\\n\t\x01'])["ids"]
        model = forced_model(self.folder / "m", [*vocab, 47249])
        sequence, = self.generate(model, *ids_words([0]), "--max-tokens", len(vocab) + 1)
        self.assertEqual(sequence["ids"], [*vocab, 47249])
        self.assertEqual(sequence["text"].rstrip("\ufffd"), '"\\\n\t\x01')

    def test_messages_go_to_standard_error(self):
        result = run(["generate", "--model", TINY, "--verbose", "--json", "--max-tokens", 2,
                      *ids_words([1])], 2)
        self.object_of(result)
        self.assertIn("[rank 1]", result.err)
        self.assertIn("bytes kept", result.err)
        quiet = run(["generate", "--model", TINY, "--quiet", "--json", "--max-tokens", 2,
                     "--threads", 64, *ids_words([1])])
        self.object_of(quiet)
        self.assertEqual(quiet.err, "")

    def test_text_output_of_several_prompts(self):
        result = run(["generate", "--model", DEMO, "--temperature", 0, "--max-tokens", 5,
                      "--prompt", "Once upon a time", "--prompt", "The dragon"])
        self.assertEqual(result.code, 0, result)
        self.assertIn(b", and the King of", result.out)
        self.assertIn(b" was not a little girl", result.out)

    def test_logprobs_cover_the_vocabulary(self):
        vectors = {"below": (DATA / "golden" / "base", 101), "tiny": (TINY, 1000)}
        for model, size in vectors.values():
            for ranks in (None, 3):
                sequence, = self.json_of(
                    ["generate", "--model", model, "--logprobs", 5000, "--max-tokens", 3,
                     "--seed", 4, *ids_words([7])], ranks)["sequences"]
                for x in sequence["logprobs"]:
                    self.assertEqual(len(x["top"]), size)
                    total = math.fsum(math.exp(t["logprob"]) for t in x["top"])
                    self.assertAlmostEqual(total, 1, delta=1e-5)
                    self.assertEqual(sorted(t["id"] for t in x["top"]), list(range(size)))
                    values = [t["logprob"] for t in x["top"]]
                    self.assertEqual(values, sorted(values, reverse=True))
                    own, = (t["logprob"] for t in x["top"] if t["id"] == x["id"])
                    self.assertEqual(own, x["logprob"])


if __name__ == "__main__":
    unittest.main()
