import os
import select
import signal
import time
from functools import partial

import pytest

from halohop.ops.forked import call_all, can_fork
from tests.support.deadlines import within

HERE = os.getpid()

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes cannot be forked here")


@pytest.fixture
def line():
    """A pipe from other processes to this one, and one from this process to the others."""
    ends = [*os.pipe(), *os.pipe()]
    yield ends
    for end in ends:
        os.close(end)


def meet(line, there, seconds=30.0):
    """Makes sure that each process takes a call: both wait for the other to have begun. `there` is done in the other."""
    from_there, here, from_here, elsewhere = line
    if os.getpid() != HERE:
        os.write(here, b"!")
        there()
        assert select.select([from_here], [], [], seconds)[0]
    else:
        os.write(elsewhere, b"!")
        assert select.select([from_there], [], [], seconds)[0]


def children():
    """Processes that have not been waited for."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def test_each_call_is_made_once_in_one_of_the_processes(tmp_path, line):
    def call(number):
        with (tmp_path / str(number)).open("x") as file:
            file.write(str(os.getpid()))
        meet(line, lambda: None)

    assert call_all([partial(call, number) for number in range(20)], processes=2, deadline=30)
    files = {int(file.name): int(file.read_text()) for file in tmp_path.iterdir()}
    assert set(files) == set(range(20))
    assert len(set(files.values())) == 2
    assert HERE in files.values()


@pytest.mark.parametrize("how", ["raises", "ends", "is killed"])
def test_a_process_that_fails_is_noticed(line, how):
    def fail():
        if how == "raises":
            raise ValueError(how)
        os.kill(os.getpid(), signal.SIGKILL) if how == "is killed" else os._exit(3)

    assert not call_all([partial(meet, line, fail)] * 2, processes=2, deadline=30)
    assert not children()


def test_a_process_that_does_not_end_is_killed(line):
    assert not call_all([partial(meet, line, signal.pause)] * 2, processes=2, deadline=0.05)
    assert not children()


def test_a_failure_here_ends_the_others(line):
    """As Ctrl-C does."""

    def call():
        meet(line, signal.pause)
        raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        call_all([call] * 3, processes=3, deadline=1000)
    assert time.monotonic() - begin < within(20)
    assert not children()


def test_one_process_makes_all_calls():
    made = []
    assert call_all([partial(made.append, number) for number in range(5)], processes=1, deadline=0)
    assert made == list(range(5))
