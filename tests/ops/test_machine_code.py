"""The files of machine code: what is found there, and what is not."""

import inspect

import numpy as np
import pytest

from halohop.errors import WriteError
from halohop.ops import cpu_jit, cpu_kept


def doubled(values, out):
    for i in range(values.size):
        out[i] = values[i] + values[i]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_kept, "folders", lambda: cpu_kept.Folders(written=tmp_path, read=(tmp_path,)))
    return tmp_path


def used():
    """How often a new process's kernel was loaded, and how often it was compiled, for one call."""
    kernel, out = cpu_jit.kernel(doubled), np.zeros(2, np.int64)
    kernel(np.array([1, 2]), out)
    assert out.tolist() == [2, 4]
    return sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values())


def test_what_was_compiled_is_loaded(folder):
    assert used() == (0, 1)
    (file,) = folder.iterdir()  # no lock, nothing unfinished
    assert file.name.startswith("test_machine_code.doubled-")
    assert used() == (1, 0)


@pytest.mark.parametrize("damage", [lambda code: code[:100], lambda code: b"", lambda code: code[:-1] + b"?"])
def test_a_damaged_file_is_compiled_and_written_anew(folder, damage):
    """As after a power failure."""
    used()
    (file,) = folder.iterdir()
    damaged = damage(file.read_bytes())
    file.write_bytes(damaged)
    assert used() == (0, 1)
    assert file.read_bytes() != damaged
    assert used() == (1, 0)


def test_what_a_killed_process_left_is_ignored(folder):
    """A lock that is not held any more, and an unfinished file."""
    used()
    (file,) = folder.iterdir()
    file.rename(f"{file}.partial-00000000-00000000")
    file.with_suffix(".lock").touch()
    assert used() == (0, 1)
    assert used() == (1, 0)


@pytest.mark.parametrize("change", ["source", "cpu_jit", "processor"])
def test_code_of_another_source_or_processor_is_not_found(folder, monkeypatch, change):
    used()
    if change == "processor":
        monkeypatch.setattr(cpu_kept, "processor", lambda: ("another", ""))
    else:
        known, name = cpu_kept.digest_of, inspect.getfile(doubled) if change == "source" else "cpu_jit.py"
        monkeypatch.setattr(cpu_kept, "digest_of", lambda path: "changed" if str(path).endswith(name) else known(path))
    assert used() == (0, 1)
    assert used() == (1, 0)


def test_what_older_sources_became_goes_beside_the_sources_only(folder, monkeypatch):
    for kept_here, files in ((False, 2), (True, 1)):
        monkeypatch.setattr(cpu_kept, "_HERE", folder if kept_here else folder / "elsewhere")
        for source in ("older", f"newer {kept_here}"):
            monkeypatch.setattr(cpu_kept, "digest_of", lambda path, source=source: source)
            assert used()[1] == (0 if source == "older" and kept_here else 1)
        assert len(list(folder.iterdir())) == files


def test_a_folder_that_cannot_be_written_is_read(folder, monkeypatch):
    used()
    monkeypatch.setattr(cpu_kept, "folders", lambda: cpu_kept.Folders(written=None, read=(folder,)))
    assert used() == (1, 0)
    (file,) = folder.iterdir()
    file.unlink()
    assert used() == (0, 1)
    assert not list(folder.iterdir())


def test_a_disk_that_is_full_is_named(folder, monkeypatch):
    (folder / "file").touch()
    monkeypatch.setattr(cpu_kept, "folders", lambda: cpu_kept.Folders(written=folder / "file" / "below", read=()))
    with pytest.raises(WriteError, match="below"):
        used()
