"""What is seen of the collectives: counts against formulas and against Open MPI's own monitoring,
times that add up, the trace of all ranks, the line a token."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from communication_report import monitored_bytes, ranks_of, sent_by_all, sites_of
from harness import (BIN, DEMO, MPIRUN, OK, USAGE, CliTest, execute, ids_words, parse_object, run,
                     run_all)

CACHE = Path(tempfile.mkdtemp(prefix="shardlm_cache_"))
unittest.addModuleCleanup(shutil.rmtree, CACHE, ignore_errors=True)
os.environ["XDG_CACHE_HOME"] = str(CACHE)

LAYERS, WIDTH = 4, 320   # of the demo model
SUMS = 2 * LAYERS + 1    # all-reduces of a pass
IDS, TOKENS = [1, 2, 3], 4


def command(tokens=TOKENS):
    return ["generate", "--model", DEMO, "--temperature", 0, "--max-tokens", tokens, "--threads", 1,
            *ids_words(IDS), "--json"]


class Report(CliTest):
    def test_counts_are_those_of_the_formulas(self):
        ways = [("ring", 1), ("recdbl", 2), ("shm-oneshot", 2), ("ring", 3), ("recdbl", 3),
                ("shm-twoshot", 3), ("rabenseifner", 4), ("direct", 4), ("star", 5), ("tree", 5),
                ("rabenseifner", 5)]
        results = run_all([([*command(), "--comm-report", "--allreduce", way, "--comm", "shm"],
                            ranks) for way, ranks in ways])
        for result, (way, ranks) in zip(results, ways):
            self.assertEqual(result.code, OK, result)
            self.assertIn(f"{TOKENS} of {TOKENS} passes have the {SUMS} all-reduces", result.err)
            self.assertIn(" 0 violations of causality", result.err, result)
            self.check_counts(result, way, ranks)
            self.check_times(result, ranks)

    def check_counts(self, result, way, ranks):
        table = sites_of(result.err)
        for phase, tokens in (("prefill", len(IDS)), ("decode", 1)):
            n = tokens * WIDTH * 4
            for site, calls in (("embed", 1), ("attn_out", LAYERS), ("mlp_out", LAYERS)):
                found = [table[site, phase][name]
                         for name in ("algorithm", "calls", "bytes_per_call", "bytes", "sent")]
                sent = sent_by_all(way, n, ranks)
                expected = [way, *map(str, (calls, n, calls * n, calls * sent))]
                self.assertEqual(found, expected, result)

    def check_times(self, result, ranks):
        """Computing, waiting, moving and the rest are the wall time."""
        rows = ranks_of(result.err)
        self.assertEqual(len(rows), ranks)
        for row in rows:
            parts = row["compute"] + row["wait"] + row["transfer"] + row["other"]
            # Figures have four digits behind the point.
            self.assertAlmostEqual(parts, row["wall"], delta=0.01 * row["wall"] + 3e-4, msg=result)

    def test_one_rank_has_nothing_to_tell(self):
        result = run([*command(), "--comm-report"])
        self.assertEqual(result.code, OK, result)
        self.assertIn("no report, trace or line a step: 1 rank, no communication", result.err)

    def test_a_short_memory_is_said(self):
        result = run([*command(), "--comm-report", "--comm-log", 16], 2)
        self.assertEqual(result.code, OK, result)
        self.assertIn("INCOMPLETE", result.err, result)

    def test_layer_by_layer(self):
        table = sites_of(run([*command(), "--comm-report", "--per-layer"], 2).err)
        for layer in range(LAYERS):
            for site in ("attn_out", "mlp_out"):
                self.assertEqual(table[f"{site}[{layer}]", "decode"]["calls"], "1")


class Trace(CliTest):
    def test_all_ranks_on_one_clock(self):
        ranks, file = 3, self.folder / "trace.json"
        result = run([*command(), "--trace", file, "--allreduce", "ring"], ranks)
        self.assertEqual(result.code, OK, result)
        trace = parse_object(file.read_text())
        self.assertEqual(trace["otherData"]["causality_violations"], 0)
        events = trace["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual([names[r].split(" @")[0] for r in range(ranks)],
                         [f"rank {r}" for r in range(ranks)])
        self.check_flows(events)
        self.check_sums(events, ranks)

    def check_flows(self, events):
        """Each arrow has one start and one end, on two ranks, and goes forward."""
        ends = {end: {e["id"]: e for e in events if e["ph"] == end} for end in "sf"}
        self.assertEqual(len(ends["s"]) + len(ends["f"]), sum(e["ph"] in "sf" for e in events))
        self.assertEqual(set(ends["s"]), set(ends["f"]))
        self.assertTrue(ends["s"])
        for id_, start in ends["s"].items():
            self.assertLessEqual(start["ts"], ends["f"][id_]["ts"])
            self.assertNotEqual(start["pid"], ends["f"][id_]["pid"])

    def check_sums(self, events, ranks):
        """Nobody leaves an all-reduce before the last one has entered."""
        calls = {}
        for e in events:
            if e.get("args", {}).get("Collective name") == "allreduce":
                calls.setdefault(e["args"]["seq"], []).append(e)
        self.assertEqual(len(calls), TOKENS * SUMS)
        for parts in calls.values():
            self.assertEqual(sorted(e["pid"] for e in parts), list(range(ranks)))
            self.assertEqual(len({(e["name"], e["args"]["layer"], e["args"]["step"])
                                  for e in parts}), 1)
            self.assertEqual({(e["args"]["algo"], e["args"]["Group size"]) for e in parts},
                             {("ring", ranks)})
            last = max(e["ts"] for e in parts)
            self.assertGreaterEqual(min(e["ts"] + e["dur"] for e in parts) + 0.002, last)

    def test_no_place_for_it(self):
        result = run([*command(), "--trace", self.folder / "none" / "trace.json"], 2)
        self.assertEqual(result.code, USAGE, result)
        self.assertEqual(len(result.errors), 1, result)
        self.assertIn("trace cannot be written: No such file", result.errors[0])


class Lines(CliTest):
    def test_a_line_a_token(self):
        number = r"\d+\.\d\d"
        form = re.compile(rf"shardlm: tok (\d+)  {number} ms = {number} comp \+ "
                          rf"(?:{number} wait \+ {number} xfer|{number} comm) \| "
                          r"\d+(?:\.\d)? [kM]?B in (\d+) msgs")
        for options in ([], ["--allreduce", "ring"]):
            result = run([*command(), "--live", *options], 2)
            self.assertEqual(result.code, OK, result)
            lines = [line for line in result.err.splitlines() if " tok " in line]
            found = [form.fullmatch(line) for line in lines]
            self.assertTrue(all(found), result)
            self.assertEqual([m[1] for m in found], [str(i + 1) for i in range(TOKENS)], result)
            # The plan, the sums, the answers.
            self.assertEqual({m[2] for m in found[1:]}, {str(SUMS + 2)}, result)

    def test_checked_collectives(self):
        expected = self.object_of(run(command(), 2))["sequences"]
        for options in ([], ["--allreduce", "tree", "--comm", "mpi"], ["--overlap", "poll"]):
            result = run([*command(), "--check-collectives", *options], 2)
            self.assertEqual(self.object_of(result)["sequences"], expected, result)
            self.assertIn("every collective checked", result.err)
            self.assertEqual("--overlap has no effect" in result.err, "poll" in options, result)


def monitoring_is_there():
    tool = Path(shutil.which(MPIRUN[0]) or MPIRUN[0]).with_name("ompi_info")
    if not tool.exists():
        return False
    found = subprocess.run([tool], capture_output=True, text=True, check=False).stdout
    # Open MPI 5 names its files otherwise.
    return "MCA pml: monitoring" in found and re.search(r"Open MPI: 4\.", found) is not None


@unittest.skipUnless(monitoring_is_there(), "no Open MPI 4 with the component pml monitoring")
class Monitored(CliTest):
    def sent(self, ranks, way, tokens):
        """Bytes of all messages of a job as Open MPI counts them."""
        prefix = self.folder / f"{way}_{tokens}"
        words = [*MPIRUN, "--mca", "pml_monitoring_enable", 2, "--mca",
                 "pml_monitoring_enable_output", 3, "--mca", "pml_monitoring_filename", prefix,
                 "-n", ranks, BIN, *command(tokens), "--comm", "mpi", "--allreduce", way]
        result = execute([str(word) for word in words])
        self.assertEqual(result.code, OK, result)
        return monitored_bytes(prefix, ranks)

    def test_open_mpi_counts_the_same_bytes(self):
        """Of two runs that differ by some decoding passes: what does not repeat drops out."""
        more, ranks = 3, 3
        for way in ("ring", "direct", "rabenseifner"):
            counted = self.sent(ranks, way, TOKENS + more) - self.sent(ranks, way, TOKENS)
            report = run([*command(), "--comm", "mpi", "--allreduce", way, "--comm-report"], ranks)
            table = sites_of(report.err)
            others = sum(int(table[site, "decode"]["sent"]) for site in ("step", "lm_head"))
            a_pass = SUMS * sent_by_all(way, WIDTH * 4, ranks) + others
            self.assertEqual(counted, more * a_pass, report)


if __name__ == "__main__":
    unittest.main()
