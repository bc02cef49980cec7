"""How today's engines say what `jobs` keeps as data: the text of a plan, batch scripts, manifests.

It may change where the data do not.
"""

from typing import Any

from tests.golden import transcripts
from tests.golden.parts.jobs import COMMANDS, FILES, MIXED


def make() -> dict[str, Any]:
    outcomes, found = transcripts.outcomes(), {}
    for name in [*FILES, *MIXED]:
        shown: dict[str, str] = {}
        for how in ("--dry-run", "--print"):
            text = outcomes[f"{name} {how}"].out if f"{name} {how}" in COMMANDS else ""
            if text not in ("", *shown.values()):  # of the engine local both are one
                shown[how] = text
        found[f"{name}.txt"] = "\n".join(f"$ halohop launch {how}\n{text}" for how, text in shown.items()).encode()
    return found
