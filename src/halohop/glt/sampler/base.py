"""What samplers are asked for."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from torch import Tensor

from halohop.glt.typing import EdgeType, NodeType, NumNeighbors


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


@dataclass(frozen=True, slots=True)
class NodeSamplerInput:
    """Seeds.

    Args:
        node: their ids, int64 ``[n]``.
        input_type: their type, where there are several.
    """

    node: Tensor
    input_type: NodeType | None = None

    def __len__(self) -> int:
        return len(self.node)

    def __getitem__(self, index: Any) -> "NodeSamplerInput":
        return NodeSamplerInput(self.node[index], self.input_type)


@dataclass(frozen=True, slots=True)
class EdgeSamplerInput:
    """Edges as seeds.

    Args:
        row, col: ids of their ends, int64 ``[n]``.
        label: of each.
        input_type: their relation, where there are several.
        neg_sampling: how edges are drawn that are none.
    """

    row: Tensor
    col: Tensor
    label: Tensor | None = None
    input_type: EdgeType | None = None
    neg_sampling: Any = None

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: Any) -> "EdgeSamplerInput":
        label = None if self.label is None else self.label[index]
        return EdgeSamplerInput(self.row[index], self.col[index], label, self.input_type, self.neg_sampling)
