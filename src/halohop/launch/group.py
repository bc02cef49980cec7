"""What all commands have in common: the library's errors in one line."""

from typing import Any

import typer
import typer.core
from rich.console import Console
from rich.text import Text

from halohop.errors import HalohopError

_EXIT_FAILED = 1


class Commands(typer.core.TyperGroup):
    """Says the library's errors in one line, where a traceback would tell its user nothing."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except HalohopError as error:
            if ctx.params.get("debug"):
                raise
            Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), str(error)))
            raise typer.Exit(_EXIT_FAILED) from error
