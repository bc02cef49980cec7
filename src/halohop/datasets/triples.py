"""Knowledge graphs for link prediction, as WN18RR and FB15k-237 are handed around: a line per triple, three files of them.

Every relation becomes an edge type of its own, not a number in a column of one relation, because of what R-GCN (Schlichtkrull et
al., 2018) does with them: it takes a mean per relation, so each relation must be sampled with a fanout of its own (with a shared
one the frequent relations crowd out the rare ones); and a corrupted triple is false only if *that relation* lacks the edge, which
is then a look-up in that relation's neighbours.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from halohop.datasets.links import EdgeSplit, LinkTables
from halohop.datasets.rdf import ENTITY, relation_names
from halohop.errors import IdError, IncompleteDatasetError, InputError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import Relation

SPLIT_FILES = {"train": "train.txt", "val": "valid.txt", "test": "test.txt"}
"""Which file holds which split."""

_Triple = tuple[int, int, int]


def read_triples(folder: str | Path, *, inverse: bool = True) -> LinkTables:
    """A graph of one node type, "entity", and a relation per kind of triple; its edges are the training triples.

    The files hold a triple a line, tab-separated: head, relation, tail. One that occurs twice in a file counts once. Entities and
    relations are numbered as in ``entities.dict`` and ``relations.dict`` (a line each: number, tab, name) where those lie beside
    them, else in order of first occurrence. Names of relations are made safe: ``_has_part`` becomes ``has_part``. The inverse of
    relation number k is called ``<name>_inv`` and stands at place ``k + len(relations)`` in the graph.

    Args:
        folder: has ``train.txt``, ``valid.txt`` and ``test.txt``.
        inverse: add the inverse of every relation to the graph, so that messages flow both ways. Held-out triples are in neither.

    Raises:
        IncompleteDatasetError: a file is missing.
        IdError: a triple names an entity or a relation that the ``.dict`` file lacks; names file and line.
        InputError: a line is no triple, a ``.dict`` does not number from 0, or two splits hold the same triple, so that one gives
            away the answers of the other; names file and line.

    Example:
        >>> for name, line in {"train": "cat is pet", "valid": "dog is pet", "test": "pet is animal"}.items():
        ...     _ = Path(f"{name}.txt").write_text(line.replace(" ", "\\t"))
        >>> links = read_triples(".")
        >>> list(links.tables.edges), links.splits["test"].src.tolist()
        ([('entity', 'is', 'entity'), ('entity', 'is_inv', 'entity')], [1])
    """
    folder = Path(folder)
    entities, relations = _Names(folder / "entities.dict", "entity"), _Names(folder / "relations.dict", "relation")
    first: dict[_Triple, tuple[Path, str]] = {}
    columns = {split: _read_split(folder / name, entities, relations, first) for split, name in SPLIT_FILES.items()}
    names = relation_names(relations.number)
    predicted: list[Relation] = [(ENTITY, names[text], ENTITY) for text in relations.number]
    edges = {}
    head, kind, tail = columns["train"]
    for number, relation in enumerate(predicted):
        chosen = kind == number
        edges[relation] = EdgeTable(src=head[chosen], dst=tail[chosen])
    if inverse:
        for _, name, _ in predicted:
            table = edges[ENTITY, name, ENTITY]
            edges[ENTITY, f"{name}_inv", ENTITY] = EdgeTable(src=table.dst, dst=table.src)
    splits = {
        split: EdgeSplit(src=head, dst=tail, src_raw=head, dst_raw=tail, relation=kind)
        for split, (head, kind, tail) in columns.items()
    }
    nodes = {ENTITY: NodeTable(num_nodes=len(entities.number))}
    return LinkTables(tables=GraphTables(nodes=nodes, edges=edges), relations=tuple(predicted), splits=splits)


class _Names:
    """Numbers by name: those of a file, or given out in order of first occurrence if there is none."""

    def __init__(self, path: Path, what: str) -> None:
        self._path, self._what = path, what
        self._closed = path.is_file()
        self.number: dict[str, int] = {}
        if self._closed:
            self._read()

    def _read(self) -> None:
        named: dict[int, str] = {}
        for where, fields in _lines(self._path):
            if len(fields) != 2 or not fields[0].isdecimal() or not fields[1]:
                raise InputError(f"{where}: expected a number, a tab and the name of a {self._what}, got {fields}")
            number, name = int(fields[0]), fields[1]
            if number in named or name in self.number:
                raise InputError(f"{where}: {number} or {name!r} has a line before this one; give every {self._what} one number")
            named[number] = name
            self.number[name] = number
        gaps = set(range(len(named))) - set(named)
        if gaps:
            raise InputError(f"{self._path} has no line {min(gaps)}; number its lines from 0 to {len(named) - 1}, without gaps")
        self.number = {named[number]: number for number in sorted(named)}

    def find(self, name: str, where: str) -> int:
        if name not in self.number and self._closed:
            raise IdError(f"{where}: {name!r} is no {self._what} of {self._path}; add it there, or remove that file")
        return self.number.setdefault(name, len(self.number))


def _read_split(
    path: Path, entities: _Names, relations: _Names, first: dict[_Triple, tuple[Path, str]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Head, relation and tail of a file's triples; `first` knows where each triple of this and other files was found."""
    triples = []
    for where, fields in _lines(path):
        if len(fields) != 3 or not all(fields):
            raise InputError(f"{where}: expected head, relation and tail with tabs between them, got {fields}")
        head, kind, tail = fields
        triple = (entities.find(head, where), relations.find(kind, where), entities.find(tail, where))
        if triple not in first:
            first[triple] = (path, where)
            triples.append(triple)
        elif first[triple][0] != path:
            raise InputError(
                f"{where}: this triple is also in {first[triple][1]}; keep one, or one split gives away the answers of the other"
            )
    head_kind_tail = torch.tensor(triples, dtype=torch.int64).view(-1, 3).t().contiguous()
    return head_kind_tail[0], head_kind_tail[1], head_kind_tail[2]


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Where a line is, and its fields; empty lines are left out."""
    if not path.is_file():
        raise IncompleteDatasetError(f"there is no file {path}; a knowledge graph is a folder with {list(SPLIT_FILES.values())}")
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path}, line {number}"
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise InputError(f"{where}: {error}; save the file as UTF-8") from error
            if text.strip():
                yield where, [field.strip() for field in text.split("\t")]
