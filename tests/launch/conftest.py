"""A stand-in for the trainer that does what its command line says, and a small partitioned graph."""

import os
from pathlib import Path

import pytest

from halohop.datasets import synthetic
from halohop.partitioning.building.build import partition

FAKE = '''
import json, os, signal, subprocess, sys, time
from datetime import timedelta
from pathlib import Path

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

def say(**event):
    print(json.dumps(event), flush=True)

def meet(key="here"):
    """Waits until every rank has come to this point: by files, because importing torch takes seconds."""
    place, begin = Path(__file__).parent / f"{os.environ['MASTER_PORT']}-{key}", time.monotonic()
    place.mkdir(exist_ok=True)
    (place / str(rank)).touch()
    while len(list(place.iterdir())) < size:
        assert time.monotonic() - begin < 100, f"not every rank came to {key}"
        time.sleep(0.01)

def meet_in_store():
    """The last rank and the test wait for each other by the store that the launcher offers."""
    import torch.distributed as dist
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    store.set("rank", "")
    store.wait(["test"], timedelta(seconds=100))

command = sys.argv[1]
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
if command == "report":
    print(f"rank {rank} was here", flush=True)
    meet()
    store, env = [os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])], {name: int(os.environ[name]) for name in names}
    cores = sorted(os.sched_getaffinity(0))
    say(event="world", store=store, arguments=sys.argv[1:], cores=cores, pid=os.getpid(), env=env)
    say(event="secret", token=os.environ["HALOHOP_TOKEN"])
    if 0 < rank == size - 1:  # importing torch takes seconds: one rank is enough
        meet_in_store()
elif command == "wait":  # for ever, with a child of its own
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(f"helper {helper.pid}", file=sys.stderr, flush=True)
    meet()
    say(event="ready", pid=os.getpid())
    if sys.argv[2:] == [str(rank)]:
        os.kill(os.getpid(), signal.SIGKILL)
    if "deaf" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        meet("deaf")
        say(event="deaf")
    helper.wait()
elif command == "fail":
    meet()
    if rank == int(sys.argv[2]):
        print("\\n".join(f"line {i}" for i in range(40)), file=sys.stderr)
        sys.exit("LookupError: no such luck")  # without a traceback, whose length depends on the Python
    time.sleep(600)
elif command == "refuse":
    from halohop.errors import InputError
    meet()
    if rank == int(sys.argv[2]):
        raise InputError("lr=0 must be over 0")
    time.sleep(600)
elif command == "blame":  # rank 1 is killed, and rank 0 is seen to fail before that
    meet()
    if rank:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit("lost my peer")
elif command == "save":  # every rank that is named, else they wait to be asked, and save then
    def saved(*_):
        sys.exit(75)
    signal.signal(signal.SIGTERM, saved)
    meet()
    say(event="ready", pid=os.getpid())
    if str(rank) in sys.argv[2:]:
        sys.exit(75)
    if "fail" in sys.argv:
        sys.exit(1)
    while True:  # a signal just before one long sleep would be seen after it
        time.sleep(0.1)
elif command == "straggle":
    meet()
    if rank:
        time.sleep(600)
'''


@pytest.fixture
def fake_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that `python -m` finds."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "fake_trainer.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"), prepend=os.pathsep)
    return "fake_trainer"


@pytest.fixture(scope="session")
def tiny_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic graph of 1000 nodes in three partitions; nobody writes to it."""
    parts = tmp_path_factory.mktemp("tiny") / "parts"
    partition(synthetic("tiny"), parts, num_parts=3, method="random")
    return parts
