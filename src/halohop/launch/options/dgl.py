"""Options of DGL's launcher and of its `copy_files`, by DGL's names."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from halohop.launch.terminal.group import Command

DGL = "Options of DGL's launcher"
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


Workspace = Annotated[str | None, _option("Folder of all hosts to run the command in.", "--workspace", metavar="FOLDER")]
NumTrainers = Annotated[int | None, _option("Trainers on each host.", "--num_trainers", metavar="N")]
NumSamplers = Annotated[int | None, _option("Loader threads of each trainer.", "--num_samplers", metavar="N", default="0")]
NumServers = Annotated[
    int | None, _option("Multiplies the threads of the server of each host.", "--num_servers", metavar="N", default="1")
]
NumServerThreads = Annotated[
    int | None,
    _option("Requests that a server answers at a time.", "--num_server_threads", metavar="N", default="cores / trainers"),
]
PartConfig = Annotated[str | None, _option("JSON file of the partitions, below the workspace.", "--part_config", metavar="FILE")]
IpConfig = Annotated[str | None, _option("File with a line IP [PORT] for each host.", "--ip_config", metavar="FILE")]
SshPort = Annotated[
    int | None,
    _option("Port of ssh on the hosts.", "--ssh_port", metavar="N", min=1, max=65535, default="from the ssh configuration"),
]
SshUserName = Annotated[
    str | None, _option("User name on the hosts.", "--ssh_username", metavar="NAME", default="from the ssh configuration")
]
ExtraEnvs = Annotated[
    list[str] | None, _option("Environment variables of all processes.", "--extra_envs", metavar="NAME=VALUE ...")
]
NumOmpThreads = Annotated[
    int | None, _option("Threads of torch in each trainer.", "--num_omp_threads", metavar="N", default="half of cores / trainers")
]
GraphFormat = Annotated[str | None, _option("Ignored: csc, csr or coo.", "--graph_format", metavar="NAME", default="csc")]
ServerName = Annotated[str | None, _option("Ignored.", "--server_name", metavar="NAME")]
WorkspaceToFill = Annotated[str, _option("Folder of all hosts to copy to.", "--workspace", metavar="FOLDER")]
PartConfigHere = Annotated[str, _option("Local JSON file of the partitions.", "--part_config", metavar="FILE")]
IpConfigHere = Annotated[str, _option("Local file with a line IP [PORT] for each host.", "--ip_config", metavar="FILE")]
RelDataPath = Annotated[str, _option("Folder for the partitions, below the workspace.", "--rel_data_path", metavar="FOLDER")]
ScriptFolder = Annotated[
    str, _option("Local folder with the scripts. It keeps its name in the workspace.", "--script_folder", metavar="FOLDER")
]
