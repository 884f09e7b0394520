"""Weight files as they come: names, layouts, dtypes, ties, shares of every rank."""
import unittest

from checkpoint_case import Checkpoint
from harness import OK, ids_words, run, run_all
from models import Tensor, config_of, forced_model, random_tensors, with_prefix, zero_tensors


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
        identity = [float(i == j) for i in range(4) for j in range(4)]
        t["h.0.mlp.c_fc.weight"] = Tensor([4, 4], identity)
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
                self.assert_close(many[name][1], values, 2 ** -24 * 50 * scale, (name, ranks))

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


if __name__ == "__main__":
    unittest.main()
