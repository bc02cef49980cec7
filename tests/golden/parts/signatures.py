"""Public names with their signatures, spelled the same on each version of Python, torch and NumPy.

A case is a name below ``halohop.``, and ``NAME::MEMBER`` is a member of a class. Types are named without their modules, because a
class may move. Members that other libraries define (torch, PyG) depend on a version and are left out.
"""

import builtins
import enum
import functools
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from tests.golden import kept

MODULES = [
    *("", "collectives", "cores", "datasets", "errors", "files", "hosts", "inference", "init", "launch.jobs.ray", "memory", "nn"),
    *("nn.functional", "optim", "placement", "records", "security", "slices", "typing"),
]
FACES = [
    *("dgl", "dgl.dataloading", "dgl.distributed", "dgl.distributed.nn", "dgl.distributed.optim", "dgl.function", "dgl.nn"),
    *("dgl.random", "dgl.sampling", "glt", "glt.channel", "glt.data", "glt.distributed", "glt.loader", "glt.partition"),
    *("glt.sampler", "glt.typing", "glt.utils"),
]
SHOWN = {
    "net.finders": ("Folder", "Name", "Store"),
    "recipes.config": ("InferConfig", "TrainConfig"),
    "recipes.decoders": ("DistMult",),
    "recipes.inference": ("infer",),
    "recipes.ranking": ("auc", "average_precision", "rank_links"),
    "recipes.train": ("train",),
    "recipes.triple_scores": ("TRIPLE_SCORES", "TripleScore"),
    "recipes.waiting": ("Watch",),
    "telemetry": ("Gauge",),
    "testing.leaks": ("assert_no_future",),
}
"""Further names that pages and examples import."""

SPECIAL = {
    *("__call__", "__contains__", "__enter__", "__eq__", "__exit__", "__getitem__", "__iter__", "__len__", "__next__"),
    *("__setitem__", "__add__", "__mul__", "__sub__", "__truediv__"),
}
"""Methods that users call by an operator or a statement."""


MADE_INSIDE = {"Graph": "halohop.open or halohop.connect", "hosts.Meeting": "halohop.hosts.meet"}
"""Classes that users do not call."""


def public_names() -> list[str]:
    """The kept names of halohop without its faces, such as ``datasets.synthetic``."""
    others = tuple(f"{module}." for module in [*FACES, *SHOWN])
    return [name for name in kept.load("signatures") if "::" not in name and not name.startswith(others)]


def make() -> dict[str, Any]:
    found: dict[str, Any] = {}
    first: dict[int, tuple[str, Any]] = {}  # with its value, which keeps the id from being used again
    for module in [*MODULES, *FACES, *SHOWN]:
        try:
            owner = importlib.import_module(f"halohop.{module}".rstrip("."))
        except ImportError as error:
            found[f"{module}.*"] = f"cannot be imported: {error}"
            continue
        for name in _public(owner, module):
            key = f"{module}.{name}".lstrip(".")
            try:
                value = getattr(owner, name)
            except Exception as error:
                found[key] = f"refused: {type(error).__name__}"
                continue
            if inspect.isclass(value) or callable(value):
                same, _ = first.setdefault(id(value), (key, value))
                if same != key:
                    found[key] = f"is {same}"
                    continue
            found[key] = f"class, made by {MADE_INSIDE[key]}" if key in MADE_INSIDE else described(value)
            if inspect.isclass(value) and _own(value):
                found |= {f"{key}::{member}": text for member, text in _members(value)}
    return found | _moved()


def _public(owner: types.ModuleType, module: str) -> list[str]:
    names = list(SHOWN.get(module) or getattr(owner, "__all__", ()))
    if not names:
        face, _, package = module.partition(".")
        works = importlib.import_module(f"halohop.{face}.names").WORKS.get(package)
        home = {name for name, value in vars(owner).items() if getattr(value, "__module__", None) == owner.__name__}
        names = works or [name for name in home if not name.startswith("_")]
    return sorted([*names, "open"] if not module else names)


def _moved() -> dict[str, str]:
    """Names that `halohop` still answers to although they have moved to a module of their own."""
    halohop = importlib.import_module("halohop")
    found = {}
    for module in MODULES[1:]:
        try:
            owner = importlib.import_module(f"halohop.{module}")
        except ImportError:  # said above
            continue
        for name in owner.__all__:
            value = getattr(owner, name)
            if name not in halohop.__all__ and getattr(halohop, name, None) is value:
                found[f"moved::{name}"] = f"{module}.{name}"
    return found


def _own(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] == "halohop"


def described(value: Any) -> Any:
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value) and not _own(value):
        return f"type {spelled(value)}"
    if inspect.isclass(value) and not isinstance(value, types.GenericAlias):
        foreign = [base for base in value.__mro__ if not _own(base) and base is not object]
        direct = [base.__qualname__ for base in foreign if any(base in each.__bases__ for each in value.__mro__ if _own(each))]
        is_plain = issubclass(value, enum.Enum) or (issubclass(value, Exception) and not _own(value.__init__))
        made = "" if is_plain else spelled_signature(value)
        return f"class{made}" + (f" is a {', '.join(name for name in direct if name != 'Generic')}" if direct else "")
    if callable(value) and not _is_type(value):
        return f"def{spelled_signature(value)}"
    return f"type {spelled(value)}" if _is_type(value) else f"= {default(value)}"


