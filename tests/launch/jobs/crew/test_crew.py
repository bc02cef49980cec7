"""What several hosts do at the same time, without anything behind them."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from halohop.errors import ClusterError, InputError
from halohop.launch.jobs.crew import crew as module
from halohop.launch.jobs.crew.crew import Crew
from halohop.launch.jobs.slurm.srun import Srun


def crew_of(**idle: float) -> Crew:
    crew = Crew([], Srun())
    crew.remotes = {name: SimpleNamespace(host=SimpleNamespace(name=name), idle_s=seconds) for name, seconds in idle.items()}  # type: ignore[misc]
    return crew


def test_all_hosts_that_cannot_run_a_job_are_named_in_one_error() -> None:
    def work(remote: Any) -> None:
        raise InputError(f"has no {remote.host.name}")

    with pytest.raises(InputError) as failed:
        crew_of(a=0, b=0).together(work, patience=60)
    assert str(failed.value).splitlines() == ["2 of 2 hosts cannot run this job:", "  a has no a", "  b has no b"]


def test_a_host_that_lives_and_gets_on_with_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its storage hangs, as a dead file server's, and one of its threads still says that it is alive."""
    monkeypatch.setattr(module, "BEAT_S", 0.01)
    over = threading.Event()

    def work(remote: Any) -> str:
        if remote.host.name == "b":
            over.wait()
        return "done"

    crew = crew_of(a=-1, b=module.STUCK_S + 1)
    try:
        with pytest.raises(ClusterError, match=r"^host b is connected, but has made no progress for 180 s; check its storage"):
            crew.together(work)
        crew.remotes["b"].idle_s = module.STUCK_S - 1  # type: ignore[misc]
        over.set()
        assert crew.together(work) == {"a": "done", "b": "done"}
    finally:
        over.set()
