"""The recipes' models a layer at a time: what a layer makes of some nodes, given their in-edges in pieces of bounded size.

A node may have more in-edges than fit in memory. So the layers of the recipes fold the pieces one after the other: sums add up,
and a softmax is kept as (maximum, sum, weighted sum), each rescaled when the maximum rises (Milakov and Gimelshein, 2018).
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from halohop import Graph
from halohop.inference import EMBEDDINGS, LayeredModel, Neighbours, UserLayers, check_finite, classified
from halohop.nn import GATConv
from halohop.recipes.hgt import AttentionClassifier
from halohop.recipes.models import (
    MeanConv,
    NodeClassifier,
    PlainClassifier,
    RelationalClassifier,
    RelationalConv,
    SelfLoopMeanConv,
    to_features,
)
from halohop.recipes.products import product_of
from halohop.typing import RAW_ID, NodeType


class _RecipeLayers(LayeredModel):
    module: NodeClassifier

    def __init__(self, module: NodeClassifier, target: NodeType, stages: int, *, embeddings: bool) -> None:
        super().__init__(module, target, module.spec.relations, stages)
        self._embeddings = embeddings
        self._widths = {node_input.node_type: node_input.width for node_input in module.spec.inputs}

    def columns(self, node_type: NodeType) -> tuple[str, ...]:
        return (RAW_ID,) if self._widths[node_type] is None else ("x",)

    def results(self, rows: Tensor) -> dict[str, Tensor]:
        return node_results(self.module, rows, embeddings=self._embeddings)


class PlainLayers(_RecipeLayers):
    """GraphSAGE, GCN and GAT: a stage per convolution.

    Before them comes one without neighbours, where features are wider than what the first convolution multiplies them to: then
    each row of features is read once, and not by every batch that has the node.
    """

    module: PlainClassifier

    def __init__(self, module: PlainClassifier, target: NodeType, *, embeddings: bool) -> None:
        self._convs: list[Any] = list(module.encoder.convs)
        self._product = product_of(self._convs[0])
        (node_input,) = module.spec.inputs
        self._narrows = (node_input.width or 0) > self._product.width
        if self._narrows:
            self._convs[0] = self._product.rest
        super().__init__(module, target, module.spec.layers + self._narrows, embeddings=embeddings)

    def hops(self, stage: int) -> bool:
        return stage > 0 or not self._narrows

    def inputs(self, node_type: NodeType, columns: tuple[Tensor, ...]) -> Tensor:
        (values,) = columns
        out: Tensor = to_features(values) if self.module.embedding is None else self.module.embedding(values)
        return out

    def rows(self, stage: int, node_type: NodeType, x: Tensor, neighbours: Iterable[Neighbours]) -> Tensor:
        if not self.hops(stage):
            return self._product.of(x)
        layer = stage - self._narrows
        out = _FOLDS[type(self.module.encoder.convs[layer])](self._convs[layer], x, neighbours)
        return F.relu(self.module.encoder.norms[layer](out) if stage < self.stages - 1 else out)


class RelationalLayers(_RecipeLayers):
    """R-GCN: a stage that brings all features to one width, then one per convolution."""

    module: RelationalClassifier

    def __init__(self, module: RelationalClassifier, target: NodeType, *, embeddings: bool) -> None:
        super().__init__(module, target, module.spec.layers + 1, embeddings=embeddings)
        self._projections = dict(zip(self._widths, module.inputs, strict=True))
        self._numbers = {relation: number for number, relation in enumerate(self.relations)}

    def hops(self, stage: int) -> bool:
        return stage > 0

    def inputs(self, node_type: NodeType, columns: tuple[Tensor, ...]) -> Tensor:
        (values,) = columns
        if self._widths[node_type] is not None:
            return to_features(values)
        vectors: Tensor = self._projections[node_type](values)
        return vectors

    def rows(self, stage: int, node_type: NodeType, x: Tensor, neighbours: Iterable[Neighbours]) -> Tensor:
        if stage == 0:
            return x if self._widths[node_type] is None else self._projections[node_type](x)
        conv = self.module.convs[stage - 1]
        assert isinstance(conv, RelationalConv)
        total: Tensor = conv.root(x)
        for piece in neighbours:
            mixture = conv.mixture[self._numbers[piece.relation]]
            total = total + piece.share_of_mean(piece.x) @ torch.einsum("b,bio->io", mixture, conv.bases)
        return F.relu(total)


class AttentionLayers(UserLayers):
    """HGT, as any model that is made of layers."""

    module: AttentionClassifier

    def results(self, rows: Tensor) -> dict[str, Tensor]:
        return node_results(self.module, rows, embeddings=self._embeddings)


def trained_layers(encoder: NodeClassifier, graph: Graph, target: NodeType, *, embeddings: bool = False) -> LayeredModel:
    """A recipe's model in stages, for the nodes of a type; with `embeddings` the last hidden layer is among its results."""
    if isinstance(encoder, AttentionClassifier):
        return AttentionLayers(encoder, graph, embeddings=embeddings, target=target)
    if isinstance(encoder, RelationalClassifier):
        return RelationalLayers(encoder, target, embeddings=embeddings)
    assert isinstance(encoder, PlainClassifier)
    return PlainLayers(encoder, target, embeddings=embeddings)


