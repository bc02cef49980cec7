"""Blocking sockets and nothing else, into memory that is used again: what the machine's TCP gives to one connection."""

import json
import platform
import socket
import sys
import threading
from typing import Any

from benchmarks.protocol import Info, serve
from benchmarks.transfer import LOOPBACK, ServerProcess, Wait, contestant, is_server, say_where

QUESTION = b"12345678"


def answer(size: int) -> None:
    listener = socket.create_server((LOOPBACK, 0))
    threading.Thread(target=_answer_all, args=(listener, bytearray(size)), daemon=True).start()
    say_where(str(listener.getsockname()[1]))


def _answer_all(listener: socket.socket, data: bytearray) -> None:
    connection = listener.accept()[0]
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    question = bytearray(len(QUESTION))
    while _receive(connection, question):
        connection.sendall(data)


def _receive(connection: socket.socket, into: bytearray) -> bool:
    """Fills the buffer; False at the end of the connection."""
    view, got = memoryview(into), 0
    while got < len(view):
        count = connection.recv_into(view[got:])
        if not count:
            return False
        got += count
    return True


def start(size: int, in_flight: int, repeat: int) -> tuple[Info, Any]:
    server = ServerProcess("raw_sockets", size=size)
    connection = socket.create_connection((LOOPBACK, int(server.address)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    into = bytearray(size)

    def submit() -> Wait:
        connection.sendall(QUESTION)
        return wait

    def wait() -> int:
        assert _receive(connection, into)
        return size

    return contestant(submit, server, in_flight=in_flight, repeat=repeat, versions={"python": platform.python_version()})


if __name__ == "__main__":
    answer(**json.loads(sys.argv[1])) if is_server() else serve(start)
