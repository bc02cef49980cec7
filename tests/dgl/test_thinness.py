"""The face is thin: it translates names, and what does the work is halohop's."""

from pathlib import Path

from tests.glt.test_thinness import lines_of_code, work

FACE = Path(__file__).parents[2] / "src" / "halohop" / "dgl"
MOST_LINES = 3850


def test_the_face_does_no_work_of_its_own() -> None:
    found = [fault for path in FACE.rglob("*.py") for fault in work(path.read_text(), str(path.relative_to(FACE)))]
    assert sorted(set(found)) == []


def test_the_face_stays_short() -> None:
    """Graphs with message passing, layers, loaders, and what is distributed: four faces of about 1,000 lines each."""
    assert sum(lines_of_code(path.read_text()) for path in FACE.rglob("*.py")) < MOST_LINES
