"""What every test gets: moderate hypothesis settings, the real graphs, and guards against whatever a test leaves behind.

The deadline of each test is pytest-timeout's, set in pyproject.toml.
"""

import gc
import importlib.util
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("halohop", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("halohop")

# Read when torch is imported, here, in workers of pytest-xdist and in children of tests. Several processes share the cores, and
# tensors of tests are small: threads of OpenMP would spin waiting for each other. Trainers ask for one per core, hence the limit.
os.environ |= {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"}

# Kernels of a GPU run in Triton's interpreter, on memory of the host; read when the first of them is imported.
os.environ.setdefault("TRITON_INTERPRET", "1")

FEW_CASES = 5
"""`make test` runs all cases of a test that has at most so many."""

GRACE_SECONDS = 20.0
"""How long a thread that was told to stop may take to do so."""

HARMLESS_THREADS = re.compile(r"pytest_timeout|tqdm|TMonitor|fsspecIO|_DummyThread|_TimerThread")
"""Names or classes of threads that libraries keep for the life of the process."""

HARMLESS_CHILDREN = re.compile(r"multiprocessing\.(resource_tracker|forkserver)|torch_shm_manager")

SPARE_DESCRIPTORS = {"socket": 4, "pipe": 8, "anon_inode": 16, "file": 8}
"""Descriptors that libraries may open once and keep (an event loop, a random source); a leak per test soon exceeds them."""


def pytest_configure(config: pytest.Config) -> None:
    """Shells start background jobs with Ctrl-C ignored, nohup with SIGHUP, and children inherit that; tests of signals need
    them heard. This process itself still ignores SIGHUP."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    if sys.version_info[:3] == (3, 13, 0):  # torch's compiler says so
        config.addinivalue_line("filterwarnings", "ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")


def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than cores, because tests of connections wait more than they compute; each takes about 1.5 GB."""
    return min(len(os.sched_getaffinity(0)) + 2, 8)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Python would look for garbage among the objects of 15,000 tests again and again, which takes a seventh of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    _mark_combinations(items)
    yield
    _name_groups(config, items)


def _mark_combinations(items: list[pytest.Item]) -> None:
    """Marks as `full` the cases of a test whose parameters all have values that earlier cases have."""
    cases = Counter(_test_of(item) for item in items)
    seen: defaultdict[str, set[tuple[str, object]]] = defaultdict(set)
    for item in items:
        test, call = _test_of(item), getattr(item, "callspec", None)
        if call is None or cases[test] <= FEW_CASES or item.get_closest_marker("full"):
            continue
        values = {(name, _same(value)) for name, value in call.params.items()}
        if values <= seen[test]:
            item.add_marker("full")
        seen[test] |= values


def _test_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _same(value: object) -> object:
    """Equal for parameters that are."""
    return repr(value) if isinstance(value, bool | int | float | str | bytes | tuple | None) else id(value)


def _name_groups(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Appends the group of a test to its id, by which pytest-xdist gives groups to processes.

    pytest-xdist 3.8 sets an attribute for that which pytest 9.2 no longer reads: tests of a group ran side by side.
    """
    if not getattr(config.option, "loadgroup", False) or importlib.util.find_spec("_pytest.nodeid") is None:
        return
    from _pytest.nodeid import coerce_node_id

    for item in items:
        for mark in item.iter_markers("xdist_group"):
            if not item.nodeid.endswith(f"@{mark.args[0]}"):
                item._id = coerce_node_id(f"{item.nodeid}@{mark.args[0]}")  # type: ignore[attr-defined]


@pytest.fixture
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """``device="cuda:0"`` is a GPU that is pretended."""
    import torch

    from halohop.ops import device
    from tests.support.pretend_gpu import PretendPool

    def pool(name: str, counters: object = None) -> PretendPool:
        return PretendPool(counters, index=torch.device(name).index or 0)  # type: ignore[arg-type]

    monkeypatch.setattr(device, "device_pool", pool)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real graphs."""
    folder = (Path(__file__).parents[1] / "../shared/data").resolve()
    if not folder.is_dir():
        pytest.skip("the real graphs are not here: no folder ../shared/data beside the checkout")
    return folder


@pytest.fixture(scope="session")
def pyg_root(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real graphs where PyG's classes look for their raw files; ``WordNet18RR`` has the root ``wn18rr`` below it."""
    root = tmp_path_factory.mktemp("pyg")
    amazon = shared_data / "amazon_coauthor"
    raw = {name: [amazon / f"amazon_electronics_{name.lower()}.npz"] for name in ("Photo", "Computers")}
    raw |= {"CS": [amazon / "ms_academic_cs.npz"], "aifb": [*(shared_data / "aifb").glob("*.[gt]*")]}
    raw |= {"wn18rr": [shared_data / f"wn18rr/{split}.txt" for split in ("train", "valid", "test")]}
    for name, files in raw.items():
        (root / name / "raw").mkdir(parents=True)
        for file in files:
            (root / name / "raw" / file.name).symlink_to(file)
    return root


@pytest.fixture(scope="session", autouse=True)
def _imported_objects_stay() -> Iterator[None]:
    """Many tests ask for a collection: it need not look at the million objects of imported modules, which takes 0.4 s."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _no_leaked_threads() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + GRACE_SECONDS
    started = [thread for thread in threading.enumerate() if thread not in before and not _is_harmless(thread)]
    if started:
        gc.collect()  # what Lightning's trainer holds goes with it, and it lies in a cycle of references
    for thread in started:
        thread.join(max(deadline - time.monotonic(), 0))
    alive = [repr(thread) for thread in started if thread.is_alive()]
    if alive:
        pytest.fail(f"the test left threads behind: {', '.join(alive)}", pytrace=False)


@pytest.fixture(autouse=True)
def _no_files_in_memory() -> Iterator[None]:
    """Empties ``memory://``, which is one place for all tests of a process: the next one would find what this one has sent."""
    yield
    if memory := sys.modules.get("fsspec.implementations.memory"):
        memory.MemoryFileSystem.store.clear()
        memory.MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture(scope="session", autouse=True)
def _no_leaked_resources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compares the process at the end of the session with its start; temporary files go to a folder of this session."""
    temporary = tmp_path_factory.mktemp("tmp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr(tempfile, "tempdir", None)
        descriptors, children, shared_memory = _descriptors(), _children(), _shared_memory()
        yield
    gc.collect()
    multiprocessing.active_children()  # reaps those that have ended
    leaks = [f"process {pid}: {command}" for pid, command in _children().items() if pid not in children]
    leaks += [f"shared memory {name}" for name in sorted(_shared_memory() - shared_memory)]
    leaks += [f"temporary file {path}" for path in sorted(temporary.glob("halohop*"))]
    new = _descriptors() - descriptors
    leaks += [f"{new[kind]} descriptors of kind {kind}" for kind, spare in SPARE_DESCRIPTORS.items() if new[kind] > spare]
    if leaks:
        pytest.fail("the session left behind: " + "; ".join(leaks), pytrace=False)


@pytest.fixture
def no_more_than() -> Callable[[int], AbstractContextManager[None]]:
    """Within ``no_more_than(size)`` no file grows beyond `size` bytes, as on a full disk."""

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


def _is_harmless(thread: threading.Thread) -> bool:
    return bool(HARMLESS_THREADS.search(f"{thread.name} {type(thread).__name__}"))


def _children() -> dict[int, str]:
    """Command lines of this process's children by pid, zombies included (an exit code that nobody asked for)."""
    pids = [int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in _read(file).split()]
    commands = {pid: _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip() or "ended, never waited for" for pid in pids}
    return {pid: command for pid, command in commands.items() if not HARMLESS_CHILDREN.search(command)}


def _descriptors() -> Counter[str]:
    """Open file descriptors by kind."""
    kinds: Counter[str] = Counter()
    for link in Path("/proc/self/fd").glob("*"):
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # the descriptor that listed the folder
            continue
        if target.startswith("/dev/nvidia"):  # CUDA opens dozens of them, and keeps them for the life of the process
            continue
        kinds["file" if target.startswith("/") else target.split(":")[0]] += 1
    return kinds


def _shared_memory() -> set[str]:
    """Shared memory files that this session can have made: not those of a process that lives and is not ours."""
    names = {path.name for path in Path("/dev/shm").glob("*") if path.name.startswith(("halohop", "torch_"))}
    return {name for name in names if not _belongs_to_others(name)}


def _belongs_to_others(name: str) -> bool:
    maker = re.match(r"[a-z]+_(\d+)", name)
    return maker is not None and int(maker[1]) != os.getpid() and Path(f"/proc/{maker[1]}").exists()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):  # the process is gone meanwhile
        return ""
