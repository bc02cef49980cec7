"""Options of DGL's launcher and of its `copy_files`, by DGL's names."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from halohop.launch.terminal.group import Command

DGL = "For command lines of DGL's tools"
_SETTING = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


class DglCommand(Command):
    """A command that takes several words after ``--extra_envs``, as DGL's launcher does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [*one_each(args)])


def one_each(words: Sequence[str]) -> Iterator[str]:
    """Words of a command line, with an option for each of the settings that follow ``--extra_envs``.

    Example:
        >>> " ".join(one_each(["--extra_envs", "A=1", "B=2", "--num_servers", "1", "python3 train.py --lr=1"]))
        '--extra_envs A=1 --extra_envs B=2 --num_servers 1 python3 train.py --lr=1'
    """
    flag, before = "--extra_envs", ""
    listing = False
    for word in words:
        listing = listing and _SETTING.match(word) is not None
        if listing and before != flag:
            yield flag
        yield word
        listing, before = listing or word.partition("=")[0] == flag, word


def _option(help_text: str, *flags: str, **settings: Any) -> Any:
    return typer.Option(*flags, rich_help_panel=DGL, help=help_text, show_default=settings.pop("default", False), **settings)


Workspace = Annotated[str | None, _option("Folder on all hosts where the command runs.", "--workspace", metavar="FOLDER")]
NumTrainers = Annotated[int | None, _option("Trainers on each host.", "--num_trainers", metavar="N")]
NumSamplers = Annotated[int | None, _option("Of each trainer: threads of loaders.", "--num_samplers", metavar="N", default="0")]
NumServers = Annotated[
    int | None,
    _option("Of each host: one process with as many times the threads.", "--num_servers", metavar="N", default="1"),
]
NumServerThreads = Annotated[
    int | None,
    _option(
        "Requests that a server answers at a time.",
        "--num_server_threads",
        metavar="N",
        default="cores divided among trainers, for all of a host",
    ),
]
PartConfig = Annotated[
    str | None, _option("JSON in the folder of the partitions, from the workspace.", "--part_config", metavar="FILE")
]
IpConfig = Annotated[str | None, _option("Hosts, a line each: IP [PORT].", "--ip_config", metavar="FILE")]
SshPort = Annotated[
    int | None, _option("Of the hosts' ssh.", "--ssh_port", metavar="N", min=1, max=65535, default="as ssh is configured")
]
SshUserName = Annotated[str | None, _option("On the hosts.", "--ssh_username", metavar="NAME", default="as ssh is configured")]
ExtraEnvs = Annotated[list[str] | None, _option("Environment of all processes.", "--extra_envs", metavar="NAME=VALUE ...")]
NumOmpThreads = Annotated[
    int | None,
    _option(
        "Of torch, in each trainer.",
        "--num_omp_threads",
        metavar="N",
        default="half of the cores, divided among trainers",
    ),
]
GraphFormat = Annotated[
    str | None, _option("csc, csr or coo; it changes nothing.", "--graph_format", metavar="NAME", default="csc")
]
ServerName = Annotated[str | None, _option("It changes nothing.", "--server_name", metavar="NAME")]
WorkspaceToFill = Annotated[str, _option("Folder on all hosts.", "--workspace", metavar="FOLDER")]
PartConfigHere = Annotated[str, _option("JSON beside the partitions, here.", "--part_config", metavar="FILE")]
IpConfigHere = Annotated[str, _option("Hosts, a line each: IP [PORT]; here.", "--ip_config", metavar="FILE")]
RelDataPath = Annotated[str, _option("Folder below the workspace for the partitions.", "--rel_data_path", metavar="FOLDER")]
ScriptFolder = Annotated[
    str, _option("Folder with the scripts; it comes into the workspace under its own name.", "--script_folder", metavar="FOLDER")
]
