"""Public names of halohop and its faces, with their signatures."""

import importlib

import pytest

from tests.golden import kept
from tests.golden.parts import signatures


def test_signatures_are_those_kept() -> None:
    """A public name comes, goes or takes other arguments only on purpose; the changelog says so, too."""
    kept.check("signatures", kept.now("signatures"))


@pytest.mark.parametrize("module", signatures.MODULES)
def test_public_names_are_there_once(module: str) -> None:
    owner = importlib.import_module(f"halohop.{module}".rstrip("."))
    assert len(set(owner.__all__)) == len(owner.__all__)
    assert [name for name in owner.__all__ if not hasattr(owner, name)] == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int | None, "int | None"),
        ("Unseen | None", "Unseen | None"),
        ("list[Unseen]", "list[Unseen]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (type(None), "None"),
    ],
)
def test_types_are_spelled_the_same_everywhere(kind: object, text: str) -> None:
    assert signatures.spelled(kind, test_types_are_spelled_the_same_everywhere) == text
