import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halohop.errors import InputError
from halohop.recipes.ranking import KnownAnswers, Triples, auc, average_precision, filtered_ranks, rank_links
from halohop.world import World

EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)), max_size=25, unique=True)
SCORED = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 0.75, math.inf]), st.booleans()), max_size=30)


def columns(edges: list[tuple[int, int, int]]) -> Triples:
    src, relation, dst = torch.tensor(edges, dtype=torch.int64).view(-1, 3).t()
    return src, relation, dst


class Table:
    """Scores of all edges of seven nodes and three relations, few different ones, so that there are ties."""

    def __init__(self) -> None:
        self.score = torch.randint(0, 4, (3, 7, 7), generator=torch.Generator().manual_seed(1)).float()
        self.batches: list[int] = []

    def tails(self, src: Tensor, relation: Tensor, candidates: Tensor) -> Tensor:
        self.batches.append(len(src))
        return self.score[relation, src][:, candidates]

    def heads(self, dst: Tensor, relation: Tensor, candidates: Tensor) -> Tensor:
        return self.score[relation, :, dst][:, candidates]


def ranks_by_definition(table: Table, test: list[tuple[int, int, int]], known: list[tuple[int, int, int]]) -> list[float]:
    """The mean of the best and the worst place that the true end can have among candidates that are not known to be true."""
    ranks = []
    for change in (2, 0):
        for triple in test:
            rivals = [(*triple[:change], node, *triple[change + 1 :]) for node in range(7)]
            scores = [float(table.score[k, s, d]) for s, k, d in rivals if (s, k, d) == triple or (s, k, d) not in known]
            true = float(table.score[triple[1], triple[0], triple[2]])
            best, worst = 1 + sum(score > true for score in scores), sum(score >= true for score in scores)
            ranks.append((best + worst) / 2)
    return ranks


