"""`graphlearn_torch.sampler.base`: what samplers are asked for, and what they return."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch_geometric.sampler import NegativeSampling as PyGNegativeSampling
from torch_geometric.sampler.base import NegativeSamplingMode

from halohop.datasets import load_tensor
from halohop.errors import InputError
from halohop.glt.typing import EdgeType, NodeType, NumNeighbors, Split
from halohop.glt.utils.common import CastMixin
from halohop.glt.utils.tensor import apply_to_all_tensor

__all__ = ["NegativeSamplingMode"]


class _SamplerInput(CastMixin):  # type: ignore[misc]
    """Seeds, which are indexed, shared and moved together."""

    def __len__(self) -> int:
        return len(self._values()[0])

    def __getitem__(self, index: Any) -> Self:
        return self._each(lambda values: values[index])

    def share_memory(self) -> Self:
        """The same in shared memory."""
        return self._each(Tensor.share_memory_)

    def to(self, device: Any) -> Self:
        """The same on a device."""
        return self._each(lambda values: values.to(device))

    def _values(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]

    def _each(self, method: Any) -> Self:
        return type(self)(*apply_to_all_tensor(self._values(), method))


@dataclass(frozen=True, slots=True)
class NodeSamplerInput(_SamplerInput):
    """Nodes as seeds.

    Args:
        node: their ids, int64 ``[n]``.
        input_type: their type, where there are several.
    """

    node: Tensor
    input_type: NodeType | None = None


@dataclass(frozen=True, slots=True)
class EdgeSamplerInput(_SamplerInput):
    """Edges as seeds.

    Args:
        row, col: ids of their sources and destinations, int64 ``[n]``.
        label: of each, ``[n, ...]``.
        input_type: their relation, where there are several.
        neg_sampling: a `NegativeSampling`, if there are to be negatives.
    """

    row: Tensor
    col: Tensor
    label: Tensor | None = None
    input_type: EdgeType | None = None
    neg_sampling: Any = None


class NegativeSampling(PyGNegativeSampling):  # type: ignore[misc]
    """Which pairs of nodes are held against edges.

    Args:
        mode: "binary": pairs that are no edges; "triplet": other destinations of each source.
        amount: how many for each edge.
        weight: how likely nodes are, ``[num_nodes]`` of the destinations' type; binary negatives have it at both ends, if these
            are of one type.

    Raises:
        InputError: no such mode, or no such amount.
    """

    def __init__(self, mode: Any, amount: float = 1, weight: Tensor | None = None) -> None:
        try:
            super().__init__(mode, amount, None, weight)
        except ValueError as error:
            raise InputError(f"NegativeSampling({mode!r}, {amount!r}): {error}; give 'binary' or 'triplet'") from error

    weight = property(lambda self: self.dst_weight)


def read_negatives(given: Any, etype: EdgeType | None) -> dict[str, Any]:
    """A `NegativeSampling`, or what PyG makes one of, as `neg_sampling` and `strict_negatives` of halohop's loaders."""
    given = NegativeSampling.cast(given)
    if given is None:
        return {}
    both = given.is_binary() and given.src_weight is None and (etype is None or etype[0] == etype[2])
    own = PyGNegativeSampling(given.mode, given.amount, given.dst_weight if both else given.src_weight, given.dst_weight)
    return {"neg_sampling": own, "strict_negatives": given.is_binary()}


class NeighborOutput(NamedTuple):
    """Neighbours of some nodes.

    Args:
        nbr: ids of the neighbours of each, one after the other, int64 ``[total]``.
        nbr_num: how many each has, int64 ``[n]``.
        edge: ids of the edges to them, int64 ``[total]``, or None.
    """

    nbr: Tensor
    nbr_num: Tensor
    edge: Tensor | None

    def to(self, device: Any) -> "NeighborOutput":
        """The same on a device."""
        return NeighborOutput(*apply_to_all_tensor(tuple(self), Tensor.to, device))


