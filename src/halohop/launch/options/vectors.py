"""Options of the vectors that nodes without features learn."""

from typing import Annotated

import typer

from halohop.launch.options import choices
from halohop.launch.options.shared import MODEL, TRAINING

Width = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=MODEL,
        show_default="as --hidden",
        help="Width of the vectors that nodes without features learn.",
    ),
]
Optimizer = Annotated[
    choices.EmbedOptimizer, typer.Option(rich_help_panel=TRAINING, help="What trains the vectors of nodes without features.")
]
LearningRate = Annotated[float | None, typer.Option(rich_help_panel=TRAINING, show_default="as --lr", help="Its learning rate.")]
