"""The choice of back end, types and GPUs: on the program as it is built, and with emulated GPUs."""
import concurrent.futures
import functools
import re
import unittest

from harness import (AT_ONCE, DEMO, EMULATED, MPIRUN, OK, RESOURCES, SOON, TINY, USAGE, CliTest,
                     execute, ids_words, parse_object, run, run_emulated)

GENERATE = ["generate", "--model", TINY, "--temperature", "0", "--max-tokens", 6,
            *ids_words([7, 11, 13], [5])]


def line_with(result, text):
    """The one line of standard error that holds the text, or None."""
    lines = [line for line in result.err.splitlines() if text in line]
    return lines[0] if len(lines) == 1 else None


@functools.cache
def cpu_ids():
    result = run([*GENERATE, "--backend", "cpu", "--json"])
    return [s["ids"] for s in parse_object(result.out)["sequences"]]


class WithoutGpu(CliTest):
    """The normal program, which may have CUDA built in, where there is no GPU."""

    def test_auto_takes_the_cpu_and_says_why_in_one_line(self):
        for ranks in (None, 2):
            result = run([*GENERATE, "--json"], ranks)
            if "backend: cuda" in result.err:
                self.skipTest("this machine has GPUs")
            self.assertEqual(self.object_of(result)["backend"], "cpu")
            self.assertRegex(line_with(result, "backend:"), r"backend: cpu \(.+\)$")

    def test_by_name_it_says_nothing(self):
        result = run([*GENERATE, "--backend", "cpu"])
        self.assertEqual((result.code, result.err.replace("\n", "")), (OK, ""), result)

    def test_cuda_without_gpu_ends_with_the_code_of_resources(self):
        for ranks in (None, 3):
            result = run([*GENERATE, "--backend", "cuda"], ranks,
                         env={"CUDA_VISIBLE_DEVICES": ""})
            self.assert_refused(result, RESOURCES, "--backend cuda", "rank", "--backend cpu",
                                within=2 * SOON)

    def test_what_does_not_fit_the_cpu_is_refused(self):
        cpu = [*GENERATE, "--backend", "cpu"]
        self.check_refused(USAGE, [
            ([*cpu, "--comm", "nccl"], 2, ["--comm nccl", "--backend cuda"]),
            ([*cpu, "--dtype", "f16", "--comm", "ipc"], 3, ["--comm ipc"]),
            ([*GENERATE, "--backend", "cuda", "--comm", "shm"], 2, ["--comm shm", "staged"]),
        ], within=2 * SOON)

    def test_options_without_effect_get_a_line(self):
        result = run([*GENERATE, "--backend", "cpu", "--no-graphs", "--allow-shared-gpu"], 2)
        self.assertEqual(result.code, OK, result)
        for flag in ("--no-graphs", "--allow-shared-gpu"):
            self.assertIn("no effect", line_with(result, flag), result)


