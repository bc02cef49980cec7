"""Assignments that the user gives: tensors, arrays, or files of partition numbers."""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.partitioning.assigners.division import Assignment
from halohop.store.foreign import map_foreign
from halohop.store.tables import GraphTables
from halohop.typing import NodeType

Given = Tensor | NDArray[Any] | Path
"""The partition of every row of a node table: integers ``[num_nodes]``, or a file of them."""

SUFFIXES = (".npy", ".txt", ".csv")

_PIECE = 1 << 20  # numbers that are read at a time


def read_assignment(given: Given | Mapping[NodeType, Given], tables: GraphTables, num_parts: int) -> Assignment:
    """The assignment that is meant, int32.

    Args:
        given: by node type, or one for the only node type; a file is a `.npy` array or a text with a number on each line, after
            a first line that may be a heading; a folder has such a file, or several, for each type, called ``TYPE.npy``,
            ``TYPE.txt`` or ``TYPE.csv``.
        tables: the graph, whose rows they number.
        num_parts: each number is 0 to num_parts - 1.

    Raises:
        InputError: what is given does not fit the graph; names the file, the line or row, and what is wrong.
    """
    if isinstance(given, Path) and given.is_dir():
        given = _files_of(given, tables)
    if isinstance(given, Path | Tensor | np.ndarray):
        if len(tables.nodes) != 1:
            kind = "file" if isinstance(given, Path) else "tensor"
            remedy = f"a folder with {SUFFIXES[0]} files of these names" if kind == "file" else "a dict of tensors"
            raise InputError(f"one {kind} assigns one node type, this graph has {list(tables.nodes)}; give {remedy}")
        given = dict.fromkeys(tables.nodes, given)
    if given.keys() != tables.nodes.keys():
        raise InputError(f"the assignment has node types {list(given)}, the graph has {list(tables.nodes)}")
    return {name: _checked(given[name], name, table.num_nodes, num_parts) for name, table in tables.nodes.items()}


def identity(given: Given | Mapping[NodeType, Given]) -> str:
    """Differs where the assignments differ: a digest of numbers; of files, their paths, sizes and times of change.

    Example:
        >>> one, other = torch.tensor([0, 1]), torch.tensor([1, 1])
        >>> identity(one) == identity(one.numpy()), identity(one) == identity(other)
        (True, False)
    """
    if isinstance(given, Path):
        files = sorted(given.iterdir()) if given.is_dir() else [given]
        states = [(str(file), file.stat()) for file in files if file.is_file()]
        return repr([str(given), *((name, state.st_size, state.st_mtime_ns) for name, state in states)])
    if not isinstance(given, Tensor | np.ndarray):
        return repr({name: identity(given[name]) for name in sorted(given)})
    array, summed = np.asarray(given), hashlib.blake2b(digest_size=16)
    for low in range(0, len(array), _PIECE):
        summed.update(array[low : low + _PIECE].astype(np.int64).tobytes())
    return summed.hexdigest()


def _files_of(folder: Path, tables: GraphTables) -> dict[NodeType, Given]:
    files = {name: [folder / f"{name}{suffix}" for suffix in SUFFIXES] for name in tables.nodes}
    found: dict[NodeType, Given] = {}
    for name, candidates in files.items():
        there = [file for file in candidates if file.is_file()]
        if len(there) != 1:
            what = " and ".join(file.name for file in there) or f"no {' or '.join(file.name for file in candidates)}"
            raise InputError(f"{folder} has {what}; give one file for each node type: {list(tables.nodes)}")
        found[name] = there[0]
    return found


def _checked(given: Given, name: NodeType, num_nodes: int, num_parts: int) -> Tensor:
    what = f"the assignment of {name!r}"
    if isinstance(given, Path) and given.suffix != ".npy":
        return _read_text(given, num_nodes, num_parts)
    if isinstance(given, Path):
        what, array = str(given), map_foreign(given)
    else:
        array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.shape != (num_nodes,):
        raise InputError(f"{what} must be integers of shape ({num_nodes},), got {_dtype(given, array)} of {array.shape}")
    part = np.empty(num_nodes, np.int32)
    for low in range(0, num_nodes, _PIECE):
        piece = array[low : low + _PIECE]
        wrong = ((piece < 0) | (piece >= num_parts)).nonzero()[0]
        if len(wrong):
            raise InputError(
                f"{what} holds {piece[wrong[0]]} for row {low + wrong[0]}, but partitions go from 0 to {num_parts - 1}"
            )
        part[low : low + _PIECE] = piece
    return torch.from_numpy(part)


def _dtype(given: Given, array: NDArray[Any]) -> object:
    return given.dtype if isinstance(given, Tensor) else array.dtype


def _read_text(file: Path, num_nodes: int, num_parts: int) -> Tensor:
    part, done = np.empty(num_nodes, np.int32), 0
    for line, numbers in _numbers(file):
        wrong = ((numbers < 0) | (numbers >= num_parts)).nonzero()[0]
        if len(wrong):
            at, number = line + wrong[0], numbers[wrong[0]]
            raise InputError(f"line {at} of {file} holds {number}, but partitions go from 0 to {num_parts - 1}")
        if done + len(numbers) > num_nodes:
            raise InputError(f"{file} has more than {num_nodes} numbers, one for each node; give each node one partition")
        part[done : done + len(numbers)] = numbers
        done += len(numbers)
    if done < num_nodes:
        raise InputError(f"{file} has {done} numbers for {num_nodes} nodes; give each node one partition")
    return torch.from_numpy(part)


def _numbers(file: Path) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The numbers of a text, some lines at a time, each with the number of its first line."""
    try:
        with file.open(encoding="utf-8") as stream:
            first = 1
            while lines := list(islice(stream, _PIECE)):
                if first == 1 and not lines[0].strip().lstrip("-").isdecimal():  # a heading
                    first, lines = 2, lines[1:]
                yield first, np.array([_number(text, first + at, file) for at, text in enumerate(lines)], np.int64)
                first += len(lines)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as a text of partition numbers: {error}") from error


def _number(text: str, line: int, file: Path) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"line {line} of {file} holds {text.strip()!r}; write one partition number on each line") from None
