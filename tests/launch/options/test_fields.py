"""Options that commands have from fields of dataclasses."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from halohop.launch.commands.partition import BuildOptions
from halohop.launch.commands.replicate import Copies
from halohop.launch.commands.serve import ServeOptions
from halohop.launch.jobs.job import Job
from halohop.launch.options.docstrings import field_texts, help_of
from halohop.launch.options.fields import from_fields
from halohop.launch.options.spellings import TERMINAL
from halohop.recipes.checks import Bytes, CacheSize, Seconds
from halohop.recipes.config import InferConfig, TrainConfig

KINDS = [Job, TrainConfig, InferConfig, ServeOptions, BuildOptions, Copies]
"""The dataclasses whose fields are options of commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cake:
    """A cake.

    Args:
        layers: Thickness of the layers. Details: from below.
        taste: What it tastes of. None: as `layers`.
        fruit: Fruit.
        wait_s: How long to bake.
        box, bag: How much fits in.
        iced: Put sugar on it.
        cut: Cut it.

    Raises:
        InputError: nobody reads this: that.
    """

    layers: tuple[int, ...] = (2, 1)
    taste: str | None = None
    fruit: Literal["fig", "plum"] = "fig"
    wait_s: Seconds = 60.0
    box: Bytes | None = None
    bag: CacheSize | None = "auto"
    iced: bool = False
    cut: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pie:
    """Another.

    Args:
        layers, taste: As in `Cake`.
        fruit: Its own.
    """

    layers: tuple[int, ...] = (1,)
    taste: str | None = None
    fruit: str = "rhubarb"


def bake(*words: str) -> tuple[dict[str, Any], str]:
    """What a command receives, and what it prints."""
    received: dict[str, Any] = {}
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    @from_fields(Cake, panels={"fruit": "Inside"}, before={"fruit": ("knife",)})
    def command(
        guest: Annotated[str, typer.Argument()],
        settings: dict[str, Any],
        knife: Annotated[str, typer.Option(help="A knife.")] = "none",
        iced: Annotated[int, typer.Option(help="How often.")] = 0,
    ) -> None:
        received.update(settings, guest=guest, knife=knife, often=iced)

    done = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"}).invoke(app, [*words])
    return received, done.output


def test_a_command_receives_values_of_the_fields() -> None:
    assert bake("ann")[0] == {
        **{"layers": (2, 1), "taste": None, "fruit": "fig", "wait_s": 60.0, "box": None, "bag": "auto", "cut": True},
        **{"guest": "ann", "knife": "none", "often": 0},
    }
    words = "ann --layers 3,-1 --taste fig --fruit plum --wait 2 --box 1KiB --bag none --no-cut --iced 2 --knife k"
    assert bake(*words.split())[0] == {
        **{"layers": (3, -1), "taste": "fig", "fruit": "plum", "wait_s": 2.0, "box": 1024, "bag": None, "cut": False},
        **{"guest": "ann", "knife": "k", "often": 2},
    }


def test_help_has_the_order_of_the_fields_and_their_texts() -> None:
    received, shown = bake("--help")
    words = " ".join(shown.split())
    assert received == {}
    found = [words.index(f"--{name}") for name in ("layers", "taste", "knife", "fruit", "wait", "box", "bag", "cut", "iced")]
    assert found == sorted(found)
    for text in ("--layers N,N,... Thickness of the layers. [default: 2,1]", "What it tastes of. [default: (as --layers)]"):
        assert text in words
    for text in ("--wait SECONDS How long to bake.", "--box SIZE How much fits in.", "--cut / --no-cut", "--fruit [fig|plum]"):
        assert text.replace("[fig", "<fig").replace("plum]", "plum>") in words
    assert "below" not in words


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--layers 3;2", "'3;2' is not like 15,10,5"),
        ("--box many", "'many' is no size"),
        ("--bag many", "or auto, or none"),
        ("--fruit pear", "'pear' is not one of 'fig', 'plum'"),
        ("--wait soon", "--wait"),
        ("--no-iced", "--no-iced"),
    ],
)
def test_text_that_no_field_can_hold_is_a_usage_error(words: str, complaint: str) -> None:
    received, shown = bake("ann", *words.split())
    assert received == {}
    assert complaint in " ".join(shown.split())


def test_texts_of_another_dataclass() -> None:
    assert field_texts(Pie) == {name: field_texts(Cake)[name] for name in ("layers", "taste")} | {"fruit": "Its own."}
    assert help_of(Pie, "taste") == ("What it tastes of.", "as --layers")


@pytest.mark.parametrize("kind", KINDS)
def test_the_docstring_has_a_line_for_each_field(kind: type) -> None:
    assert {*field_texts(kind)} == {each.name for each in fields(kind)}
    assert not [name for name in field_texts(kind) if not help_of(kind, name)[0].endswith((".", "..."))]


def test_what_only_a_terminal_needs_is_about_fields() -> None:
    assert TERMINAL.keys() <= {name for kind in KINDS for name in field_texts(kind)}
