"""Small partitioned graphs, and real trainer processes in torchrun's environment."""

import os
import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch.distributed as dist

import halohop
from halohop.datasets import synthetic, synthetic_hetero
from halohop.recipes.config import InferConfig, TrainConfig, to_dict
from tests.support.forked import Forked

DEADLINE = 200.0


@pytest.fixture(scope="session")
def tiny_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """1,000 nodes with features in two partitions."""
    folder = tmp_path_factory.mktemp("tiny") / "parts"
    halohop.partition(synthetic("tiny"), folder, num_parts=2, method="random")
    return str(folder)


@pytest.fixture(scope="session")
def hetero_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four node types, two of them without features, in two partitions."""
    folder = tmp_path_factory.mktemp("hetero") / "parts"
    halohop.partition(synthetic_hetero(300), folder, num_parts=2, method="random")
    return str(folder)


@dataclass
class Trainer:
    """A process of `halohop.recipes.trainer`, and what it printed."""

    process: Forked
    events: queue.SimpleQueue[dict[str, Any]] = field(default_factory=queue.SimpleQueue)
    lines: dict[str, list[str]] = field(default_factory=lambda: {"out": [], "err": []})
    readers: list[threading.Thread] = field(default_factory=list)

    def read(self) -> None:
        """Drains both pipes in threads."""
        for name, stream in (("out", self.process.stdout), ("err", self.process.stderr)):
            self.readers.append(threading.Thread(target=self._drain, args=(name, stream)))
            self.readers[-1].start()

    def _drain(self, name: str, stream: Any) -> None:
        for line in stream:
            self.lines[name].append(line)
            if name == "out":
                self.events.put(msgspec.json.decode(line))
        if name == "out":
            self.events.put({"event": "nothing more"})

    def wait(self, deadline: float = DEADLINE) -> int:
        code = self.process.wait(deadline)
        for reader in self.readers:
            reader.join(60)
        return code

    @property
    def error(self) -> str:
        return "".join(self.lines["err"])

    def wait_for(self, kind: str) -> dict[str, Any]:
        while True:
            event = self.events.get(timeout=DEADLINE)
            if event["event"] == kind:
                return event
            assert event["event"] != "nothing more", f"it ended without {kind!r}: {self.error}"


StartTrainers = Callable[..., Any]


@pytest.fixture
def start_trainers(tmp_path: Path) -> StartTrainers:
    """Starts trainers: one config per host, and how many trainers each host has. Ends them all afterwards."""

    @contextmanager
    def start(
        configs: Sequence[TrainConfig | InferConfig], per_host: int, module: str = "halohop.recipes.trainer"
    ) -> Iterator[list[Trainer]]:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        token, size = secrets.token_hex(16), len(configs) * per_host
        trainers = []
        try:
            files = [tmp_path / f"config-{host}.json" for host in range(len(configs))]
            for file, config in zip(files, configs, strict=True):  # before any rank reads
                file.write_bytes(msgspec.json.encode(to_dict(config)))
            for rank in range(size):
                host = rank // per_host
                file = files[host]
                env = os.environ | {
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "LOCAL_RANK": str(rank % per_host),
                    "LOCAL_WORLD_SIZE": str(per_host),
                    "GROUP_RANK": str(host),
                    "GROUP_WORLD_SIZE": str(len(configs)),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(store.port),
                    "TORCHELASTIC_USE_AGENT_STORE": "True",
                    "HALOHOP_TOKEN": token,
                    "GLOO_SOCKET_IFNAME": "lo",
                }
                trainers.append(Trainer(Forked(module, [str(file)], env)))
                trainers[-1].read()
            yield trainers
        except BaseException:  # a deadline, too: where a trainer hangs is what one wants to know then
            for rank, trainer in enumerate(trainers):
                trainer.process.show_stacks()
                print(f"rank {rank}:", *trainer.lines["out"][-3:], trainer.error)
            raise
        finally:
            for trainer in trainers:
                trainer.process.kill()
                trainer.wait()
                trainer.process.close()

    return start


@pytest.fixture
def run_trainers(start_trainers: StartTrainers) -> Callable[..., list[dict[str, Any]]]:
    """Runs trainers to a good end; returns rank 0's events."""

    def run(configs: Sequence[TrainConfig], per_host: int, deadline: float = DEADLINE) -> list[dict[str, Any]]:
        with start_trainers(configs, per_host) as trainers:
            codes = [trainer.wait(deadline) for trainer in trainers]
            assert codes == [0] * len(trainers), "\n".join(trainer.error for trainer in trainers)
            assert all(not trainer.lines["out"] for trainer in trainers[1:])
            return [msgspec.json.decode(line) for line in trainers[0].lines["out"]]

    return run


def host_folders(parts: str, folder: Path, hosts: int) -> list[str]:
    """A folder per host with the manifest and the partitions p = host (mod hosts) only."""
    folders = []
    for host in range(hosts):
        own = folder / f"host-{host}"
        own.mkdir(parents=True)
        (own / "manifest.json").symlink_to(Path(parts) / "manifest.json")
        for number, part in enumerate(sorted(Path(parts).glob("part-*"))):
            if number % hosts == host:
                (own / part.name).symlink_to(part)
        folders.append(str(own))
    return folders


@pytest.fixture
def own_folders(tmp_path: Path) -> Callable[[str], list[str]]:
    """Divides a data set of two partitions between two hosts."""
    return lambda parts: host_folders(parts, tmp_path / "hosts", 2)
