"""How likely is a triple (head, relation, tail), by vectors? Scores of knowledge-graph embeddings, as functions of given vectors.

A model turns a known end and its relation into a query; the query is compared with vectors of candidates for the other end. For
the other direction each relation has a second vector, of its reverse (Lacroix et al., "Canonical Tensor Decomposition for
Knowledge Base Completion", 2018). No model has parameters: vectors come from where they lie, a table or an `nn.Embedding`.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from halohop.errors import InputError


class TripleScore(ABC):
    """Scores triples; greater is likelier.

    Args:
        width: of entity vectors.

    Attributes:
        relation_width: of relation vectors.
        spread: a standard deviation that entity vectors may begin with.
    """

    even = True
    """Whether the width must be even."""

    def __init__(self, width: int) -> None:
        if width < 1 or (self.even and width % 2):
            raise InputError(f"width={width} of {type(self).__name__} must be at least 1, and even where entries form pairs")
        self.width = self.relation_width = width
        self.spread = 0.05

    @abstractmethod
    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        """What answers are compared with, ``[n, width]``, of entities ``[n, width]`` and relations ``[n, relation_width]``."""

    @abstractmethod
    def pairs(self, query: Tensor, answer: Tensor) -> Tensor:
        """Scores ``[n]`` of queries and one answer each, both ``[n, width]``."""

    @abstractmethod
    def all(self, query: Tensor, candidates: Tensor) -> Tensor:
        """Scores ``[n, m]`` of queries ``[n, width]`` and all of the candidates ``[m, width]``."""


class DistMult(TripleScore):
    """Yang et al., "Embedding Entities and Relations for Learning and Inference in Knowledge Bases", 2015.

    Example:
        >>> model = DistMult(2)
        >>> query = model.query(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]]))
        >>> model.all(query, torch.tensor([[1.0, 1.0], [0.0, 2.0]])).tolist()
        [[5.0, 4.0]]
    """

    even = False

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        return entity * relation

    def pairs(self, query: Tensor, answer: Tensor) -> Tensor:
        return (query * answer).sum(dim=1)

    def all(self, query: Tensor, candidates: Tensor) -> Tensor:
        return query @ candidates.t()


class ComplEx(DistMult):
    """Trouillon et al., "Complex Embeddings for Simple Link Prediction", 2016. The first half of a vector is real parts."""

    even = True

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        return _product(entity, *relation.chunk(2, dim=1))


class RotatE(TripleScore):
    """Sun et al., "RotatE: Knowledge Graph Embedding by Relational Rotation in Complex Space", 2019.

    A relation holds an angle per complex number of the entities, whose first half holds the real parts. A score is `margin` minus
    the sum of distances in the complex plane.
    """

    def __init__(self, width: int, margin: float = 6.0) -> None:
        super().__init__(width)
        self.relation_width = width // 2
        self.margin = margin
        self.spread = 2 * margin / width  # two random vectors then score about zero

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        return _product(entity, relation.cos(), relation.sin())

    def pairs(self, query: Tensor, answer: Tensor) -> Tensor:
        real, imaginary = (query - answer).chunk(2, dim=1)
        return self.margin - (real.square() + imaginary.square() + _NONZERO).sqrt().sum(dim=1)

    def all(self, query: Tensor, candidates: Tensor) -> Tensor:
        # A complex number at a time, of all queries: all together would take `width` times the memory of the scores.
        q_real, q_imaginary = query.chunk(2, dim=1)
        c_real, c_imaginary = candidates.chunk(2, dim=1)
        rows = []
        for real, imaginary in zip(q_real, q_imaginary, strict=True):
            far = ((real - c_real).square() + (imaginary - c_imaginary).square() + _NONZERO).sqrt()
            rows.append(self.margin - far.sum(dim=1))
        return torch.stack(rows) if rows else query.new_empty(0, len(candidates))


_NONZERO = 1e-12
"""The root has no gradient at zero."""

TRIPLE_SCORES: dict[str, type[TripleScore]] = {"distmult": DistMult, "complex": ComplEx, "rotate": RotatE}


def _product(entity: Tensor, real: Tensor, imaginary: Tensor) -> Tensor:
    """Of complex numbers, real parts first."""
    own_real, own_imaginary = entity.chunk(2, dim=1)
    return torch.cat([own_real * real - own_imaginary * imaginary, own_real * imaginary + own_imaginary * real], dim=1)
