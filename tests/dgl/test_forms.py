"""Forms of DGL's that differ between its releases, or are easily read as another one."""

from pathlib import Path

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
