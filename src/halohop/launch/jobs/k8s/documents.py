"""Objects of Kubernetes as YAML that all of its readers understand alike."""

import re
from collections.abc import Sequence
from typing import Any

from halohop.errors import InputError

_PLAIN = re.compile(r"/?[A-Za-z][A-Za-z0-9._/-]+")
_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null"})


def yaml_of(objects: Sequence[Any]) -> str:
    """A document for each object.

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
    try:
        import yaml
    except ImportError as error:
        raise InputError("the engine k8s writes YAML, which needs PyYAML: pip install 'halohop[yaml]'") from error

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')

    Dumper.add_representer(str, text)
    made: str = yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, width=10_000, allow_unicode=True)
    return made
