"""What every process of a run does first, a forked one or `python -m halohop.launch.processes.child ARGUMENT...`.

Holds on to the launcher's lifeline, then runs the script or the module as `python ARGUMENT...` would.
Where that ends with an error of halohop, the launcher can read it.
"""

import atexit
import faulthandler
import logging
import os
import runpy
import signal
import sys
from pathlib import Path

from halohop import memory
from halohop.errors import HalohopError
from halohop.launch.processes import lifeline
from halohop.launch.processes.ending import end_after, flush_files
from halohop.launch.processes.failures import report
from halohop.launch.processes.starting import take_cores
from halohop.launch.terminal import logs
from halohop.linux import name_process


def main(arguments: list[str]) -> None:
    """Runs ``arguments`` as an interpreter would: a script and its command line, or ``-m``, a module and its command line."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no signal meets a handler: none waits for foreign code to return
    lifeline.hold()
    if "RANK" in os.environ:
        name_process(f"halohop rank {os.environ['RANK']}")
    faulthandler.enable()  # prints where all threads are, if the launcher or a library aborts this process
    take_cores()
    memory.limit_heaps()
    logs.configure(int(os.environ.get(logs.LEVEL, logging.INFO)))
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(arguments)
            if not sys.flags.safe_path:
                sys.path[0] = str(Path(arguments[0]).resolve().parent)
            runpy.run_path(arguments[0], run_name="__main__")
    except HalohopError as error:
        report(error)
        raise  # with its traceback to the log


if __name__ == "__main__":
    atexit.register(flush_files)  # the first to be registered is the last to be called
    end_after(lambda: main(sys.argv[1:]))
