"""What makes a forked process the one that was ordered: descriptors, environment, path and threads as a fresh interpreter has."""

import json
import os
import socket
import sys
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

from halohop.launch.processes import child
from halohop.launch.processes.ending import end_after
from halohop.launch.processes.lifeline import PARENT_FD
from halohop.launch.processes.places import THREADS
from halohop.launch.processes.starting import Order


def send(connection: socket.socket, order: Order) -> None:
    """Sends an order to the process that is to follow it."""
    env = dict(order.env)
    # OpenMP has read the variable when it was loaded, as it is in this process; the launcher's own share is a plain number.
    # It is a limit beside those that torch has read here, such as MKL_NUM_THREADS and the cores that this process may use.
    own = torch.get_num_threads()
    threads = own if env.get(THREADS) == os.environ.get(THREADS) else min(int(env[THREADS]), own)
    text = json.dumps({"argv": list(order.argv), "folder": order.folder, "env": env, "threads": threads})
    connection.sendall(text.encode())
    connection.shutdown(socket.SHUT_WR)


def become(connection: int, stdout: int, stderr: int, lifeline: int) -> NoReturn:
    """Follows the order that comes from a connection, and ends the process; to be called once, in a forked process.

    Args:
        connection: descriptor of a socket, from which the order is read.
        stdout, stderr, lifeline: descriptors, as of `Order`.
    """
    os.setpgid(0, 0)
    for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (stdout, 1), (stderr, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        _reopen(number, name)
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    with socket.socket(fileno=connection) as source, source.makefile("rb") as stream:
        order = json.load(stream)
    os.environ.clear()
    os.environ.update({**order["env"], PARENT_FD: str(lifeline)})
    torch.set_num_threads(order["threads"])
    np.random.seed()  # not the same in all of them; Python does so by itself
    torch.default_generator.seed()
    if order["folder"] is not None:
        os.chdir(order["folder"])
    if not sys.flags.safe_path:
        sys.path[0] = str(Path.cwd())
    end_after(lambda: _run(order["argv"]))


def _reopen(number: int, name: str) -> None:
    """Makes a standard stream anew, without a buffer, in the encoding that Python chose for the launcher's."""
    launchers = getattr(sys, f"__{name}__")
    raw = FileIO(number, "w" if number else "r", closefd=False)
    stream = TextIOWrapper(raw, encoding=launchers.encoding, errors=launchers.errors, write_through=True)
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def _run(argv: list[str]) -> None:
    """Runs a module or a script as ``__main__``."""
    for name in (argv[1], f"{argv[1]}.__main__") if argv[0] == "-m" else ():
        if not hasattr(sys.modules.get(name), "__path__"):  # a package stays, and its __main__ runs
            sys.modules.pop(name, None)  # it runs once more, under another name
    child.main(argv)
