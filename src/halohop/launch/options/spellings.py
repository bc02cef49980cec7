"""Tables of the command line: names and readers of values by type, and names by field; and types of text for them."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from halohop.launch.options.parsing import cache_bytes, flags, names, numbers, pairs, size_text
from halohop.memory import parse_size
from halohop.recipes.checks import Bytes, CacheSize, Seconds, SizeText

File = Annotated[str, Meta(title="file")]
Folder = Annotated[str, Meta(title="folder")]
FolderOrUrl = Annotated[str, Meta(title="folder or URL")]
Hosts = tuple[str, ...] | int

SPELLINGS: Mapping[Any, tuple[str, Callable[[str], Any] | None]] = {
    tuple[int, ...]: ("N,N,...", numbers),
    tuple[str, ...]: ("NAME,NAME,...", names),
    Bytes: ("SIZE", parse_size),
    CacheSize: ("SIZE", cache_bytes),
    SizeText: ("SIZE", size_text),
    Seconds: ("SECONDS", None),
    File: ("FILE", None),
    Folder: ("FOLDER", None),
    FolderOrUrl: ("FOLDER|URL", None),
    Hosts: ("NAME,NAME,...|N", str),
    Mapping[str, str]: ("NAME=VALUE", pairs),
    Mapping[str, Any]: ("NAME=VALUE", flags),
}
"""By type: the name of a value in the help, and its reader if typer cannot read it."""

TERMINAL: Mapping[str, str | None] = {
    "advertise": "HOST:PORT",
    "column": "[TABLE:]NAME=FILE",
    "copy_to": None,
    "device": "NAME",
    "engine": "NAME",
    "feature_dtype": "DTYPE",
    "grace": "SECONDS",
    "lease": "SECONDS",
    "listen": "HOST:PORT",
    "log_every": None,
    "metrics": "[HOST]:PORT",
    "name": "NAME",
    "normalize": "--normalize/--no-normalize",
    "options": None,
    "partitions": "N,N,...",
    "peers": "HOST:PORT,...|folder:PATH|dns:NAME:PORT",
    "relation": "SRC,NAME,DST",
    "replica_ratio": "SHARE",
    "run": None,
    "share": "K/N,...",
    "split": "NAME",
    "stall": "SECONDS",
    "strict_negatives": "--strict-negatives/--no-strict-negatives",
    "target": "TYPE",
    "time_attr": "COLUMN",
    "token_file": "FILE",
}
"""By field: the name of a value in the help, if its type has none, or the names of a flag. None: the field has no option."""
