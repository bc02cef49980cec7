"""The model that predicts links: the encoder of a node model, and a decoder that compares two nodes' vectors."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from halohop.recipes.decoders import DistMult, DotProduct, LinkDecoder, MLPDecoder
from halohop.recipes.models import BatchModel, ModelInput, NodeClassifier, part_of
from halohop.recipes.spec import ModelSpec
from halohop.typing import NodeType


class LinkPredictor(BatchModel):
    """Scores pairs of nodes: ``model(batch)`` gives those of the batch's edges, float ``[n]``, and of their triplet negatives,
    ``[n, amount]``. What a node model calls logits is here the vector of a node.

    Args:
        spec: names relation and decoder.
        encoder: makes the vectors.
    """

    def __init__(self, spec: ModelSpec, encoder: NodeClassifier) -> None:
        super().__init__()
        assert spec.relation is not None
        self.spec, self.relation = spec, spec.relation
        self.encoder = encoder
        self.decoder = _decoder(spec)

    def read(self, batch: Any) -> ModelInput:
        destinations = part_of(batch, self.relation[2])
        pairs = part_of(batch, self.relation[0]).src_index, destinations.dst_pos_index, destinations.dst_neg_index
        return replace(self.encoder.read(batch), pairs=pairs)

    def compute(self, given: ModelInput) -> tuple[Tensor, Tensor]:
        assert given.pairs is not None
        src, positive, negative = given.pairs
        of_src, of_dst = self._vectors(given)
        of_src = of_src[src]
        amount = negative.shape[1] if negative.dim() == 2 else 1
        scores = self._score(of_src.repeat_interleave(amount, dim=0), of_dst[negative.flatten()])
        return self._score(of_src, of_dst[positive]), scores.view(len(of_src), amount)

    def _vectors(self, given: ModelInput) -> tuple[Tensor, Tensor]:
        """Of the nodes of both end types that sampling began at."""
        roots = self.encoder.roots(given)
        vectors: dict[NodeType, Tensor] = {
            name: self.encoder.head(self.encoder.dropout(roots[name])) for name in {self.relation[0], self.relation[2]}
        }
        return vectors[self.relation[0]], vectors[self.relation[2]]

    def _score(self, src: Tensor, dst: Tensor) -> Tensor:
        score: Tensor = self.decoder(src, torch.zeros(len(src), dtype=torch.int64, device=src.device), dst)
        return score


def _decoder(spec: ModelSpec) -> LinkDecoder:
    width = spec.num_classes
    if spec.decoder == "mlp":
        return MLPDecoder(width, spec.hidden)
    return DistMult(1, width) if spec.decoder == "distmult" else DotProduct()