def node_results(model: NodeClassifier, rows: Tensor, *, embeddings: bool) -> dict[str, Tensor]:
    """What a model gives nodes by their last hidden layer: classes, or the vectors that its decoder compares."""
    if model.spec.relation is not None:
        vectors = model.head(rows)
        check_finite("the vector of a node", vectors)
        return {EMBEDDINGS: vectors}
    return classified(model.head, rows, embeddings=embeddings, several=model.spec.several)


def _fold_mean(conv: MeanConv, x: Tensor, neighbours: Iterable[Neighbours]) -> Tensor:
    out: Tensor = conv.root(x)
    for piece in neighbours:
        out = out + piece.share_of_mean(conv.neighbour(piece.x))
    return out


def _fold_self_loop_mean(conv: SelfLoopMeanConv, x: Tensor, neighbours: Iterable[Neighbours]) -> Tensor:
    total: Tensor = conv.weight(x)
    degree = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for piece in neighbours:
        total = total + piece.sum_of(conv.weight(piece.x))
        degree = piece.degree
    return total / (1 + degree)[:, None]


def _fold_attention(conv: GATConv, x: Tensor, neighbours: Iterable[Neighbours]) -> Tensor:
    def split(rows: Tensor) -> Tensor:
        out: Tensor = conv.lin(rows).view(-1, conv.heads, conv.out_channels)
        return out

    def score(of_src: Tensor, of_dst: Tensor) -> Tensor:
        return F.leaky_relu(of_src + of_dst, conv.negative_slope)

    own = split(x)
    as_dst = (own * conv.att_dst).sum(dim=-1)
    # Every node looks at itself once; loops among its edges do not count beside that.
    highest = score((own * conv.att_src).sum(dim=-1), as_dst)
    weight, total = torch.ones_like(highest), own
    for piece in neighbours:
        sources, dst = split(piece.x), piece.dst
        scores = score((sources * conv.att_src).sum(dim=-1)[piece.src], as_dst[dst])
        scores = scores.masked_fill((piece.src == dst)[:, None], -torch.inf)
        higher = torch.maximum(highest, piece.reduce(scores, "max", -torch.inf))
        fading, weights = (highest - higher).exp(), (scores - higher[dst]).exp()
        weight = weight * fading + piece.reduce(weights)
        total = total * fading[..., None] + piece.sum_of(sources, weights)
        highest = higher
    out: Tensor = (total / weight[..., None]).flatten(1) + conv.bias
    return out


_FOLDS: dict[type[nn.Module], Callable[[Any, Tensor, Iterable[Neighbours]], Tensor]] = {
    MeanConv: _fold_mean,
    SelfLoopMeanConv: _fold_self_loop_mean,
    GATConv: _fold_attention,
}
