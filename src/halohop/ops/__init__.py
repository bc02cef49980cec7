"""Arithmetic on tensors, behind one door: nothing above knows which kernel runs.

Everything here takes and returns CPU tensors and is a pure function, the `Relabeler` and the `CacheIndex` excepted.
`halohop.ops.reference` holds the same names again, slow and obvious: it is the specification, and the tests compare the two.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from halohop.ops.access import add_absence, draw_shares
from halohop.ops.adjacency import count_ends, induced, merge_lists, place_ends
from halohop.ops.beginnings import fill_normal, fill_uniform
from halohop.ops.cache import CacheIndex
from halohop.ops.cached_rows import CachedRows
from halohop.ops.dealing import Lists, Parts
from halohop.ops.eligible import TIME_DTYPES, Eligible
from halohop.ops.hops import MOST_DRAWN, NearEdges, NearHops, NearLists
from halohop.ops.hot import HotRows
from halohop.ops.index import (
    Buckets,
    bucket,
    build_csc,
    copy_ids,
    count_keys,
    count_lists,
    distinct_pairs,
    never_falls,
    only_part,
    repeat_positions,
)
from halohop.ops.keys import KeyIndex, pad_texts
from halohop.ops.labor import Sources
from halohop.ops.lists import stitch, stitch_lists
from halohop.ops.missing import fill_missing, gather_known, known_places, link_empty, missing_places
from halohop.ops.narrow import Narrow, narrowed, widened
from halohop.ops.packing import PackedIntegers, pack_integers, unpack_integers
from halohop.ops.paging import windows
from halohop.ops.pieces import Pieces
from halohop.ops.plain import (
    count_true,
    filled_up,
    first_missing,
    first_places,
    from_on,
    in_turn,
    join_ids,
    lengthened,
    link_trees,
    list_begins,
    places_apart,
    places_in,
    quotients,
    scaled,
    scaled_sum,
    shifted,
)
from halohop.ops.pool import Pool
from halohop.ops.random import fractions, name_key, stream_key
from halohop.ops.ranges import Ranges, meet, number
from halohop.ops.ranked import RankedRuns, RankedSet
from halohop.ops.records import Records
from halohop.ops.relabel import Relabeler, relabeler
from halohop.ops.rows import (
    gather_rows,
    gather_rows_to,
    join_rows,
    pick_rows,
    scatter_rows,
)
from halohop.ops.rules import FLOATS, gradient_dtype, step_adagrad, step_adam, step_rowwise_adagrad, step_sgd
from halohop.ops.sample import list_lengths, sample_neighbors
from halohop.ops.sorting import ascending_order, sort_edges, sorted_begins
from halohop.ops.sparse import SparsePieces, SparseRows, merge_sparse
from halohop.ops.sums import SummedRows, all_finite, any_huge, sum_by_id, sum_of_squares, unite
from halohop.ops.times import comparable, window_start
from halohop.ops.warmup import compile_kernels, warm_up, warm_up_near, warm_up_tables
from halohop.ops.weighted import WEIGHT_DTYPES, WeightError, WeightSums, sum_weights

if TYPE_CHECKING:
    from halohop.ops.segments import SEGMENT_DTYPES, segment_add, segment_dot, segment_gatv2, segment_softmax, segment_spmm

__all__ = [
    "FLOATS",
    "MOST_DRAWN",
    "SEGMENT_DTYPES",
    "TIME_DTYPES",
    "WEIGHT_DTYPES",
    "Buckets",
    "CacheIndex",
    "CachedRows",
    "Eligible",
    "HotRows",
    "KeyIndex",
    "Lists",
    "Narrow",
    "NearEdges",
    "NearHops",
    "NearLists",
    "PackedIntegers",
    "Parts",
    "Pieces",
    "Pool",
    "Ranges",
    "RankedRuns",
    "RankedSet",
    "Records",
    "Relabeler",
    "Sources",
    "SparsePieces",
    "SparseRows",
    "SummedRows",
    "WeightError",
    "WeightSums",
    "add_absence",
    "all_finite",
    "any_huge",
    "ascending_order",
    "bucket",
    "build_csc",
    "comparable",
    "compile_kernels",
    "copy_ids",
    "count_ends",
    "count_keys",
    "count_lists",
    "count_true",
    "distinct_pairs",
    "draw_shares",
    "fill_missing",
    "fill_normal",
    "fill_uniform",
    "filled_up",
    "first_missing",
    "first_places",
    "fractions",
    "from_on",
    "gather_known",
    "gather_rows",
    "gather_rows_to",
    "gradient_dtype",
    "in_turn",
    "induced",
    "join_ids",
    "join_rows",
    "known_places",
    "lengthened",
    "link_empty",
    "link_trees",
    "list_begins",
    "list_lengths",
    "meet",
    "merge_lists",
    "merge_sparse",
    "missing_places",
    "name_key",
    "narrowed",
    "never_falls",
    "number",
    "only_part",
    "pack_integers",
    "pad_texts",
    "pick_rows",
    "place_ends",
    "places_apart",
    "places_in",
    "quotients",
    "relabeler",
    "repeat_positions",
    "sample_neighbors",
    "scaled",
    "scaled_sum",
    "scatter_rows",
    "segment_add",
    "segment_dot",
    "segment_gatv2",
    "segment_softmax",
    "segment_spmm",
    "shifted",
    "sort_edges",
    "sorted_begins",
    "step_adagrad",
    "step_adam",
    "step_rowwise_adagrad",
    "step_sgd",
    "stitch",
    "stitch_lists",
    "stream_key",
    "sum_by_id",
    "sum_of_squares",
    "sum_weights",
    "unite",
    "unpack_integers",
    "warm_up",
    "warm_up_near",
    "warm_up_tables",
    "widened",
    "window_start",
    "windows",
]

_OF_LAYERS = frozenset({"SEGMENT_DTYPES", "segment_add", "segment_dot", "segment_gatv2", "segment_softmax", "segment_spmm"})


def __getattr__(name: str) -> Any:
    """What layers need, when it is first asked for: telling torch of it takes a while, and loaders have no use for it."""
    if name not in _OF_LAYERS:
        raise AttributeError(f"module 'halohop.ops' has no attribute {name!r}")
    return getattr(import_module("halohop.ops.segments"), name)
