"""`halohop.partition` for whatever holds a graph in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop.partitioning import build
from halohop.partitioning.division import Assigner, Assignment
from halohop.partitioning.report import Report
from halohop.pyg.convert import tables_from_pyg
from halohop.store.tables import GraphTables
from halohop.typing import EdgeDir


def partition(
    data: Data | HeteroData | GraphTables,
    out: str | Path,
    *,
    num_parts: int,
    method: str | Assignment | Tensor | Assigner = "auto",
    seed: int = 0,
    halo: Sequence[str] = (),
    edge_dir: EdgeDir = "in",
    overwrite: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Divides a graph into partitions on disk, once, for any number of training runs.

    Args:
        data: a PyG `Data` or `HeteroData`, or the tables of a data set (`halohop.datasets`). Bool node attributes called
            ``<split>_mask`` become splits.
        out: a new folder.
        num_parts: how many partitions.
        method: "metis" (few cut edges; Karypis and Kumar 1998), "fennel" (nearly as few, without pymetis; Tsourakakis et al.
            2014), "random", or a part for every node, per node type. "auto" is "metis" where pymetis is installed, else "fennel".
        seed: of the division.
        halo: columns of nodes, one number each, that are stored once more along the edges from these nodes, and "raw_id". With
            them a host alone can sample by them where it holds but some of the partitions: ``halo=("time",)`` for times of
            nodes, ``halo=("raw_id",)`` for ``method="labor"``. They take 4 or 8 bytes per edge and change no batch.
        edge_dir: which neighbours of a node can be drawn later, because its list is stored with it: "in", those with an edge to
            it, as PyG's loaders draw, or "out", those with an edge from it. Edges belong to the owner of their destination, or of
            their source.
        overwrite: replace a data set of halohop in that folder.
        progress: called with (stage, done, total).

    Returns:
        What came out: sizes, cut, balance, halo per partition.

    Raises:
        InputError: the graph or an option cannot work.
        DatasetError: `out` holds something that is not ours to replace.

    Example:
        >>> import tempfile, torch
        >>> ring = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = partition(ring, f"{folder}/parts", num_parts=2, method="random")
    """
    tables = data if isinstance(data, GraphTables) else tables_from_pyg(data)
    return build.partition(
        tables,
        out,
        num_parts=num_parts,
        method=method,
        seed=seed,
        halo=halo,
        edge_dir=edge_dir,
        overwrite=overwrite,
        progress=progress,
    )
