"""The same bits after 20 steps of two ranks, wherever the rows lie: any number of partitions and owners, hosts, servers."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import halohop
from halohop import Graph
from halohop.optim import RowwiseAdagrad, SparseAdagrad, SparseAdam, SparseSGD
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, free_addresses, partitioned
from tests.optim.ranks import Make, in_ranks, trained, uneven_plan
from tests.support.table_contract import trainers

NODES, DIM = 50, 7

RULES: dict[str, Make] = {
    "SGD": partial(SparseSGD, lr=0.05),
    "Adagrad": partial(SparseAdagrad, lr=0.1, ranks="sum"),
    "row-wise Adagrad": partial(RowwiseAdagrad, lr=0.1, duplicates="mean"),
    "Adam": partial(SparseAdam, lr=0.02),
    "Adam, steps of rows": partial(SparseAdam, lr=0.02, bias="row"),
}


@contextmanager
def here(num_parts: int, *, an_owner_each: bool) -> Iterator[list[Graph]]:
    with partitioned(ring(NODES), num_parts, shard_each=an_owner_each) as graph:
        yield [graph]


@contextmanager
def on_servers(folder: Path) -> Iterator[list[Graph]]:
    """Two servers, and a client for each rank."""
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for address, share in zip(addresses, ([0, 3], [1, 2]), strict=True):
            peers = [other for other in addresses if other != address]
            stack.enter_context(halohop.serve(folder, partitions=share, listen=address, peers=peers, token=TOKEN))
        yield [stack.enter_context(halohop.connect(addresses, token=TOKEN)) for _ in range(2)]


HERE: dict[str, Callable[[], AbstractContextManager[list[Graph]]]] = {
    "2 partitions": lambda: here(2, an_owner_each=False),
    "4 owners": lambda: here(4, an_owner_each=True),
}
ELSEWHERE: dict[str, Callable[[Path], AbstractContextManager[list[Graph]]]] = {
    "2 servers": on_servers,
    "2 hosts": lambda folder: trainers(folder, [[0, 1], [2, 3]], each=1),
    "a host of 2 trainers": lambda folder: trainers(folder, [[0, 1, 2, 3]], each=2),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layouts") / "parts"
    halohop.partition(ring(NODES), folder, num_parts=4, method="random")
    return folder


def learned(graphs: list[Graph], rule: str) -> list[Tensor]:
    """Vectors of nodes, and rows of their own, trained by clipped gradients."""
    plan = uneven_plan(NODES, DIM, steps=20, ranks=2, seed=1, clip=4.0)
    options: dict[str, Any] = {"init": halohop.init.uniform(-1.0, 1.0), "seed": 3}
    nodes = trained(graphs, "nodes", RULES[rule], plan, node_type="node", **options)
    return [nodes, trained(graphs, "own", RULES[rule], plan, **options)]


@cache
def in_one(rule: str) -> list[Tensor]:
    """What one partition makes of it."""
    with here(1, an_owner_each=False) as graphs:
        return learned(graphs, rule)


def cases(layouts: dict[str, Any], usual: tuple[str, str]) -> list[Any]:
    """All layouts with all rules, of which one is part of the usual run."""
    every = [(layout, rule) for layout in layouts for rule in RULES]
    return [usual, *(pytest.param(*case, marks=pytest.mark.full) for case in every if case != usual)]


@pytest.mark.parametrize(("layout", "rule"), cases(HERE, ("4 owners", "Adam")))
def test_any_number_of_partitions_and_owners(layout: str, rule: str) -> None:
    with HERE[layout]() as graphs:
        for found, expected in zip(learned(graphs, rule), in_one(rule), strict=True):
            assert torch.equal(found, expected)


@pytest.mark.full
@pytest.mark.parametrize("layout", ELSEWHERE)
def test_reading_ahead_among_ranks_that_step(layout: str, folder: Path) -> None:
    ids = torch.randint(NODES, (2, 60, 30), generator=torch.Generator().manual_seed(2))
    ages: list[dict[str, float]] = [{}, {}]

    def run(rank: int) -> None:
        embedding = halohop.DistEmbedding(graphs[rank], None, DIM, "ahead", node_type="node")
        optimizer = SparseSGD([embedding], lr=0.01, world=halohop.World(rank=rank, size=2), timeout=20.0)
        for batch in halohop.ReadAhead(list(ids[rank]), {embedding: lambda batch: batch}, staleness=1):
            (embedding(batch) ** 2).sum().backward()
            optimizer.step()
        ages[rank] = embedding.statistics()

    with ELSEWHERE[layout](folder) as graphs:
        in_ranks(2, run)
        assert halohop.DistTensor.attach(graphs[0], "ahead")[torch.arange(NODES)].norm() < 0.8 * (NODES * DIM) ** 0.5
    for one in ages:
        assert set(one) <= {"lookups_of_age_0", "lookups_of_age_1", "lookups_read_again"}
        assert sum(one.values()) == 60
        assert one["lookups_of_age_1"] > 10


@pytest.mark.parametrize(("layout", "rule"), cases(ELSEWHERE, ("2 servers", "Adam")))
def test_hosts_and_servers(layout: str, rule: str, folder: Path) -> None:
    with ELSEWHERE[layout](folder) as graphs:
        for found, expected in zip(learned(graphs, rule), in_one(rule), strict=True):
            assert torch.equal(found, expected)
