"""Ends a wait from another thread."""

import socket
import threading


class Waker:
    """A byte through a pair of sockets: to be registered with a selector, for reading."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._set = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def set(self) -> None:
        with self._lock:
            if not self._set and self._writer.fileno() >= 0:
                self._set = True
                self._writer.send(b"\0")

    def clear(self) -> bool:
        """Whether it was set."""
        with self._lock:
            was, self._set = self._set, False
            if was:
                self._reader.recv(1)
            return was

    def close(self) -> None:
        with self._lock:
            self._reader.close()
            self._writer.close()
