"""Running sums of weights added to a data set on disk, or removed: `halohop.add_weight_sums`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from halohop.cluster.holding import Holding
from halohop.files.aside import remove, writing
from halohop.files.whole import write_file
from halohop.store.disk import map_replica
from halohop.store.manifest import SUMS, Manifest, encode, table_folder
from halohop.store.names import MANIFEST
from halohop.store.replica import replica_file
from halohop.store.weight_sums import ColumnSums, weight_columns, with_sums, write_sums
from halohop.typing import Relation


def add_weight_sums(path: str | Path, columns: Sequence[str] | None) -> dict[Relation, dict[str, int]]:
    """Stores running sums of weights beside the partitions of a graph; public as `halohop.add_weight_sums`.

    Draws by these weights (`weight_attr` of the loaders) are quicker then, and batches the same, bit for bit. Sums take a byte
    for each edge, and 8 for each node, of every column. The manifest is replaced at the end, in one step: a call that is killed
    changes nothing, the same call again goes on with the next file, and processes that have the data set open go on with what
    they have. Copy the whole folder to its hosts again, or do this before it is copied.

    Args:
        path: a data set, all of whose partitions are here.
        columns: names of columns of edges, one number each: of every relation those of them that it has. None removes all sums.

    Returns:
        By relation and column, of all sums that are stored then, how many nodes have edges but none with a weight above 0: by
        weight they have no neighbours.

    Raises:
        SchemaError: no relation has such a column.
        InputError: a weight that is negative or not finite, named by its edge; a column that no weights can be; or a partition is
            missing.
        DatasetError: the folder is no complete, healthy data set.
        WriteError: the disk is full, or cannot be written.

    Example:
        >>> import tempfile, torch, halohop
        >>> from torch_geometric.data import Data
        >>> star = Data(num_nodes=4, edge_index=torch.tensor([[1, 2, 0], [0, 0, 1]]), weight=torch.tensor([0.5, 2.0, 0.0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(star, f"{folder}/parts", num_parts=2, method="range")
        ...     add_weight_sums(f"{folder}/parts", ["weight"])
        {('node', 'to', 'node'): {'weight': 1}}
    """
    folder = Path(path).resolve()
    holding = Holding.to_change(folder, "sums are made")
    manifest = holding.manifest
    if columns is None:
        _remove(folder, manifest)
        return {}
    known = manifest.weight_sums
    new = {
        relation: lacking
        for relation, names in weight_columns(manifest.schema.edge_columns, columns).items()
        if (lacking := tuple(name for name in names if name not in known.get(relation, {})))
    }
    if new:
        manifest = with_sums(manifest, [sums for part in holding.parts for sums in _of_part(folder, holding, part, new)])
        write_file(folder / MANIFEST, encode(manifest))
    return {relation: dict(counts) for relation, counts in manifest.weight_sums.items() if counts}


def _of_part(folder: Path, holding: Holding, part: int, columns: dict[Relation, tuple[str, ...]]) -> Iterator[ColumnSums]:
    """Writes the sums of a partition, and of the lists that it copied of others."""
    first = {relation: holding.book.offset(relation, part) for relation in columns}
    yield from write_sums(folder, part, holding.parts[part].edges, columns, first)
    manifest = holding.manifest
    copied = map_replica(folder, manifest, part)
    if copied is not None and manifest.replicas is not None and manifest.replicas.lists:
        copies = write_sums(folder, part, copied.part.edges, columns, dict.fromkeys(columns, 0), copies=manifest.replicas.name)
        yield from (replace(sums, weightless=0) for sums in copies)


def _remove(folder: Path, manifest: Manifest) -> None:
    """Takes all sums out of a data set; who has mapped them keeps their pages. No manifest names what a killed call left."""
    places = {
        f"{table_folder(part, relation)}/{SUMS}" for part in range(manifest.num_parts) for relation in manifest.schema.edges
    }
    if manifest.replicas is not None:
        places |= {replica_file(manifest.replicas.name, place) for place in places}
    files = {file: record for file, record in manifest.files.items() if file.rpartition("/")[0] not in places}
    if any(manifest.weight_sums.values()):
        write_file(folder / MANIFEST, encode(replace(manifest, files=files, weight_sums={})))
    for place in places:
        with writing(folder / place):
            remove(folder / place)
