"""Objects of Kubernetes from the template `job.yaml`, and as YAML that all of its readers understand alike."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from halohop.errors import InputError

Object = dict[str, Any]

_PLAIN = re.compile(r"/?[A-Za-z][A-Za-z0-9._/-]+")
_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null"})
_EMPTY: tuple[Any, ...] = (None, "", [], {}, ())


def fill(part: str, values: Mapping[str, Any]) -> Any:
    """Returns a part of the template with values in the places of ``$names``, without fields whose value is empty.

    Args:
        part: its name in `job.yaml`.
        values: by name. A value is not searched for names. False and 0 are not empty.

    Raises:
        InputError: PyYAML is not installed.

    Example:
        >>> fill("secret", {"name": "a", "namespace": "", "labels": {}, "annotations": {}, "token": "$b"})
        {'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 'a'}, 'data': {'token': '$b'}}
    """
    return _filled(_template()[part], values)


def yaml_of(objects: Sequence[Any]) -> str:
    """Writes a document for each object.

    A text that YAML 1.1 and 1.2 read differently, or Go otherwise than Python (``1e3``, ``y``), is quoted.

    Raises:
        InputError: PyYAML is not installed.

    Example:
        >>> print(yaml_of([{"args": ["--lr", "1e3"]}]))
        args:
        - "--lr"
        - "1e3"
        <BLANKLINE>
    """
    yaml = _yaml()

    class Dumper(yaml.SafeDumper):  # type: ignore[misc, name-defined]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')

    Dumper.add_representer(str, text)
    made: str = yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, width=10_000, allow_unicode=True)
    return made


def _filled(part: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(part, str) and part.startswith("$"):
        return values[part[1:]]
    if isinstance(part, dict):
        made = {name: _filled(each, values) for name, each in part.items()}
        return {name: each for name, each in made.items() if each not in _EMPTY}
    if isinstance(part, list):
        return [each for each in (_filled(each, values) for each in part) if each not in _EMPTY]
    return part


@cache
def _template() -> Mapping[str, Any]:
    read: Mapping[str, Any] = _yaml().safe_load(files(__package__).joinpath("job.yaml").read_text(encoding="utf-8"))
    return read


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise InputError("the engine k8s writes YAML, which needs PyYAML: pip install 'halohop[yaml]'") from error
    return yaml
