"""What hosts have found, compared before anything starts: the same script and data set, and all partitions."""

from collections.abc import Mapping

from halohop.errors import InputError
from halohop.launch.jobs.host.messages import Checked
from halohop.launch.jobs.plan import Plan
from halohop.store.share import in_shares


def check_alike(found: Mapping[str, Checked]) -> None:
    """Compares the files of hosts. The data set comes last, and hosts without a server may not read it, unlike the first host.

    Raises:
        InputError: hosts see different scripts, or different data sets.
    """
    first, *others = found
    for other in others:
        for one, two in zip(found[first].seen, found[other].seen, strict=False):
            if one.digest != two.digest:
                raise InputError(
                    f"{two.path} on {other} differs from {one.path} on {first}, but all hosts must have the same; copy it from "
                    "one to all, or name a folder that all of them see"
                )


def check_all_there(found: Mapping[str, Checked], made: Plan) -> None:
    """
    Raises:
        InputError: a server's partitions are not on its host, or a partition is on no host; names them.
    """
    there = [process for process in made.processes if process.host in found]
    reading = [process for process in there if process.data is not None and not process.data.copied]
    if not reading or not (num_parts := found[reading[0].host].num_parts):
        return
    for process in reading:
        assert process.data is not None
        if process.data.shares and (lacks := {*in_shares(process.data.shares, num_parts)} - {*found[process.host].parts}):
            raise InputError(
                f"{process.name} on {process.host} is to hold partitions {sorted(lacks)}, which are not in {process.data.folder} "
                "there; copy them to it, or share the folder"
            )
    held = {part for process in reading for part in found[process.host].parts}
    if lacks := {*range(num_parts)} - held:
        raise InputError(
            f"partitions {sorted(lacks)} of {num_parts} are on none of the {len(made.hosts)} hosts; copy them to one, or name a "
            "host that has them"
        )