@unittest.skipUnless(EMULATED, "no emulated GPUs are built")
class Emulated(CliTest):
    def check_like_cpu(self, *args, ranks=None, gpus=4, **expected):
        result = run_emulated([*GENERATE, "--json", *args], ranks, gpus)
        value = self.object_of(result)
        self.assertEqual([s["ids"] for s in value["sequences"]], cpu_ids(), result)
        self.assertEqual(value["backend"], "cuda", result)
        self.assertEqual(value["shared_gpu"], expected.get("shared", False), result)
        return result

    def test_auto(self):
        result = self.check_like_cpu(ranks=3)
        self.assertRegex(line_with(result, "backend:"),
                         r"backend: cuda, 3 GPUs on 1 host \(Emulated GPU\); all-reduce: ipc up to")
        for gpus, reason in ((0, "no CUDA device"), ("driver", "driver")):
            for ranks in (None, 2):
                result = run_emulated([*GENERATE, "--json"], ranks, gpus)
                self.assertEqual(self.object_of(result)["backend"], "cpu")
                self.assertRegex(line_with(result, "backend:"), rf"backend: cpu \(.*{reason}")

    def test_all_reduces_at_several_ranks(self):
        def check(comm, ranks):
            self.check_like_cpu("--backend", "cuda", "--comm", comm, ranks=ranks)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [pool.submit(check, comm, ranks) for comm in ("auto", "nccl", "ipc", "staged")
                    for ranks in (None, 2, 3, 4)]
            for job in jobs:
                job.result()

    def test_without_graphs(self):
        self.check_like_cpu("--backend", "cuda", "--no-graphs", ranks=2)

    def test_types(self):
        """Rounded weights may choose other tokens; that they are used, the memory says."""
        needed = {}
        for dtype, kv in (("f32", "auto"), ("bf16", "auto"), ("f16", "f32"), ("f32", "bf16")):
            result = run_emulated([*GENERATE, "--json", "--dtype", dtype, "--kv-dtype", kv,
                                   "--verbose"])
            self.assertEqual(len(self.object_of(result)["sequences"]), 2)
            self.assertIn(f"weights {dtype}, activations {dtype}, keys and values "
                          f"{dtype if kv == 'auto' else kv}", result.err)
            kept = re.search(r"(\d+) bytes kept", result.err)
            plan = self.json_of(["plan", "--model", TINY, "--ranks", 1, "--dtype", dtype])
            self.assertEqual(int(kept[1]), plan["per_rank"][0]["weight_bytes"])
            needed[dtype, kv] = line_with(result, "GPU memory:")
        self.assertEqual(len(set(needed.values())), 4, needed)

    def test_fewer_gpus_than_ranks(self):
        for backend in ("auto", "cuda"):
            result = run_emulated([*GENERATE, "--backend", backend], 3, gpus=2)
            self.assert_refused(result, RESOURCES, "3 GPUs for ranks 0-2", "0000:",
                                "at most 2 ranks", "--allow-shared-gpu", "--backend cpu")

    def test_one_rank_without_a_gpu(self):
        def job(*args):
            words = list(MPIRUN)
            for i, gpus in enumerate((4, 0)):
                words += [":"] * i + ["-n", "1", "env", f"SHARDLM_FAKE_GPUS={gpus}", EMULATED,
                                      *map(str, [*GENERATE, *args])]
            return execute(words)
        result = job("--json")
        self.assertEqual(self.object_of(result)["backend"], "cpu")
        self.assertRegex(line_with(result, "backend:"), r"cpu \(rank 1 on .+: no CUDA device")
        self.assert_refused(job("--backend", "cuda"), RESOURCES, "none for rank 1 on",
                            "no CUDA device")

    def test_sharing(self):
        for ranks, gpus in ((2, 1), (3, 2)):
            for comm in ("auto", "ipc", "staged"):
                result = self.check_like_cpu("--allow-shared-gpu", "--comm", comm, ranks=ranks,
                                             gpus=gpus, shared=True)
                self.assertIn("ranks share", line_with(result, f"warning: {ranks} ranks share"))
        result = run_emulated([*GENERATE, "--allow-shared-gpu", "--comm", "nccl"], 2, gpus=1)
        self.assert_refused(result, USAGE, "--comm nccl", "staged")
        # Enough GPUs: nothing is shared, whatever is allowed.
        self.check_like_cpu("--allow-shared-gpu", "--comm", "nccl", ranks=2)

    def test_no_peer_access(self):
        env = {"SHARDLM_FAKE_GPU_P2P": "0"}
        result = run_emulated([*GENERATE], 2, env=env)
        self.assertEqual(result.code, OK, result)
        self.assertRegex(line_with(result, "backend:"), "all-reduce: nccl")
        result = run_emulated([*GENERATE, "--comm", "ipc"], 2, env=env)
        self.assert_refused(result, USAGE, "ipc", "nccl")

    def test_host_communicators_are_refused(self):
        for comm in ("shm", "mpi"):
            result = run_emulated([*GENERATE, "--comm", comm], 2)
            self.assert_refused(result, USAGE, f"--comm {comm}", "staged", "every rank has a GPU")

    def test_a_model_that_does_not_fit(self):
        env = {"SHARDLM_FAKE_GPU_BYTES": str(50_000_000)}
        model = ["generate", "--model", DEMO, "--prompt", "Once", "--max-tokens", 2]
        for ranks in (None, 2):
            result = run_emulated(model, ranks, env=env)
            self.assert_refused(result, RESOURCES, "does not fit", "weights", "keys and values",
                                "workspace", "free of 47.7 MiB", "cuda device")
        env = {"SHARDLM_FAKE_GPU_BYTES": str(88_000_000)}
        result = run_emulated(model, env=env)
        self.assert_refused(result, RESOURCES, "would fit", "--dtype bf16", "2 ranks")
        for args, ranks in ((("--dtype", "bf16"), None), ((), 2)):
            self.assertEqual(run_emulated([*model, *args], ranks, env=env).code, OK)

    def test_score_is_the_cpus(self):
        args = ["score", "--model", TINY, *ids_words(list(range(1, 60))), "--json"]
        cpu = self.object_of(run([*args, "--backend", "cpu"]))
        for ranks in (None, 2):
            gpu = self.object_of(run_emulated(args, ranks))
            self.assertEqual(gpu["backend"], "cuda")
            self.assertAlmostEqual(gpu["nats"], cpu["nats"], delta=1e-4 * cpu["nats"])


if __name__ == "__main__":
    unittest.main()
