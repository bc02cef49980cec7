"""How good are predicted edges? Ranks among all nodes (MRR, hits@k), and how well scores divide true from false (AUC, AP)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halohop import World
from halohop.collectives import sum_over_ranks
from halohop.errors import InputError

Scorer = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``score(nodes, relation, candidates) -> [n, num_candidates]``: how likely is an edge of `relation` ``[n]`` between each of
`nodes` ``[n]`` and each of `candidates` ``[num_candidates]``? All are int64 ids; greater scores are likelier."""

Triples = tuple[Tensor, Tensor, Tensor]
"""Source, relation and destination, int64 ``[n]`` each."""

MAX_SCORES = 2**24
"""So many scores are held at a time (64 MiB in float32), or those of one question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Means over all questions; NaN where there are none.

    Args:
        mrr: mean of 1 / rank.
        mean_rank: mean of the ranks; 1 is best.
        hits: share of the questions with a rank of at most k, by k.
        questions: how many; two per triple.
    """

    mrr: float
    mean_rank: float
    hits: dict[int, float]
    questions: int


@torch.no_grad()
def rank_links(
    tails: Scorer,
    heads: Scorer,
    triples: Triples,
    known: Triples,
    *,
    num_nodes: int,
    ks: Sequence[int] = (1, 3, 10),
    max_scores: int = MAX_SCORES,
    device: torch.device | None = None,
    world: World | None = None,
) -> Ranking:
    """Asks for both ends of every triple, and tells how far up the true one comes: filtered ranking (Bordes et al., 2013).

    Other answers that are known to be true are left out. Ties count as the mean of the best and the worst rank, so a model that
    scores all nodes alike gets no credit for it ("realistic" in Berrendorf et al., 2020).

    Args:
        tails: scores destinations for given sources.
        heads: scores sources for given destinations.
        triples: what to predict; with several ranks, those of all.
        known: all that is true, of every split.
        num_nodes: ids of candidates go from 0 to num_nodes - 1.
        ks: which hits@k.
        max_scores: questions are asked in batches of at most so many scores.
        device: where the scorers want their ids and leave their scores; default the CPU.
        world: the ranks among which triples are shared; all get the same answer. Default: this process alone.

    Raises:
        InputError: a score that is NaN, scores of another shape, or an id outside the nodes.

    Example:
        >>> friends = tuple(torch.tensor(column) for column in ([0, 1], [0, 0], [1, 2]))
        >>> nearest = lambda nodes, relation, candidates: -(nodes[:, None] - candidates).abs()
        >>> rank_links(nearest, nearest, friends, friends, num_nodes=3).hits[3]
        1.0
    """
    device, world = device or torch.device("cpu"), world or World()
    src, relation, dst = (column.tensor_split(world.size)[world.rank] for column in triples)
    ranks = torch.cat(
        [
            filtered_ranks(score, near, relation, far, answers, num_nodes=num_nodes, max_scores=max_scores, device=device)
            for score, near, far, answers in (
                (tails, src, dst, KnownAnswers(*known)),
                (heads, dst, src, KnownAnswers(*reversed(known))),
            )
        ]
    )
    sums = [float((1 / ranks).sum()), float(ranks.sum()), *(float((ranks <= k).sum()) for k in ks)]
    *sums, count = sum_over_ranks([*sums, float(len(ranks))], device, world)
    mrr, mean_rank, *hits = (total / count if count else float("nan") for total in sums)
    return Ranking(mrr=mrr, mean_rank=mean_rank, hits=dict(zip(ks, hits, strict=True)), questions=int(count))


