"""The kind of a column of ids or labels, text or numbers: decided by all files of a table together, or given by the user.

A text file holds characters only. A column of it holds numbers if every field in every file is one, and none has a leading zero
that a number would lose (007, 02134). Parquet files declare the types of their columns.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from halohop.datasets.arrow import Column, is_text, pyarrow
from halohop.datasets.table_parts import Part
from halohop.errors import InputError

TEXT, NUMBER = "text", "number"
INTEGERS, DECIMALS, STRINGS = "int64", "double", "large_string"
_NUMBERS = (INTEGERS, DECIMALS, "bool")
_PROBE = 1_000  # rows; a cast that fails takes long, as pyarrow does not stop at the first value


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type that the values of a column are read as.

    Args:
        name: ``int64``, ``double``, ``bool`` or ``large_string``, as pyarrow names the type.
        given: whether the user chose it. Then numbers lose leading zeros, and Parquet columns are converted, too.
    """

    name: str
    given: bool = False

    def column(self, part: Part, name: str, expected: str, error: type[InputError] = InputError) -> Column:
        """A column as this kind, with its nulls.

        Args:
            part, name: which column.
            expected: what the error says that a value must be.
            error: what is raised.

        Raises:
            InputError: a value of another kind; names its row. Or a Parquet column that is declared to be of another kind.
        """
        column = plain(part.columns[name])
        fits = self.fits(part, column)
        found = self.converted(column) if fits else None
        if found is not None:
            return found
        if not _kinds_of(column.type):
            raise error(f"{part.path}: column {name!r} holds {column.type}, expected {expected}; store integers or text")
        if not fits:
            raise InputError(
                f"{part.path}: column {name!r} is {column.type}, expected {self.name} as in the other files; "
                f'store one type, or set kinds = {{{name} = "{TEXT}"}} in graph.toml'
            )
        low, high = 0, len(column)  # column[:low] can be converted, column[:high] cannot
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.converted(column[:middle]) is None else (middle, high)
        raise error(f"{part.path}: column {name!r} holds {column[low].as_py()!r} in row {part.row(low)}, expected {expected}")

    def fits(self, part: Part, column: Column) -> bool:
        """True if the type of a column allows this kind. Columns of text files allow every kind; their values decide."""
        if is_text(part.path) or self.given or not len(column) or pyarrow().types.is_null(column.type):
            return True
        return self.name in _kinds_of(column.type)

    def converted(self, column: Column) -> Column | None:
        """A column as this kind; None if a value is of another."""
        pa, target = pyarrow(), pyarrow().type_for_alias(self.name)
        if not len(column):
            return pa.array([], target)
        if self.name != STRINGS and _kinds_of(column.type) == (STRINGS,):
            if len(column) > _PROBE and _parsed(column[:_PROBE], target, zeros=self.given) is None:
                return None
            return _parsed(column, target, zeros=self.given)
        try:
            return column.cast(target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None


def kind_name(columns: Callable[[], Iterable[tuple[Part, str]]], given: str | None = None) -> str:
    """The name of the `Kind` of some columns together: the first of ``int64``, ``double`` and ``bool`` that all their values
    are, else ``large_string``.

    Args:
        columns: parts of tables, and the column in each; called for each kind that is tried.
        given: TEXT or NUMBER, if the user chose one.
    """
    if given == TEXT:
        return STRINGS
    for kind in (Kind(name=name, given=given is not None) for name in _NUMBERS):
        if all(_holds(part, name, kind) for part, name in columns()):
            return kind.name
    return STRINGS if given is None else INTEGERS


def _holds(part: Part, name: str, kind: Kind) -> bool:
    """True if a column can be of a kind; of Parquet files only the declared types are asked."""
    column = plain(part.columns[name])
    parsed = is_text(part.path) or kind.given
    return kind.fits(part, column) and not (parsed and kind.converted(column) is None)


def plain(column: Column) -> Column:
    """A column whose values are not numbered in a dictionary."""
    return column.cast(column.type.value_type) if pyarrow().types.is_dictionary(column.type) else column


def _kinds_of(declared: object) -> tuple[str, ...]:
    """The names of the kinds that the values of a declared type can be read as."""
    types = pyarrow().types
    if types.is_integer(declared) or types.is_decimal(declared):
        return INTEGERS, DECIMALS
    if types.is_string(declared) or types.is_large_string(declared):
        return (STRINGS,)
    return _NUMBERS if types.is_boolean(declared) else (DECIMALS,) if types.is_floating(declared) else ()


def _parsed(column: Column, target: object, *, zeros: bool) -> Column | None:
    """Strings as numbers; `zeros` allows leading zeros."""
    pa, pc = pyarrow(), pyarrow("compute")
    for trim in (False, True):
        texts = pc.ascii_trim_whitespace(column) if trim else column
        if trim and texts.equals(column):
            return None
        try:
            numbers = texts.cast(target)
        except pa.ArrowInvalid:
            continue
        doubtful = texts.filter(pc.or_(pc.starts_with(texts, "0"), pc.starts_with(texts, "-0")))
        lost = not zeros and pc.any(pc.match_substring_regex(doubtful, "^-?0[0-9xX]")).as_py()
        return None if lost else numbers
    return None
