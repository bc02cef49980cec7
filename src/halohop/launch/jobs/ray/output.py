"""What servers and trainers print, on whichever node: Ray brings it to the driver, which writes it to the run folder."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from halohop.errors import WriteError
from halohop.launch.jobs.ray.library import ray_library
from halohop.launch.jobs.ray.registry import Member
from halohop.launch.processes.failures import TAIL_LINES

_HANDLER = "halohop"


class Output:
    """Lines of all processes, in files ``HOST-NAME.log``; one process's lines stay in order.

    Args:
        folder: of the files; it is made.
        verbose: show the lines of all processes, with their names; else those of rank 0.
    """

    def __init__(self, folder: Path, *, verbose: bool) -> None:
        self._folder = folder
        self._verbose = verbose
        self._lines: SimpleQueue[dict[str, Any]] = SimpleQueue()

    @contextmanager
    def received(self) -> Iterator[None]:
        """Takes what Ray sends to this driver, in the place of Ray, which would print it all."""
        dispatcher = ray_library("ray._private.ray_logging").global_worker_stdstream_dispatcher
        dispatcher.remove_handler("ray_print_logs")
        dispatcher.add_handler(_HANDLER, self._lines.put)
        try:
            yield
        finally:
            dispatcher.remove_handler(_HANDLER)

    def write(self, members: Iterable[Member]) -> bool:
        """Writes what has come since the last call; whether something has.

        Raises:
            WriteError: a file cannot be written; names it.
        """
        has_come = False
        known = {(member.ip, str(member.pid)): member for member in members}
        while True:
            try:
                said = self._lines.get_nowait()
            except Empty:
                return has_come
            if not said["job"]:  # of Ray itself
                continue
            has_come = True
            member = known.get((said["ip"], str(said["pid"])))
            name = member.name if member else said["actor_name"] or f"process-{said['pid']}"
            host = member.host if member else said["ip"]
            self._append(self.file(host, name), said["lines"])
            self._show(host, name, said["lines"], is_error=said["is_err"])

    def file(self, host: str, name: str) -> Path:
        """The log of a process."""
        return self._folder / f"{host}-{name}.log"

    def tail(self, member: Member) -> str:
        """The end of a process's log, for errors."""
        file = self.file(member.host, member.name)
        lines = file.read_text(errors="replace").splitlines()[-TAIL_LINES:] if file.is_file() else []
        return f"the end of {file}:\n" + ("\n".join(f"    {line}" for line in lines) or "    (it printed nothing)")

    def _show(self, host: str, name: str, lines: list[str], *, is_error: bool) -> None:
        if not self._verbose and name != "rank-0":
            return
        prefix = f"[{host} {name}] " if self._verbose else ""
        stream = sys.stderr if self._verbose or is_error else sys.stdout
        stream.writelines(f"{prefix}{line}\n" for line in lines)
        stream.flush()

    def _append(self, file: Path, lines: list[str]) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as stream:
                stream.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            raise WriteError.of(file, error) from error
