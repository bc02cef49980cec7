"""The tables of names on the pages for those who come from another library."""

from collections.abc import Collection, Mapping


def name_tables(works: Mapping[str, Collection[str]], accepted: Mapping[str, str], refused: Mapping[str, str]) -> str:
    """In Markdown.

    Args:
        works: the names of each package.
        accepted: arguments that change nothing, and what happens instead.
        refused: names, and what to do without them.
    """
    by_text: dict[str, list[str]] = {}
    for name, text in refused.items():
        by_text.setdefault(text, []).append(name)
    return "\n".join(
        [
            *("### What works", "", "| package | names |", "|---|---|"),
            *(f"| `{where}` | {_listed(found)} |" for where, found in works.items()),
            *("", "### What is accepted", "", "| argument | what happens instead |", "|---|---|"),
            *(f"| `{name}` | {text} |" for name, text in accepted.items()),
            *("", "### What is refused", "", "| names | what to do |", "|---|---|"),
            *(f"| {_listed(found)} | {text} |" for text, found in by_text.items()),
            "",
        ]
    )


def _listed(found: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(found, key=str.lower))
