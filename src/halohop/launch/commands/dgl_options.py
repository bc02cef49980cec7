"""The options of DGL's launcher as `halohop launch` has them."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from halohop.errors import InputError
from halohop.launch.jobs.dgl_file import DglOptions
from halohop.launch.options.parsing import pairs

_SAID = {
    "engine": "--ip_config",
    "hosts": "--ip_config",
    "trainers": "--num_trainers",
    "servers": "--num_servers",
    "data": "--part_config",
    "cache": "--part_config",
    "folder": "--workspace",
    "start": "--num_trainers",
    "train": "the command",
}
"""Options of `halohop launch` that say what one of DGL's says."""


def dgl_options(given: Mapping[str, Any]) -> DglOptions | None:
    """The options of DGL's launcher among those of a command; None where there are none.

    Raises:
        InputError: one is missing or cannot work, or another option says the same.
    """
    own = {each.name: given[each.name] for each in fields(DglOptions) if given[each.name] not in (None, (), [])}
    if not own:
        return None
    if missing := [f"--{each.name}" for each in fields(DglOptions) if each.default is MISSING and each.name not in own]:
        raise InputError(f"--{next(iter(own))} is an option of DGL's launcher, which needs {', '.join(missing)}, too")
    for name, other in _SAID.items():
        if given[name] and given[name] != "ssh":
            raise InputError(f"{name}={given[name]!r} contradicts {other}, an option of DGL's launcher; leave {name} out")
    if "extra_envs" in own:
        own["extra_envs"] = tuple(pairs(own["extra_envs"], "--extra_envs").items())
    return DglOptions(**own)
