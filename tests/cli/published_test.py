"""Models whose outputs others published: tiny_random_gpt2, gpt_nano_sort, and the demo model."""
import itertools
import json
import unittest

from harness import DATA, DEMO, SORT, TINY, CliTest, ids_words, run_all
from models import read_safetensors

TINY_GREEDY = [(g["prompt"], g["ids"][len(g["prompt"]):])
               for g in json.loads((TINY / "expected.json").read_text())["greedy"]]


class TinyRandomGpt2(CliTest):
    """Greedy ids published with onnxruntime-genai. 4 heads: 5 and 7 ranks have ranks without."""

    def command(self, *args, prompts=TINY_GREEDY):
        return ["generate", "--model", TINY, "--temperature", 0, "--max-tokens",
                len(prompts[0][1]), "--json", *ids_words(*(p for p, _ in prompts)), *args]

    def check(self, jobs, prompts=TINY_GREEDY):
        for result in run_all(jobs):
            sequences = self.object_of(result)["sequences"]
            self.assertEqual([s["ids"] for s in sequences], [ids for _, ids in prompts], result)

    def test_every_rank_count_and_transport(self):
        self.check([(self.command("--comm", comm), ranks)
                    for ranks in (1, 2, 3, 4, 5, 7) for comm in ("shm", "mpi")])

    def test_a_prompt_alone(self):
        for prompt in TINY_GREEDY:
            self.check([(self.command(prompts=[prompt]), None)], [prompt])

    def test_ragged_batch_and_prompt_chunks(self):
        # A longer beginning of the same text goes on as the published one does.
        (prompt, ids), other = TINY_GREEDY
        ragged = [(prompt + ids[:2], ids[2:]), (other[0] + other[1][:1], other[1][1:3]),
                  (other[0], other[1][:4])]
        ragged = [(p, i + [None] * (4 - len(i))) for p, i in ragged]
        jobs = [(self.command("--prefill-chunk", chunk, prompts=ragged), ranks)
                for ranks in (None, 3) for chunk in (1, 2, 3, 512)]
        for result in run_all(jobs):
            for sequence, (_, wanted) in zip(self.object_of(result)["sequences"], ragged):
                known = [i for i in wanted if i is not None]
                self.assertEqual(sequence["ids"][:len(known)], known, result)
                self.assertEqual(len(sequence["ids"]), 4, result)


class GptNanoSort(CliTest):
    """A trained model that sorts six letters: six ids in, the six in order out."""

    def test_sorts_every_input(self):
        inputs = [list(p) for p in itertools.product(range(3), repeat=6)]
        command = ["generate", "--model", SORT, "--temperature", 0, "--max-tokens", 6, "--json",
                   *ids_words(*inputs)]
        for result in run_all([(command, ranks) for ranks in (None, 2, 3)]):
            sequences = self.object_of(result)["sequences"]
            self.assertEqual([s["prompt_ids"] for s in sequences], inputs)
            self.assertEqual([s["ids"] for s in sequences], [sorted(p) for p in inputs])

    def expected(self):
        """[{name of ours: values}] of the three rows in the PyTorch file."""
        known = read_safetensors(SORT / "partials.safetensors")
        names = {"x": "embed", "ln1": "h.0.ln_1", "y": "h.0.attn.heads",
                 "yProj": "h.0.attn.c_proj", "attnResid": "h.0.resid_1", "ln2": "h.0.ln_2",
                 "fc": "h.0.mlp.c_fc", "gelu": "h.0.mlp.act", "mlp": "h.0.mlp.c_proj",
                 "mlpResid": "h.0.resid_2", "block0": "h.0.resid_2", "block1": "h.1.resid_2",
                 "block2": "h.2.resid_2", "ln_f": "ln_f", "lm_head": "logits"}
        rows = [{} for _ in range(3)]
        for theirs, ours in names.items():
            values = known[theirs].values()
            size = len(values) // 3
            for i, row in enumerate(rows):
                row[theirs] = (ours, values[i * size:(i + 1) * size])
        for theirs in "qkv":
            heads, length, width = known[theirs].shape[1:]
            values = known[theirs].values()
            for i, row in enumerate(rows):
                # [heads, T, width] → [T, heads * width]
                row[theirs] = (f"h.0.attn.{theirs}", [
                    values[((i * heads + h) * length + t) * width + j]
                    for t in range(length) for h in range(heads) for j in range(width)])
        ids = [int(x) for x in known["idx"].values()]
        return [ids[i * 11:(i + 1) * 11] for i in range(3)], rows

    def test_activations_of_pytorch(self):
        inputs, rows = self.expected()
        jobs, outs = [], []
        for ranks in (1, 2, 3, 4, 5):
            for i, ids in enumerate(inputs):
                if ranks > 1 and i != ranks % 3:
                    continue  # at 1 rank all rows; at more, one each
                out = self.folder / f"{ranks}_{i}.safetensors"
                outs.append((ranks, i, out))
                jobs.append((["dump", "--model", SORT, *ids_words(ids), "--out", out],
                             ranks if ranks > 1 else None))
        for result in run_all(jobs):
            self.assertEqual(result.code, 0, result)
        for ranks, i, out in outs:
            found = read_safetensors(out)
            for theirs, (ours, values) in rows[i].items():
                with self.subTest(ranks=ranks, row=i, tensor=ours, theirs=theirs):
                    scale = max(map(abs, values))
                    self.assert_close(found[ours].values(), values, 1e-5 * scale, ours)


class Demo(CliTest):
    """The model that ships, against transformers and the tokenizers library in float64."""

    def test_greedy_texts(self):
        golden = json.loads((DATA / "golden" / "demo.json").read_text())["greedy"]
        command = ["generate", "--model", DEMO, "--temperature", 0, "--max-tokens", 32, "--json"]
        for g in golden:
            command += ["--prompt", g["prompt"]]
        for result in run_all([(command, ranks) for ranks in (None, 2, 3, 4, 5)]):
            sequences = self.object_of(result)["sequences"]
            for g, s in zip(golden, sequences, strict=True):
                self.assertEqual(s["prompt_ids"], g["prompt_ids"])
                self.assertEqual(s["ids"], g["ids"], result)
                self.assertEqual(s["text"], g["text"])
                self.assertEqual(s["finish_reason"], "length")


if __name__ == "__main__":
    unittest.main()
