"""What every process of a run does first, a forked one or `python -m halohop.launch.processes.child MODULE ARGUMENT...`.

Holds on to the launcher's lifeline, then runs the module as `python -m MODULE ARGUMENT...` would.
Where that ends with an error of halohop, the launcher can read it.
"""

import logging
import os
import runpy
import signal
import sys

from halohop import memory
from halohop.errors import HalohopError
from halohop.launch.processes import lifeline
from halohop.launch.processes.failures import report
from halohop.launch.processes.starting import name_process, take_cores
from halohop.launch.terminal import logs


def main(arguments: list[str]) -> None:
    """Runs the module ``arguments[0]`` with the rest as its command line."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no signal meets a handler: none waits for foreign code to return
    lifeline.hold()
    if "RANK" in os.environ:
        name_process(f"halohop rank {os.environ['RANK']}")
    take_cores()
    memory.limit_heaps()
    logs.configure(int(os.environ.get(logs.LEVEL, logging.INFO)))
    sys.argv = list(arguments)
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except HalohopError as error:
        report(error)
        raise  # with its traceback to the log


if __name__ == "__main__":
    main(sys.argv[1:])
