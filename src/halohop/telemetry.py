"""Counters and spans: what the system did and how long it took, cheap enough to be always on."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping


class Gauge(float):
    """An amount of now, which may become less again. All other statistics are sums, which only grow.

    Example:
        >>> Gauge(2) + Gauge(1), isinstance(0.0 + Gauge(2), Gauge)
        (3.0, True)
    """

    __slots__ = ()

    def __add__(self, other: float) -> "Gauge":
        return Gauge(float(self) + other)

    __radd__ = __add__


class Counters:
    """Named sums that threads add to; `snapshot` reads them all at one moment.

    Example:
        >>> counters = Counters()
        >>> counters.add("batches", 2)
        >>> with counters.span("sample"):
        ...     pass
        >>> sorted(counters.snapshot())
        ['batches', 'sample_calls', 'sample_seconds']
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, float] = defaultdict(float)
        self._names: dict[str, tuple[str, str]] = {}

    def add(self, name: str, amount: float = 1) -> None:
        with self._lock:
            self._sums[name] += amount

    def add_all(self, amounts: dict[str, float]) -> None:
        """Several sums under one lock."""
        with self._lock:
            for name, amount in amounts.items():
                self._sums[name] += amount

    def span(self, name: str) -> "_Span":
        """Adds the block's wall time to ``<name>_seconds`` and one to ``<name>_calls``."""
        return _Span(self, name)

    def add_span(self, name: str, seconds: float) -> None:
        """What a span adds."""
        names = self._names.get(name)
        if names is None:
            names = self._names[name] = (f"{name}_seconds", f"{name}_calls")
        with self._lock:
            self._sums[names[0]] += seconds
            self._sums[names[1]] += 1

    def begin_anew(self) -> None:
        """Forgets all sums. For a forked process: a thread of its parent may have held the lock when it was forked."""
        self._lock = threading.Lock()
        self._sums = defaultdict(float)

    def snapshot(self) -> dict[str, float]:
        with self._lock:
            return dict(self._sums)


class _Span:
    """A block that is timed, also if it fails. (A generator as a context manager takes three times as long.)"""

    __slots__ = ("_counters", "_name", "_start")

    def __init__(self, counters: Counters, name: str) -> None:
        self._counters = counters
        self._name = name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._counters.add_span(self._name, time.perf_counter() - self._start)


def added(sums: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Sums by name over several snapshots; of gauges they are gauges.

    Example:
        >>> added([{"calls": 1}, {"calls": 2, "failures": 1}])
        {'calls': 3, 'failures': 1}
    """
    total: dict[str, float] = {}
    for one in sums:
        for name, amount in one.items():
            total[name] = total[name] + amount if name in total else amount
    return total
