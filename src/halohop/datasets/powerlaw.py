"""A power-law graph of any size, made block by block: larger than memory, and the same however much of it is made at a time.

Both ends of an edge are drawn in proportion to weights (Chung and Lu, 2002) that fall with a node's rank as a power law, by the
inverse of their distribution, so nothing is kept of the nodes. Every block of rows has random numbers of its own, a function of
(seed, block).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.splits import FRACTIONS
from halohop.datasets.staging import Staging
from halohop.errors import InputError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

_MOST_NODES = 3_000_000_000  # the product of two node numbers fits 63 bits
_NODES, _EDGES, _CENTRES = range(3)  # streams of random numbers
_EDGE_BLOCK, _NODE_BLOCK = 1 << 20, 1 << 14
_FLATTENED = 10  # ranks that the heaviest weights are spread over, so that no node has a large share of all edges


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """How a graph is made.

    Args:
        nodes, edges: how many; edges are directed, and may be loops or the same as another one.
        features: columns of ``x``, float32; 0 makes none.
        classes: of the nodes, which are their labels ``y``.
        exponent: of the power law of degrees, over 2; smaller means heavier hubs.
        homophily: share of the edges whose ends are made to be of one class.
        fractions: shares of train, val and test nodes, each drawn on its own.
        seed: of everything random.

    Raises:
        InputError: numbers that no graph can have.
    """

    nodes: int
    edges: int
    features: int = 0
    classes: int = 16
    exponent: float = 2.5
    homophily: float = 0.5
    fractions: tuple[float, float, float] = FRACTIONS
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= _MOST_NODES:
            raise InputError(f"nodes must be from 1 to {_MOST_NODES}, got {self.nodes}")
        if self.edges < 0 or self.features < 0:
            raise InputError(f"edges and features must not be negative, got {self.edges} and {self.features}")
        if not 1 <= self.classes <= self.nodes:
            raise InputError(f"classes must be from 1 to the number of nodes, {self.nodes}, got {self.classes}")
        if self.exponent <= 2:
            raise InputError(f"exponent must be above 2, got {self.exponent}: below, the average degree has no limit")
        if not 0 <= self.homophily <= 1:
            raise InputError(f"homophily must be from 0 to 1, got {self.homophily}")
        if min(self.fractions) < 0 or sum(self.fractions) > 1 + 1e-9:
            raise InputError(f"fractions={self.fractions} must be three shares (train, val, test) that sum to at most 1")


def power_law(shape: PowerLaw, staging: Staging | None = None) -> GraphTables:
    """A homogeneous graph with labels, features and splits; node numbers carry no information about class or degree.

    Args:
        shape: what to make.
        staging: where its columns are collected; by default in memory.

    Example:
        >>> tables = power_law(PowerLaw(nodes=1000, edges=8000, features=4))
        >>> tables.nodes["node"].columns["x"].shape, tables.edges["node", "to", "node"].num_edges
        (torch.Size([1000, 4]), 8000)
    """
    staging = staging or Staging()
    nodes = staging.columns(f"nodes.{NODE}", lambda: node_blocks(shape))
    ends = staging.columns(f"edges.{'__'.join(EDGE)}", lambda: edge_blocks(shape))
    return GraphTables(
        nodes={NODE: NodeTable(num_nodes=shape.nodes, columns=nodes)},
        edges={EDGE: EdgeTable(src=ends["src"], dst=ends["dst"])},
    )


def node_blocks(shape: PowerLaw) -> Iterator[dict[str, Tensor]]:
    """The columns of the nodes, block by block."""
    centres = _random(shape, _CENTRES, 0).standard_normal((shape.classes, max(shape.features, 1)), dtype=np.float32)
    centres *= np.sqrt(2 * np.log(shape.classes)) / np.linalg.norm(centres, axis=1, keepdims=True)  # as those of `synthetic`
    step, shift = _scramble(shape)
    back = pow(step, -1, shape.nodes)
    ends = np.cumsum(shape.fractions)
    for number, first in enumerate(range(0, shape.nodes, _NODE_BLOCK)):
        rng = _random(shape, _NODES, number)
        node = np.arange(first, min(first + _NODE_BLOCK, shape.nodes))
        y = ((node - shift) % shape.nodes * back % shape.nodes) % shape.classes
        fold = np.searchsorted(ends, rng.random(len(node)), side="right")
        columns = {"y": y} | {f"{name}_mask": fold == k for k, name in enumerate(("train", "val", "test"))}
        if shape.features:
            columns["x"] = rng.standard_normal((len(node), shape.features), dtype=np.float32) + centres[y]
        yield {name: torch.from_numpy(column) for name, column in columns.items()}


def edge_blocks(shape: PowerLaw) -> Iterator[dict[str, Tensor]]:
    """The ends of the edges, ``src`` and ``dst``, block by block."""
    step, shift = _scramble(shape)
    dtype = np.int32 if shape.nodes < 2**31 else np.int64
    for number, first in enumerate(range(0, max(shape.edges, 1), _EDGE_BLOCK)):
        rng = _random(shape, _EDGES, number)
        count = min(_EDGE_BLOCK, shape.edges - first)
        src, dst = _ranks(shape, rng.random(count)), _ranks(shape, rng.random(count))
        alike = rng.random(count) < shape.homophily
        dst[alike] += (src - dst)[alike] % shape.classes
        dst[dst >= shape.nodes] -= shape.classes
        ends = {"src": src, "dst": dst}
        yield {name: torch.from_numpy(((rank * step + shift) % shape.nodes).astype(dtype)) for name, rank in ends.items()}


def _ranks(shape: PowerLaw, uniform: np.ndarray) -> np.ndarray:
    """Ranks from 0 on, drawn in proportion to ``(rank + flattened) ** -power``."""
    rest = 1 - 1 / (shape.exponent - 1)
    low, high = _FLATTENED**rest, (shape.nodes + _FLATTENED) ** rest
    rank: np.ndarray = (low + uniform * (high - low)) ** (1 / rest) - _FLATTENED
    return np.minimum(rank.astype(np.int64), shape.nodes - 1)


def _scramble(shape: PowerLaw) -> tuple[int, int]:
    """The node of rank r is ``(r * step + shift) % nodes``, another one for each rank."""
    step = max(round(shape.nodes * 0.6180339887), 1)
    while math.gcd(step, shape.nodes) != 1:
        step += 1
    return step, int(_random(shape, _CENTRES, 1).integers(shape.nodes))


def _random(shape: PowerLaw, stream: int, block: int) -> np.random.Generator:
    return np.random.default_rng((shape.seed, stream, block))
