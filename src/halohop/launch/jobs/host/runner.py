"""What runs on a host while a job lasts: checks an order, takes data, starts processes, passes on what they print.

The launcher's end of the connection is its lifeline. Where that is closed, or silent, everything that was started here ends.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn, TypeVar

from halohop.alive import REPORT_FILE
from halohop.cores import usable_cores
from halohop.errors import ClusterError, HalohopError, PeerLostError, ProtocolError
from halohop.interfaces import GLOO_INTERFACE, interface_towards
from halohop.launch.jobs.host import copying
from halohop.launch.jobs.host.channel import Channel
from halohop.launch.jobs.host.descendants import end_all
from halohop.launch.jobs.host.lacking import checked_in_time, hello
from halohop.launch.jobs.host.messages import (
    MARK,
    Beat,
    Begin,
    Bring,
    Brought,
    Compare,
    Ended,
    Order,
    Output,
    Piece,
    Program,
    Started,
    Stop,
    Trouble,
    Wanted,
)
from halohop.launch.processes.failures import spelled_report
from halohop.launch.processes.places import THREADS
from halohop.launch.processes.stalls import Stalls
from halohop.linux import memory_file

_READ = 1 << 16
_LAST_S = 1.0
"""Seconds that the last output of a process that has ended may take: another process may keep the pipe open."""
_UNDO_S = 0.5
"""Seconds that the main thread has to remove what it has half written, before it is ended where it stands."""
_AHEAD = 8
_NOT_STARTED = 127
"""Exit code of a process that could not be started, as shells have it."""

Kind = TypeVar("Kind")


class Runner:
    """Answers one launcher.

    Args:
        channel: to it.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._inbox: queue.Queue[object] = queue.Queue(_AHEAD)
        self._gone, self._ending = threading.Event(), threading.Event()
        self._attending: list[threading.Thread] = []
        self._running: dict[str, int] = {}
        self._order: Order | None = None
        self._work, self._must_end = 0, False
        self._stalls = Stalls(None)

    def run(self) -> NoReturn:
        """Until the launcher is gone.

        Raises:
            PeerLostError: then.
        """
        self._channel.send(hello())
        self._channel.beat(lambda: Beat(work=self._work, must_end=self._must_end))
        threading.Thread(target=self._read, name="halohop-launcher", daemon=True).start()
        self._order = self._take(Order)
        self._stalls = Stalls(self._order.stall).__enter__()  # as long as this process
        self._channel.send(checked_in_time(self._order))
        while True:
            try:
                self._answer(self._next())
            except PeerLostError:
                raise
            except (HalohopError, OSError) as error:  # OSError: a result file that cannot be read
                self._channel.send(Trouble(text=str(error)))

    def ask(self) -> None:
        """Tells the launcher that this host must end; it sees to it that the ranks of all hosts save where they stand."""
        self._must_end = True
        self._channel.hurry()

    def end(self, code: int) -> NoReturn:
        """Ends all that was started, passes on what it still prints, and ends this process."""
        self._ending.set()
        end_all()
        deadline = time.monotonic() + _LAST_S
        for thread in self._attending:
            thread.join(max(deadline - time.monotonic(), 0))
        os._exit(code)

    def _read(self) -> None:
        """Runs in a thread, so that the end of the launcher is seen whatever is under way."""
        code = 0
        try:
            while True:
                self._inbox.put(self._channel.receive())
        except PeerLostError:
            self._gone.set()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        with suppress(queue.Full):
            self._inbox.put_nowait(None)
        if not self._ending.wait(_UNDO_S):  # else the main thread removes what it has half written, and ends
            self.end(code)

    def _next(self) -> object:
        message = self._inbox.get()
        if self._gone.is_set():
            raise PeerLostError("the launcher is gone")
        return message

    def _take(self, kind: type[Kind]) -> Kind:
        message = self._next()
        if not isinstance(message, kind):
            raise ProtocolError(f"the launcher sent {type(message).__name__} where {kind.__name__} was expected")
        return message

    def _answer(self, message: object) -> None:
        assert self._order is not None
        if isinstance(message, Begin):
            self._begin(next(program for program in self._order.programs if program.name == message.name))
        elif isinstance(message, Stop):
            with suppress(KeyError, ProcessLookupError):  # it has ended
                os.kill(self._running[message.name], signal.SIGTERM)  # not what it has started: it ends that itself
        elif isinstance(message, Compare):
            copied = self._order.copied[message.number]
            missing = copying.wanted(copied, self._count)
            self._channel.send(Wanted(files=missing))
            copying.write(copied, missing, lambda: self._take(Piece), self._count)
            if missing:
                self._channel.send(Wanted(files=()))
        elif isinstance(message, Bring):
            for piece in copying.pieces(Path(message.folder)):
                self._channel.send(piece)
            self._channel.send(Brought())
        elif not isinstance(message, Piece):  # the rest of a file that could not be written
            raise ProtocolError(f"the launcher sent {type(message).__name__}, which asks for nothing")

    def _count(self, more: int) -> None:
        self._work += more

    def _begin(self, program: Program) -> None:
        assert self._order is not None
        interface = interface_towards(self._order.master)
        polite = {"PYTHONUNBUFFERED": "1"} | ({} if interface is None else {GLOO_INTERFACE: interface})
        if program.sharers > 1:  # what the user has set counts
            polite[THREADS] = str(max(len(usable_cores()) // program.sharers, 1))
        report = os.fdopen(memory_file("halohop report", 0), "r+b")
        file = Path(f"/proc/{os.getpid()}/fd/{report.fileno()}")  # whatever the process and its children do with descriptors
        try:
            process = subprocess.Popen(
                [sys.executable, *program.argv],
                cwd=self._order.folder,
                env={**polite, **os.environ, **self._order.env, **program.env, REPORT_FILE: str(file)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            report.close()
            said = ClusterError(f"it cannot be started: {error.strerror}: {error.filename}")
            self._channel.send(Ended(name=program.name, code=_NOT_STARTED, report=spelled_report(said)))
            return
        if not program.serves:
            self._stalls.begin(process.pid, file)
        self._running[program.name] = process.pid
        self._channel.send(Started(name=program.name, process=process.pid))
        name = f"halohop-{program.name}"
        thread = threading.Thread(target=self._attend, args=(program.name, process, report), name=name, daemon=True)
        self._attending.append(thread)
        thread.start()

    def _attend(self, name: str, process: subprocess.Popen[bytes], report: IO[bytes]) -> None:
        """Runs in a thread: what a process prints, then its end."""
        reader = threading.Thread(target=self._pass_on, args=(name, process), name=f"halohop-read-{name}", daemon=True)
        reader.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # until it is waited for, its number is not given away
        self._running.pop(name, None)
        self._stalls.end(process.pid)
        with suppress(ProcessLookupError):  # what it started may hold its pipe and its report
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        reader.join(_LAST_S)
        with report:
            report.seek(0)
            said = report.read()
        try:
            self._channel.send(Ended(name=name, code=code, report=said))
        except PeerLostError:  # the thread that reads ends everything
            return

    def _pass_on(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        lost = False
        while data := os.read(process.stdout.fileno(), _READ):
            try:
                if not lost:
                    self._channel.send(Output(name=name, data=data))
            except PeerLostError:  # reads on, so that a process that is asked to end can print
                lost = True


def main() -> NoReturn:
    """The runner of this host, for the launcher at standard input and output."""
    outgoing = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no message
    os.write(outgoing, MARK)
    runner = Runner(Channel(0, outgoing, name="the launcher"))
    signal.signal(signal.SIGTERM, lambda number, frame: runner.ask())
    try:
        runner.run()
    except PeerLostError:
        runner.end(0)
