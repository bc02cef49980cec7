"""Scores of triples against their definitions, a triple at a time with Python's complex numbers."""

import cmath

import pytest
import torch

from halohop.errors import InputError
from halohop.recipes.triple_scores import TRIPLE_SCORES, RotatE


def numbers(row: torch.Tensor) -> list[complex]:
    real, imaginary = row.tolist()[: len(row) // 2], row.tolist()[len(row) // 2 :]
    return [complex(*pair) for pair in zip(real, imaginary, strict=True)]


def defined(name: str, head: torch.Tensor, relation: torch.Tensor, tail: torch.Tensor) -> float:
    if name == "distmult":
        return sum(h * r * t for h, r, t in zip(head.tolist(), relation.tolist(), tail.tolist(), strict=True))
    ends = list(zip(numbers(head), numbers(tail), strict=True))
    if name == "complex":
        return sum((h * r * t.conjugate()).real for (h, t), r in zip(ends, numbers(relation), strict=True))
    return RotatE(2).margin - sum(abs(h * cmath.exp(1j * r) - t) for (h, t), r in zip(ends, relation.tolist(), strict=True))


@pytest.mark.parametrize("name", TRIPLE_SCORES)
def test_scores_are_those_of_the_definitions(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    model = TRIPLE_SCORES[name](6)
    head, tail = torch.randn(2, 5, 6, generator=generator)
    relation = torch.randn(5, model.relation_width, generator=generator)
    query = model.query(head, relation)
    all_pairs = model.all(query, tail)
    for i in range(5):
        assert all_pairs[i].tolist() == pytest.approx([defined(name, head[i], relation[i], row) for row in tail], abs=1e-5)
    assert torch.allclose(model.pairs(query, tail), all_pairs.diagonal(), atol=1e-6)
    assert model.all(query[:0], tail).shape == (0, 5)


@pytest.mark.parametrize("name", TRIPLE_SCORES)
def test_a_score_has_a_gradient_even_where_query_and_answer_are_equal(name: str) -> None:
    model = TRIPLE_SCORES[name](4)
    head, relation = torch.ones(1, 4, requires_grad=True), torch.zeros(1, model.relation_width, requires_grad=True)
    model.pairs(model.query(head, relation), torch.ones(1, 4)).sum().backward()
    for vectors in (head, relation):
        assert vectors.grad is not None
        assert vectors.grad.isfinite().all()


def test_an_odd_width_is_refused_where_entries_form_pairs() -> None:
    assert TRIPLE_SCORES["distmult"](5).relation_width == 5
    for name in ("complex", "rotate"):
        with pytest.raises(InputError, match="width=5 of"):
            TRIPLE_SCORES[name](5)
