"""A group that is made for a run, and one that a script has made before."""

import gc
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist

import halohop
from halohop import process_group
from halohop.datasets import synthetic
from halohop.errors import ClusterError, InputError
from halohop.recipes.config import TrainConfig, to_dict
from halohop.world import World
from tests.support.deadlines import within
from tests.support.forked import Forked

CPU = torch.device("cpu")
INTERFACE = "GLOO_SOCKET_IFNAME"


@pytest.fixture(scope="module")
def tiny_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """1,000 nodes with features in two partitions."""
    folder = tmp_path_factory.mktemp("tiny") / "parts"
    halohop.partition(synthetic("tiny"), folder, num_parts=2, method="random")
    return str(folder)


@pytest.fixture
def quick_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_group, "LEAVE_S", 0.1)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)


def group() -> None:
    with process_group.process_group(World(rank=0, size=2), CPU, 5):
        pass


def run_script(folder: Path, source: str, *arguments: object, **variables: str) -> Forked:
    """A process of the user's own script."""
    (folder / "users_script.py").write_text(source)
    return Forked("users_script", [str(argument) for argument in arguments], os.environ | {"PYTHONPATH": str(folder)} | variables)


def config_file(parts: str, out: Path, **options: Any) -> Path:
    fast = {"fanout": (3,), "hidden": 8, "epochs": 1, "batch_size": 300, "workers": 1, "device": "cpu", "deadline_s": 60.0}
    config = TrainConfig(parts=parts, out=str(out), overwrite=True, **fast | options)
    path = out.with_suffix(".json")
    path.write_bytes(msgspec.json.encode(to_dict(config)))
    return path


def test_a_collective_of_a_lost_peer_does_not_keep_a_rank(
    quick_group: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """gloo waits for what is under way, up to the deadline of each: minutes after the other ranks are gone."""
    answered = threading.Event()
    monkeypatch.setattr(dist, "destroy_process_group", lambda: answered.wait(within(60)))
    with caplog.at_level(logging.WARNING):
        group()
    assert "left the process group behind" in caplog.text
    answered.set()


def test_cycles_that_hold_the_group_are_gone_before_it_ends(quick_group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        """Like a DistributedDataParallel, whose constructor leaves a cycle of references behind."""

        def __init__(self) -> None:
            self.itself = self

    made, left = list[weakref.ref[Model]](), list[bool]()
    monkeypatch.setattr(dist, "destroy_process_group", lambda: left.append(made[0]() is not None))
    gc.disable()
    try:
        with process_group.process_group(World(rank=0, size=2), CPU, 5):
            made.append(weakref.ref(Model()))
    finally:
        gc.enable()
    assert left == [False]


def test_a_failure_to_leave_is_seen(quick_group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise LookupError("no group")

    monkeypatch.setattr(dist, "destroy_process_group", fail)
    with pytest.raises(LookupError, match="no group"):
        group()


IN_A_GROUP = """
import sys
import torch
import torch.distributed as dist
from halohop.recipes.config import TrainConfig, read_config
from halohop.recipes.train import train

rank, store = int(sys.argv[1]), dist.TCPStore("127.0.0.1", int(sys.argv[2]), is_master=False)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
config = read_config(TrainConfig, sys.argv[3])
accuracies = [train(config)["test_accuracy"] for _ in range(2)]
ranks = torch.tensor([rank + 1])
dist.all_reduce(ranks)
print(accuracies[0] == accuracies[1], ranks.item(), dist.get_backend(), flush=True)
dist.destroy_process_group()
"""


def test_a_group_that_exists_is_taken_and_stays(tiny_parts: str, tmp_path: Path) -> None:
    """Two runs in one group that the script has made: both ranks take part, and the group is there afterwards."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    config = config_file(tiny_parts, tmp_path / "run")
    ranks = [run_script(tmp_path, IN_A_GROUP, rank, store.port, config, GLOO_SOCKET_IFNAME="lo") for rank in range(2)]
    try:
        for process in ranks:
            assert process.wait(within(60)) == 0, process.stderr.read()
            assert process.stdout.read() == "True 3 gloo\n"
    finally:
        for process in ranks:
            process.kill()
            process.wait(60)
            process.close()


WAITING = """
import signal, sys
from halohop.recipes.config import TrainConfig, read_config
from halohop.recipes.train import train
from halohop.world import World

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("waiting", flush=True)
train(read_config(TrainConfig, sys.argv[1]), world=World(rank=1, size=2))
"""


def test_a_rank_that_waits_for_the_others_ends_at_sigterm(tiny_parts: str, tmp_path: Path) -> None:
    """The script answers the signal in Python, which torch's own waiting puts off until its deadline."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    empty = store.num_keys()
    places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    process = run_script(tmp_path, WAITING, config_file(tiny_parts, tmp_path / "run", deadline_s=300.0), **places)
    try:
        assert process.stdout.readline() == "waiting\n"
        end = time.monotonic() + within(30)
        while store.num_keys() == empty:
            assert time.monotonic() < end, "it does not come to the meeting"
            threading.Event().wait(0.02)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(within(10)) == 143, process.stderr.read()
    finally:
        process.kill()
        process.wait(60)
        process.close()


@pytest.fixture
def exists(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretends that this process is a rank of a process group."""

    def make(rank: int, size: int, backend: str = "gloo") -> None:
        monkeypatch.setattr(dist, "is_initialized", lambda: True)
        monkeypatch.setattr(dist, "get_rank", lambda: rank)
        monkeypatch.setattr(dist, "get_world_size", lambda: size)
        monkeypatch.setattr(dist, "get_backend", lambda: backend)

    return make


def test_another_group_than_the_world_says_is_refused(exists: Callable[..., None]) -> None:
    exists(1, 2)
    with pytest.raises(InputError, match="rank 1 of 2, but the world says rank 0 of 2; give world=None"):
        group()


def test_a_group_that_cannot_compute_here_is_refused(exists: Callable[..., None]) -> None:
    exists(0, 2, "nccl")
    with pytest.raises(InputError, match=r"of NCCL, .* give device='cuda'"):
        group()


def test_the_world_of_a_group(exists: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment adds where the ranks are, if it means the same ranks."""
    exists(1, 2)
    assert process_group.world_of(None) == World(rank=1, size=2)
    assert process_group.world_of(World()) == World()
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert process_group.world_of(None) == World(rank=1, size=2, local_rank=1, local_size=2)
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert process_group.world_of(None) == World(rank=1, size=2)
    monkeypatch.setenv("WORLD_SIZE", "many")
    assert process_group.world_of(None) == World(rank=1, size=2)


def test_gloo_takes_the_interface_towards_the_master(quick_group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: seen.append(os.environ.get(INTERFACE)))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    monkeypatch.delenv(INTERFACE, raising=False)
    for address, expected in {"127.0.0.1": "lo", "no-such-host.invalid": None}.items():
        monkeypatch.setenv("MASTER_ADDR", address)
        group()
        assert seen.pop() == expected
        assert INTERFACE not in os.environ
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv(INTERFACE, "eth7")
    group()
    assert seen == [os.environ[INTERFACE]] == ["eth7"]


def test_others_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False).port))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    world = World(rank=1, size=2)
    with (
        pytest.raises(ClusterError, match=r"rank 1 found no process group of 2 within 0\.2 s"),
        process_group.process_group(world, CPU, 0.2),
    ):
        pass
