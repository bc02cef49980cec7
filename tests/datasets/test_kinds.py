"""What a column holds is decided by all files of a table together."""

from pathlib import Path

import pytest
import torch

from halohop.datasets import kinds
from halohop.datasets.staging import Staging
from halohop.datasets.tables import read_tables
from halohop.datasets.text import texts_of
from halohop.errors import IdError, InputError, SchemaError
from halohop.store.tables import GraphTables
from halohop.typing import EDGE, NODE, RAW_TEXT

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

NODES = '[nodes.node]\nfile = "n*.csv"\nid = "id"\n'
EDGES = '[edges.node__to__node]\nfile = "e*.csv"\nsrc = "a"\ndst = "b"\n'


@pytest.fixture(params=["memory", "chunks"])
def read(request: pytest.FixtureRequest, tmp_path: Path):
    """Reads a graph of files, in memory and a few rows at a time."""

    def reading(description: str, **files: str) -> GraphTables:
        (tmp_path / "graph.toml").write_text(description)
        for name, text in files.items():
            (tmp_path / f"{name}.csv").write_text(text)
        if request.param == "memory":
            return read_tables(tmp_path)
        folder = tmp_path / f"columns-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return read_tables(tmp_path, staging=Staging(folder=folder, chunk_bytes=100))

    return reading


def ids_of(tables: GraphTables) -> list[object]:
    table = tables.nodes[NODE]
    if RAW_TEXT in table.columns:
        return list(texts_of(table.columns[RAW_TEXT]))
    return list(range(table.num_nodes)) if table.raw_id is None else table.raw_id.tolist()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["7", "8"], [7, 8]),
        (["1", "0"], [1, 0]),
        ([" 7", "8 "], [7, 8]),
        (["-7", "7"], [-7, 7]),
        (["7", "A9"], ["7", "A9"]),
        (["007", "7"], ["007", "7"]),
        (["-07", "5"], ["-07", "5"]),
        (["0x1F", "31"], ["0x1F", "31"]),
        (["2020-01-01", "2020-01-02"], ["2020-01-01", "2020-01-02"]),
        (["true", "false"], ["true", "false"]),
    ],
)
@pytest.mark.parametrize("in_one_file", [True, False])
def test_ids_are_what_the_files_of_nodes_hold_together(read, texts: list[str], expected: list[object], in_one_file: bool) -> None:
    head, files = "id\n", {"n1": "id\n" + "".join(f"{text}\n" for text in texts)}
    if not in_one_file:
        files = {f"n{number}": f"{head}{text}\n" for number, text in enumerate(texts)}
    tables = read(NODES + EDGES, **files, e1=f"a,b\n{texts[0]},{texts[1]}\n", e2=f"a,b\n{texts[0]},{texts[0]}\n")
    assert ids_of(tables) == expected
    assert tables.edges[EDGE].src.tolist() == [0, 0]
    assert tables.edges[EDGE].dst.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("last", "expected"), [("7", 7), (" 7", 7), ("A9", "A9"), ("007", "007"), ("0x1F", "0x1F"), ("true", "true")]
)
def test_a_late_row_decides_too(read, last: str, expected: object) -> None:
    ids = ids_of(read(NODES, n="id\n" + "".join(f"{number}\n" for number in range(8, 1500)) + f"{last}\n"))
    assert (ids[0], ids[-1]) == (type(expected)(8), expected)


@pytest.mark.parametrize(("pattern", "tried", "most"), [("{}", {"int64"}, 3000), ("A{}", {"int64", "double", "bool"}, 1000)])
def test_a_kind_is_tried_if_those_before_failed_and_on_all_rows_if_the_first_hold_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pattern: str, tried: set[str], most: int
) -> None:
    casts: list[tuple[str, int]] = []
    parsed = kinds._parsed

    def watched(column, target, *, zeros: bool):
        casts.append((str(target), len(column)))
        return parsed(column, target, zeros=zeros)

    monkeypatch.setattr(kinds, "_parsed", watched)
    (tmp_path / "n.csv").write_text("id\n" + "".join(pattern.format(number) + "\n" for number in range(3000)))
    (tmp_path / "graph.toml").write_text(NODES)
    assert read_tables(tmp_path).nodes[NODE].num_nodes == 3000
    assert {kind for kind, _ in casts} == tried
    assert max(rows for _, rows in casts) == most


def test_ids_without_a_table_are_what_all_edges_mention_together(read) -> None:
    tables = read(EDGES, e1="a,b\n7,8\n", e2="a,b\nA9,7\n")
    assert ids_of(tables) == ["7", "8", "A9"]
    assert (tables.edges[EDGE].src.tolist(), tables.edges[EDGE].dst.tolist()) == ([0, 2], [1, 0])


def test_lists_of_a_split_name_ids_as_the_table_does(read) -> None:
    tables = read(NODES + 'splits = {train = "t.csv"}\n', n="id\n07\n7\n", t="id\n7\n")
    assert tables.nodes[NODE].columns["train_mask"].tolist() == [False, True]


@pytest.mark.parametrize("text", ["007", "A9", "7.0"])
def test_edges_name_ids_as_the_table_does(read, text: str) -> None:
    with pytest.raises(IdError, match=rf"e1.csv: column 'b' holds '{text}' in row 31, expected an id of a node 'node'"):
        read(NODES + EDGES, n="id\n7\n8\n", e1="a,b\n" + "7,8\n" * 31 + f"8,{text}\n")


