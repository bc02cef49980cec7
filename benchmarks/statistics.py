"""From units to numbers: medians with their spread, and ratios of units that were measured next to each other."""

import statistics
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]

SAME_WORK = 0.02
"""How far the edges of two contestants' batches may differ: they draw differently, but from the same distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median, quartiles, and the extremes."""

    low: float
    q1: float
    median: float
    q3: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        return cls(low=min(values), q1=q1, median=median, q3=q3, high=max(values))


def rates(contestant: Record, count: str) -> list[float]:
    """What it did in a second, unit by unit."""
    return [unit["counts"][count] / unit["seconds"] for unit in contestant["units"]]


def milliseconds(contestant: Record, part: str = "") -> list[float]:
    """Milliseconds a batch, unit by unit; of a part of it ("data", "model") where the contestant tells them apart."""
    units = contestant["units"]
    return [1e3 * (unit["counts"][f"{part}_seconds"] if part else unit["seconds"]) / unit["counts"]["batches"] for unit in units]


def per_batch(contestant: Record, count: str) -> float:
    return statistics.mean(unit["counts"].get(count, 0) / unit["counts"]["batches"] for unit in contestant["units"])


def disagreement(record: Record, entry: str, versus: str) -> str:
    """Why two contestants cannot be compared: they did not do the same work. Empty if they did."""
    ours, theirs = (per_batch(record["contestants"][name], "edges") for name in (entry, versus))
    if abs(ours - theirs) <= SAME_WORK * max(ours, theirs):
        return ""
    return f"not comparable: {ours:,.0f} edges a batch against {theirs:,.0f}"


def ratio(record: Record, entry: str, versus: str) -> Spread | None:
    """How many times as much `entry` did in a second; round by round, since what disturbs a round disturbs both."""
    known = record["contestants"]
    if entry not in known or versus not in known:
        return None
    pairs = zip(rates(known[entry], record["measure"]), rates(known[versus], record["measure"]), strict=True)
    return Spread.of([ours / theirs for ours, theirs in pairs])


def memory_share(record: Record, name: str) -> float | None:
    """Share of the speed that memory alone would allow (see benchmarks/memory_model.py), with as many threads."""
    contestant = record["contestants"][name]
    threads = contestant["entry"]["threads"]
    limit = record["contestants"].get(f"limit: lines, {threads} thread{'s' * (threads > 1)}")
    lines = contestant["info"]["notes"].get("lines a batch")
    if limit is None or lines is None:
        return None
    model = 1e3 * lines / Spread.of(rates(limit, "lines")).median
    return model / Spread.of(milliseconds(contestant)).median
