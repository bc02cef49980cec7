"""The command lines of a role as one command line of bash: what differs between its processes becomes arrays."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halohop.launch.jobs.plan import Plan, Process
from halohop.launch.jobs.slurm.words import word

WIDTH = 110
"""Columns that a line of the script should not exceed."""

_MARKER = "host-{}.slurm.invalid"
_FIRST_PORT = 10**12
_LIST = re.compile(r"[\w/.:,-]*,[\w/.:,-]*", re.ASCII)


def markers(count: int) -> tuple[str, ...]:
    """Names that stand for hosts in a plan: only the script that runs will know them."""
    return tuple(_MARKER.format(number) for number in range(count))


def port_markers(count: int) -> tuple[int, ...]:
    """Numbers that stand for ports in a plan: only the script that runs will know its job's."""
    return tuple(range(_FIRST_PORT, _FIRST_PORT + count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One command line for several processes.

    Args:
        words: of bash. Those that differ between processes are elements ``[k]`` of arrays.
        arrays: their elements, words of bash, by name.
    """

    words: tuple[str, ...]
    arrays: Mapping[str, tuple[str, ...]]

    def uses(self, variable: str) -> bool:
        """Whether a variable of bash stands in the command line."""
        return any(f"${{{variable}}}" in word or f'"${variable}"' in word for word in self.words)


def role(name: str, commands: Sequence[Sequence[str]], names: Sequence[Mapping[str, str]]) -> Role:
    """Several command lines, which have equally many words, as one.

    Args:
        name: of the role, with which names of arrays begin.
        commands: the words of each process.
        names: for each process, texts and what bash shall put in their places.

    Example:
        >>> both = role("server", [["serve", "--share", "0/2"], ["serve", "--share", "1/2"]], [{}, {}])
        >>> both.words, dict(both.arrays)
        (('serve', '--share', '"${server_share[k]}"'), {'server_share': ('0/2', '1/2')})
    """
    rendered = [[word(text, known) for text in command] for command, known in zip(commands, names, strict=True)]
    words: list[str] = []
    arrays: dict[str, tuple[str, ...]] = {}
    for place, column in enumerate(zip(*rendered, strict=True)):
        if len({*column}) == 1:
            words.append(column[0])
            continue
        option = commands[0][place - 1] if place else ""
        array = f"{name}_{option[2:].replace('-', '_') if option.startswith('--') else place}"
        arrays[array] = column
        words.append(f'"${{{array}[k]}}"')
    return Role(words=tuple(words), arrays=arrays)


def names_of(process: Process, made: Plan) -> dict[str, str]:
    """What in the command line of a process the script knows by a name."""
    names = names_of_all(made)
    names |= {",".join(server.address for server in made.servers): '"$graph"'}
    return names | {process.address: '"$address"', process.host: '"$host"'}


def names_of_all(made: Plan) -> dict[str, str]:
    """The hosts and the chosen ports of a plan, by what stands for them there."""
    names = {host: f'"${{hosts[{number}]}}"' for number, host in enumerate(made.hosts)}
    ports = {int(server.address.rpartition(":")[2]) - _FIRST_PORT for server in made.servers}
    return names | {str(_FIRST_PORT + place): f'"$((port+{place + 1}))"' for place in ports if place >= 0}


def array(name: str, elements: Sequence[str]) -> list[str]:
    """The lines of bash that assign an array, whose elements are words of bash.

    Example:
        >>> array("shares", ["0/2,1/2", "1/2,0/2"])
        ["shares=('0/2,1/2' '1/2,0/2')"]
    """
    clear = [f"'{element}'" if _LIST.fullmatch(element) else element for element in elements]  # commas do not divide elements
    return folded([f"{name}=({clear[0]}" if clear else f"{name}=(", *clear[1:]], indent="  ", end="", close=")")


def folded(words: Sequence[str], *, indent: str, end: str, close: str = "") -> list[str]:
    """Words on lines of at most `WIDTH` columns, where they fit: later lines are indented, all but the last have an `end`. An
    option and its value stay together."""
    lines = [words[0]]
    for number, each in enumerate(words[1:], 1):
        alone = each.startswith("--") and "=" not in each and number + 1 < len(words) and not words[number + 1].startswith("-")
        value = len(words[number + 1]) + 1 if alone else 0
        if len(lines[-1]) + len(each) + value + len(end) + 1 > WIDTH and not _is_value(words, number):
            lines.append(indent + each)
        else:
            lines[-1] += f" {each}"
    return [*(line + end for line in lines[:-1]), lines[-1] + close]


def _is_value(words: Sequence[str], number: int) -> bool:
    option = words[number - 1]
    return option.startswith("--") and "=" not in option and not words[number].startswith("-")
