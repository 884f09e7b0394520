"""More ranks than cores, heads or work: slow, but right; and what is said about it."""
import json
import os
import unittest

from harness import DATA, DEMO, MPIRUN, OK, TINY, CliTest, execute, ids_words, run, words_of

CORES = len(os.sched_getaffinity(0))


class ManyRanks(CliTest):
    def test_64_ranks(self):
        golden = json.loads((TINY / "expected.json").read_text())["greedy"][0]
        n = len(golden["prompt"])
        for comm in ("shm", "mpi"):
            sequence, = self.generate(TINY, "--max-tokens", 3, "--comm", comm,
                                      *ids_words(golden["prompt"]), ranks=64, timeout=200)
            self.assertEqual(sequence["ids"], golden["ids"][n:n + 3])
        golden = json.loads((DATA / "golden" / "demo.json").read_text())["greedy"][0]
        sequence, = self.generate(DEMO, "--max-tokens", 3, "--prompt", golden["prompt"], ranks=64,
                                  timeout=200)
        self.assertEqual(sequence["ids"], golden["ids"][:3])

    def test_8_ranks(self):
        for golden in json.loads((DATA / "golden" / "demo.json").read_text())["greedy"][:2]:
            sequence, = self.generate(DEMO, "--max-tokens", 16, "--prompt", golden["prompt"],
                                      ranks=8)
            self.assertEqual(sequence["ids"], golden["ids"][:16])

    def test_the_start_warns_once_of_too_few_cores(self):
        many = CORES + 1
        for args, ranks, remedy in (((), many, "fewer ranks"),
                                    (("--threads", CORES), 2, "--threads"),
                                    (("--threads", CORES + 1), None, "--threads")):
            if ranks == 2 and CORES == 1:
                continue
            result = run(["generate", "--model", TINY, "--max-tokens", 1, *args, *ids_words([1])],
                         ranks)
            self.assertEqual(result.code, OK, result)
            self.assertEqual(len(result.warnings), 1, result)
            for text in (remedy, "--bind-to", f"{CORES} core"):
                self.assertIn(text, result.warnings[0], result)

    def test_no_warning_when_there_are_enough(self):
        for ranks in (None, min(2, CORES)):
            result = run(["generate", "--model", TINY, "--max-tokens", 1, *ids_words([1])], ranks)
            self.assertEqual((result.code, result.warnings), (OK, []), result)

    @unittest.skipUnless("--allow-run-as-root" in MPIRUN and os.geteuid() == 0, "Open MPI, as root")
    def test_root_by_environment(self):
        words = [w for w in words_of(["generate", "--model", TINY, "--max-tokens", 1,
                                      *ids_words([1])], 2) if w != "--allow-run-as-root"]
        result = execute(words, env={"OMPI_ALLOW_RUN_AS_ROOT": "1",
                                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.assertEqual((result.code, result.errors), (OK, []), result)


if __name__ == "__main__":
    unittest.main()