class SamplerOutput(NamedTuple):
    """A subgraph of one type of nodes.

    Args:
        node: ids, int64 ``[num_nodes]``, seeds first.
        row, col: ends of the edges as positions in `node`, int64 ``[num_edges]``; they lead from neighbours to seeds.
        edge: ids of the edges, or None.
        batch: ids of the seeds.
        num_sampled_nodes, num_sampled_edges: by hop.
        device: where all of it lies.
        metadata: of links `edge_label_index` and `edge_label`, or `src_index`, `dst_pos_index` and `dst_neg_index`; of induced
            subgraphs the positions of the seeds.
    """

    node: Any
    row: Any
    col: Any
    edge: Any = None
    batch: Any = None
    num_sampled_nodes: Any = None
    num_sampled_edges: Any = None
    device: torch.device | None = None
    metadata: Any = None


class HeteroSamplerOutput(NamedTuple):
    """A subgraph of several types: what a `SamplerOutput` has, in dicts by type of nodes and relation.

    Args:
        edge_types: the relations.
        input_type: of the seeds.
    """

    node: dict[NodeType, Tensor]
    row: dict[EdgeType, Tensor]
    col: dict[EdgeType, Tensor]
    edge: dict[EdgeType, Tensor] | None = None
    batch: dict[NodeType, Tensor] | None = None
    num_sampled_nodes: dict[NodeType, Any] | None = None
    num_sampled_edges: dict[EdgeType, Any] | None = None
    edge_types: list[EdgeType] | None = None
    input_type: NodeType | EdgeType | None = None
    device: torch.device | None = None
    metadata: Any = None

    def get_edge_index(self) -> dict[EdgeType, Tensor]:
        """The ends of each relation's edges, ``[2, n]``."""
        none = torch.empty((2, 0), dtype=torch.int64, device=self.device)
        found = {etype: torch.stack([row, self.col[etype]]) for etype, row in self.row.items()}
        return dict.fromkeys(self.edge_types or [], none) | found


class SamplingType(Enum):
    """What seeds are, and what is drawn around them."""

    NODE = 0
    LINK = 1
    SUBGRAPH = 2
    RANDOM_WALK = 3


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """How batches are drawn, and what they hold."""

    sampling_type: SamplingType
    num_neighbors: NumNeighbors | None
    batch_size: int
    shuffle: bool
    drop_last: bool
    with_edge: bool
    collect_features: bool
    with_neg: bool
    with_weight: bool
    edge_dir: str
    seed: int | None


class BaseSampler(ABC):
    """What loaders draw their batches with."""

    @abstractmethod
    def sample_from_nodes(self, inputs: Any, **kwargs: Any) -> Any:
        """A `SamplerOutput` or `HeteroSamplerOutput` around a `NodeSamplerInput`."""

    @abstractmethod
    def sample_from_edges(self, inputs: Any, **kwargs: Any) -> Any:
        """A `SamplerOutput` or `HeteroSamplerOutput` around an `EdgeSamplerInput`."""

    @abstractmethod
    def subgraph(self, inputs: Any) -> Any:
        """All edges among the nodes of a `NodeSamplerInput`, and those around them; a `SamplerOutput`."""


class RemoteSamplerInput(ABC):
    """Seeds that the server has."""

    @abstractmethod
    def to_local_sampler_input(self, dataset: Any, **kwargs: Any) -> Any:
        """A `NodeSamplerInput` or `EdgeSamplerInput`, read on the server."""


@dataclass(frozen=True, slots=True)
class RemoteNodePathSamplerInput(RemoteSamplerInput):
    """Seeds in a file that torch.save wrote."""

    node_path: str
    input_type: NodeType | None

    def to_local_sampler_input(self, dataset: Any, **kwargs: Any) -> NodeSamplerInput:
        return NodeSamplerInput(load_tensor(Path(self.node_path)), self.input_type)


@dataclass(frozen=True, slots=True)
class RemoteNodeSplitSamplerInput(RemoteSamplerInput):
    """Seeds of a split of the server's data set."""

    split: Split
    input_type: NodeType | None

    def to_local_sampler_input(self, dataset: Any, **kwargs: Any) -> NodeSamplerInput:
        ids = {Split.train: dataset.train_idx, Split.valid: dataset.val_idx, Split.test: dataset.test_idx}[self.split]
        return NodeSamplerInput(ids[self.input_type] if isinstance(ids, dict) else ids, self.input_type)
