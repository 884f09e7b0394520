"""shardlm dump: which tensors, of which shape, statistics, and the comparison of two files."""
import json
import statistics
import unittest

from harness import DATA, MODEL_FILES, OK, USAGE, CliTest, ids_words, run, run_all
from models import (Tensor, config_of, random_tensors, read_safetensors, write_model,
                    write_safetensors)

T = 7
IDS = [3, 1, 4, 1, 5, 9, 2]


class Names(CliTest):
    def setUp(self):
        super().setUp()
        self.config = config_of(n_layer=3, n_embd=10, n_head=5, n_inner=13, vocab_size=17,
                                n_positions=40, tie_word_embeddings=False)
        self.model = write_model(self.folder / "m", self.config, random_tensors(self.config, 1))

    def expected(self):
        shapes = {"embed": [T, 10]}
        for i in range(3):
            for name in ("ln_1", "attn.q", "attn.k", "attn.v", "attn.heads", "attn.c_proj",
                         "resid_1", "ln_2", "mlp.c_fc", "mlp.act", "mlp.c_proj", "resid_2"):
                shapes[f"h.{i}.{name}"] = [T, 13 if name in ("mlp.c_fc", "mlp.act") else 10]
        return {**shapes, "ln_f": [T, 10], "logits": [T, 17]}

    def test_names_and_shapes(self):
        outs = {(ranks, chunk): self.folder / f"{ranks}_{chunk}.safetensors"
                for ranks, chunk in ((None, 512), (None, 3), (2, 512), (3, 1), (4, 2), (7, 512))}
        jobs = [(["dump", "--model", self.model, "--prefill-chunk", chunk, "--out", out,
                  *ids_words(IDS)], ranks) for (ranks, chunk), out in outs.items()]
        for result in run_all(jobs):
            self.assertEqual((result.code, result.out), (OK, b""), result)
        found = {key: read_safetensors(out) for key, out in outs.items()}
        one = found[None, 512]
        for key, tensors in found.items():
            self.assertEqual({n: t.shape for n, t in tensors.items()}, self.expected(), key)
            self.assertEqual({t.dtype for t in tensors.values()}, {"F32"})
            for name, t in tensors.items():
                values = one[name].values()
                self.assert_close(t.values(), values, 2 ** -24 * 13 * 7 * max(map(abs, values)),
                                  f"{name} {key}")
        # Chunks change nothing at all: each row is computed alone.
        self.assertEqual({n: t.data for n, t in found[None, 3].items()},
                         {n: t.data for n, t in one.items()})

    def test_statistics(self):
        out = self.folder / "a.safetensors"
        command = ["dump", "--model", self.model, "--stats", *ids_words(IDS)]
        stats = self.json_of([*command, "--out", out], 3)["tensors"]
        tensors = read_safetensors(out)
        self.assertEqual([s["name"] for s in stats], list(self.expected()))
        for s in stats:
            values = tensors[s["name"]].values()
            self.assertEqual(s["shape"], tensors[s["name"]].shape)
            self.assertAlmostEqual(s["mean"], statistics.fmean(values), places=6)
            self.assertAlmostEqual(s["variance"], statistics.pvariance(values), places=5)
            for found, wanted in zip((s["min"], s["max"], *s["first"]),
                                     (min(values), max(values), *values[:len(s["first"])])):
                self.assertAlmostEqual(found, wanted, places=6)
        text = run(command).out.decode()
        for name in self.expected():
            line, = (l for l in text.splitlines() if l.split()[0] == name)
            for word in ("mean", "var", "min", "max", "first", f"[{T}, "):
                self.assertIn(word, line)


class Diff(CliTest):
    def setUp(self):
        super().setUp()
        self.tensors = {"a": Tensor([2, 3], [1, -2, 4, 0, 0.5, 3]), "b": Tensor([2], [1e-3, 0])}
        self.a = self.write("a", self.tensors)

    def write(self, name, tensors):
        path = self.folder / f"{name}.safetensors"
        write_safetensors(path, tensors)
        return path

    def diff(self, other, *args):
        result = run(["dump", "--diff", self.a, other, *args, "--json"])
        value = json.loads(result.out)
        text = run(["dump", "--diff", self.a, other, *args])
        code = 0 if value["equal"] else 1  # as diff(1)
        self.assertEqual((result.code, text.code), (code, code), text)
        if not value["equal"]:
            self.assertEqual(text.out.decode().strip(), value["first_difference"])
        return value["first_difference"]

    def test_equal(self):
        self.assertEqual(self.diff(self.write("same", self.tensors)), "")
        reordered = self.write("reordered", dict(reversed(self.tensors.items())))
        self.assertEqual(self.diff(reordered), "")

    def test_names_the_first_difference_and_its_size(self):
        other = self.write("other", {**self.tensors, "b": Tensor([2], [1e-3, 5e-4])})
        text = self.diff(other)
        self.assertTrue(text.startswith("b"), text)
        self.assertIn("0.0005", text)
        other = self.write("other", {"a": Tensor([2, 3], [1, -2, 4, 0, 0.75, 3]),
                                     "b": Tensor([2], [2, 2])})
        text = self.diff(other)
        self.assertTrue(text.startswith("a"), text)
        self.assertIn("0.25", text)

    def test_under_mpirun(self):
        other = self.write("other", {**self.tensors, "b": Tensor([2], [1e-3, 5e-4])})
        for b, code in ((self.a, 0), (other, 1)):
            result = run(["dump", "--diff", self.a, b], 3)
            self.assertEqual((result.code, len(result.out.splitlines())), (code, 1), result)

    def test_tolerance_is_relative_to_the_tensor(self):
        other = self.write("other", {**self.tensors, "a": Tensor([2, 3], [1, -2, 4, 0, 0.501, 3])})
        self.assertNotEqual(self.diff(other), "")                        # 1e-3 of 4 is 2.5e-4
        self.assertEqual(self.diff(other, "--tolerance", 3e-4), "")
        self.assertNotEqual(self.diff(other, "--tolerance", 2e-4), "")
        self.assertNotEqual(self.diff(other, "--tolerance", 0), "")

    def test_what_only_one_has(self):
        self.assertIn("b", self.diff(self.write("other", {"a": self.tensors["a"]})))
        more = self.write("more", {**self.tensors, "extra": Tensor([1])})
        self.assertIn("extra", self.diff(more))

    def test_another_shape(self):
        other = self.write("other", {**self.tensors, "a": Tensor([3, 2], [1, -2, 4, 0, 0.5, 3])})
        text = self.diff(other)
        for part in ("a", "[2, 3]", "[3, 2]"):
            self.assertIn(part, text)

    def test_not_a_number(self):
        nan = self.write("nan", {**self.tensors, "b": Tensor([2], [1e-3, float("nan")])})
        self.assertTrue(self.diff(nan).startswith("b"))

    def test_files_that_are_none(self):
        for path in (self.folder / "none", DATA / "README.md"):
            result = run(["dump", "--diff", self.a, path])
            self.assert_refused(result, MODEL_FILES, str(path))
        result = run(["dump", "--diff", self.a])
        self.assert_refused(result, USAGE, "--diff")


if __name__ == "__main__":
    unittest.main()
