"""Archives of stored data, unpacked on every Python that is promised."""

import tarfile
from pathlib import Path
from typing import Any


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a tar file into a folder. Python knows filters since 3.11.4, and warns without one from 3.12 on."""
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as opened:
        opened.extractall(folder, **safely)
