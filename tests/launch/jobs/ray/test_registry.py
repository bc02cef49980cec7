"""What the registry of a service remembers, as a plain object; as an actor it is part of test_batches.py."""

from halohop.errors import ClusterError, DatasetError, InputError
from halohop.launch.jobs.ray.registry import Member, Registry, Report
from halohop.transport import Token

MEMBER = Member(name="server-1", host="node7", ip="10.0.0.7", pid=42)


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


def test_processes_of_one_name_are_counted() -> None:
    registry = Registry(None)
    assert [registry.enter(MEMBER), registry.enter(MEMBER)] == [0, 1]
    assert registry.members() == (MEMBER,)


def test_the_token_is_not_shown() -> None:
    registry = Registry(Token("correct horse battery staple"))
    assert registry.token() is not None
    assert "horse" not in repr(registry) + repr(vars(registry))


def test_an_error_of_the_users_input_keeps_its_class_and_gets_a_place() -> None:
    for raised in (InputError("lr=0 must be over 0"), DatasetError("no manifest")):
        report = Report.of(MEMBER, raised)
        assert report.is_final
        error = report.error()
        assert type(error) is type(raised)
        assert str(error) == f"server-1 on node7: {raised}"


def test_another_error_may_pass() -> None:
    report = Report.of(MEMBER, LookupError("no such luck"))
    assert not report.is_final
    error = report.error()
    assert type(error) is ClusterError
    assert str(error) == "server-1 on node7 failed: LookupError: no such luck"
