"""GLT's `LinkLoader`, and edges that loaders begin with, as its users name them."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from halohop.errors import InputError
from halohop.glt.data.dataset import Dataset
from halohop.glt.loader.node_loader import Loader
from halohop.glt.loader.transform import with_rows
from halohop.glt.sampler.base import EdgeSamplerInput, NegativeSampling, read_negatives
from halohop.glt.typing import EdgeType


class LinkLoader(Loader):
    """Batches around edges that a sampler of the user's makes, with the rows of their nodes and edges.

    Args:
        data: where the rows are.
        link_sampler: `sample_from_edges` makes a batch.
        edge_label_index, edge_label, neg_sampling: as of `LinkNeighborLoader`; the sampler draws the negatives.
        device: where batches are wanted.
        edge_dir: that of the sampler.
        kwargs: as of torch's DataLoader.
    """

    def __init__(
        self,
        data: Dataset,
        link_sampler: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        neg_sampling: Any = None,
        device: Any = None,
        edge_dir: str = "out",
        **kwargs: Any,
    ) -> None:
        etype, (row, col) = get_edge_label_index(data, edge_label_index)
        edge_label = None if edge_label is None else torch.as_tensor(edge_label)
        if edge_label is not None and neg_sampling is not None and not edge_label.min():
            wide = edge_label if edge_label.is_floating_point() else edge_label.long()
            edge_label = wide + 1  # 0 are the negatives
        links = EdgeSamplerInput(row, col, edge_label, etype, NegativeSampling.cast(neg_sampling))

        def made(positions: list[int]) -> Any:
            return with_rows(data, link_sampler.sample_from_edges(links[torch.tensor(positions)]), edge_dir=edge_dir)

        places: Any = range(len(links))
        super().__init__(DataLoader(places, collate_fn=made, **kwargs), device)


def get_edge_label_index(data: Dataset, edge_label_index: Any) -> tuple[EdgeType | None, Tensor]:
    """The relation of some edges, and their ends ``[2, n]``.

    Args:
        data: where all edges are, if none are named.
        edge_label_index: as of `LinkNeighborLoader`.
    """
    etype, ends = named_edges(edge_label_index)
    graph = data.get_graph(etype)
    if ends is None and graph is None:
        raise InputError(f"edge_label_index={edge_label_index!r} names no relation of the Dataset, {data.get_edge_types()}")
    return etype, torch.stack(graph.topo.edge_index) if ends is None and graph is not None else torch.as_tensor(ends)


def named_edges(edge_label_index: Any) -> tuple[EdgeType | None, Any]:
    """The relation that is named, and the ends, None where all are meant."""
    etype, ends = None, edge_label_index
    typed = isinstance(ends, tuple | list) and len(ends) > 0 and isinstance(ends[0], str | tuple | list | None)
    if typed and (ends[0] is None or str in map(type, ends[0])):
        etype, ends = (ends, None) if isinstance(ends[0], str) else ends
    return etype, torch.stack([*map(torch.as_tensor, ends)]) if isinstance(ends, tuple | list) else ends


def link_options(edge_label_index: Any, edge_label: Any, neg_sampling: Any) -> dict[str, Any]:
    """The arguments of `halohop.LinkNeighborLoader` that are about its edges."""
    etype, ends = named_edges(edge_label_index)
    options = {"edge_label_index": ends if etype is None else (etype, ends), "edge_label": edge_label}
    return options | read_negatives(neg_sampling, etype)
