"""METIS's C library, called through ctypes: it takes a balance constraint for each load."""

import ctypes
import signal
from functools import cache
from importlib.metadata import PackageNotFoundError, files

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.partitioning.assigners.union import Adjacency

INSTALL = 'pip install "halohop[metis]"'

_NUM_OPTIONS = 40
_NCUTS, _SEED = 8, 9  # places in METIS's list of options, as of METIS 5.2
_OK, _OUT_OF_MEMORY, _STOPPED = 1, -3, -4
_LARGEST = 2**31 - 1

Ids = NDArray[np.int32]


def is_installed() -> bool:
    """Whether METIS can be called."""
    return _library_files() is not None


def check_size(num_ends: int, loads: Tensor) -> None:
    """
    Raises:
        InputError: so many ends of edges, or sums of loads, are too large for METIS's 32-bit numbers.
    """
    total = max([num_ends, *loads.tolist()])
    if total > _LARGEST:
        raise InputError(f'the graph has {total} ends of edges or loads, METIS holds {_LARGEST}; use method="kaminpar" or "ldg"')


def part_graph(
    graph: Adjacency,
    loads: Tensor,
    num_parts: int,
    *,
    slack: Tensor,
    seed: int,
    tries: int = 1,
    recursive: bool = False,
) -> Tensor:
    """Divides an undirected graph so that few edges are cut (multilevel partitioning; Karypis and Kumar, 1998).

    Args:
        graph: with at least one edge.
        loads: what each node adds to its part, integers ``[n, k]``; each load is a constraint of its own.
        num_parts: 2 to the number of nodes.
        slack: per load, no part shall have more than so many times the mean, float ``[k]``, a wish where nodes are coarse.
        seed: of METIS's choices, which are a function of it.
        tries: how many divisions it makes, of which the one with the fewest cut edges is taken.
        recursive: by recursive bisection instead of all parts at once; `slack` is then that of each bisection.

    Returns:
        The part of each node, int32 ``[n]``.

    Raises:
        InputError: METIS is not installed, or was stopped.
    """
    library = _library()
    assert graph.weights is not None
    options = np.zeros(_NUM_OPTIONS, np.int32)
    library.METIS_SetDefaultOptions(_address(options))
    options[_NCUTS], options[_SEED] = tries, 1 + seed % (_LARGEST - 1)  # C's rand takes 0 for 1
    arrays = [_int32(values) for values in (graph.indptr, graph.neighbors, loads, graph.weights)]
    indptr, neighbors, vertex_weights, edge_weights = arrays
    part, allowed = np.zeros(graph.num_nodes, np.int32), slack.numpy().astype(np.float32)
    numbers = [ctypes.byref(ctypes.c_int32(value)) for value in (graph.num_nodes, loads.size(1), num_parts, 0)]
    nodes, constraints, parts, cut = numbers
    divide = library.METIS_PartGraphRecursive if recursive else library.METIS_PartGraphKway
    status = divide(
        *(nodes, constraints, _address(indptr), _address(neighbors), _address(vertex_weights), None, _address(edge_weights)),
        *(parts, None, _address(allowed), _address(options), cut, _address(part)),
    )
    if status == _OUT_OF_MEMORY:
        raise InputError(f'METIS has not enough memory for {len(graph.neighbors) // 2} edges; use method="kaminpar" or "ldg"')
    if status == _STOPPED:  # METIS catches SIGTERM while it divides, in place of the handler of this process
        if callable(signal.getsignal(signal.SIGTERM)):
            signal.raise_signal(signal.SIGTERM)
        raise InputError("METIS was stopped, by a signal or by an error of its own; run again, or use another method")
    assert status == _OK, f"METIS returned {status}"
    return torch.from_numpy(part)


def _library_files() -> tuple[str, str] | None:
    """GKlib, on which METIS stands, and METIS."""
    found = []
    for package, name in (("cmeel-gklib", "libGKlib"), ("cmeel-metis", "libmetis")):
        try:
            listed = files(package) or []
        except PackageNotFoundError:
            return None
        found += [str(path.locate()) for path in listed if path.name in (f"{name}.so", f"{name}.dylib")]
    return (found[0], found[1]) if len(found) == 2 else None


def _library() -> ctypes.CDLL:
    paths = _library_files()
    if paths is None:
        raise InputError(f'method="metis" needs METIS: {INSTALL}; method="fennel" and "ldg" need nothing')
    return _loaded(*paths)


@cache
def _loaded(gklib: str, metis: str) -> ctypes.CDLL:
    ctypes.CDLL(gklib, ctypes.RTLD_GLOBAL)  # METIS's own search path for it is broken in these wheels
    return ctypes.CDLL(metis)


def _int32(values: Tensor) -> Ids:
    return np.ascontiguousarray(values.numpy(), dtype=np.int32)


def _address(array: NDArray[np.generic]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)
