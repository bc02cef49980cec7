"""What a process of `multiprocessing` leaves when its function ends, well or not."""

import multiprocessing
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

import pytest

from halohop.cluster.child_end import at_child_end


def child(end: str, pipe: Connection) -> None:
    cancel = at_child_end(lambda *, wait: pipe.send(wait))
    if end == "error":
        raise KeyError(end)
    if end in ("0", "1"):
        sys.exit(int(end))
    if end == "word":
        sys.exit(end)
    if end == "cancelled":
        cancel()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # of forks, if a library has started threads
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("end", "waits", "code"),
    [
        ("return", [True], 0),
        ("0", [True], 0),
        ("1", [False], 1),
        ("word", [False], 1),
        ("error", [False], 1),
        ("cancelled", [], 0),
    ],
)
def test_whether_it_waits_for_others(end, waits, code, method, capfd):
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe(duplex=False)
    with ours:
        process = context.Process(target=child, args=(end, theirs))
        process.start()
        theirs.close()
        process.join(60)
        assert process.exitcode == code
        found = []
        with suppress(EOFError):  # the child has ended, so all that it sent is here
            while True:
                found.append(ours.recv())
        assert found == waits
    capfd.readouterr()


def test_a_process_of_its_own_does_nothing():
    at_child_end(lambda *, wait: pytest.fail("it has not ended"))()
