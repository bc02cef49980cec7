"""Deadlines of what is promised in seconds, on machines that do other things, too."""

import os
from pathlib import Path


def within(seconds: float) -> float:
    """How long something may take here that takes at most so many seconds on a machine of its own.

    Twice as long; and where more processes want to run than there are cores, now or on average over a minute, each gets its
    share: six processes on two cores allow three times as long.

    Example:
        >>> within(5.0) >= 10.0
        True
    """
    average, _, _, running = Path("/proc/loadavg").read_text().split()[:4]
    waiting = max(float(average), int(running.partition("/")[0]))
    return seconds * max(2.0, waiting / (os.cpu_count() or 1))
