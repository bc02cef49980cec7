"""Names and messages of strangers reach a terminal and a page as text, whatever they hold."""

import ast
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

import halohop
from halohop.errors import InputError
from halohop.launch import cli
from halohop.launch.commands import top
from halohop.launch.commands.top import Look
from halohop.launch.pages.page import PageTable, page
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console, echo
from halohop.loading.metrics import Counted
from halohop.recipes.events import print_event
from halohop.store.tables import EdgeTable, GraphTables, NodeTable

SOURCE = Path(halohop.__file__).parent

HOSTILE = {
    "red": "\x1b[31mall is well\x1b[0m",
    "title": "\x1b]0;title\x07",
    "link": "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "one-byte": "a\x9b2Jb",
    "backwards": "a\u202eb",
    "over": "a\rerror",
    "half": "a\udc9bb",
}


def is_text(shown: str) -> bool:
    return all(mark.isprintable() or mark == "\n" for mark in shown)


def console(width: int = 200, *, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal)


def said(at: Console) -> str:
    assert isinstance(at.file, io.StringIO)
    return at.file.getvalue()


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    logger = logging.getLogger("halohop")
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_text_in_any_form_is_escaped(name: str) -> None:
    shown = console()
    table = Table(title=name)
    table.add_column(name)
    table.add_row(Text(name))
    table.add_row(name)
    for one in (name, Text.assemble((name, "bold"), name), table):
        shown.print(one)
    assert is_text(said(shown))


@pytest.mark.parametrize("name", ["[red]x", "[/]", "[link=http://evil]x[/link]", ":smile:"])
def test_text_is_not_read_as_markup(name: str) -> None:
    shown = console(terminal=True)
    shown.print(name)
    table = Table(box=None, show_header=False, pad_edge=False, padding=0)
    table.add_row(name)
    shown.print(table)
    assert said(shown) == f"{name}\n{name}\n"


def test_styles_and_displays_that_move_still_reach_the_terminal() -> None:
    shown = console(terminal=True)
    with Live(Text("x", style="red"), console=shown, auto_refresh=False) as live:
        live.update(Text("y\x1b", style="red"), refresh=True)
    assert "\x1b[31mx" in said(shown)
    assert "\x1b[31my\\x1b\x1b[0m" in said(shown)


def test_a_table_makes_room_for_what_is_escaped() -> None:
    shown = console()
    table = Table(box=None)
    table.add_column("name", overflow="fold")
    table.add_column("count")
    table.add_row("a\x1b[31mb\x9b", "7")
    shown.print(table)
    assert r"a\x1b[31mb\x9b  7" in said(shown)


