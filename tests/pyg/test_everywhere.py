"""The one contract of all loaders: the same batches, wherever the graph lies and whoever makes them."""

import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling

import halohop
from halohop import (
    ClusterLoader,
    FunctionLoader,
    Graph,
    GraphSAINTEdgeSampler,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    PPRLoader,
    SubGraphLoader,
)
from halohop.pyg.convert import tables_from_pyg
from halohop.testing.worlds import TOKEN, divided, free_addresses, hosts, memory_hosts, partitioned, random_assignment

pytestmark = pytest.mark.xdist_group("everywhere")  # one process makes the fixtures of the module

CITES, WRITES, BACK = ("paper", "cites", "paper"), ("author", "writes", "paper"), ("paper", "rev_writes", "author")
HALO = ("when", "raw_id")


def typed_data() -> HeteroData:
    """Two node types and a third that nothing leads to; weights, times of edges and of nodes, features of many dtypes."""
    torch.manual_seed(0)
    data = HeteroData()
    data["paper"].x, data["author"].x, data["venue"].x = torch.randn(80, 3), torch.randn(30, 2).half(), torch.randn(1, 1)
    for name, count in (("paper", 80), ("author", 30), ("venue", 1)):
        data[name].when = torch.randint(100, (count,))
    for relation, (num_src, num_dst) in {CITES: (80, 80), WRITES: (30, 80), BACK: (80, 30)}.items():
        data[relation].edge_index = torch.stack([torch.randint(num_src, (300,)), torch.randint(num_dst, (300,))])
        data[relation].time = torch.randint(100, (300,))
        data[relation].weight = torch.rand(300)
        data[relation].edge_attr = torch.randn(300, 2).bfloat16()
    return data


def plain_data() -> Data:
    torch.manual_seed(1)
    half = torch.randint(90, (2, 250))
    return Data(x=torch.randn(90, 3), y=torch.arange(90), edge_index=torch.cat([half, half.flip(0)], dim=1))


SOURCES = {"typed": typed_data, "plain": plain_data}


def around_papers(**options: Any) -> Callable[..., Any]:
    return lambda graph, **how: NeighborLoader(graph, [3, 2], ("paper", torch.arange(60)), batch_size=25, **options, **how)


def around_links(**options: Any) -> Callable[..., Any]:
    return lambda graph, **how: LinkNeighborLoader(graph, [3, 2], (CITES, None), batch_size=110, **options, **how)


def asked(draws: halohop.records.Draws, seeds: dict[str, torch.Tensor]) -> Data:
    """Every question of a batch: two hops by different rules, some edges left out, ends of edges, rows, nodes at random."""
    hop = draws.neighbors(seeds, 3)
    ids = {name: torch.from_numpy(np.unique(hop[edge].src.numpy())) for name, edge in (("paper", CITES), ("author", WRITES))}
    left_out = {CITES: hop[CITES].edge_id[::2], BACK: torch.from_numpy(np.arange(0, 300, 3))}
    further = draws.neighbors(ids, {CITES: 2, BACK: -1}, weight="weight", excluded=left_out)
    ends = draws.edges({BACK: further[BACK].edge_id[:9]})[BACK]
    wanted = {"paper": (further[CITES].src, ["x", "when"]), WRITES: (hop[WRITES].edge_id, ["edge_attr", "time"])}
    rows = draws.rows(wanted)
    papers = draws.uniform(7, "paper")
    made = {"papers": papers, "cited": draws.has_edges(papers[:5], papers[2:], CITES), "number": draws.number}
    for name, edges in {"first": hop, "second": further, "ends": {BACK: ends}}.items():
        for (_, relation, _), found in edges.items():
            made |= {f"{name}_{relation}_{key}": getattr(found, key) for key in ("src", "dst", "edge_id")}
    return Data(**made, x=rows["paper"]["x"], when=rows["paper"]["when"], **rows[WRITES])


