"""Batches of what samplers return, as GLT's loaders make them."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop.glt.data.dataset import Dataset
from halohop.glt.typing import EdgeType, NodeType, reverse_edge_type


def to_data(
    sampler_out: Any,
    batch_labels: Tensor | None = None,
    node_feats: Tensor | None = None,
    edge_feats: Tensor | None = None,
    **kwargs: Any,
) -> Data:
    """A batch of one type of nodes.

    Args:
        sampler_out: nodes and edges; its metadata become attributes.
        batch_labels, node_feats, edge_feats: the rows of its nodes and edges.
        kwargs: further attributes.
    """
    edges = torch.stack([sampler_out.row, sampler_out.col])
    data = Data(x=node_feats, edge_index=edges, edge_attr=edge_feats, y=batch_labels, **kwargs)
    data.node, data.edge, data.batch = sampler_out.node, sampler_out.edge, sampler_out.batch
    data.batch_size = 0 if sampler_out.batch is None else len(sampler_out.batch)
    data.num_sampled_nodes, data.num_sampled_edges = sampler_out.num_sampled_nodes, sampler_out.num_sampled_edges
    for name, value in _metadata(sampler_out, turned=True).items():
        data[name] = value
    return data


def to_hetero_data(
    hetero_sampler_out: Any,
    batch_label_dict: dict[NodeType, Tensor] | None = None,
    node_feat_dict: dict[NodeType, Tensor] | None = None,
    edge_feat_dict: dict[EdgeType, Tensor] | None = None,
    edge_dir: str = "out",
    **kwargs: Any,
) -> HeteroData:
    """A batch of several types.

    Args:
        hetero_sampler_out: nodes and edges by type; its metadata become attributes of the ends, or of the relation, of its seeds.
        batch_label_dict, node_feat_dict, edge_feat_dict: the rows of its nodes and edges.
        edge_dir: with "out" what belongs to the relation of the seeds belongs to the one that is turned around.
        kwargs: further attributes.
    """
    out, data = hetero_sampler_out, HeteroData(**kwargs)
    for etype, edge_index in out.get_edge_index().items():
        given = {"edge_index": edge_index, "edge": (out.edge or {}).get(etype), "edge_attr": (edge_feat_dict or {}).get(etype)}
        data[etype].update({name: value for name, value in given.items() if value is not None})
    for ntype, node in out.node.items():
        rows = {"node": node, "x": (node_feat_dict or {}).get(ntype), "y": (batch_label_dict or {}).get(ntype)}
        data[ntype].update({name: value for name, value in rows.items() if value is not None})
    for ntype, seeds in (out.batch or {}).items():
        data[ntype].batch, data[ntype].batch_size = seeds, len(seeds)
    data.num_sampled_nodes = {ntype: torch.as_tensor(hops) for ntype, hops in (out.num_sampled_nodes or {}).items()}
    data.num_sampled_edges = {etype: torch.as_tensor(hops) for etype, hops in (out.num_sampled_edges or {}).items()}
    kind: Any = out.input_type
    for name, value in _metadata(out, edge_dir == "out").items():
        if name in ("edge_label_index", "edge_label"):
            data[reverse_edge_type(kind) if edge_dir == "out" else kind][name] = value
        elif name in ("src_index", "dst_pos_index", "dst_neg_index"):
            data[kind[0] if name == "src_index" else kind[2]][name] = value
        else:
            data[name] = value
    return data


def with_rows(data: Dataset, out: Any, input_type: Any = None, edge_dir: str | None = None) -> Data | HeteroData:
    """A batch with the features of its nodes and edges, and the labels of the seeds' type."""
    edge_dir = edge_dir or data.edge_dir
    if not isinstance(out.node, dict):
        feats = _taken(data.get_node_feature(), out.node), _taken(data.get_edge_feature(), out.edge)
        batch = to_data(out, _taken(data.get_node_label(), out.node), *feats)
        if edge_dir == "in" and "edge_label_index" in batch:
            batch.edge_label_index = batch.edge_label_index.flip(0)
        return batch
    labels = {ntype: _taken(data.get_node_label(ntype), node) for ntype, node in out.node.items() if ntype == input_type}
    features = {ntype: _taken(data.get_node_feature(ntype), node) for ntype, node in out.node.items()}
    own = {etype: reverse_edge_type(etype) if edge_dir == "out" else etype for etype in out.edge or {}}
    edges = {etype: _taken(data.get_edge_feature(own[etype]), ids) for etype, ids in (out.edge or {}).items()}
    return to_hetero_data(out, labels, features, edges, edge_dir)


def _taken(rows: Any, ids: Tensor | None) -> Any:
    return None if rows is None or ids is None else rows[ids]


def _metadata(out: Any, turned: bool) -> dict[str, Any]:
    """What is known of the seeds, by name; pairs of nodes are turned around with the edges."""
    if not isinstance(out.metadata, dict):
        return {} if out.metadata is None else {"metadata": out.metadata}
    return {name: value.flip(0) if turned and name == "edge_label_index" else value for name, value in out.metadata.items()}
