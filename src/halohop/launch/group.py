"""What all commands have in common: the library's errors in one line, and signals that let a command undo what it has begun."""

from contextlib import nullcontext
from typing import Any

import typer
import typer.core
from rich.console import Console
from rich.text import Text

from halohop.errors import HalohopError
from halohop.launch.signals import Signals

_EXIT_FAILED = 1


class Commands(typer.core.TyperGroup):
    """Says the library's errors in one line, where a traceback would tell its user nothing."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with ctx.obj.working() if isinstance(ctx.obj, Signals) else nullcontext():
                return super().invoke(ctx)
        except HalohopError as error:
            if ctx.params.get("debug"):
                raise
            Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), str(error)))
            raise typer.Exit(_EXIT_FAILED) from error
