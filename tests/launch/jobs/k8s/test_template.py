import builtins

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.k8s.template import yaml_of


@pytest.mark.parametrize(
    "text", ["1e3", "y", "N", "Yes", "off", "null", "~", "0o17", "012", "1_000", "12:30", ".5", "-", "", "2026-11-22"]
)
def test_a_text_that_readers_of_yaml_take_for_something_else_is_quoted(text):
    assert yaml_of([{"key": text}]) == f'key: "{text}"\n'


def test_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name == "yaml":
            raise ImportError("No module named 'yaml'")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'halohop\[yaml\]'"):
        yaml_of([])
