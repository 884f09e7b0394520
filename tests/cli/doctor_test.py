"""shardlm doctor: what it reports, finds and returns; on the program as built, and emulated."""
import json
import os
import unittest

from harness import (DEMO, EMULATED, MODEL_FILES, MPIRUN, OK, RESOURCES, USAGE, CliTest, execute,
                     run, run_emulated)

CORES = len(os.sched_getaffinity(0))
RANK_FIELDS = {"rank", "host", "pid", "cores", "threads", "numa_nodes", "memory_bytes",
               "memory_available_bytes", "memory_limit_bytes", "page_bytes", "huge_pages",
               "shm_free_bytes", "memlock_bytes", "mpi", "cuda_built_in", "cuda_versions",
               "no_gpu_because", "gpus", "device", "device_free_bytes"}
GPU_FIELDS = {"index", "name", "bus_id", "uuid", "compute", "multiprocessors", "memory_bytes",
              "peers"}


def report_of(result):
    return json.loads(result.out)


def has_finding(report, *texts):
    return any(all(t in f["what"] + f["remedy"] for t in texts) for f in report["findings"])


class Doctor(CliTest):
    def check_shape(self, report, ranks):
        self.assertEqual(set(report), {"ranks", "backend", "because", "shared_gpu", "model",
                                       "findings"})
        self.assertEqual([r["rank"] for r in report["ranks"]], list(range(ranks)))
        for rank in report["ranks"]:
            self.assertEqual(set(rank), RANK_FIELDS)
            for gpu in rank["gpus"]:
                self.assertEqual(set(gpu), GPU_FIELDS)
        for finding in report["findings"]:
            self.assertEqual(set(finding), {"what", "remedy", "ends_a_job"})
            self.assertTrue(finding["what"] and finding["remedy"], finding)
        self.assertEqual(len({r["pid"] for r in report["ranks"]}), ranks)

    def test_alone_and_under_mpirun(self):
        for ranks in (None, 1, 2, 4):
            report = self.json_of(["doctor", "--backend", "cpu"], ranks)
            n = ranks or 1
            self.check_shape(report, n)
            self.assertEqual(report["backend"], "cpu")
            self.assertIsNone(report["model"])
            for rank in report["ranks"]:
                self.assertGreater(rank["memory_bytes"], 0)
                self.assertEqual(rank["page_bytes"], os.sysconf("SC_PAGESIZE"))
                self.assertLessEqual(set(rank["cores"]), os.sched_getaffinity(0))
                self.assertTrue(rank["mpi"])
            self.assertEqual(has_finding(report, "ranks on", f"{CORES} core", "at most"),
                             n > CORES, report["findings"])

    def test_text(self):
        result = run(["doctor", "--backend", "cpu", "--model", DEMO], 2)
        self.assertEqual(result.code, OK, result)
        text = result.out.decode()
        for part in ("backend: cpu", "rank", "cores", "keys and values", "findings:"):
            self.assertIn(part, text)
        if CORES >= 2:
            self.assertIn("findings: none", text)

    def test_model(self):
        report = self.json_of(["doctor", "--backend", "cpu", "--model", DEMO,
                               "--kv-tokens", 100], 2)
        model = report["model"]
        self.assertEqual((model["dtype"], model["kv_tokens"]), ("f32", 128))  # blocks of 32
        plan = self.json_of(["plan", "--model", DEMO, "--ranks", 2])["per_rank"]
        for rank, planned in zip(model["per_rank"], plan):
            self.assertEqual(rank["kv_bytes"], 128 * planned["kv_bytes_per_token"])
            self.assertGreaterEqual(rank["weight_bytes"], planned["weight_bytes"])
            self.assertLess(rank["weight_bytes"], 1.15 * planned["weight_bytes"])
            self.assertGreater(rank["usable_bytes"], rank["weight_bytes"])

    def test_a_model_that_does_not_fit(self):
        for ranks in (None, 2):
            result = run(["doctor", "--backend", "cpu", "--model", DEMO, "--kv-tokens", 10**10,
                          "--json"], ranks)
            self.assertEqual(result.code, RESOURCES, result)
            first = report_of(result)["findings"][0]
            self.assertTrue(first["ends_a_job"])
            self.assertIn("does not fit", first["what"])

    def test_a_job_that_would_be_refused(self):
        result = run(["doctor", "--backend", "cuda", "--json"], 2, env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(result.code, RESOURCES, result)
        report = report_of(result)
        self.check_shape(report, 2)
        self.assertIsNone(report["backend"])
        self.assertTrue(report["findings"][0]["ends_a_job"])

    def test_bad_options_and_models(self):
        self.assert_refused(run(["doctor", "--backend", "cpu", "--comm", "ipc"]), USAGE, "ipc")
        self.assert_refused(run(["doctor", "--model", self.folder / "none"], 2), MODEL_FILES,
                            "no such folder")

    @unittest.skipUnless("--bind-to" in MPIRUN and CORES >= 2, "Open MPI, two cores")
    def test_ranks_bound_to_one_core(self):
        first = str(min(os.sched_getaffinity(0)))
        result = execute(["taskset", "-c", first, *MPIRUN, "-n", "2", os.environ["SHARDLM_BIN"],
                          "doctor", "--backend", "cpu", "--json"])
        self.assertEqual(result.code, OK, result)
        self.assertTrue(has_finding(report_of(result), "2 ranks", "1 core"), result)


@unittest.skipUnless(EMULATED, "no emulated GPUs are built")
class Emulated(CliTest):
    def report(self, *args, ranks=None, gpus=4, code=OK, **options):
        result = run_emulated(["doctor", "--json", *args], ranks, gpus, **options)
        self.assertEqual(result.code, code, result)
        return report_of(result)

    def test_without_gpus(self):
        for gpus, reason in ((0, "no CUDA device"), ("driver", "driver")):
            for ranks in (None, 2):
                report = self.report(ranks=ranks, gpus=gpus)
                self.assertEqual(report["backend"], "cpu")
                self.assertIn(reason, report["because"])
                self.assertTrue(has_finding(report, "built with CUDA, but", reason))
                self.report("--backend", "cuda", ranks=ranks, gpus=gpus, code=RESOURCES)

    def test_one_and_four_gpus(self):
        report = self.report(gpus=1)
        self.assertEqual((report["backend"], report["ranks"][0]["device"]), ("cuda", 0))
        self.assertEqual(len(report["ranks"][0]["gpus"]), 1)
        report = self.report("--model", DEMO, "--dtype", "bf16", ranks=2)
        self.assertEqual([r["device"] for r in report["ranks"]], [0, 1])
        self.assertEqual([g["peers"] for g in report["ranks"][0]["gpus"]],
                         [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
        self.assertEqual([r["usable_bytes"] for r in report["model"]["per_rank"]],
                         [r["device_free_bytes"] for r in report["ranks"]])
        self.assertEqual(report["model"]["kv_dtype"], "bf16")
        self.assertFalse(any("GPU" in f["what"] for f in report["findings"]), report["findings"])
        text = run_emulated(["doctor"], 2).out.decode()
        self.assertIn("P2P with", text)
        self.assertIn("Emulated GPU", text)

    def test_fewer_gpus_than_ranks(self):
        report = self.report(ranks=2, gpus=1, code=RESOURCES)
        self.assertIsNone(report["backend"])
        self.assertTrue(has_finding(report, "fewer GPUs than ranks", "--allow-shared-gpu"))
        report = self.report("--allow-shared-gpu", ranks=2, gpus=1)
        self.assertTrue(report["shared_gpu"])
        self.assertTrue(has_finding(report, "ranks 0-1 share a GPU", "one rank a GPU"))

    def test_no_peer_access(self):
        report = self.report(ranks=2, env={"SHARDLM_FAKE_GPU_P2P": "0"})
        self.assertTrue(has_finding(report, "no P2P", "0-1", "nvidia-smi topo -m"))

    def test_a_model_that_does_not_fit(self):
        report = self.report("--model", DEMO, code=RESOURCES,
                             env={"SHARDLM_FAKE_GPU_BYTES": str(60_000_000)})
        self.assertTrue(report["findings"][0]["ends_a_job"])
        self.assertIn("does not fit", report["findings"][0]["what"])
        # Too little even for the back end itself.
        report = self.report(code=RESOURCES, env={"SHARDLM_FAKE_GPU_BYTES": "1000"})
        self.assertTrue(has_finding(report, "cannot be used", "nvidia-smi"))


if __name__ == "__main__":
    unittest.main()
