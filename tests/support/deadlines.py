"""Deadlines of what is promised in seconds, on machines that do other things, too."""

import os


def within(seconds: float) -> float:
    """How long something may take here that takes at most so many seconds on a machine of its own.

    Where more processes want to run than there are cores, each gets its share: a load average of three per core allows three
    times as long.

    Example:
        >>> within(5.0) >= 5.0
        True
    """
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
