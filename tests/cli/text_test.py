"""Text in and text out: special ids, stop strings, streams, bytes that are no text."""
import json
import os
import select
import subprocess
import unittest

from harness import TINY, USAGE, CliTest, ids_words, run, run_all, words_of
from models import (END_OF_TEXT, GPT2_BPE, byte_characters, constant_model, forced_model,
                    write_byte_tokenizer)

QUICK = [464, 2068, 7586, 21831]  # "The", " quick", " brown", " fox"


class Forced(CliTest):
    """Output ids are given by the model, so the text is known."""

    def forced(self, ids):
        folder = self.folder / "-".join(map(str, ids[:8]))
        return folder if folder.exists() else forced_model(folder, ids)

    def both(self, ids, *args, ranks=None):
        """(the sequence, what --stream writes); the end of a stream is one line feed."""
        model = self.forced(ids)
        common = ["generate", "--model", model, "--temperature", 0, "--max-tokens", len(ids),
                  *ids_words([0]), *args]
        as_json, stream, no_stream = run_all([(common + [how], ranks)
                                              for how in ("--json", "--stream", "--no-stream")])
        sequence, = self.object_of(as_json)["sequences"]
        self.assertEqual(stream.code, 0, stream)
        self.assertEqual(stream.out, no_stream.out)
        self.assertEqual(stream.out.decode("utf-8"), sequence["text"] + "\n")
        return sequence

    def test_a_character_split_over_tokens(self):  # F0 9F 98 | 80
        for ids, text in (([47249, 222], "😀"), ([5303, 30325, 222], "hi 😀"),
                          ([41840, 233, 8582, 237, 121], "👋🏽")):
            with self.subTest(ids=ids):
                sequence = self.both(ids)
                self.assertEqual((sequence["ids"], sequence["text"]), (ids, text))

    def test_a_character_cut_at_the_end(self):
        sequence = self.both([464, 47249])
        self.assertEqual(sequence["ids"], [464, 47249])
        self.assertIn(sequence["text"], ("The", "The\ufffd"))

    def test_stop_strings(self):
        for stops, text, n in (
                (["own fox"], "The quick br", 4),        # over tokens
                (["uic"], "The q", 2),                   # inside one
                ([" quick brown", "ick"], "The qu", 2),  # the one completed first
                (["k b", "uick b"], "The q", 3),         # both completed at once: the longer
                (["fox jumps"], "The quick brown fox", 4),  # begun, never completed
                (["The"], "", 1)):
            with self.subTest(stops=stops):
                sequence = self.both(QUICK, *(w for s in stops for w in ("--stop", s)))
                self.assertEqual(sequence["text"], text)
                self.assertEqual(sequence["ids"], QUICK[:n])
                self.assertEqual(sequence["finish_reason"],
                                 "length" if text.endswith("fox") else "stop")

    def test_stop_string_at_several_ranks(self):
        self.assertEqual(self.both(QUICK, "--stop", "own fox", ranks=3)["text"], "The quick br")

    def test_stop_inside_a_token_and_an_empty_one(self):
        sequence = self.both([40313], "--stop", "Pari")  # "Paris"
        self.assertEqual((sequence["text"], sequence["ids"]), ("", [40313]))
        result = run(["generate", "--model", self.forced([40313]), "--stop", "", *ids_words([0])])
        self.assert_refused(result, USAGE, "--stop", "empty")
        result = run(["generate", "--model", TINY, "--stop", "x", *ids_words([1])])
        self.assert_refused(result, USAGE, "--stop", "tokenizer")

    def test_end_of_text(self):
        ids = [464, END_OF_TEXT, 2068]
        sequence = self.both(ids)
        self.assertEqual((sequence["ids"], sequence["text"], sequence["finish_reason"]),
                         (ids[:2], "The", "eos"))
        sequence = self.both(ids, "--ignore-eos")
        self.assertEqual((sequence["ids"], sequence["finish_reason"]), (ids, "length"))
        self.assertTrue(sequence["text"].startswith("The"))
        self.assertTrue(sequence["text"].endswith(" quick"))

    def test_end_of_text_at_the_last_token(self):
        sequence = self.both([464, END_OF_TEXT])
        self.assertEqual((sequence["text"], sequence["finish_reason"]), ("The", "eos"))

    def test_every_piece_of_a_stream_is_whole(self):
        ids = [5303, 30325, 222] * 40
        model = self.forced(ids)
        words = words_of(["generate", "--model", model, "--temperature", 0, "--stream",
                          "--max-tokens", len(ids), *ids_words([0])])
        with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            pieces = []
            while select.select([process.stdout], [], [], 60)[0]:
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    break
                pieces.append(piece)
        for piece in pieces:
            self.assertNotIn("\ufffd", piece.decode("utf-8"))
        self.assertEqual(b"".join(pieces).decode(), "hi 😀" * 40 + "\n")

    def test_max_tokens_zero(self):
        model = self.forced(QUICK)
        for ranks in (None, 2):
            result = run(["generate", "--model", model, "--max-tokens", 0, "--json",
                          *ids_words([0], [5])], ranks)
            for sequence in self.object_of(result)["sequences"]:
                self.assertEqual((sequence["ids"], sequence["text"], sequence["finish_reason"]),
                                 ([], "", "length"))
        for bad in (-1, 1.5, "x", 2 ** 64):
            result = run(["generate", "--model", model, "--max-tokens", bad,
                          *ids_words([0])])
            self.assert_refused(result, USAGE, "--max-tokens")
        result = run(["generate", "--model", model, "--max-tokens", 2 ** 40, "--json",
                      *ids_words([0])])
        self.assertEqual(self.object_of(result)["sequences"][0]["ids"], QUICK)


