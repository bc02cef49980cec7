"""Runs all commands of the parts once: forked one after the other from one process, which imports torch once."""

import os
import tempfile
from functools import cache
from pathlib import Path

from tests.golden import commands
from tests.golden.commands import Outcome


@cache
def outcomes() -> dict[str, Outcome]:
    """What each command of the parts left, by the name of its case."""
    from tests.golden.parts import command_line, jobs

    asked = {**jobs.COMMANDS, **command_line.COMMANDS}
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        here = Path(folder) / "here"
        here.mkdir()
        for part in (jobs, command_line):
            part.prepare(here)
        env = {"PATH": f"{here / 'bin'}:{os.environ['PATH']}"}
        return dict(zip(asked, commands.run(here, list(asked.values()), env=env), strict=True))
