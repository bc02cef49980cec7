"""Ranks that fail before they have sent a share: the others hear why at once, and the next step comes."""

import time
from collections.abc import Iterator

import pytest
import torch

import halohop
from halohop import DistEmbedding, Graph, World
from halohop.errors import HalohopError
from halohop.optim import SparseSGD
from halohop.testing.graphs import ring
from halohop.testing.worlds import partitioned
from tests.optim.ranks import in_ranks
from tests.support.deadlines import within

NODES = 12


@pytest.fixture
def graph() -> Iterator[Graph]:
    with partitioned(ring(NODES), 2, shard_each=True) as graph:
        yield graph


def learned(graph: Graph) -> DistEmbedding:
    return DistEmbedding(graph, None, 2, "learned", halohop.init.constant(1.0), node_type="node")


def backward(embedding: DistEmbedding) -> None:
    embedding(torch.arange(NODES)).sum().backward()


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("failure", ["a row that is not there", "Ctrl-C"])
def test_other_ranks_hear_it_and_the_next_step_comes(graph: Graph, failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: dict[int, str] = {}

    def run(rank: int) -> None:
        embedding = learned(graph)
        optimizer = SparseSGD([embedding], lr=0.5, world=World(rank=rank, size=2), timeout=60.0)
        backward(embedding)
        if rank == 1 and failure == "Ctrl-C":
            monkeypatch.setattr(optimizer, "_shares", interrupted)
        elif rank == 1:
            embedding.gradients.add(torch.tensor([NODES]), torch.ones(1, 2))
        with pytest.raises((HalohopError, KeyboardInterrupt)) as raised:
            optimizer.step()
        errors[rank] = str(raised.value)
        monkeypatch.undo()
        optimizer.zero_grad()
        backward(embedding)
        optimizer.step()

    begin = time.monotonic()
    in_ranks(2, run)
    assert time.monotonic() - begin < within(10.0)
    expected = "KeyboardInterrupt" if failure == "Ctrl-C" else f"not among the {NODES} of table 'learned', the first is {NODES}"
    assert expected in errors[0]
    assert torch.equal(learned(graph).weight[torch.arange(NODES)], torch.full((NODES, 2), 0.5))
