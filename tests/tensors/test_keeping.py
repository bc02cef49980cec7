"""Embeddings that train, are saved, and go on in another division of the graph with the same bits."""

from pathlib import Path

import pytest
import torch

import halohop
from halohop.errors import InputError
from halohop.testing.graphs import ring
from halohop.testing.worlds import partitioned

pytestmark = pytest.mark.timeout(60)

IDS = torch.arange(200)


class Run:
    """A few embeddings and their optimiser; each step depends on its number alone."""

    def __init__(self, num_parts: int, **options: object) -> None:
        self.graph = partitioned(ring(200), num_parts, **options)

    def begin(self) -> None:
        begin = halohop.init.normal(0.0, 0.1)
        self.vectors = halohop.DistEmbedding(self.graph, None, 4, "vectors", begin, node_type="node")
        self.kinds = halohop.DistEmbedding(self.graph, 7, 4, "kinds")
        self.optimizer = halohop.optim.SparseAdam([self.vectors, self.kinds], lr=0.01)

    def steps(self, numbers: range) -> torch.Tensor:
        for number in numbers:
            generator = torch.Generator().manual_seed(number)
            ids, kinds = (torch.randint(count, (30,), generator=generator) for count in (200, 7))
            self.optimizer.zero_grad()
            (self.vectors(ids) * (self.kinds(kinds) + torch.randn(30, 4, generator=generator))).sum().backward()
            self.optimizer.step()
        return torch.cat([self.vectors.weight[IDS], self.kinds.weight[torch.arange(7)]])


def test_embeddings_and_their_optimizer_go_on_in_another_division(tmp_path: Path) -> None:
    first = Run(2, shard_each=True)
    first.begin()
    first.steps(range(5))
    first.graph.tables.save(tmp_path, step=5)
    then = first.steps(range(5, 10))
    first.graph.tables.load(tmp_path, step=5)  # in the process that trains
    assert first.steps(range(5, 10)).equal(then)
    for num_parts, before in ((1, True), (3, False)):
        other = Run(num_parts, seed=4, shard_each=True)
        if before:  # the tables are made by the checkpoint, or were there
            other.begin()
        other.graph.tables.load(tmp_path, step=5)
        other.begin()
        assert other.steps(range(5, 10)).equal(then)
        other.graph.close()
    with pytest.raises(InputError, match=r"are of step 5, and not of step 6"):
        first.graph.tables.load(tmp_path, step=6)
    first.graph.close()
