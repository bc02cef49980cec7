"""Builds the site: `python docs/site/build.py OUT`; the exit status is 0 if there was no warning.

Sphinx reads pages below one folder. The build writes that folder next to OUT: copies of the pages, copies of the Python files
that they link to, and the pages of the reference. So it writes nothing among the pages themselves.
"""

import os
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx
from sphinx.util.inventory import InventoryFile as Inventory

sys.path.insert(0, str(Path(__file__).parent))
import generated
import structure


def build(out: Path) -> int:
    """Writes the site to `out`; returns the exit status of Sphinx, or 1 if a public name has no entry."""
    pages = out.with_name(f"{out.name}-pages")
    for folder in (pages, out):
        shutil.rmtree(folder, ignore_errors=True)
    gather(pages)
    strict = ["--fail-on-warning", "--fresh-env", "--quiet"]
    places = ["-c", str(Path(__file__).parent), "-d", str(out.with_name("doctrees")), str(pages), str(out)]
    code = sphinx([*strict, *places]) or without_entry(out)
    redirect(out)
    return code


def gather(pages: Path) -> None:
    """Copies what the site shows to `pages`, where Sphinx and the links between pages find it."""
    (pages / "reference").mkdir(parents=True)
    listed = [page for section in structure.sections() for page in section.pages if not page.startswith("reference/")]
    for name in {"docs/index.md", *listed, *structure.linked_files(["docs/index.md", *listed])}:
        place = pages / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(structure.ROOT / name, place)
    for subject in structure.subjects():
        for name, text in structure.reference_pages(subject).items():
            (pages / "reference" / f"{name}.rst").write_text(text)
    for name in structure.GENERATED:
        (pages / name).write_text(generated.PAGES[name]())


def redirect(out: Path) -> None:
    """Writes a page that redirects at each old address, and at the site's root."""
    for old, new in {"index.md": "docs/index.md", **structure.moves()}.items():
        place, target = (out / Path(name).with_suffix(".html") for name in (old, new))
        place.parent.mkdir(parents=True, exist_ok=True)
        to = os.path.relpath(target, place.parent)
        place.write_text(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={to}"><a href="{to}">{to}</a>\n'
        )


def without_entry(out: Path) -> int:
    """How many public names the finished site has no entry for; names them."""
    found = Inventory.loads((out / "objects.inv").read_bytes(), uri="").data
    entries = {name for kind, objects in found.items() if kind.startswith("py:") for name in objects}
    missing = [name for subject in structure.subjects() for name in subject.entries() if name not in entries]
    for name in missing:
        print(f"the reference has no entry for {name}", file=sys.stderr)
    return len(missing)


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]).absolute()))