def test_a_result_is_one_line_and_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a" * 300 + "\x1b[2J")
    echo("partition 0\npartition 1")
    assert capsys.readouterr().out == "a" * 300 + "\\x1b[2J\n" + "partition 0\\npartition 1\n"


@pytest.mark.usefixtures("logging_as_before")
def test_log_lines_are_escaped_with_their_tracebacks(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logging.INFO, {})
    try:
        raise ValueError("c\x1b[2J\n2026-11-27 ERROR fake")
    except ValueError:
        logging.getLogger("halohop.net").exception("peer says %s", "a\x9bb")
    shown = capsys.readouterr().err
    assert is_text(shown)
    assert r"peer says a\x9bb" in shown
    assert r"ValueError: c\x1b[2J" in shown
    assert [line for line in shown.splitlines() if not line.startswith("  ")] == shown.splitlines()[:1]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_pages_and_events_are_escaped(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = PageTable(title=name, head=[name], rows=[[name]], note=name)
    assert is_text(page(title=name, subtitle=name, figures={name: name}, charts=(), tables=[table]))
    print_event({"event": "start", "model": name.replace("\udc9b", "")})
    assert is_text(capsys.readouterr().out)


def test_an_endpoint_cannot_control_the_terminal_of_top() -> None:
    looks = [Look(counted=Counted(sums={}, peers={"p\x1b[2J[/]": {"calls": 1.0}}), moment=float(at)) for at in range(2)]
    shown = console()
    shown.print(top.render(["a:1"], looks[:1], looks[1:]))
    assert is_text(said(shown))
    assert r"p\x1b[2J[/]" in said(shown)


def test_commands_show_a_strangers_data_set_and_errors_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "x\x1b[31m[red]\x9b\nerror"
    tables = GraphTables(
        nodes={evil: NodeTable(num_nodes=4, columns={evil: torch.zeros(4), f"{evil}_mask": torch.arange(4) < 2})},
        edges={(evil, evil, evil): EdgeTable(src=torch.arange(4), dst=torch.arange(4), columns={evil: torch.ones(4)})},
    )
    halohop.partition(tables, tmp_path / "parts", num_parts=2, method="range")
    runner = CliRunner(env={"COLUMNS": "400"})
    shown = runner.invoke(cli.app, ["inspect", str(tmp_path / "parts"), "--html", str(tmp_path / "page.html")], color=True)
    assert shown.exit_code == 0
    assert is_text(shown.output)
    assert shown.output.count(r"x\x1b[31m[red]\x9b\nerror float32") == 2
    assert not [line for line in shown.output.splitlines() if line.startswith("error")]
    assert is_text((tmp_path / "page.html").read_text())
    sums = runner.invoke(cli.app, ["sum-weights", str(tmp_path / "parts"), evil], color=True)
    assert sums.exit_code == 0
    assert is_text(sums.output)

    def refuse(*arguments: object, **options: object) -> None:
        raise InputError(f"a server says {evil}")

    monkeypatch.setattr("halohop.launch.pages.summary.summarize", refuse)
    error = runner.invoke(cli.app, ["inspect", "parts"], color=True)
    assert error.output == "error: a server says x\\x1b[31m[red]\\x9b\n  error\n"


AROUND = {
    *("print", "rich.print", "typer.echo", "typer.secho", "click.echo", "click.secho", "rich.console.Console"),
    *("sys.stderr.write", "sys.stdout.write", "console.file.write", "traceback.print_exc", "traceback.print_exception"),
}
WAYS_AROUND = {
    "launch/terminal/console.py": {"rich.console.Console"},
    "launch/cli.py": {"typer.echo"},  # the version
    "launch/commands/inspect.py": {"typer.echo"},  # JSON, in ASCII
    "launch/commands/launch.py": {"typer.echo"},  # what the user has asked to print, for programs that read it
    "launch/commands/compiling.py": {"typer.echo"},  # for a shell that reads it
    "launch/jobs/last_message.py": {"print"},  # to the log of a batch script, or of a pod
    "launch/jobs/k8s/watching.py": {"console.file.write"},  # the output of the user's own processes
    "launch/jobs/slurm/following.py": {"console.file.write"},  # the same
    "launch/processes/ending.py": {"print"},  # as Python prints the message of SystemExit
    "recipes/events.py": {"print"},  # JSON, in ASCII
    "recipes/inference.py": {"print"},  # the usage of a program
    "recipes/trainer.py": {"print"},  # the same
}


def test_text_has_no_way_around_the_console_and_the_loggers() -> None:
    found: dict[str, set[str]] = {}
    words, last = [set(name.split(".")) for name in AROUND], {name.rpartition(".")[2] for name in AROUND}
    for file in SOURCE.rglob("*.py"):
        text = file.read_text()
        there = set(re.findall(r"\w+", text))
        for node in ast.walk(ast.parse(text)) if any(each <= there for each in words) else ():
            name = ""
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                name = node.func.id
            elif isinstance(node, ast.ImportFrom) and any(alias.name == "Console" for alias in node.names):
                name = f"{node.module}.Console"
            elif isinstance(node, ast.Attribute) and node.attr in last:
                name = ast.unparse(node)
            if name in AROUND:
                found.setdefault(str(file.relative_to(SOURCE)), set()).add(name)
    assert found == WAYS_AROUND
