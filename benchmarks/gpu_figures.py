"""Figures of a GPU with their bars, and the table that they make."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured, and what it should be."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the bar is held; empty where there is none.

        Example:
            >>> Figure(name="", value=0.7, unit="", at_least=0.8).verdict
            'no: at least 0.8'
        """
        if self.at_least is not None:
            return f"{'yes' if self.value >= self.at_least else 'no'}: at least {_number(self.at_least)}"
        if self.at_most is not None:
            return f"{'yes' if self.value <= self.at_most else 'no'}: at most {_number(self.at_most)}"
        return ""


def cached_limit(taken: int, cached: float, *, within: float, across: float) -> float:
    """The least seconds in which rows can be read of which a share lies on the device, and the others with the host: what is read
    there and all that is written goes through the device's memory, the others over the bus, at the same time.

    Args:
        taken: bytes of the rows.
        cached: the share.
        within, across: bytes a second, of the device's memory and of the bus.
    """
    near = taken * cached
    return max((near + taken) / within, (taken - near) / across)


def table(figures: Sequence[Figure]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield "| | measured | bar held |"
    yield "|---|---:|---|"
    for figure in figures:
        yield f"| {figure.name} | {_number(figure.value)} {figure.unit} | {figure.verdict} |".replace("  ", " ")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
