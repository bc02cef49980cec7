"""How the launcher starts a process: `python -m halohop.launch.child MODULE ARGUMENT...`.

Holds on to the launcher's lifeline, then runs the module as `python -m MODULE ARGUMENT...` would.
"""

import runpy
import signal
import sys

from halohop.launch import lifeline


def main(arguments: list[str]) -> None:
    """Runs the module ``arguments[0]`` with the rest as its command line."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no signal meets a handler: none waits for foreign code to return
    lifeline.hold()
    lifeline.end_with_parent(signal.SIGKILL)  # the lifeline needs a thread, which foreign code may hold up
    sys.argv = list(arguments)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
