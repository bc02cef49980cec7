"""Calls of an actor, with one that is an object of this process; with real ones: test_contract.py."""

from types import SimpleNamespace
from typing import Any

import pytest

from halohop.launch.jobs.ray import runner
from halohop.launch.jobs.ray.runner import GROUPS, ActorCalls


class Handle:
    """A handle of an actor that notes its calls, in groups of threads that it has."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, tuple[object, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def options(concurrency_group: str) -> Any:
            assert concurrency_group in GROUPS
            return SimpleNamespace(remote=lambda *arguments: self.calls.append((name, concurrency_group, arguments)))

        return SimpleNamespace(options=options)


def test_each_stream_has_a_thread_of_the_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads and writes stay in order, and none waits for another stream."""
    killed: list[object] = []
    library = SimpleNamespace(get=lambda found: found, kill=killed.append, exceptions=SimpleNamespace(RayError=OSError))
    monkeypatch.setattr(runner, "ray_library", lambda: library)
    handle = Handle()
    far = ActorCalls(handle)
    far.start()
    far.write(b"data")
    far.read("stdout")
    far.read("stderr")
    far.wait()
    assert [(name, group) for name, group, _ in handle.calls] == [
        ("start", "stdin"),
        ("write", "stdin"),
        ("read", "stdout"),
        ("read", "stderr"),
        ("wait", "stdout"),
    ]
    assert (handle.calls[1][2], handle.calls[2][2]) == ((b"data",), ("stdout",))
    far.kill()
    assert (killed, far.lost) == ([handle], OSError)
