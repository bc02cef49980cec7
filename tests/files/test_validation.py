"""Errors of msgspec in plain words, the same for all files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from halohop.datasets.spec import load_spec
from halohop.errors import InputError
from halohop.files.validation import validate
from halohop.launch.jobs.tables import convert


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    size: int
    depth: Annotated[int, msgspec.Meta(ge=1)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    file: str
    inner: Inner | None = None
    features: tuple[str, ...] = ()
    kinds: dict[str, Literal["text", "number"]] | None = None
    mode: Literal["fast", "slow"] = "fast"
    seconds: float | None = None
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None
    rate: Annotated[float, msgspec.Meta(gt=0)] = 1.0

    def __post_init__(self) -> None:
        if self.seconds == 0:
            raise InputError("seconds=0 must be over 0")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "here: file is missing; add it"),
        ([], "here: must be a table, got a list"),
        ({"file": 3}, "here: file must be text, got a whole number"),
        ({"file": None}, "here: file must be text, got nothing"),
        ({"file": "f", "features": ["x", 3]}, "here: features[1] must be text, got a whole number"),
        ({"file": "f", "kinds": {"i": "int"}}, "here: kinds must be one of text, number, got 'int'"),
        ({"file": "f", "mode": "slower"}, "here: mode must be one of fast, slow, got 'slower'"),
        ({"file": "f", "kinds": {1: "text"}}, "here: each key of kinds must be text, got a whole number"),
        ({"file": "f", "inner": 3}, "here: inner must be a table, got a whole number"),
        ({"file": "f", "inner": {"size": True}}, "here: inner.size must be a whole number, got true or false"),
        ({"file": "f", "inner": {}}, "here: inner.size is missing; add it"),
        ({"file": "f", "seconds": 0}, "here: seconds=0 must be over 0"),
        ({"file": "f", "count": 0}, "here: count must be at least 1, got 0"),
        ({"file": "f", "rate": 0.0}, "here: rate must be over 0, got 0.0"),
        ({"file": "f", "inner": {"size": 1, "depth": 0}}, "here: inner.depth must be at least 1"),
    ],
)
def test_errors_name_the_value_what_was_expected_and_what_was_found(raw: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        validate(raw, Outer, "here")
    assert str(caught.value) == message


def test_graphs_and_jobs_explain_a_value_alike(tmp_path: Path) -> None:
    (tmp_path / "graph.toml").write_text("[nodes.n]\nfile = 3\nid = 'i'\n")
    with pytest.raises(InputError) as of_graph:
        load_spec(tmp_path)
    with pytest.raises(InputError) as of_job:
        convert({"file": 3}, Outer, f"{tmp_path}/graph.toml: nodes.n")
    assert str(of_graph.value) == str(of_job.value)
