"""Reads what a run tells of its collectives, and says what docs/communication.md expects there."""
from math import floor, log2

SITES = ["site", "phase", "algorithm", "calls", "bytes_per_call", "bytes", "sent", "call_ms",
         "wait_ms", "transfer_ms", "hidden_ms", "share", "p50", "p99", "model", "eff"]
RANKS = ["rank", "host", "cores", "compute", "wait", "transfer", "other", "sum", "wall"]


def table_of(report, columns):
    """The rows below the headline that begins with the first column's name."""
    lines = report.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith(f"  {columns[0]} "))
    rows = []
    for line in lines[head + 1:]:
        words = line.replace(" + ", "+").split()
        if len(words) != len(columns) or line.startswith("  sums close"):
            break
        rows.append(dict(zip(columns, words)))
    return rows


def sites_of(report):
    """{(site, phase): row}"""
    return {(row["site"], row["phase"]): row for row in table_of(report, SITES)}


def ranks_of(report):
    """[{column: seconds}] by rank."""
    rows = table_of(report, RANKS)
    assert [row["rank"] for row in rows] == [str(r) for r in range(len(rows))], rows
    return [{name: float(row[name]) for name in RANKS[3:]} for row in rows]


def hidden_ms(report):
    """Milliseconds of calls behind computing, of all rows."""
    return sum(float(row["hidden_ms"]) for row in sites_of(report).values())


def sent_by_all(algorithm, n, ranks):
    """Bytes that all ranks send in a sum of n bytes: "What it should be"."""
    core = 2 ** floor(log2(ranks))
    others = 2 * n * (ranks - core)
    return {"shm-oneshot": ranks * n,
            "shm-twoshot": ranks * n + n,
            "direct": ranks * (ranks - 1) * n,
            "recdbl": n * core * floor(log2(core)) + others,
            "rabenseifner": 2 * (core - 1) * n + others,
            "ring": 2 * (ranks - 1) * n,
            "star": 2 * (ranks - 1) * n,
            "tree": 2 * (ranks - 1) * n}[algorithm]


def monitored_bytes(prefix, ranks):
    """Bytes of messages between all pairs that Open MPI's monitoring wrote to PREFIX.RANK.prof."""
    total = 0
    for rank in range(ranks):
        with open(f"{prefix}.{rank}.prof", encoding="utf-8") as file:
            rows = [line.split() for line in file]
        total += sum(int(row[3]) for row in rows if row and row[0] == "E")
    return total
