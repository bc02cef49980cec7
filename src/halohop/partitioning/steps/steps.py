"""A build as numbered steps in a folder, so that it may be stopped anywhere, goes on, and is shared by threads and hosts.

    OUT.build/plan.json                what is built; a worker with another plan is refused
    OUT.build/workers/BOOT-RANDOM      who is at work, see `halohop.partitioning.steps.workers`
    OUT.build/steps/00-count/00007     step 7 of the stage "count" is done, and this is what it returned (JSON)
    OUT.build/steps/00-count/00007.claim-0, 00007.failed-WORKER

Steps of a stage may run in any order, all at once, and on any host; a stage begins when the one before it is done. Files are
their only state. A step that was killed is run again, so it writes whole files, or the same bytes to the same places, through to
the disk; when it returns, its result is written, and it is done for ever.
"""

import platform
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from halohop.errors import InputError, RemoteError, WriteError
from halohop.files.aside import discard, writing
from halohop.files.private import refuse_links
from halohop.files.reading import decode_json, read_regular
from halohop.files.whole import sync_folder, write_file
from halohop.partitioning.steps.work_folder import agree
from halohop.partitioning.steps.workers import Worker, gone, last_claims
from halohop.typing import OnProgress

_FAILED = re.compile(r"\d+\.failed-\w+-\w+")  # and not one that is being written

POLL_S = 0.25
"""Seconds between two looks at what other processes have done."""
REPORT_S = 0.2
"""Seconds between two reports of progress."""


