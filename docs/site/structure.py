"""What the site consists of: its pages in their order, and the reference's, which are written from the public names."""

import importlib
import inspect
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAVIGATION = tomllib.loads(Path(__file__).with_name("navigation.toml").read_text())
LINK = re.compile(r"\]\(([\w/.-]+)(#[\w-]*)?\)")
"""A link to a file of the project, perhaps to a heading of it."""

GENERATED = tuple(f"reference/{name}.md" for name in ("command_line", "configuration", "metrics", "names_of_dgl", "names_of_glt"))
"""Pages that `docs/site/generated.py` writes, in the order of the sidebar."""

FOREIGN = (
    *("NodeLoader", "LinkLoader", "DataLoader", "BaseSampler", "FeatureStore", "GraphStore", "Module", "MessagePassing"),
    *("Optimizer", "Exception", "Generic", "tuple"),
)
"""Bases whose members the reference does not repeat: those of other libraries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the navigation, or pages outside of it if it has no title.

    Args:
        pages: paths below the root; those of the reference exist only in the site.
    """

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
        return [f"reference/{subject.name}" for subject in subjects()] + list(GENERATED)
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)) if "*" in pattern else [pattern]


def moves() -> dict[str, str]:
    """Old addresses of pages, and where they lead."""
    return dict(NAVIGATION["moves"])


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


def reference_pages(subject: Subject) -> dict[str, str]:
    """The pages of a subject by name, in reStructuredText: one with a summary and its functions, and one for each class."""
    pages: dict[str, str] = {}
    lines = [*_title(subject.title, "="), *(_entries("halohop", subject.names, pages) if subject.names else ())]
    for module in subject.modules:
        title = f"halohop.{module}"
        about = (inspect.getdoc(importlib.import_module(title)) or "").splitlines()[0]
        lines += [*_title(f"``{title}``", "-"), about, "", *_entries(title, _public(module), pages)]
    if pages:
        lines += [".. toctree::", "   :hidden:", "", *(f"   {name}" for name in pages), ""]
    return {subject.name: "\n".join(lines), **pages}


def _title(title: str, line: str) -> list[str]:
    return [title, line * len(title), ""]


def _public(module: str) -> list[str]:
    return sorted(importlib.import_module(f"halohop.{module}").__all__, key=str.lower)


def _entries(module: str, names: Sequence[str], pages: dict[str, str]) -> list[str]:
    """A table of all names with their first sentences, and what is no class of ours; pages of classes are added to `pages`."""
    table = [".. list-table::", "   :widths: 30 70", ""]
    entries = []
    for name in names:
        thing = getattr(importlib.import_module(module), name)
        table += [f"   * - :py:obj:`{name} <{module}.{name}>`", f"     - {_summary(thing)}"]
        if not (inspect.isclass(thing) and thing.__module__.startswith("halohop")):
            kind = "autofunction" if inspect.isroutine(thing) else "autodata"
            entries += [f".. {kind}:: {module}.{name}", ""]
            continue
        exception = issubclass(thing, BaseException)
        kind = "autoexception" if exception else "autoclass"
        entry = [f".. {kind}:: {module}.{name}", "   :members:", f"   :inherited-members: {', '.join(FOREIGN)}", ""]
        if exception:
            entries += entry
        else:
            pages[f"{module}.{name}"] = "\n".join([*_title(name, "="), *entry])
    return [*table, "", *entries]


def _summary(thing: object) -> str:
    """The first sentence of a docstring; constants have none."""
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.;]) (?=[A-Z])", text)[0] if inspect.isroutine(thing) or inspect.isclass(thing) else ""
