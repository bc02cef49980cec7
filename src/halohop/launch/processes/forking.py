"""Processes of a run that begin with everything imported: torch and PyG take seconds, and 260 MiB that forked processes share.

The launcher forks a fork server before it does anything else, and the server forks the processes whenever the launcher asks. It
never starts a thread, and never touches a GPU: children of a process that has used OpenMP's threads wait for ever, and those of
one that has used CUDA cannot.
"""

import gc
import logging
import os
import selectors
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

import torch

from halohop import ops
from halohop.errors import ClusterError
from halohop.launch.processes import forked
from halohop.launch.processes.starting import Order, Process, Start, fresh
from halohop.launch.terminal import logs
from halohop.linux import name_process, process_descriptor
from halohop.ops.forked import can_fork

_NUMBER = struct.Struct("i")
_DESCRIPTORS = 4
_LOST = "the process that starts the others by forking was killed; see whether memory is short, and run it again"
_LOG = logging.getLogger(__name__)


@contextmanager
def fork_server(*, alone: bool) -> Iterator[Start]:
    """Starts processes by forking while the context lasts, and by fresh interpreters where that cannot work.

    What they import and compile in common must have been imported before; kernels are made ready here. The processes must have
    ended when the context ends.

    Args:
        alone: this process is a command that has only imported modules so far. In another one locks may be held and threads of
            libraries run, which a forked process would have as they are.

    Raises:
        WriteError: machine code of the kernels cannot be kept.
    """
    if not (alone and can_fork()):
        yield fresh
        return
    with _one_thread():
        for ready in (ops.warm_up, ops.warm_up_near):
            ready(lambda line: logs.people().print(line))
        server, calls = _forked_server()
    try:
        with calls:
            yield _Client(server=calls)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


def _forked_server() -> tuple[int, socket.socket]:
    """Its number, and the connection for calls."""
    gc.freeze()  # a collection writes into every object that it looks at, and what is written is not shared any more
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = socket.socketpair()
    with warnings.catch_warnings():
        # The threads that Python 3.12 warns of wait for signals and for work in NumPy's BLAS; they hold no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        server = os.fork()
    if server == 0:
        ours.close()
        _run(theirs)
    theirs.close()
    return server, ours


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch computes in this thread alone: OpenMP's others would be missing in a forked process, which would wait for them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Client:
    """Asks a fork server for processes. Each has a connection of its own, for its order, its number and its exit code."""

    server: socket.socket

    def __call__(self, order: Order) -> Process:
        connection, theirs = socket.socketpair()
        try:
            with theirs:
                given = [theirs.fileno(), order.stdout, order.stderr, order.lifeline]
                socket.send_fds(self.server, [b"!"], given)
            forked.send(connection, order)
        except OSError as error:
            connection.close()
            raise ClusterError(_LOST) from error
        return _Forked(pid=_receive(connection), connection=connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forked:
    pid: int
    connection: socket.socket

    def wait(self) -> int:
        """Its exit code; if the server has been killed, which would know it, the process is killed, too."""
        with self.connection:
            try:
                return _receive(self.connection)
            except ClusterError as error:
                _LOG.error(error)
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                return -signal.SIGKILL


def _receive(connection: socket.socket) -> int:
    """The next number that the server says."""
    data = b""
    with suppress(ConnectionResetError):
        data = connection.recv(_NUMBER.size, socket.MSG_WAITALL)
    if len(data) < _NUMBER.size:
        raise ClusterError(_LOST)
    number: int
    (number,) = _NUMBER.unpack(data)
    return number


def _run(calls: socket.socket) -> NoReturn:
    """What the server does, and each process that it forks."""
    code = 1
    try:
        os.setsid()  # Ctrl-C reaches the launcher alone
        name_process("halohop forks")
        given = _serve(calls)
        code = 0
        if given is not None:
            forked.become(*given)
    except BaseException:
        sys.__excepthook__(*sys.exc_info())
    finally:
        os._exit(code)


def _serve(calls: socket.socket) -> list[int] | None:
    """Forks a process at every call, and reports the ends of all, until the launcher is gone.

    Returns:
        In a forked process the descriptors that came with its call, in the server None.
    """
    running: dict[int, tuple[int, socket.socket]] = {}  # by a descriptor that the process's end makes readable
    with calls, selectors.PollSelector() as selector:
        selector.register(calls, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in running:
                    selector.unregister(key.fd)
                    _report_end(key.fd, *running.pop(key.fd))
                    continue
                _, given, _, _ = socket.recv_fds(calls, 1, _DESCRIPTORS)
                if not given:
                    return None
                pid = os.fork()
                if pid == 0:
                    for ended, (_, connection) in running.items():
                        os.close(ended)
                        connection.close()
                    return given
                ended = process_descriptor(pid)
                running[ended] = pid, _report_start(pid, given)
                selector.register(ended, selectors.EVENT_READ)


def _report_start(pid: int, given: list[int]) -> socket.socket:
    with suppress(ProcessLookupError):  # it has ended
        os.setpgid(pid, pid)  # it does so, too, but the launcher may send the group a signal before that
    connection, *others = given
    for descriptor in others:
        os.close(descriptor)
    return _told(socket.socket(fileno=connection), pid)


def _report_end(ended: int, pid: int, connection: socket.socket) -> None:
    os.close(ended)
    _told(connection, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).close()


def _told(connection: socket.socket, number: int) -> socket.socket:
    with suppress(OSError):  # the launcher is gone, which the server reads next
        connection.sendall(_NUMBER.pack(number))
    return connection
