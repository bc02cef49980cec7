"""A PyG graph in a file that `torch.save` wrote; nothing in it is run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from halohop.errors import InputError
from halohop.pyg.convert import tables_from_pyg
from halohop.store.tables import GraphTables

CONTAINERS: list[Any] = [
    *(Data, DataEdgeAttr, DataTensorAttr, HeteroData),
    *(BaseStorage, GlobalStorage, NodeStorage, EdgeStorage),
]
"""What a file may hold besides tensors and plain values: dictionaries by another name, nothing that acts when it is built."""


@contextmanager
def containers_allowed() -> Iterator[None]:
    """Within it torch restores `CONTAINERS` from files; those that were allowed before, as PyG allows its own, stay so."""
    before = torch.serialization.get_safe_globals()
    with torch.serialization.safe_globals([kind for kind in CONTAINERS if kind not in before]):
        yield


def read_pt(path: Path) -> GraphTables:
    """The graph in a ``.pt`` file.

    Raises:
        InputError: it holds no `Data` or `HeteroData`, or something that only code could restore.
    """
    try:
        with containers_allowed():
            data: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the reader makes of a damaged file, or of classes that it refuses to build
        reason = next((line.strip() for line in str(error).splitlines() if "Unsupported" in line), str(error).splitlines()[0])
        remedy = "save a Data or HeteroData of tensors"
        if "AttrType" in str(error) or "defaultdict" in str(error):  # what PyG notes in a graph that its loaders have had
            reason, remedy = "PyG has left notes of its own in it", "save Data.from_dict(data.to_dict()), or that of HeteroData"
        raise InputError(f"{path} cannot be read without running code from it ({reason}); {remedy}") from error
    if not isinstance(data, Data | HeteroData):
        remedy = "; save one of its graphs: torch.save(dataset[0], path)" if isinstance(data, list | tuple) else ""
        raise InputError(f"{path} holds a {type(data).__name__}, expected a PyG Data or HeteroData{remedy}")
    return tables_from_pyg(data)
