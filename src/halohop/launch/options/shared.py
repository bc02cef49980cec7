"""Options of several commands that are not fields of a config, and the sections of their help."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from halohop.launch.options.fields import field_option
from halohop.launch.options.parsing import check_with, numbers, read_config_option
from halohop.memory import parse_size
from halohop.recipes.config import TrainConfig

MODEL, TRAINING, LINKS = "Model", "Training", "Link prediction"
EVALUATION, PLACE = "Evaluation and inference", "Where it runs"
Method = Literal["auto", "metis", "kaminpar", "ldg", "fennel", "random", "range"]


def fanout_option(help_text: str, default: str | bool) -> Any:
    """An option that takes neighbors per hop, such as 15,10."""
    return typer.Option(metavar="N,N,...", callback=check_with(numbers), show_default=default, help=help_text)


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
Verify = Annotated[bool, typer.Option("--verify", help="First compare every file with its checksum.")]
Json = Annotated[bool, typer.Option("--json", help="Print events and results as JSON lines. Other text goes to standard error.")]
Nodes = Annotated[
    int,
    typer.Option(rich_help_panel=PLACE, help="Hosts to simulate on this machine. Each holds its share of the partitions.", min=1),
]
Trainers = Annotated[int, typer.Option(min=1, rich_help_panel=PLACE, help="Trainer processes per node.")]
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
    typer.Option(
        metavar="SIZE",
        callback=check_with(parse_size),
        rich_help_panel=PLACE,
        show_default="no limit",
        help="Disk space for datasets in --stage, such as 1TiB. The least recently used are removed.",
    ),
]
TokenFile = Annotated[Path | None, field_option(TrainConfig, "token_file").info]
Encrypt = Annotated[bool, field_option(TrainConfig, "encrypt").info]
