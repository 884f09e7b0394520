"""Bad input: one clear message, the documented exit code from mpirun, within 5 seconds."""
import os
import shutil
import subprocess
import unittest

from harness import (BIN, DATA, DEMO, MODEL_FILES, OK, RESOURCES, SOON, SORT, TINY, USAGE, CliTest,
                     execute, ids_words, run, run_all, run_mpmd, words_of)
from models import (Tensor, config_of, random_tensors, read_safetensors, write_byte_tokenizer,
                    write_model, write_safetensors)


class Usage(CliTest):
    def check(self, *cases):
        self.check_refused(USAGE, cases)

    def test_unknown_flags_have_the_nearest_known_name(self):
        self.check(
            (["generate", "--model", TINY, "--max-token", 5], 3, ("--max-token", "--max-tokens")),
            (["generate", "--modle", TINY, *ids_words([1])], 3, ("--modle", "--model")),
            (["dump", "--model", TINY, "--stat", *ids_words([1])], 2, ("--stat", "--stats")),
            (["score", "--model", TINY, "--txt-file", "x"], 3, ("--txt-file", "--text-file")),
            (["generat", "--model", TINY], None, ("generat", "generate")),
            (["generat", "--model", TINY], 3, ("generat", "generate")),
            (["plan", "--rank", 2], None, ("--rank", "--ranks")))

    def test_bad_values(self):
        command = ["generate", "--model", TINY, *ids_words([1])]
        self.check(
            *(([*command, f"{flag}={value}"], None, (flag,)) for flag, value in (
                ("--threads", "x"), ("--comm", "tcp"), ("--timeout", "soon"),
                ("--prefill-chunk", 0), ("--top-p", "nan"), ("--seed", -1), ("--logprobs", -1), ("--max-batch", 0))),
            ([*command, "--top-k", "many"], 3, ("--top-k",)),
            ([*command, "--comm", "tpi"], 3, ("mpi",)))

    def test_missing_and_contradicting(self):
        self.check(
            (["generate", *ids_words([1])], 3, ("--model",)),
            (["generate", "--model", TINY], 3, ("--prompt",)),
            (["generate", "--model", DEMO, "--prompt"], None, ("--prompt",)),
            (["dump", "--model", TINY, *ids_words([1])], 2, ("--out", "--stats")),
            (["generate", "--model", TINY, *ids_words([1]), "--json", "--stream"], None,
             ("--json", "--stream")),
            ([], None, ("sub-command", "--help")))

    def test_yaml(self):
        cases = []
        for name, text, texts in (
                ("key", f"model: {TINY}\ngenerate:\n  max-token: 5\n", ("max-token", "max-tokens")),
                ("type", f"model: {TINY}\ntop-k: [1]\n", ("top-k",)),
                ("broken", "model: [\n", ("YAML",)),
                ("twice", f"model: {TINY}\nmodel: {TINY}\n", ("model",)),
                ("value", f"model: {TINY}\ngenerate:\n  temperature: warm\n", ("temperature",))):
            file = self.folder / f"{name}.yaml"
            file.write_text(text)
            cases.append((["generate", "--config", file, *ids_words([1])], 2, (str(file), *texts)))
        self.check(*cases, *((["generate", "--config", path], 3, (str(path),))
                             for path in (self.folder / "none.yaml", self.folder)))

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
        self.check(*((args, ranks, (str(path),)) for path in (self.folder / "none", self.folder)
                     for args, ranks in ((["generate", "--model", DEMO, "--prompt-file", path], 3),
                                         (["score", "--model", DEMO, "--text-file", path], 2))))

    def test_a_standard_input_that_cannot_be_read(self):
        folder = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        process = subprocess.run(words_of(["generate", "--model", DEMO, "-"]), stdin=folder,
                                 capture_output=True, timeout=60)
        self.assertEqual((process.returncode, process.stdout), (USAGE, b""))
        self.assertIn(b"standard input", process.stderr)

    def test_help_everywhere(self):
        commands = ("generate", "score", "tokenize", "detokenize", "plan", "dump", "version")
        alone = [(["--help"], None), *(([c, "--help"], None) for c in commands)]
        *results, at_3 = run_all([*alone, (["generate", "--help"], 3)])
        for result in results:
            self.assertEqual((result.code, result.err), (OK, ""), result)
            self.assertIn(b"shardlm", result.out)
        self.assertEqual((at_3.code, at_3.out.count(b"--max-tokens N")), (OK, 1), at_3)

    def test_output_that_nobody_takes(self):
        full = ["sh", "-c", '"$@" > /dev/full', "sh", BIN]
        for args in (["generate", "--model", str(TINY), *ids_words([1])], ["version"]):
            result = execute([*full, *args])
            self.assertEqual((result.code, len(result.errors)), (RESOURCES, 1), result)
        result = run(["dump", "--model", TINY, *ids_words([1]), "--out",
                      self.folder / "no" / "x.safetensors"], 2)
        self.assertNotEqual(result.code, OK, result)
        self.assertEqual(len(result.errors), 1, result)
        self.assertIn("x.safetensors", result.err)


class Model(CliTest):
    def test_wrong_folders(self):
        self.check_refused(MODEL_FILES, [
            *((["generate", "--model", folder, *ids_words([1])], 3, (str(folder),)) for folder in (
                self.folder / "none", self.folder, DATA / "gpt2_bpe", DATA / "README.md")),
            (["dump", "--model", self.folder, "--stats", *ids_words([1])], 2, ("config.json",)),
            (["score", "--model", self.folder, *ids_words([1, 2])], None, ("config.json",)),
            (["plan", "--model", self.folder, "--ranks", 2], None, ("config.json",)),
            (["tokenize", "--model", SORT, "--text", "a"], None, ("vocab.json",))])


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
        models = ((first, self.good), (1, bad), (last, self.good))
        programs = [(n, self.args(model)) for n, model in models if n]
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
        dump = ["dump", *good[1:3], "--stats", *ids_words([1])]
        for other, texts in (([*good, "--comm", "mpi"], ("--comm mpi", "--comm auto")),
                             (dump, ("dump", "generate")), (["version"], ("generate",))):
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
