"""Bad input: one clear message, the documented exit code from mpirun, within 5 seconds."""
import os
import shutil
import subprocess
import unittest

from harness import (BIN, DATA, DEMO, MODEL_FILES, OK, RESOURCES, SOON, SORT, TINY, USAGE, CliTest,
                     execute, ids_words, run, run_mpmd, words_of)
from models import (Tensor, config_of, random_tensors, read_safetensors, write_byte_tokenizer,
                    write_model, write_safetensors)


class Usage(CliTest):
    def refused(self, args, *texts, ranks=3):
        self.assert_refused(run(args, ranks), USAGE, *texts, within=SOON)

    def test_unknown_flags_have_the_nearest_known_name(self):
        for args, wrong, right in (
                (["generate", "--model", TINY, "--max-token", 5], "--max-token", "--max-tokens"),
                (["generate", "--modle", TINY, *ids_words([1])], "--modle", "--model"),
                (["dump", "--model", TINY, "--stat", *ids_words([1])], "--stat", "--stats"),
                (["score", "--model", TINY, "--txt-file", "x"], "--txt-file", "--text-file")):
            self.refused(args, wrong, right)
        self.refused(["generat", "--model", TINY], "generat", "generate", ranks=None)
        self.refused(["generat", "--model", TINY], "generat", "generate")
        self.refused(["plan", "--rank", 2], "--rank", "--ranks", ranks=None)

    def test_bad_values(self):
        for flag, value in (("--threads", "x"), ("--comm", "tcp"), ("--timeout", "soon"),
                            ("--prefill-chunk", 0), ("--top-p", "nan"), ("--seed", -1),
                            ("--logprobs", -1), ("--max-batch", 0)):
            self.refused(["generate", "--model", TINY, *ids_words([1]), f"{flag}={value}"], flag,
                         ranks=None)
        self.refused(["generate", "--model", TINY, *ids_words([1]), "--top-k", "many"], "--top-k")
        self.refused(["generate", "--model", TINY, *ids_words([1]), "--comm", "tpi"], "mpi")

    def test_missing_and_contradicting(self):
        self.refused(["generate", *ids_words([1])], "--model")
        self.refused(["generate", "--model", TINY], "--prompt")
        self.refused(["generate", "--model", DEMO, "--prompt"], "--prompt")
        self.refused(["dump", "--model", TINY, *ids_words([1])], "--out", "--stats")
        self.refused(["generate", "--model", TINY, *ids_words([1]), "--json", "--stream"], "--json",
                     "--stream", ranks=None)
        self.refused([], "sub-command", "--help", ranks=None)

    def test_yaml(self):
        for name, text, texts in (
                ("unknown key", f"model: {TINY}\ngenerate:\n  max-token: 5\n", ("max-token", "max-tokens")),
                ("wrong type", f"model: {TINY}\ntop-k: [1]\n", ("top-k",)),
                ("no YAML", "model: [\n", ("YAML",)),
                ("twice", f"model: {TINY}\nmodel: {TINY}\n", ("model",)),
                ("bad value", f"model: {TINY}\ngenerate:\n  temperature: warm\n", ("temperature",))):
            file = self.folder / "c.yaml"
            file.write_text(text)
            self.refused(["generate", "--config", file, *ids_words([1])], "c.yaml", *texts, ranks=2)
        self.refused(["generate", "--config", self.folder / "none.yaml"], "none.yaml")
        self.refused(["generate", "--config", self.folder], str(self.folder))

    def test_yaml_and_flags_together(self):
        file = self.folder / "c.yaml"
        file.write_text(f"model: {TINY}\ngenerate:\n  prompt-ids: [[0, 0, 0, 52]]\n"
                        "  temperature: 0\n  max-tokens: 6\n  json: true\nplan:\n  ranks: 2\n")
        value = self.object_of(run(["generate", "--config", file], 2))
        self.assertEqual(value["sequences"][0]["ids"], [204] * 6)
        value = self.object_of(run(["generate", "--config", file, "--max-tokens", 2]))
        self.assertEqual(value["sequences"][0]["ids"], [204] * 2)
        self.assertEqual(len(self.json_of(["plan", "--config", file])["per_rank"]), 2)

    def test_text_files(self):
        for path in (self.folder / "none", self.folder):
            self.refused(["generate", "--model", DEMO, "--prompt-file", path], str(path))
            self.refused(["score", "--model", DEMO, "--text-file", path], str(path), ranks=2)
        folder = os.open(self.folder, os.O_RDONLY)  # a standard input that cannot be read
        self.addCleanup(os.close, folder)
        process = subprocess.run(words_of(["generate", "--model", DEMO, "-"]), stdin=folder,
                                 capture_output=True, timeout=60)
        self.assertEqual((process.returncode, process.stdout), (USAGE, b""))
        self.assertIn(b"standard input", process.stderr)

    def test_help_everywhere(self):
        for args in (["--help"], *([c, "--help"] for c in (
                "generate", "score", "tokenize", "detokenize", "plan", "dump", "version"))):
            result = run(args)
            self.assertEqual((result.code, result.err), (OK, ""), result)
            self.assertIn(b"shardlm", result.out)
        result = run(["generate", "--help"], 3)
        self.assertEqual((result.code, result.out.count(b"--max-tokens")), (OK, 1), result)

    def test_output_that_nobody_takes(self):
        command = ["sh", "-c", '"$@" > /dev/full', "sh", BIN, "generate", "--model", str(TINY),
                   *ids_words([1])]
        result = execute(command)
        self.assertEqual((result.code, len(result.errors)), (RESOURCES, 1), result)
        command = ["sh", "-c", '"$@" > /dev/full', "sh", BIN, "version"]
        self.assertEqual(execute(command).code, RESOURCES)
        result = run(["dump", "--model", TINY, *ids_words([1]), "--out",
                      self.folder / "no" / "x.safetensors"], 2)
        self.assertNotEqual(result.code, OK, result)
        self.assertEqual(len(result.errors), 1, result)
        self.assertIn("x.safetensors", result.err)


