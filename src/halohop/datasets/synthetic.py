"""Made-up graphs with planted classes, from a thousand nodes to the shape of ogbn-products, the same for the same seed.

The model is the degree-corrected stochastic block model of Karrer and Newman (Phys. Rev. E 83, 2011) with power-law weights
as in Chung and Lu (2002): an endpoint is drawn in proportion to its weight, and an edge keeps to one class with probability
`homophily`. Features are the class centre under noise, so that neighbours say more about a node than its own features do.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.block_model import Blocks, bipartite_pairs, simple_pairs
from halohop.datasets.splits import FRACTIONS, random_masks
from halohop.errors import InputError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How big a synthetic graph is; `avg_degree` counts directed edges per node."""

    num_nodes: int
    avg_degree: float
    num_classes: int
    num_features: int


SIZES = {
    "tiny": Size(num_nodes=1_000, avg_degree=12, num_classes=5, num_features=32),
    "small": Size(num_nodes=20_000, avg_degree=16, num_classes=10, num_features=64),
    "medium": Size(num_nodes=200_000, avg_degree=25, num_classes=20, num_features=100),
    "products": Size(num_nodes=2_449_029, avg_degree=2 * 61_859_140 / 2_449_029, num_classes=47, num_features=100),
}


def synthetic(
    size: str | None = "small",
    *,
    num_nodes: int | None = None,
    avg_degree: float | None = None,
    num_classes: int | None = None,
    num_features: int | None = None,
    homophily: float = 0.6,
    exponent: float = 2.5,
    noise: float = 1.0,
    label_noise: float = 0.05,
    fractions: tuple[float, float, float] = FRACTIONS,
    seed: int = 0,
) -> GraphTables:
    """A homogeneous, symmetric graph without duplicates or self-loops whose classes a GNN finds and an MLP does not.

    Args:
        size: "tiny" (1,000 nodes), "small" (20,000), "medium" (200,000), "products" (2.4 M nodes, 124 M directed edges); the
            other arguments change it. None: like "small", with a `num_nodes` of your own.
        num_nodes, num_classes, num_features: counts.
        avg_degree: directed edges per node.
        homophily: share of edges that are kept within a class; the rest falls anywhere.
        exponent: of the power law of degrees, over 2; smaller means heavier hubs.
        noise: standard deviation of the features around their class centre, per dimension.
        label_noise: share of nodes whose label is replaced by a random one, which keeps every model below 100 %.
        fractions: shares of train, val and test nodes.
        seed: of everything random.

    Returns:
        Nodes with ``x`` float32 ``[num_nodes, num_features]``, ``y`` int64 and the three masks; edges with int32 ends.
        Node numbers carry no information about class or degree.

    Raises:
        InputError: an unknown size, or numbers that no simple graph can have.

    Example:
        >>> tables = synthetic("tiny")
        >>> tables.nodes["node"].num_nodes, tables.edges["node", "to", "node"].num_edges
        (1000, 12000)
    """
    shape = _shape(size, num_nodes, avg_degree, num_classes, num_features)
    _check_shares(homophily=homophily, label_noise=label_noise)
    rng = np.random.default_rng(seed)
    blocks = Blocks.draw(rng, shape.num_nodes, shape.num_classes, exponent)
    count = round(shape.num_nodes * shape.avg_degree / 2)
    low, high = simple_pairs(rng, blocks, count, homophily)
    columns = _labelled_columns(rng, blocks, shape.num_features, noise, label_noise)
    columns |= random_masks(columns["y"], fractions=fractions, seed=seed)
    return GraphTables(
        nodes={NODE: NodeTable(num_nodes=shape.num_nodes, columns=columns)},
        edges={EDGE: _edge_table(np.concatenate([low, high]), np.concatenate([high, low]))},
    )


