"""Processes that serve others: ended when these have, and not missed where others stand in for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from halohop.errors import ClusterError
from halohop.launch.processes import ends, local
from halohop.launch.processes.ends import Member
from halohop.launch.processes.tasks import Task

FAILS = "import os, pathlib, sys\npathlib.Path(sys.argv[1], 'failing').write_text(str(os.getpid()))\nsys.exit('no such luck')"
SERVES = "import pathlib, sys, time\npathlib.Path(sys.argv[1], 'here').touch()\ntime.sleep(600)"
WAITS = """
import pathlib, sys, time
begin = time.monotonic()
while not pathlib.Path(sys.argv[1], "here").exists() and time.monotonic() - begin < 30:
    time.sleep(0.01)
if (failing := pathlib.Path(sys.argv[1], "failing")).exists():
    while pathlib.Path("/proc", failing.read_text()).exists():
        time.sleep(0.01)
    time.sleep(0.3)
print("served", pathlib.Path(sys.argv[1], "here").exists(), flush=True)
"""


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., Task]:
    """A task that runs some code."""

    def make(name: str, code: str, **given: bool) -> Task:
        script = tmp_path / f"{name}.py"
        script.write_text(code)
        log = tmp_path / "logs" / f"{name}.log"
        return Task(
            name=name.replace("-", " "), place="here", argv=(str(script), str(tmp_path)), env={}, log=log, member=Member(**given)
        )

    return make


def run(tasks: Sequence[Task], logs: Path) -> None:
    def tasks_in(env: Mapping[str, str]) -> list[Task]:
        return [replace(each, env=env) for each in tasks]

    local.run_tasks(tasks_in, 1, secret={}, logs=logs, linger=None)


@pytest.mark.timeout(60)
def test_a_server_is_ended_when_the_others_have(task: Callable[..., Task], tmp_path: Path) -> None:
    run([task("server-0", SERVES, stays=True), task("rank-0", WAITS)], tmp_path / "logs")
    assert (tmp_path / "logs" / "rank-0.log").read_text() == "served True\n"
    assert not [*(tmp_path / "logs").glob("*.json")]


@pytest.mark.timeout(60)
def test_a_server_that_fails_is_missed_unless_others_stand_in_for_it(
    task: Callable[..., Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "SETTLE_S", 0.1)
    stays = {"stays": True}
    with pytest.raises(ClusterError, match=r"(?s)server 0 \(here, process \d+\) failed with exit code 1.*no such luck"):
        run([task("server-0", FAILS, **stays), task("rank-0", WAITS)], tmp_path / "logs")
    tasks = [task("server-0", FAILS, spare=True, **stays), task("server-1", SERVES, spare=True, **stays), task("rank-0", WAITS)]
    run(tasks, tmp_path / "logs")
    assert (tmp_path / "logs" / "rank-0.log").read_text() == "served True\n"
