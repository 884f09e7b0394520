"""The rows of the goals' table: what is run, what is compared, and what is to be reached."""
from dataclasses import dataclass, field

from .systems import Run


@dataclass
class Row:
    name: str
    title: str
    ours: Run
    peers: list                                 # Runs, of other systems or of ours
    goals: dict = field(default_factory=dict)   # peer's label: least ratio
    limit: str = ""                             # "bandwidth", "gemm" or "copy"
    limit_goal: float = 0.0                     # least share of the limit
    smaller_is_better: bool = False

    def runs(self):
        yield self.ours
        yield from self.peers
        if self.limit in ("gemm", "copy"):
            yield self.limit_run()

    def limit_run(self):
        return Run(self.limit, self.limit, self.ours.dtype, self.ours.tokens, self.ours.size,
                   threads=self.ours.threads)


def label(row, peer):
    """A peer's name in its row: the system, or what differs from our own run."""
    if peer.system != row.ours.system:
        return peer.system
    if peer.kind != row.ours.kind:
        return peer.kind
    return f"{peer.ranks}x{peer.threads}t"


def decode(dtype, threads, goals, share, size="small", peers=("llama",), batch=1, tokens=64):
    runs = [Run(system, "decode", dtype, tokens, size, batch, threads)
            for system in ("shardlm",) + tuple(peers)]
    name = "-".join(["decode"] + (["xl"] if size == "xl" else []) + [dtype]
                    + ([f"batch{batch}"] if batch > 1 else []))
    shape = "1.5B" if size == "xl" else "124M"
    return Row(name, f"decode, {shape}, batch {batch}, {dtype}", runs[0], runs[1:], goals,
               "bandwidth" if batch == 1 else "", share)


def prefill(dtype, tokens, threads, goals, share, peers):
    runs = [Run(system, "prefill", dtype, tokens, threads=threads)
            for system in ("shardlm",) + tuple(peers)]
    return Row(f"prefill-{dtype}-{tokens}", f"prefill {tokens}, 124M, {dtype}", runs[0], runs[1:],
               goals, "gemm" if share else "", share)


def all_rows(threads, xl_tokens=32):
    """Every row of the table, for one number of threads."""
    t = threads
    rows = [
        decode("f32", t, {"ctranslate2": 1.1, "llama": 1.35}, 0.90,
               peers=("ctranslate2", "llama", "torch")),
        decode("bf16", t, {"llama": 1.7}, 0.85),
        decode("f16", t, {"llama": 1.7}, 0.85),
        decode("int8", t, {"llama": 1.7}, 0.75, peers=("llama", "ctranslate2")),
        decode("int4", t, {"llama": 1.4}, 0.55),
        decode("bf16", t, {"llama": 1.35}, 0.90, size="xl", tokens=xl_tokens),
        decode("int8", t, {"llama": 1.2}, 0.90, size="xl", tokens=xl_tokens),
        decode("bf16", t, {"llama": 2.0}, 0.0, batch=16),
    ]
    for n in (128, 512):
        rows += [
            prefill("f32", n, t, {"ctranslate2": 1.25, "llama": 1.9}, 0.80,
                    ("ctranslate2", "llama", "torch")),
            prefill("bf16", n, t, {"torch": 2.5, "llama": 6.0}, 0.40, ("torch", "llama")),
            prefill("int8", n, t, {"llama": 2.5}, 0.0, ("llama", "ctranslate2")),
        ]
    two, one, wide = (Run("shardlm", "decode", threads=n, ranks=p)
                      for p, n in ((2, 1), (1, 1), (1, 2)))
    rows += [
        Row("ranks-scaling", "2 ranks x 1 thread against 1 x 1, decode f32", two, [one],
            {"1x1t": 1.9}),
        Row("ranks-threads", "2 ranks x 1 thread against 1 x 2, decode f32", two, [wide],
            {"1x2t": 1.0}),
        Row("generate", "generate with top-k 40, top-p 0.95, f32",
            Run("shardlm", "generate", threads=t),
            [Run("shardlm", "decode", threads=t), Run("llama", "generate", threads=t)],
            {"decode": 0.97}),
        Row("first-token", "first token of a 16-token prompt, ms with process start, f32",
            Run("shardlm", "first-token", tokens=1, threads=t),
            [Run("llama", "first-token", tokens=1, threads=t)], {"llama": 0.5},
            smaller_is_better=True),
        Row("load", "loading, f32, GB/s of the file", Run("shardlm", "load", tokens=2, threads=t),
            [], limit="copy", limit_goal=0.60),
    ]
    return rows
