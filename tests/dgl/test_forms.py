"""Forms of DGL's that differ between its releases, or are easily read as another one."""

from pathlib import Path
from typing import Any

import pytest
import torch

import halohop.dgl as dgl
from halohop.dgl.distributed import DistGraph, edge_split, initialize, partition_graph
from halohop.errors import InputError


def test_a_list_of_edges_has_pairs() -> None:
    for pairs in ([(0, 1), (0, 2)], [[0, 1], [0, 2]], [(0, 1), (0, 2), (3, 1)]):
        assert [ends.tolist() for ends in dgl.graph(pairs).edges()] == [list(ends) for ends in zip(*pairs, strict=True)]
    assert dgl.graph([]).num_nodes() == 0
    with pytest.raises(InputError, match=r"a list of edges has pairs, and \[0, 1, 2\] is none"):
        dgl.graph([[0, 1, 2], [1, 2, 3]])


def test_loaders_of_graphs_on_several_hosts_are_where_dgl_1_had_them() -> None:
    for name in ("DistDataLoader", "DistEdgeDataLoader", "DistNodeDataLoader", "EdgeCollator", "NodeCollator"):
        assert getattr(dgl.dataloading, name) is getattr(dgl.distributed, name)


def test_edges_are_split_by_a_stored_mask(tmp_path: Path) -> None:
    ends = torch.randint(9, (2, 30), generator=torch.Generator().manual_seed(0))
    g = dgl.heterograph({("user", "buys", "item"): tuple(ends), ("item", "of", "user"): tuple(ends)}, {"user": 9, "item": 9})
    mask = torch.arange(30) % 3 == 0
    g.edges["buys"].data["train_mask"] = mask
    partition_graph(g, "typed", 2, str(tmp_path), part_method="random")
    initialize()
    dist = DistGraph("typed", part_config=str(tmp_path / "typed.json"))
    found = edge_split(dist.edges["buys"].data["train_mask"], dist.get_partition_book(), etype="buys")
    dgl.distributed.exit_client()
    assert found.sort().values.tolist() == mask.nonzero().view(-1).tolist()


def graph_of_60() -> dgl.DGLGraph:
    generator = torch.Generator().manual_seed(0)
    return dgl.graph(tuple(torch.randint(60, (2, 400), generator=generator)), num_nodes=60)


class Frontier(dgl.dataloading.BlockSampler):
    def __init__(self, made: Any) -> None:
        super().__init__(1)
        self.made = made

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
        return self.made(g, seed_nodes)


@pytest.mark.parametrize(
    "made",
    [
        lambda g, seeds: None,
        lambda g, seeds: (seeds, seeds),
        lambda g, seeds: g.subgraph(seeds),
        lambda g, seeds: dgl.to_block(dgl.in_subgraph(g, seeds), seeds),
        lambda g, seeds: dgl.heterograph({("a", "to", "b"): ([0], [0])}),
    ],
)
def test_a_frontier_has_all_nodes(made: Any) -> None:
    """A subgraph has numbers of its own, which are not those of the seeds, and may look like them."""
    with pytest.raises(InputError, match=r"return a graph of some edges with all nodes: \{'_N': 60\}"):
        Frontier(made).sample(graph_of_60(), torch.arange(5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: dgl.sampling.sample_neighbors(g, [1], 1, prob=torch.ones(400)), "prob is a Tensor; set g.edata"),
        (lambda g: dgl.dataloading.NeighborSampler([1], prob=torch.ones(400)), "prob is a Tensor; set g.edata"),
        (lambda g: dgl.sampling.sample_neighbors(g, [1], 1.5), "fanout 1.5 is no whole number"),
        (lambda g: dgl.dataloading.DataLoader(g, [1], "sampler"), "'sampler'.: give a graph, ids, and a sampler"),
        (lambda g: dgl.dataloading.DataLoader("g", [1], Frontier(None)), "give a graph, ids, and a sampler"),
        (
            lambda g: dgl.dataloading.DataLoader(g, g.in_degrees() > 0, dgl.dataloading.NeighborSampler([1])),
            r"give integers \[n\], of a mask",
        ),
        (lambda g: g.nodes[[1, 2]], r"\[1, 2\] is no type"),
        (lambda g: dgl.to_block(dgl.in_subgraph(g, [3]), [3]).edge_subgraph([0]), "subgraphs are of graphs; a block has"),
        (lambda g: dgl.to_block(dgl.in_subgraph(g, [3]), [3]).subgraph([0]), "subgraphs are of graphs; a block has"),
    ],
)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(graph_of_60())


def test_one_node_is_given_as_a_number() -> None:
    g = graph_of_60()
    assert set(dgl.sampling.sample_neighbors(g, 3, -1).edges()[1].tolist()) == {3}
