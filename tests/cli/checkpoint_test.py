"""Weight files as they come: names, layouts, dtypes, ties, and files that are not in order."""
import json
import struct
import unittest

from harness import MODEL_FILES, OK, CliTest, ids_words, run, run_all
from models import (Tensor, config_of, constant_model, forced_model, random_tensors,
                    read_safetensors, safetensors_bytes, with_prefix, write_model,
                    write_safetensors, zero_tensors)


class Checkpoint(CliTest):
    def write(self, name, config, tensors):
        return write_model(self.folder / name, config, tensors)

    def check_models_refused(self, *cases):
        """[(model folder, ranks, texts of the message), ...]"""
        self.check_refused(MODEL_FILES, [
            (["generate", "--model", model, "--max-tokens", 1, *ids_words([1])], ranks, texts)
            for model, ranks, texts in cases])

    def dumps(self, models, ids, ranks=None):
        """Several models, or with a tuple of `ranks` one model several times, side by side."""
        jobs, outs = [], []
        for i, (model, p) in enumerate((m, p) for m in models
                                       for p in (ranks if isinstance(ranks, tuple) else (ranks,))):
            outs.append(self.folder / f"dump_{i}.safetensors")
            jobs.append((["dump", "--model", model, *ids_words(ids), "--out", outs[-1]], p))
        for result in run_all(jobs):
            self.assertEqual(result.code, OK, result)
        return [{name: (t.shape, t.values()) for name, t in read_safetensors(out).items()}
                for out in outs]


class Names(Checkpoint):
    def setUp(self):
        super().setUp()
        self.config = config_of(n_layer=2, n_embd=6, n_head=3, vocab_size=9)
        self.tensors = random_tensors(self.config, 1)

    def test_with_and_without_prefix(self):  # onnxruntime/mobius#113
        plain = self.write("plain", self.config, self.tensors)
        prefixed = self.write("prefixed", self.config, with_prefix(self.tensors))
        self.assertEqual(*self.dumps([plain, prefixed], [1, 2, 3]))
        wrapped = self.write("wrapped", self.config,
                             with_prefix(self.tensors, "model.transformer."))
        self.check_models_refused((wrapped, None, ("model.transformer.h.0.ln_1.weight",
                                                   "expected h.0.ln_1.weight")))

    def test_missing_and_unused_tensors(self):
        lacking = dict(self.tensors)
        del lacking["h.1.mlp.c_proj.bias"]
        model = self.write("lacking", self.config, with_prefix(lacking))
        self.check_models_refused(*((model, ranks, ("transformer.h.1.mlp.c_proj.bias",))
                                    for ranks in (None, 2)))
        more = self.write("more", self.config, {**self.tensors, "score.weight": Tensor([2, 6]),
                                                "h.0.attn.bias": Tensor([1, 1, 16, 16], 1.0)})
        result = run(["generate", "--model", more, "--max-tokens", 1, *ids_words([1])], 2)
        self.assertEqual(result.code, OK, result)
        named = [w for w in result.warnings if "score.weight" in w]
        self.assertEqual(len(named), 1, result)
        self.assertNotIn("h.0.attn.bias", result.err)

    def test_redundant_head(self):  # mlx-lm#1298
        plain = self.write("plain", self.config, self.tensors)
        wte = self.tensors["wte.weight"]
        redundant = self.write("redundant", self.config, {**self.tensors, "lm_head.weight": wte})
        said = self.write("said", {**self.config, "tie_word_embeddings": True},
                          {**self.tensors, "lm_head.weight": wte})
        wanted, *others = self.dumps([plain, redundant, said], [1, 2, 3])
        self.assertEqual(others, [wanted] * 2)
        kept = []
        for model in (plain, redundant):
            result = run(["generate", "--model", model, "--verbose", "--max-tokens", 1,
                          *ids_words([1])])
            kept.append([line.split("files, ")[1] for line in result.err.splitlines()
                         if "bytes kept" in line])
            self.assertEqual(result.warnings, [], result)
        self.assertEqual(*kept)

    def test_differing_head_of_a_tied_model_is_named(self):
        other = wte_with_one_change(self.tensors["wte.weight"])
        model = self.write("other", self.config, {**self.tensors, "lm_head.weight": other})
        plain = self.write("plain", self.config, self.tensors)
        self.assertEqual(*self.dumps([model, plain], [1, 2, 3]))
        for ranks in (None, 3):
            result = run(["generate", "--model", model, "--max-tokens", 1, *ids_words([1])], ranks)
            self.assertEqual(result.code, OK, result)
            self.assertIn("lm_head.weight", " ".join(result.warnings), result)

    def test_head_alone_serves_as_embedding(self):
        tensors = dict(self.tensors)
        tensors["lm_head.weight"] = tensors.pop("wte.weight")
        self.assertEqual(*self.dumps([self.write("head", self.config, tensors),
                                      self.write("plain", self.config, self.tensors)], [1, 2, 3]))
        untied = {**self.config, "tie_word_embeddings": False}
        self.check_models_refused(
            (self.write("no_wte", untied, tensors), None, ("wte.weight",)),
            (self.write("no_head", untied, self.tensors), 2, ("lm_head.weight",
                                                              "tie_word_embeddings")))


