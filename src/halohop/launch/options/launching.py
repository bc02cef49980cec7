"""Options of `halohop launch`: what a job file may say, too. They have no defaults of their own, so that the file counts."""

from pathlib import Path
from typing import Annotated, Any

import typer

from halohop.launch.jobs.glt_file import SCRIPT

JOB, HOSTS, DATA, GLT = "Job", "Hosts and processes", "Data and results", "For configuration files of GLT's launcher"


def _option(panel: str, help_text: str, *flags: str, **settings: Any) -> Any:
    return typer.Option(*flags, rich_help_panel=panel, help=help_text, show_default=settings.pop("default", False), **settings)


Script = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- SCRIPT ARGUMENT...]",
        help="Your program, as after python: {graph} in an argument becomes the graph's folder or servers, {out} the run folder.",
        show_default=False,
    ),
]
JobFile = Annotated[Path | None, _option(JOB, "TOML or YAML file of the job; options win.", metavar="FILE")]
EngineName = Annotated[str | None, _option(JOB, "local, ssh, slurm, k8s or ray.", metavar="NAME", default="local")]
JobName = Annotated[str | None, _option(JOB, "Of the job, for the cluster.", metavar="NAME", default="halohop")]
Train = Annotated[
    list[str] | None,
    _option(JOB, "An option of halohop train, which runs instead of a script.", metavar="NAME=VALUE"),
]
StartName = Annotated[
    str | None,
    _option(
        JOB,
        "torchrun, or plain: the script itself, once on each host, with {rank} as its number.",
        metavar="NAME",
        default="torchrun",
    ),
]
Env = Annotated[list[str] | None, _option(JOB, "Environment of all processes.", metavar="NAME=VALUE")]
Hosts = Annotated[str | None, _option(HOSTS, "Names of the hosts, or how many.", metavar="NAME,NAME,...|N", default="1")]
Trainers = Annotated[int | None, _option(HOSTS, "Processes on each host.", min=1, default="1")]
ServerCount = Annotated[
    int | None, _option(HOSTS, "Servers that hold the graph.", metavar="N", min=1, default="none: the trainers' hosts hold it")
]
Replicas = Annotated[int | None, _option(HOSTS, "Servers that hold each partition.", metavar="N", min=1, default="1")]
MasterPort = Annotated[
    int | None,
    _option(
        HOSTS,
        "Where ranks meet, on the first host.",
        "--master-port",
        "--master_port",
        min=1,
        max=65535,
        metavar="N",
        default="29500",
    ),
]
Python = Annotated[str | None, _option(HOSTS, "Interpreter on the hosts.", metavar="FILE", default="this one")]
Folder = Annotated[str | None, _option(HOSTS, "Working directory of all processes.", metavar="FOLDER", default="this one")]
Data = Annotated[str | None, _option(DATA, "Folder of the partitions, or a URL.", metavar="FOLDER|URL")]
CacheFolder = Annotated[
    str | None,
    _option(
        DATA, "Folder on each host for its partitions; {host} is its name.", metavar="FOLDER", default="none: all see --data"
    ),
]
Out = Annotated[str | None, _option(DATA, "Folder of the run: logs and results.", metavar="FOLDER", default="runs/DATE-TIME")]
DryRun = Annotated[bool, typer.Option("--dry-run", rich_help_panel=JOB, help="Print what would run where, and start nothing.")]
Print = Annotated[bool, typer.Option("--print", rich_help_panel=JOB, help="Print what the engine would submit.")]
Wait = Annotated[
    bool, typer.Option("--wait", rich_help_panel=JOB, help="Slurm: stay until the job has ended; Ctrl-C cancels it.")
]
TokenOfJob = Annotated[
    Path | None,
    _option(JOB, "Holds the shared secret; only you may read it.", metavar="FILE", default="a new one for this run"),
]
EncryptJob = Annotated[
    bool | None, typer.Option("--encrypt", rich_help_panel=JOB, help="Encrypt what hosts send each other.", show_default=False)
]

MasterAddress = Annotated[
    str | None,
    _option(
        GLT, "Of node 0, as the others reach it.", "--master-addr", "--master_addr", metavar="HOST", default="its address for ssh"
    ),
]
GltEpochs = Annotated[int | None, _option(GLT, "Of training.", "--epochs", min=1, metavar="N", default="10")]
GltBatchSize = Annotated[
    int | None, _option(GLT, "Seeds of a batch.", "--batch-size", "--batch_size", min=1, metavar="N", default="2048")
]
GltScript = Annotated[str | None, _option(GLT, "Program below dst_paths.", "--script", metavar="FILE", default=SCRIPT)]
