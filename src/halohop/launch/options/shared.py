"""Options of several commands that are not fields of a config, and the sections of their help."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from halohop.launch.options.fields import field_option
from halohop.launch.options.parsing import check_with, numbers, read_config_option, read_run_option
from halohop.memory import parse_size
from halohop.recipes.config import TrainConfig

MODEL, TRAINING, LINKS = "Model", "Training", "Link prediction"
EVALUATION, PLACE = "Evaluation and inference", "Where it runs"
Method = Literal["auto", "metis", "kaminpar", "ldg", "fennel", "random", "range"]


def size_option(help_text: str, default: str | bool, panel: str | None = None) -> Any:
    """An option that takes a size such as 4GB."""
    return _text_option("SIZE", parse_size, help_text, default, panel)


def fanout_option(help_text: str, default: str | bool, panel: str | None = None) -> Any:
    """An option that takes neighbors per hop, such as 15,10."""
    return _text_option("N,N,...", numbers, help_text, default, panel)


def _text_option(metavar: str, read: Callable[[str], object], help_text: str, default: str | bool, panel: str | None) -> Any:
    return typer.Option(metavar=metavar, callback=check_with(read), rich_help_panel=panel, show_default=default, help=help_text)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=read_config_option,
        is_eager=True,
        show_default=False,
        help="TOML or YAML file with these options. The command line overrides it.",
    ),
]
PartsFolder = Annotated[Path, typer.Argument(metavar="PARTS", help="Folder of a partitioned graph.")]
PartsOrSource = Annotated[
    str,
    typer.Argument(
        metavar="PARTS_OR_SOURCE",
        help="Folder or URL of a partitioned graph, its servers (HOST:PORT,...), or a source to partition first.",
    ),
]
PartsOrServers = Annotated[
    str,
    typer.Argument(metavar="PARTS", help="Folder or URL of a partitioned graph. With --fanout also its servers: HOST:PORT,..."),
]
Verify = Annotated[bool, typer.Option("--verify", help="First compare every file with its checksum.")]
PartitionMethod = Annotated[
    Method, typer.Option(help="How to assign nodes. auto is metis if it is installed and fits into memory.")
]
Normalize = Annotated[bool, typer.Option("--normalize/--no-normalize", help="Divide the features of each node by their sum.")]
Undirected = Annotated[bool, typer.Option("--undirected", help="Add the missing reverse of each edge.")]
Json = Annotated[bool, typer.Option("--json", help="Print events and results as JSON lines. Other text goes to standard error.")]
Nodes = Annotated[
    int,
    typer.Option(rich_help_panel=PLACE, help="Hosts to simulate on this machine. Each holds its share of the partitions.", min=1),
]
Trainers = Annotated[int, typer.Option(min=1, rich_help_panel=PLACE, help="Trainer processes per node.")]
RunFolder = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PLACE, help="Folder of the run, or its URL with --stage.", metavar="FOLDER", show_default="runs/DATE-TIME"
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        callback=read_run_option,
        is_eager=True,
        show_default=False,
        help="Continue the run in this folder or URL, with its options.",
        rich_help_panel=PLACE,
    ),
]
StageFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=PLACE,
        show_default="none",
        help="Local folder for files from URLs. All processes of this host share it.",
    ),
]
StageBytes = Annotated[
    str | None,
    size_option("Disk space for datasets in --stage, such as 1TB. The least recently used are removed.", "no limit", PLACE),
]
TokenFile = Annotated[Path | None, field_option(TrainConfig, "token_file").info]
Encrypt = Annotated[bool, field_option(TrainConfig, "encrypt").info]
Checkpoint = Annotated[str, typer.Option(metavar="FOLDER", help="RUN/checkpoint of a training run, or its URL with --stage.")]
ResultFolder = Annotated[str, typer.Option(metavar="FOLDER", help="Folder for the results, or a URL with --stage.")]
