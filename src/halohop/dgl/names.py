"""Which names of DGL there are here, and what takes the place of the others: names.toml, which code, tests and docs read."""

import tomllib
from pathlib import Path
from typing import Any

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))

WORKS: dict[str, list[str]] = _TABLES["works"]
"""By package of DGL, what works with DGL's arguments, defaults and results."""

ACCEPTED: dict[str, str] = _TABLES["accepted"]
"""Arguments that change nothing here, and what happens instead. Each is said once a process."""

REFUSED: dict[str, str] = {name: group["instead"] for group in _TABLES["refused"] for name in group["names"]}
"""What is refused when it is used, and what to do instead."""
