"""From the samples of all rounds to the table of goals, in Markdown and in JSON."""
import statistics

from .models import prefill_flops, weight_bytes
from .rows import label


def spread(values):
    """Half of the range, as a share of the median."""
    return (max(values) - min(values)) / 2 / statistics.median(values)


class Results:
    """The value of each Run in each round, and why a Run has none."""

    def __init__(self):
        self.values, self.absent, self.extra = {}, {}, {}

    def add(self, run, found):
        self.values.setdefault(run, []).append(found["value"])
        self.extra[run] = found  # of the last round

    def median(self, run):
        return statistics.median(self.values[run]) if run in self.values else None

    def text(self, run):
        if run not in self.values:
            return f"({self.absent.get(run, 'not run')})"
        value = self.median(run)
        digits = 0 if value >= 1000 else 1 if value >= 100 else 2
        return f"{value:.{digits}f} ± {100 * spread(self.values[run]):.0f} %"


def paired_ratios(results, ours, peer):
    """The ratio within each round: what drifts between rounds cancels."""
    if ours not in results.values or peer not in results.values:
        return []
    return [a / b for a, b in zip(results.values[ours], results.values[peer])]


def limit_of(row, results, folder, bandwidth):
    """(tokens/s or GB/s that the machine allows, what it is made of), or (None, why not)."""
    if row.limit == "bandwidth":
        measured = results.extra.get(row.ours, {})
        bandwidth = bandwidth or measured.get("bandwidth_gb_s")
        if bandwidth is None:
            return None, "no bandwidth: shardlm bench measures it, --bandwidth gives it"
        size = measured.get("weight_bytes") or weight_bytes(folder, row.ours.dtype)
        return bandwidth * 1e9 / size, f"{size / 1e6:.1f} MB at {bandwidth:.1f} GB/s"
    if row.limit == "gemm":
        rate = results.median(row.limit_run())
        if rate is None:
            return None, results.absent.get(row.limit_run(), "not run")
        flops = prefill_flops(folder, row.ours.tokens) / row.ours.tokens
        library = results.extra[row.limit_run()]["library"]
        return rate * 1e9 / flops, f"{library} GEMM {rate:.0f} GFLOP/s"
    if row.limit == "copy":
        rate = results.median(row.limit_run())
        return rate, "copying memory" if rate else results.absent.get(row.limit_run(), "not run")
    return None, ""


def evaluate(row, results, folder, bandwidth):
    """One row as a dictionary of figures."""
    limit, basis = limit_of(row, results, folder, bandwidth)
    value = results.median(row.ours)
    entry = {"row": row.name, "title": row.title, "run": str(row.ours), "value": value,
             "samples": results.values.get(row.ours, []), "absent": results.absent.get(row.ours),
             "peers": [], "limit": limit, "limit_basis": basis, "limit_goal": row.limit_goal,
             "limit_share": value / limit if value and limit else None}
    for peer in row.peers:
        ratios = paired_ratios(results, row.ours, peer)
        name = label(row, peer)
        ratio, goal = statistics.median(ratios) if ratios else None, row.goals.get(name)
        met = None
        if ratio and goal:
            met = ratio <= goal if row.smaller_is_better else ratio >= goal
        entry["peers"].append({
            "name": name, "run": str(peer), "value": results.median(peer),
            "samples": results.values.get(peer, []), "absent": results.absent.get(peer),
            "ratio": ratio, "ratios": ratios, "goal": goal, "met": met,
            "limit_share": results.median(peer) / limit
            if limit and results.median(peer) and peer.kind == row.ours.kind else None})
    return entry


def peer_cells(entry, peer, results, runs, smaller):
    figure = results.text(runs[peer["run"]])
    if peer["limit_share"] is not None:
        figure += f" ({100 * peer['limit_share']:.0f} %)"
    ratio = goal = ""
    if peer["ratio"] is not None:
        ratio = f"{peer['ratio']:.2f}"
        if len(peer["ratios"]) > 1:
            ratio += f" ({min(peer['ratios']):.2f}-{max(peer['ratios']):.2f})"
    if peer["goal"] is not None:
        goal = ("<= " if smaller else ">= ") + f"{peer['goal']:g}"
        if peer["met"] is not None:
            goal += " yes" if peer["met"] else " **no**"
    return f"{peer['name']} {figure} | {ratio} | {goal}"


def markdown(rows, entries, results):
    """The table; a row takes one line for each peer."""
    lines = ["| | shardlm | share of the limit | peer (share of the limit) | ratio | goal |",
             "|---|---:|---|---:|---:|---|"]
    for row, entry in zip(rows, entries):
        runs = {str(run): run for run in row.runs()}
        share = entry["limit_basis"]
        if entry["limit"] is not None:
            share = f"limit {entry['limit']:.4g}: {entry['limit_basis']}"
            if entry["limit_share"] is not None:
                share = (f"{100 * entry['limit_share']:.0f} %, goal "
                         f"{100 * entry['limit_goal']:.0f} %; {share}")
        first = f"| {entry['title']} | {results.text(row.ours)} | {share} |"
        cells = [peer_cells(entry, peer, results, runs, row.smaller_is_better)
                 for peer in entry["peers"]] or [" | | "]
        for i, cell in enumerate(cells):
            lines.append((first if i == 0 else "| | | |") + f" {cell} |")
    return "\n".join(lines)
