"""A small data set whose files have several chunks each, and a store that does what a test wants."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from halohop.datasets import synthetic
from halohop.files import url_folder
from halohop.partitioning.building.build import partition
from halohop.store import checksums

CHUNK = 4096

Change = Callable[[str, int, bytes], bytes]
"""Of what a file's bytes from an offset on are to become, for one answer of the store."""


@dataclass(slots=True)
class Store:
    """What is asked of ``file://``, and how it answers; a test replaces `change`."""

    asked: list[tuple[str, int]] = field(default_factory=list)
    change: Change = lambda name, begin, data: data
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def files(self) -> set[str]:
        """What was asked of, by the path in the data set."""
        return {name for name, _ in self.asked}


@pytest.fixture(scope="session")
def far_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions, with several checksums for most files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "CHUNK", CHUNK)
        folder = tmp_path_factory.mktemp("far") / "parts"
        partition(synthetic("tiny"), folder, num_parts=3, method="random")
        return folder


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "CHUNK", CHUNK)
    monkeypatch.setattr(url_folder, "_PAUSE_S", 0.01)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store behind ``file://``, which counts what is asked of it."""
    found = Store()
    plain = LocalFileSystem.cat_file

    def cat_file(self: LocalFileSystem, path: str, start: int | None = None, end: int | None = None) -> bytes:
        with found.lock:
            found.asked.append((re.sub(".*/part-", "part-", path).rpartition("/parts/")[2], start or 0))
        data: bytes = plain(self, path, start=start, end=end)
        return found.change(path, start or 0, data)

    monkeypatch.setattr(LocalFileSystem, "cat_file", cat_file)
    return found
