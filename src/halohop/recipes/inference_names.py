"""Names in the results of inference: the users' own ids where they are strings, and the names of classes."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.datasets.text import texts_of
from halohop.recipes.inference_results import CLASSES, IDS, ROWS
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import RAW_TEXT, NodeType


def has_text_ids(graph: Graph, target: NodeType) -> bool:
    """Whether the user's ids of these nodes are strings."""
    return RAW_TEXT in graph.schema.nodes[target].columns


def write_ids(out: Path, graph: Graph, target: NodeType, gid: Tensor) -> Generator[int, None, None]:
    """Writes ``ids.npy``, the nodes' ids as strings ``[n]``, which appears when it is complete. Says how many rows a step wrote.

    Args:
        out: an existing folder.
        graph: where the ids are stored.
        target: type of the nodes.
        gid: the nodes, int64 ``[n]``.
    """
    (width,) = graph.schema.nodes[target].columns[RAW_TEXT].shape
    part = out / f"{IDS}.npy.new"
    ids: np.memmap[Any, Any] = np.lib.format.open_memmap(part, mode="w+", dtype=f"U{width}", shape=(len(gid),))
    for begin in range(0, len(gid), ROWS):
        chunk = gid[begin : begin + ROWS]
        ((rows,),) = graph.fetch(FetchRequest(queries=(RowQuery(table=target, columns=(RAW_TEXT,), gid=chunk),)))
        ids[begin : begin + len(chunk)] = texts_of(rows.to(torch.uint8))
        yield len(chunk)
    ids.flush()
    part.replace(out / f"{IDS}.npy")


def write_classes(out: Path, classes: tuple[str, ...]) -> Generator[int, None, None]:
    """Writes ``classes.npy``, the name of each class: ``classes[predictions]`` are the predicted names."""
    part = out / f"{CLASSES}.npy.new"
    with part.open("wb") as stream:
        np.save(stream, np.array(classes, dtype=np.str_))
    part.replace(out / f"{CLASSES}.npy")
    yield 0
