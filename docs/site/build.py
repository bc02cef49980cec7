"""Builds the site: `python docs/site/build.py OUT`; the exit status is 0 if there was no warning.

Sphinx reads pages below one folder. It is made anew beside OUT, of copies of the pages, of the Python files that they link to,
and of the pages of the reference; so nothing is written among the pages themselves.
"""

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx
from sphinx.util.inventory import InventoryFile as Inventory

sys.path.insert(0, str(Path(__file__).parent))
import structure


def build(out: Path) -> int:
    """Writes the site to `out`; returns the exit status of Sphinx, or 1 if a public name has no entry."""
    pages = out.with_name(f"{out.name}-pages")
    for folder in (pages, out):
        shutil.rmtree(folder, ignore_errors=True)
    gather(pages)
    strict = ["--fail-on-warning", "--fresh-env", "--quiet"]
    places = ["-c", str(Path(__file__).parent), "-d", str(out.with_name("doctrees")), str(pages), str(out)]
    return sphinx([*strict, *places]) or without_entry(out)


def gather(pages: Path) -> None:
    """Copies what the site shows to `pages`, where Sphinx and the links between pages find it."""
    (pages / "reference").mkdir(parents=True)
    shutil.copy2(structure.ROOT / "README.md", pages / "index.md")
    listed = [page for section in structure.sections() for page in section.pages if not page.startswith("reference/")]
    for name in {*listed, *structure.linked_files(["README.md", *listed])}:
        place = pages / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(structure.ROOT / name, place)
    for subject in structure.subjects():
        (pages / "reference" / f"{subject.name}.rst").write_text(structure.reference_page(subject))


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
