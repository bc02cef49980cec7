"""SIGTERM in training: it saves where it is after the next step, ends with its own exit code, and goes on as if undisturbed."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from halohop.recipes.config import TrainConfig
from halohop.recipes.names import STATE
from halohop.recipes.stopping import EXIT_RESUMABLE, ResumableStop, answering_sigterm
from halohop.recipes.train import train
from halohop.world import World
from tests.recipes.test_resume import assert_same_weights, config_for, lasting, run


def stopped(config: TrainConfig, kind: str, epoch: int, step: int | None = None) -> list[dict[str, Any]]:
    """The events of a run that gets SIGTERM at one of them."""
    events: list[dict[str, Any]] = []

    def on_event(event: dict[str, Any]) -> None:
        events.append(event)
        if (event["event"], event.get("epoch"), event.get("step")) == (kind, epoch, step):
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ResumableStop) as stop:
        train(config, world=World(), on_event=on_event, stoppable=True)
    assert stop.value.code == EXIT_RESUMABLE == 75
    assert signal.getsignal(signal.SIGTERM) == before
    return events


@pytest.fixture(scope="module")
def whole(tiny_parts: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, run(config_for(tiny_parts, out, epochs=3, dropout=0.3))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("kind", "epoch", "step", "ends_at"),
    [
        ("step", 1, 1, (1, 2)),
        ("step", 2, -1, (2, 0)),  # the last but one: it stops after the last, before the evaluation
        ("step", 2, 0, (3, 0)),  # the last: it stops when the epoch is evaluated
        ("evaluation", 1, None, (2, 0)),
    ],
)
def test_it_goes_on_as_if_undisturbed(
    tiny_parts: str, tmp_path: Path, whole: Any, kind: str, epoch: int, step: int | None, ends_at: tuple[int, int]
) -> None:
    steps = next(event["steps"] for event in whole[1] if event["event"] == "step")
    at = step if step is None or step > 0 else steps + step
    config = config_for(tiny_parts, tmp_path / "run", epochs=3, dropout=0.3)
    assert config.save_every == 0
    last = stopped(config, kind, epoch, at)[-1]
    expected = (epoch, steps) if step == -1 else ends_at
    assert (last["event"], last["epoch"], last["step"]) == ("stop", *expected)
    events = run(replace(config, resume=True))
    assert [(event["epoch"], event["step"]) for event in events if event["event"] == "resume"] == [expected]
    assert lasting(events) == lasting(whole[1])
    assert_same_weights(whole[0], tmp_path / "run")


@pytest.mark.timeout(180)
def test_one_rank_that_is_asked_stops_all_at_the_same_step(
    tiny_parts: str, tmp_path: Path, start_trainers: Any, run_trainers: Any
) -> None:
    config = config_for(tiny_parts, tmp_path / "whole", epochs=3, batch_size=50, dropout=0.3)
    undisturbed = run_trainers([config], 2)
    broken = replace(config, out=str(tmp_path / "broken"))
    with start_trainers([broken], 2) as trainers:
        for _ in range(3):
            trainers[0].wait_for("step")
        os.kill(trainers[1].process.pid, signal.SIGTERM)
        assert [trainer.wait() for trainer in trainers] == [EXIT_RESUMABLE] * 2
    assert (tmp_path / "broken" / STATE).exists()
    events = run_trainers([replace(broken, resume=True)], 2)
    assert [event["event"] for event in events].count("resume") == 1
    assert lasting(events) == lasting(undisturbed)
    assert_same_weights(tmp_path / "whole", tmp_path / "broken")


def test_the_second_request_ends_the_process_at_once() -> None:
    pid = os.fork()
    if pid == 0:
        with answering_sigterm() as asked:
            os.kill(os.getpid(), signal.SIGTERM)
            if asked():
                os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM


def test_in_another_thread_the_signal_keeps_its_effect() -> None:
    before, found = signal.getsignal(signal.SIGTERM), []

    def look() -> None:
        with answering_sigterm() as asked:
            found.append((asked(), signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(10)
    assert found == [(False, before)]
