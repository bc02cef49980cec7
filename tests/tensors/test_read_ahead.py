"""Rows that are read ahead: how old they may be, that they are those of a lookup, and what is left when the loop ends early."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import halohop
from halohop import DistEmbedding, Graph, ReadAhead
from halohop.errors import BatchError, IdError, InputError
from halohop.optim import SparseAdam, SparseSGD
from halohop.testing.graphs import ring
from halohop.testing.worlds import partitioned

NODES, DIM, BATCHES = 30, 4, 12


@pytest.fixture
def graph() -> Iterator[Graph]:
    with partitioned(ring(NODES), 2) as graph:
        yield graph


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert {thread.name for thread in set(threading.enumerate()) - before if "loader" in thread.name} == set()


def batches() -> list[Tensor]:
    return list(torch.randint(NODES, (BATCHES, 6), generator=torch.Generator().manual_seed(0)))


def learned(graph: Graph, name: str = "learned") -> DistEmbedding:
    return DistEmbedding(graph, None, DIM, name, node_type="node", seed=2)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Has a permit for each batch whose rows were read ahead."""
    read, done = ReadAhead._read, threading.Semaphore(0)

    def counted(self: ReadAhead, batch: Any) -> Any:
        made = read(self, batch)
        done.release()
        return made

    monkeypatch.setattr(ReadAhead, "_read", counted)
    return done


def wait_for_reads(reads: threading.Semaphore, number: int, staleness: int) -> None:
    """Those that begin before a batch is there: its own of the first one, then all that may be read ahead."""
    begun = [1, *(min(later + staleness + 1, BATCHES) for later in range(1, BATCHES))]
    for _ in range(begun[number] - (begun[number - 1] if number else 0)):
        assert reads.acquire(timeout=10)


def trained(graph: Graph, staleness: int | None, reads: threading.Semaphore) -> tuple[Tensor, dict[str, float]]:
    """Rows after an epoch; None: without reading ahead. Each step waits for all reads that have begun."""
    embedding = learned(graph)
    optimizer = SparseAdam([embedding], lr=0.05)
    loader: Any = batches()
    if staleness is not None:
        loader = ReadAhead(loader, {embedding: lambda batch: batch}, staleness=staleness)
    for number, ids in enumerate(loader):
        if staleness:
            wait_for_reads(reads, number, staleness)
        (embedding(ids) ** 2).sum().backward()
        optimizer.step()
    rows = embedding.weight[torch.arange(NODES)]
    embedding.weight.drop()
    return rows, embedding.statistics()


def test_without_staleness_nothing_is_read_ahead(graph: Graph, reads: threading.Semaphore) -> None:
    plain, _ = trained(graph, None, reads)
    exact, statistics = trained(graph, 0, reads)
    assert torch.equal(plain, exact)
    assert statistics == {}


@pytest.mark.parametrize("staleness", [1, 3])
def test_rows_are_at_most_so_many_steps_old(graph: Graph, staleness: int, reads: threading.Semaphore) -> None:
    plain, _ = trained(graph, None, reads)
    rows, statistics = trained(graph, staleness, reads)
    younger = {"lookups_of_age_0": 2} | {f"lookups_of_age_{age}": 1 for age in range(1, staleness)}
    assert statistics == younger | {f"lookups_of_age_{staleness}": BATCHES - staleness - 1}
    assert not torch.equal(rows, plain)
    torch.testing.assert_close(rows, plain, atol=0.2, rtol=0)


def test_rows_that_have_become_too_old_are_read_again(graph: Graph, reads: threading.Semaphore) -> None:
    embedding = learned(graph)
    optimizer = SparseSGD([embedding], lr=1.0)
    for number, ids in enumerate(ReadAhead(batches(), {embedding: lambda batch: batch}, staleness=1)):
        wait_for_reads(reads, number, 1)
        assert torch.equal(embedding(ids), embedding.weight[ids])
        for _ in range(2):  # two steps a batch: what was read before them is two steps old
            embedding(torch.arange(NODES)).sum().backward()
            optimizer.step()
    assert embedding.statistics() == {"lookups_of_age_0": 2, "lookups_read_again": BATCHES - 2}


