"""Options of batches that are made on a GPU."""

from typing import Annotated

import typer

from halohop.launch.options.shared import PLACE, size_option
from halohop.recipes.config import GraphMode

Mode = Annotated[
    GraphMode | None,
    typer.Option(
        rich_help_panel=PLACE,
        show_default="batches on the CPU",
        help="Make batches on the GPU. Sample on the CPU, or on the GPU with the graph in host memory (zero_copy) or in GPU "
        "memory (cuda).",
    ),
]
FeatureCache = Annotated[str | None, size_option(PLACE, "GPU memory for the hottest feature rows, such as 4GB.", "none")]
Amp = Annotated[bool, typer.Option("--amp", rich_help_panel=PLACE, help="Train with automatic mixed precision in bfloat16.")]
Compile = Annotated[
    bool, typer.Option("--compile", rich_help_panel=PLACE, help="Use torch.compile on training steps. Batches are padded.")
]
