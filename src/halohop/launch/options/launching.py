"""Options of `halohop launch`: what a job file may say, too. They have no defaults of their own, so that the file counts."""

from pathlib import Path
from typing import Annotated, Any

import typer

JOB, HOSTS, DATA = "Job", "Hosts and processes", "Data and results"


def _option(panel: str, help_text: str, *flags: str, **settings: Any) -> Any:
    return typer.Option(*flags, rich_help_panel=panel, help=help_text, show_default=settings.pop("default", False), **settings)


Script = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- SCRIPT ARGUMENT...]",
        help="Your program and its arguments. {graph} becomes the folder or servers of the graph, {out} the run folder.",
        show_default=False,
    ),
]
JobFile = Annotated[Path | None, _option(JOB, "TOML or YAML file of the job. Options override it.", metavar="FILE")]
EngineName = Annotated[str | None, _option(JOB, "local, ssh, slurm, k8s or ray.", metavar="NAME", default="local")]
JobName = Annotated[str | None, _option(JOB, "Job name on the cluster.", metavar="NAME", default="halohop")]
Train = Annotated[
    list[str] | None, _option(JOB, "Run halohop train with this option, instead of a script. Repeatable.", metavar="NAME=VALUE")
]
StartName = Annotated[
    str | None,
    _option(
        JOB,
        "torchrun, or plain: run the script once on each host. {rank} becomes the number of the host.",
        metavar="NAME",
        default="torchrun",
    ),
]
Env = Annotated[list[str] | None, _option(JOB, "Environment variable of all processes. Repeatable.", metavar="NAME=VALUE")]
Hosts = Annotated[str | None, _option(HOSTS, "Host names, or the number of hosts.", metavar="NAME,NAME,...|N", default="1")]
Trainers = Annotated[int | None, _option(HOSTS, "Trainer processes on each host.", metavar="N", min=1, default="1")]
ServerCount = Annotated[
    int | None, _option(HOSTS, "Servers that hold the graph.", metavar="N", min=1, default="none; trainers hold it")
]
Replicas = Annotated[int | None, _option(HOSTS, "Servers per partition.", metavar="N", min=1, default="1")]
MasterPort = Annotated[
    int | None,
    _option(
        HOSTS,
        "Port of the first host for the rendezvous.",
        "--master-port",
        "--master_port",
        min=1,
        max=65535,
        metavar="N",
        default="29500",
    ),
]
Python = Annotated[str | None, _option(HOSTS, "Python interpreter on the hosts.", metavar="FILE", default="this interpreter")]
Folder = Annotated[str | None, _option(HOSTS, "Working directory of all processes.", metavar="FOLDER", default="this folder")]
Data = Annotated[str | None, _option(DATA, "Folder of the partitions, or a URL.", metavar="FOLDER|URL")]
CacheFolder = Annotated[
    str | None,
    _option(DATA, "Folder of each host to copy its partitions to. {host} becomes its name.", metavar="FOLDER", default="none"),
]
Out = Annotated[str | None, _option(DATA, "Folder of the run, for logs and results.", metavar="FOLDER", default="runs/DATE-TIME")]
DryRun = Annotated[bool, typer.Option("--dry-run", rich_help_panel=JOB, help="Print the processes of each host. Start nothing.")]
Print = Annotated[bool, typer.Option("--print", rich_help_panel=JOB, help="Print what the engine would submit. Start nothing.")]
Wait = Annotated[bool, typer.Option("--wait", rich_help_panel=JOB, help="Slurm: wait for the end of the job. Ctrl-C cancels it.")]
TokenOfJob = Annotated[
    Path | None, _option(JOB, "File with the shared secret. Only you may have access.", metavar="FILE", default="a new secret")
]
EncryptJob = Annotated[
    bool | None, typer.Option("--encrypt", rich_help_panel=JOB, help="Encrypt connections between hosts.", show_default=False)
]

PathOfJob = Annotated[Path, typer.Option("--config", metavar="FILE", help="TOML or YAML file of the job.", show_default=False)]
PartsToCopy = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="FOLDER",
        help="Local folder of the partitions. They are copied to where the job's hosts read them.",
        show_default="data of the job, to its cache",
    ),
]
