"""Options of the vectors that nodes without features learn."""

from typing import Annotated

import typer

from halohop.launch.options.shared import MODEL, TRAINING
from halohop.recipes.config import EmbedOptimizer

Width = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=MODEL,
        show_default="as --hidden",
        help="Width of learned embeddings, for node types without features.",
    ),
]
Optimizer = Annotated[EmbedOptimizer, typer.Option(rich_help_panel=TRAINING, help="Optimizer of learned embeddings.")]
LearningRate = Annotated[
    float | None, typer.Option(rich_help_panel=TRAINING, show_default="as --lr", help="Learning rate of learned embeddings.")
]
