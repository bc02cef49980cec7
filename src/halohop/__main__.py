"""`python -m halohop`, and the console script `halohop`: answers signals first, and only then imports what a command needs."""

import os
import signal
import sys
from typing import NoReturn

from halohop.launch.processes.ending import end_after
from halohop.launch.terminal.signals import Signals
from halohop.linux import signal_on_parent_end


def main() -> NoReturn:
    """Runs the command line, and ends the process."""
    _open_standard_streams()
    end_after(_run_command)


def _run_command() -> None:
    with Signals() as signals:
        if "TORCHELASTIC_RUN_ID" in os.environ:
            signal_on_parent_end(signal.SIGTERM)  # torchrun's agent ends its ranks, unless it is killed
        from halohop.launch.cli import app
        from halohop.launch.terminal.console import show_bug

        try:
            app(prog_name="halohop", obj=signals)
        finally:
            sys.excepthook = show_bug  # typer has set its own


def _open_standard_streams() -> None:
    """Opens the null device for each standard stream that this process was started without, as by `>&-`: otherwise the next file
    gets its descriptor, and trainers write there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            stream = os.fdopen(descriptor, mode, closefd=False)  # as Python opens its own
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    main()
