"""What a batch of `halohop.glt` must hold, given halohop's own batch of the same seeds."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from halohop.glt import reverse_edge_type


def assert_same(batch: Any, plain: Any, *, edge_dir: str, with_edge: bool) -> None:
    """Compares bit for bit.

    Args:
        batch: of GLT's names.
        plain: of PyG's names.
        edge_dir, with_edge: of both.
    """
    if isinstance(plain, Data):
        _same_nodes(batch, plain, seeds=True)
        _same_edges(batch, plain, edge_dir, with_edge)
        assert torch.as_tensor(batch.num_sampled_nodes).tolist() == list(plain.num_sampled_nodes)
        assert torch.as_tensor(batch.num_sampled_edges).tolist() == list(plain.num_sampled_edges)
        return
    assert batch.node_types == plain.node_types
    for name in plain.node_types:
        _same_nodes(batch[name], plain[name], seeds="input_id" in plain[name])
        assert batch.num_sampled_nodes[name].tolist() == list(plain[name].num_sampled_nodes)
    names = {relation: reverse_edge_type(relation) if edge_dir == "out" else relation for relation in plain.edge_types}
    assert set(batch.edge_types) == set(names.values())
    for relation, name in names.items():
        _same_edges(batch[name], plain[relation], edge_dir, with_edge)
        assert batch.num_sampled_edges[name].tolist() == list(plain[relation].num_sampled_edges)


def _same_nodes(store: Any, plain: Any, *, seeds: bool) -> None:
    _same(store.node, plain.n_id)
    assert ("x" in store) == ("x" in plain)
    if "x" in plain:
        _same(store.x, plain.x)
    assert ("y" in store) == (seeds and "y" in plain)
    if "y" in store:
        _same(store.y, plain.y)
    if seeds:
        assert store.batch_size == plain.batch_size
        _same(store.batch, plain.n_id[: plain.batch_size])
    assert not {"n_id", "input_id"} & set(store.keys())


def _same_edges(store: Any, plain: Any, edge_dir: str, with_edge: bool) -> None:
    _same(store.edge_index, plain.edge_index.flip(0) if edge_dir == "out" else plain.edge_index)
    assert ("edge" in store) == with_edge
    if with_edge:
        _same(store.edge, plain.e_id)
        assert ("edge_attr" in store) == ("edge_attr" in plain)
        if "edge_attr" in plain:
            _same(store.edge_attr, plain.edge_attr)
    assert "e_id" not in store


def _same(one: Tensor, other: Tensor) -> None:
    assert one.dtype == other.dtype
    assert torch.equal(one, other)
