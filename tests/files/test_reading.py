"""Names that others give, and where they lead."""

from pathlib import Path

import pytest

from halohop.files.reading import resolve_below


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with links in it: to a file in it, out of it, to themselves, and to each other."""
    folder = tmp_path.resolve() / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "there").symlink_to("inner")
    (folder / "out").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    return folder


@pytest.mark.parametrize(
    ("name", "found"), [("inner", "inner"), ("there/file", "inner/file"), ("new/file", "new/file"), (".", ".")]
)
def test_what_is_below_is_resolved(folder: Path, name: str, found: str) -> None:
    assert resolve_below(folder, name) == folder / found
    assert resolve_below(folder, str(folder / name)) == folder / found


@pytest.mark.parametrize(
    "name", ["..", "../folders", "inner/../../x", "/", "out", "out/file", "loop", "loop/file", "one", "two/a/b"]
)
def test_what_is_not_below_is_none(folder: Path, name: str) -> None:
    assert resolve_below(folder, name) is None
