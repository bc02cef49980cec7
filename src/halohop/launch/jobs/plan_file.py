"""A plan as JSON: what `--dry-run` prints, and `plan.json` in the folder of a run. A plan holds no secret."""

from pathlib import Path

import msgspec

from halohop.files import write_file, writing
from halohop.files.private import refuse_link
from halohop.launch.jobs.plan import Plan

PLAN = "plan.json"


def plan_text(made: Plan) -> str:
    """Encodes a plan as JSON with an end of line."""
    return msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n"


def write_plan(made: Plan) -> None:
    """Writes `plan.json` into the run folder; replaces an earlier one.

    Raises:
        InputError: the file is a symbolic link.
        WriteError: the file cannot be written.
    """
    file = Path(made.job.out, PLAN)
    refuse_link(file)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, plan_text(made).encode())