class StepProgress:
    """What a step reports itself to: how much of it is done. Call it every second or so: there a run that is stopped ends."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self.done = 0

    def __call__(self, done: int) -> None:
        """Of the step's size, how much is done."""
        self.done = done
        if self._stopping.is_set():
            raise _StoppedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A piece of work whose only effects are files.

    Args:
        name: what it does, for errors.
        run: does it, once or several times; returns what later stages need to know, as numbers, texts, lists and dicts of them.
        size: how much work it is, in any unit that the whole stage counts in: rows, bytes.
    """

    name: str
    run: Callable[[StepProgress], Any]
    size: int = 1


class Steps:
    """The steps of a build in its folder; a context manager, in whose block each process runs the same stages one after another.

    Where the block ends well, the folder is removed, by the last of the processes at work. Where it ends with an error it stays,
    and the next run goes on there; after an `InputError` nothing in it would be of use, and it is removed, too.

    Args:
        folder: for plan, steps and whatever files steps need meanwhile; beside the result, under a name that follows from it.
        plan: what is built: everything that the bytes of the result depend on, as JSON.
        threads: how many steps this process runs at a time; may be changed between two stages.
        progress: called in the caller's thread with the stage, how much of it is done in all processes, and its size.

    Raises:
        InputError: in the folder something else is being built.
        WriteError: it cannot be written to.

    Example:
        >>> def square(number: int) -> Callable[[StepProgress], int]:
        ...     return lambda progress: number * number
        >>> with Steps(Path("squares.build"), {"up to": 3}, threads=2) as steps:
        ...     steps.run("square", [Step(name=f"square {number}", run=square(number)) for number in range(4)])
        [0, 1, 4, 9]
    """

    def __init__(
        self, folder: Path, plan: Mapping[str, Any], *, threads: int = 1, progress: OnProgress = lambda stage, done, total: None
    ) -> None:
        assert threads > 0, f"{threads} threads"
        self.folder = folder
        self.threads, self._plan, self._progress = threads, plan, progress
        self._stages, self._exit = 0, ExitStack()

    def __enter__(self) -> Self:
        agree(self.folder, self._plan)
        refuse_links(self.folder, but="*.claim-*")
        with ExitStack() as stack:
            try:
                self._worker = stack.enter_context(Worker(self.folder / "workers"))
            except FileNotFoundError as error:
                raise gone(self.folder) from error
            self._exit = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._exit.close()
        finished = kind is None or issubclass(kind, InputError)
        if finished and not self._worker.others():
            discard(self.folder)

    def run(self, stage: str, steps: Sequence[Step]) -> list[Any]:
        """Runs the next stage; returns what each step returned, here or in another process.

        Raises:
            RemoteError: a step failed in another process; carries its traceback. Here it raises what the step raised.
            ClusterError: the folder is gone.
        """
        place = self.folder / "steps" / f"{self._stages:02d}-{stage}"
        self._stages += 1
        with writing(place):
            place.mkdir(exist_ok=True)
        sync_folder(place.parent)
        running = _Stage(place, steps, self._worker)
        size = sum(step.size for step in steps)
        self._progress(stage, running.size_done(), size)
        with ThreadPoolExecutor(self.threads, thread_name_prefix=f"halohop {stage}") as pool:
            waiting = {pool.submit(running.work) for _ in range(self.threads)}
            try:
                failed = False
                while waiting and not failed:
                    finished, waiting = wait(waiting, REPORT_S, FIRST_EXCEPTION)
                    failed = any(future.exception() for future in finished)
                    if not failed:
                        self._progress(stage, min(running.size_done(), size), size)
            finally:
                running.stop()
        running.check()
        return running.results()


class _Stage:
    """The steps of one stage, as the threads of this process share them."""

    def __init__(self, place: Path, steps: Sequence[Step], worker: Worker) -> None:
        self._place, self._steps, self._worker = place, steps, worker
        self._stopping, self._changed = threading.Event(), threading.Condition()
        self._running: dict[int, StepProgress] = {}
        self._done: set[int] = set()
        self._old_failures = set(_failures(path.name for path in place.iterdir()))
        self._failure: BaseException | None = None
        self._look()

    def work(self) -> None:
        """Runs steps until none is left to begin with; of each thread."""
        try:
            while (number := self._next()) is not None:
                self._run(number)
        except _StoppedError:
            pass
        except BaseException as error:
            with self._changed:
                self._failure = self._failure or error
            raise
        finally:
            with self._changed:
                self._changed.notify_all()

    def stop(self) -> None:
        """Ends the threads where they next report."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def check(self) -> None:
        """Raises the first failure."""
        if self._failure is not None:
            raise self._failure

    def size_done(self) -> int:
        with self._changed:
            return sum(self._steps[number].size for number in self._done) + sum(
                min(progress.done, self._steps[number].size) for number, progress in self._running.items()
            )

    def results(self) -> list[Any]:
        found = []
        for number, step in enumerate(self._steps):
            done: _Done = decode_json(read_regular(self._file(number)), self._file(number), _Done)
            assert done.name == step.name, f"{self._file(number)} is of {done.name!r}, not of {step.name!r}"
            found.append(done.result)
        return found

    def _next(self) -> int | None:
        """A step that is this thread's now; None where the others are done or running in this process."""
        with self._changed:
            while True:
                if self._stopping.is_set():
                    raise _StoppedError
                self._worker.check()
                claims = self._look()
                pending = [number for number in range(len(self._steps)) if number not in self._done | self._running.keys()]
                for number in pending:
                    if not self._worker.claim(self._file(number), claims.get(self._file(number).name, -1)):
                        continue
                    if self._file(number).exists():  # its owner was gone because all was done
                        self._done.add(number)
                        continue
                    self._running[number] = StepProgress(self._stopping)
                    return number
                if not set(pending) - self._done:
                    return None
                # Processes on several hosts share only the folder, and file systems over a network send no notice of changes:
                # so it is read again, until the others' steps are done or their heartbeats have ended.
                self._changed.wait(POLL_S)

    def _look(self) -> dict[str, int]:
        """Takes note of what is done, and returns the last claim of each step.

        Raises:
            RemoteError: a step has failed elsewhere since this run began.
        """
        try:
            names = [path.name for path in self._place.iterdir()]
        except FileNotFoundError as error:
            raise gone(self._place) from error
        self._done |= {int(name) for name in names if name.isdecimal()}
        for name in set(_failures(names)) - self._old_failures:
            failure: _Failure = decode_json(read_regular(self._place / name), self._place / name, _Failure)
            raise RemoteError(f"{failure.step} failed on {failure.host}: {failure.message}", failure.traceback)
        return last_claims(names)

    def _run(self, number: int) -> None:
        step, file = self._steps[number], self._file(number)
        try:
            result = step.run(self._running[number])
            if self._worker.owns(file):  # else another worker took this one for gone, and does the same
                write_file(file, msgspec.json.encode(_Done(name=step.name, result=result)))
        except _StoppedError:
            raise
        except Exception as error:
            if not self._place.exists():
                raise gone(self._place) from error
            self._report(file, step, error)
            raise
        finally:
            with self._changed:
                del self._running[number]
                self._changed.notify_all()

    def _report(self, file: Path, step: Step, error: Exception) -> None:
        """Lets the other workers know of a failure, by which they fail, too."""
        message, story = f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
        record = _Failure(step=step.name, host=platform.node(), message=message, traceback=story)
        path = file.with_name(f"{file.name}.failed-{self._worker.name}")
        self._old_failures.add(path.name)
        with suppress(WriteError):  # a full disk, on which they will fail by themselves
            write_file(path, msgspec.json.encode(record))

    def _file(self, number: int) -> Path:
        return self._place / f"{number:05d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    name: str
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    step: str
    host: str
    message: str
    traceback: str


class _StoppedError(Exception):
    """Ends a thread whose run has ended otherwise."""


def _failures(names: Iterable[str]) -> list[str]:
    return [name for name in names if _FAILED.fullmatch(name)]
