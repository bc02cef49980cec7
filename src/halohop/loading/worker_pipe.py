"""A private line between a process and its child: messages and descriptors, and the news that the other process is gone."""

import os
import select
import socket
import struct

_HEADER = struct.Struct("<Q")


class WorkerPipe:
    """One end of the line. One thread may send while another receives.

    The end of the peer is seen in its process (pidfd), not only in the socket: any process that was forked meanwhile may hold a
    copy of the peer's socket, and keep it open.

    Args:
        end: a connected Unix stream socket; belongs to the pipe from now on.
        peer: a pidfd of the process at the other end; belongs to the pipe, too.
    """

    def __init__(self, end: socket.socket, peer: int) -> None:
        self._socket = end
        self._peer = peer
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)
        self._poll.register(peer, select.POLLIN)

    def send(self, message: bytes, descriptor: int | None = None) -> None:
        """Sends a message, and a descriptor with it.

        Raises:
            OSError: the line is cut.
        """
        header = _HEADER.pack(len(message))
        if descriptor is None:
            self._socket.sendall(header)
        else:
            socket.send_fds(self._socket, [header], [descriptor])
        self._socket.sendall(message)

    def receive(self) -> tuple[bytearray, int | None] | None:
        """Waits for a message; None when the line is cut or the peer is gone, after what it had sent."""
        if not self._wait():
            return None
        try:
            header, descriptors, _, _ = socket.recv_fds(self._socket, _HEADER.size, 1)
        except OSError:
            return None
        if len(header) < _HEADER.size:
            return None
        message = self._read(_HEADER.unpack(header)[0])
        return None if message is None else (message, descriptors[0] if descriptors else None)

    def cut(self) -> None:
        """Ends the line for both sides, also for those that wait at it; safe in any thread."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # it is cut already
            return

    def close(self) -> None:
        """Gives the descriptors back. Only for the thread that receives."""
        self._socket.close()
        os.close(self._peer)

    def _read(self, size: int) -> bytearray | None:
        message = bytearray(size)
        done = 0
        while done < size:
            try:
                count = self._socket.recv_into(memoryview(message)[done:]) if self._wait() else 0
            except OSError:
                return None
            if count == 0:
                return None
            done += count
        return message

    def _wait(self) -> bool:
        """Whether there is something to read; false when the peer is gone."""
        ready = dict(self._poll.poll())
        return self._socket.fileno() in ready
