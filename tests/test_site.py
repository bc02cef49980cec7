"""What the site is made of: each page has a place in it, each public name an entry, each link leads somewhere."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from docs.site import generated, structure
from docs.site.blocks import Block, blocks, outputs
from halohop import errors
from tests.golden.parts.signatures import public_names

ROOT = Path(__file__).parents[1]
LISTED = [page for section in structure.sections() for page in section.pages]
PAGES = ["docs/index.md", *(page for page in LISTED if page.endswith(".md") and not page.startswith("reference/"))]


def test_each_page_has_one_place_in_the_navigation() -> None:
    written = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert written - set(LISTED) == {"docs/index.md"}, "pages for docs/site/navigation.toml"
    assert len(set(LISTED)) == len(LISTED)
    assert [page for page in LISTED if not page.startswith("reference/") and not (ROOT / page).is_file()] == []
    assert [section.title for section in structure.sections() if section.title and len(section.pages) > 8] == ["Reference"]


def test_old_addresses_lead_to_pages() -> None:
    moves = structure.moves()
    assert [old for old in moves if (ROOT / old).exists()] == []
    assert set(moves.values()) <= {"docs/index.md", *LISTED}
    table = dict(re.findall(r"^\| `(docs/\S+)` \| `(\S+)` \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert table == moves


def test_each_public_name_has_one_entry_in_the_reference() -> None:
    listed = public_names()
    pages = [page for subject in structure.subjects() for page in structure.reference_pages(subject).values()]
    entries = [entry for page in pages for entry in re.findall(r"^\.\. auto\w+:: halohop\.(\S+)$", page, re.MULTILINE)]
    assert sorted(entries) == sorted(listed), "names for docs/site/navigation.toml"


def test_keys_of_configuration_files_are_explained() -> None:
    assert set(generated.PAGES) == set(structure.GENERATED)
    page = generated.configuration()
    for name in ("allow_missing", "master_port", "replicas", "gpu_resource", "max_failures", "cpus_per_task"):
        assert re.search(rf"^\| `{name}` \| \S* \| \w.{{10,}} \|$", page, re.MULTILINE), name
    assert str(ROOT) not in page


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    without_code = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", without_code, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_pages_and_headings(page: str) -> None:
    text = (ROOT / page).read_text()
    for target, anchor in structure.LINK.findall(text):
        file = (ROOT / page).parent / target
        assert file.exists(), target
        assert not anchor or anchor[1:] in headings(file.read_text()), target + anchor
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        assert anchor in headings(text), anchor


@pytest.mark.parametrize("page", PAGES)
def test_links_stay_within_the_site(page: str) -> None:
    """What a page links to is a page of the site, or a file that comes with it."""
    shown = {*PAGES, *structure.linked_files([page])}
    for target, _ in structure.LINK.findall((ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).resolve().relative_to(ROOT).as_posix() in shown, target


def test_blocks_of_a_page() -> None:
    text = "# T\n\n```python\nx = 1\n```\n\n```csv a.csv\nb\n```\n```sh\necho\n```\n```python after sh\ny\n```\n"
    python, file, shell, after = blocks(text.replace("x", "HOST"), {"HOST": "z"})
    assert python == Block(tag="python", text="z = 1\n", lines_before=3)
    assert (file.file, shell.file, python.file, after.file) == ("a.csv", None, None, None)
    assert [block.language for block in (python, file, shell, after)] == ["python", "csv", "sh", "python"]
    with pytest.raises(AssertionError, match="does not end"):
        blocks("```python\nx = 1\n")


def test_an_error_in_a_block_names_the_line_of_the_page() -> None:
    (block,) = blocks("# T\n\n```python\nx = 1\nraise KeyError\n```\n")
    with pytest.raises(KeyError) as caught:
        exec(block.compiled("page.md"), {})
    assert (caught.traceback[-1].path, caught.traceback[-1].lineno) == ("page.md", 4)


def test_outputs_are_those_of_each_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```text name.txt\nAnn\n```\n```python\nx = 2\nprint('a  ')\n```\n```console\nfalse\n```\n"
        "```sh\necho $((1 + 1)); cat name.txt >&2\n```\n```python after sh\nprint(x, HERE)\n```\n"
    )
    before = "at = {'HERE': '5'}"
    assert outputs(page, tmp_path, before=before) == ["", "a", "", "2\nAnn", "2 5"]
    page.write_text("```python\nprint('so far')\n```\n```sh\necho seen; exit 3\n```\n")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        outputs(page, tmp_path)
    assert "seen" in failed.value.output
    assert "exit status 3" in failed.value.output


def texts() -> list[str]:
    """All strings of the source; what an f-string puts in is a NUL."""
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_messages_of_the_help_page_are_those_of_the_source() -> None:
    text = (ROOT / "docs" / "help.md").read_text()
    messages = [block.text.strip() for block in blocks(text) if block.language == "message"]
    assert len(messages) > 20
    everything = "\n".join(texts())
    words = [".*".join(re.escape(part.strip()) for part in message.split("...")) for message in messages]
    assert [pattern for pattern in words if not re.search(pattern, everything)] == []


def test_every_error_has_a_place_on_the_help_page() -> None:
    titles = re.findall(r"^## (\w+Error)$", (ROOT / "docs" / "help.md").read_text(), re.MULTILINE)
    assert sorted(titles) == sorted(errors.__all__)
