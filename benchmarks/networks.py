"""The benchmarks of what lies between processes and hosts."""

import itertools
from dataclasses import replace
from typing import Any

from benchmarks.entries import FANOUT, Benchmark, Comparison, Entry, versus
from benchmarks.graphs import copies_of, division

_Way = tuple[str, str, str, dict[str, Any]]
"""Name, module, environment and options of a contestant."""


def transport(threads: list[int]) -> Benchmark:
    """Requests between two processes over TCP, one or several in flight."""
    entries, comparisons = [], []
    for size, in_flight, repeat in ((10**3, 1, 200), (10**5, 1, 50), (10**6, 1, 16), (64 * 10**6, 1, 1), (10**6, 8, 128)):
        what = f"{size // 10**6} MB" if size >= 10**6 else f"{size // 1000} KB"
        what = f"{in_flight} x {what}" if in_flight > 1 else what
        options = {"size": size, "in_flight": in_flight, "repeat": repeat}
        for name, module in (("halohop", "halohop_channel"), ("torch rpc", "torch_rpc"), ("sockets", "raw_sockets")):
            entries.append(Entry(name=f"{name}, {what}", module=module, options=options))
        entries.append(Entry(name=f"encrypted, {what}", module="halohop_channel", options=options | {"encrypt": True}))
        bars = {"1 KB": (2.0, None), "8 x 1 MB": (1.5, 0.6), "64 MB": (1.0, None)}.get(what, (None, None))
        comparisons.append(versus(f"halohop, {what}", f"torch rpc, {what}", bars[0]))
        comparisons.append(versus(f"halohop, {what}", f"sockets, {what}", bars[1]))
        comparisons.append(versus(f"encrypted, {what}", f"halohop, {what}"))
    return Benchmark(
        title="Transport",
        graph=None,
        tests=("tests/ops", "tests/sampling", "tests/transport"),
        measure="bytes",
        unit=4,
        entries=entries,
        comparisons=comparisons,
        remarks=[
            'A "batch" is a request of a few bytes and its reply of this size, between two processes over the loopback '
            "interface. ms: of all of a unit, over their number; p50 and p99: from sending a request to having its reply, "
            "including the wait behind others in flight; cpu: of both processes, so that the ms of 1 MB are the seconds of a GB.",
            "halohop proves a token and checks types; encrypted: the same within TLS 1.3. torch.distributed.rpc uses "
            "TensorPipe's `uv` and `basic`, those between hosts. Sockets: one connection, memory used again, no messages: "
            "the ceiling.",
        ],
    )


_IN_BLOCKS = 2  # hosts: METIS makes blocks for numbers of partitions that are powers of two
_BARS = {1: 4.0, 10: 6.0}


def _near(divided: str) -> tuple[_Way, ...]:
    """Ways that heed where the seeds of a batch lie."""
    blocks = {"mode": "worker", "locality": "blocks"}
    return (
        ("halohop, own seeds", "halohop_cluster", "ours", {"mode": "worker", "locality": "owner"}),
        ("halohop, blocks", "halohop_cluster", "ours", blocks),
        ("halohop, blocks and copies", "halohop_cluster", "ours", {**blocks, "division": copies_of(divided)}),
        ("DGL, own seeds", "dgl_cluster", "dgl", {"samplers": 0, "own": True}),
    )


def _near_beside_dgl(place: str, gigabits: int) -> list[Comparison]:
    """A batch of one block has fewer edges, since its seeds share neighbours: what is compared are edges in a second."""
    found = [versus(f"halohop, own seeds, {place}", f"DGL, own seeds, {place}")]
    for kind, bar in (("blocks", None), ("blocks and copies", _BARS[gigabits])):
        for peer in ("DGL", "DGL, own seeds"):
            found.append(replace(versus(f"halohop, {kind}, {place}", f"{peer}, {place}", bar), other_batches=True))
    return found


def cluster(threads: list[int]) -> Benchmark:
    """Hosts of one, two and three, joined by cables of one and ten gigabits a second."""
    entries, comparisons = [], []
    ways: tuple[_Way, ...] = (
        ("halohop, worker", "halohop_cluster", "ours", {"mode": "worker"}),
        ("halohop, servers", "halohop_cluster", "ours", {"mode": "servers"}),
        ("DGL", "dgl_cluster", "dgl", {"samplers": 0}),
        ("DGL, 1 sampler", "dgl_cluster", "dgl", {"samplers": 1}),
    )
    for hosts, method, gigabits in itertools.product((1, 2, 3), ("random", "metis"), (1, 10)):
        if hosts == 1 and method == "metis":
            continue
        place = f"{hosts} host{'s' * (hosts > 1)}, {method}, {gigabits} Gbit/s"
        options = {"hosts": hosts, "gigabits": gigabits, "division": division(hosts, method), "fanout": FANOUT}
        has_blocks = hosts == _IN_BLOCKS and method == "metis"
        for name, module, environment, how in (*ways, *(_near(options["division"]) if has_blocks else ())):
            where = {"threads": 2, "group": place, "environment": environment}
            entries.append(Entry(name=f"{name}, {place}", module=module, options=options | how, **where))
        comparisons += [versus(f"halohop, worker, {place}", f"{name}, {place}") for name in ("DGL", "DGL, 1 sampler")]
        if has_blocks:
            comparisons += _near_beside_dgl(place, gigabits)
    return Benchmark(
        title="Several hosts",
        graph="products",
        measure="edges",
        unit=16,
        entries=entries,
        comparisons=comparisons,
        parts=(1, 2, 3),
        metis=(2, 3),
        copies=(_IN_BLOCKS,),
        dgl=True,
        tests=("tests/ops", "tests/sampling", "tests/transport", "tests/cluster", "tests/net"),
        remarks=[
            f"Finished batches of 1024 seeds, fanout {FANOUT}, every hop expanding all nodes so far, with features and labels; "
            "edges of all hosts are counted. Hosts are network namespaces on one machine and share its cores, so more of them "
            "are not faster: what is seen is the price of the network. Every unit begins an epoch.",
            "worker: every host holds a partition and trains. servers: every host serves one; one trainer, on a host of its own. "
            "DGL: every host has a server with the same partition, and a trainer that samples itself, or has a process for it.",
            "own seeds: of the partition of the trainer's host; DGL's `node_split` gives each trainer such.",
            'blocks: a batch has its seeds of one block (`locality="blocks"`), and fewer edges, since they share neighbours: '
            "compared are edges in a second. copies: each partition has rows and lists of the other, half as many as its own.",
            "halohop keeps rows of other hosts that were fetched lately, as by default (`cache`); DGL fetches them again.",
            "Contestants on the same hosts, with the same network and division, took turns; these groups came one after another.",
        ],
    )