class Prompts(CliTest):
    def setUp(self):
        super().setUp()
        self.model = forced_model(self.folder / "gpt2", [464])

    def prompt_ids(self, *args, model=None, **options):
        value = self.json_of(["generate", "--model", model or self.wide(), "--max-tokens", 0,
                              *args], **options)
        return [s["prompt_ids"] for s in value["sequences"]]

    def wide(self):
        """A model with room for long prompts."""
        folder = self.folder / "wide"
        return folder if folder.exists() else forced_model(folder, [0] * 64)

    def test_special_token_in_the_prompt(self):
        text = "a<|endoftext|>b"
        self.assertEqual(self.prompt_ids("--prompt", text), [[64, END_OF_TEXT, 65]])
        self.assertEqual(self.prompt_ids("--prompt", text, "--no-special"),
                         [[64, 27, 91, 437, 1659, 5239, 91, 29, 65]])

    def test_where_prompts_come_from(self):
        text = "a  b\n\nhello \n"
        file = self.folder / "prompt"
        file.write_text(text)
        ids = [64, 220, 275, 198, 198, 31373, 220, 198]
        self.assertEqual(self.prompt_ids("--prompt", text), [ids])
        self.assertEqual(self.prompt_ids("--prompt-file", file), [ids])
        self.assertEqual(self.prompt_ids("-", stdin=text.encode()), [ids])
        self.assertEqual(self.prompt_ids("-", stdin=text.encode(), ranks=2), [ids])
        mixed = self.prompt_ids("--prompt", "Hello, world!", "--prompt-file", file, "--prompt-ids",
                                "7,8", "-", stdin=b"don't")
        self.assertEqual(mixed, [[15496, 11, 995, 0], ids, [7, 8], [9099, 470]])

    def test_bytes_that_are_not_utf8(self):
        vocab = json.loads((GPT2_BPE / "vocab.json").read_text())
        single = {b: vocab[c] for b, c in byte_characters().items()}
        text = b"a\xff\xc3 \xf0\x9f"
        ids = [64, single[0xFF], single[0xC3], single[0x20], single[0xF0], single[0x9F]]
        file = self.folder / "bytes"
        file.write_bytes(text)
        found, from_file, from_stdin = (
            self.prompt_ids("--prompt", text)[0], self.prompt_ids("--prompt-file", file)[0],
            self.prompt_ids("-", stdin=text)[0])
        self.assertEqual(found, from_file)
        self.assertEqual(found, from_stdin)
        back = run(["detokenize", "--model", GPT2_BPE, "--ids", ",".join(map(str, found))])
        self.assertEqual(back.out, text)
        # 0xff and 0xc3 join no merge: each byte is its own symbol.
        self.assertEqual(found[:3], ids[:3])
        tokens = run(["tokenize", "--model", GPT2_BPE], stdin=text)
        self.assertEqual([int(x) for x in tokens.out.split()], found)

    def test_forced_bytes_that_are_not_utf8(self):
        vocab = json.loads((GPT2_BPE / "vocab.json").read_text())
        bad = vocab[byte_characters()[0xFF]]
        model = forced_model(self.folder / "bad", [64, bad, 65])
        sequence, = self.generate(model, "--max-tokens", 3, *ids_words([0]))
        self.assertEqual((sequence["ids"], sequence["text"]), ([64, bad, 65], "a\ufffdb"))

    def test_an_empty_prompt_starts_from_end_of_text(self):
        empty = self.folder / "empty"
        empty.write_bytes(b"")
        one = [[END_OF_TEXT]]
        self.assertEqual(self.prompt_ids("--prompt", ""), one)
        self.assertEqual(self.prompt_ids("--prompt-file", empty), one)
        self.assertEqual(self.prompt_ids("-", stdin=b""), one)
        self.assertEqual(self.prompt_ids("--prompt", "don't", "--prompt", "", "--prompt-ids", "5"),
                         [[9099, 470], [END_OF_TEXT], [5]])
        sequence, = self.generate(self.model, "--prompt", "", "--max-tokens", 1, ranks=2)
        self.assertEqual(sequence["text"], "The")

    def test_an_empty_prompt_without_end_of_text_is_refused(self):
        tokenizer = write_byte_tokenizer(self.folder / "bytes_only")
        model = constant_model(self.folder / "b", {65: 1.0}, vocab_size=256, tokenizer=tokenizer)
        for ranks in (None, 2):
            result = run(["generate", "--model", model, "--prompt", ""], ranks)
            self.assert_refused(result, USAGE, "prompt 0", "end-of-text", within=10)

    def test_a_folder_without_tokenizer_serves_ids_only(self):
        model = constant_model(self.folder / "ids", [0.0, 1.0, 0.0])
        self.assertEqual(self.ids_of(model, "--max-tokens", 2, *ids_words([0])), [[1, 1]])
        result = run(["generate", "--model", model, "--prompt", "a"])
        self.assertEqual(len(result.errors), 1, result)
        self.assertIn("tokenizer", result.err)
        plain = run(["generate", "--model", model, "--max-tokens", 2, "--temperature", 0,
                     *ids_words([0])])
        self.assertEqual(plain.out.split(), [b"1", b"1"])

    def test_ids_out_of_range(self):
        for ids in ([1000], [5, 2 ** 31 - 1]):
            result = run(["generate", "--model", TINY, *ids_words([1], ids)], 2)
            self.assert_refused(result, USAGE, "prompt 1", str(ids[-1]), "vocab_size 1000",
                                within=10)
        for words in ("-1", "1,,2", "1.5", "a", "99999999999"):
            result = run(["generate", "--model", TINY, f"--prompt-ids={words}"])
            self.assert_refused(result, USAGE, "--prompt-ids")


