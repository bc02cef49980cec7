"""Lists of edges with times, ``source destination time`` a line, as SNAP's CollegeMsg (https://snap.stanford.edu/data/CollegeMsg.html)."""

import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from halohop.datasets.direction import add_reverses
from halohop.datasets.links import EdgeSplit, LinkTables
from halohop.datasets.splits import TIME_FRACTIONS, time_masks
from halohop.errors import IncompleteDatasetError, InputError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

_WHOLE = re.compile(rb"[+-]?\d+")


def read_temporal(
    path: str | Path, *, fractions: Sequence[float] = TIME_FRACTIONS, undirected: bool = False, held_out: bool = False
) -> LinkTables:
    """A homogeneous graph of edges with an int64 column ``time``, split by time: train comes before val, val before test.

    Edges of one moment are in the same split, so no split knows anything of a later one. Edges keep the order of the file; the
    nodes are those that it mentions, by ascending id, also those that only later edges mention (without edges then).

    Args:
        path: ``.txt`` or ``.txt.gz``: three whole numbers a line with blanks between them; ``#`` begins a comment.
        fractions: shares of train, val and test among the edges; what they leave of 1 are the last edges, in no split.
        undirected: add the reverses of the edges, with the same times, behind them. The splits stay one way.
        held_out: have the edges of val and test in the graph, too, so that they are the past of those after them. That gives
            no answers away only where neighbours are drawn from before the time of the edge in question.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: a line is not three whole numbers (names file and line), no edge, or a split gets no edge because too many
            have the same time.

    Example:
        >>> _ = Path("said.txt").write_text("7 9 100\\n9 7 200\\n7 8 300\\n")
        >>> links = read_temporal("said.txt", fractions=(0.4, 0.3, 0.3))
        >>> links.tables.edges["node", "to", "node"].columns["time"], links.splits["test"].dst_raw
        (tensor([100]), tensor([8]))
    """
    path = Path(path)
    table = _read(path)
    time = torch.from_numpy(np.ascontiguousarray(table[:, 2]))
    try:
        masks = time_masks(time, fractions=fractions)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    raw, rows = np.unique(table[:, :2], return_inverse=True)
    raw_id = torch.from_numpy(raw)
    src, dst = torch.from_numpy(rows.reshape(-1, 2)).t().contiguous()
    kept = torch.stack([*masks.values()]).any(dim=0) if held_out else masks["train_mask"]
    tables = GraphTables(
        nodes={NODE: NodeTable(num_nodes=len(raw_id), raw_id=raw_id)},
        edges={EDGE: EdgeTable(src=src[kept], dst=dst[kept], columns={"time": time[kept]})},
    )
    splits = {
        name.removesuffix("_mask"): EdgeSplit(
            src=src[mask],
            dst=dst[mask],
            src_raw=raw_id[src[mask]],
            dst_raw=raw_id[dst[mask]],
            relation=torch.zeros(int(mask.sum()), dtype=torch.int64),
            time=time[mask],
        )
        for name, mask in masks.items()
    }
    return LinkTables(tables=add_reverses(tables) if undirected else tables, relations=(EDGE,), splits=splits)


def _read(path: Path) -> np.ndarray:
    """The numbers of the file, int64 ``[num_edges, 3]``."""
    if not path.is_file():
        raise IncompleteDatasetError(f"there is no file {path}")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}; fetch it again") from error
    lines = content.splitlines()
    if not any(line.split(b"#")[0].strip() for line in lines):
        raise InputError(f"{path} holds no edge; expected lines of source, destination and time")
    try:
        table = np.loadtxt(lines, dtype=np.int64, ndmin=2)
    except ValueError as error:
        raise _refused(path, lines) from error
    if table.shape[1] != 3:
        raise _refused(path, lines)
    return table


def _refused(path: Path, lines: list[bytes]) -> InputError:
    """What is wrong with the first line that is wrong."""
    for number, line in enumerate(lines, start=1):
        fields = line.split(b"#")[0].split()
        text, where = line.decode(errors="replace")[:200], f"{path}, line {number}"
        if fields and (len(fields) != 3 or not all(map(_WHOLE.fullmatch, fields))):
            return InputError(
                f"{where}: {text!r} is not source, destination and time; expected three whole numbers with blanks between them "
                "(halohop.datasets.read_tables takes CSV, strings and dates)"
            )
        if any(not -(2**63) <= int(field) < 2**63 for field in fields):
            return InputError(f"{where}: a number of {text!r} does not fit 64 bits; number the nodes anew, or count seconds")
    raise AssertionError(f"{path} was refused, but every line is good")