TIMES = torch.arange(60) + 20
LOADERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "uniform": ("typed", around_papers(shuffle=True)),
    "all": ("typed", lambda graph, **how: NeighborLoader(graph, [-1, 2], ("author", None), batch_size=12, expand="all", **how)),
    "replace": ("typed", around_papers(replace=True)),
    "by relation": (
        "typed",
        lambda graph, **how: NeighborLoader(
            graph, {CITES: [3, 0], WRITES: [0, -1], BACK: [2, 2]}, ("paper", None), batch_size=40, **how
        ),
    ),
    "disjoint": ("typed", around_papers(disjoint=True)),
    "weights": ("typed", around_papers(weight_attr="weight")),
    "weights, replace": ("typed", around_papers(weight_attr="weight", replace=True)),
    "times of edges": ("typed", around_papers(time_attr="time", input_time=TIMES)),
    "times of nodes, last": ("typed", around_papers(time_attr="when", temporal_strategy="last")),
    "times and weights": ("typed", around_papers(time_attr="time", input_time=TIMES, weight_attr="weight")),
    "times in a window": ("typed", around_papers(time_attr="time", input_time=TIMES, time_window=20)),
    "times of nodes in a window": ("typed", around_papers(time_attr="when", time_window=30.5)),
    "labor": ("typed", around_papers(method="labor")),
    "labor, disjoint": ("typed", around_papers(method="labor", disjoint=True, weight_attr="weight")),
    "induced": ("typed", around_papers(subgraph_type="induced")),
    "bidirectional": ("typed", around_papers(subgraph_type="bidirectional")),
    "transformed": ("typed", around_papers(transform_sampler_output=lambda output: output, transform=lambda batch: batch)),
    "padded": ("typed", around_papers(pad="bound", drop_last=True)),
    "links": ("typed", around_links()),
    "links, binary": ("typed", around_links(neg_sampling=NegativeSampling("binary", 1.5), exclude_seed_edges=True)),
    "links, strict triplets": ("typed", around_links(neg_sampling="triplet", strict_negatives=True, disjoint=True)),
    "links, times": (
        "typed",
        around_links(neg_sampling="binary", time_attr="when", edge_label_time=torch.arange(300) % 90 + 100),
    ),
    "subgraphs": ("typed", lambda graph, **how: SubGraphLoader(graph, [2], ("paper", torch.arange(30)), batch_size=10, **how)),
    "HGT": ("typed", lambda graph, **how: HGTLoader(graph, [6, 4], ("paper", torch.arange(30)), batch_size=10, **how)),
    "clusters": ("typed", lambda graph, **how: ClusterLoader(graph, 5, batch_size=2, shuffle=True, **how)),
    "PPR": ("plain", lambda graph, **how: PPRLoader(graph, 5, torch.arange(20), eps=5e-3, batch_size=8, **how)),
    "function": (
        "typed",
        lambda graph, **how: FunctionLoader(graph, asked, ("paper", torch.arange(60)), batch_size=25, shuffle=True, **how),
    ),
    "SAINT, nodes": ("plain", lambda graph, **how: GraphSAINTNodeSampler(graph, 20, num_steps=3, **how)),
    "SAINT, edges": ("plain", lambda graph, **how: GraphSAINTEdgeSampler(graph, 10, num_steps=3, **how)),
    "SAINT, walks": ("plain", lambda graph, **how: GraphSAINTRandomWalkSampler(graph, 8, 3, num_steps=3, **how)),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name, make in SOURCES.items():
        found[name] = tmp_path_factory.mktemp(name) / "parts"
        halohop.partition(make(), found[name], num_parts=3, method="random", halo=HALO if name == "typed" else ("raw_id",))
    return found


@contextmanager
def in_parts(name: str, num_parts: int, *, shard_each: bool) -> Iterator[Graph]:
    yield partitioned(tables_from_pyg(SOURCES[name]()), num_parts, shard_each=shard_each, halo=HALO if name == "typed" else ())