def _is_type(value: Any) -> bool:
    return typing.get_origin(value) is not None or isinstance(value, types.UnionType | typing.TypeVar | typing.NewType)


def _members(owner: type) -> Iterator[tuple[str, str]]:
    annotations = {
        name: (text, base) for base in reversed(owner.__mro__) if _own(base) for name, text in _annotations(base).items()
    }
    required = {field.name: field for field in fields(owner)} if is_dataclass(owner) else {}
    names = {name for base in owner.__mro__ if _own(base) for name in vars(base)} | {*annotations}
    values = getattr(owner, "__members__", {}) if issubclass(owner, enum.Enum) else {}
    yield from ((name, f"= {default(member.value)}") for name, member in values.items())
    for name in sorted(names - {*values}):
        if (name.startswith("_") and name not in SPECIAL) or (name == "__eq__" and is_dataclass(owner)):
            continue
        home = next(base for base in owner.__mro__ if name in vars(base) or name in _annotations(base))
        value = inspect.getattr_static(owner, name, None)
        if not _own(home):
            continue
        if name in required or (name in annotations and not callable(value) and not isinstance(value, property)):
            text, base = annotations[name]
            yield name, f"field: {spelled(text, base)}"
        elif isinstance(value, property | functools.cached_property):
            getter = value.fget if isinstance(value, property) else value.func
            returns = inspect.signature(getter).return_annotation
            can_be_set = ", can be set" if getattr(value, "fset", None) else ""
            yield name, f"property: {spelled(returns, getter)}{can_be_set}"
        elif isinstance(value, staticmethod | classmethod):
            yield name, f"{type(value).__name__}{spelled_signature(getattr(owner, name))}"
        elif inspect.isfunction(value):
            yield name, f"def{spelled_signature(value)}"
        elif inspect.isclass(value):
            yield name, "class"
        elif type(value).__name__ in ("member_descriptor", "getset_descriptor"):
            yield name, "attribute"
        else:
            yield name, f"= {default(value)}"


def _annotations(owner: type) -> dict[str, Any]:
    return vars(owner).get("__annotations__", {})


def spelled_signature(value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (ValueError, TypeError):
        return "(?)"
    home = value.__init__ if inspect.isclass(value) and "__signature__" not in vars(value) else value
    words, kinds = [], [each.kind for each in found.parameters.values()]
    for place, (name, each) in enumerate(found.parameters.items()):
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        if each.kind is each.KEYWORD_ONLY and not {each.KEYWORD_ONLY, each.VAR_POSITIONAL} & {*kinds[:place]}:
            words.append("*")
        text = f"{stars}{name}"
        text += "" if each.annotation is each.empty else f": {spelled(each.annotation, home)}"
        words.append(text if each.default is each.empty else f"{text} = {default(each.default)}")
        if each.kind is each.POSITIONAL_ONLY and kinds[place + 1 : place + 2] != [each.POSITIONAL_ONLY]:
            words.append("/")
    returns = found.return_annotation
    arrow = "" if returns is found.empty or inspect.isclass(value) else f" -> {spelled(returns, home)}"
    return f"({', '.join(words)}){arrow}"


class _Scope(dict[str, Any]):
    """Names that are imported for type checkers only stand for themselves."""

    def __init__(self, known: dict[str, Any]) -> None:
        super().__init__()
        self.known = known

    def __missing__(self, name: str) -> Any:
        if name in self.known or hasattr(builtins, name):
            raise KeyError(name)
        return type(name, (), {"__class_getitem__": classmethod(types.GenericAlias)})


def spelled(kind: Any, home: Any = None) -> str:
    """A type without modules; a text is read where `home` is defined."""
    if isinstance(kind, typing.ForwardRef):
        kind = kind.__forward_arg__
    if isinstance(kind, str):
        known = vars(importlib.import_module(home.__module__)) if getattr(home, "__module__", None) else {}
        try:
            kind = eval(kind, dict(known), _Scope(known))  # an annotation of our own source
        except Exception:
            return re.sub(r"\b(?:\w+\.)+(?=\w)", "", kind)
        if isinstance(kind, str):
            return spelled(kind, home)
    if kind is None or kind is type(None):
        return "None"
    if kind is ...:
        return "..."
    if isinstance(kind, list):
        return f"[{', '.join(spelled(each, home) for each in kind)}]"
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return str(getattr(kind, "__qualname__", None) or getattr(kind, "__name__", None) or default(kind))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(spelled(each, home) for each in inner)
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin is typing.Annotated:
        return spelled(inner[0], home)
    name = str(getattr(origin, "__qualname__", origin))
    if name == "ndarray":  # NumPy 2.3 spells its shape otherwise
        scalar = typing.get_args(inner[-1])
        return f"NDArray[{spelled(scalar[0], home)}]" if scalar else "ndarray"
    return f"{name}[{', '.join(spelled(each, home) for each in inner)}]"


def default(value: Any) -> str:
    """A value without addresses, modules and what a version of Python adds."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, list | tuple | set | frozenset) and type(value).__module__ == "builtins":
        inner = [default(each) for each in value]
        inner = sorted(inner) if isinstance(value, set | frozenset) else inner
        return f"{type(value).__name__}({', '.join(inner)})"
    if inspect.isclass(value) or inspect.isroutine(value):
        return str(value.__qualname__)
    text = repr(value)
    if text == "<factory>" or " object at 0x" in text or text.startswith("<object"):
        return "..."
    return re.sub(r" at 0x[0-9a-f]+", "", text)
