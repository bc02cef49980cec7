import gzip
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.datasets.rdf import _parse, aifb, read_ntriples, read_rdf, relation_names
from halohop.errors import IdError, IncompleteDatasetError, InputError, SchemaError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import relation_text

NO_EDGES = EdgeTable(src=torch.empty(0, dtype=torch.int64), dst=torch.empty(0, dtype=torch.int64))
P = "<http://e/p>"
XSD = "http://www.w3.org/2001/XMLSchema#"


def write(folder: Path, *lines: str) -> Path:
    path = folder / "graph.nt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("target", "term"),
    [
        ("<http://e/o>", "<http://e/o>"),
        (r"<http://e/\u00e9>", "<http://e/é>"),
        ("_:b0", "_:b0"),
        ("_:b.1", "_:b.1"),
        ('"plain"', '"plain"'),
        ('""', '""'),
        (r'"say \"hi\" \\ \t \u00E9 \U0001F600"', '"say "hi" \\ \t é 😀"'),
        ('"1"^^<http://e/int>', '"1"^^<http://e/int>'),
        (f'"s"^^<{XSD}string>', '"s"'),
        ('"hallo"@de-AT', '"hallo"@de-at'),
        ('"a . <b> # c"', '"a . <b> # c"'),
        ('"mail@x"', '"mail@x"'),
        (r'"ends in \\"', '"ends in \\"'),
    ],
)
@pytest.mark.parametrize("frame", ["_:s {} {} .", "  _:s\t{}\t{}\t. # comment", "_:s{}{}."])
def test_terms(target: str, term: str, frame: str) -> None:
    assert _parse(frame.format(P, target) + "\n") == ("_:s", P, term)


@pytest.mark.parametrize("line", ["", "   \n", "# comment\n", "\t# <a> <b> <c> .\n", "\r\n"])
def test_lines_without_a_triple(line: str) -> None:
    assert _parse(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "<a> <b> <c>",
        "<a> <b> .",
        "<a> <b> <c> . <d>",
        "<a> _:b <c> .",
        '"a" <b> <c> .',
        '<a> <b> "open .',
        '<a> <b> "x"@ .',
        "<a b> <b> <c> .",
        r'<a> <b> "\q" .',
        r'<a> <b> "\uD800" .',
        r'<a> <b> "\UFFFFFFFF" .',
        "no triple at all",
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, "<a> <b> <c> .", "", line)
    with pytest.raises(InputError, match=re.escape(f"{path}, line 3:")):
        list(read_ntriples(path))


def test_bad_bytes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "graph.nt"
    path.write_bytes(b'<a> <b> "\xff" .\n')
    with pytest.raises(InputError, match=r"line 1: .*utf-8"):
        list(read_ntriples(path))
    whole = gzip.compress(b"<a> <b> <c> .\n" * 1000)
    for content in (b"not gzip", whole[:-12]):
        (tmp_path / "cut.nt.gz").write_bytes(content)
        with pytest.raises(InputError, match=r"cut\.nt\.gz"):
            list(read_ntriples(tmp_path / "cut.nt.gz"))
    with pytest.raises(IncompleteDatasetError, match="no file"):
        list(read_ntriples(tmp_path / "absent.nt"))


def test_graph_of_three_triples(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "<http://e/a> <http://e/knows> <http://e/b> .",
        f'<http://e/b> <http://e#name> "b"^^<{XSD}string> .',
        "<http://e/a> <http://e/knows> <http://e/b> .",
        '<http://e/a> <http://e#name> "b" .',
    )
    tables = read_rdf(path, labels={"http://e/b": "zebra", "<http://e/a>": "ant"}, splits={"train": ["http://e/b"]})
    nodes = tables.nodes["entity"]
    assert nodes.num_nodes == 3
    assert nodes.columns["y"].tolist() == [0, 1, -1]
    assert nodes.columns["train_mask"].tolist() == [False, True, False]
    edges = {relation[1]: (table.src.tolist(), table.dst.tolist()) for relation, table in tables.edges.items()}
    assert edges == {
        "name": ([1, 0], [2, 2]),
        "name_inv": ([2, 2], [1, 0]),
        "knows": ([0], [1]),
        "knows_inv": ([1], [0]),
    }
    assert len(read_rdf(path, inverse=False).edges) == 2


