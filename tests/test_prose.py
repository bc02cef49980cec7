"""Pages, help, messages and docstrings are in plain English: no words of a private language, no long sentences.

`PHRASES` are what a reader stumbles over. Pages have none of them. Help, messages and docstrings have no more than before: lower
a number of `CEILINGS` when you have rewritten some, and never raise it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from docs.site.blocks import blocks
from halohop.launch.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/index.md", "docs/migrate.md", "docs/help.md")
    ),
    *(ROOT / "docs" / name for name in ("benchmarks.md", "benchmarks/scripts.md")),
    *(
        path
        for folder in ("start", "tutorials", "guide", "deploy", "decisions")
        for path in sorted((ROOT / "docs" / folder).glob("*.md"))
    ),
]
PHRASES = {
    "which": r"\b(?:of|by|in|to|at|from) which\b",
    "Of": r"(?:^|[.!?:;]\s+)Of (?:the|a|an|all|its|this|these|those|each|every|several|what)\b",
    "no": r"(?<!there )\b(?:is|are|was|were) no (?!(?:long|fast|slow|larg|small|lat|bett)er\b|more\b|less\b|worse\b)",
    "none of": r"\b(?:is|are) none of\b",
    "anew": r"\b(?:anew|afar|afresh|in vain|all the same)\b",
    "lie": r"\b(?:lies|lie|lay|lain|lying)\b",
    "go on": r"\b(?:go|goes|went|going) on\b",
    "beside": r"\bbeside\b",
    "drawn": r"\b(?:drawn|dealt)\b",
    "gone": r"\b(?:is|are|was|were) gone\b",
    "hear": r"\b(?:hear|hears|heard|hearing)\b",
    "say so": r"\bsays? so\b",
    "stand": r"\b(?:stands|stand|stood) (?:in|on|at|there|here|before|after|beside|alone)\b",
    "British": r"\b(?:\w*(?:neighbour|colour|behaviour|favour|labelled|labelling|modelled)\w*|licences?|grey|whilst)\b",
}
"""What the style of the project rules out, by a short name."""

ALLOWED = {
    "what it is drawn from": "statistics: a sample is drawn from a distribution",
}
"""Uses that are plain where they are, and why."""

CEILINGS = {"help": 0, "messages": 208, "docstrings": 1434}

LONGEST, SHARE = 25, 0.05
"""Words that a sentence of a page may have, and the share of its sentences that may have more."""


def phrases_in(text: str) -> Iterator[str]:
    """The phrases of `PHRASES` in a text, with what is around them."""
    for use in ALLOWED:
        text = text.replace(use, "")
    for name, pattern in PHRASES.items():
        for found in re.finditer(pattern, text, re.IGNORECASE if name != "Of" else 0):
            around = " ".join(text[max(0, found.start() - 30) : found.end() + 20].split())
            yield f"{name}: ... {around} ..."


def prose(page: str) -> str:
    """A page without its code, tables' rules, links' targets and HTML."""
    page = re.sub(r"^(`{3,}|~{3,}).*?^\1\s*$", "", page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"`[^`\n]+`", "`code`", page)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"<[^>\n]+>", "", page))


def sentences(page: str) -> list[str]:
    """The sentences of a page's paragraphs and lists; headings and tables have none."""
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose(page))
    running = (" ".join(part.split()) for part in paragraphs if not part.lstrip().startswith(("#", "|", "!")))
    return [each for part in running for each in re.split(r"(?<=[.!?:])\s+(?=[A-Z`\[*\"(])", part) if each]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_in_plain_english(page: Path) -> None:
    text = page.read_text()
    assert list(phrases_in(prose(text))) == []
    assert [line for block in blocks(text) for line in block.text.splitlines() if len(line) > 79] == []
    found = sentences(text)
    long = [each for each in found if len(each.split()) > LONGEST]
    assert len(long) <= max(1, SHARE * len(found)), "\n".join(long)


def helps() -> Iterator[tuple[str, str]]:
    """All texts of the command line's help, and where they are."""
    group = typer.main.get_command(app)
    for name, command in {"halohop": group, **group.commands}.items():  # type: ignore[attr-defined]
        yield name, command.help or ""
        for parameter in command.params:
            yield f"{name} {parameter.opts[0]}", f"{getattr(parameter, 'help', '')} {getattr(parameter, 'show_default', '')}"


def test_help_is_in_plain_english() -> None:
    texts = dict(helps())
    assert len(texts) > 150
    found = [f"{place}: {phrase}" for place, text in texts.items() for phrase in phrases_in(text)]
    assert len(found) <= CEILINGS["help"], found


def texts_of_the_source() -> Iterator[tuple[str, str]]:
    """Docstrings and the messages of exceptions, as ("docstrings" or "messages", text)."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                yield "docstrings", text
            elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                for argument in node.exc.args:
                    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
                    yield "messages", "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)


def test_the_source_has_fewer_phrases_than_it_had() -> None:
    counts = Counter({"messages": 0, "docstrings": 0})
    for kind, text in texts_of_the_source():
        counts[kind] += sum(1 for _ in phrases_in(text))
    assert {kind: count for kind, count in counts.items() if count > CEILINGS[kind]} == {}
    assert {kind: CEILINGS[kind] for kind, count in counts.items() if count < CEILINGS[kind] - 20} == {}, f"lower them: {counts}"


@pytest.mark.parametrize(
    "text",
    [
        "The folder in which it is.",
        "Rows. Of the others none is read.",
        "X is no folder.",
        "neighbours of it",
        "what lies there",
        "It goes on.",
        "They are drawn anew.",
    ],
)
def test_phrases_are_found(text: str) -> None:
    assert list(phrases_in(text)) != []


def test_sentences_of_a_page() -> None:
    page = (
        "# T\n\nOne is\nhere. Two (`a.b`) is there.\n\n- three\n- four: five\n\n| a. B |\n|---|\n\n```python\nSix. Seven.\n```\n"
    )
    assert sentences(page) == ["One is here.", "Two (`code`) is there.", "- three", "- four: five"]
