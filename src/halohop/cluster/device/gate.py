"""Who may come in, and who is still inside: what a graph's memory is freed after."""

import threading

from halohop.errors import InputError


class Gate:
    """Lets requests through, until it is closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    def __enter__(self) -> None:
        with self._changed:
            if self._closed:
                raise InputError(
                    "this graph was closed, and what it had on a device is freed; open it again (halohop.open, halohop.connect, "
                    "halohop.graph), and make the loader anew"
                )
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Waits for who is inside, and refuses who comes later."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._inside)
