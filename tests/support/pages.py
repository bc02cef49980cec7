"""Sections of the documentation, for tests that run what they show."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def section(page: str, heading: str) -> str:
    """What is below a heading of the second level of a page, after what the page says before its first such heading."""
    introduction, *parts = (DOCS / page).read_text().split("\n## ")
    shared = [part for part in parts if part.startswith("A script for servers")]
    (found,) = (part for part in parts if part.splitlines()[0] == heading)
    return "\n## ".join([introduction, *shared, found])
