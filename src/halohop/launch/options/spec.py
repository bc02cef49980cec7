"""Options from a file: the names of the command line, as TOML or YAML; what stands on the command line wins."""

import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from halohop.errors import InputError
from halohop.files.aside import writing
from halohop.files.reading import decode_json, read_regular
from halohop.files.url_folder import UrlFolder
from halohop.files.urls import is_url, masked
from halohop.files.whole import write_file
from halohop.launch.options.urls import check_urls

OPTIONS = "options.json"
"""In the folder of a run: how it was started."""

AUTO = "auto"
"""The value of ``--resume`` that resumes the run in ``--out`` if there is one, and starts it otherwise."""

_ALONE = {"config", "copy_to", "help", "resume"}


def from_file(context: typer.Context, path: Path | None) -> Path | None:
    """Callback of an eager option ``--config``: the file's values become the defaults of the other options."""
    if path is not None and not context.resilient_parsing:
        known = {
            name: _flags(parameter) for parameter in context.command.params if (name := parameter.name) and name not in _ALONE
        }
        values = options(read(path), known, path)
        check_urls(context.command.name or "", context.command.params, values)
        context.default_map = {**(context.default_map or {}), **values}
    return path


def from_run(context: typer.Context, folder: str | None) -> str | None:
    """Callback of an eager option ``--resume``: the options that the run in a folder, or at a URL, was started with become the
    defaults.

    Where the folder is not here, as on the other hosts of a run, they have to be given again. With "auto" they always are: they
    say which run it is.
    """
    if folder not in (None, AUTO) and not context.resilient_parsing:
        context.default_map = {**read_options(folder), **(context.default_map or {})}
    return folder


def keep_options(folder: Path, values: Mapping[str, Any]) -> None:
    """Writes down what `from_run` reads: options by the names of their parameters, as the command line would spell them."""
    spelled = {
        name: ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        for name, value in values.items()
        if value is not None and name not in _ALONE | {"out"}
    }
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / OPTIONS, json.dumps(spelled, indent=2).encode())


def read(path: Path) -> dict[str, Any]:
    """The table in a TOML or YAML file.

    Raises:
        InputError: no such file, neither TOML nor YAML by its name, or not what its name says.
    """
    if not path.is_file():
        raise InputError(f"there is no configuration file {path}")
    if path.suffix.lower() not in (".toml", ".yaml", ".yml"):
        raise InputError(f"configuration file {path} must end in .toml, .yaml or .yml")
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text) if path.suffix.lower() == ".toml" else _yaml(text, path)
    except RecursionError:
        raise InputError(f"configuration file {path} cannot be read: it is nested too deep") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"configuration file {path} cannot be read: {error}") from error
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise InputError(f"configuration file {path} holds {type(table).__name__}, expected options: `epochs: 10`")
    return table


def options(table: Mapping[str, Any], known: Mapping[str, frozenset[str]], path: Path) -> dict[str, Any]:
    """The file's values by the names of the parameters that they belong to, as the command line would spell them.

    Args:
        table: the file; ``batch-size`` and ``batch_size`` are the same.
        known: the parameters, and the other names that each has.
        path: of the file, for errors.

    Raises:
        InputError: an unknown name, or one name twice; a table or an empty value where an option is expected.

    Example:
        >>> known = {"batch_size": frozenset({"batch-size"}), "fanout": frozenset()}
        >>> options({"batch-size": 512, "fanout": [10, 5]}, known, Path("run.toml"))
        {'batch_size': 512, 'fanout': '10,5'}
        >>> options({"fan_out": [10, 5]}, known, Path("run.toml"))
        Traceback (most recent call last):
        halohop.errors.InputError: run.toml: unknown option 'fan_out'; did you mean 'fanout'?
    """
    spelled = {name: name for name in known} | {other: name for name, others in known.items() for other in others}
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = spelled.get(str(key)) or spelled.get(str(key).replace("-", "_"))
        if name is None:
            raise InputError(f"{path}: unknown option {key!r}; {nearest(str(key), spelled)}")
        if name in found:
            raise InputError(f"{path}: option {key!r} is given twice, with '-' and with '_'")
        if value is None or isinstance(value, dict):
            raise InputError(f"{path}: option {key!r} needs a value, got {value!r}")
        found[name] = ",".join(map(str, value)) if isinstance(value, list) else value
    return found


def read_options(folder: str) -> dict[str, Any]:
    """What `keep_options` wrote in a folder or at a URL; nothing if there is no such file."""
    try:
        data = UrlFolder(folder).read(OPTIONS) if is_url(folder) else read_regular(Path(folder, OPTIONS))
    except FileNotFoundError:
        return {}
    values: dict[str, Any] = decode_json(data, f"{masked(folder)}/{OPTIONS}", dict[str, Any])
    return values


def _flags(parameter: Any) -> frozenset[str]:
    return frozenset(flag.lstrip("-") for flag in parameter.opts if flag.startswith("--"))


def nearest(key: str, spelled: Mapping[str, str]) -> str:
    """What an error about an unknown name says: the names that are like it, or all.

    Args:
        key: the name that is not known.
        spelled: how names may be spelled, and what each spelling means.
    """
    near = difflib.get_close_matches(key.replace("-", "_"), spelled.values(), n=3)
    if near:
        return f"did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?"
    return f"known: {', '.join(sorted(set(spelled.values())))}"


def _yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise InputError(f"{path} needs PyYAML: pip install 'halohop[yaml]', or write it as TOML") from error
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date or a number that Python cannot hold
        raise InputError(f"configuration file {path} cannot be read: {error}") from error
