"""Which cores of the machine are this process's."""

import os

__all__ = ["usable_cores"]


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may run on; of all where the system does not say.

    Example:
        >>> len(usable_cores()) >= 1
        True
    """
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