def test_empty_file(tmp_path: Path) -> None:
    tables = read_rdf(write(tmp_path, "# nothing"))
    assert tables.nodes["entity"].num_nodes == 0
    assert tables.edges == {}


def test_unknown_entities_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "<http://e/a> <http://e/knows> <http://e/b> .")
    with pytest.raises(IdError, match="no entity 'http://e/c'"):
        read_rdf(path, labels={"http://e/c": "x"})
    with pytest.raises(IdError, match="no entity 'http://e/c'"):
        read_rdf(path, splits={"train": ["http://e/c"]})


@given(st.sets(st.text("aA_1/#:-.é", max_size=8).map(lambda text: f"<http://e/{text}>"), max_size=12))
def test_relation_names_are_safe_and_different(predicates: set[str]) -> None:
    names = relation_names(predicates)
    every = [name for base in names.values() for name in (base, f"{base}_inv")]
    assert len({name.lower() for name in every}) == 2 * len(predicates)
    edges = {("entity", name, "entity"): NO_EDGES for name in every}
    try:
        GraphTables(nodes={"entity": NodeTable(num_nodes=0)}, edges=edges)
    except SchemaError as error:
        pytest.fail(str(error))
    assert all(relation_text(relation).split("__") == list(relation) for relation in edges)
    assert names == relation_names(sorted(predicates, reverse=True))


def test_names_that_would_meet_are_kept_apart() -> None:
    names = relation_names({"<http://a/type>", "<http://b#type>", "<http://c/type_inv>", "<http://d/Type>"})
    assert list(names.values()) == ["type", "type_2", "type_inv_2", "Type_3"]


AIFB_FILES = {
    "trainingSet.tsv": "person\tid\tlabel_affiliation\nhttp://e/a\t1\tg1\nhttp://e/b\t2\tg2\nhttp://e/c\t3\tg1\n",
    "testSet.tsv": "person\tid\tlabel_affiliation\nhttp://e/d\t4\tg2\n",
}


def write_aifb(folder: Path, **change: str) -> Path:
    lines = "".join(f"<http://e/{person}> <http://e/knows> <http://e/x> .\n" for person in "abcd")
    with gzip.open(folder / "aifb_stripped.nt.gz", "wt") as file:
        file.write(lines)
    for name, text in (AIFB_FILES | change).items():
        (folder / name).write_text(text)
    return folder


def test_aifb_layout(tmp_path: Path) -> None:
    columns = aifb(write_aifb(tmp_path), val_fraction=1 / 3).nodes["entity"].columns
    assert columns["y"].tolist() == [0, -1, 1, 0, 1]
    assert [int(columns[f"{split}_mask"].sum()) for split in ("train", "val", "test")] == [2, 1, 1]
    assert columns["test_mask"].tolist() == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who\tlabel_affiliation\n", "no column 'person'"),
        ("", "no column 'person'"),
        ("person\tlabel_affiliation\nhttp://e/a\t\n", "line 2: person or label_affiliation is empty"),
        ("person\tlabel_affiliation\nhttp://e/a\n", "line 2: person or label_affiliation is empty"),
    ],
)
def test_aifb_refuses_bad_labels(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        aifb(write_aifb(tmp_path, **{"trainingSet.tsv": text}))


def test_aifb_missing_files(tmp_path: Path) -> None:
    with pytest.raises(IncompleteDatasetError, match=r"trainingSet\.tsv"):
        aifb(tmp_path)


@pytest.mark.data
def test_real_aifb(shared_data: Path) -> None:
    tables = aifb(shared_data / "aifb", val_fraction=0)
    nodes = tables.nodes["entity"]
    assert (nodes.num_nodes, len(tables.edges)) == (8_285, 90)
    assert sum(table.num_edges for table in tables.edges.values()) == 58_086
    assert [int(nodes.columns[f"{split}_mask"].sum()) for split in ("train", "val", "test")] == [140, 0, 36]
    labelled = nodes.columns["train_mask"] | nodes.columns["test_mask"]
    assert nodes.columns["y"][labelled].unique().tolist() == [0, 1, 2, 3]
    assert (nodes.columns["y"][~labelled] == -1).all()
    split = aifb(shared_data / "aifb", seed=1).nodes["entity"].columns
    assert [int(split[f"{name}_mask"].sum()) for name in ("train", "val", "test")] == [112, 28, 36]
    assert not (split["train_mask"] & split["val_mask"]).any()
