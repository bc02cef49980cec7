import contextlib
import os
import select
import signal
import subprocess
import sys
import threading

import pytest

from halohop.errors import InputError
from halohop.launch.processes import lifeline

PATIENCE_S = 100


def test_nobody_to_hold() -> None:
    assert lifeline.hold({}) is None


@pytest.mark.parametrize("text", ["", "three", "987654"])
def test_what_is_no_descriptor_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="HALOHOP_PARENT_FD"):
        lifeline.hold({lifeline.PARENT_FD: text})


def test_the_news_comes_with_the_end_of_the_pipe_and_not_before() -> None:
    read_end, write_end = os.pipe()
    lost = threading.Event()
    watcher = lifeline.hold({lifeline.PARENT_FD: str(read_end)}, on_loss=lost.set)
    assert watcher is not None
    os.write(write_end, b"x")  # not news
    assert not lost.wait(0.05)
    os.close(write_end)
    assert lost.wait(PATIENCE_S)
    watcher.join(PATIENCE_S)


@pytest.mark.parametrize("leads", [True, False])
def test_a_process_ends_with_its_launcher(leads: bool) -> None:
    read_end, write_end = os.pipe()
    script = "from halohop.launch.processes import lifeline; lifeline.hold().join()"
    env = os.environ | {lifeline.PARENT_FD: str(read_end)}
    with subprocess.Popen([sys.executable, "-c", script], env=env, pass_fds=[read_end], start_new_session=leads) as process:
        os.close(read_end)
        os.close(write_end)
        assert process.wait(PATIENCE_S) in (-9, 1)  # the kernel, or the thread


PARENT = """
import os, subprocess, sys
read_end, write_end = os.pipe()
env = os.environ | {"HALOHOP_PARENT_FD": str(read_end)}
child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, start_new_session=True, pass_fds=[read_end], env=env
)
print(child.stdout.readline().decode().strip(), flush=True)
child.wait()
"""

DEAF = """
import ctypes, os, subprocess, sys
from halohop.launch.processes.lifeline import hold
from halohop.linux import signal_on_parent_end
{hold}
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), helper.pid, flush=True)
ctypes.PyDLL(None).sleep(600)  # with Python's lock: no thread runs
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what the kernel does here is Linux's")
@pytest.mark.parametrize(("hold", "ends"), [("hold()", 2), ("signal_on_parent_end(9)", 1)])
def test_processes_that_run_no_python_end_with_their_parent_too(hold: str, ends: int) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, DEAF.format(hold=hold)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = list(map(int, parent.stdout.readline().split()))
        watched = [os.pidfd_open(pid) for pid in pids]
        parent.kill()
    try:
        for pid, descriptor in zip(pids[:ends], watched, strict=False):
            ended, _, _ = select.select([descriptor], [], [], PATIENCE_S)
            assert ended, f"process {pid} outlived its parent"
    finally:
        for descriptor in watched:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)
