"""How much memory a trainer has, on made-up machines, and what it gives back."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from halohop import memory
from halohop.errors import InputError

GIB = 2**30


def machine(root: Path, groups: str, limits: dict[str, str], total: int = 24 * GIB) -> Path:
    files = {
        "proc/meminfo": f"MemTotal: {total // 1024} kB\nMemFree: 1 kB\nMemAvailable: {(total - 4 * GIB) // 1024} kB\n",
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{name}": limit for name, limit in limits.items()},
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/\n", {}, 24 * GIB),
        ("0::/\n", {"memory.max": f"{4 * GIB}\n"}, 4 * GIB),
        ("0::/jobs/17\n", {"jobs/17/memory.max": "max\n", "jobs/memory.max": f"{6 * GIB}\n"}, 6 * GIB),
        ("0::/not/mounted\n", {"memory.max": f"{2 * GIB}\n"}, 2 * GIB),
        ("3:cpu:/a\n9:memory:/b\n", {"memory/b/memory.limit_in_bytes": f"{3 * GIB}\n"}, 3 * GIB),
        ("9:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 24 * GIB),
        ("0::/../outside\n", {"memory.max": f"{GIB}\n"}, GIB),
    ],
)
def test_the_lowest_limit_counts(tmp_path: Path, groups: str, limits: dict[str, str], expected: int) -> None:
    assert memory.machine_bytes(machine(tmp_path, groups, limits)) == expected


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {}, 20 * GIB),
        ("0::/jobs\n", {"jobs/memory.max": f"{4 * GIB}\n", "jobs/memory.current": f"{3 * GIB}\n"}, GIB),
        (
            "0::/jobs\n",
            {
                "jobs/memory.max": f"{4 * GIB}\n",
                "jobs/memory.current": f"{4 * GIB}\n",
                "jobs/memory.stat": f"anon 5\nactive_file {GIB}\ninactive_file {2 * GIB}\n",
            },
            3 * GIB,
        ),
        (
            "9:memory:/a\n",
            {
                "memory/a/memory.limit_in_bytes": f"{2 * GIB}\n",
                "memory/a/memory.usage_in_bytes": f"{2 * GIB}\n",
                "memory/a/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB}\n",
            },
            GIB,
        ),
        ("0::/over\n", {"over/memory.max": f"{GIB}\n", "over/memory.current": f"{2 * GIB}\n"}, 0),
    ],
)
def test_what_files_take_is_available(tmp_path: Path, groups: str, files: dict[str, str], expected: int) -> None:
    assert memory.available_bytes(machine(tmp_path, groups, files)) == expected


def test_private_bytes_are_those_of_no_file(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("Name:\tx y\nVmRSS: 900 kB\nRssAnon: 100 kB\nRssFile: 780 kB\nRssShmem: 20 kB\n")
    assert memory.private_bytes(tmp_path) == 120 * 1024
    assert memory.private_bytes(tmp_path / "nowhere") == 0


def test_trainers_share_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine(tmp_path, "0::/\n", {})
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert memory.trainer_bytes(root) == 6 * GIB


@pytest.mark.parametrize(("each", "spare"), [(12 * GIB, 768 * 2**20), (64 * GIB, 4 * GIB), (1000 * GIB, 4 * GIB)])
def test_what_is_spare_has_an_upper_bound(monkeypatch: pytest.MonkeyPatch, each: int, spare: int) -> None:
    monkeypatch.setattr(memory, "trainer_bytes", lambda: each)
    assert memory.spare_bytes() == spare


@pytest.mark.parametrize("text", ["", "MiB", "12 parsecs", "-1", "1,5GiB", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no size; write a number and a unit"):
        memory.parse_size(text)


glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps so much")


def resident() -> int:
    """Pages of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1])


@glibc
def test_what_was_freed_goes_back_to_the_system() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    blocks = [libc.malloc(60_000) for _ in range(1000)]
    for block in blocks:
        ctypes.memset(block, 1, 60_000)
    for block in blocks[:-1]:  # the last one is at the end of the heap
        libc.free(block)
    before = resident()
    memory.release()
    assert (before - resident()) * 4096 > 40_000_000
    libc.free(blocks[-1])


MALLOC = """
import ctypes, threading
from halohop import memory
memory.limit_heaps()
libc, together = ctypes.CDLL(None), threading.Barrier(12)
def allocate():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_stats()
"""


@glibc
@pytest.mark.parametrize(
    ("env", "heaps"),
    [({"LOCAL_WORLD_SIZE": "1000"}, 1), ({"MALLOC_ARENA_MAX": "3"}, 3), ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}, 4)],
    ids=["ours", "the user's", "the user's tunables"],
)
def test_threads_share_few_heaps(env: dict[str, str], heaps: int) -> None:
    path = {"PYTHONPATH": str(Path(memory.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", MALLOC], env=path | env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.count("Arena ") == heaps
