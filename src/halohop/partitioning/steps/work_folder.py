"""The folder of a build that several processes share: it is there with its plan in it, or not at all."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from halohop.errors import InputError
from halohop.files.aside import writing
from halohop.files.reading import decode_json, read_regular
from halohop.files.whole import whole_folder

PLAN = "plan.json"
FOLDERS = ("workers", "steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    digest: str
    plan: dict[str, Any]


def agree(folder: Path, plan: Mapping[str, Any]) -> None:
    """Makes the folder with its plan in it, both at once; or finds the same plan there.

    Raises:
        InputError: another plan is there; names the first difference.
    """
    data = msgspec.json.encode(plan, order="sorted")
    own = _Plan(digest=hashlib.blake2b(data, digest_size=16).hexdigest(), plan=msgspec.json.decode(data))
    if not folder.exists():
        making = whole_folder(folder, lambda: None, overwrite=False)
        with suppress(InputError), making as partial, writing(partial):  # another worker was quicker
            (partial / PLAN).write_bytes(msgspec.json.encode(own))
            for name in FOLDERS:
                (partial / name).mkdir()
    try:
        there: _Plan = decode_json(read_regular(folder / PLAN), folder / PLAN, _Plan)
    except FileNotFoundError as error:
        raise InputError(f"{folder} is there and is no unfinished build; move it away, or choose another name") from error
    if there.digest != own.digest:
        names = [name for name in {**there.plan, **own.plan} if there.plan.get(name) != own.plan.get(name)]
        said = "; ".join(f"{name} {there.plan.get(name)!r}, now {own.plan.get(name)!r}" for name in names)
        raise InputError(
            f"{folder} holds an unfinished build of something else ({said}); go on with that, or delete the folder to begin anew"
        )
