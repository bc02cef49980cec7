"""Types of the columns of text tables: those that reading all files of a table as one would infer.

pyarrow's reader of whole files takes the first type of a list to which all fields of a column can be converted; its streaming
reader asks the first rows alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from halohop.datasets.arrow import column_types, pyarrow, reading, stream_columns
from halohop.errors import InputError


def text_types(paths: Sequence[Path], names: Sequence[str], num_bytes: int) -> list[str]:
    """The types of some columns, as `type_of` reads them; one pass over the files, several where the first rows mislead.

    Args:
        paths: the files of a table, at least one.
        names: of the columns.
        num_bytes: about how much is read at a time.

    Raises:
        IncompleteDatasetError, InputError: as `halohop.datasets.arrow.read_columns`.
    """
    order, first = _kinds(), []
    for path in paths:
        with reading(path, names):
            first.append(column_types(path, num_bytes))
    guess = {name: max((schema.field(name).type for schema in first), key=order.index) for name in names}
    if _refusal(paths, guess, num_bytes) is None:
        return [_text(guess[name]) for name in names]
    return [_text(_found(paths, name, guess[name], num_bytes)) for name in names]


def type_of(text: str) -> Any:
    """The type of a column, from its text."""
    return next(kind for kind in _kinds() if _text(kind) == text)


def _kinds() -> list[Any]:
    """In the order in which they are tried."""
    pa = pyarrow()
    times = [pa.timestamp(unit, zone) for unit in ("s", "ns") for zone in (None, "UTC")]
    return [pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), *times, pa.float64(), pa.string(), pa.binary()]


def _found(paths: Sequence[Path], name: str, guess: Any, num_bytes: int) -> Any:
    kinds = _kinds()
    refusal: InputError | None = None
    for kind in kinds[kinds.index(guess) :]:
        refusal = _refusal(paths, {name: kind}, num_bytes)
        if refusal is None:
            return kind
    assert refusal is not None
    raise refusal  # bytes are no text of any type: the file is no table


def _refusal(paths: Sequence[Path], types: dict[str, Any], num_bytes: int) -> InputError | None:
    """Why not all of some columns can be converted to some types."""
    try:
        for path in paths:
            for _ in stream_columns(path, list(types), types, num_bytes):
                pass
    except InputError as error:
        return error
    return None


def _text(kind: Any) -> str:
    return str(kind)