def test_a_lookup_by_other_ids_reads_as_always(graph: Graph) -> None:
    embedding = learned(graph)
    for ids in ReadAhead(batches(), {embedding: lambda batch: batch}, staleness=1):
        other = (ids + 1) % NODES
        assert torch.equal(embedding(other), embedding.weight[other])
        assert torch.equal(embedding(ids), embedding.weight[ids])
        assert torch.equal(embedding(ids), embedding.weight[ids])  # what was read ahead is used once
    assert embedding.statistics() == {"lookups_not_ahead": BATCHES, "lookups_of_age_0": BATCHES}


def test_several_lookups_of_several_tables_by_ids_and_gids(graph: Graph) -> None:
    ends, both = learned(graph), learned(graph, "both")
    loader = halohop.NeighborLoader(graph, [2], batch_size=8, gids=True, run="inline")
    ahead = ReadAhead(
        loader, {ends: lambda batch: [batch.n_id[:2], batch.n_id[2:]]}, gid={both: lambda batch: batch.n_gid}, staleness=2
    )
    assert len(ahead) == len(loader) == 4
    for batch in ahead:
        assert torch.equal(ends(batch.n_id[2:]), ends.weight[batch.n_id[2:]])
        assert torch.equal(ends(batch.n_id[:2]), ends.weight[batch.n_id[:2]])
        assert torch.equal(both(gid=batch.n_gid), both.weight[batch.n_id])
    assert ends.statistics() == {"lookups_of_age_0": 8}
    assert both.statistics() == {"lookups_of_age_0": 4}


def test_ending_early_leaves_nothing_behind(graph: Graph) -> None:
    embedding = learned(graph)
    for ids in ReadAhead(batches(), {embedding: lambda batch: batch}, staleness=2):
        embedding(ids)
        break
    assert embedding.early == []

    def fail() -> None:
        for ids in ReadAhead(batches(), {embedding: lambda batch: batch}, staleness=2):
            embedding(ids)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert embedding.early == []


def failing() -> Iterator[Tensor]:
    yield torch.tensor([0])
    raise OSError("the disk is gone")


def test_failures_come_where_their_batch_would(graph: Graph) -> None:
    embedding = learned(graph)
    wrong = iter(ReadAhead([torch.tensor([1]), torch.tensor([99])], {embedding: lambda batch: batch}))
    assert next(wrong).tolist() == [1]
    with pytest.raises(IdError, match="the first is 99"):
        next(wrong)
    with pytest.raises(OSError, match="the disk is gone"):
        list(ReadAhead(failing(), {embedding: lambda batch: batch}))
    with pytest.raises(BatchError, match="KeyError"):
        list(ReadAhead([{}], {embedding: lambda batch: batch["ids"]}))


def test_the_loader_makes_batches_while_the_model_computes(graph: Graph) -> None:
    """The loop has asked for two batches, and computes; the loader is asked for the third."""
    computing, asked = threading.Event(), threading.Event()

    def loader() -> Iterator[Tensor]:
        for number, ids in enumerate(batches()):
            if number == 2:
                assert computing.wait(10)
                asked.set()
            yield ids

    embedding = learned(graph)
    ahead = iter(ReadAhead(loader(), {embedding: lambda batch: batch}, staleness=1))
    used = [next(ahead), next(ahead)]
    computing.set()
    assert asked.wait(10)
    assert torch.equal(torch.stack([*used, *ahead]), torch.stack(batches()))


def test_a_loader_that_has_ended_is_not_asked_again(graph: Graph) -> None:
    calls = []

    class Loader:
        def __iter__(self) -> "Loader":
            return self

        def __next__(self) -> Tensor:
            calls.append(threading.current_thread())
            if len(calls) > 3:
                raise StopIteration
            return torch.tensor([len(calls)])

    embedding = learned(graph)
    assert [int(batch) for batch in ReadAhead(Loader(), {embedding: lambda batch: batch}, staleness=3)] == [1, 2, 3]
    assert len(calls) == 4
    assert threading.main_thread() not in calls


def test_what_cannot_be_read_ahead(graph: Graph) -> None:
    embedding = learned(graph)
    for wrong in (-1, 1.5, True):
        with pytest.raises(InputError, match="staleness="):
            ReadAhead([], {embedding: lambda batch: batch}, staleness=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="nothing is to be read ahead"):
        ReadAhead([])
    with pytest.raises(InputError, match="several graphs"):
        ReadAhead([], {embedding: lambda b: b, learned(partitioned(ring(3), 1)): lambda b: b})
