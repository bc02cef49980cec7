"""How kernels of a GPU are launched: types of arguments and constants, by which they are compiled without a GPU.

A kernel is a function of ops/gpu_*.py whose annotation says that it returns None; functions that return something are parts of
kernels. Add a line for a new one; ``python -m tests.support.gpu_compile MODULE.KERNEL`` compiles it and says what it takes.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One way of launching a kernel.

    Args:
        types: of the arguments that are no constants, in order: "*i64" (a tensor), "fp32", or "int", which Triton makes an i32 or
            an i64 by its value, and a constant where it is 1.
        constants: the others by name; a string such as "tl.int64" is a type of Triton's.
        hot: whether it runs for every row of every batch: then its registers must be enough.
        options: Triton's (num_warps), besides what `launch` always says.
    """

    types: str
    constants: dict[str, Any] = field(default_factory=dict)
    hot: bool = False
    options: dict[str, Any] = field(default_factory=dict)


_PIECES = "*i64 *i64 int"
_DRAWN = "*i64 *i64 *i64 *i64 *i64 *i64 *i64"
_BLOCK = {"block": 256}
_TABLE = "*i64 int int *i32"

_WORDS = {"i64": "tl.int64", "i32": "tl.int32", "i16": "tl.int16", "u8": "tl.uint8"}


