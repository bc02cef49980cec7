"""What is finished before a signal is answered.

Python runs handlers, such as that of Ctrl-C, between any two steps of its main thread, and what they raise leaves the work there
half done. A change of shared memory must not end so.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_SIGNALS = tuple(number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Handlers of Ctrl-C and of requests to end run after the block. For blocks that are short, and wait for no other process.

    Example:
        >>> import signal
        >>> done = []
        >>> try:
        ...     with uninterrupted():
        ...         signal.raise_signal(signal.SIGINT)
        ...         done.append("all of it")
        ... except KeyboardInterrupt:
        ...     done.append("then the interrupt")
        >>> done
        ['all of it', 'then the interrupt']
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread
        return
    came: list[Callable[[], object]] = []
    with ExitStack() as stack:
        stack.callback(_answer, came)
        for number in _SIGNALS:
            if callable(handler := signal.getsignal(number)):
                stack.callback(signal.signal, number, handler)
                signal.signal(number, _noting(handler, came))
        yield


def _noting(
    handler: Callable[[int, FrameType | None], object], came: list[Callable[[], object]]
) -> Callable[[int, FrameType | None], None]:
    return lambda number, frame: came.append(lambda: handler(number, frame))


def _answer(came: list[Callable[[], object]]) -> None:
    for answer in came:
        answer()
