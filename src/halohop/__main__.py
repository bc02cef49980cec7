"""`python -m halohop`, and the console script `halohop`: answers signals first, and only then imports what a command needs."""

import os
import signal

from halohop.launch.lifeline import end_with_parent
from halohop.launch.signals import Signals


def main() -> None:
    """Runs the command line."""
    with Signals() as signals:
        if "TORCHELASTIC_RUN_ID" in os.environ:
            end_with_parent(signal.SIGTERM)  # torchrun's agent ends its ranks, unless it is killed
        import atexit
        import gc

        from halohop.launch.cli import app

        atexit.register(gc.freeze)  # or Python looks for garbage once more, in a million objects of libraries: a second
        app(prog_name="halohop", obj=signals)


if __name__ == "__main__":
    main()
