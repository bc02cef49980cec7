"""How much memory partitioning may take, and how many rows that is at a time."""

from dataclasses import dataclass

from halohop.errors import InputError
from halohop.memory import available_bytes, format_size, parse_size

LEAST = 64 << 20
"""No build is worth beginning with less: its code and its thread stacks alone take so much."""

_SHARE = 2  # of what is available, by default: the rest is for others, and for the page cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bytes of memory that a build may take.

    Example:
        >>> Budget.parse("4GB").bytes, Budget.parse("512MiB").bytes, Budget.parse(2**30).bytes
        (4000000000, 536870912, 1073741824)
    """

    bytes: int

    @classmethod
    def parse(cls, memory: "str | int | Budget | None") -> "Budget":
        """From what a user says: a size as `halohop.memory.parse_size` reads it, or a number of bytes. None is half of what is
        available, in the machine or in the control group.

        Raises:
            InputError: it is no size, or too little to begin with.
        """
        if isinstance(memory, Budget):
            return memory
        if memory is None:
            return cls(bytes=max(available_bytes() // _SHARE, LEAST))
        if isinstance(memory, bool) or not isinstance(memory, str | int):
            raise InputError(f"memory={memory!r} is no size; give a number of bytes, or a text such as '4GB' or '512MiB'")
        try:
            size = parse_size(memory)
        except InputError as error:
            raise InputError(f"memory={memory!r} is no size; write a number and a unit, such as '4GB' or '512MiB'") from error
        if size < LEAST:
            raise InputError(f"memory={memory!r} is too little to build with; give at least {format_size(LEAST)}")
        return cls(bytes=size)

    def __str__(self) -> str:
        return format_size(self.bytes)
