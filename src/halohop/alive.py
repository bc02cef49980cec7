"""What a process tells its launcher while it works: that it gets on."""

import os
from contextlib import suppress

REPORT_FILE = "HALOHOP_REPORT_FILE"
"""Environment variable of a process that `halohop launch` or `halohop train` started: the file by which it reports. The time of
the file is that of its last step, the content is the error that ended it."""


def note_step() -> None:
    """Notes that this process has made a step, such as a batch; does nothing without a launcher.

    Example:
        >>> note_step()
    """
    if path := os.environ.get(REPORT_FILE):
        with suppress(OSError):  # the launcher is about to end this process, or the process inherited a variable only
            os.utime(path)
