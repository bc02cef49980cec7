"""What all commands have in common: help that is never cut, the library's errors in one line, and signals that let a command undo
what it has begun."""

import re
from collections import defaultdict
from contextlib import nullcontext
from typing import Any

import typer
import typer.core
from rich.text import Text

from halohop.errors import HalohopError
from halohop.launch.options.urls import check_urls
from halohop.launch.processes.starting import is_launched
from halohop.launch.terminal.console import Console, message
from halohop.launch.terminal.refusal import exit_code
from halohop.launch.terminal.signals import Signals
from halohop.launch.terminal.wording import options_of, spelled
from halohop.world import World

_OF_A_FILE = re.compile(r"\S+\.(?:toml|ya?ml): |\[[\w.]+\]: |options of ")
_LONGEST_NAME = len("sum-weights")


class Commands(typer.core.TyperGroup):
    """Says the library's errors in one line, in the words of the command line, where a traceback would not help the user.

    The exit code is 2 where an argument cannot work, and where a run was refused before anything of it was started; that of a
    cluster's job that failed; else 1.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            with ctx.obj.working() if isinstance(ctx.obj, Signals) else nullcontext():
                return super().invoke(ctx)
        except HalohopError as error:
            if ctx.params.get("debug"):
                raise
            command = self.get_command(ctx, ctx.invoked_subcommand)
            of_file = _OF_A_FILE.match(str(error))  # whose keys are no options
            text = spelled(str(error).removeprefix("options: "), options_of(command.params if command and not of_file else ()))
            Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), message(text)))
            raise typer.Exit(exit_code(error)) from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A command of two words comes before that of the first alone."""
        name = " ".join(args[:2])
        two = self.get_command(ctx, name) if len(args) > 1 else None
        return (name, two, args[2:]) if two else super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Lists the commands of each group, with the first sentence of each command's help."""
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name in self.list_commands(ctx):
            if command := self.get_command(ctx, name):
                groups[getattr(command, "rich_help_panel", None) or "Commands"].append(
                    (name, command.get_short_help_str(limit=99))
                )
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(_LONGEST_NAME), text) for name, text in records])


class Command(typer.core.TyperCommand):
    """A command whose help has a section for each group of options, as text: boxes cut long names at 80 columns.

    A URL is refused, before anything is done, where a file or a folder is needed: see `halohop.launch.options.urls`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any("://" in argument for argument in args):
            given, *_ = self.make_parser(ctx).parse_args(args=list(args))
            check_urls(self.name or "", self.params, given)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`PARTS` for `{PARTS}`, and `[COLUMN...]` for `[COLUMN...]...`."""
        pieces = super().collect_usage_pieces(ctx)
        return [re.sub(r"^(?:\{(.*)\}|\[(\[.*\])\]|(\[.*\]))(?:\.\.\.)?$", r"\1\2\3", piece) for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                own = "Arguments" if parameter.param_type_name == "argument" else "Options"
                sections[getattr(parameter, "rich_help_panel", None) or own].append(_plain(record))
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records, col_max=28)


def _plain(record: tuple[str, str]) -> tuple[str, str]:
    """A record of typer's help without Python's names of types.

    Example:
        >>> _plain(("--hidden <int range>", "Channels.  [default: (as --out); x>=1.0]"))
        ('--hidden N', 'Channels.  [default: as --out; at least 1]')
    """
    name = re.sub(r" <(str|path|list\[\w+\])>$", "", record[0])
    name = re.sub(r" <(int|float)( range)?>$", lambda found: " N" if found[1] == "int" else " NUMBER", name)
    text = re.sub(r"\[default:\s\((.*?)\)(?=[;\]])", r"[default: \1", record[1], flags=re.DOTALL)
    text = re.sub(r"(?<=\d)\.0(?=[;\]<])", "", text)
    text = re.sub(r"(?<= )([\d.]+)<=x<=([\d.]+)(?=\])", r"\1 to \2", text)
    return name, re.sub(r"\bx>=([\d.]+)(?=\])", r"at least \1", text)


def is_alone(context: Any) -> bool:
    """Whether this process is a command from its first statement to its end, and starts its trainers itself."""
    return isinstance(context.obj, Signals) and not is_launched(World.from_env())
