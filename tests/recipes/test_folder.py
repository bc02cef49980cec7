"""The folder of a run: none is lost by accident, and two runs do not write to one."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from halohop.errors import CorruptDatasetError, InputError, WriteError
from halohop.recipes.config import TrainConfig, to_dict
from halohop.recipes.events import EventLog
from halohop.recipes.folder import check_run
from halohop.recipes.train import train
from halohop.world import World


class KilledError(Exception):
    """Stands for the end of the process."""


def log(out: Path, events: list[dict[str, Any]] | None = None) -> EventLog:
    return EventLog(str(out), World(), lambda event: None if events is None else events.append(event))


@pytest.mark.parametrize("name", ["metrics.jsonl", "resume.pt", "checkpoint/model.pt"])
def test_a_run_is_not_lost_by_accident(tiny_parts: str, tmp_path: Path, name: str) -> None:
    config = TrainConfig(parts=tiny_parts, out=str(tmp_path / "run"), device="cpu")
    check_run(config)
    (tmp_path / "run" / name).parent.mkdir(parents=True)
    check_run(config) if "/" not in name else None
    (tmp_path / "run" / name).write_text("hours of work")
    message = rf"holds a run, whose {re.escape(name.split('/')[0])} would be lost; choose another .*resume=True.*overwrite=True"
    with pytest.raises(InputError, match=message):
        train(config, world=World())
    assert (tmp_path / "run" / name).read_text() == "hours of work"
    check_run(replace(config, overwrite=True))
    check_run(replace(config, resume=True))


def test_nothing_of_the_old_run_is_taken_for_the_new_ones(tiny_parts: str, tmp_path: Path) -> None:
    """Killed right after its begin, a run that overwrites has no checkpoint, rather than the other run's."""
    for name in ("metrics.jsonl", "resume.pt", "checkpoint/model.pt", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("of another run")

    def killed(event: dict[str, Any]) -> None:
        raise KilledError

    config = TrainConfig(parts=tiny_parts, out=str(tmp_path), device="cpu", workers=0, overwrite=True)
    with pytest.raises(KilledError):
        train(config, world=World(), on_event=killed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "notes.txt"]
    assert "of another run" not in (tmp_path / "metrics.jsonl").read_text()


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with log(tmp_path) as first:
        first.begin()
        first({"event": "start"})
        for other in (log(tmp_path).begin, lambda: log(tmp_path).go_on(10)):
            with pytest.raises(InputError, match=r"another run is writing .*metrics\.jsonl; wait"):
                other()
    events: list[dict[str, Any]] = []
    with log(tmp_path, events) as again:
        again.go_on(first_size := (tmp_path / "metrics.jsonl").stat().st_size)
        assert again.size == first_size
    assert events == [{"event": "start"}]


def test_a_log_on_a_full_disk_and_one_that_is_damaged(tmp_path: Path, no_more_than: Any) -> None:
    with log(tmp_path) as full, no_more_than(100):
        full.begin()
        with pytest.raises(WriteError, match=r"cannot write .*metrics\.jsonl: File too large; make room"):
            full({"event": "x" * 200})
    (tmp_path / "metrics.jsonl").write_bytes(b"[" * 200_000 + b"\n")
    with log(tmp_path) as damaged, pytest.raises(CorruptDatasetError, match=r"metrics\.jsonl cannot be read as JSON"):
        damaged.go_on(300_000)


def started(config: TrainConfig, *events: str, ranks: int = 2) -> TrainConfig:
    """Leaves the log of such a run in its folder."""
    Path(config.out).mkdir(parents=True)
    start = {"event": "start", "config": to_dict(replace(config, resume=False)), "ranks": ranks}
    lines = [json.dumps(each) + "\n" for each in (start, *({"event": event} for event in events))]
    Path(config.out, "metrics.jsonl").write_text("".join(lines))
    return config


@pytest.fixture
def auto(tmp_path: Path) -> TrainConfig:
    return TrainConfig(parts="parts", out=str(tmp_path / "run"), resume="auto")


def test_auto_starts_what_has_not_started(auto: TrainConfig) -> None:
    assert check_run(auto, 2) is False
    started(auto)
    assert check_run(auto, 2) is False
    Path(auto.out, "tables").mkdir()  # vectors are saved before the state that names them
    Path(auto.out, "checkpoint").mkdir()
    assert check_run(auto, 2) is False
    log = Path(auto.out, "metrics.jsonl")
    log.write_bytes(log.read_bytes()[:20])
    assert check_run(auto, 2) is False


def test_auto_resumes_a_run_with_a_state(auto: TrainConfig) -> None:
    started(auto, "epoch", "end")
    Path(auto.out, "resume.pt").touch()
    for config in (auto, replace(auto, overwrite=True), replace(auto, parts="elsewhere", epochs=99, cache=None)):
        assert check_run(config, 2) is True
    Path(auto.out, "metrics.jsonl").write_bytes(b"")  # the crash of a machine may take it along
    assert check_run(auto, 2) is True


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize(
    ("change", "ranks", "message"),
    [
        ({"model": "gcn"}, 2, r"model='gcn', but the run in .*run has model='auto', so it is another run; use its settings"),
        ({"fanout": (5, 4)}, 2, r"fanout=\[5, 4\], but the run in .* has fanout=\[15, 10\]"),
        ({}, 3, r"the run in .*run has 2 trainers, and here are 3, so it is another run; .*another folder.*overwrite=True"),
    ],
)
def test_auto_refuses_another_run_by_name(
    auto: TrainConfig, state: bool, change: dict[str, Any], ranks: int, message: str
) -> None:
    started(auto)
    if state:
        Path(auto.out, "resume.pt").touch()
    with pytest.raises(InputError, match=message):
        check_run(replace(auto, **change), ranks)
    assert check_run(replace(auto, **change, overwrite=True), ranks) is False


def test_auto_refuses_what_it_cannot_resume_and_would_lose(auto: TrainConfig) -> None:
    started(auto, "epoch", "end")
    with pytest.raises(
        InputError, match=r"run holds a run without resume\.pt to resume from, whose metrics\.jsonl would be lost"
    ):
        check_run(auto, 2)
    started(replace(auto, out=f"{auto.out}2"))
    model = Path(f"{auto.out}2", "checkpoint", "model.pt")
    model.parent.mkdir()
    model.touch()
    with pytest.raises(InputError, match="would be lost"):
        check_run(replace(auto, out=f"{auto.out}2"), 2)
    Path(f"{auto.out}2", "metrics.jsonl").unlink()
    with pytest.raises(InputError, match="whose checkpoint would be lost; choose another folder, or start again"):
        check_run(replace(auto, out=f"{auto.out}2"), 2)
    assert check_run(replace(auto, out=f"{auto.out}2", overwrite=True), 2) is False


def test_a_run_that_overwrites_says_whose_log_it_is_last(tmp_path: Path) -> None:
    """Killed while it removes the other run, it leaves a log of that run, not one without a run next to its state."""
    (tmp_path / "metrics.jsonl").write_text("of another run\n")

    def killed() -> None:
        raise KilledError

    with log(tmp_path) as begun, pytest.raises(KilledError):
        begun.begin(killed)
    assert (tmp_path / "metrics.jsonl").read_text() == "of another run\n"
