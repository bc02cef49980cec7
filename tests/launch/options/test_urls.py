"""Every option that names a file or a folder takes a URL or refuses it by name, and no folder is called ``s3:``."""

import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from halohop.launch.cli import app
from halohop.launch.options.urls import PATHS, TAKES_URLS

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]

NEEDED = {
    "fetch": {"url": "parts", "folder": "here"},
    "export": {"parts": "parts", "out": "there"},
    "infer": {"parts": "parts", "checkpoint": "checkpoint"},
    "upload": {"parts": "parts", "url": "there"},
    "launch": {"data": "parts", "hosts": "1", "out": "run"},
    "launch copy": {"config": "job.toml"},
    "partition": {"source": "synthetic:tiny", "out": "parts"},
}
"""Arguments without which a command does not begin; those of others are like ``parts``."""

NO_PATHS = {
    *("addresses", "advertise", "backlog_bytes", "balance", "batch_size", "cache", "cpu", "decoder", "device", "endpoints"),
    *(
        "embed_optimizer",
        "engine",
        "env",
        "eval_fanout",
        "fanout",
        "feature_cache",
        "feature_dtype",
        "halo",
        "hosts",
        "hot_memory",
        "listen",
    ),
    *("locality", "memory", "method", "metrics", "model", "name", "partitions", "peers", "python"),
    *("relation", "replica_memory", "script", "servers", "share", "size", "split", "stage_bytes"),
    *("start", "target", "time_attr", "train", "weight_sums", "weights"),
}
"""Options that are text, and name no file."""


NOT_IN_FILES = {"config", "resume"}
"""Options that no configuration file takes the place of."""


def kinds(hint: Any) -> Iterator[type]:
    """The types that a parameter's annotation is made of."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) in (list, tuple):
        for inner in typing.get_args(hint):
            yield from kinds(inner)
    elif isinstance(hint, type):
        yield hint


def parameters() -> Iterator[tuple[str, Any, set[type]]]:
    for command, found in COMMANDS.items():
        hints = typing.get_type_hints(found.callback)
        for parameter in found.params:
            yield command, parameter, set(kinds(hints.get(parameter.name)))


def test_every_option_is_known_to_name_files_or_not_to() -> None:
    for command, parameter, found in parameters():
        name = f"put {parameter.name!r} of {command} into PATHS of halohop.launch.options.urls, or into NO_PATHS here"
        if Path in found:
            assert parameter.name in PATHS, name
        elif str in found:
            assert (parameter.name in PATHS) != (parameter.name in NO_PATHS), name


def refusing() -> Iterator[Any]:
    """Command, parameter, and whether a URL stands on the command line or in a configuration file."""
    for command, parameter, _ in parameters():
        if parameter.name in PATHS and parameter.name not in TAKES_URLS.get(command, ()):
            yield pytest.param(command, parameter, False, id=f"{command}-{parameter.name}")
            in_file = parameter.name not in NOT_IN_FILES and command != "launch copy"  # which reads a job only
            if in_file and any(one.name == "config" for one in COMMANDS[command].params):
                yield pytest.param(command, parameter, True, id=f"{command}-{parameter.name}-in-a-file")


def arguments(command: str, parameter: Any, value: str) -> list[str]:
    """A command line with a value for one parameter, and for those without which the command does not begin."""
    given = NEEDED.get(command, {"parts": "parts"} if any(one.name == "parts" for one in COMMANDS[command].params) else {})
    words = command.split()
    for one in COMMANDS[command].params:
        text = value if one.name == parameter.name else given.get(one.name)
        if text is not None:
            flag = next((flag for flag in one.opts if flag.startswith("--")), None)
            words += [text] if flag is None else [flag, text]
    return words


@pytest.mark.parametrize(("command", "parameter", "in_file"), list(refusing()))
def test_a_url_is_refused_by_name_before_anything_is_done(
    command: str, parameter: Any, in_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url, before = "s3://ann:secret@bucket/x", []
    words = arguments(command, parameter, url)
    if in_file:
        (tmp_path / "options.toml").write_text(f'{parameter.name} = "{url}"\n')
        at = words.index(url)
        words[at - words[at - 1].startswith("--") : at + 1] = []
        words += ["--config", "options.toml"]
        before = ["options.toml"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, done.output
    assert "s3://ann:***@bucket/x is a URL, which does not work here; " in "".join(done.output.split("\n")), done.output
    assert "secret" not in done.output.replace("s3://ann:***", "")
    assert [path.name for path in tmp_path.iterdir()] == before
