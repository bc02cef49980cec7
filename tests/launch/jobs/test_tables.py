from dataclasses import dataclass

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.tables import convert


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    user: str
    hosts: tuple[str, ...] = ()
    connect_seconds: float = 10.0
    strict: bool = True

    def __post_init__(self) -> None:
        if self.connect_seconds <= 0:
            raise InputError(f"connect_seconds={self.connect_seconds} must be over 0")


def test_names_may_have_either_line() -> None:
    expected = Options(user="me", hosts=("a", "b"), connect_seconds=2)
    for name in ("connect-seconds", "connect_seconds"):
        assert convert({"user": "me", "hosts": ["a", "b"], name: 2}, Options, "x") == expected


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"user": "me", "host": ["a"]}, r"run.toml: \[ssh\]: unknown key 'host'; did you mean 'hosts'\?"),
        ({"user": "me", "qqqqq": 1}, r"unknown key 'qqqqq'; known: connect_seconds, hosts, strict, user"),
        ({"user": "me", "connect-seconds": 1, "connect_seconds": 2}, "given twice, with '-' and with '_'"),
        ({"user": None}, "key 'user' needs a value"),
        ({"user": 3}, r"run.toml: \[ssh\]: user must be text, got a whole number"),
        ({}, "user is missing"),
        ({"user": "me", "strict": 1}, "strict must be true or false, got a whole number"),
        ({"user": "me", "connect-seconds": 0}, r"run.toml: \[ssh\]: connect_seconds=0.0 must be over 0"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(table: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        convert(table, Options, "run.toml: [ssh]")
