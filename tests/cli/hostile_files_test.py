"""Model folders that are broken or malicious: refused before anything is generated."""
import json
import struct
import unittest

from checkpoint_case import Checkpoint
from harness import OK, ids_words, run
from models import (config_of, constant_model, random_tensors, read_safetensors, safetensors_bytes,
                    write_safetensors, zero_tensors)


class HostileFiles(Checkpoint):
    """Refused with the file's or tensor's name: the parser's own tests have the long list."""

    def setUp(self):
        super().setUp()
        self.config = config_of()
        self.good = safetensors_bytes(zero_tensors(self.config))
        n, = struct.unpack("<Q", self.good[:8])
        self.header, self.data = json.loads(self.good[8:8 + n]), self.good[8 + n:]

    def bad(self, name, data, file="model.safetensors"):
        """A model folder with these bytes in the place of a file; None is a folder."""
        model = self.write(name, self.config, zero_tensors(self.config))
        if data is None:
            (model / file).unlink()
            (model / file).mkdir()
        else:
            (model / file).write_bytes(data)
        return model

    def with_header(self, name, text, data):
        return self.bad(name, struct.pack("<Q", len(text)) + text.encode() + data)

    def test_pointer_file(self):  # transformers#27923
        model = self.bad("pointer", b"version https://git-lfs.github.com/spec/v1\n"
                         b"oid sha256:" + b"4d7a" * 16 + b"\n"
                         b"size 548105171\n")
        self.check_models_refused((model, 2, (str(model / "model.safetensors"), "pointer")))

    def test_structure(self):  # openasr#73
        text = json.dumps(self.header)
        twice = text[:-1] + f', "wte.weight": {json.dumps(self.header["wte.weight"])}}}'
        overlap = json.loads(text)
        overlap["wpe.weight"]["data_offsets"] = [
            x - 32 for x in overlap["wpe.weight"]["data_offsets"]]
        first = self.header["wte.weight"]["data_offsets"][1]
        hole = {name: {**t, "data_offsets": [x + 4 * (t["data_offsets"][0] > 0)
                                             for x in t["data_offsets"]]}
                for name, t in self.header.items()}
        with_hole = self.data[:first] + b"\0" * 4 + self.data[first:]
        self.check_models_refused(
            (self.with_header("twice", twice, self.data), None, ("wte.weight",)),
            (self.with_header("overlap", json.dumps(overlap), self.data), None, ("wpe.weight",)),
            (self.with_header("hole", json.dumps(hole), with_hole), None, ("wpe.weight",)),
            (self.bad("more", self.good + b"\0\0\0\0"), None, ("model.safetensors",)))

    def test_cut_files(self):
        size = len(self.good)
        self.check_models_refused(*(
            (self.bad(f"cut{n}", self.good[:n]), 2 if n == size - 1 else None, ("model.safetensors",))
            for n in (0, 7, 8, 9, size // 2, size - 1)))

    def test_lengths_that_lie(self):
        lengths = (2 ** 63, 2 ** 64 - 1, 2 ** 31, len(self.good))
        self.check_models_refused(
            *((self.bad(str(n), struct.pack("<Q", n) + self.good[8:]), None, ("model.safetensors",))
              for n in lengths),
            (self.bad("shape", self.good.replace(b'"shape": [8, 4]', b'"shape": [8,4e9]')), None,
             ("model.safetensors",)))

    def test_missing_shard(self):  # sglang#32279
        model = self.write("sharded", self.config, random_tensors(self.config, 1))
        tensors = read_safetensors(model / "model.safetensors")
        files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        place = {name: files[i % 2] for i, name in enumerate(tensors)}
        for file in files:
            write_safetensors(model / file, {n: t for n, t in tensors.items() if place[n] == file})
        (model / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": place}))
        command = ["dump", "--model", model, "--stats", *ids_words([1])]
        both = run(command)
        self.assertEqual(both.code, OK, both)
        self.assertIn("index", " ".join(both.warnings))  # model.safetensors wins, with a warning
        (model / "model.safetensors").unlink()
        sharded = run(command)
        self.assertEqual((sharded.code, sharded.out, sharded.warnings), (OK, both.out, []), sharded)
        (model / files[1]).unlink()
        self.check_models_refused((model, 3, (files[1],)))

    def test_a_folder_in_the_files_place(self):
        self.check_models_refused(*((self.bad(f"no {file}", None, file), 2, (file,))
                                    for file in ("model.safetensors", "config.json")))

    def test_bad_config(self):
        texts = ("", "{", "[]", '{"model_type": "gpt2"', '{"model_type": "gpt2"}', "\0",
                 json.dumps(self.config)[:-1] + ', "n_head": 2}')
        self.check_models_refused(*(
            (self.bad(f"config{i}", text.encode(), "config.json"), None, ("config.json",))
            for i, text in enumerate(texts)))


class Tokenizers(Checkpoint):
    def test_files_that_are_not_in_order(self):
        cases = []
        for vocab, merges, named in (
                ("{", "#version: 0.2\n", "vocab.json"), ('{"a": 0, "b": 0}', "", "vocab.json"),
                ('{"a": -1}', "", "vocab.json"), ('{"a": 0}', None, "vocab.json"),
                ('{"a": 0}', "a b c\n", "merges.txt")):
            model = constant_model(self.folder / str(len(cases)), [0.0, 1.0])
            (model / "vocab.json").write_text(vocab)
            if merges is not None:
                (model / "merges.txt").write_text(merges)
            cases.append((model, 2, (named,)))
        self.check_models_refused(*cases)


if __name__ == "__main__":
    unittest.main()