def synthetic_hetero(
    num_papers: int = 2_000,
    *,
    num_classes: int = 8,
    num_features: int = 32,
    homophily: float = 0.6,
    exponent: float = 2.5,
    noise: float = 1.0,
    label_noise: float = 0.05,
    fractions: tuple[float, float, float] = FRACTIONS,
    seed: int = 0,
) -> GraphTables:
    """A bibliography with the proportions of ogbn-mag: four node types, four relations and their reverses (``rev_...``).

    Args:
        num_papers: authors, institutions, fields of study and edges follow in ogbn-mag's proportions.
        num_classes: of papers; the other types have classes too, which are not stored.
        num_features: of papers; authors have half as many, institutions and fields of study none.
        homophily, exponent, noise, label_noise, fractions, seed: as for `synthetic`.

    Returns:
        Nodes "paper" (``x``, ``y``, masks), "author" (``x``), "institution", "field_of_study".

    Raises:
        InputError: numbers that no graph can have.

    Example:
        >>> tables = synthetic_hetero(100)
        >>> sorted(tables.nodes)
        ['author', 'field_of_study', 'institution', 'paper']
        >>> len(tables.edges)
        8
    """
    _check_counts(num_papers=num_papers, num_classes=num_classes, num_features=num_features)
    _check_shares(homophily=homophily, label_noise=label_noise)
    rng = np.random.default_rng(seed)
    shares = {"paper": 1.0, "author": 1.54, "institution": 1 / 84, "field_of_study": 1 / 12}
    counts = {name: max(round(share * num_papers), 1) for name, share in shares.items()}
    blocks = {name: Blocks.draw(rng, count, num_classes, exponent) for name, count in counts.items()}
    columns: dict[str, dict[str, Tensor]] = {name: {} for name in counts}
    columns["paper"] = _labelled_columns(rng, blocks["paper"], num_features, noise, label_noise)
    columns["paper"] |= random_masks(columns["paper"]["y"], fractions=fractions, seed=seed)
    columns["author"]["x"] = _features(rng, blocks["author"], max(num_features // 2, 1), noise)
    edges: dict[Relation, EdgeTable] = {}
    for src_type, name, dst_type, per_paper in (
        ("author", "affiliated_with", "institution", 1.42),
        ("author", "writes", "paper", 9.7),
        ("paper", "cites", "paper", 7.4),
        ("paper", "has_topic", "field_of_study", 10.2),
    ):
        src, dst = bipartite_pairs(rng, blocks[src_type], blocks[dst_type], round(per_paper * num_papers), homophily)
        edges[src_type, name, dst_type] = _edge_table(src, dst)
        edges[dst_type, f"rev_{name}", src_type] = _edge_table(dst, src)
    nodes = {name: NodeTable(num_nodes=count, columns=columns[name]) for name, count in counts.items()}
    return GraphTables(nodes=nodes, edges=edges)


def _shape(
    size: str | None, num_nodes: int | None, avg_degree: float | None, num_classes: int | None, num_features: int | None
) -> Size:
    if size is None and num_nodes is None:
        raise InputError("size=None needs num_nodes")
    if size is not None and size not in SIZES:
        raise InputError(f"unknown size {size!r}; use one of {', '.join(SIZES)}")
    base = SIZES[size or "small"]
    shape = Size(
        num_nodes=base.num_nodes if num_nodes is None else num_nodes,
        avg_degree=base.avg_degree if avg_degree is None else avg_degree,
        num_classes=base.num_classes if num_classes is None else num_classes,
        num_features=base.num_features if num_features is None else num_features,
    )
    _check_counts(num_nodes=shape.num_nodes, num_classes=shape.num_classes, num_features=shape.num_features)
    if not 0 <= shape.avg_degree <= (shape.num_nodes - 1) / 2:
        raise InputError(
            f"avg_degree={shape.avg_degree} with num_nodes={shape.num_nodes}: must be from 0 to {(shape.num_nodes - 1) / 2}, "
            "half of a complete graph"
        )
    return shape


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if not 1 <= count < 2**31:
            raise InputError(f"{name}={count} must be from 1 to {2**31 - 1}")


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise InputError(f"{name}={share} must be from 0 to 1")


def _labelled_columns(
    rng: np.random.Generator, blocks: Blocks, num_features: int, noise: float, label_noise: float
) -> dict[str, Tensor]:
    x = _features(rng, blocks, num_features, noise)
    y = blocks.classes()
    wrong = np.flatnonzero(rng.random(blocks.num_nodes) < label_noise)
    y[wrong] = rng.integers(blocks.num_classes, size=len(wrong))
    return {"x": x, "y": torch.from_numpy(y)}


def _features(rng: np.random.Generator, blocks: Blocks, num_features: int, noise: float) -> Tensor:
    """Class centres under noise, so far apart that the own features alone name the class about three times out of five.

    The most misleading of C - 1 other classes beats the own one by a normal variable's maximum, which grows as
    sqrt(2 ln C); so do the distances here.
    """
    x = rng.standard_normal((blocks.num_nodes, num_features), dtype=np.float32)
    x *= noise
    centres = rng.standard_normal((blocks.num_classes, num_features), dtype=np.float32)
    centres *= np.sqrt(2 * np.log(blocks.num_classes)) / np.linalg.norm(centres, axis=1, keepdims=True)
    for centre, begin, end in zip(centres, blocks.bounds[:-1], blocks.bounds[1:], strict=True):
        x[blocks.number[begin:end]] += centre
    return torch.from_numpy(x)


def _edge_table(src: np.ndarray, dst: np.ndarray) -> EdgeTable:
    return EdgeTable(src=torch.from_numpy(src), dst=torch.from_numpy(dst))
