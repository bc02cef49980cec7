"""What users of torch's optimisers do with those of tables, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

import halohop
from halohop import DistEmbedding, Graph, World
from halohop.errors import HalohopError, InputError
from halohop.optim import RowwiseAdagrad, SparseAdagrad, SparseAdam, SparseSGD
from halohop.testing.graphs import ring
from halohop.testing.worlds import partitioned
from tests.optim.ranks import in_ranks

NODES = 12
ONES = halohop.init.constant(1.0)


@pytest.fixture
def graph() -> Iterator[Graph]:
    with partitioned(ring(NODES, raw_id=torch.arange(NODES) * 10), 2) as graph:
        yield graph


def learned(graph: Graph, name: str = "learned", **options: Any) -> DistEmbedding:
    return DistEmbedding(graph, None, 2, name, ONES, node_type="node", **options)


def first_of(embedding: DistEmbedding, raw: int = 0) -> float:
    return float(embedding.weight[torch.tensor([raw])][0, 0])


def backward(embedding: DistEmbedding, raw: int = 0, factor: float = 1.0) -> None:
    (embedding(torch.tensor([raw])).sum() * factor).backward()


def test_groups_have_their_own_rates(graph: Graph) -> None:
    fast, slow, late = learned(graph, "fast"), learned(graph, "slow"), learned(graph, "late")
    optimizer = SparseSGD([{"params": [fast], "lr": 0.5}, {"params": slow}], lr=0.1)
    optimizer.add_param_group({"params": [late], "lr": 0.25})
    for embedding in (fast, slow, late):
        backward(embedding)
    optimizer.step()
    assert [first_of(one) for one in (fast, slow, late)] == pytest.approx([0.5, 0.9, 0.75])
    assert optimizer.steps == {"fast": 1, "slow": 1, "late": 1}
    backward(slow)
    optimizer.step()
    assert optimizer.steps == {"fast": 1, "slow": 2, "late": 1}


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5),
        lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch),
        lambda optimizer: lr_scheduler.CyclicLR(
            optimizer, 0.5, 1.0, step_size_up=1, mode="exp_range", gamma=1.0, cycle_momentum=False
        ),
    ],
    ids=["StepLR", "LambdaLR", "CyclicLR"],
)
def test_schedules_set_the_rate_of_the_next_step(graph: Graph, schedule: Any) -> None:
    embedding, twin = learned(graph), torch.nn.Parameter(torch.ones(2))
    optimizer, theirs = SparseSGD([embedding], lr=0.5), torch.optim.SGD([twin], lr=0.5)
    schedules = [schedule(optimizer), schedule(theirs)]
    for _ in range(3):
        backward(embedding)
        twin.sum().backward()
        for one in (optimizer, theirs, *schedules):
            one.step()
        theirs.zero_grad()
    assert first_of(embedding) == pytest.approx(float(twin.detach()[0]))


def test_zero_grad_drops_and_a_step_uses_up(graph: Graph) -> None:
    embedding = learned(graph)
    optimizer = SparseSGD([embedding], lr=0.5)
    backward(embedding, factor=100.0)
    optimizer.zero_grad()
    backward(embedding)
    optimizer.step()
    assert first_of(embedding) == 0.5
    backward(embedding, raw=10)
    optimizer.step()
    assert (first_of(embedding), first_of(embedding, 10)) == (0.5, 0.5)


def test_a_closure_computes_the_loss(graph: Graph) -> None:
    embedding = learned(graph)
    optimizer = SparseSGD([embedding], lr=0.5)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = embedding(torch.tensor([0])).sum()
        loss.backward()
        return loss

    assert float(optimizer.step(closure).detach()) == 2.0
    assert first_of(embedding) == 0.5


def test_a_step_needs_a_lookup_but_no_gradient(graph: Graph) -> None:
    embedding = learned(graph)
    optimizer = SparseSGD([embedding], lr=0.5)
    with pytest.raises(InputError, match=r"no row of 'learned' was looked up .* leave\(\)"):
        optimizer.step()
    embedding(torch.tensor([0]))
    optimizer.step()  # backward has not come: nothing is changed, as with torch where .grad is None
    assert optimizer.steps == {"learned": 0}
    with pytest.raises(InputError, match="no row of 'learned' was looked up"):
        optimizer.step()
    backward(embedding)
    optimizer.step()
    assert (first_of(embedding), optimizer.steps) == (0.5, {"learned": 1})


def test_gradients_that_are_not_finite_are_named_by_id_and_the_other_ranks_hear_it(graph: Graph) -> None:
    errors: dict[int, str] = {}

    def run(rank: int) -> None:
        embedding = learned(graph)
        optimizer = SparseSGD([embedding], lr=0.5, world=World(rank=rank, size=2), timeout=20.0)
        rows = embedding(torch.tensor([0, 70, 30]))
        (rows.sum() if rank == 0 else (rows / torch.tensor([[1.0], [0.0], [1.0]])).sum()).backward()
        with pytest.raises(HalohopError) as raised:
            optimizer.step()
        errors[rank] = str(raised.value)
        optimizer.zero_grad()
        backward(embedding)
        optimizer.step()

    in_ranks(2, run)
    assert "not finite in the rows of ids 70;" in errors[1]
    assert "rank 1" in errors[0]
    assert "not finite in the rows of ids 70;" in errors[0]
    assert first_of(learned(graph)) == 0.5


@pytest.mark.parametrize("duplicates", ["sum", "mean"])
def test_finite_gradients_of_one_row_whose_sum_is_not_are_named(graph: Graph, duplicates: Any) -> None:
    embedding = learned(graph)
    optimizer = SparseSGD([embedding], lr=0.5, duplicates=duplicates)
    for raw, factor in ((70, 3e38), (30, 3e38), (70, 3e38)):
        backward(embedding, raw, factor)
    with pytest.raises(InputError, match="not finite"):
        optimizer.step()
    optimizer.zero_grad()
    assert float(embedding.weight[torch.arange(NODES) * 10].sum()) == 2 * NODES


@pytest.mark.parametrize(("duplicates", "sent", "left"), [("sum", 2, 1 - 0.1 * 3), ("mean", 4, 0.9)])
def test_rows_are_sent_once_where_their_gradients_are_added_up(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, duplicates: str, sent: int, left: float
) -> None:
    embedding = learned(graph)
    optimizer = SparseSGD([embedding], lr=0.1, duplicates=duplicates)
    change, seen = type(graph.tables).change, []

    def counted(self: Any, moment: Any, way: str, shares: Any, **options: Any) -> Any:
        seen.extend(len(share.gid) for share in shares)
        return change(self, moment, way, shares, **options)

    monkeypatch.setattr(type(graph.tables), "change", counted)
    embedding(torch.tensor([30, 0, 0, 0])).sum().backward()
    optimizer.step()
    assert seen == [sent]
    assert first_of(embedding) == pytest.approx(left)


def test_norm_of_all_tables_and_owners(graph: Graph) -> None:
    embeddings = [learned(graph, "a"), learned(graph, "b")]
    optimizer = SparseSGD(embeddings, lr=1.0)
    for raw in range(0, 10 * NODES, 10):  # rows of both partitions
        for embedding in embeddings:
            backward(embedding, raw)
    optimizer.clip_grad_norm(0.5)
    optimizer.step()
    norm = (NODES * 2 * 2) ** 0.5
    assert optimizer.grad_norm == pytest.approx(norm)
    assert first_of(embeddings[0]) == pytest.approx(1 - 0.5 / norm)
    backward(embeddings[0])
    optimizer.step()  # clipping is of one step
    assert first_of(embeddings[0]) == pytest.approx(-0.5 / norm)


def test_ranks_that_differ_in_their_rates_are_refused(graph: Graph) -> None:
    def run(rank: int) -> None:
        embedding = learned(graph)
        optimizer = SparseSGD([embedding], lr=0.1 * (rank + 1), world=World(rank=rank, size=2), timeout=20.0)
        backward(embedding)
        with pytest.raises(HalohopError, match="learning rates of table 'learned' differ"):
            optimizer.step()

    in_ranks(2, run)
    assert first_of(learned(graph)) == 1.0


def test_ranks_clip_by_the_same_norm(graph: Graph) -> None:
    def run(rank: int) -> None:
        embedding = learned(graph)
        optimizer = SparseSGD([embedding], world=World(rank=rank, size=2), timeout=20.0)
        backward(embedding)
        optimizer.clip_grad_norm(1.0 + rank)
        with pytest.raises(HalohopError, match=r"ranks differ .*max_norm=[12]; rank \d .*max_norm=[12]"):
            optimizer.step()

    in_ranks(2, run)
    assert first_of(learned(graph)) == 1.0


def test_a_rank_that_does_not_come_is_named(graph: Graph) -> None:
    embedding = learned(graph)
    optimizer = SparseSGD([embedding], world=World(rank=1, size=3), timeout=0.2)
    backward(embedding)
    with pytest.raises(HalohopError, match="ranks 0, 2 have not sent a share"):
        optimizer.step()


def test_two_optimisers_of_one_table(graph: Graph) -> None:
    embedding = learned(graph)
    first = SparseAdam([embedding])
    with pytest.raises(HalohopError, match=r"'learned' is trained by .*SparseAdam\(learned\)"):
        SparseAdagrad([embedding])
    with pytest.raises(HalohopError, match=r"'learned' is trained by .*beta1=0.9"):
        SparseAdam([embedding], betas=(0.8, 0.99))
    backward(embedding)
    first.step()
    second = SparseAdam([embedding])  # takes the place of the first one
    assert second.steps == {"learned": 1}
    backward(embedding)
    second.step()
    backward(embedding)
    with pytest.raises(HalohopError, match="have begun to train since"):
        first.step()


def test_the_state_of_groups_is_kept_with_the_steps_of_tables(graph: Graph) -> None:
    embedding = learned(graph)
    optimizer = SparseAdam([embedding], lr=0.1)
    backward(embedding)
    optimizer.step()
    state = optimizer.state_dict()
    optimizer.param_groups[0]["lr"] = 0.7
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.1
    backward(embedding)
    optimizer.step()
    with pytest.raises(InputError, match="of step 1 of table 'learned', which has had 2 steps; load the tables"):
        optimizer.load_state_dict(state)
    later = optimizer.state_dict()
    later["param_groups"][0]["betas"] = (0.5, 0.5)
    with pytest.raises(InputError, match="rule of table 'learned' has become"):
        optimizer.load_state_dict(later)
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)
    weight = torch.nn.Parameter(torch.ones(2))
    dense = torch.optim.Adam([weight])
    weight.sum().backward()
    dense.step()
    with pytest.raises(InputError, match="not the state of a SparseAdam"):
        optimizer.load_state_dict(dense.state_dict())


def test_what_owners_cannot_do_is_refused(graph: Graph) -> None:
    embedding = learned(graph)
    with pytest.raises(InputError, match=r"a Linear is no halohop.DistEmbedding"):
        SparseSGD([torch.nn.Linear(2, 2)])
    with pytest.raises(InputError, match="give a list"):
        SparseSGD(embedding)
    with pytest.raises(InputError, match="has no list of DistEmbeddings"):
        SparseSGD([{"lr": 0.1}])
    with pytest.raises(InputError, match="given twice"):
        SparseSGD([embedding, embedding])
    with pytest.raises(InputError, match="two graphs"):
        SparseSGD([embedding, learned(partitioned(ring(3), 1), "other")])
    for wrong in (-1.0, float("nan"), float("inf"), "x", None, torch.ones(2)):
        with pytest.raises(InputError, match="lr="):
            SparseSGD([embedding], lr=wrong)
    for name in ("momentum", "weight_decay"):
        with pytest.raises(InputError, match=f"{name}=0.1 is not done"):
            SparseSGD([{"params": [embedding], name: 0.1}])
        with pytest.raises(InputError, match=f"SparseSGD has no {name}=0.1; it is not done"):
            SparseSGD([embedding], **{name: 0.1})
    with pytest.raises(InputError, match="SparseSGD has no rank='mean'"):
        SparseSGD([embedding], rank="mean")
    with pytest.raises(InputError, match="no table to train"):
        SparseSGD(embedding.parameters())
    with pytest.raises(InputError, match="beta1"):
        SparseAdam([embedding], betas=(1.0, 0.9))
    for betas in ("x", (0.9,), 0.9, ("x", 0.9)):
        with pytest.raises(InputError, match="betas="):
            SparseAdam([embedding], betas=betas)
    for timeout in ("x", 0.0, -1.0, None):
        with pytest.raises(InputError, match=f"timeout={timeout!r} is"):
            SparseSGD([embedding], timeout=timeout)
    for name in ("eps", "lr_decay", "initial_accumulator_value"):
        with pytest.raises(InputError, match=f"{name}='x' is no number"):
            SparseAdagrad([embedding], **{name: "x"})
    with pytest.raises(InputError, match="eps"):
        RowwiseAdagrad([embedding], eps=-1.0)
    with pytest.raises(InputError, match="ranks='max'"):
        SparseSGD([embedding], ranks="max")
    optimizer = SparseAdam([embedding])
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    with pytest.raises(InputError, match="GradScaler cannot step"):
        scaler.step(optimizer)
    with pytest.raises(InputError, match="divide_by_initial_world_size=False"):
        optimizer.join_hook(divide_by_initial_world_size=False)
    for norm in (0, "x"):
        with pytest.raises(InputError, match="max_norm="):
            optimizer.clip_grad_norm(norm)
    lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)  # it cycles beta1
    backward(embedding)
    with pytest.raises(InputError, match="cycle_momentum=False"):
        optimizer.step()