class UnequalVocabularies(CliTest):
    """vocab_size of the model beside the number of ids that the tokenizer knows."""

    def test_ids_without_a_token_are_never_sampled(self):
        tokenizer = write_byte_tokenizer(self.folder / "t", ["<|endoftext|>"])  # 257 ids
        model = constant_model(self.folder / "m", {299: 9.0, 280: 8.0, 66: 2.0, 67: 1.0},
                               vocab_size=300, tokenizer=tokenizer)
        for ranks in (None, 4):
            sequence, = self.generate(model, "--max-tokens", 3, "--logprobs", 300, "--prompt", "a",
                                      ranks=ranks)
            self.assertEqual((sequence["ids"], sequence["text"]), ([66] * 3, "BBB"))
            self.assertEqual(sorted(t["id"] for t in sequence["logprobs"][0]["top"]),
                             list(range(257)))
            for cut in ((), ("--top-k", 290), ("--top-p", .999)):
                value = self.json_of(
                    ["generate", "--model", model, "--seed", 1, "--temperature", 1e6,
                     "--ignore-eos", "--max-tokens", 10, *cut, *ids_words(*[[1]] * 50)], ranks)
                ids = {i for s in value["sequences"] for i in s["ids"]}
                self.assertGreater(len(ids), 100)
                self.assertLess(max(ids), 257)

    def test_tokens_beyond_the_embedding(self):
        tokenizer = write_byte_tokenizer(self.folder / "t", ["<|endoftext|>"])
        model = constant_model(self.folder / "m", {66: 2.0}, vocab_size=200, tokenizer=tokenizer)
        self.assertEqual(self.generate(model, "--max-tokens", 2, "--prompt", "é")[0]["text"], "BB")
        result = run(["generate", "--model", model, "--prompt", b"ok \xc9"])
        self.assert_refused(result, USAGE, "201", "vocab_size 200")
        # Neither is its end-of-text id an id of the model.
        result = run(["generate", "--model", model, "--prompt", ""])
        self.assert_refused(result, USAGE, "prompt 0")


if __name__ == "__main__":
    unittest.main()
