"""`locality`: batches from one place, and still the same batches for any partitions, hosts, ranks and workers."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler, WeightedRandomSampler

import halohop
from halohop import (
    ClusterLoader,
    Graph,
    GraphSAINTNodeSampler,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    PPRLoader,
    SubGraphLoader,
    World,
)
from halohop.errors import InputError
from halohop.partitioning.assigners.division import AssignRequest, Division
from halohop.partitioning.assigners.metis import metis
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.worlds import TOKEN, free_addresses, hosts
from tests.support.blocks import as_data, clustered, write_in_blocks

pytestmark = pytest.mark.xdist_group("locality")  # one process makes the fixtures of the module

BLOCKS, SIZE, BATCH = 8, 14, 5
TABLES, BLOCK = clustered(BLOCKS, SIZE)
NODES = torch.arange(BLOCKS * SIZE)
LINKS = torch.stack([NODES, (7 * NODES + 1) % len(NODES)])

LOADERS: dict[str, Callable[..., Any]] = {
    "nodes": lambda graph, **how: NeighborLoader(graph, [3, 2], NODES, **how),
    "nodes, labor": lambda graph, **how: NeighborLoader(graph, [3, 2], NODES, method="labor", **how),
    "subgraphs": lambda graph, **how: SubGraphLoader(graph, [3], NODES, **how),
    "HGT": lambda graph, **how: HGTLoader(graph, [5, 3], NODES, **how),
    "PPR": lambda graph, **how: PPRLoader(graph, 4, NODES, eps=5e-3, **how),
    "links": lambda graph, **how: LinkNeighborLoader(graph, [3, 2], LINKS, neg_sampling="binary", **how),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[int, Path]:
    """The same blocks in 1, 2, 4 and 8 partitions."""
    root = tmp_path_factory.mktemp("locality")
    options: dict[str, Any] = {"num_blocks": BLOCKS, "halo": ("raw_id",)}
    return {num: write_in_blocks(root / str(num), TABLES, {"node": BLOCK}, num_parts=num, **options) for num in (1, 2, 4, 8)}


@pytest.fixture(scope="module")
def whole(folders) -> Iterator[Graph]:
    with halohop.open(folders[1]) as graph:
        yield graph


@contextmanager
def on_hosts(folder: Path, *shares: list[int]) -> Iterator[list[Graph]]:
    with hosts(folder, shares) as graphs:
        yield graphs


@contextmanager
def on_servers(folder: Path, sampling: Any, **options: Any) -> Iterator[list[Graph]]:
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for address, share in zip(addresses, ([0, 1], [2, 3]), strict=True):
            peers = [other for other in addresses if other != address]
            stack.enter_context(halohop.serve(folder, partitions=share, listen=address, peers=peers, token=TOKEN, **options))
        yield [stack.enter_context(halohop.connect(addresses, sampling=sampling, token=TOKEN))]


@contextmanager
def here(folder: Path) -> Iterator[list[Graph]]:
    with halohop.open(folder) as graph:
        yield [graph]


PLACES: dict[str, Callable[[dict[int, Path]], Any]] = {
    "one host, 4 partitions": lambda folders: here(folders[4]),
    "one host, 8 partitions": lambda folders: here(folders[8]),
    "two hosts": lambda folders: on_hosts(folders[4], [0, 1], [2, 3]),
    "two hosts, one partition each": lambda folders: on_hosts(folders[2], [0], [1]),
    "four hosts": lambda folders: on_hosts(folders[4], [0], [1], [2], [3]),
    "servers": lambda folders: on_servers(folders[4], "servers"),
    "servers, sampled here": lambda folders: on_servers(folders[4], "client"),
}


def made(graph: Graph, name: str, *, rank: int = 0, size: int = 1, **options: Any) -> Any:
    world = World(rank=rank, size=size, local_rank=rank, local_size=size)
    options = {"locality": "blocks", "shuffle": True, "batch_size": BATCH, "seed": 4, "num_workers": 1, "world": world} | options
    return LOADERS[name](graph, **options)


def said(batch: Any) -> tuple[Any, ...]:
    """What makes batches different."""
    return batch.n_id.tolist(), batch.e_id.tolist(), batch.input_id.tolist(), batch.x.tolist()


def batches(loader: Any) -> list[tuple[Any, ...]]:
    return [said(batch) for batch in loader]


def by_steps(graphs: list[Graph], name: str, ranks: int) -> list[list[tuple[Any, ...]]]:
    """The batches of each step of an epoch, rank r at its host."""
    loaders = [made(graphs[rank * len(graphs) // ranks], name, rank=rank, size=ranks) for rank in range(ranks)]
    return [list(step) for step in zip(*map(batches, loaders), strict=True)]


@pytest.fixture(scope="module")
def expected(whole) -> dict[tuple[str, int], list[list[tuple[Any, ...]]]]:
    return {(name, ranks): by_steps([whole], name, ranks) for name in LOADERS for ranks in (1, 4)}


REPEATED = ("one host, 8 partitions", "two hosts, one partition each", "servers")
"""What other places show already."""


@pytest.mark.parametrize("place", [pytest.param(name, marks=[pytest.mark.full] * (name in REPEATED)) for name in PLACES])
def test_batches_are_the_same_wherever_the_graph_lies(folders, expected, place):
    names = LOADERS if place.startswith("one host") else ("nodes", "links")  # what the others go through is no other
    with PLACES[place](folders) as graphs:
        for name in names:
            assert by_steps(graphs, name, 4) == expected[name, 4], name


@pytest.mark.parametrize("name", LOADERS)
def test_ranks_make_the_batches_that_one_would_make_alone(expected, name):
    """But those of the last two steps of an epoch, which they share evenly."""
    alone, steps = [batch for (batch,) in expected[name, 1]], expected[name, 4]
    for step, found in enumerate(steps[:-2]):
        assert sorted(found) == sorted(alone[step * 4 : (step + 1) * 4])


@pytest.mark.parametrize("run", ["inline", "threads", "processes"])
def test_batches_are_the_same_for_any_workers(whole, expected, run):
    options = {"run": run, "num_workers": 0 if run == "inline" else 2}
    assert batches(made(whole, "nodes", **options)) == [batch for (batch,) in expected["nodes", 1]]


@pytest.mark.parametrize("name", ["nodes", "links"])
def test_a_loader_goes_on_in_mid_epoch_elsewhere(folders, whole, name):
    with PLACES["two hosts"](folders) as graphs, halohop.open(folders[8]) as other:
        for rank in (0, 3):
            undisturbed = made(whole, name, rank=rank, size=4)
            undisturbed.set_epoch(1)
            stopped = made(graphs[rank // 2], name, rank=rank, size=4)
            stopped.set_epoch(1)
            begun = iter(stopped)
            first = [said(next(begun)) for _ in range(3)]
            state = json.loads(json.dumps(stopped.state_dict()))
            del begun
            later = made(other, name, rank=rank, size=4)
            later.load_state_dict(state)
            assert first + batches(later) == batches(undisturbed)


def test_seeds_that_live_at_the_servers_have_their_blocks_there(folders, expected, tmp_path):
    np.save(tmp_path / "train.npy", NODES.numpy())
    options: dict[str, Any] = {"locality": "blocks", "shuffle": True, "batch_size": BATCH, "seed": 4, "num_workers": 1}
    with on_servers(folders[4], "servers", seeds=tmp_path) as (graph,):
        loader = NeighborLoader(graph, [3, 2], graph.seed_file("train.npy"), **options)
        assert batches(loader) == [batch for (batch,) in expected["nodes", 1]]


@pytest.mark.full
def test_blocks_of_metis_are_the_same_in_any_number_of_partitions(tmp_path):
    found = []
    for num_parts in (2, 4, 8):
        halohop.partition(TABLES, tmp_path / str(num_parts), num_parts=num_parts, method=eight_blocks_of_metis)
        with halohop.open(tmp_path / str(num_parts)) as graph:
            assert torch.equal(graph.owners(NODES), graph.blocks(NODES) * num_parts // BLOCKS)
            found.append(batches(made(graph, "nodes")))
    assert found[0] == found[1] == found[2]


def eight_blocks_of_metis(tables: GraphTables, request: AssignRequest) -> Division:
    return metis(tables, replace(request, num_blocks=BLOCKS))


def test_blocks_are_asked_for_in_chunks(folders, monkeypatch):
    monkeypatch.setattr("halohop.cluster.lookups._AT_ONCE", 30)
    asked = []
    with halohop.open(folders[4]) as graph:
        fetch_rows = graph.fetch_rows
        monkeypatch.setattr(graph, "fetch_rows", lambda *query: asked.append(len(query[2])) or fetch_rows(*query))
        found = graph.blocks_of("node", graph.locate(NODES))
        assert torch.equal(found, BLOCK)
    assert asked == [30, 30, 30, 22]


def test_a_graph_says_the_blocks_of_nodes(folders, whole):
    some = torch.tensor([9, 3, 3, 70])
    with halohop.open(folders[8]) as graph:
        assert graph.blocks(some).tolist() == BLOCK[some].tolist() == graph.owners(some).tolist()
    assert whole.blocks(some).dtype == torch.int64
    with pytest.raises(InputError, match="no blocks; partition it with --method metis"):
        halohop.graph(as_data(TABLES)).blocks(some)


@pytest.mark.parametrize("name", ["nodes", "subgraphs", "HGT", "PPR"])
def test_a_batch_has_the_seeds_of_one_block(whole, name):
    found = [BLOCK[batch.input_id].unique().tolist() for batch in made(whole, name, batch_size=7)]
    assert found == [[block] for block in (0, 4, 2, 6, 1, 5, 3, 7)] * 2


def test_links_have_the_block_of_their_destination(whole):
    found = [BLOCK[LINKS[1, batch.input_id]].unique().tolist() for batch in made(whole, "links", batch_size=7)]
    assert all(len(blocks) == 1 for blocks in found)
    assert any(len(BLOCK[LINKS[0, batch.input_id]].unique()) > 1 for batch in made(whole, "links", batch_size=7))


def test_links_of_several_types_have_the_block_of_their_destination(tmp_path):
    """Whose type has a column of its own."""
    block = {"user": torch.arange(12, dtype=torch.uint8) % 4, "item": torch.arange(40, dtype=torch.uint8) // 10}
    relation = ("user", "buys", "item")
    edges = {relation: EdgeTable(src=torch.arange(120) % 12, dst=torch.arange(120) * 7 % 40)}
    tables = GraphTables(nodes={name: NodeTable(num_nodes=len(own)) for name, own in block.items()}, edges=edges)
    folder = write_in_blocks(tmp_path / "typed", tables, block, num_blocks=4, num_parts=2)
    with halohop.open(folder) as graph:
        loader = LinkNeighborLoader(graph, [2], (relation, None), batch_size=10, shuffle=True, locality="blocks", num_workers=1)
        found = [block["item"][edges[relation].dst[batch[relation].input_id]].unique().tolist() for batch in loader]
    assert found == [[block] for block in (0, 2, 1, 3)] * 3


def remote_share(folder: Path, locality: str) -> float:
    """Of the rows of the batches of two ranks on two hosts, which keep none."""
    with hosts(folder, [[0, 1], [2, 3]], cache=None) as graphs:
        before = [graph.statistics() for graph in graphs]
        for rank, graph in enumerate(graphs):
            loader = made(graph, "nodes", rank=rank, size=2, locality=locality)
            before[rank] = loader.statistics()
            batches(loader)
        rows = [
            {name: graph.statistics()[name] - old[name] for name in ("local_rows", "remote_rows")}
            for graph, old in zip(graphs, before, strict=True)
        ]
    remote, local = (sum(counts[name] for counts in rows) for name in ("remote_rows", "local_rows"))
    return remote / (remote + local)


def test_batches_from_one_block_have_fewer_remote_rows(folders):
    """Of the graph's edges one in ten leads anywhere; the seeds of the whole graph have every other row elsewhere."""
    assert 0.4 < remote_share(folders[4], "none") < 0.6
    for locality in ("blocks", "owner"):
        assert remote_share(folders[4], locality) < 0.15


