"""`halohop.partition` for whatever holds a graph in memory. PyG, which takes seconds to import, is not needed for tables."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from halohop.errors import InputError
from halohop.flags import checks_flags
from halohop.partitioning.assigners.assign import Classes, Method
from halohop.partitioning.assigners.defaults import TOLERANCE
from halohop.partitioning.building import build
from halohop.partitioning.building.narrowing import FeatureDtype, with_narrow_features
from halohop.partitioning.building.report import Report
from halohop.store.tables import GraphTables
from halohop.typing import EdgeDir

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

    from halohop.pyg.replicas import Replicas


@checks_flags
def partition(
    data: "Data | HeteroData | GraphTables",
    out: str | Path,
    *,
    num_parts: int,
    method: Method = "auto",
    seed: int = 0,
    tolerance: float = TOLERANCE,
    blocks: int | None = None,
    balance_types: bool = False,
    balance_classes: Classes | None = None,
    halo: Sequence[str] = (),
    edge_dir: EdgeDir = "in",
    feature_dtype: FeatureDtype | None = None,
    weight_sums: Sequence[str] = (),
    overwrite: bool = False,
    memory: str | int | None = None,
    worker: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
    replicas: "Replicas | None" = None,
) -> Report:
    """Divides a graph into partitions on disk, once, for any number of training runs.

    Args:
        data: a PyG `Data` or `HeteroData`, or the tables of a data set (`halohop.datasets`). Bool node attributes called
            ``<split>_mask`` become splits.
        out: a new folder.
        num_parts: how many partitions, at most as many as there are nodes, unless `method` is an assignment.
        method: "metis" (few cut edges; Karypis and Kumar 1998), "kaminpar" (for graphs beyond METIS's 2^31; Gottesbüren et al.
            2021), "ldg" or "fennel" (more, in a few bytes a node, with nothing to install; Stanton and Kliot 2012, Tsourakakis et
            al. 2014), "random" or "range". "auto" is "metis", "ldg" if METIS does not fit into memory, and "fennel" if it is not
            installed. Or each node's partition: a tensor or array of integers, the `Path` of a ``.npy`` file or of a text with a
            number on each line, or a dict of these by node type; or the `Path` of a folder that has such a file for each type.
        seed: of the division.
        tolerance: no partition has more than ``1 + tolerance`` times the mean number of nodes, training nodes, or edges, unless
            that cannot be reached, as with one node that has most edges; "random" and "range" do not look at edges.
        blocks: how many blocks of near nodes to make, for loaders with ``locality="blocks"``: a power of two that the partitions
            divide, made by "metis" only; 0 for none. None: 16, or 64 if the partitions do not divide 16; a small graph has none.
        balance_types: whether the nodes of each type are balanced on their own, rather than all types together.
        balance_classes: the class of each node, integers or bools ``[num_nodes]``, at most 32 classes; a dict of these by type
            where there are several. The nodes of each class are balanced, too. (Not by "random" and "range".)
        halo: columns of nodes, one number each, that are stored once more along the edges from these nodes, and "raw_id". With
            them a host alone can sample by them where it holds but some of the partitions: ``halo=("time",)`` for times of
            nodes, ``halo=("raw_id",)`` for ``method="labor"``. They take 4 or 8 bytes per edge and change no batch.
        edge_dir: which neighbours of a node can be drawn later, because its list is stored with it: "in", those with an edge to
            it, as PyG's loaders draw, or "out", those with an edge from it. Edges belong to the owner of their destination, or of
            their source.
        feature_dtype: how features are stored, and sent between hosts: "float16", "bfloat16", or "int8" (255 equal steps from the
            least to the greatest number in each of the columns of a matrix). For ``x`` and ``edge_attr``; or a dict for other
            columns, ``{"feat": "int8"}``. Batches have the dtype of the graph. Rows of float32 and float64 only.
        weight_sums: columns of edges, one number each, whose running sums are stored beside them: draws by them (`weight_attr`)
            are quicker, and the same. They take a byte for each edge and 8 for each node. `halohop.add_weight_sums` adds them
            later.
        overwrite: replace a data set of halohop in that folder.
        memory: what this process may take beside the tensors that are in its memory: "4GB", or bytes; None is half of what is
            available. A graph that does not fit goes through files in ``OUT.build``, beside the new folder, which is gone at the
            end; killed, the same call goes on there.
        worker: share the work with all processes that make the same call, here or on other hosts with the same folder.
        progress: called with (stage, done, total).
        replicas: what each partition copies of the others at the end, see `halohop.add_replicas`.

    Returns:
        What came out: sizes, cut, balance, halo per partition.

    Raises:
        InputError: the graph or an option cannot work, a weight of `weight_sums` is negative or not finite (named by its edge),
            or `memory` is too little.
        WriteError: a file cannot be written, as on a full disk; names it.
        DatasetError: `out` holds something that is not ours to replace.

    Example:
        >>> import tempfile, torch
        >>> from torch_geometric.data import Data
        >>> ring = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = partition(ring, f"{folder}/parts", num_parts=2, method="random")
    """
    if worker and replicas is not None:
        raise InputError("worker=True builds partitions only; call halohop.add_replicas when all workers have ended")
    tables = data if isinstance(data, GraphTables) else _tables_from_pyg(data)
    build.check_num_parts(tables, num_parts, method)
    report = build.partition(
        with_narrow_features(tables, feature_dtype),
        out,
        num_parts=num_parts,
        method=method,
        seed=seed,
        tolerance=tolerance,
        blocks=blocks,
        balance_types=balance_types,
        balance_classes=balance_classes,
        halo=halo,
        edge_dir=edge_dir,
        weight_sums=weight_sums,
        overwrite=overwrite,
        memory=memory,
        worker=worker,
        progress=progress,
    )
    if replicas is not None:
        from halohop.pyg.replicas import add_replicas

        add_replicas(out, replicas)
    return report


def _tables_from_pyg(data: "Data | HeteroData") -> GraphTables:
    from halohop.pyg.convert import tables_from_pyg

    return tables_from_pyg(data)
