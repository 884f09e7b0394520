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

    def dump(self, model, *ids, ranks=None):
        out = self.folder / f"{model.name}_{ranks}.safetensors"
        result = run(["dump", "--model", model, *ids_words(ids or [1, 2, 3]), "--out", out], ranks)
        self.assertEqual(result.code, OK, result)
        return {name: (t.shape, t.values()) for name, t in read_safetensors(out).items()}

    def refused(self, model, *texts, ranks=None):
        result = run(["generate", "--model", model, "--max-tokens", 1, *ids_words([1])], ranks)
        self.assert_refused(result, MODEL_FILES, *texts, within=10)
        return result


class Names(Checkpoint):
    def setUp(self):
        super().setUp()
        self.config = config_of(n_layer=2, n_embd=6, n_head=3, vocab_size=9)
        self.tensors = random_tensors(self.config, 1)

    def test_with_and_without_prefix(self):  # onnxruntime/mobius#113
        plain = self.write("plain", self.config, self.tensors)
        prefixed = self.write("prefixed", self.config, with_prefix(self.tensors))
        self.assertEqual(self.dump(plain), self.dump(prefixed))
        wrapped = self.write("wrapped", self.config,
                             with_prefix(self.tensors, "model.transformer."))
        self.refused(wrapped, "model.transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.weight")

    def test_missing_and_unused_tensors(self):
        lacking = dict(self.tensors)
        del lacking["h.1.mlp.c_proj.bias"]
        model = self.write("lacking", self.config, with_prefix(lacking))
        for ranks in (None, 2):
            self.refused(model, "transformer.h.1.mlp.c_proj.bias", ranks=ranks)
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
        self.assertEqual(self.dump(plain), self.dump(redundant))
        self.assertEqual(self.dump(plain), self.dump(said))
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
        self.assertEqual(self.dump(model),
                         self.dump(self.write("plain", self.config, self.tensors)))
        for ranks in (None, 3):
            result = run(["generate", "--model", model, "--max-tokens", 1, *ids_words([1])], ranks)
            self.assertEqual(result.code, OK, result)
            self.assertIn("lm_head.weight", " ".join(result.warnings), result)

    def test_head_alone_serves_as_embedding(self):
        tensors = dict(self.tensors)
        tensors["lm_head.weight"] = tensors.pop("wte.weight")
        self.assertEqual(self.dump(self.write("head", self.config, tensors)),
                         self.dump(self.write("plain", self.config, self.tensors)))
        untied = {**self.config, "tie_word_embeddings": False}
        self.refused(self.write("no_wte", untied, tensors), "wte.weight")
        self.refused(self.write("no_head", untied, self.tensors), "lm_head.weight",
                     "tie_word_embeddings")


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
        for ranks in (None, 2):
            found = self.dump(model, 1, 2, ranks=ranks)
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
        for ranks in (None, 1, 2, 4, 5):
            found = self.dump(model, 1, ranks=ranks)
            self.assertEqual(found["h.0.attn.c_proj"][1], single[0])
            self.assertEqual(found["h.0.resid_1"][1], single[0])
            self.assertEqual(found["h.0.mlp.c_proj"][1], single[1])
            self.assertEqual(found["h.0.resid_2"][1], together)

    def test_activation_function_is_honoured(self):  # CTranslate2#488
        t = self.tensors
        t["h.0.ln_2.weight"], t["h.0.ln_2.bias"] = Tensor([4], 0.0), Tensor([4], [1, -3, 0, 2])
        t["h.0.mlp.c_fc.weight"] = Tensor([4, 4], [float(i == j) for i in range(4) for j in range(4)])
        tanh_form, erf_form = (0.8411920, -0.0036374), (0.8413447, -0.0040497)
        for name, (at_1, at_minus_3) in (
                ("gelu_new", tanh_form), ("gelu_fast", tanh_form), ("gelu_pytorch_tanh", tanh_form),
                ("gelu", erf_form), ("quick_gelu", (0.8457958, -0.0180713)), ("relu", (1, 0)),
                ("silu", (0.7310586, -0.1422776)), ("tanh", (0.7615942, -0.9950548))):
            model = self.write(name, {**self.config, "activation_function": name}, t)
            found = self.dump(model, 1)["h.0.mlp.act"][1]
            self.assert_close(found[:3], [at_1, at_minus_3, 0], 2e-7, name)
        self.refused(self.write("x", {**self.config, "activation_function": "swoosh"}, t),
                     "activation_function", "swoosh")

    def test_position_table_of_another_length(self):  # keras-hub#1704
        config = {**self.config, "n_positions": 32}
        model = self.write("short", config, self.tensors)  # wpe [16, 4]
        for ranks in (None, 2):
            self.refused(model, "wpe.weight", "32", "16", ranks=ranks)

    def test_fields_that_change_the_result_are_honoured_or_refused(self):
        for field, value in (("add_cross_attention", True), ("model_type", "gptj"),
                             ("n_head", 3), ("n_layer", 0), ("n_embd", "4"),
                             ("quantization_config", {"bits": 4})):
            self.refused(self.write(field, {**self.config, field: value}, self.tensors), field)


