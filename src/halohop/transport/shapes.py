"""What message types look like: for peers to see whether theirs agree, and for readers to refuse what is not in them."""

import hashlib
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import reduce
from operator import or_
from types import EllipsisType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from torch import Tensor

_UNIONS = (Union, UnionType)


def digest(types: Iterable[type], size: int) -> bytes:
    """Of all these message types and the dataclasses in them: their names, fields, annotations and defaults."""
    return hashlib.blake2b("\n".join(listing(types)).encode(), digest_size=size).digest()


def listing(types: Iterable[type]) -> list[str]:
    """A line for each of these message types and of the dataclasses in them; the same under all versions of Python.

    Example:
        >>> from halohop.store.requests import LocateRequest
        >>> listing([LocateRequest])
        ['LocateRequest(node_type: str, raw: Tensor)']
    """
    found: dict[type, str] = {}

    def visit(annotation: Any) -> None:
        if is_dataclass(annotation) and isinstance(annotation, type) and annotation not in found:
            hints = get_type_hints(annotation)
            text = ", ".join(f"{field.name}: {_spelled(hints[field.name])}{_default(field)}" for field in fields(annotation))
            found[annotation] = f"{annotation.__name__}({text})"
            for hint in hints.values():
                visit(hint)
        for part in get_args(annotation):
            visit(part)

    for message in types:
        visit(message)
    return sorted(found.values())


def _spelled(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in _UNIONS:
        return " | ".join(sorted(map(_spelled, parts)))
    if origin is Literal:
        return f"Literal{list(parts)}"
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(_spelled, parts))}]"
    return "..." if isinstance(annotation, EllipsisType) else str(getattr(annotation, "__name__", annotation))


def _default(field: "Field[Any]") -> str:
    if field.default is not MISSING:
        return f" = {field.default!r}"
    return "" if field.default_factory is MISSING else f" = {getattr(field.default_factory, '__name__', '')}()"


class StrictTypes:
    """For every dataclass a twin that can be decoded from the same bytes, where there is no field in them that it does not know.

    (msgspec has such strictness for its own structs only: of a dataclass it drops unknown fields.) Tensors are not looked at.
    """

    def __init__(self) -> None:
        self._twins: dict[type, Any] = {}

    def of(self, annotation: Any) -> Any:
        """The twin of a dataclass, or of an annotation with dataclasses in it."""
        if isinstance(annotation, type) and is_dataclass(annotation):
            if annotation not in self._twins:
                self._twins[annotation] = self._twin(annotation)
            return self._twins[annotation]
        if annotation is Tensor:
            return Any
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin is None or origin is Literal:
            return annotation
        inner = tuple(map(self.of, parts))
        return reduce(or_, inner) if origin in _UNIONS else origin[inner]

    def _twin(self, message: type) -> Any:
        hints = get_type_hints(message)
        columns: list[Any] = [
            (field.name, self.of(hints[field.name]), *([None] if _default(field) else [])) for field in fields(message)
        ]
        return msgspec.defstruct(message.__name__, columns, kw_only=True, forbid_unknown_fields=True)
