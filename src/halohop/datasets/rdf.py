"""Knowledge graphs in RDF's N-Triples (https://www.w3.org/TR/n-triples/), and AIFB, the smallest benchmark of R-GCN.

The graph is built as in Schlichtkrull et al., "Modeling Relational Data with Graph Convolutional Networks" (2018): every
subject and object, literals included, is a node of the one type "entity"; every predicate is a relation and has an inverse.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch

from halohop.datasets.splits import index_masks
from halohop.errors import IdError, IncompleteDatasetError, InputError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import Relation

ENTITY = "entity"
"""The node type of graphs from RDF."""

Triple = tuple[str, str, str]

_IRI = r"<[^<>\s]+>"
_BLANK = r"_:[^\s<>\"]*[^\s<>\".]"
_LITERAL = rf'"(?:[^"\\\n\r]|\\.)*"(?:\^\^{_IRI}|@[A-Za-z]+(?:-[A-Za-z0-9]+)*)?'
_TRIPLE = re.compile(rf"\s*({_IRI}|{_BLANK})\s*({_IRI})\s*({_IRI}|{_BLANK}|{_LITERAL})\s*\.\s*(?:#.*)?\s*")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_STRING_TYPE = "^^<http://www.w3.org/2001/XMLSchema#string>"


def read_ntriples(path: str | Path) -> Iterator[Triple]:
    """The triples of an N-Triples file (``.nt`` or ``.nt.gz``), as subject, predicate and object in N-Triples spelling.

    IRIs keep their angle brackets, literals their quotes, datatypes and language tags. Escapes are resolved, language tags
    lowered and the default datatype xsd:string left out, so that equal terms are equal strings.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: a line is not a triple; names file and line.
    """
    path = Path(path)
    if not path.is_file():
        raise IncompleteDatasetError(f"there is no file {path}")
    number = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        try:
            for line in lines:
                number += 1
                triple = _parse(line.decode())
                if triple is not None:
                    yield triple
        except (ValueError, EOFError, OSError, zlib.error) as error:
            raise InputError(f"{path}, line {number}: {error}") from error


def read_rdf(
    path: str | Path,
    *,
    labels: Mapping[str, str] | None = None,
    splits: Mapping[str, Iterable[str]] | None = None,
    inverse: bool = True,
) -> GraphTables:
    """A graph of one node type, "entity", and a relation per predicate, from an N-Triples file.

    Entities are numbered in order of first occurrence, subject before object; a triple that occurs twice counts once.
    Relations are named by the last part of their predicate, made safe and different: ``publication``, ``publication_inv``.

    Args:
        path: ``.nt`` or ``.nt.gz``.
        labels: class name by entity; an entity is named by its IRI, bare or in N-Triples spelling. Classes are numbered in
            the order of their names.
        splits: entities of each split: ``{"train": [...], "test": [...]}`` become ``train_mask`` and ``test_mask``.
        inverse: add the inverse relation ``<name>_inv`` of each.

    Returns:
        Entities with ``y`` int64 (-1: unlabelled) where labels are given, and masks.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: a line is not a triple.
        IdError: labels or splits name an entity that the file does not have.
    """
    number: dict[str, int] = {}
    pairs: dict[str, dict[tuple[int, int], None]] = {}
    for subject, predicate, target in read_ntriples(path):
        pair = (number.setdefault(subject, len(number)), number.setdefault(target, len(number)))
        pairs.setdefault(predicate, {})[pair] = None

    def row(entity: str) -> int:
        term = entity if entity.startswith(("<", "_:", '"')) else f"<{entity}>"
        if term not in number:
            raise IdError(f"{path} has no entity {entity!r}")
        return number[term]

    columns = {}
    if labels is not None:
        classes = {name: index for index, name in enumerate(sorted(set(labels.values())))}
        columns["y"] = torch.full((len(number),), -1, dtype=torch.int64)
        for entity, name in labels.items():
            columns["y"][row(entity)] = classes[name]
    rows = {split: np.array([row(entity) for entity in entities], np.int64) for split, entities in (splits or {}).items()}
    columns |= index_masks(len(number), rows)
    edges: dict[Relation, EdgeTable] = {}
    for predicate, name in relation_names(pairs).items():
        src, dst = torch.tensor(list(pairs[predicate]), dtype=torch.int64).t().contiguous()
        edges[ENTITY, name, ENTITY] = EdgeTable(src=src, dst=dst)
        if inverse:
            edges[ENTITY, f"{name}_inv", ENTITY] = EdgeTable(src=dst, dst=src)
    return GraphTables(nodes={ENTITY: NodeTable(num_nodes=len(number), columns=columns)}, edges=edges)


def aifb(root: str | Path, *, val_fraction: float = 0.2, seed: int = 0) -> GraphTables:
    """AIFB: 8,285 entities of a research institute, 58,086 edges of 90 relations; which of 4 groups does a person belong to?

    Args:
        root: folder with ``aifb_stripped.nt.gz``, ``trainingSet.tsv`` and ``testSet.tsv``.
        val_fraction: share of the 140 training persons that validate instead; 0 leaves the published split.
        seed: chooses them.

    Raises:
        IncompleteDatasetError: a file is missing.
        InputError: a file is not what its name says.
    """
    if not 0 <= val_fraction < 1:
        raise InputError(f"val_fraction={val_fraction} must be at least 0 and under 1")
    root = Path(root)
    train = _read_labels(root / "trainingSet.tsv", "person", "label_affiliation")
    test = _read_labels(root / "testSet.tsv", "person", "label_affiliation")
    shuffled = np.random.default_rng(seed).permutation(np.array(sorted(train), dtype=object)).tolist()
    num_val = round(val_fraction * len(shuffled))
    splits = {"train": shuffled[num_val:], "val": shuffled[:num_val], "test": test}
    return read_rdf(root / "aifb_stripped.nt.gz", labels=train | test, splits=splits)


def _parse(line: str) -> Triple | None:
    """The triple of a line; None for an empty line or a comment."""
    if not line.strip() or line.lstrip().startswith("#"):
        return None
    match = _TRIPLE.fullmatch(line)
    if match is None:
        raise InputError(f"not a triple: {line.strip()[:200]!r}")
    subject, predicate, target = match.groups()
    return _term(subject), _term(predicate), _term(target)


def _term(text: str) -> str:
    if text[0] == '"':
        body, quote, suffix = text.rpartition('"')
        suffix = suffix.lower() if suffix.startswith("@") else suffix.removesuffix(_STRING_TYPE)
        return _unescaped(body) + quote + _unescaped(suffix)
    return _unescaped(text)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_resolve, text) if "\\" in text else text


def _resolve(match: re.Match[str]) -> str:
    short, long, letter = match.groups()
    if letter is not None:
        if letter not in _ESCAPED:
            raise InputError(f"unknown escape {match.group()!r}")
        return _ESCAPED[letter]
    code = int(short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise InputError(f"{match.group()!r} is no character")
    return chr(code)


def relation_names(predicates: Iterable[str]) -> dict[str, str]:
    """A short name for each predicate: safe in file names, different also where case does not count, with or without _inv."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for predicate in sorted(predicates):
        local = re.split(r"[/#:]", predicate.strip("<>").rstrip("/#"))[-1]
        stem = re.sub(r"[^0-9A-Za-z]+", "_", local).strip("_")[:60].strip("_") or "relation"
        name, copies = stem, 1
        while taken & {name.lower(), f"{name}_inv".lower()}:
            copies += 1
            name = f"{stem}_{copies}"
        taken |= {name.lower(), f"{name}_inv".lower()}
        names[predicate] = name
    return names


def _read_labels(path: Path, entity_column: str, label_column: str) -> dict[str, str]:
    """Label by entity from a tab-separated file with a header."""
    if not path.is_file():
        raise IncompleteDatasetError(f"there is no file {path}")
    with path.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines, delimiter="\t")
        for column in (entity_column, label_column):
            if column not in (reader.fieldnames or ()):
                raise InputError(f"{path} has no column {column!r}; it has {reader.fieldnames}")
        labels = {}
        for record in reader:
            entity, label = record[entity_column], record[label_column]
            if not entity or not label:
                raise InputError(f"{path}, line {reader.line_num}: {entity_column} or {label_column} is empty")
            labels[entity] = label
    return labels
