"""What the site consists of: its pages in their order, and the reference's, which are written from the public names."""

import importlib
import inspect
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAVIGATION = tomllib.loads(Path(__file__).with_name("navigation.toml").read_text())
LINK = re.compile(r"\]\(([\w/.-]+)(#[\w-]*)?\)")
"""A link to a file of the project, perhaps to a heading of it."""

FOREIGN = ("NodeLoader", "LinkLoader", "DataLoader", "BaseSampler", "FeatureStore", "GraphStore", "Exception", "Generic", "tuple")
"""Bases whose members the reference does not repeat: those of other libraries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the navigation: `pages` are paths below the root; those of the reference exist only in the site."""

    title: str
    pages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A page of the reference: `names` of halohop, and `modules` of it with all of theirs."""

    name: str
    title: str
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def entries(self) -> list[str]:
        """The public names of the page, as ``halohop.name`` or ``halohop.module.name``."""
        of_modules = (f"halohop.{name}.{each}" for name in self.modules for each in _public(name))
        return [*(f"halohop.{name}" for name in self.names), *of_modules]


def sections() -> list[Section]:
    """All sections, in the order of the site."""
    return [
        Section(title=section["title"], pages=tuple(page for pattern in section["pages"] for page in _expanded(pattern)))
        for section in NAVIGATION["section"]
    ]


def _expanded(pattern: str) -> list[str]:
    if pattern == "reference/*":
        return [f"reference/{subject.name}" for subject in subjects()]
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)) if "*" in pattern else [pattern]


def subjects() -> list[Subject]:
    """All pages of the reference."""
    return [
        Subject(**{key: value if isinstance(value, str) else tuple(value) for key, value in page.items()})
        for page in NAVIGATION["reference"]
    ]


def linked_files(pages: list[str]) -> list[str]:
    """Files that pages link to, beside those of Markdown: Python gets a page in the site, others can be downloaded."""
    found = set()
    for page in pages:
        text = (ROOT / page).read_text() if page.endswith(".md") else ""
        linked = ((ROOT / page).parent.joinpath(target).resolve() for target, _ in LINK.findall(text))
        found |= {path.relative_to(ROOT).as_posix() for path in linked if path.suffix != ".md" and path.is_file()}
    return sorted(found)


def reference_page(subject: Subject) -> str:
    """A page of the reference, in reStructuredText, with an entry for each public name."""
    lines = [subject.title, "=" * len(subject.title), ""]
    for name in subject.names:
        lines += _entry("halohop", name)
    for module in subject.modules:
        title = f"halohop.{module}"
        about = (inspect.getdoc(importlib.import_module(title)) or "").splitlines()[0]
        lines += [f"``{title}``", "-" * (len(title) + 4), "", about, ""]
        for name in _public(module):
            lines += _entry(title, name)
    return "\n".join(lines)


def _public(module: str) -> list[str]:
    return sorted(importlib.import_module(f"halohop.{module}").__all__, key=str.lower)


def _entry(module: str, name: str) -> list[str]:
    thing = getattr(importlib.import_module(module), name)
    if inspect.isclass(thing) and thing.__module__.startswith("halohop"):
        kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
        return [f".. {kind}:: {module}.{name}", "   :members:", f"   :inherited-members: {', '.join(FOREIGN)}", ""]
    kind = "autofunction" if inspect.isroutine(thing) else "autodata"
    return [f".. {kind}:: {module}.{name}", ""]