@given(known=EDGES, news=EDGES, max_scores=st.sampled_from([1, 7, 20, 1000]))
def test_ranks_are_those_of_the_definition(
    known: list[tuple[int, int, int]], news: list[tuple[int, int, int]], max_scores: int
) -> None:
    table, test = Table(), known[:9] + news
    ranks = ranks_by_definition(table, test, known)
    found = rank_links(table.tails, table.heads, columns(test), columns(known), num_nodes=7, ks=(1, 3), max_scores=max_scores)
    assert found.questions == 2 * len(test)
    if not test:
        assert math.isnan(found.mrr)
        return
    assert found.mrr == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))
    assert found.mean_rank == pytest.approx(sum(ranks) / len(ranks))
    assert found.hits == {k: pytest.approx(sum(rank <= k for rank in ranks) / len(ranks)) for k in (1, 3)}
    assert max(table.batches) <= max(1, max_scores // 7)


def test_ranks_of_trainers_share_the_questions_and_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uneven shares must weigh as much as they hold; a mean of the trainers' means would not."""
    table, edges = Table(), columns([(0, 0, 1), (2, 0, 3), (4, 1, 4)])
    sums: list[list[float]] = []

    def add_up(numbers: list[float], device: torch.device, world: World) -> list[float]:
        sums.append(numbers)
        return [sum(column) for column in zip(*sums, strict=True)]

    alone = rank_links(table.tails, table.heads, edges, edges, num_nodes=7)
    monkeypatch.setattr("halohop.recipes.ranking.sum_over_ranks", add_up)
    shares = [rank_links(table.tails, table.heads, edges, edges, num_nodes=7, world=World(rank=r, size=2)) for r in (0, 1)]
    assert shares[0].questions == 4
    assert shares[1].mrr == pytest.approx(alone.mrr)
    assert (shares[1].mean_rank, shares[1].hits, shares[1].questions) == (alone.mean_rank, alone.hits, alone.questions)


def test_a_model_that_knows_nothing_gets_no_credit() -> None:
    """With the best place of a tie, all scores alike would be a perfect model."""
    edges = columns([(0, 0, 1), (2, 0, 3)])
    found = rank_links(zeros, zeros, edges, edges, num_nodes=101)
    assert found.mean_rank == 51
    assert found.hits[10] == 0


def zeros(nodes: Tensor, relation: Tensor, candidates: Tensor) -> Tensor:
    return torch.zeros(len(nodes), len(candidates))


def test_a_model_that_has_diverged_is_not_the_best() -> None:
    edges = columns([(0, 0, 1)])
    with pytest.raises(InputError, match="a score is NaN; lower"):
        rank_links(lambda *_: torch.full((1, 5), math.nan), zeros, edges, edges, num_nodes=5)


def test_what_cannot_be_ranked_is_refused() -> None:
    edges = columns([(0, 0, 5)])
    with pytest.raises(InputError, match="node 5 cannot be ranked among 5"):
        rank_links(zeros, zeros, edges, edges, num_nodes=5)
    with pytest.raises(InputError, match="node 5 cannot be ranked among 5"):
        rank_links(zeros, zeros, columns([(0, 0, 1)]), columns([(0, 0, 1), (0, 0, 5)]), num_nodes=5)
    with pytest.raises(InputError, match=r"scores have shape \(1,\), expected \(1, 6\)"):
        rank_links(lambda *_: torch.zeros(1), zeros, edges, edges, num_nodes=6)


def test_a_relation_that_nothing_is_known_of_filters_nothing() -> None:
    """Keys of (node, relation) must not run into those of the next node."""
    known = KnownAnswers(*columns([(1, 0, 4), (1, 1, 3)]))
    assert [part.tolist() for part in known.of(torch.tensor([0, 1, 1]), torch.tensor([2, 1, 0]))] == [[1, 2], [3, 4]]
    assert len(KnownAnswers(*columns([])).of(torch.tensor([0]), torch.tensor([0]))[0]) == 0


def test_ranks_in_one_direction_with_candidates_of_their_own() -> None:
    """For a relation between two types: seven sources, four destinations."""
    src, relation, dst = columns([(6, 0, 2), (5, 0, 0)])
    rising = filtered_ranks(
        lambda nodes, _, candidates: candidates.expand(len(nodes), -1).float(),
        *(src, relation, dst, KnownAnswers(src, relation, dst)),
        num_nodes=4,
    )
    assert rising.tolist() == [2, 4]
    assert rising.dtype == torch.float64


@given(SCORED)
def test_auc_is_the_share_of_pairs_in_order(edges: list[tuple[float, bool]]) -> None:
    true, false = ([score for score, label in edges if label == kind] for kind in (True, False))
    found = auc(torch.tensor([score for score, _ in edges]), torch.tensor([label for _, label in edges], dtype=torch.bool))
    if not true or not false:
        assert math.isnan(found)
        return
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in true for b in false]
    assert found == pytest.approx(sum(pairs) / len(pairs))


@given(SCORED)
def test_average_precision_is_the_sum_over_thresholds(edges: list[tuple[float, bool]]) -> None:
    found = average_precision(torch.tensor([score for score, _ in edges]), torch.tensor([int(label) for _, label in edges]))
    if not any(label for _, label in edges):
        assert math.isnan(found)
        return
    total, before = 0.0, 0.0
    for threshold in sorted({score for score, _ in edges}, reverse=True):
        chosen = [label for score, label in edges if score >= threshold]
        recall = sum(chosen) / sum(label for _, label in edges)
        total += (recall - before) * sum(chosen) / len(chosen)
        before = recall
    assert found == pytest.approx(total)


def test_the_same_as_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    generator = torch.Generator().manual_seed(3)
    label = torch.randint(0, 2, (5000,), generator=generator)
    score = (torch.randn(5000, generator=generator) + label).mul(20).round()  # with ties
    assert auc(score, label) == pytest.approx(metrics.roc_auc_score(label, score))
    assert average_precision(score, label) == pytest.approx(metrics.average_precision_score(label, score))


@pytest.mark.parametrize("metric", [auc, average_precision])
def test_bad_scores_and_labels_are_refused(metric: type) -> None:
    one = torch.ones(2)
    with pytest.raises(InputError, match="a score is NaN"):
        metric(torch.tensor([1.0, math.nan]), one)
    with pytest.raises(InputError, match="label holds 2"):
        metric(one, torch.tensor([0, 2]))
    with pytest.raises(InputError, match=r"label \(2, 1\)"):
        metric(one, torch.ones(2, 1))
