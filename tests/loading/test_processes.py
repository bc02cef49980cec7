"""Loaders whose workers are processes: the same batches, no failure lost, nothing left behind."""

import contextlib
import gc
import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop import NeighborLoader
from halohop.cluster.graph import in_memory
from halohop.datasets import synthetic
from halohop.errors import BatchError, DeadlineExceededError, IdError, InputError
from halohop.pyg.convert import tables_from_pyg
from tests.support.deadlines import within
from tests.support.forked import Forked


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(1)
    return Data(
        x=torch.randn(5000, 64),
        half=torch.randn(5000, 9).bfloat16(),
        y=torch.randint(5, (5000,)),
        edge_index=torch.randint(5000, (2, 40_000)),
        edge_attr=torch.randn(40_000, 3),
        title="kept",
    )


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x = torch.randn(3000, 40)
    data["author"].x = torch.randn(2000, 60)
    data["venue"].num_nodes = 5
    for relation in (("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author")):
        counts = [data[name].num_nodes for name in (relation[0], relation[2])]
        data[relation].edge_index = torch.stack([torch.randint(count, (20_000,)) for count in counts])
        data[relation].edge_attr = torch.randn(20_000, 2)
    data["venue", "hosts", "paper"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    return data


def loader_of(data: Any, run: str = "processes", **options: Any) -> NeighborLoader:
    options = {"batch_size": 500, "shuffle": True, "seed": 3, "num_workers": 2, "persistent_workers": False, **options}
    nodes = "paper" if isinstance(data, HeteroData) else None
    return NeighborLoader(data, [5, 3], nodes, run=run, **options)


def tensors_of(value: Any, path: str = "") -> dict[str, Any]:
    """Every leaf of a batch by its path."""
    if isinstance(value, Data | HeteroData):
        value = value.to_dict()
    if isinstance(value, dict):
        return {name: leaf for key, part in value.items() for name, leaf in tensors_of(part, f"{path}/{key}").items()}
    if isinstance(value, tuple | list):
        return tensors_of(dict(enumerate(value)), path)
    return {path: value}


def assert_same(got: list[Any], expected: list[Any]) -> None:
    assert len(got) == len(expected)
    for one, other in zip(map(tensors_of, got), map(tensors_of, expected), strict=True):
        assert list(one) == list(other)
        for path, leaf in other.items():
            if isinstance(leaf, torch.Tensor):
                assert (one[path].dtype, one[path].shape) == (leaf.dtype, leaf.shape), path
                assert torch.equal(one[path], leaf), path
            else:
                assert type(one[path]) is type(leaf), path
                assert one[path] == leaf, path


@pytest.mark.parametrize("graph", ["data", "hetero"])
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_are_the_same_and_stay_as_they_are(request, graph, persistent):
    data = request.getfixturevalue(graph)
    loader = loader_of(data, persistent_workers=persistent)
    kept = [batch for _ in range(2) for batch in loader]
    del loader
    gc.collect()
    for run in ("inline", "threads"):
        other = loader_of(data, run)
        assert_same(kept, [batch for _ in range(2) for batch in other])


class Holder:
    """No tensor in here, and no equality but this."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Holder) and other.rank == self.rank

    __hash__ = None


CACHE = torch.arange(50_000)

ODD: dict[str, Callable[[Data], Any]] = {
    "tuple": lambda batch: (batch.x, batch.y, "text", 3),
    "dict": lambda batch: {"x": batch.x, "inner": {"edges": batch.edge_index}},
    "none": lambda batch: None,
    "object": lambda batch: Holder(batch.batch_size),
    "views": lambda batch: (batch.x[::3], batch.x.t(), batch.x[5:9, 2:], batch.edge_index[1], batch.x[:1].expand(7, 64)),
    "twice": lambda batch: (batch.x, batch.x, batch.x[3:]),
    "bfloat16": lambda batch: (batch.half, batch.x.bfloat16()),
    "empty": lambda batch: (batch.x[:0], torch.empty(0), torch.empty(3, 0), torch.empty(0, dtype=torch.bool)),
    "new": lambda batch: (batch.x * 2, (batch.x + 1).t(), torch.tensor(7)),
    "cached": lambda batch: (CACHE, CACHE[4:]),
    "numpy": lambda batch: batch.x.numpy().sum(axis=0).tolist(),
    "whole": lambda batch: batch,
}


@pytest.mark.parametrize("transform", ODD.values(), ids=ODD)
def test_whatever_a_transform_returns(data, transform):
    runs = {run: list(loader_of(data, run, transform=transform, batch_size=1250)) for run in ("inline", "threads", "processes")}
    assert_same(runs["threads"], runs["inline"])
    assert_same(runs["processes"], runs["inline"])


def test_a_tensor_that_transforms_keep_is_not_overwritten(data):
    """The first batch's features come again with every batch, so their buffer is lent for many batches at once."""
    first = []

    def remember(batch: Data) -> Any:
        first.append(batch.x[:100])
        return first[0], first[0].clone(), batch.x

    kept = []
    for number, (view, copy, _) in enumerate(loader_of(data, num_workers=1, transform=remember)):
        assert torch.equal(view, copy)
        if number % 3 == 0:
            kept.append((view, copy))
    assert all(torch.equal(view, copy) for view, copy in kept)


def test_dropped_batches_lend_their_buffers_again(data):
    loader = loader_of(data, batch_size=100)
    made = []
    for batch in loader:
        assert batch.x[3:].shape[1] == 64
        made.append(loader.statistics()["shared_buffers"])
    assert len(made) == 50
    assert 0 < made[-1] < 50  # one per array and batch would be 200


def test_what_workers_count_is_counted(data):
    loaders = {run: loader_of(data, run) for run in ("inline", "processes")}
    for loader in loaders.values():
        list(loader)
    counts = {run: loader.statistics() for run, loader in loaders.items()}
    for name in ("batches", "seeds", "sampled_edges", "local_rows", "make_calls"):
        assert counts["processes"][name] == counts["inline"][name] > 0, name
    assert counts["processes"]["backlog_bytes"] == 0 < counts["processes"]["backlog_peak_bytes"]


def at(number: int, act: Callable[[], Any]) -> Callable[[Data], Data]:
    """A transform that acts on the batch of these seeds (without shuffle)."""

    def transform(batch: Data) -> Data:
        if int(batch.input_id[0]) == number * 500:
            act()
        return batch

    return transform


def fail_locally() -> None:
    class LocalError(Exception):
        pass

    raise LocalError("of a class that cannot be named")


def fail_with(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


class DemandingError(Exception):
    """Cannot be unpickled: `args` are not what its constructor wants."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize(
    ("act", "error", "message", "cause"),
    [
        (
            fail_with(ZeroDivisionError("in the user's")),
            BatchError,
            "batch 3 could not be made: ZeroDivisionError: in the user",
            ZeroDivisionError,
        ),
        (fail_with(IdError("id 7")), IdError, "^id 7\n", None),
        (fail_with(TimeoutError("mine")), BatchError, "TimeoutError: mine", TimeoutError),
        (fail_locally, BatchError, "LocalError: of a class", None),
        (fail_with(DemandingError(1, 2)), BatchError, "DemandingError: 1 and 2", None),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), BatchError, r"worker process \d \(pid \d+\) was killed by SIGKILL", None),
        (lambda: os._exit(3), BatchError, "ended with exit code 3", None),
    ],
)
def test_failures_come_in_their_place(data, act, error, message, cause):
    batches = iter(loader_of(data, shuffle=False, num_workers=1, prefetch_factor=4, transform=at(3, act)))
    for number in range(3):
        assert next(batches).input_id[0] == number * 500
    with pytest.raises(error, match=message) as caught:
        next(batches)
    assert type(caught.value) is error
    assert type(caught.value.__cause__) is (cause or type(None))
    if "process" not in message and "code" not in message:
        text = "".join(traceback.format_exception(caught.value))
        assert "Traceback in worker process 0" in text
        assert "in transform" in text
    assert list(batches) == []


def test_a_worker_that_dies_while_idle_is_noticed(data):
    loader = loader_of(data, num_workers=1, persistent_workers=True, transform=lambda batch: os.getpid())
    pid = next(iter(loader))
    assert list(loader) == [pid] * 10
    victim = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    ended(victim)
    for thread in threading.enumerate():
        if thread.name == "halohop-loader-0":
            thread.join(60)
    assert len(set(loader) - {pid}) == 1  # another took its place
    del loader
    gc.collect()


def ended(*descriptors: int) -> None:
    """Waits until the processes behind these pidfds have ended."""
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)


def test_what_cannot_be_pickled_is_named(data):
    with pytest.raises(BatchError, match=r"batch 0 cannot leave its worker process .* use run='threads'"):
        next(iter(loader_of(data, transform=lambda batch: lambda: None)))


def test_worker_init_fn(data):
    started = torch.zeros(2, dtype=torch.int64).share_memory_()

    def init(worker: int) -> None:
        started[worker] += 1
        assert torch.get_num_threads() == 1

    assert len(list(loader_of(data, worker_init_fn=init))) == 10
    assert started.tolist() == [1, 1]


def test_worker_init_fn_that_fails(data):
    def init(worker: int) -> None:
        raise ZeroDivisionError("no device")

    with pytest.raises(BatchError, match=r"worker_init_fn failed in worker \d: ZeroDivisionError: no device") as caught:
        list(loader_of(data, worker_init_fn=init))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_random_transforms_differ_by_batch_and_not_by_worker(data):
    def draw(batch: Data) -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    one, two = (list(loader_of(data, num_workers=workers, transform=draw)) for workers in (1, 2))
    assert one == two
    assert len({number for draws in one for number in draws}) == 30


def test_an_item_that_never_comes_is_an_error_at_the_deadline(data):
    stuck = at(1, lambda: threading.Event().wait(60))
    batches = iter(loader_of(data, shuffle=False, transform=stuck, timeout=0.5))
    next(batches)
    with pytest.raises(DeadlineExceededError, match=r"0\.5 s"):
        next(batches)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("how", ["break", "drop", "close"])
def test_ending_early_ends_the_workers(data, how):
    batches = iter(loader_of(data, prefetch_factor=3))
    kept = next(batches).x
    copy = kept.clone()
    assert len(multiprocessing.active_children()) == 2
    if how == "break":
        for _ in batches:
            break
    if how == "close":
        batches.close()
    del batches
    gc.collect()
    assert multiprocessing.active_children() == []
    assert torch.equal(kept, copy)


@pytest.mark.parametrize("persistent", [False, True])
def test_two_iterators_at_once(data, persistent):
    loader = loader_of(data, persistent_workers=persistent)
    pairs = list(zip(iter(loader), iter(loader), strict=True))
    inline = loader_of(data, "inline")
    for epoch in range(2):
        assert_same([pair[epoch] for pair in pairs], list(inline))
    next(iter(loader))  # and one that is given up in the middle
    assert_same(list(loader_of(data, persistent_workers=persistent)), list(loader_of(data, "inline")))
    del loader
    gc.collect()


def test_persistent_workers_stay(data):
    def pids(loader: NeighborLoader) -> set[int]:
        return set(loader)

    loader = loader_of(data, persistent_workers=None, transform=lambda batch: os.getpid())
    assert loader.persistent_workers
    first = pids(loader)
    assert pids(loader) | first <= {child.pid for child in multiprocessing.active_children()}
    del loader
    gc.collect()
    assert multiprocessing.active_children() == []
    loader = loader_of(data, transform=lambda batch: os.getpid())
    assert not pids(loader) & pids(loader)


def test_persistent_workers_are_forked_anew_for_another_function(data):
    loader = loader_of(data, persistent_workers=None, num_workers=1, transform=lambda batch: ("one", os.getpid()))
    (first,) = set(loader)
    loader.transform = lambda batch: ("other", os.getpid())
    (second,) = set(loader)
    assert (first[0], second[0]) == ("one", "other")
    assert {child.pid for child in multiprocessing.active_children()} == {second[1]}
    numbers = torch.zeros(2, dtype=torch.int64).share_memory_()
    loader.worker_init_fn = lambda worker: numbers[1].fill_(7)
    assert set(loader) != {second}
    assert numbers.tolist() == [0, 7]
    del loader
    gc.collect()
    assert multiprocessing.active_children() == []


@pytest.mark.full
def test_forking_beside_busy_threads(data):
    """A lock that a thread holds at the moment of the fork would be held for ever in the worker."""
    graph = in_memory(tables_from_pyg(data))
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            for _ in NeighborLoader(graph, [3], batch_size=20, run="threads", num_workers=3):
                if stop.is_set():
                    break

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        for _ in range(10):
            assert len(list(loader_of(graph, num_workers=1, timeout=30, batch_size=2500))) == 2
    finally:
        stop.set()
        busy.join(30)


def test_the_trainers_garbage_is_not_finalized_in_workers(data):
    """An iterator that waits to be collected in the trainer, say: its end in a worker would be heard by its siblings."""
    finalized = torch.zeros(1).share_memory_()
    owner = os.getpid()

    class Garbage:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            if os.getpid() != owner:
                finalized.fill_(1)

    gc.disable()
    try:
        Garbage()
        list(loader_of(data, transform=lambda batch: gc.collect()))
    finally:
        gc.enable()
    assert not finalized.any()


def test_a_process_that_inherits_an_iterator_leaves_the_workers_alone(data):
    batches = iter(loader_of(data))
    next(batches)
    child = multiprocessing.get_context("fork").Process(target=batches.close)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert len(list(batches)) == 9


TRAINER = """
import os, signal, sys, time, torch
from torch_geometric.data import Data
from halohop import NeighborLoader

then, persistent = sys.argv[1:]

def transform(batch):
    if int(batch.input_id[0]) >= 1000 and then == "stuck":
        while True:
            pass
    return os.getpid(), batch

data = Data(x=torch.randn(5000, 64), edge_index=torch.randint(5000, (2, 40_000)))

def begin(persistent):
    options = dict(run="processes", num_workers=2, transform=transform, persistent_workers=persistent)
    batches = iter(NeighborLoader(data, [10], batch_size=500, **options))
    return batches, [next(batches), next(batches)]

if then == "exit":
    held = [begin(False), begin(True)]
    raise SystemExit(3)
os.setsid()
batches, held = begin(persistent == "persistent")
if then == "bystander" and os.fork() == 0:
    signal.pause()
print(*dict.fromkeys(pid for pid, _ in held), flush=True)
if then == "stuck":
    next(batches)
while True:  # pause() would sleep on where a signal came just before it
    time.sleep(0.1)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a trainer that holds an iterator; gives it and pidfds of its workers (those that made its first batches)."""
    (tmp_path / "a_trainer.py").write_text(TRAINER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with contextlib.ExitStack() as stack:

        def begin(then: str, how: str) -> tuple[Forked, list[int]]:
            trainer = Forked("a_trainer", [then, how], os.environ)
            stack.callback(trainer.close)
            stack.callback(trainer.wait, 60)
            stack.callback(trainer.kill)
            return trainer, [os.pidfd_open(int(pid)) for pid in trainer.stdout.readline().split()]

        yield begin


@pytest.mark.parametrize("then", ["idle", "stuck", "bystander"])
def test_no_worker_outlives_a_killed_trainer(start, then):
    """Not while it makes a batch, and not while another process holds a copy of the trainer's end of the line."""
    trainer, workers = start(then, "once")
    assert workers
    trainer.kill()
    assert trainer.wait(60) == -signal.SIGKILL
    try:
        ended(*workers)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(trainer.pid, signal.SIGKILL)  # the bystander, if not more


def test_ctrl_c_ends_trainer_and_workers(start):
    trainer, workers = start("idle", "persistent")
    os.killpg(trainer.pid, signal.SIGINT)
    assert trainer.wait(within(5)) in (-signal.SIGINT, 1, 130)
    err = trainer.stderr.read()
    assert err.count("Traceback") == 1, err  # the trainer's own
    ended(*workers)


@pytest.mark.full
def test_a_script_may_end_with_unfinished_iterators():
    """Of workers for one epoch, and of some that stay."""
    command = [sys.executable, "-c", TRAINER, "exit", ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("name", ["pidfd_open", "memfd_create"])
def test_systems_that_lack_what_processes_need(data, monkeypatch, name):
    monkeypatch.delattr(os, name)
    with pytest.raises(InputError, match=r"needs Linux 5\.3 or newer, got linux .*run='threads'"):
        loader_of(data)


def test_a_file_that_was_cut_while_workers_read_it_is_named(tmp_path: Path) -> None:
    """Reading what is gone kills a worker with SIGBUS; that memory ran out would be the wrong advice."""
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=1)
    with halohop.open(tmp_path / "parts") as graph:
        loader = NeighborLoader(graph, [2], "train", batch_size=10, num_workers=1, run="processes")
        os.truncate(tmp_path / "parts/part-0000/nodes/node/x.npy", 4096)
        with pytest.raises(BatchError, match=r"was killed by SIGBUS: .*part-0000/nodes/node/x\.npy has become shorter"):
            list(loader)
