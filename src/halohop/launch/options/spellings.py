"""Tables of the command line: names and readers of values by type, and names by field."""

from collections.abc import Callable, Mapping
from typing import Any

from halohop.launch.options.parsing import cache_bytes, names, numbers, size_text
from halohop.memory import parse_size
from halohop.recipes.checks import Bytes, CacheSize, Seconds, SizeText

SPELLINGS: Mapping[Any, tuple[str, Callable[[str], Any] | None]] = {
    tuple[int, ...]: ("N,N,...", numbers),
    tuple[str, ...]: ("NAME,NAME,...", names),
    Bytes: ("SIZE", parse_size),
    CacheSize: ("SIZE", cache_bytes),
    SizeText: ("SIZE", size_text),
    Seconds: ("SECONDS", None),
}
"""By type: the name of a value in the help, and its reader if typer cannot read it."""

TERMINAL: Mapping[str, str | None] = {
    "advertise": "HOST:PORT",
    "column": "[TABLE:]NAME=FILE",
    "copy_to": None,
    "device": "NAME",
    "feature_dtype": "DTYPE",
    "grace": "SECONDS",
    "lease": "SECONDS",
    "listen": "HOST:PORT",
    "log_every": None,
    "metrics": "[HOST]:PORT",
    "normalize": "--normalize/--no-normalize",
    "partitions": "N,N,...",
    "peers": "HOST:PORT,...|folder:PATH|dns:NAME:PORT",
    "relation": "SRC,NAME,DST",
    "replica_ratio": "SHARE",
    "share": "K/N,...",
    "split": "NAME",
    "strict_negatives": "--strict-negatives/--no-strict-negatives",
    "target": "TYPE",
    "time_attr": "COLUMN",
    "token_file": "FILE",
}
"""By field: the name of a value in the help, if its type has none, or the names of a flag. None: the field has no option."""
