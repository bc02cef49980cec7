"""Ranks that train one table, as threads of this process; and what torch's optimisers make of the same batches."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import halohop
from halohop import Graph, World

Make = Callable[..., Any]
"""Makes an optimiser of something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What ranks look up.

    Args:
        ids: by step and rank; None: the rank has ended its loop before.
        pull: where the loss pulls each row, ``[num_rows, dim]``.
        schedule: makes a schedule of learning rates of an optimiser; None: there is none.
        clip: largest norm of a step's gradients; None: any.
    """

    ids: list[list[Tensor | None]]
    pull: Tensor
    schedule: Make | None = None
    clip: float | None = None


def uneven_plan(num_rows: int, dim: int, *, steps: int, ranks: int, seed: int = 0, **options: Any) -> Plan:
    """Ids that occur twice within a rank and among ranks, empty shares, and ranks of which each makes three steps fewer than the
    one before."""
    generator = torch.Generator().manual_seed(seed)

    def of(step: int, rank: int) -> Tensor | None:
        if step >= steps - 3 * rank:
            return None
        count = 0 if (step + rank) % 7 == 3 and ranks > 1 else 12
        return torch.randint(num_rows, (count,), generator=generator)

    ids = [[of(step, rank) for rank in range(ranks)] for step in range(steps)]
    return Plan(ids=ids, pull=torch.randn(num_rows, dim, generator=generator), **options)


def loss_of(rows: Tensor, pull: Tensor) -> Tensor:
    """Some function of rows whose gradient differs from row to row."""
    return ((rows - pull) ** 2).sum() / 2


def trained(graphs: Sequence[Graph], name: str, make: Make, plan: Plan, *, rounds: int = 1, **options: Any) -> Tensor:
    """The rows of a table, by id, after ranks have trained it by a plan; a graph for each rank.

    Args:
        make: makes the optimiser of a list of embeddings; gets `world` besides.
        rounds: into how many equal ones the plan is divided; each rank leaves each of them at its end.
        options: of `DistEmbedding`.
    """
    size = len(plan.ids[0])
    num_rows, dim = plan.pull.shape

    def run(rank: int) -> None:
        embedding = halohop.DistEmbedding(graphs[rank % len(graphs)], num_rows, dim, name, **options)
        optimizer = make([embedding], world=World(rank=rank, size=size))
        schedule = None if plan.schedule is None else plan.schedule(optimizer)
        for number, step in enumerate(plan.ids):
            ids = step[rank]
            if number and number % (len(plan.ids) // rounds) == 0:
                optimizer.leave(timeout=20.0)
            if ids is None:
                continue
            optimizer.zero_grad()
            loss_of(embedding(ids), plan.pull[ids]).backward()
            if plan.clip is not None:
                optimizer.clip_grad_norm(plan.clip)
            optimizer.step()
            if schedule is not None:
                schedule.step()
        optimizer.leave(timeout=20.0)

    in_ranks(size, run)
    return halohop.DistTensor.attach(graphs[0], name)[torch.arange(num_rows)]


def in_ranks(size: int, run: Callable[[int], None]) -> None:
    """Runs each rank in a thread; the first failure is raised."""
    with ThreadPoolExecutor(size) as pool:
        for future in [pool.submit(run, rank) for rank in range(size)]:
            future.result(timeout=60)


def truth(begin: Tensor, make: Make, plan: Plan, *, ranks: str = "mean") -> Tensor:
    """What torch's optimiser makes of the union of all ranks' batches.

    Args:
        begin: the rows at first.
        make: makes the optimiser of a list of parameters.
        ranks: "mean" of all of them, as DDP takes it, or "sum".
    """
    size = len(plan.ids[0])
    table = nn.Embedding.from_pretrained(begin.clone(), freeze=False, sparse=True)
    optimizer = make([table.weight])
    schedule = None if plan.schedule is None else plan.schedule(optimizer)
    with torch.sparse.check_sparse_tensor_invariants(enable=False):  # what torch's Adagrad would warn of
        for step in plan.ids:
            _step_of_union(table, optimizer, step, plan, size if ranks == "mean" else 1)
            if schedule is not None:
                schedule.step()
    return table.weight.detach()


def _step_of_union(table: nn.Embedding, optimizer: Any, step: list[Tensor | None], plan: Plan, size: int) -> None:
    ids = torch.cat([ids for ids in step if ids is not None])
    optimizer.zero_grad()
    (loss_of(table(ids), plan.pull[ids]) / size).backward()
    if plan.clip is not None:
        grad = table.weight.grad
        assert grad is not None
        whole = grad.coalesce()
        table.weight.grad = whole * min(1.0, plan.clip / (float(whole.values().norm()) + 1e-6))
    optimizer.step()
