import re
from pathlib import Path

import pytest

from halohop.datasets import read_triples
from halohop.errors import IdError, IncompleteDatasetError, InputError
from halohop.store.tables import EdgeTable
from halohop.typing import relation_text

FILES = {
    "train.txt": "ant\t_eats\tbee\nbee\t_eats\tcow\n\nant\t_sees\tant\n",
    "valid.txt": "cow\t_sees\tdog\n",
    "test.txt": "dog\t_eats\tant\n",
    "entities.dict": "1\tant\n0\tbee\n2\tcow\n3\tdog\n",
    "relations.dict": "1\t_eats\n0\t_sees\n",
}


def write(folder: Path, **change: str | bytes | None) -> Path:
    """Stand-ins by the stem of the file; None leaves it out."""
    for name, text in FILES.items():
        content = change.get(name.split(".")[0], text)
        if content is not None:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def ends(table: EdgeTable) -> tuple[list[int], list[int]]:
    return table.src.tolist(), table.dst.tolist()


def test_numbers_of_the_dict_files(tmp_path: Path) -> None:
    links = read_triples(write(tmp_path))
    edges = {relation[1]: (table.src.tolist(), table.dst.tolist()) for relation, table in links.tables.edges.items()}
    assert edges == {"sees": ([1], [1]), "eats": ([1, 0], [0, 2]), "sees_inv": ([1], [1]), "eats_inv": ([0, 2], [1, 0])}
    assert [relation[1] for relation in links.relations] == ["sees", "eats"]
    assert links.tables.nodes["entity"].num_nodes == 4
    triples = {name: [split.src.tolist(), split.relation.tolist(), split.dst.tolist()] for name, split in links.splits.items()}
    assert triples == {"train": [[1, 0, 1], [1, 1, 0], [0, 2, 1]], "val": [[2], [0], [3]], "test": [[3], [1], [1]]}
    assert [column.tolist() for column in links.known()] == [[1, 0, 1, 2, 3], [1, 1, 0, 0, 1], [0, 2, 1, 3, 1]]


def test_an_inverse_stands_as_far_behind_as_there_are_relations(tmp_path: Path) -> None:
    links = read_triples(write(tmp_path))
    relations = list(links.tables.edges)
    for number, relation in enumerate(links.relations):
        assert relations[number] == relation
        assert relations[number + len(links.relations)][1] == f"{relation[1]}_inv"
    assert list(read_triples(tmp_path, inverse=False).tables.edges) == relations[:2]


def test_without_dict_files_numbers_follow_occurrence_in_train_val_test(tmp_path: Path) -> None:
    links = read_triples(write(tmp_path, entities=None, relations=None))
    assert [relation[1] for relation in links.relations] == ["eats", "sees"]
    assert links.splits["test"].src.tolist() == [3]
    assert links.splits["train"].dst.tolist() == [1, 2, 0]


def test_held_out_triples_are_in_no_relation_and_no_inverse(tmp_path: Path) -> None:
    links = read_triples(write(tmp_path))
    edges = [(relation[1], pair) for relation, t in links.tables.edges.items() for pair in zip(*ends(t), strict=True)]
    for name in ("val", "test"):
        split = links.splits[name]
        for src, kind, dst in zip(split.src.tolist(), split.relation.tolist(), split.dst.tolist(), strict=True):
            relation = links.relations[kind][1]
            assert (relation, (src, dst)) not in edges
            assert (f"{relation}_inv", (dst, src)) not in edges


def test_relations_can_be_told_apart_in_file_names(tmp_path: Path) -> None:
    """A leading underscore, kept, would make entity___eats__entity, which cannot be read back."""
    for relation in read_triples(write(tmp_path)).tables.edges:
        assert tuple(relation_text(relation).split("__")) == relation


def test_a_triple_twice_in_a_file_counts_once(tmp_path: Path) -> None:
    assert len(read_triples(write(tmp_path, test="dog\t_eats\tant\n" * 2)).splits["test"]) == 1


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        ({"train": "ant\t_eats\n"}, "train.txt, line 1", "with tabs between"),
        ({"train": "ant _eats bee\n"}, "train.txt, line 1", "with tabs between"),
        ({"train": "ant\t_eats\tbee\nant\t\tbee\n"}, "train.txt, line 2", "with tabs between"),
        ({"valid": b"ant\t_eats\t\xff\n"}, "valid.txt, line 1", "UTF-8"),
        ({"entities": "zero\tant\n"}, "entities.dict, line 1", "expected a number"),
        ({"entities": "0\tant\n0\tbee\n"}, "entities.dict, line 2", "give every entity one number"),
        ({"relations": "0\t_eats\n1\t_eats\n"}, "relations.dict, line 2", "give every relation one number"),
        ({"relations": "0\t_eats\n2\t_sees\n"}, "relations.dict", "no line 1; number its lines from 0 to 1"),
        ({"test": "ant\t_eats\tbee\n"}, "test.txt, line 1", "also in .*train.txt, line 1; keep one"),
    ],
)
def test_bad_files_are_named_with_the_remedy(tmp_path: Path, change: dict[str, str | bytes], where: str, message: str) -> None:
    with pytest.raises(InputError, match=f"{re.escape(str(tmp_path / where))}.*{message}"):
        read_triples(write(tmp_path, **change))


def test_unknown_names_are_named(tmp_path: Path) -> None:
    with pytest.raises(IdError, match=r"test\.txt, line 1: 'elk' is no entity of .*entities\.dict; add it"):
        read_triples(write(tmp_path, test="elk\t_eats\tant\n"))
    with pytest.raises(IdError, match=r"'_likes' is no relation of .*relations\.dict"):
        read_triples(write(tmp_path, test="ant\t_likes\tant\n"))
    (tmp_path / "valid.txt").unlink()
    with pytest.raises(IncompleteDatasetError, match=r"valid\.txt"):
        read_triples(tmp_path)


@pytest.mark.data
def test_real_wn18rr(shared_data: Path) -> None:
    """The counts of Dettmers et al., 2018; and no held-out triple among the edges."""
    links = read_triples(shared_data / "wn18rr")
    assert links.tables.nodes["entity"].num_nodes == 40_943
    assert (len(links.relations), len(links.tables.edges)) == (11, 22)
    assert {name: len(split) for name, split in links.splits.items()} == {"train": 86_835, "val": 3_034, "test": 3_134}
    assert sum(table.num_edges for table in links.tables.edges.values()) == 2 * 86_835
    assert links.relations[0] == ("entity", "hypernym", "entity")
    edges = {
        (number, *pair)
        for number, relation in enumerate(links.relations)
        for pair in zip(*ends(links.tables.edges[relation]), strict=True)
    }
    for name, expected in (("train", 86_835), ("val", 0), ("test", 0)):
        split = links.splits[name]
        triples = zip(split.relation.tolist(), split.src.tolist(), split.dst.tolist(), strict=True)
        assert len(edges & set(triples)) == expected
