"""shardlm tokenize and detokenize: the published vectors and whole books, one process each way."""
import json
import unittest

from harness import DATA, DEMO, OK, USAGE, CliTest, run
from models import GPT2_BPE


class Tokenizer(CliTest):
    def setUp(self):
        super().setUp()
        self.cases = json.loads((DATA / "gpt2_tokenizer_vectors.json").read_text())["cases"]

    def lines(self, command, values, *args):
        text = "".join(json.dumps(v) + "\n" for v in values)
        result = run([command, "--model", GPT2_BPE, "--json-lines", *args], stdin=text.encode())
        self.assertEqual(result.code, OK, result)
        return [json.loads(line) for line in result.out.decode().split("\n")[:-1]]

    def test_vectors(self):
        self.assertEqual(len(self.cases), 537)
        for special, args in ((True, ()), (False, ("--no-special",))):
            cases = [c for c in self.cases if c["allow_special"] == special]
            self.assertGreater(len(cases), 0)
            found = self.lines("tokenize", [c["text"] for c in cases], *args)
            self.assertEqual(len(found), len(cases))
            for case, ids in zip(cases, found):
                self.assertEqual(ids, case["ids"], case["name"])

    def test_back_to_text(self):
        found = self.lines("detokenize", [c["ids"] for c in self.cases])
        self.assertEqual(found, [c["text"] for c in self.cases])

    def test_demo_round_trip(self):
        text = (DATA / "corpus" / "childrens_classics_valid.txt").read_bytes()
        ids = run(["tokenize", "--model", DEMO], stdin=text)
        self.assertEqual(len(ids.out.split()), 85681)
        back = run(["detokenize", "--model", DEMO], stdin=ids.out)
        self.assertEqual(back.out, text)

    def test_bad_lines(self):
        for command, line in (("tokenize", b"5\n"), ("tokenize", b'"a\n'),
                              ("detokenize", b"[-1]\n"), ("detokenize", b"[1.5]\n"), ("detokenize", b'"a"\n')):
            result = run([command, "--model", GPT2_BPE, "--json-lines"], stdin=line)
            self.assert_refused(result, USAGE, "line 1")
        result = run(["detokenize", "--model", GPT2_BPE, "--ids", "50257"])
        self.assert_refused(result, USAGE, "50257")


if __name__ == "__main__":
    unittest.main()