@pytest.mark.parametrize("text", ["1.5", "9223372036854775808"])
def test_ids_that_are_decimals_or_too_large_are_refused(read, text: str) -> None:
    with pytest.raises(InputError, match=rf"column 'id' holds '{text}' in row 1, .*set kinds = .id = \"text\"."):
        read(NODES, n=f"id\n1\n{text}\n")
    assert ids_of(read(NODES + 'kinds = {id = "text"}\n', n2=f"id\n1\n{text}\n", n="id\n3\n")) == ["3", "1", text]


@pytest.mark.parametrize(
    ("files", "y", "names"),
    [
        ({"n1": "0,1\n", "n2": "1,red\n2,\n"}, [0, 1, -1], ("1", "red")),
        ({"n1": "0,02134\n1,10001\n", "n2": "2,02134\n"}, [0, 1, 0], ("02134", "10001")),
        ({"n1": "0,1\n", "n2": "1,2.0\n2,nan\n"}, [1, 2, -1], ()),
        ({"n1": "0,true\n", "n2": "1,false\n2,\n"}, [1, 0, -1], ()),
        ({"n1": "0,\n", "n2": "1,5\n2,3\n"}, [-1, 5, 3], ()),
    ],
)
def test_labels_are_numbers_in_all_files_or_in_none(read, files: dict[str, str], y: list[int], names: tuple[str, ...]) -> None:
    table = read(NODES + 'label = "y"\n', **{name: f"id,y\n{text}" for name, text in files.items()}).nodes[NODE]
    assert table.columns["y"].tolist() == y
    assert table.names.get("y", ()) == names


def test_the_kind_of_ids_and_labels_can_be_given(read) -> None:
    spec = NODES + 'label = "y"\nkinds = {id = "number", y = "text"}\n'
    table = read(spec, n="id,y\n007,1\n8,2\n").nodes[NODE]
    assert table.raw_id is not None
    assert (table.raw_id.tolist(), table.columns["y"].tolist(), table.names["y"]) == ([7, 8], [0, 1], ("1", "2"))
    with pytest.raises(InputError, match="column 'id' holds 'x' in row 1, expected an integer"):
        read(spec, n="id,y\n007,1\n8,2\n", n2="id,y\n5,1\nx,2\n")


def test_the_kind_of_ids_that_edges_mention_can_be_given(read) -> None:
    assert ids_of(read(EDGES + 'kinds = {b = "text"}\n', e="a,b\n7,8\n")) == ["7", "8"]


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (NODES + 'kinds = {f = "text"}\n', "nodes.node: kinds names 'f'"),
        (NODES + EDGES + 'kinds = {a = "text"}\n', "edges.node__to__node: kinds names 'a'"),
        (EDGES + 'kinds = {a = "text", b = "number"}\n', "as text and as numbers"),
    ],
)
def test_a_kind_without_use_is_refused(read, description: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read(description, n="id,f\n7,1\n", e="a,b\n7,7\n")


def test_further_columns_have_one_type_in_all_files(read) -> None:
    nodes = NODES + 'columns = ["c"]\n'
    found = read(nodes, n1="id,c\n1,5\n", n2="id,c\n2,1612137600.25\n").nodes[NODE].columns["c"]
    assert found.dtype == torch.float64
    assert found.tolist() == [5, 1612137600.25]


@pytest.mark.parametrize("year", ["2021", "true"])
def test_dates_in_one_file_and_numbers_in_another_are_refused(read, year: str) -> None:
    with pytest.raises(InputError, match="column 't' holds '2021-05-01' in row 0, expected a number"):
        read(EDGES + 'time = "t"\n', e1="a,b,t\n1,2,2021-05-01\n", e2=f"a,b,t\n1,2,{year}\n")


def test_parquet_files_of_two_types_are_refused(tmp_path: Path) -> None:
    for name, ids in {"n1": [7], "n2": ["8"]}.items():
        parquet.write_table(pa.table({"id": ids}), tmp_path / f"{name}.parquet")
    (tmp_path / "graph.toml").write_text(NODES.replace("csv", "parquet"))
    with pytest.raises(
        InputError, match=r"n1.parquet: column 'id' is int64, expected large_string as in the other files; .*kinds"
    ):
        read_tables(tmp_path)
    (tmp_path / "graph.toml").write_text(NODES.replace("csv", "parquet") + 'kinds = {id = "text"}\n')
    assert ids_of(read_tables(tmp_path)) == ["7", "8"]


@pytest.mark.parametrize("name", ["time", "weight", "columns"])
def test_decimals_in_text_keep_all_digits(read, name: str) -> None:
    moments = [1612137600 + 10 * number + 0.25 for number in range(20)]
    more = f'{name} = ["t"]\n' if name == "columns" else f'{name} = "t"\n'
    rows = "".join(f"1,2,{moment:.2f}\n" for moment in moments)
    found = read(EDGES + more, e="a,b,t\n" + rows).edges[EDGE].columns["t" if name == "columns" else name]
    assert found.dtype == torch.float64
    assert found.tolist() == moments
