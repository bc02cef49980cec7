"""Reads help texts and names of defaults from the docstrings of dataclasses."""

import inspect
import re
from functools import cache
from importlib import import_module

_ARGUMENT = re.compile(r"^    ([\w, ]+): (.*(?:\n     .*)*)", re.MULTILINE)
_HELP = re.compile(r"(.*?)(?: None: (.*?)\.)?(?: Details: .*)?")


def flag_of(field: str) -> str:
    """The name of a field's option.

    Example:
        >>> flag_of("batch_size"), flag_of("deadline_s")
        ('--batch-size', '--deadline')
    """
    return f"--{field.removesuffix('_s').replace('_', '-')}"


def help_of(kind: type, field: str) -> tuple[str, str | None]:
    """Returns the help text of a field, and the words for its default None.

    The help is the field's text up to "None:" or "Details:". What follows "None:" up to "Details:" says what None means.
    Fields in backticks become options.

    Example:
        >>> from halohop.recipes.config import TrainConfig
        >>> help_of(TrainConfig, "embed_dim")
        ('Width of learned embeddings, for node types without features.', 'as --hidden')
    """
    texts = field_texts(kind)
    found = _HELP.fullmatch(texts.get(field, ""))
    assert found is not None, field
    text, none = (
        part and re.sub(r"`([^`]+)`", lambda name: flag_of(name[1]) if name[1] in texts else name[1], part)
        for part in found.groups()
    )
    return text, none


@cache
def field_texts(kind: type) -> dict[str, str]:
    """Returns the text of each field: lines ``name: text`` or ``name, name: text`` under ``Args:`` in its class's docstring.

    The text "As in `Other`." stands for what the dataclass `Other` says, of the same module or with its module's name.
    """
    listed = (inspect.getdoc(kind) or "").partition("Args:\n")[2].partition("\n\n")[0]
    texts = {name: " ".join(text.split()) for found, text in _ARGUMENT.findall(listed) for name in found.split(", ")}
    for name, text in texts.items():
        if other := re.fullmatch(r"As in `(?:([\w.]+)\.)?(\w+)`\.", text):
            texts[name] = field_texts(getattr(import_module(other[1] or kind.__module__), other[2]))[name]
    return texts