def test_by_owner_batches_are_of_one_partition_and_follow_the_partitions(folders):
    found = {}
    for num_parts in (2, 4):
        with halohop.open(folders[num_parts]) as graph:
            epoch = list(made(graph, "nodes", locality="owner", batch_size=7))
            owners = [graph.owners(batch.input_id).unique().tolist() for batch in epoch]
            assert owners == [[part] for part in ((0, 1) if num_parts == 2 else (0, 2, 1, 3))] * (16 // num_parts)
            found[num_parts] = [batch.input_id.tolist() for batch in epoch]
    assert found[2] != found[4]


def test_a_state_of_another_dealing_is_refused(folders, whole):
    saved = made(whole, "nodes").state_dict()
    with pytest.raises(
        InputError, match=r"goes through its seeds in another way \(block_of_seeds: \d+ then, None now, blocks: 8 then"
    ):
        made(whole, "nodes", locality="none").load_state_dict(saved)
    with halohop.open(folders[2]) as graph:
        saved = made(graph, "nodes", locality="owner").state_dict()
        with halohop.open(folders[4]) as other, pytest.raises(InputError, match="blocks: 2 then, 4 now"):
            made(other, "nodes", locality="owner").load_state_dict(saved)


def test_by_none_batches_and_states_are_as_without_it(whole):
    plain = NeighborLoader(whole, [3, 2], NODES, shuffle=True, batch_size=BATCH, seed=4, num_workers=1)
    named = made(whole, "nodes", locality="none")
    assert plain.state_dict() == named.state_dict()
    assert plain.state_dict()["plan"].keys() == {"steps", "num_seeds", "batch_size", "shuffle", "drop_last", "seed", "ranks"}
    assert batches(plain) == batches(named)


def test_a_rank_with_seeds_of_its_own_deals_them_by_block(whole):
    own = (BLOCK % 2 == 0).nonzero().view(-1)
    options: dict[str, Any] = {"shuffle": True, "batch_size": 7, "num_workers": 1, "locality": "blocks"}
    loader = NeighborLoader(whole, [2], own, world=World(rank=1, size=2), own_seeds=True, **options)
    assert [BLOCK[own[batch.input_id]].unique().tolist() for batch in loader] == [[0], [4], [2], [6]] * 2


def test_padded_batches_have_the_places_that_batches_of_blocks_take(whole):
    padded = list(made(whole, "nodes", pad="measured", drop_last=True))
    assert len({batch.num_nodes for batch in padded}) == 1
    assert [batch.input_id[batch.seed_mask].tolist() for batch in padded] == [
        batch.input_id.tolist() for batch in made(whole, "nodes", drop_last=True)
    ]


def test_places_are_measured_with_seeds_of_blocks(tmp_path):
    tables, block = clustered(4, 200)
    how: dict[str, Any] = {"pad": "measured", "batch_size": 100, "num_workers": 1}
    with halohop.open(write_in_blocks(tmp_path / "parts", tables, {"node": block}, num_blocks=4, num_parts=1)) as graph:
        near, anywhere = (next(iter(NeighborLoader(graph, [-1], None, locality=way, **how))) for way in ("blocks", "none"))
    assert near.num_nodes < 0.8 * anywhere.num_nodes


REFUSED: dict[str, tuple[Callable[[Graph], Any], str]] = {
    "unknown": (lambda graph: made(graph, "nodes", locality="block"), "locality='block' is none of 'none', 'blocks', 'owner'"),
    "sampler": (
        lambda graph: made(graph, "nodes", world=None, shuffle=False, sampler=RandomSampler(NODES)),
        "`sampler` and `batch_sampler` decide which seeds a batch has: leave them out, or use locality='none'",
    ),
    "weights": (
        lambda graph: made(graph, "nodes", world=None, shuffle=False, sampler=WeightedRandomSampler([1.0] * len(NODES), 10)),
        "use locality='none'",
    ),
    "batch_sampler": (
        lambda graph: NeighborLoader(graph, [2], NODES, batch_sampler=BatchSampler(NODES, 4, False), locality="owner"),
        "use locality='none'",
    ),
    "clusters": (
        lambda graph: ClusterLoader(graph, BLOCK.long(), locality="blocks"),
        "locality='blocks' is for loaders of nodes and edges; clusters and random subgraphs: leave it out",
    ),
    "SAINT": (
        lambda graph: GraphSAINTNodeSampler(graph, 5, locality="owner"),
        "locality='owner' is for loaders of nodes and edges",
    ),
    "batch_size": (lambda graph: made(graph, "nodes", batch_size=0), "batch_size=0 must be at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(whole, case):
    make, message = REFUSED[case]
    with pytest.raises(InputError, match=re.escape(message)):
        make(whole)


def test_a_graph_without_blocks_names_the_remedy(tmp_path):
    halohop.partition(as_data(TABLES), tmp_path / "parts", num_parts=2, method="random")
    for graph in (halohop.open(tmp_path / "parts"), halohop.graph(as_data(TABLES))):
        with pytest.raises(
            InputError, match=r"has no blocks: partition it with --method metis \(.*\) into 2, 4, 8, ... partitions, or use"
        ):
            made(graph, "nodes")
        assert len(batches(made(graph, "nodes", locality="owner"))) == len(NODES) // BATCH + 1
