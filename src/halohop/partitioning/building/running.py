"""Where a build's steps run and where its state is: in this process alone, or in a folder that others share."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import torch
from torch import Tensor

from halohop.partitioning.steps.steps import Step, StepProgress, Steps
from halohop.store.npy import ArrayFile, read_rows
from halohop.typing import OnProgress


class Runner(Protocol):
    """Runs the stages of a build, and keeps arrays from one to the next."""

    def run(self, stage: str, steps: Sequence[Step]) -> list[Any]:
        """What each step returned; the next stage may begin."""
        ...

    def save(self, name: str, array: Tensor) -> None:
        """Keeps an array under a name; called in a step, perhaps again with the same array."""
        ...

    def load(self, name: str, dtype: torch.dtype, length: int) -> Tensor:
        """An array that a step of an earlier stage saved."""
        ...


class HereAlone:
    """All in this process: what it has done is lost with it.

    Args:
        threads: how many steps run at a time.
        progress: called with the stage, how much of it is done, and its size.
    """

    def __init__(self, threads: int, progress: OnProgress) -> None:
        self._threads, self._progress = threads, progress
        self._arrays: dict[str, Tensor] = {}

    def run(self, stage: str, steps: Sequence[Step]) -> list[Any]:
        done, size, stopping = 0, sum(step.size for step in steps), Event()
        self._progress(stage, 0, size)
        if len(steps) < 2 or self._threads < 2:
            results = []
            for step in steps:
                results.append(step.run(StepProgress(stopping)))
                done += step.size
                self._progress(stage, done, size)
            return results
        with ThreadPoolExecutor(self._threads, thread_name_prefix=f"halohop {stage}") as pool:
            futures = {pool.submit(step.run, StepProgress(stopping)): step for step in steps}
            try:
                for future in as_completed(futures):
                    future.result()
                    done += futures[future].size
                    self._progress(stage, done, size)
            finally:
                stopping.set()
                for future in futures:
                    future.cancel()
        return [future.result() for future in futures]

    def save(self, name: str, array: Tensor) -> None:
        self._arrays[name] = array

    def load(self, name: str, dtype: torch.dtype, length: int) -> Tensor:
        return self._arrays[name]


class InFolder:
    """In a folder of `Steps`, which several processes may share and where a build that was killed goes on."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def run(self, stage: str, steps: Sequence[Step]) -> list[Any]:
        return self._steps.run(stage, steps)

    def save(self, name: str, array: Tensor) -> None:
        with ArrayFile.provided(self._file(name), array.dtype, tuple(array.shape)) as file:
            file.write(0, array)
            file.drop()
            file.sync()

    def load(self, name: str, dtype: torch.dtype, length: int) -> Tensor:
        found = torch.empty(length, dtype=dtype)
        read_rows(self._file(name), (length,), 0, found)
        return found

    def _file(self, name: str) -> Path:
        return self._steps.folder / "arrays" / f"{name}.npy"


def step(name: str, run: Callable[..., Any], *given: Any, size: int = 1) -> Step:
    """A step that calls a function with these arguments and then with its `StepProgress`."""
    return Step(name=name, run=lambda progress: run(*given, progress), size=size)
