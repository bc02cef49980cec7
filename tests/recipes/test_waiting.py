"""Trainers that are held up on purpose are told by what."""

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import halohop
from halohop.launch.terminal.progress import TrainingDisplay
from halohop.recipes.config import TrainConfig
from halohop.recipes.node_task import NodeTask
from halohop.recipes.train import train
from halohop.recipes.waiting import Reason, Watch, worst
from halohop.testing.worlds import TOKEN
from halohop.world import World


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def slowed(batch: Any) -> Any:
    pause(1.0)  # more than the steps of a tiny model take, however busy the machine is
    return batch


def test_a_slow_transform_is_told_in_the_log(tiny_parts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = NodeTask.loader

    def slow_loader(task: NodeTask, split: str) -> halohop.NeighborLoader:
        loader = made(task, split)
        loader.transform = slowed if split == "train" else None
        return loader

    monkeypatch.setattr(NodeTask, "loader", slow_loader)
    events: list[dict[str, Any]] = []
    config = TrainConfig(parts=tiny_parts, out=str(tmp_path), fanout=(3, 3), epochs=2, batch_size=300, workers=1, device="cpu")
    train(config, world=World(), on_event=events.append)
    told = [event["held_up"] for event in events if event["event"] == "epoch" and event["held_up"]][-1]
    assert (told["rank"], told["stage"], told["peer"]) == (0, "convert", None)
    assert told["each"] >= 1.0
    assert told["spent"] >= 2
    assert told["share"] > 0.5
    console = Console(record=True, width=300, file=(tmp_path / "shown").open("w"))
    with TrainingDisplay(console, epochs=2) as display:
        for event in events:
            display(event)
    console.file.close()
    line = [line for line in (tmp_path / "shown").read_text().splitlines() if "waited" in line][-1]
    assert "made in convert" in line
    assert "transform" in line


def test_a_slow_peer_is_told_by_name(tiny_parts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(halohop.serve(tiny_parts, partitions=[part], token=TOKEN)) for part in (0, 1)]
        addresses = [server.address for server in servers]
        graph = stack.enter_context(halohop.connect(addresses, token=TOKEN, sampling="client"))
        loader = halohop.NeighborLoader(graph, [3, 3], "train", batch_size=150, num_workers=1)
        list(loader)  # kernels are loaded: on a busy machine that takes longer than all that is slow here
        answer, slow = servers[1]._service._router.answer, []

        def slow_answer(request: Any) -> Any:
            slow.append(request)
            pause(0.5)
            return answer(request)

        monkeypatch.setattr(servers[1]._service._router, "answer", slow_answer)
        watch = Watch(loader)
        before = loader.statistics()["wait_seconds"]
        list(loader)
        reason = watch.reason(loader.statistics()["wait_seconds"] - before + 0.01)
    assert reason is not None
    assert (reason.stage, reason.peer) == ("peer", "server 1")
    assert reason.spent >= 0.5 * len(slow) > 0
    assert reason.each > 0.05  # a call of another kind may be among them
    assert "asked of server 1" in reason.line
    assert "whether server 1 or the network to it is busy" in reason.line


class Waited:
    """A loader whose trainer has waited for so many seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def statistics(self) -> dict[str, float]:
        return {"wait_seconds": self.seconds, "make_seconds": self.seconds, "batches": self.seconds}

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        return {}


@pytest.mark.parametrize(("waited", "seconds", "told"), [(2, 5, False), (3, 5, True), (0.9, 0.9, False), (1, 1, True)])
def test_long_waits_are_told_and_others_are_not(waited: float, seconds: float, told: bool) -> None:
    loader = Waited()
    watch = Watch(loader)  # type: ignore[arg-type]
    loader.seconds = waited
    assert (watch.reason(seconds) is not None) == told


def test_without_a_reason_there_is_none_over_all_ranks() -> None:
    assert worst(None, torch.device("cpu"), World()) is None


def test_the_rank_that_waited_longest_counts() -> None:
    known = {"seconds": 4.0, "stage": "gather", "peer": None, "spent": 1.0, "share": 0.5, "each": 0.1, "hint": "none"}
    reason = Reason(rank=0, waited=3.0, **known)
    assert worst(reason, torch.device("cpu"), World()) == reason
