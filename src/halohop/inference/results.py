"""The files that inference leaves: a row per node, ascending by raw id, as ``.npy`` files or as one Parquet table.

They are written beside their names and get them together, when all are complete.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from halohop.collectives import from_rank_0
from halohop.errors import ClusterError, InputError
from halohop.files.aside import writing
from halohop.files.parquet import arrow_column, arrow_type, parquet
from halohop.files.private import refuse_links
from halohop.files.whole import publish, set_aside, whole_file, written_stream
from halohop.flags import checks_flags
from halohop.inference.model import CONFIDENCE, EMBEDDINGS, PREDICTIONS
from halohop.store.npy import ArrayFile, numpy_name
from halohop.store.schema import ColumnSpec
from halohop.world import World

RAW_IDS, IDS, CLASSES = "raw_ids", "ids", "classes"
PARQUET = "predictions.parquet"
UNFINISHED = "unfinished"
"""Folder beside the results where a run layer by layer keeps what it needs to go on after it was stopped."""
INCOMPLETE = "results.incomplete"
"""File beside the results while they get their names: with it they are not a whole set, and the next run may replace them."""
ROWS = 65_536
"""Rows that are in memory at a time."""

FILES = (PARQUET, *(f"{name}.npy" for name in (RAW_IDS, PREDICTIONS, CONFIDENCE, EMBEDDINGS, IDS, CLASSES)))
"""Whatever a run may leave: what one leaves takes the place of all that another left."""


@checks_flags
def check_results(out: Path, *, overwrite: bool, by_layers: bool = True) -> None:
    """Refuses to lose results without having been asked to.

    Args:
        out: the folder of the results.
        overwrite: whether results that are there may be replaced.
        by_layers: whether the run to come is one layer by layer, which goes on with an unfinished one.

    Raises:
        InputError: results are there, and may not be replaced; or something of them is a symbolic link.
    """
    refuse_links(*(out / name for name in (*FILES, INCOMPLETE, UNFINISHED)))
    there = [name for name in FILES if (out / name).exists()]
    goes_on = by_layers and (out / UNFINISHED).exists()  # it was asked when it began
    if there and not (overwrite or goes_on or (out / INCOMPLETE).exists()):
        raise InputError(f"{out / there[0]} would be lost; choose another folder, or replace what is there (overwrite=True)")


class Results:
    """The result files of a run while they are being written, by one rank or by several.

    Args:
        out: the folder of the results.
        unfinished: where each column, and the ids, lie meanwhile, by name; empty on a rank that does not write.
        columns: dtype and shape of a row.
        count: rows.

    Attributes:
        names: of all files.
        count: rows.
    """

    def __init__(self, out: Path, unfinished: dict[str, Path], columns: dict[str, ColumnSpec], count: int) -> None:
        self._out, self.unfinished, self.count = out, unfinished, count
        self.names = [RAW_IDS, *columns]
        self._stack = ExitStack()
        self._specs = {name: (_stored_dtype(spec), (count, *spec.shape)) for name, spec in columns.items()}
        self._files: dict[str, ArrayFile] = {}

    @contextmanager
    def writable(self) -> Iterator["Results"]:
        """Open for `write`; what was written has reached the disk when the block ends."""
        with ExitStack() as stack:
            for name, (dtype, shape) in self._specs.items():
                self._files[name] = stack.enter_context(ArrayFile(self.unfinished[name], dtype, shape))
            yield self
            for file in self._files.values():
                file.sync()

    def write(self, positions: Tensor, rows: dict[str, Tensor]) -> None:
        """Writes row i of each column to ``positions[i]``, int64."""
        for name, values in rows.items():
            self._files[name].scatter(positions, values.cpu().to(self._specs[name][0]))

    def fill(self, read: Callable[[int, int], dict[str, Tensor]]) -> Generator[int, None, None]:
        """Writes all rows, which `read` gives from one position to another; says how many rows a step wrote."""
        with self.writable():
            for begin in range(0, self.count, ROWS):
                end = min(begin + ROWS, self.count)
                self.write(torch.arange(begin, end), read(begin, end))
                yield end - begin

    def add(self, name: str, dtype: np.dtype[Any], count: int, chunks: Iterator[np.ndarray]) -> Generator[int, None, None]:
        """Writes one more file, an array ``[count]``, of what comes in chunks; says how many rows a step wrote."""
        (path,) = self._stack.enter_context(set_aside([self._out / f"{name}.npy"]))
        self.unfinished[name] = path
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
        with written_stream(path, sync=True) as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for chunk in chunks:
                stream.write(chunk.astype(dtype).tobytes())
                yield len(chunk)

    def close(self) -> None:
        """Removes what was not published."""
        self._stack.close()

    @property
    def files(self) -> list[Path]:
        """What `publish` makes."""
        return [self._out / f"{name}.npy" for name in self.names]

    def publish(self) -> None:
        """Gives the files their names, in place of whatever results were there."""
        files = {path: self._out / f"{name}.npy" for name, path in self.unfinished.items()}
        publish(files, instead_of=[self._out / name for name in FILES], record=self._out / INCOMPLETE)

    def write_parquet(self) -> Generator[int, None, None]:
        """One Parquet file of all columns, a row group at a time, in place of whatever results were there. Says how many rows a
        step wrote. Where classes have names, these make a column "class" (lists of names where a node may belong to several)."""
        import pyarrow as pa

        arrays = {name: np.load(path, mmap_mode="r", allow_pickle=False) for name, path in self.unfinished.items()}
        classes = arrays.pop(CLASSES, None)
        schema = pa.schema([(name, arrow_type(array)) for name, array in arrays.items()])
        if classes is not None:
            several = arrays[PREDICTIONS].ndim == 2
            schema = schema.append(pa.field("class", pa.list_(pa.string()) if several else pa.string()))
        others = [self._out / name for name in FILES if name != PARQUET]
        whole = whole_file(self._out / PARQUET, instead_of=others, record=self._out / INCOMPLETE)
        with whole as stream, parquet().ParquetWriter(stream, schema) as writer:
            for begin in range(0, self.count, ROWS):
                end = min(begin + ROWS, self.count)
                rows = [arrow_column(array[begin:end]) for array in arrays.values()]
                if classes is not None:
                    rows.append(_class_names(classes, arrays[PREDICTIONS][begin:end]))
                writer.write_table(pa.Table.from_arrays(rows, schema=schema))
                yield end - begin


@contextmanager
def laid_out(out: Path, raw: Tensor, columns: dict[str, ColumnSpec]) -> Iterator[Results]:
    """Result files in their full size, with the room that they need; only the ids are filled in. They are removed when the block
    ends, unless they were published.

    Args:
        out: the folder.
        raw: ids of the rows, int64 ``[n]``.
        columns: what will be written, by name.
    """
    specs = {RAW_IDS: ColumnSpec.of(raw), **columns}
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with set_aside([out / f"{name}.npy" for name in specs]) as paths:
        unfinished = dict(zip(specs, paths, strict=True))
        for name, spec in specs.items():
            ArrayFile.reserve(unfinished[name], _stored_dtype(spec), (len(raw), *spec.shape))
        with ArrayFile(unfinished[RAW_IDS], raw.dtype, tuple(raw.shape)) as ids:
            ids.write(0, raw)
            ids.sync()
        with closing(Results(out, unfinished, columns, len(raw))) as results:
            yield results


@contextmanager
def shared_results(
    out: Path, raw: Tensor, rows: Mapping[str, Tensor], *, world: World, device: torch.device
) -> Iterator[Results]:
    """Result files for all ranks, which must see the same folder; rank 0 makes, publishes and removes them.

    Args:
        out: the folder.
        raw: ids of the rows, int64 ``[n]``.
        rows: what will be written, by name: any rows, or none, in the dtype and shape of each column.
        world, device: who writes, and where this rank computes.

    Raises:
        ClusterError: this rank does not see a file that rank 0 has made.
    """
    columns = {name: ColumnSpec.of(values) for name, values in rows.items()}
    with ExitStack() as stack:
        names: dict[str, str] = {}
        if world.rank == 0:
            results = stack.enter_context(laid_out(out, raw, columns))
            names = {name: path.name for name, path in results.unfinished.items()}
        names = msgspec.json.decode(from_rank_0(msgspec.json.encode(names), device, world), type=dict[str, str])
        if world.rank != 0:
            results = Results(out, {name: out / path for name, path in names.items()}, columns, len(raw))
            for path in results.unfinished.values():
                if not path.is_file():
                    raise ClusterError(
                        f"rank {world.rank} does not see {path}, which rank 0 has made; all ranks must see the same `out`"
                    )
        yield results


def _stored_dtype(spec: ColumnSpec) -> torch.dtype:
    """The column's own; float32 for floats that NumPy lacks, such as bfloat16."""
    dtype: torch.dtype = getattr(torch, spec.dtype)
    return torch.float32 if dtype.is_floating_point and "u" in numpy_name(dtype) else dtype


def _class_names(classes: np.ndarray, predictions: np.ndarray) -> Any:
    """The name of each predicted class, or the names where there may be several."""
    import pyarrow as pa

    if predictions.ndim == 2:
        return pa.array([classes[row > 0].tolist() for row in predictions], pa.list_(pa.string()))
    return arrow_column(classes[predictions])
