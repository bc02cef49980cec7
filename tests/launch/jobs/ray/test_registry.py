"""What the registry of a service remembers, as a plain object; as an actor it is part of test_batches.py."""

from halohop.errors import InputError
from halohop.launch.jobs.ray.registry import Registry
from halohop.launch.processes.failures import parse_report, spelled_report
from halohop.transport import Token


def test_a_server_that_starts_again_takes_its_own_place() -> None:
    registry = Registry(None)
    registry.announce("server-0", "10.0.0.6:1")
    registry.announce("server-1", "10.0.0.7:2")
    registry.announce("server-1", "10.0.0.8:3")
    assert registry.addresses() == ("10.0.0.6:1", "10.0.0.8:3")


def test_a_process_that_ends_late_does_not_take_its_successor_away() -> None:
    registry = Registry(None)
    registry.announce("server-1", "10.0.0.8:3")
    registry.withdraw("server-1", "10.0.0.7:2")
    assert registry.addresses() == ("10.0.0.8:3",)
    registry.withdraw("server-1", "10.0.0.8:3")
    assert registry.addresses() == ()


def test_the_token_is_not_shown() -> None:
    registry = Registry(Token("correct horse battery staple"))
    assert registry.token() is not None
    assert "horse" not in repr(registry) + repr(vars(registry))


def test_the_first_failure_of_a_server_counts() -> None:
    registry = Registry(None)
    assert parse_report(registry.first_report()) is None
    for message in ("server-1 on b: lr=0 must be over 0", "server-0 on a: another"):
        registry.report(spelled_report(InputError(message)))
    error = parse_report(registry.first_report())
    assert (type(error), str(error)) == (InputError, "server-1 on b: lr=0 must be over 0")