class Model(CliTest):
    def refused(self, args, *texts, ranks=3):
        self.assert_refused(run(args, ranks), MODEL_FILES, *texts, within=SOON)

    def test_wrong_folders(self):
        for folder in (self.folder / "none", self.folder, DATA / "gpt2_bpe", DATA / "corpus"):
            self.refused(["generate", "--model", folder, *ids_words([1])], str(folder))
        self.refused(["dump", "--model", self.folder, "--stats", *ids_words([1])], "config.json")
        self.refused(["score", "--model", self.folder, *ids_words([1, 2])], "config.json")
        self.refused(["plan", "--model", self.folder, "--ranks", 2], "config.json", ranks=None)
        self.refused(["tokenize", "--model", SORT, "--text", "a"], "vocab.json", ranks=None)


class OneRank(CliTest):
    """Ranks with different files: mpirun starts each with its own command line."""

    def setUp(self):
        super().setUp()
        self.config = config_of(n_layer=2, n_embd=6, n_head=3, vocab_size=257)
        self.tensors = random_tensors(self.config, 1)
        self.tokenizer = write_byte_tokenizer(self.folder / "vocabulary", ["<|endoftext|>"])
        self.good = self.copy("good")

    def copy(self, name):
        return write_model(self.folder / name, self.config, self.tensors, self.tokenizer)

    def args(self, model, *more):
        return ["generate", "--model", model, "--max-tokens", 2, *ids_words([1]), *more]

    def refused(self, bad, code, *texts, first=1, last=2):
        """`first` ranks have the good model, then one the bad one, then `last` the good one."""
        programs = [(n, self.args(m)) for n, m in ((first, self.good), (1, bad), (last, self.good)) if n]
        self.assert_refused(run_mpmd(programs), code, *texts, within=SOON)

    def test_good_everywhere(self):
        result = run_mpmd([(1, self.args(self.good)), (2, self.args(self.copy("same")))])
        self.assertEqual((result.code, result.errors), (OK, []), result)

    def test_files_missing_or_hostile_on_one(self):
        self.refused(self.folder / "none", MODEL_FILES, "rank 1", "none")
        cut = self.copy("cut") / "model.safetensors"
        cut.write_bytes(cut.read_bytes()[:-1])
        self.refused(cut.parent, MODEL_FILES, "rank 1", str(cut))
        self.refused(cut.parent, MODEL_FILES, "rank 0", str(cut), first=0)
        self.refused(cut.parent, MODEL_FILES, "rank 3", str(cut), first=3, last=0)
        folder = self.copy("folder") / "model.safetensors"
        folder.unlink()
        folder.mkdir()
        self.refused(folder.parent, MODEL_FILES, "rank 2", first=2, last=0)

    def test_files_that_differ_on_one(self):
        def changed(name, change):
            folder = self.copy(name)
            change(folder)
            return folder

        def weight(folder):
            file = folder / "model.safetensors"
            tensors = read_safetensors(file)
            values = tensors["h.1.mlp.c_fc.weight"].values()
            values[17] += 2 ** -10
            tensors["h.1.mlp.c_fc.weight"] = Tensor([6, 24], values)
            write_safetensors(file, tensors)

        def order(folder):
            file = folder / "model.safetensors"
            write_safetensors(file, dict(reversed(read_safetensors(file).items())))

        def config(folder):
            file = folder / "config.json"
            file.write_text(file.read_text().replace("1e-05", "1e-06"))

        def tokenizer(folder):
            for name in ("vocab.json", "merges.txt"):
                (folder / name).unlink()
                shutil.copy(self.tokenizer / name, folder / name)
            text = (folder / "vocab.json").read_text()
            (folder / "vocab.json").write_text(text.replace("<|endoftext|>", "<|end|>"))

        for name, change in (("weight", weight), ("order", order), ("config", config),
                             ("tokenizer", tokenizer)):
            with self.subTest(difference=name):
                self.refused(changed(name, change), MODEL_FILES, "rank 1", first=1, last=1)

    def test_a_bad_flag_on_one(self):
        for first, rank in ((0, "rank 0"), (2, "rank 2")):
            programs = [(n, args) for n, args in
                        ((first, self.args(self.good)), (1, self.args(self.good, "--max-tokns", 3)),
                         (2 - first, self.args(self.good))) if n]
            self.assert_refused(run_mpmd(programs), USAGE, rank, "--max-tokns", within=SOON)

    def test_started_differently(self):
        good = self.args(self.good)
        for other, texts in ((self.args(self.good, "--comm", "mpi"), ("--comm mpi", "--comm auto")),
                             (["dump", *good[1:3], "--stats", *ids_words([1])], ("dump", "generate")),
                             (["version"], ("generate",))):
            result = run_mpmd([(1, good), (1, other), (1, good)], timeout=30)
            self.assert_refused(result, USAGE, "rank 1", *texts, within=SOON)


class Noise(CliTest):
    def test_our_message_comes_first_and_little_follows(self):
        result = run(["generate", "--model", self.folder / "none", *ids_words([1])], 4)
        ours = [i for i, line in enumerate(result.err.splitlines()) if line.startswith("shardlm: ")]
        self.assertEqual(ours, list(range(len(ours))), result)
        self.assertIn("error: ", result.err.splitlines()[ours[-1]], result)
        self.assertLess(len(result.err.splitlines()), 25, result)


if __name__ == "__main__":
    unittest.main()