def _rows(word: str, *, columns: int, aligned: int, types: str, **constants: Any) -> Launch:
    of_words = {
        "word": _WORDS[word],
        "unit": max(aligned // 8, 1),
        "aligned": aligned,
        "columns": columns,
        "block": 1024 // columns,
    }
    return Launch(types=types.replace("*word", f"*{word}"), constants=of_words | constants, hot=True)


def _copy(word: str, ids: str, flags: str, *, columns: int, aligned: int) -> Launch:
    """Of rows: flags are p(ieces), l(isted), t(o places) and m(issing ones)."""
    names = {"in_pieces": "p", "listed": "l", "placed": "t", "padded": "m"}
    source = _PIECES if "p" in flags else "*word *i64 int"
    types = f"{source} *{ids} *i64 *word *i64 int int int int"
    return _rows(word, columns=columns, aligned=aligned, types=types, **{name: letter in flags for name, letter in names.items()})


def _cached(word: str, places: str, ids: str, *, columns: int, aligned: int, padded: bool) -> Launch:
    types = f"{_PIECES} *{places} *{ids} *word *i64 *i64 int int int int"
    return _rows(word, columns=columns, aligned=aligned, types=types, padded=padded)


LAUNCHES: dict[str, list[Launch]] = {
    "gpu_cache.gather_cached": [
        _cached("i64", "i32", "i64", columns=16, aligned=16, padded=False),
        _cached("i32", "i64", "i32", columns=256, aligned=4, padded=True),
    ],
    "gpu_rows.copy_words": [
        _copy("i64", "i64", "pl", columns=16, aligned=16),
        _copy("i64", "i64", "plm", columns=64, aligned=8),
        _copy("i32", "i32", "plt", columns=256, aligned=4),
        _copy("i16", "i64", "lm", columns=2, aligned=2),
        _copy("u8", "i64", "t", columns=1, aligned=1),
    ],
    "gpu_sample.find_lists": [
        Launch(types=f"{_PIECES} *i64 *{ids} *i64 *i64 *i64 int", constants=_BLOCK | {"padded": padded})
        for ids in ("i64", "i32")
        for padded in (False, True)
    ],
    "gpu_sample.draw_few": [
        Launch(types=f"{_DRAWN} int", constants={"fanout": fanout, "width": width, "block": 512 // width}, hot=True)
        for fanout, width in ((1, 1), (5, 8), (15, 16), (32, 32))
    ],
    "gpu_sample.draw_each": [
        Launch(types=f"{_DRAWN} *i64 int", constants=_BLOCK | {"replace": replace}, hot=True) for replace in (False, True)
    ],
    "gpu_sample.draw_many": [Launch(types=f"{_DRAWN} int int", constants={"block": 1})],
    "gpu_sample.repeat_rows": [Launch(types="*i64 *i64 int int int", constants=_BLOCK, hot=True)],
    "gpu_labor.number_sources": [
        Launch(
            types="*i64 *i64 *i64 *fp64 *fp64 int",
            constants=_BLOCK | {"by_weight": by_weight},
            hot=True,
        )
        for by_weight in (False, True)
    ],
    "gpu_weight_lists.sum_lists": [
        Launch(types="*fp64 *i64 *i64 *fp64 *i64 int", constants={"block": 32}, hot=True, options={"num_warps": 1})
    ],
    "gpu_weighted.draw_by_weight": [
        Launch(
            types="*i64 *i64 *i64 *i64 *i64 *i64 *i64 *i64 *i64 *i64 *i64 int int",
            constants={"replace": replace, "word": f"tl.{word}", "width": width, "block": 32 // width},
            hot=True,
            options={"num_warps": 1},
        )
        for word, width, replace in (
            *(("float32", width, False) for width in (1, 16)),
            *(("float64", 8, False), ("float64", 16, True), ("uint16", 16, False)),
        )
    ],
    "gpu_segments.sum_rows": [
        Launch(
            types=f"*{rows} *{ids} *i64 *{sums} *i64 *{sums} int int int int",
            constants={"columns": 128, "block": 1, "weighted": weighted, "listed": listed, "sums": f"tl.{kind}"},
            hot=True,
        )
        for rows, sums, kind, ids, weighted, listed in (
            ("fp32", "fp32", "float32", "i64", False, False),
            ("bf16", "fp32", "float32", "i32", True, False),
            ("fp64", "fp64", "float64", "i64", True, True),
        )
    ],
    "gpu_segments.take_greatest": [
        Launch(types="*fp32 *i64 *i64 *fp32 int int int", constants={"columns": 128, "block": 1, "sums": "tl.float32"}, hot=True)
    ],
    "gpu_segments.sum_equal": [
        Launch(
            types="*fp32 *fp32 *fp32 *i64 *i64 *fp32 int int",
            constants={"columns": 128, "block": 1, "sums": "tl.float32", "counted": counted},
            hot=True,
        )
        for counted in (False, True)
    ],
    "gpu_segments.multiply_rows": [
        Launch(
            types=f"*{rows} *{rows} *i64 *i64 *i64 *fp32 int int int int",
            constants={"columns": 64, "block": 16, "sums": "tl.float32", "listed": listed},
            hot=True,
        )
        for rows, listed in (("fp32", False), ("fp16", True))
    ],
    "gpu_eligible.search_times": [
        Launch(
            types=f"{_PIECES} {_PIECES} *{wide} *i64 *i64 *i64 *i64 int",
            constants=_BLOCK
            | {"through": through, "has_via": has_via, "word": f"tl.{word}", "via_word": "tl.int32", "wide": f"tl.{kind}"},
            options={"num_warps": 8},
            hot=True,
        )
        for word, kind, wide in (("int64", "int64", "i64"), ("int32", "int64", "i64"), ("float32", "float64", "fp64"))
        for through, has_via in ((True, False), (False, True))
    ],
    "gpu_sums.add_runs": [
        Launch(types=f"*i64 *i64 *{real} int int int", constants={"mean": mean, "columns": 64, "block": 16}, hot=real == "fp32")
        for real, mean in (("fp32", False), ("fp32", True), ("fp64", True))
    ],
    "gpu_relabel.enter_ids": [
        Launch(
            types=f"{_TABLE} *{ids} int *i64 int *i64 *i64 int", constants=_BLOCK | {"dense": dense, "padded": padded}, hot=True
        )
        for ids in ("i64", "i32")
        for dense, padded in ((False, False), (True, False), (False, True), (True, True))
    ],
    "gpu_relabel.mark_first": [Launch(types="*i32 *i64 *i64 *i64 int", constants=_BLOCK)],
    "gpu_relabel.place_new": [
        Launch(types=f"*i32 *i64 *{ids} *i64 *i64 *i64 *i64 int", constants=_BLOCK) for ids in ("i64", "i32")
    ],
    "gpu_relabel.read_bids": [Launch(types="*i32 *i64 *i64 *i64 *i64 int", constants=_BLOCK, hot=True)],
    "gpu_relabel.find_bids": [
        Launch(types=f"{_TABLE} *{ids} int *i64 *i64 int", constants=_BLOCK | {"dense": dense})
        for ids in ("i64", "i32")
        for dense in (False, True)
    ],
}
"""By "module.kernel": the launches that the operations make, one for each types of arguments."""
