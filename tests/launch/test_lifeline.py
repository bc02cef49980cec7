import os
import select
import subprocess
import sys
import threading

import pytest

from halohop.errors import InputError
from halohop.launch import lifeline

PATIENCE_S = 30


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


@pytest.mark.parametrize(("leads", "code"), [(True, -9), (False, 1)])
def test_a_process_ends_with_its_launcher(leads: bool, code: int) -> None:
    read_end, write_end = os.pipe()
    script = "from halohop.launch import lifeline; lifeline.hold().join()"
    env = os.environ | {lifeline.PARENT_FD: str(read_end)}
    with subprocess.Popen([sys.executable, "-c", script], env=env, pass_fds=[read_end], start_new_session=leads) as process:
        os.close(read_end)
        os.close(write_end)
        assert process.wait(PATIENCE_S) == code


PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""

DEAF = """
import ctypes, signal
from halohop.launch.lifeline import end_with_parent
end_with_parent(signal.SIGKILL)
print(flush=True)
ctypes.PyDLL(None).sleep(600)  # with Python's lock: no thread runs
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's request is Linux's")
def test_a_process_that_runs_no_python_ends_with_its_parent_too() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, DEAF], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:  # it has ended already
        return
    ended, _, _ = select.select([descriptor], [], [], PATIENCE_S)
    os.close(descriptor)
    assert ended, f"process {pid} outlived its parent"
