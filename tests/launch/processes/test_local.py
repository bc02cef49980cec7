import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from halohop.cores import usable_cores
from halohop.errors import ClusterError, InputError
from halohop.launch.processes import ends, local
from halohop.launch.processes.places import world_of
from halohop.launch.terminal.signals import Resumable, Stopped
from tests.support.deadlines import within

PATIENCE_S = 100.0


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie whose parent is slow to ask counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while alive := [pid for pid in pids if not gone(pid)]:
        assert time.monotonic() < deadline, f"processes {alive} still run"
        time.sleep(0.02)


def children() -> set[int]:
    """Of this process."""
    return {int(pid) for tasks in Path("/proc/self/task").glob("*/children") for pid in tasks.read_text().split()}


def helpers(logs: Path) -> list[int]:
    """What the ranks started, by their logs."""
    lines = [line for log in logs.glob("rank-*.log") for line in log.read_text().splitlines()]
    return [int(line.split()[1]) for line in lines if line.startswith("helper ")]


def test_every_rank_gets_its_place_and_its_nodes_arguments(fake_trainer: str, tmp_path: Path) -> None:
    events: list[local.Event] = []

    def on_event(event: local.Event) -> None:
        events.append(event)
        if event["event"] == "world":
            store = dist.TCPStore(*event["store"], is_master=False, timeout=timedelta(seconds=PATIENCE_S))
            store.set("test", "")
            store.wait(["rank"])

    local.run(fake_trainer, [["report", "a"], ["report", "b"]], trainers=2, logs=tmp_path / "logs", on_event=on_event)
    assert [event["event"] for event in events] == ["world", "secret"]
    assert events[0]["arguments"] == ["report", "a"]
    assert events[0]["env"] == {
        "RANK": 0,
        "WORLD_SIZE": 4,
        "LOCAL_RANK": 0,
        "LOCAL_WORLD_SIZE": 2,
        "GROUP_RANK": 0,
        "GROUP_WORLD_SIZE": 2,
    }
    assert len(events[1]["token"]) == 64
    assert events[1]["token"] not in os.environ.values()
    logs = {log.name: log.read_text() for log in (tmp_path / "logs").iterdir()}
    assert set(logs) == {f"rank-{rank}.log" for rank in range(4)}
    assert "rank 0 was here" in logs["rank-0.log"]  # no JSON: not an event, but not lost either
    assert '"GROUP_RANK": 1' in logs["rank-3.log"]
    assert '["report", "b"]' in logs["rank-2.log"]
    if len(cores := usable_cores()) >= 2:
        lines = [line for _, log in sorted(logs.items()) for line in log.splitlines()]
        found = [events[0]["cores"], *(json.loads(line)["cores"] for line in lines if '"cores"' in line)]
        assert found == [found[0], found[0], found[2], found[2]]
        assert found[0] + found[2] == cores


def test_ranks_share_the_cores_that_their_launcher_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of the machine: a container may have few of many."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(local, "usable_cores", lambda: [3, 4, 5, 6, 7, 9])
    for size, threads in ((2, "3"), (4, "1"), (16, "1")):
        with local._meeting_place(size, {}) as (env, _):
            assert env["OMP_NUM_THREADS"] == threads


def test_an_error_of_the_users_reaches_them_as_it_is(fake_trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "SETTLE_S", 0.1)
    with pytest.raises(InputError, match=r"^lr=0 must be over 0$"):
        local.run(fake_trainer, [["refuse", "1"]] * 2, trainers=1, logs=tmp_path)
    assert "Traceback" in (tmp_path / "rank-1.log").read_text()


def test_ranks_that_all_saved_end_the_run_with_their_code(fake_trainer: str, tmp_path: Path) -> None:
    with pytest.raises(Resumable) as stop:
        local.run(fake_trainer, [["save", "0", "1"]] * 2, trainers=1, logs=tmp_path)
    assert stop.value.code == 75


def test_a_rank_that_fails_counts_more_than_one_that_saved(
    fake_trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "SETTLE_S", 0.1)
    with pytest.raises(ClusterError, match=r"rank 1 .* failed with exit code 1"):
        local.run(fake_trainer, [["save", "0", "fail"]] * 2, trainers=1, logs=tmp_path)


def test_a_launcher_that_is_asked_to_end_asks_its_ranks(fake_trainer: str, tmp_path: Path) -> None:
    def stop(event: local.Event) -> None:
        raise Stopped(128 + signal.SIGTERM)

    with pytest.raises(Resumable):
        local.run(fake_trainer, [["save"]] * 2, trainers=1, logs=tmp_path, on_event=stop)


def test_old_logs_go(fake_trainer: str, tmp_path: Path) -> None:
    (tmp_path / "rank-7.log").write_text("of another run")
    local.run(fake_trainer, [["report"]], trainers=1, logs=tmp_path)
    assert [path.name for path in tmp_path.glob("*.log")] == ["rank-0.log"]