class Sharding(Checkpoint):
    def test_heads_not_divisible_by_ranks(self):  # distributed-llama#98
        for n_head, ranks in ((25, 2), (25, 4), (12, 5), (12, 8), (2, 3)):
            config = config_of(n_layer=1, n_embd=2 * n_head, n_head=n_head, n_inner=11,
                               vocab_size=13)
            model = self.write(f"h{n_head}", config, random_tensors(config, n_head))
            one, many = self.dump(model), self.dump(model, ranks=ranks)
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
        self.assertEqual(self.dump(a), self.dump(b))
        self.assertEqual(self.dump(a, ranks=2), self.dump(b, ranks=2))


class HostileFiles(Checkpoint):
    """Refused with the file's or tensor's name: the parser's own tests have the long list."""

    def setUp(self):
        super().setUp()
        self.config = config_of()
        self.model = self.write("m", self.config, zero_tensors(self.config))
        self.file = self.model / "model.safetensors"
        self.good = self.file.read_bytes()

    def header(self):
        n, = struct.unpack("<Q", self.good[:8])
        return json.loads(self.good[8:8 + n]), self.good[8 + n:]

    def with_header(self, text, data):
        self.file.write_bytes(struct.pack("<Q", len(text)) + text.encode() + data)

    def test_pointer_file(self):  # transformers#27923
        self.file.write_text("version https://git-lfs.github.com/spec/v1\n"
                             "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
                             "size 548105171\n")
        self.refused(self.model, str(self.file), "pointer", ranks=2)

    def test_structure(self):  # openasr#73
        header, data = self.header()
        text = json.dumps(header)
        wte = json.dumps(header["wte.weight"])
        self.with_header(text[:-1] + f', "wte.weight": {wte}}}', data)
        self.refused(self.model, "wte.weight")
        overlap = json.loads(text)
        begin, end = overlap["wpe.weight"]["data_offsets"]
        overlap["wpe.weight"]["data_offsets"] = [begin - 32, end - 32]
        self.with_header(json.dumps(overlap), data)
        self.refused(self.model, "wpe.weight")
        self.file.write_bytes(self.good + b"\0\0\0\0")
        self.refused(self.model, str(self.file))
        hole = {name: {**t, "data_offsets": [x + 4 * (t["data_offsets"][0] > 0)
                                             for x in t["data_offsets"]]}
                for name, t in header.items()}
        first = header["wte.weight"]["data_offsets"][1]
        self.with_header(json.dumps(hole), data[:first] + b"\0" * 4 + data[first:])
        self.refused(self.model, "wpe.weight")

    def test_cut_files(self):
        for n in (0, 7, 8, 9, len(self.good) // 2, len(self.good) - 1):
            self.file.write_bytes(self.good[:n])
            self.refused(self.model, str(self.file), ranks=2 if n == len(self.good) - 1 else None)

    def test_missing_shard(self):  # sglang#32279
        names = list(read_safetensors(self.file))
        files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        place = {name: files[i % 2] for i, name in enumerate(names)}
        tensors = read_safetensors(self.file)
        for file in files:
            write_safetensors(self.model / file, {n: tensors[n] for n in names if place[n] == file})
        (self.model / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": place}))
        both = run(["dump", "--model", self.model, "--stats", *ids_words([1])])
        self.assertEqual(both.code, OK, both)
        self.assertIn("index", " ".join(both.warnings))  # model.safetensors wins, with a warning
        self.file.unlink()
        sharded = run(["dump", "--model", self.model, "--stats", *ids_words([1])])
        self.assertEqual((sharded.code, sharded.out), (OK, both.out), sharded)
        (self.model / files[1]).unlink()
        self.refused(self.model, files[1], ranks=3)

    def test_a_folder_in_the_files_place(self):
        for name in ("model.safetensors", "config.json"):
            path = self.model / name
            kept = path.read_bytes()
            path.unlink()
            path.mkdir()
            self.refused(self.model, name, ranks=2)
            path.rmdir()
            path.write_bytes(kept)

    def test_bad_config(self):
        for text in ("", "{", "[]", '{"model_type": "gpt2"', '{"model_type": "gpt2"}', "\0",
                     json.dumps(self.config)[:-1] + ', "n_head": 2}'):
            (self.model / "config.json").write_text(text)
            self.refused(self.model, "config.json")

    def test_huge_numbers_allocate_nothing(self):
        for n in (2 ** 63, 2 ** 64 - 1, 2 ** 31, len(self.good)):
            self.file.write_bytes(struct.pack("<Q", n) + self.good[8:])
            self.refused(self.model, str(self.file))
        tensors = zero_tensors(self.config)
        data = safetensors_bytes(tensors)
        self.file.write_bytes(data.replace(b'"shape": [8, 4]', b'"shape": [8,4e9]'))
        self.refused(self.model, str(self.file))


class Tokenizers(Checkpoint):
    def test_files_that_are_not_in_order(self):
        model = constant_model(self.folder / "t", [0.0, 1.0])
        for vocab, merges in (("{", "#version: 0.2\n"), ('{"a": 0, "b": 0}', "#version: 0.2\n"),
                              ('{"a": -1}', ""), ('{"a": 0}', None), ('{"a": 0}', "a b c\n")):
            (model / "vocab.json").write_text(vocab)
            (model / "merges.txt").unlink(missing_ok=True)
            if merges is not None:
                (model / "merges.txt").write_text(merges)
            self.refused(model, "vocab.json" if merges != "a b c\n" else "merges.txt", ranks=2)


if __name__ == "__main__":
    unittest.main()
