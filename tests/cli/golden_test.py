"""tests/data/golden: what transformers computes in float64, at 1 to 5 ranks, both transports."""
import json
import sys
import unittest

from harness import DATA, CliTest, ids_words, run_all
from models import read_safetensors

GOLDEN = DATA / "golden"
RANKS = (1, 2, 3, 4, 5)
CASES = sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir())
EPSILON = 2.0 ** -24  # rounding of one float32 operation, relative


def expected_of(case):
    return json.loads((GOLDEN / case / "expected.json").read_text())["greedy"]


def transport(case, ranks):
    """Both transports meet every case, and every rank count."""
    return ("shm", "mpi")[(CASES.index(case) + ranks) % 2]


def tolerance(config, expected):
    """A sum of n terms in float32 is off by at most n EPSILON times the terms' magnitude; each of
    the layers adds two such sums to the residual stream, and the head takes one more. Magnitudes
    are those of the tensor itself."""
    longest = max(config["n_embd"], config.get("n_inner") or 4 * config["n_embd"])
    sums = 2 * config["n_layer"] + 1
    return longest * sums * EPSILON * max(map(abs, expected))


class GoldenCase(CliTest):
    """One case: the methods below are given its name by make()."""

    def dumps(self, case, ids):
        """{ranks: tensors of `dump`}."""
        outs = {p: self.folder / f"{p}.safetensors" for p in RANKS}
        jobs = [(["dump", "--model", GOLDEN / case, "--comm", transport(case, p), *ids_words(ids),
                  "--out", out], p if p > 1 else None) for p, out in outs.items()]
        for result in run_all(jobs):
            self.assertEqual(result.code, 0, result)
        return {p: read_safetensors(out) for p, out in outs.items()}

    def check_activations(self, case):
        """Logits (and all other golden tensors) of the long prompt, and, since logits of all
        positions are dumped, its greedy ids: the choices of every step stand in one pass."""
        expected = read_safetensors(GOLDEN / case / "expected.safetensors")
        config = json.loads((GOLDEN / case / "config.json").read_text())
        longest = expected_of(case)[-1]
        prompt = expected.pop("input_ids").values()
        self.assertEqual(longest["prompt_ids"], prompt)
        for p, found in self.dumps(case, prompt + longest["ids"][:-1]).items():
            for name, want in expected.items():
                with self.subTest(ranks=p, tensor=name):
                    rows, width = found[name].shape
                    self.assertEqual([rows, width], [len(prompt) + 15, want.shape[1]])
                    values = want.values()
                    self.assert_close(found[name].values()[:len(values)], values,
                                      tolerance(config, values), f"{name} at {p} ranks")
            logits, width = found["logits"].values(), found["logits"].shape[1]
            rows = [logits[i * width:(i + 1) * width] for i in range(len(prompt) - 1, rows)]
            self.assertEqual([row.index(max(row)) for row in rows], longest["ids"], f"{p} ranks")

    def check_greedy(self, case):
        """The three prompts as one ragged batch. The choice is the same code for every case: all
        rank counts for a few, two for each."""
        wanted = expected_of(case)
        all_ranks = case in ("base", "combined", "untied", "sharded")
        others = RANKS[1:] if all_ranks else (RANKS[1 + CASES.index(case) % 4],)
        jobs = [(["generate", "--model", GOLDEN / case, "--temperature", 0, "--max-tokens", 16,
                  "--comm", transport(case, p), "--json",
                  *ids_words(*(g["prompt_ids"] for g in wanted))], p if p > 1 else None)
                for p in (1, *others)]
        for result in run_all(jobs):
            sequences = self.object_of(result)["sequences"]
            self.assertEqual([s["ids"] for s in sequences], [g["ids"] for g in wanted], result)
            self.assertEqual([s["prompt_ids"] for s in sequences],
                             [g["prompt_ids"] for g in wanted], result)


def make(case):
    def test_activations(self):
        self.check_activations(case)

    def test_greedy(self):
        self.check_greedy(case)
    setattr(GoldenCase, f"test_{case}_activations", test_activations)
    setattr(GoldenCase, f"test_{case}_greedy", test_greedy)


# "--part I/N" runs every Nth case: ctest runs the parts as tests of their own.
part, parts = 0, 1
if "--part" in sys.argv:
    at = sys.argv.index("--part")
    part, parts = map(int, sys.argv[at + 1].split("/"))
    del sys.argv[at:at + 2]
for name in CASES[part::parts]:
    make(name)

if __name__ == "__main__":
    unittest.main()