@pytest.fixture(scope="module")
def folders_with_copies(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each partition has copied rows and lists of some nodes of the others, and not of all that batches need."""
    found = {}
    for name, seeds in {"typed": ("paper", torch.arange(60)), "plain": None}.items():
        found[name] = tmp_path_factory.mktemp(name) / "parts"
        shutil.copytree(folders[name], found[name])
        copies = halohop.Replicas(fanouts=[3, 2], batch_size=25, ratio=0.8, seeds=seeds, lists=True)
        reports = halohop.add_replicas(found[name], copies)
        assert all(0 < report.remote_rows_left < report.remote_rows for report in reports)
    return found


@contextmanager
def on_hosts(folder: Path, **options: Any) -> Iterator[Graph]:
    with hosts(folder, [[0], [1, 2]], **options) as graphs:
        yield graphs[1]


@contextmanager
def on_servers(folder: Path, sampling: Any, **options: Any) -> Iterator[Graph]:
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for address, share in zip(addresses, ([0], [1, 2]), strict=True):
            peers = [other for other in addresses if other != address]
            served = halohop.serve(folder, partitions=share, listen=address, peers=peers, token=TOKEN, **options)
            stack.enter_context(served)
        yield stack.enter_context(halohop.connect(addresses, sampling=sampling, token=TOKEN, **options))


def own_partitions(name: str) -> list[halohop.slices.MemoryPartition]:
    """Three partitions in memory, the rows and edges of each in a random order."""
    tables = tables_from_pyg(SOURCES[name]())
    return divided(tables, random_assignment(tables, 3), 3)


@contextmanager
def own_on_hosts(name: str) -> Iterator[Graph]:
    first, *others = own_partitions(name)
    with memory_hosts([[first], others], halo=HALO if name == "typed" else ("raw_id",)) as graphs:
        yield graphs[1]


@contextmanager
def own_on_servers(name: str) -> Iterator[Graph]:
    own = own_partitions(name)
    with halohop.open(own) as whole:
        own = [one.with_halo(whole, HALO if name == "typed" else ("raw_id",)) for one in own]
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for address, share in zip(addresses, (own[:1], own[1:]), strict=True):
            peers = [other for other in addresses if other != address]
            stack.enter_context(halohop.serve(share, listen=address, peers=peers, token=TOKEN))
        yield stack.enter_context(halohop.connect(addresses, token=TOKEN))


PLACES: dict[str, Callable[[str, Path], Any]] = {
    "one graph in memory": lambda name, _: halohop.graph(SOURCES[name]()),
    **{f"{num} in memory": lambda name, _, num=num: in_parts(name, num, shard_each=False) for num in (2, 3, 8)},
    **{f"{num} shards": lambda name, _, num=num: in_parts(name, num, shard_each=True) for num in (2, 3, 8)},
    "own partitions": lambda name, _: halohop.open(own_partitions(name)),
    "own partitions on hosts": lambda name, _: own_on_hosts(name),
    "own partitions on servers": lambda name, _: own_on_servers(name),
    "disk": lambda _, folder: halohop.open(folder),
    "disk, more than memory": lambda _, folder: halohop.open(folder, memory=0, hot_memory=1000),
    "hosts": lambda _, folder: on_hosts(folder),
    "servers": lambda _, folder: on_servers(folder, "servers"),
    "servers, sampled here": lambda _, folder: on_servers(folder, "client"),
}
USED = {"replica_rows": ("hosts", "hosts with a cache"), "cache_rows": ("hosts with a cache", "servers, sampled here")}
"""What a client's own router must have answered from."""

PLACES_WITH_COPIES: dict[str, Callable[[Path], Any]] = {
    "hosts": on_hosts,
    "hosts with a cache": lambda folder: on_hosts(folder, cache="8KiB"),
    "servers": lambda folder: on_servers(folder, "servers", cache="8KiB"),
    "servers, sampled here": lambda folder: on_servers(folder, "client", cache="8KiB"),
}


@pytest.fixture(scope="module")
def expected() -> dict[str, list[dict[str, Any]]]:
    """The batches of two epochs, made one after the other from one partition in memory."""
    found = {}
    for name, (source, make) in LOADERS.items():
        loader = make(SOURCES[source](), seed=4, run="inline")
        found[name] = [batch.to_dict() for _ in range(2) for batch in loader]
        assert len(found[name]) > 3
    return found


def assert_equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    else:
        assert one == other


def assert_same_batches(loader: Any, expected: list[dict[str, Any]], epochs: int = 2) -> None:
    batches = [batch.to_dict() for _ in range(epochs) for batch in loader]
    if epochs == 1:
        expected = expected[: len(expected) // 2]
    assert len(batches) == len(expected)
    for one, other in zip(batches, expected, strict=True):
        assert_equal(one, other)


TWO_EPOCHS = ("uniform", "links, binary", "clusters", "SAINT, nodes")
"""One of each kind of seeds: what others do in a second epoch does not depend on where the graph lies."""

REPEATED = (
    *("one graph in memory", "2 in memory", "3 in memory", "8 in memory", "2 shards", "3 shards", "8 shards", "own partitions"),
    *("own partitions on hosts", "own partitions on servers", "disk", "servers"),
)
"""What other places show already."""


@pytest.mark.parametrize("place", [pytest.param(name, marks=[pytest.mark.full] * (name in REPEATED)) for name in PLACES])
def test_wherever_the_graph_lies(folders, expected, place):
    for source in SOURCES:
        with PLACES[place](source, folders[source]) as graph:
            for name, (needed, make) in LOADERS.items():
                if needed == source:
                    try:
                        assert_same_batches(make(graph, seed=4, num_workers=2), expected[name], 1 + (name in TWO_EPOCHS))
                    except Exception as error:
                        error.add_note(f"loader: {name}")
                        raise


@pytest.mark.parametrize(
    "place",
    [pytest.param(name, marks=[pytest.mark.full] * (name != "hosts with a cache")) for name in PLACES_WITH_COPIES],
)
def test_whatever_hosts_have_copied(folders_with_copies, expected, place):
    for source in SOURCES:
        with PLACES_WITH_COPIES[place](folders_with_copies[source]) as graph:
            for name, (needed, make) in LOADERS.items():
                if needed == source:
                    before = graph.statistics()
                    try:
                        assert_same_batches(make(graph, seed=4, num_workers=2), expected[name], 1 + (name in TWO_EPOCHS))
                        for what, places in USED.items():
                            assert place not in places or graph.statistics()[what] > before.get(what, 0)
                    except Exception as error:
                        error.add_note(f"loader: {name}")
                        raise


PACKED_ALIKE = (
    *("all", "replace", "by relation", "weights", "weights, replace", "times of edges", "times and weights", "labor"),
    *("times in a window", "times of nodes in a window", "labor, disjoint", "induced", "links", "SAINT, edges", "SAINT, walks"),
)
"""Their batches are made of what batches of other loaders are made of: a process sends nothing else."""


@pytest.mark.parametrize("run", [pytest.param("threads", marks=pytest.mark.full), "processes"])  # threads make those above
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.full] * (name in PACKED_ALIKE)) for name in LOADERS])
def test_whoever_makes_them(folders, expected, name, run):
    source, make = LOADERS[name]
    with halohop.open(folders[source]) as graph:
        assert_same_batches(make(graph, seed=4, run=run, num_workers=2), expected[name])