class KnownAnswers:
    """Which answers to a question (node, relation, ?) are true.

    Args:
        nodes, relation, answers: int64 ``[n]``, on the CPU: true edges, from the end that is given to the one that is asked for.
    """

    def __init__(self, nodes: Tensor, relation: Tensor, answers: Tensor) -> None:
        self._num_relations = int(relation.max()) + 1 if len(relation) else 1
        self._keys, order = torch.sort(self._key(nodes, relation), stable=True)
        self._answers = answers[order]

    def of(self, nodes: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of questions and their true answers, int64 ``[num_answers]`` each."""
        key = torch.where(relation < self._num_relations, self._key(nodes, relation), -1)
        begin, end = torch.searchsorted(self._keys, key), torch.searchsorted(self._keys, key, right=True)
        counts = end - begin
        question = torch.repeat_interleave(torch.arange(len(key)), counts)
        place = torch.arange(len(question)) - (counts.cumsum(0) - counts)[question] + begin[question]
        return question, self._answers[place]

    def _key(self, nodes: Tensor, relation: Tensor) -> Tensor:
        return nodes * self._num_relations + relation


@torch.no_grad()
def filtered_ranks(
    score: Scorer,
    nodes: Tensor,
    relation: Tensor,
    answers: Tensor,
    known: KnownAnswers,
    *,
    num_nodes: int,
    max_scores: int = MAX_SCORES,
    device: torch.device | None = None,
) -> Tensor:
    """The rank of each answer among all candidates but the other true ones, float64 ``[n]``, from 1; see `rank_links`.

    Args:
        score: scores candidates.
        nodes, relation, answers: the questions, and their answers.
        known: what is true besides.
        num_nodes: number of candidates: nodes of the type that is asked for.
        max_scores, device: as of `rank_links`.

    Raises:
        InputError: as `rank_links`.
    """
    _check_among(answers, num_nodes)
    device = device or torch.device("cpu")
    candidates, ranks = torch.arange(num_nodes, device=device), [torch.empty(0, dtype=torch.float64)]
    for batch in torch.arange(len(nodes)).split(max(1, max_scores // max(num_nodes, 1))):
        scores = score(nodes[batch].to(device), relation[batch].to(device), candidates)
        if scores.shape != (len(batch), num_nodes):
            raise InputError(f"scores have shape {tuple(scores.shape)}, expected {(len(batch), num_nodes)}")
        if scores.isnan().any():  # no candidate would be greater than NaN: the best rank for a model that has diverged
            raise InputError("a score is NaN; lower the learning rate, or look for a division by zero in the model")
        true = scores.gather(1, answers[batch].to(device)[:, None])
        question, other = known.of(nodes[batch], relation[batch])
        _check_among(other, num_nodes)
        above, tied = scores > true, scores == true
        for found in (above, tied):
            found[question.to(device), other.to(device)] = False
            found.scatter_(1, answers[batch].to(device)[:, None], False)
        ranks.append((1 + above.sum(dim=1) + tied.sum(dim=1).double() / 2).cpu())
    return torch.cat(ranks)


def _check_among(answers: Tensor, num_nodes: int) -> None:
    outside = answers[(answers < 0) | (answers >= num_nodes)]
    if len(outside):
        raise InputError(f"node {int(outside[0])} cannot be ranked among {num_nodes}; ids go from 0 to {num_nodes - 1}")


def auc(score: Tensor, label: Tensor) -> float:
    """Area under the ROC curve: how often a true edge has a greater score than a false one; ties count half.

    Args:
        score: ``[n]``, greater is likelier.
        label: bool or 0 and 1, ``[n]``.

    Returns:
        0..1; NaN where there is no true or no false edge.

    Raises:
        InputError: shapes that differ, another label, or a score that is NaN.

    Example:
        >>> auc(torch.tensor([0.9, 0.4, 0.4]), torch.tensor([1, 1, 0]))
        0.75
    """
    true, false = _steps(score, label)
    pairs = float(true.sum() * false.sum())
    below = false.sum() - false.cumsum(0)
    return float((true * (below + false / 2)).sum()) / pairs if pairs else float("nan")


def average_precision(score: Tensor, label: Tensor) -> float:
    """Area under the precision-recall curve: the sum over thresholds of precision times the growth of recall.

    Args:
        score, label: as of `auc`.

    Returns:
        0..1; NaN where there is no true edge.

    Raises:
        InputError: as `auc`.

    Example:
        >>> average_precision(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, 0, 1]))
        0.8333333333333333
    """
    true, false = _steps(score, label)
    precision = true.cumsum(0) / (true + false).cumsum(0)
    positives = float(true.sum())
    return float((precision * true).sum()) / positives if positives else float("nan")


def _steps(score: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """How many true and false edges have each score, float64, from the greatest score to the least."""
    if score.dim() != 1 or score.shape != label.shape:
        raise InputError(f"score has shape {tuple(score.shape)} and label {tuple(label.shape)}; give one of each per edge")
    if score.isnan().any():
        raise InputError("a score is NaN; lower the learning rate, or look for a division by zero in the model")
    unknown = label[(label != 0) & (label != 1)]
    if len(unknown):
        raise InputError(f"label holds {unknown[0].item()}; expected 1 for true edges, 0 for false ones")
    values, place = torch.unique(score, return_inverse=True)
    counts = [torch.bincount(place[label == kind], minlength=len(values)).double().flip(0) for kind in (1, 0)]
    return counts[0], counts[1]