def wte_with_one_change(t):
    values = t.values()
    values[-1] += 1
    return Tensor(t.shape, values)


class Layouts(Checkpoint):
    """What goes where, with weights for which the answer is seen at once."""

    def setUp(self):
        super().setUp()
        self.config = config_of(n_inner=4, activation_function="relu")
        self.tensors = zero_tensors(self.config)

    def unit(self, shape, row, column):
        values = [0.0] * (shape[0] * shape[1])
        values[row * shape[1] + column] = 1.0
        return Tensor(shape, values)

    def test_square_weights_are_in_by_out(self):  # nntile#370
        t = self.tensors
        norm = [0.5, 0.25, 2.0, 1.0]  # what both LayerNorms yield
        for name in ("h.0.ln_1", "h.0.ln_2"):
            t[name + ".weight"], t[name + ".bias"] = Tensor([4], 0.0), Tensor([4], norm)
        t["h.0.attn.c_attn.weight"] = self.unit([4, 12], 2, 9)     # v[1] = 2
        t["h.0.attn.c_proj.weight"] = self.unit([4, 4], 1, 3)      # y[3] = v[1]
        t["h.0.mlp.c_fc.weight"] = self.unit([4, 4], 0, 1)         # y[1] = 0.5
        t["h.0.mlp.c_proj.weight"] = self.unit([4, 4], 1, 2)       # y[2] = 0.5
        model = self.write("unit", self.config, t)
        for found in self.dumps([model], [1, 2], ranks=(None, 2)):
            for name, row in (("ln_1", norm), ("attn.v", [0, 2, 0, 0]), ("attn.q", [0] * 4),
                              ("attn.k", [0] * 4), ("attn.heads", [0, 2, 0, 0]),
                              ("attn.c_proj", [0, 0, 0, 2]), ("mlp.c_fc", [0, .5, 0, 0]),
                              ("mlp.act", [0, .5, 0, 0]), ("mlp.c_proj", [0, 0, .5, 0]),
                              ("resid_2", [0, 0, .5, 2])):
                self.assertEqual(found["h.0." + name], ([2, 4], row * 2), name)

    def test_bias_is_added_once(self):  # text-generation-inference#1036
        b1, b2 = [1.0, 2.0, 3.0, 0.1], [0.7, 1e-3, 5.0, 1 / 3]
        self.tensors["h.0.attn.c_proj.bias"] = Tensor([4], b1)
        self.tensors["h.0.mlp.c_proj.bias"] = Tensor([4], b2)
        model = self.write("bias", self.config, self.tensors)
        single = [Tensor([4], b).values() for b in (b1, b2)]  # as float32
        together = Tensor([4], [x + y for x, y in zip(*single)]).values()
        for found in self.dumps([model], [1], ranks=(None, 1, 2, 4, 5)):
            self.assertEqual(found["h.0.attn.c_proj"][1], single[0])
            self.assertEqual(found["h.0.resid_1"][1], single[0])
            self.assertEqual(found["h.0.mlp.c_proj"][1], single[1])
            self.assertEqual(found["h.0.resid_2"][1], together)

    def test_activation_function_is_honoured(self):  # CTranslate2#488
        t = self.tensors
        t["h.0.ln_2.weight"], t["h.0.ln_2.bias"] = Tensor([4], 0.0), Tensor([4], [1, -3, 0, 2])
        t["h.0.mlp.c_fc.weight"] = Tensor([4, 4], [float(i == j) for i in range(4) for j in range(4)])
        tanh_form, erf_form = (0.8411920, -0.0036374), (0.8413447, -0.0040497)
        known = {"gelu_new": tanh_form, "gelu_fast": tanh_form, "gelu_pytorch_tanh": tanh_form,
                 "gelu": erf_form, "quick_gelu": (0.8457958, -0.0180713), "relu": (1, 0),
                 "silu": (0.7310586, -0.1422776), "tanh": (0.7615942, -0.9950548)}
        models = [self.write(name, {**self.config, "activation_function": name}, t)
                  for name in known]
        for (name, (at_1, at_minus_3)), found in zip(known.items(), self.dumps(models, [1])):
            self.assert_close(found["h.0.mlp.act"][1][:3], [at_1, at_minus_3, 0], 2e-7, name)
        unknown = self.write("x", {**self.config, "activation_function": "swoosh"}, t)
        self.check_models_refused((unknown, None, ("activation_function", "swoosh")))

    def test_position_table_of_another_length(self):  # keras-hub#1704
        config = {**self.config, "n_positions": 32}
        model = self.write("short", config, self.tensors)  # wpe [16, 4]
        self.check_models_refused(*((model, ranks, ("wpe.weight", "32", "16"))
                                    for ranks in (None, 2)))

    def test_fields_that_change_the_result_are_honoured_or_refused(self):
        fields = {"add_cross_attention": True, "model_type": "gptj", "n_head": 3, "n_layer": 0,
                  "n_embd": "4", "quantization_config": {"bits": 4}}
        self.check_models_refused(*(
            (self.write(field, {**self.config, field: value}, self.tensors), None, (field,))
            for field, value in fields.items()))