@pytest.mark.parametrize("name", LOADERS)
def test_whoever_goes_on_with_them(expected, name):
    """A loader that stopped in mid-epoch, and another that goes on."""
    source, make = LOADERS[name]
    stopped, later = (make(SOURCES[source](), seed=4, run="inline") for _ in range(2))
    next(iter(stopped))
    later.load_state_dict(stopped.state_dict())
    batches = [batch.to_dict() for _ in range(2) for batch in later]
    for one, other in zip(batches, expected[name][1:], strict=True):
        assert_equal(one, other)


LOOKING = frozenset(
    (
        *(
            "alias",
            "as_strided",
            "detach",
            "expand",
            "permute",
            "select",
            "slice",
            "split",
            "squeeze",
            "t",
            "transpose",
            "unbind",
        ),
        *("unsqueeze", "view", "empty", "empty_like", "new_empty", "lift_fresh", "_local_scalar_dense"),
    )
)
"""What torch does without touching the elements: views, and memory."""


class TorchsWork(TorchDispatchMode):
    """Notes every operation of torch on more than one element that is no `LOOKING`, with the line that asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        tensors = [value for value in (*args, result) if isinstance(value, torch.Tensor)]
        if name not in LOOKING and any(tensor.numel() > 1 for tensor in tensors):
            ours = [frame for frame in traceback.extract_stack() if "/src/halohop/" in frame.filename]
            self.seen.add(f"{name} in {ours[-1].filename.partition('/src/')[2]}:{ours[-1].lineno}")
        return result


@pytest.fixture(scope="module")
def in_shards() -> Iterator[dict[str, Graph]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(in_parts(name, 3, shard_each=True)) for name in SOURCES}


@pytest.mark.parametrize("name", LOADERS)
def test_torch_computes_nothing_for_a_batch(in_shards, name):
    """Its threads are the trainer's: each time that one shares them, a batch waits for a core that is busy."""
    source, make = LOADERS[name]
    batches = iter(make(in_shards[source], seed=4, run="inline"))
    next(batches)  # the seeds of an epoch are shuffled by torch, once
    with TorchsWork() as work:
        next(batches)
    assert work.seen == set()
