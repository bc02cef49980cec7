"""How large a folder of ``.npy`` files is, from their headers; see `halohop.datasets.arrays`."""

import math
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from halohop.datasets.arrays import EDGE_INDEX, folders_of
from halohop.errors import InputError
from halohop.partitioning.planning.sizes import GraphSizes, TableSizes
from halohop.store.foreign import map_foreign
from halohop.typing import RAW_TEXT, NodeType, Relation

_IDS = "raw_id"


def arrays_sizes(folder: Path) -> GraphSizes:
    """
    Raises:
        IncompleteDatasetError, InputError, SchemaError: as `halohop.datasets.read_arrays`, as far as headers show it.
    """
    nodes, edges = folders_of(folder)
    found: dict[Relation, TableSizes] = {}
    guessed = []
    for relation, files in edges.items():
        ends = [file for file in files if file.stem == EDGE_INDEX]
        if not ends:
            raise InputError(f"the edges {'__'.join(relation)} have no {EDGE_INDEX}.npy")
        columns = {file.stem: _width(map_foreign(file)) for file in files if file.stem != EDGE_INDEX}
        found[relation] = TableSizes(rows=map_foreign(ends[0]).shape[-1], columns=columns)
    tables: dict[NodeType, TableSizes] = {}
    for name in dict.fromkeys([*nodes, *(end for relation in edges for end in relation[::2])]):
        arrays = {file.stem: map_foreign(file) for file in nodes.get(name, ())}
        if not arrays:
            count = max((table.rows for relation, table in found.items() if name in relation[::2]), default=0)
            tables[name] = TableSizes(rows=count)
            guessed.append(f"nodes of {name!r}, which have no arrays, are taken to be {count:,}, one for each of its edges")
            continue
        texts = _IDS in arrays and arrays[_IDS].dtype.kind == "U"
        columns = {stem: _width(array) for stem, array in arrays.items() if stem != _IDS}
        columns |= {RAW_TEXT: arrays[_IDS].dtype.itemsize / 4} if texts else {}
        rows = max(map(len, arrays.values()))
        tables[name] = TableSizes(rows=rows, columns=columns, own_ids=_IDS in arrays and not texts)
    return GraphSizes(nodes=tables, edges=found, guessed=tuple(guessed))


def _width(array: NDArray[Any]) -> float:
    """Bytes of a row as torch has it: classes are numbered, and unsigned integers widened."""
    wide = array.dtype.kind == "U" or (array.dtype.kind == "u" and array.dtype.itemsize > 1)
    return (8.0 if wide else float(array.dtype.itemsize)) * math.prod(array.shape[1:])
