import pytest

from halohop.transport.base import Limits
from halohop.transport.calls import Call, Calls


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_call_that_an_interrupt_left_half_put_can_be_ended(steps: int) -> None:
    """Ctrl-C comes between any two statements."""
    calls, call = Calls(Limits()), Call(7, "locate")
    if steps > 0:
        calls._calls[call.number] = call
    if steps > 1:
        calls._ordered.setdefault(call.seconds, {})
    if steps > 2:
        calls._ordered[call.seconds][call.number] = call
    calls.late_at()
    calls.end(call)
    assert (len(calls), calls._firsts()) == (0, [])
