"""Sources that are made up: ``synthetic:SIZE``, ``synthetic-hetero:SIZE`` and ``synthetic:powerlaw?nodes=N&edges=N``."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from urllib.parse import parse_qsl

from halohop.datasets.powerlaw import PowerLaw, power_law
from halohop.datasets.splits import FRACTIONS
from halohop.datasets.staging import Staging, kept
from halohop.datasets.synthetic import SIZES, synthetic, synthetic_hetero
from halohop.errors import InputError
from halohop.memory import format_size
from halohop.store.tables import GraphTables

HETERO_SIZES = {"tiny": 500, "small": 2_000, "medium": 50_000}
"""Number of papers of ``synthetic-hetero:SIZE``."""

MADE = ("synthetic", "synthetic-hetero")
_POWER_LAW = "powerlaw"
_GIVEN = ("fractions", "seed")
_NODE_BYTES, _EDGE_BYTES = 11, 8  # label and splits; both ends
_TIMES = 3  # as much as it is in the end takes a graph while it is made in memory


def read_made(text: str, staging: Staging, *, fractions: Sequence[float], seed: int) -> GraphTables:
    """The graph that a source ``synthetic...`` names.

    Raises:
        InputError: there is no such size, or its numbers are none that a graph can have.

    Example:
        >>> tables = read_made("synthetic:powerlaw?nodes=100&edges=500", Staging(), fractions=(0.6, 0.2, 0.2), seed=0)
        >>> tables.nodes["node"].num_nodes
        100
    """
    kind, _, what = text.partition(":")
    size, _, query = what.partition("?")
    if len(fractions) != 3:
        raise InputError(f"fractions={tuple(fractions)} must be three shares: train, val and test")
    shares = (fractions[0], fractions[1], fractions[2])
    if kind == "synthetic" and size == _POWER_LAW:
        return power_law(_shape(text, query, fractions=shares, seed=seed), staging)
    if kind == "synthetic":
        _check_memory(text, staging)
        return kept(staging, synthetic(what or "small", fractions=shares, seed=seed))
    if kind != "synthetic-hetero" or (what or "small") not in HETERO_SIZES:
        raise InputError(f"unknown size {what!r} of {kind}; use one of {', '.join(HETERO_SIZES)}")
    return kept(staging, synthetic_hetero(HETERO_SIZES[what or "small"], fractions=shares, seed=seed))


def made_bytes(text: str) -> int | None:
    """About how many bytes the tensors of a made-up source take; None of other sources, and of sizes that are not known."""
    kind, _, what = text.partition(":")
    shape = powerlaw_of(text)
    if shape is not None:
        return shape.nodes * (4 * shape.features + _NODE_BYTES) + shape.edges * _EDGE_BYTES
    if kind == "synthetic" and (what or "small") in SIZES:
        base = SIZES[what or "small"]
        return round(base.num_nodes * (4 * base.num_features + _NODE_BYTES + base.avg_degree * _EDGE_BYTES))
    return None


def powerlaw_of(text: str) -> PowerLaw | None:
    """What a source ``synthetic:powerlaw?...`` asks for; None of other sources.

    Raises:
        InputError: numbers that no graph can have.
    """
    kind, _, what = text.partition(":")
    size, _, query = what.partition("?")
    return _shape(text, query, fractions=FRACTIONS, seed=0) if (kind, size) == ("synthetic", _POWER_LAW) else None


def _check_memory(text: str, staging: Staging) -> None:
    """
    Raises:
        InputError: the graph cannot be made in the memory that there is.
    """
    needed = _TIMES * (made_bytes(text) or 0)
    if staging.memory is not None and needed > 2 * staging.memory:
        raise InputError(
            f"{text!r} is made in memory, which takes about {format_size(needed)}, more than the "
            f"{format_size(2 * staging.memory)} to work in; give more, or take synthetic:{_POWER_LAW}?nodes=N&edges=N, which is "
            "made chunk by chunk"
        )


def _shape(text: str, query: str, *, fractions: tuple[float, float, float], seed: int) -> PowerLaw:
    known = {field.name: field for field in fields(PowerLaw) if field.name not in _GIVEN}
    numbers: dict[str, float] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise InputError(f"{text!r}: {_POWER_LAW} does not take {name!r}; known: {', '.join(known)}")
        try:
            numbers[name] = float(value) if known[name].type is float else int(value)
        except ValueError as error:
            raise InputError(
                f"{text!r}: {name} must be a {'number' if known[name].type is float else 'whole number'}, got {value!r}"
            ) from error
    missing = [name for name, field in known.items() if field.default is MISSING and name not in numbers]
    if missing:
        raise InputError(f"{text!r} lacks {missing[0]}; write synthetic:{_POWER_LAW}?nodes=N&edges=N")
    return PowerLaw(**numbers, fractions=fractions, seed=seed)  # type: ignore[arg-type]