def test_a_failure_names_the_rank_and_shows_its_last_words(
    fake_trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "SETTLE_S", 0.1)
    with pytest.raises(ClusterError, match=r"rank 1 \(node 1, process \d+\) failed with exit code 1") as caught:
        local.run(fake_trainer, [["fail", "1"]] * 2, trainers=1, logs=tmp_path / "logs")
    assert "LookupError: no such luck" in str(caught.value)
    assert "line 39" in str(caught.value)
    assert "line 3\n" not in str(caught.value)
    assert "then the launcher ended rank 0" in str(caught.value)


def test_a_killed_rank_is_named_and_nothing_stays(fake_trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "SETTLE_S", 0.1)
    before = children()
    with pytest.raises(ClusterError, match=r"rank 1 \(node 0, process \d+\) was killed by SIGKILL"):
        local.run(fake_trainer, [["wait", "1"]], trainers=2, logs=tmp_path)
    assert children() == before  # at once: whoever called may start the next run in the same folder
    assert len(helpers(tmp_path)) == 2
    wait_until_gone(helpers(tmp_path))


def test_who_was_killed_is_to_blame_though_others_failed_first(fake_trainer: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"^rank 1 \(.*\) was killed by SIGKILL") as caught:
        local.run(fake_trainer, [["blame"]] * 2, trainers=1, logs=tmp_path)
    assert re.search(r"then rank 0 \(.*\) failed with exit code 1: lost my peer", str(caught.value))


@pytest.mark.parametrize(
    ("nodes", "trainers", "gpus", "visible", "expected"),
    [
        (2, 1, 2, None, ["0", "1"]),
        (2, 2, 4, None, ["0,1", "0,1", "2,3", "2,3"]),
        (2, 1, 3, "5,GPU-abc,7", ["5", "GPU-abc"]),
        (1, 2, 2, "1,0", ["1,0", "1,0"]),
        (2, 2, 3, None, [None] * 4),
        (1, 1, 0, None, [None]),
    ],
)
def test_simulated_nodes_do_not_share_gpus(
    nodes: int, trainers: int, gpus: int, visible: str | None, expected: list[str | None]
) -> None:
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    worlds = [world_of(rank, nodes, trainers) for rank in range(nodes * trainers)]
    assert [local.node_gpus(world, env, gpus).get("CUDA_VISIBLE_DEVICES") for world in worlds] == expected


@pytest.mark.parametrize(
    ("nodes", "trainers", "cores", "expected"),
    [
        (2, 1, [0, 1], ["0", "1"]),
        (2, 2, [1, 3, 5, 7, 9], ["1,3", "1,3", "5,7,9", "5,7,9"]),
        (3, 1, [0, 1], [None] * 3),
        (1, 2, [0, 1], [None] * 2),
    ],
)
def test_simulated_nodes_do_not_share_cores(nodes: int, trainers: int, cores: list[int], expected: list[str | None]) -> None:
    worlds = [world_of(rank, nodes, trainers) for rank in range(nodes * trainers)]
    assert [local.node_cores(world, cores).get("HALOHOP_CORES") for world in worlds] == expected


def test_those_who_ignore_the_request_to_end_are_killed(fake_trainer: str, tmp_path: Path) -> None:
    before, since = children(), []

    def give_up(event: local.Event) -> None:
        if event["event"] == "deaf":
            since.append(time.monotonic())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        local.run(fake_trainer, [["wait", "deaf"]] * 2, trainers=1, logs=tmp_path, on_event=give_up)
    assert time.monotonic() - since[0] < within(5)
    assert children() == before
    wait_until_gone(helpers(tmp_path))


def test_those_who_stay_after_the_others_ended_are_named(fake_trainer: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"rank 1 \(node 1, process \d+\) did not end within 0.1 s after the others"):
        local.run(fake_trainer, [["straggle"]] * 2, trainers=1, logs=tmp_path, linger=0.1)


LAUNCHER = """
import sys
from pathlib import Path
from halohop.launch.processes import local
local.run("fake_trainer", [["wait"]] * 2, trainers=1, logs=Path(sys.argv[1]), on_event=lambda e: print(e["pid"], flush=True))
"""


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.full
def test_when_the_launcher_ends_so_does_everything(fake_trainer: str, tmp_path: Path, kind: signal.Signals) -> None:
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path / "logs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as launcher:
        assert launcher.stdout is not None
        trainer = int(launcher.stdout.readline())
        started = [trainer, *helpers(tmp_path / "logs")]
        launcher.send_signal(kind)
        launcher.wait(PATIENCE_S)
    assert len(started) == 3
    wait_until_gone(started)


def test_somebody_must_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 nodes x 1 trainers"):
        local.run("nothing", [], trainers=1, logs=tmp_path)
    with pytest.raises(InputError, match="1 nodes x 0 trainers"):
        local.run("nothing", [[]], trainers=0, logs=tmp_path)
