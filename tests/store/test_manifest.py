"""File names: different for different names, and legal everywhere."""

from hypothesis import given
from hypothesis import strategies as st

from halohop.store.manifest import column_file, structure_file, table_folder

names = st.one_of(
    st.text("a_.%/", min_size=1, max_size=4), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=99)
)
type_names = names.filter(lambda name: "__" not in name and "/" not in name and name not in (".", ".."))
relations = st.tuples(type_names, type_names, type_names)


@given(relations, relations)
def test_relations_have_folders_of_their_own(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (table_folder(0, one) == table_folder(0, other)) == (one == other)


def test_underscores_at_the_seams() -> None:
    tables = [("a_", "b", "c"), ("a", "_b", "c"), ("a", "b_", "c"), ("a", "b", "_c"), ("_", "_", "_")]
    assert len({table_folder(0, table) for table in tables}) == len(tables)


@given(names, names, st.sampled_from(["paper", ("paper", "cites", "paper")]))
def test_columns_have_files_of_their_own(one: str, other: str, table: str | tuple[str, str, str]) -> None:
    file = column_file(0, table, one)
    assert (file == column_file(0, table, other)) == (one == other)
    if not isinstance(table, str):
        assert file not in [structure_file(0, table, name) for name in ("indptr", "indices")]


def test_columns_called_like_the_structure() -> None:
    relation = ("paper", "cites", "paper")
    for name in ("indptr", "indices"):
        assert column_file(0, relation, name) != structure_file(0, relation, name)
        assert column_file(0, "paper", name).endswith(f"/{name}.npy")


@given(relations, names)
def test_paths_are_legal(relation: tuple[str, str, str], column: str) -> None:
    pieces = column_file(12345, relation, column).split("/")
    assert pieces[:2] == ["part-12345", "edges"]
    assert len(pieces) == 4
    assert all(len(piece) <= 255 and not piece.startswith(".") and piece.isascii() for piece in pieces)


def test_long_names_keep_their_difference() -> None:
    one, other = "x" * 300 + "a", "x" * 300 + "b"
    assert column_file(0, "paper", one) != column_file(0, "paper", other)