class Sharding(Checkpoint):
    def test_heads_not_divisible_by_ranks(self):  # distributed-llama#98
        for n_head, ranks in ((25, 2), (25, 4), (12, 5), (12, 8), (2, 3)):
            config = config_of(n_layer=1, n_embd=2 * n_head, n_head=n_head, n_inner=11,
                               vocab_size=13)
            model = self.write(f"h{n_head}", config, random_tensors(config, n_head))
            one, many = self.dumps([model], [1, 2, 3], ranks=(None, ranks))
            self.assertEqual(set(one), set(many))
            for name, (shape, values) in one.items():
                scale = max(map(abs, values))
                self.assertEqual(many[name][0], shape)
                self.assert_close(many[name][1], values, 2 ** -24 * 50 * scale, f"{name} at {ranks}")

    def test_every_id_is_reachable_at_every_rank_count(self):  # vllm#578
        small = forced_model(self.folder / "7", range(7), vocab_size=7, tokenizer=None)
        ids = [50255, 50256, 25128, 25129, 16752, 33504, 0]
        large = forced_model(self.folder / "50257", ids, tokenizer=None)
        jobs = [(["generate", "--model", model, "--temperature", 0, "--max-tokens", 7, "--json",
                  *ids_words([v - 1])], ranks)
                for model, v in ((small, 7), (large, 50257)) for ranks in (None, 2, 4, 8)]
        for i, result in enumerate(run_all(jobs)):
            sequence, = self.object_of(result)["sequences"]
            self.assertEqual(sequence["ids"], list(range(7)) if i < 4 else ids, result)

    def test_mixed_dtypes_are_converted_each_from_its_own(self):  # FasterTransformer#474
        config = config_of(n_layer=2, n_embd=6, n_head=3, vocab_size=9)
        drawn = random_tensors(config, 5)
        kinds = ["F32", "BF16", "F64", "F16"]
        mixed = {name: t.to(kinds[i % 4]) for i, (name, t) in enumerate(drawn.items())}
        plain = {name: t.to("F32") for name, t in mixed.items()}
        a = self.write("mixed", {**config, "torch_dtype": "float32"}, mixed)
        b = self.write("plain", {**config, "torch_dtype": "bfloat16"}, plain)
        mixed_1, mixed_2, plain_1, plain_2 = self.dumps([a, b], [1, 2, 3], ranks=(None, 2))
        self.assertEqual(mixed_1, plain_1)
        self.assertEqual(mixed_2, plain_2)


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
                         b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
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
        self.check_models_refused(*(
            (self.bad(f"cut{n}", self.good[:n]), ranks, ("model.safetensors",))
            for n, ranks in ((0, None), (7, None), (8, None), (9, None), (len(self.good) // 2, None),
                             (len(self.good) - 1, 2))))

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
