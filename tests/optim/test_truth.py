"""The rules against torch's optimisers, fed with the union of all ranks' batches, and against plain formulas."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import halohop
from halohop.optim import RowwiseAdagrad, SparseAdagrad, SparseAdam, SparseSGD
from halohop.testing.graphs import ring
from halohop.testing.worlds import partitioned
from tests.optim.ranks import Make, Plan, loss_of, trained, truth, uneven_plan

ROWS, DIM, STEPS = 40, 5, 50

RULES: dict[str, tuple[Make, Make]] = {
    "SGD": (partial(SparseSGD, lr=0.05), partial(torch.optim.SGD, lr=0.05)),
    "SGD, uphill": (partial(SparseSGD, lr=0.01, maximize=True), partial(torch.optim.SGD, lr=0.01, maximize=True)),
    "Adagrad": (partial(SparseAdagrad, lr=0.1), partial(torch.optim.Adagrad, lr=0.1)),
    "Adagrad, decaying": (
        partial(SparseAdagrad, lr=0.1, lr_decay=0.05, initial_accumulator_value=0.3, eps=1e-3),
        partial(torch.optim.Adagrad, lr=0.1, lr_decay=0.05, initial_accumulator_value=0.3, eps=1e-3),
    ),
    "Adam": (partial(SparseAdam, lr=0.02), partial(torch.optim.SparseAdam, lr=0.02)),
    "Adam, slow": (
        partial(SparseAdam, lr=0.02, betas=(0.5, 0.9), eps=1e-3),
        partial(torch.optim.SparseAdam, lr=0.02, betas=(0.5, 0.9), eps=1e-3),
    ),
}


def beginning(graph: halohop.Graph, **options: Any) -> Tensor:
    """Rows of the table that nothing has trained."""
    return halohop.DistTensor(graph, (ROWS, DIM), name="learned", **options)[torch.arange(ROWS)]


def options() -> dict[str, Any]:
    return {"init": halohop.init.normal(0.0, 1.0), "seed": 4}


@pytest.mark.parametrize(
    ("rule", "ranks"),
    [
        *(("SGD", 2), ("Adagrad, decaying", 2), ("Adam", 1), ("Adam", 3)),
        *(pytest.param(rule, ranks, marks=pytest.mark.full) for rule in RULES for ranks in (1, 2, 3)),
    ],
)
def test_fifty_steps_of_torch(rule: str, ranks: int) -> None:
    with partitioned(ring(ROWS), 2) as graph:
        begin = beginning(graph, **options())
        plan = uneven_plan(ROWS, DIM, steps=STEPS, ranks=ranks)
        ours, theirs = RULES[rule]
        found = trained([graph], "learned", ours, plan, **options())
        assert not torch.equal(found, begin)
        torch.testing.assert_close(found, truth(begin, theirs, plan), atol=1e-5, rtol=0)


@pytest.mark.parametrize("rule", ["SGD", "Adagrad", pytest.param("Adam", marks=pytest.mark.full)])
def test_sums_over_ranks_and_doubles(rule: str) -> None:
    with partitioned(ring(ROWS), 1) as graph:
        begin = beginning(graph, dtype=torch.float64, **options())
        plan = uneven_plan(ROWS, DIM, steps=STEPS, ranks=2)
        plan = Plan(ids=plan.ids, pull=plan.pull.double())
        ours, theirs = RULES[rule]
        found = trained([graph], "learned", partial(ours, ranks="sum"), plan, dtype=torch.float64, **options())
        torch.testing.assert_close(found, truth(begin, theirs, plan, ranks="sum"), atol=1e-12, rtol=0)


@pytest.mark.parametrize("rule", ["Adam", *(pytest.param(rule, marks=pytest.mark.full) for rule in ("SGD", "Adagrad"))])
def test_schedules_and_clipping(rule: str) -> None:
    with partitioned(ring(ROWS), 3) as graph:
        begin = beginning(graph, **options())
        schedule = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=STEPS, eta_min=1e-4)
        plan = uneven_plan(ROWS, DIM, steps=STEPS, ranks=2, schedule=schedule, clip=1.5)
        ours, theirs = RULES[rule]
        found = trained([graph], "learned", ours, plan, **options())
        torch.testing.assert_close(found, truth(begin, theirs, plan), atol=1e-5, rtol=0)


def by_row(rows: Tensor, plan: Plan, apply: Any) -> Tensor:
    """Steps by a plain formula, row after row, of one rank."""
    rows = rows.double().clone()
    for (ids,) in plan.ids:
        assert ids is not None
        leaf = rows.requires_grad_()
        (grad,) = torch.autograd.grad(loss_of(leaf[ids], plan.pull[ids].double()), leaf)
        rows = rows.detach()
        for row in ids.unique().tolist():
            rows[row] = apply(row, rows[row], grad[row], int((ids == row).sum()))
    return rows.float()


def test_one_number_per_row() -> None:
    with partitioned(ring(ROWS), 2) as graph:
        begin = beginning(graph, **options())
        plan = uneven_plan(ROWS, DIM, steps=STEPS, ranks=1)
        sums = torch.full((ROWS,), 0.2, dtype=torch.float64)

        def apply(row: int, values: Tensor, grad: Tensor, _: int) -> Tensor:
            sums[row] += (grad**2).mean()
            return values - 0.1 * grad / (sums[row].sqrt() + 1e-10)

        found = trained([graph], "learned", partial(RowwiseAdagrad, lr=0.1, initial_accumulator_value=0.2), plan, **options())
        torch.testing.assert_close(found, by_row(begin, plan, apply), atol=1e-5, rtol=0)
        state = graph.tables.read("learned", torch.arange(ROWS), state="sum")
        torch.testing.assert_close(state, sums.float(), atol=1e-3, rtol=1e-5)


def test_steps_of_each_row_and_means_of_doubles() -> None:
    with partitioned(ring(ROWS), 2) as graph:
        begin = beginning(graph, **options())
        plan = uneven_plan(ROWS, DIM, steps=STEPS, ranks=1)
        steps = torch.zeros(ROWS, dtype=torch.int64)
        mean, square = torch.zeros(ROWS, DIM, dtype=torch.float64), torch.zeros(ROWS, DIM, dtype=torch.float64)

        def apply(row: int, values: Tensor, grad: Tensor, times: int) -> Tensor:
            grad = grad / times
            steps[row] += 1
            mean[row] += (grad - mean[row]) * 0.1
            square[row] += (grad**2 - square[row]) * 0.001
            done = int(steps[row])
            return values - 0.02 * (mean[row] / (1 - 0.9**done)) / ((square[row] / (1 - 0.999**done)).sqrt() + 1e-8)

        make = partial(SparseAdam, lr=0.02, bias="row", duplicates="mean")
        found = trained([graph], "learned", make, plan, **options())
        torch.testing.assert_close(found, by_row(begin, plan, apply), atol=1e-5, rtol=0)
